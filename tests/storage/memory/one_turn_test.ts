import assert from "node:assert/strict";
import { MemoryProvider } from "../../../src/storage/memory/provider.ts";
import { appended, enqueued, message, STORES, submit, text } from "../conformance/subject.ts";
import { World } from "../snapshot/world.ts";

async function open(): Promise<MemoryProvider> {
  const { clock, log } = new World();
  const provider = new MemoryProvider({
    name: "main",
    maxBytes: undefined,
    reserveBytes: 0,
    clock,
    log,
  });
  await provider.open(STORES);
  return provider;
}

Deno.test("S23 a dead letter leaves its queue and enters its channel in the turn of the call", async () => {
  const provider = await open();
  const [queue, letters] = [provider.queue("jobs"), provider.append("jobs__dlq")];
  await submit(provider, [enqueued(queue, message("t", "job"))]);
  const offer = (await queue.offer(0))!;
  const seen: number[][] = [];
  const moved = queue.deadLetter(offer.offset, offer, message("t", "dead"), letters);
  // Whichever turn it happens in, nobody finds the job in both places or in neither.
  for (let turn = 0; turn < 5; turn++) {
    seen.push([queue.depth(), letters.next() - 1]);
    await Promise.resolve();
  }
  await moved;
  seen.push([queue.depth(), letters.next() - 1]);
  assert.ok(seen.every(([jobs, dead]) => jobs + dead === 1), JSON.stringify(seen));
  assert.deepEqual(seen.at(-1), [0, 1]);
});

Deno.test("S24 the copy for a snapshot is one turn, and what comes after it is not in it", async () => {
  const provider = await open();
  const store = provider.append("events");
  for (const payload of ["a", "b"]) {
    await submit(provider, [appended(store, message("t", payload))]);
  }
  const copy = provider.copy();
  await submit(provider, [appended(store, message("t", "c"))]);
  await store.trim(0n, 0);
  const events = copy.channels.find(({ name }) => name === "events")!;
  assert.deepEqual(events.records.map(({ message }) => text(message)), ["a", "b"]);
  assert.deepEqual([events.next, events.floor], [3, 1]);
});
