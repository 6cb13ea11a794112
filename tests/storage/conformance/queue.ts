import assert from "node:assert/strict";
import type { Offer, Provider, QueueStore } from "../../../src/storage/contract.ts";
import { counters, enqueued, message, type Subject, submit, text, window } from "./subject.ts";

async function enqueue(provider: Provider, ...payloads: string[]): Promise<QueueStore> {
  const queue = provider.queue("jobs");
  for (const payload of payloads) {
    await submit(provider, [enqueued(queue, message("t", payload))]);
  }
  return queue;
}

async function take(queue: QueueStore, now = 0): Promise<Offer> {
  const offer = await queue.offer(now);
  assert.ok(offer !== undefined, "no job is available");
  return offer;
}

/** What an offer shows of its job: `payload#attempt`. */
async function shown(queue: QueueStore, now = 0): Promise<string> {
  const offer = await queue.offer(now);
  return offer === undefined ? "none" : `${text(offer.message)}#${offer.attempt}`;
}

const AT = 1_700_000_000_000_000_000n;
const SIZE = 4;

export function queueScript(subject: Subject): void {
  const { name } = subject;

  Deno.test(`${name}: S13 a job goes from offer over lease to resolution`, async () => {
    await using opened = await subject.open();
    const queue = await enqueue(opened.provider, "a", "b", "c");
    assert.equal(counters(queue), `next=4 floor=1 bytes=${3 * SIZE} depth=3`);
    const first = await take(queue);
    assert.deepEqual([first.offset, text(first.message), first.attempt], [1, "a", 1]);
    assert.equal(queue.depth(), 3);
    assert.equal(await queue.lease(first, AT, 100), true);
    assert.equal(await shown(queue), "b#1");
    assert.equal(await queue.resolve(first), true);
    assert.equal(counters(queue), `next=4 floor=1 bytes=${2 * SIZE} depth=2`);
    assert.equal(await queue.resolve(first), false);
    assert.equal(await queue.lease(first, AT, 100), false);
    assert.equal(await queue.release(first, { spend: true, at: AT, gapFrom: 0 }), "stale");
    assert.equal(await shown(queue), "c#1");
    assert.equal(await shown(queue), "none");
  });

  Deno.test(`${name}: 05 7.5 jobs are listed from the most attempts on, and none is taken by it`, async () => {
    await using opened = await subject.open();
    const queue = await enqueue(opened.provider, "a", "b", "c", "d");
    for (const attempts of [1, 2]) {
      const [first, second] = [await take(queue, attempts), await take(queue, attempts)];
      await queue.lease(second, AT + BigInt(attempts), 100);
      await queue.release(second, { spend: true, at: AT, gapFrom: -Infinity });
      await queue.release(first, { spend: false, at: AT, gapFrom: -Infinity });
    }
    const worst = await queue.worst(3);
    assert.deepEqual(worst.map(({ offset, attempts }) => [offset, attempts]), [[2, 2], [1, 0], [
      3,
      0,
    ]]);
    assert.deepEqual(worst[0], {
      offset: 2,
      topic: "t",
      storedAt: AT,
      attempts: 2,
      lastDelivered: AT + 2n,
    });
    assert.equal(worst[1].lastDelivered, 0n);
    assert.equal((await queue.worst(10)).length, 4);
    assert.equal(await shown(queue, 3), "a#1");
  });

  Deno.test(`${name}: D14.14 S142 an answer before the PUBACK resolves, or counts its attempt once`, async () => {
    await using opened = await subject.open();
    const queue = await enqueue(opened.provider, "a", "b");
    const first = await take(queue);
    assert.equal(await queue.resolve(first), true);
    const second = await take(queue);
    assert.equal(await queue.release(second, { spend: true, at: AT, gapFrom: 0 }), "available");
    assert.equal(await shown(queue), "b#2");
  });

  Deno.test(`${name}: D14.3 S35 a return makes the old delivery dead`, async () => {
    await using opened = await subject.open();
    const queue = await enqueue(opened.provider, "a");
    const old = await take(queue);
    assert.equal(queue.heldSince(old), 0);
    assert.equal(
      await queue.release(old, { spend: false, at: AT, gapFrom: -Infinity }),
      "available",
    );
    assert.equal(queue.heldSince(old), undefined);
    const again = await take(queue, 7);
    assert.equal(again.attempt, 1);
    assert.notEqual(again.epoch, old.epoch);
    assert.equal(queue.heldSince(again), 7);
    assert.equal(await queue.lease(old, AT, 100), false);
    assert.equal(await queue.resolve(old), false);
    assert.equal(await queue.job(old), undefined);
    assert.equal((await queue.job(again))?.attempts, 0);
  });

  Deno.test(`${name}: D14.1 only a lease has a deadline`, async () => {
    await using opened = await subject.open();
    const queue = await enqueue(opened.provider, "a", "b");
    const delivering = await take(queue);
    const leased = await take(queue);
    assert.equal(await queue.lease(leased, AT, 500), true);
    assert.deepEqual(queue.expiredLeases(499), []);
    assert.deepEqual(queue.expiredLeases(500), [{ offset: leased.offset, epoch: leased.epoch }]);
    assert.equal(await queue.release(leased, { spend: false, at: AT, gapFrom: 0 }), "available");
    assert.deepEqual(queue.expiredLeases(1e12), []);
    assert.equal(await queue.resolve(delivering), true);
    assert.equal(await shown(queue, 500), "b#2");
  });

  Deno.test(`${name}: D14.16 D14.17 the gap is consulted from where it is told to run`, async () => {
    await using opened = await subject.open();
    const queue = await enqueue(opened.provider, "a", "b");
    queue.setBackoff({ kind: "exponential", baseMs: 100 });
    const unspent = await take(queue);
    assert.equal(await queue.release(unspent, { spend: false, at: AT, gapFrom: 0 }), "available");
    const returned = async (now: number, gapFrom: number) => {
      const offer = await take(queue, now);
      assert.equal(text(offer.message), "a");
      assert.equal(await queue.lease(offer, AT, now + 1000), true);
      assert.equal(await queue.release(offer, { spend: false, at: AT, gapFrom }), "available");
    };
    await returned(0, 10);
    const b = await take(queue, 109);
    assert.equal(text(b.message), "b");
    assert.equal(await shown(queue, 109), "none");
    await returned(110, 110);
    assert.equal(await shown(queue, 309), "none");
    await returned(310, 310);
    assert.equal(await shown(queue, 709), "none");
    queue.setBackoff({ kind: "linear", baseMs: 10 });
    await returned(710, 500);
    assert.equal(await shown(queue, 710), "a#5");
    assert.equal(await queue.resolve(b), true);
  });

  Deno.test(`${name}: D14.18 later jobs are offered past those that are out or wait`, async () => {
    await using opened = await subject.open();
    const payloads = Array.from({ length: 60 }, (_, i) => `${i}`);
    const queue = await enqueue(opened.provider, ...payloads);
    queue.setBackoff({ kind: "linear", baseMs: 1000 });
    for (let i = 0; i < 40; i++) {
      const offer = await take(queue);
      if (i % 2 === 0) continue;
      await queue.lease(offer, AT, 5000);
      await queue.release(offer, { spend: false, at: AT, gapFrom: 0 });
    }
    assert.equal(await shown(queue, 999), "40#1");
    assert.equal(await shown(queue, 1000), "1#2");
    assert.equal(await shown(queue, 1000), "3#2");
    assert.equal(queue.depth(), 60);
  });

  Deno.test(`${name}: S20 passes at once never choose one job twice`, async () => {
    await using opened = await subject.open();
    const queue = await enqueue(opened.provider, "a", "b", "c", "d");
    const offers = await Promise.all([1, 2, 3, 4, 5, 6].map(() => queue.offer(0)));
    assert.deepEqual(
      offers.map((offer) => offer === undefined ? "none" : text(offer.message)),
      ["a", "b", "c", "d", "none", "none"],
    );
  });

  Deno.test(`${name}: S21 an answer sent together with the PUBACK waits for the attempt's write`, async () => {
    await using opened = await subject.open();
    const queue = await enqueue(opened.provider, "a", "b");
    const a = await take(queue);
    assert.deepEqual(
      await Promise.all([queue.lease(a, AT, 100), queue.resolve(a), queue.resolve(a)]),
      [true, true, false],
    );
    const b = await take(queue);
    assert.deepEqual(
      await Promise.all([
        queue.lease(b, AT, 100),
        queue.release(b, { spend: true, at: AT, gapFrom: 0 }),
      ]),
      [true, "available"],
    );
    assert.equal(await shown(queue), "b#2");
    assert.equal(queue.depth(), 1);
  });

  Deno.test(`${name}: D14.15 S143 a job without attempts left is moved with its history`, async () => {
    await using opened = await subject.open();
    const queue = await enqueue(opened.provider, "a", "b");
    const letters = opened.provider.append("jobs__dlq");
    queue.setMaxAttempts(2);
    const first = await take(queue);
    await queue.lease(first, AT, 100);
    await queue.release(first, { spend: false, at: AT, gapFrom: 0 });
    const second = await take(queue);
    assert.equal(second.attempt, 2);
    assert.equal(await queue.release(second, { spend: true, at: AT + 5n, gapFrom: 0 }), "spent");
    assert.equal(await shown(queue), "b#1");
    assert.equal(await shown(queue), "none");
    const job = await queue.job(second);
    assert.deepEqual(
      [job?.offset, job?.attempts, job?.firstDelivered, job?.lastDelivered],
      [1, 2, AT, AT + 5n],
    );
    const letter = message("t/__dlq", "a, dead");
    const moved = await queue.deadLetter(second.offset, second, letter, letters);
    assert.equal(moved?.offset, 1);
    assert.equal(await window(letters, 1), "1:a, dead");
    assert.equal(counters(queue), `next=3 floor=1 bytes=${SIZE} depth=1`);
    assert.equal(await queue.deadLetter(second.offset, second, letter, letters), undefined);
    assert.equal(await queue.deadLetter(second.offset, undefined, letter, letters), undefined);
    assert.equal(letters.next(), 2);
  });

  Deno.test(`${name}: D14.25 overdue jobs are those too old and those spent, none out with a worker`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const queue = provider.queue("jobs");
    const letters = provider.append("jobs__dlq");
    queue.setMaxAttempts(1);
    for (const timestamp of [10n, 10n, 0n, 30n, 10n, 5n]) {
      await submit(provider, [enqueued(queue, message("t", `${timestamp}`, { timestamp }))]);
    }
    const overdue = async (before: bigint, max = 10) =>
      (await queue.overdue(before, max)).map(({ offset }) => offset);
    assert.deepEqual(await overdue(0n), []);
    assert.deepEqual(await overdue(20n), [1, 2, 5, 6]);
    assert.deepEqual(await overdue(20n, 2), [1, 2]);
    const worker = await take(queue);
    assert.equal(worker.offset, 1);
    assert.deepEqual(await overdue(20n), [2, 5, 6]);
    assert.equal(
      await queue.deadLetter(1, undefined, message("t", "x"), letters),
      undefined,
      "it is out with a worker",
    );
    assert.equal((await queue.deadLetter(2, undefined, message("t", "x"), letters))?.offset, 1);
    assert.equal(await shown(queue), "0#1");
    assert.equal(await queue.release(worker, { spend: true, at: 7n, gapFrom: 0 }), "spent");
    assert.deepEqual(await overdue(0n), [1]);
    const [spent] = await queue.overdue(0n, 10);
    assert.deepEqual([spent.attempts, spent.firstDelivered, spent.lastDelivered], [1, 7n, 7n]);
    assert.equal((await queue.deadLetter(1, undefined, message("t", "y"), letters))?.offset, 2);
    assert.deepEqual(await overdue(20n), [5, 6]);
    assert.equal(queue.depth(), 4);
  });

  Deno.test(`${name}: S33 S34 D14.28 after a restart every job is available with its attempts`, async () => {
    await using opened = await subject.open();
    let queue = await enqueue(opened.provider, "a", "b", "c");
    queue.setBackoff({ kind: "linear", baseMs: 1e9 });
    const a = await take(queue);
    const b = await take(queue);
    await queue.lease(a, AT, 100);
    await queue.lease(b, AT, 100);
    await queue.release(b, { spend: false, at: AT, gapFrom: 0 });
    await opened.restart();
    queue = opened.provider.queue("jobs");
    assert.equal(counters(queue), `next=4 floor=1 bytes=${3 * SIZE} depth=3`);
    queue.setMaxAttempts(2);
    assert.equal(await shown(queue), "a#2");
    assert.equal(await shown(queue), "b#2");
    queue.setMaxAttempts(1);
    await opened.restart();
    queue = opened.provider.queue("jobs");
    queue.setMaxAttempts(1);
    assert.equal(await shown(queue), "c#1");
    assert.equal(await shown(queue), "none");
    const spent = await queue.overdue(0n, 10);
    assert.deepEqual(spent.map((job) => [job.offset, job.attempts, job.firstDelivered]), [
      [1, 1, AT],
      [2, 1, AT],
    ]);
  });
}
