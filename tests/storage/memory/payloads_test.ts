import assert from "node:assert/strict";
import { PayloadSlabs } from "../../../src/storage/memory/payload_slabs.ts";
import { appended, enqueued, held, message, set, STORES, submit } from "../conformance/subject.ts";
import { memory } from "../conformance/memory_subject.ts";
import type { Message } from "../../../src/storage/record.ts";

function view(bytes: number[]): { buffer: Uint8Array; message: Message } {
  const buffer = new Uint8Array(64 + bytes.length);
  buffer.set(bytes, 10);
  return { buffer, message: message("t", "", { payload: buffer.subarray(10, 10 + bytes.length) }) };
}

Deno.test("S7 nothing stored shares memory with the buffer it was read into", async () => {
  await using opened = await memory.open();
  const { provider } = opened;
  const { buffer, message } = view([1, 2, 3]);
  await submit(provider, [
    appended(provider.append("events"), message),
    set(provider.latest("state"), message),
    enqueued(provider.queue("jobs"), message),
    held(provider.append("audit"), "c1", 1, message),
  ]);
  buffer.fill(9);
  const window = await provider.append("events").readFrom(1, 1, 100);
  assert.ok(!window.belowFloor);
  const kept = [
    window.records[0].message,
    (await provider.latest("state").get("t"))!.message,
    (await provider.queue("jobs").offer(0))!.message,
    (await provider.append("audit").held("c1", 1))!,
  ];
  assert.equal(STORES.length > 0, true);
  for (const { payload } of kept) assert.deepEqual([...payload], [1, 2, 3]);
});

Deno.test("small payloads lie next to each other, a large one has a buffer of its own", () => {
  const slabs = new PayloadSlabs();
  const first = slabs.own(view([1, 2]).message);
  const second = slabs.own(view([3]).message);
  assert.equal(first.payload.buffer, second.payload.buffer);
  assert.deepEqual([[...first.payload], [...second.payload]], [[1, 2], [3]]);
  const large = slabs.own(view(new Array(2_000).fill(7)).message);
  assert.equal(large.payload.buffer.byteLength, 2_000);
  const slab = first.payload.buffer;
  for (let i = 0; i < 200; i++) slabs.own(view(new Array(1_000).fill(i)).message);
  assert.notEqual(slabs.own(view([4]).message).payload.buffer, slab);
  assert.deepEqual([...first.payload], [1, 2]);
});
