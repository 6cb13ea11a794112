import assert from "node:assert/strict";
import { HeapTimers } from "../../../src/platform/timers.ts";
import type { StorageFailure } from "../../../src/storage/contract.ts";
import { LogFlusher } from "../../../src/storage/sqlite/log_flusher.ts";
import { RecordedLog } from "./support/provider.ts";

const INTERVAL_MS = 150;

/** A flusher over a disk the test plays: each flush waits until it is ended. */
class Rig {
  now = 0;
  readonly clock = { monotonic: () => this.now, wall: () => 0n };
  readonly timers = new HeapTimers(this.clock, (error) => {
    throw error;
  });
  readonly log = new RecordedLog();
  started = 0;
  recoveries: ((recovered: boolean) => void)[] = [];
  #running: { resolve(): void; reject(error: Error): void } | undefined;
  readonly flusher = new LogFlusher({
    provider: "plant",
    filePath: "/data/plant.db",
    file: {
      syncData: () => {
        this.started++;
        return new Promise<void>((resolve, reject) => this.#running = { resolve, reject });
      },
      close() {},
    },
    intervalMs: INTERVAL_MS,
    clock: this.clock,
    timers: this.timers,
    log: this.log,
    recover: (done) => this.recoveries.push(done),
  });

  pass(ms: number): void {
    this.now += ms;
    this.timers.runDue();
  }

  async end(error?: Error): Promise<void> {
    const running = this.#running!;
    this.#running = undefined;
    if (error === undefined) running.resolve();
    else running.reject(error);
    await Promise.resolve();
    await Promise.resolve();
  }

  stop(): void {
    this.timers.stop();
  }
}

Deno.test("S83 the log is flushed once an interval, and only when something was committed", async () => {
  const rig = new Rig();
  rig.pass(10 * INTERVAL_MS);
  assert.equal(rig.started, 0);
  rig.flusher.committed();
  rig.flusher.committed();
  rig.pass(INTERVAL_MS - 1);
  assert.equal(rig.started, 0);
  rig.pass(1);
  assert.equal(rig.started, 1);
  await rig.end();
  rig.pass(10 * INTERVAL_MS);
  assert.equal(rig.started, 1);
  rig.stop();
});

Deno.test("S27 a commit that comes while a flush runs is covered by the next one", async () => {
  const rig = new Rig();
  const heard: string[] = [];
  rig.flusher.committed();
  rig.flusher.whenFlushed(() => heard.push("first"));
  assert.equal(rig.started, 1);
  rig.flusher.committed();
  rig.flusher.whenFlushed(() => heard.push("second"));
  assert.equal(rig.started, 1);
  await rig.end();
  assert.deepEqual(heard, ["first"]);
  assert.equal(rig.started, 2);
  await rig.end();
  assert.deepEqual(heard, ["first", "second"]);
  rig.flusher.whenFlushed(() => heard.push("nothing new"));
  assert.equal(heard.length, 3);
  assert.equal(rig.started, 2);
  rig.stop();
});

Deno.test("X35 S85 every failed flush is counted, one line opens a streak, and each interval tries again", async () => {
  const rig = new Rig();
  const outcomes: (StorageFailure | undefined)[] = [];
  rig.flusher.committed();
  rig.flusher.whenFlushed((failure) => outcomes.push(failure));
  await rig.end(new Error("Input/output error"));
  assert.match(
    outcomes[0]!.message,
    /^storage \/data\/plant\.db: cannot be flushed .*Input\/output/,
  );
  assert.equal(rig.log.lines.length, 1);
  rig.pass(INTERVAL_MS);
  // What the disk did not take is taken from the file instead: a second flush of the log proves nothing.
  assert.equal(rig.started, 1);
  rig.recoveries.shift()!(false);
  assert.equal(rig.flusher.failures, 2);
  assert.equal(rig.log.lines.length, 1);
  rig.pass(INTERVAL_MS);
  rig.recoveries.shift()!(true);
  rig.flusher.committed();
  rig.pass(INTERVAL_MS);
  assert.equal(rig.started, 2);
  await rig.end(new Error("again"));
  assert.equal(rig.log.lines.length, 2);
  assert.equal(rig.flusher.failures, 3);
  rig.stop();
});

Deno.test("05 9 the age of what is not on the disk: from the oldest commit that no flush covers", async () => {
  const rig = new Rig();
  assert.equal(rig.flusher.unflushedMs, 0);
  rig.flusher.committed();
  rig.pass(100);
  rig.flusher.committed();
  assert.equal(rig.flusher.unflushedMs, 100);
  rig.pass(INTERVAL_MS - 100);
  rig.pass(10);
  rig.flusher.committed();
  rig.pass(20);
  assert.equal(rig.flusher.unflushedMs, INTERVAL_MS + 30);
  await rig.end();
  assert.equal(rig.flusher.unflushedMs, 20, "what came during the flush waits for the next one");
  rig.pass(INTERVAL_MS);
  await rig.end(new Error("the disk is gone"));
  assert.ok(rig.flusher.failing);
  assert.equal(rig.flusher.unflushedMs, INTERVAL_MS + 20);
  rig.pass(INTERVAL_MS);
  rig.recoveries.shift()!(true);
  assert.ok(!rig.flusher.failing);
  assert.equal(rig.flusher.unflushedMs, 0);
  rig.stop();
});
