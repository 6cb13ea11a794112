/** What a power cut leaves of the write-ahead log: a stretch of it from its beginning (X32, X33, S84, S197). */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import type { StoreSpec } from "../../../src/storage/contract.ts";
import { check } from "../check/support.ts";
import { Dice } from "../conformance/random_steps.ts";
import {
  appendRow,
  inTempDir,
  message,
  publish,
  testProvider,
  withProvider,
} from "./support/provider.ts";

const SPECS: StoreSpec[] = [
  { channel: "events", kind: "append" },
  { channel: "jobs", kind: "queue" },
  { channel: "jobs__dlq", kind: "append" },
  { channel: "state", kind: "latest" },
];
const RECORDS = 200;
const CUTS = 40;

/** A log that was flushed so far while so many records had been answered. */
interface Flushed {
  readonly bytes: number;
  readonly records: number;
}

/** Writes, then answers copies of file and log as they lie on the disk, and what of the log was flushed. */
async function written(path: string, dir: string): Promise<Flushed[]> {
  const flushed: Flushed[] = [];
  const { provider, stop } = testProvider(path, {
    acknowledge: "synced",
    openLog: (log) => {
      const file = Deno.openSync(log, { read: true, write: true });
      return {
        async syncData() {
          const bytes = file.statSync().size;
          // What is answered later on may be in the log by now; what was answered is.
          const records = answered;
          await file.syncData();
          flushed.push({ bytes, records });
        },
        close: () => file.close(),
      };
    },
  });
  let answered = 0;
  await provider.open(SPECS);
  const [events, jobs] = [provider.append("events"), provider.queue("jobs")];
  const state = provider.latest("state");
  const dice = new Dice(17);
  while (answered < RECORDS) {
    const group = 1 + dice.roll(4);
    await Promise.all(Array.from({ length: group }, async (_, i) => {
      const sent = message("t", `${answered + i + 1}`.padEnd(dice.roll(3_000), "."));
      const failure = await publish(
        provider,
        appendRow(events, sent),
        { kind: "enqueue", store: jobs, message: sent, offset: 0 },
        { kind: "set", store: state, message: sent, offset: 0 },
      );
      assert.equal(failure, undefined);
    }));
    answered += group;
    if (dice.roll(5) === 0) {
      const offer = (await jobs.offer(0))!;
      await jobs.resolve(offer);
    }
    if (dice.roll(10) === 0) await events.trim(0n, 100_000);
    const position = { reader: "bridge:up", offset: answered, expiry: 0, lastSeen: 1n };
    await events.savePosition(position, "connected");
  }
  for (const suffix of ["", "-wal"]) Deno.copyFileSync(path + suffix, `${dir}/kept.db${suffix}`);
  await stop();
  return flushed;
}

Deno.test("X32 S84 S197 whatever of the log a power cut leaves, a prefix of the commits is there", () =>
  inTempDir(async (path, dir) => {
    const flushed = await written(path, dir);
    assert.ok(flushed.length > 20, `only ${flushed.length} flushes`);
    const log = Deno.readFileSync(`${dir}/kept.db-wal`);
    const dice = new Dice(23);
    const cuts = Array.from({ length: CUTS }, () => dice.roll(log.length + 1));
    cuts.push(0, 31, 32, log.length, ...flushed.slice(-5).map(({ bytes }) => bytes));
    let last = 0;
    for (const cut of cuts.sort((a, b) => a - b)) {
      const file = `${dir}/cut.db`;
      Deno.copyFileSync(`${dir}/kept.db`, file);
      const rest = log.slice(0, cut);
      // A block that was being written may hold anything.
      if (dice.roll(2) === 0 && rest.length > 64) {
        const torn = new Uint8Array(dice.roll(4096)).map(() => dice.roll(256));
        Deno.writeFileSync(`${file}-wal`, new Uint8Array([...rest, ...torn]));
      } else Deno.writeFileSync(`${file}-wal`, rest);
      const { findings } = await check(file);
      assert.deepEqual(findings, [], `cut at ${cut}`);
      const next = nextOf(file);
      assert.ok(next >= last, "a longer log holds no less");
      last = next;
      for (const { bytes, records } of flushed) {
        if (bytes <= cut) {
          assert.ok(next > records, `${records} were flushed, ${next - 1} are there`);
        }
      }
      for (const suffix of ["", "-wal", "-shm"]) removeIfThere(file + suffix);
    }
    assert.ok(last > RECORDS);
  }));

/** The next offset, with every record between floor and it there under the number it was sent with. */
function nextOf(file: string): number {
  const database = new DatabaseSync(file);
  try {
    const tables = database.prepare("SELECT count(*) AS n FROM sqlite_schema").get()!.n;
    if (tables === 0) return 1;
    const row = database.prepare("SELECT next, floor FROM channels WHERE name = 'events'").get();
    if (row === undefined) return 1;
    const records = database.prepare(
      "SELECT offset, CAST(payload AS TEXT) AS text FROM records WHERE channel = 'events' " +
        "ORDER BY offset",
    ).all();
    const offsets = records.map(({ offset }) => offset as number);
    assert.deepEqual(
      offsets,
      Array.from(
        { length: (row.next as number) - (row.floor as number) },
        (_, i) => (row.floor as number) + i,
      ),
    );
    const sent = records.map(({ text }) => Number.parseInt(text as string));
    assert.deepEqual(sent, offsets, "each record under the offset it was answered with");
    return row.next as number;
  } finally {
    database.close();
  }
}

function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

Deno.test("X32 after a power cut the provider opens, and the offsets that were lost are taken again", () =>
  inTempDir(async (path, dir) => {
    await written(path, dir);
    const log = Deno.readFileSync(`${dir}/kept.db-wal`);
    for (const part of [0.3, 0.6, 0.9]) {
      const file = `${dir}/cut${part}.db`;
      Deno.copyFileSync(`${dir}/kept.db`, file);
      Deno.writeFileSync(`${file}-wal`, log.slice(0, Math.floor(log.length * part)));
      const next = nextOf(file);
      await withProvider(file, SPECS, async ({ provider }) => {
        const store = provider.append("events");
        assert.equal(store.next(), next);
        const row = appendRow(store, message("t", "after"));
        assert.equal(await publish(provider, row), undefined);
        assert.equal(row.offset, next);
        const position = await store.position("bridge:up");
        assert.ok(position === undefined || position.offset <= next);
      });
      assert.deepEqual((await check(file)).findings, []);
    }
  }));
