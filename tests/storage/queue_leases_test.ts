import assert from "node:assert/strict";
import { type Job, type JobSketch, StorageFailure } from "../../src/storage/contract.ts";
import type { Message, Offset, StoredRecord } from "../../src/storage/record.ts";
import { type JobRows, QueueLeases } from "../../src/storage/queue_leases.ts";
import { MOST_RETURNED_JOBS, ReturnedJobs } from "../../src/storage/returned_jobs.ts";
import { message } from "./conformance/subject.ts";

const AT = 5n;

/** Rows whose answers come when the test says so, each as of the moment it was asked. */
class GatedRows implements JobRows {
  readonly channel = "jobs";
  jobs: Job[];
  readonly reads: Offset[] = [];
  #waiting: (() => void)[] = [];
  gated = false;
  failing = false;

  constructor(count: number) {
    this.jobs = Array.from({ length: count }, (_, i) => ({
      offset: i + 1,
      message: message("t", `${i + 1}`),
      attempts: 0,
      firstDelivered: 0n,
      lastDelivered: 0n,
    }));
  }

  next(): Offset {
    return 1_000;
  }
  floor(): Offset {
    return 1;
  }
  bytes(): number {
    return 0;
  }
  depth(): number {
    return this.jobs.length;
  }
  setMaxBytes(): void {}
  held(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
  releaseHold(): Promise<undefined> {
    return Promise.resolve(undefined);
  }
  abandonHold(): Promise<boolean> {
    return Promise.resolve(false);
  }

  /** Lets the answers that wait go, first come first, with everything they lead to. */
  async open(): Promise<void> {
    while (this.#waiting.length > 0) {
      this.#waiting.shift()!();
      await turn();
    }
  }

  async #answer<T>(value: T): Promise<T> {
    const failing = this.failing;
    if (this.gated) await new Promise<void>((resolve) => this.#waiting.push(resolve));
    if (failing) throw new StorageFailure("failed", "the disk is gone");
    return value;
  }

  read(from: Offset, max: number): Promise<readonly Job[]> {
    this.reads.push(from);
    return this.#answer(this.jobs.filter(({ offset }) => offset >= from).slice(0, max));
  }
  overdue(): Promise<readonly Job[]> {
    return this.#answer(this.jobs);
  }
  worst(): Promise<readonly JobSketch[]> {
    return this.#answer([]);
  }
  recordAttempt(offset: Offset, attempts: number, at: bigint): Promise<void> {
    if (!this.failing) {
      this.jobs = this.jobs.map((job) =>
        job.offset === offset ? { ...job, attempts, lastDelivered: at } : job
      );
    }
    return this.#answer(undefined);
  }
  remove(offset: Offset): Promise<void> {
    if (!this.failing) this.jobs = this.jobs.filter((job) => job.offset !== offset);
    return this.#answer(undefined);
  }
  deadLetter(offset: Offset, letter: Message): Promise<StoredRecord | undefined> {
    if (!this.failing) this.jobs = this.jobs.filter((job) => job.offset !== offset);
    return this.#answer({ offset: 1, message: letter });
  }
}

function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

// deno-lint-ignore no-explicit-any
const nowhere = undefined as any;

async function take(leases: QueueLeases, now = 0) {
  const offer = await leases.offer(now);
  assert.ok(offer !== undefined);
  return offer;
}

Deno.test("S141 one read serves offers that follow each other, however many are out or wait for their gap", async () => {
  const rows = new GatedRows(200);
  const leases = new QueueLeases(rows);
  leases.setBackoff({ kind: "linear", baseMs: 1_000 });
  for (let i = 0; i < 100; i++) {
    const offer = await take(leases);
    if (i % 2 === 0) continue;
    await leases.lease(offer, AT, 9_999);
    await leases.release(offer, { spend: false, at: AT, gapFrom: i });
  }
  assert.deepEqual(rows.reads, [0, 65]);
  rows.reads.length = 0;
  for (let offset = 101; offset <= 128; offset++) {
    assert.equal((await take(leases)).offset, offset);
  }
  assert.deepEqual(rows.reads, []);
  assert.equal((await take(leases)).offset, 129);
  assert.deepEqual(rows.reads, [129]);
  // What came back lies below and is read by itself; what was read stays good.
  assert.equal((await take(leases, 1_003)).offset, 2);
  assert.deepEqual(rows.reads, [129, 2]);
});

Deno.test("S20 a job moved away after it was read is not offered from what was read", async () => {
  const rows = new GatedRows(4);
  const leases = new QueueLeases(rows);
  assert.equal((await take(leases)).offset, 1);
  await leases.deadLetter(2, undefined, message("t", "late"), nowhere);
  assert.equal((await take(leases)).offset, 3);
  assert.equal((await take(leases)).offset, 4);
});

Deno.test("S140 S141 a queue whose every job is out is not read", async () => {
  const rows = new GatedRows(2);
  const leases = new QueueLeases(rows);
  await take(leases);
  await take(leases);
  rows.reads.length = 0;
  assert.equal(await leases.offer(0), undefined);
  assert.deepEqual(rows.reads, []);
});

Deno.test("S20 a job resolved while a pass was reading is not offered from what it read", async () => {
  const rows = new GatedRows(2);
  const leases = new QueueLeases(rows);
  const first = await take(leases);
  // Lowers the mark to 1, so that the next pass reads the row of the job that is out.
  leases.setMaxAttempts(3);
  leases.setMaxAttempts(4);
  rows.gated = true;
  const pass = leases.offer(0);
  await turn();
  const resolved = leases.resolve(first);
  rows.gated = false;
  await rows.open();
  assert.equal(await resolved, true);
  assert.equal((await pass)?.offset, 2);
});

Deno.test("S20 a dead letter moved while a pass was reading is not offered from what it read", async () => {
  const rows = new GatedRows(2);
  const leases = new QueueLeases(rows);
  rows.gated = true;
  const pass = leases.offer(0);
  await turn();
  rows.gated = false;
  await leases.deadLetter(1, undefined, message("t", "x"), nowhere);
  await rows.open();
  assert.equal((await pass)?.offset, 2);
});

Deno.test("S21 while a write is under way no timer finds the delivery", async () => {
  const rows = new GatedRows(1);
  const leases = new QueueLeases(rows);
  const offer = await take(leases);
  await leases.lease(offer, AT, 10);
  assert.equal(leases.expiredLeases(11).length, 1);
  rows.gated = true;
  const resolved = leases.resolve(offer);
  assert.equal(leases.expiredLeases(11).length, 0);
  await rows.open();
  assert.equal(await resolved, true);
  assert.equal(leases.expiredLeases(11).length, 0);
});

Deno.test("S21 a failed write leaves the delivery as it was", async () => {
  const rows = new GatedRows(1);
  const leases = new QueueLeases(rows);
  const offer = await take(leases);
  rows.failing = true;
  await assert.rejects(leases.lease(offer, AT, 10), StorageFailure);
  assert.deepEqual(leases.expiredLeases(11), []);
  await assert.rejects(leases.release(offer, { spend: true, at: AT, gapFrom: 0 }), StorageFailure);
  await assert.rejects(leases.resolve(offer), StorageFailure);
  assert.equal(leases.heldSince(offer), 0);
  rows.failing = false;
  assert.equal(await leases.lease(offer, AT, 10), true);
  assert.equal(rows.jobs[0].attempts, 1);
  rows.failing = true;
  await assert.rejects(leases.resolve(offer), StorageFailure);
  assert.deepEqual(leases.expiredLeases(11), [{ offset: 1, epoch: offer.epoch }]);
  rows.failing = false;
  assert.equal(await leases.resolve(offer), true);
});

Deno.test("S21 a connection that ends during a write that fails gives the job back all the same", async () => {
  const rows = new GatedRows(1);
  const leases = new QueueLeases(rows);
  const offer = await take(leases);
  rows.gated = true;
  rows.failing = true;
  const resolved = leases.resolve(offer);
  const released = leases.release(offer, { spend: false, at: AT, gapFrom: -Infinity });
  rows.failing = false;
  rows.gated = false;
  const [answer] = await Promise.all([assert.rejects(resolved, StorageFailure), rows.open()]);
  assert.equal(answer, undefined);
  assert.equal(await released, "available");
  assert.equal((await take(leases)).offset, 1);
});

Deno.test("D14.22 a job nobody holds is offered again when its move fails", async () => {
  const rows = new GatedRows(3);
  const leases = new QueueLeases(rows);
  leases.setBackoff({ kind: "linear", baseMs: 100 });
  rows.gated = true;
  rows.failing = true;
  const moved = leases.deadLetter(1, undefined, message("t", "x"), nowhere);
  rows.failing = false;
  rows.gated = false;
  const second = await take(leases);
  assert.equal(second.offset, 2);
  const [failure] = await Promise.allSettled([moved, rows.open()]);
  assert.equal(failure.status, "rejected");
  assert.equal((await take(leases)).offset, 1);

  await leases.lease(second, AT, 10);
  await leases.release(second, { spend: false, at: AT, gapFrom: 0 });
  rows.failing = true;
  await assert.rejects(leases.deadLetter(2, undefined, message("t", "x"), nowhere));
  rows.failing = false;
  assert.equal((await take(leases, 99)).offset, 3);
  assert.equal(await leases.offer(99), undefined);
  assert.deepEqual((await take(leases, 100)).attempt, 2);
});

Deno.test("a mark lowered while a pass was reading is not raised by what it read", async () => {
  const rows = new GatedRows(3);
  const leases = new QueueLeases(rows);
  rows.gated = true;
  rows.failing = true;
  const moved = leases.deadLetter(1, undefined, message("t", "x"), nowhere);
  rows.gated = false;
  rows.failing = false;
  assert.equal((await take(leases)).offset, 2);
  rows.gated = true;
  const pass = leases.offer(0);
  await turn();
  await Promise.all([assert.rejects(moved, StorageFailure), rows.open()]);
  rows.gated = false;
  assert.equal((await pass)?.offset, 3);
  assert.equal((await take(leases)).offset, 1);
});

Deno.test("jobs passed over as spent are offered when more attempts are allowed", async () => {
  const rows = new GatedRows(100);
  rows.jobs = rows.jobs.map((job) => ({ ...job, attempts: job.offset < 90 ? 2 : 0 }));
  const leases = new QueueLeases(rows);
  leases.setMaxAttempts(2);
  assert.equal((await take(leases)).offset, 90);
  assert.ok(rows.reads.length < 6, `${rows.reads.length} reads`);
  leases.setMaxAttempts(3);
  assert.equal((await take(leases)).offset, 1);
  leases.setMaxAttempts(2);
  assert.equal((await take(leases)).offset, 91);
});

Deno.test("D14.25 a job that came back while the sweep was reading is left to the next sweep", async () => {
  const rows = new GatedRows(2);
  const leases = new QueueLeases(rows);
  const offer = await take(leases);
  rows.gated = true;
  const sweep = leases.overdue(1n, 10);
  rows.gated = false;
  await leases.resolve(offer);
  await rows.open();
  assert.deepEqual((await sweep).map(({ offset }) => offset), [2]);
});

Deno.test("a read that fails is the offer's failure and changes nothing", async () => {
  const rows = new GatedRows(1);
  const leases = new QueueLeases(rows);
  rows.failing = true;
  await assert.rejects(leases.offer(0), StorageFailure);
  rows.failing = false;
  assert.equal((await take(leases)).offset, 1);
});

Deno.test("a job whose row an outside writer removed is no job any more", async () => {
  const rows = new GatedRows(3);
  const leases = new QueueLeases(rows);
  const first = await take(leases);
  await take(leases);
  await leases.release(first, { spend: false, at: AT, gapFrom: -Infinity });
  rows.jobs = rows.jobs.filter(({ offset }) => offset !== 1);
  assert.equal((await take(leases)).offset, 3);
});

Deno.test("returned jobs stay under their bound by giving up the one whose gap ends soonest", () => {
  const returned = new ReturnedJobs();
  for (let offset = 1; offset <= MOST_RETURNED_JOBS; offset++) {
    assert.equal(
      returned.add({ offset, readyAt: 10_000 - offset % 1_000 }),
      undefined,
    );
  }
  const given = returned.add({ offset: 1_000_000, readyAt: 20_000 });
  assert.equal(given?.readyAt, 9_001);
  assert.equal(returned.has(given!.offset), false);
  assert.equal(returned.size, MOST_RETURNED_JOBS);
});

Deno.test("D14.18 returned jobs are ready by offset once their gaps are over", () => {
  const returned = new ReturnedJobs();
  const gaps = [[5, 30], [3, 10], [9, 10], [1, 20], [7, 5]];
  for (const [offset, readyAt] of gaps) returned.add({ offset, readyAt });
  const order = (now: number) => {
    const offsets: number[] = [];
    for (;;) {
      const ready = returned.lowestReady(now);
      if (ready === undefined) return offsets;
      offsets.push(ready.offset);
      returned.remove(ready.offset);
    }
  };
  assert.deepEqual(order(4), []);
  assert.deepEqual(order(10), [3, 7, 9]);
  returned.remove(1);
  assert.deepEqual(order(30), [5]);
  assert.equal(returned.size, 0);
});
