import assert from "node:assert/strict";
import { RecordList } from "../../../src/storage/memory/record_list.ts";

interface Entry {
  readonly offset: number;
}

function list(count: number): RecordList<Entry> {
  const records = new RecordList<Entry>();
  for (let offset = 1; offset <= count; offset++) records.push({ offset });
  return records;
}

function offsets(records: RecordList<Entry>, from: number): number[] {
  const seen: number[] = [];
  records.walk(from, ({ offset }) => seen.push(offset) > 0);
  return seen;
}

Deno.test("S192 a removal clears its slot at once, and every reader passes it", () => {
  const records = list(10);
  assert.equal(records.remove(4)?.offset, 4);
  assert.equal(records.remove(4), undefined);
  assert.equal(records.shift()?.offset, 1);
  assert.equal(records.get(4), undefined);
  assert.deepEqual(offsets(records, 0), [2, 3, 5, 6, 7, 8, 9, 10]);
  assert.deepEqual(offsets(records, 4), [5, 6, 7, 8, 9, 10]);
  assert.deepEqual(records.toArray().map(({ offset }) => offset), [2, 3, 5, 6, 7, 8, 9, 10]);
  assert.equal(records.length, 8);
  assert.equal(records.slots, 10);
});

Deno.test("S192 half of the slots dead: they are given back", () => {
  const records = list(1_000);
  for (let i = 0; i < 499; i++) records.shift();
  assert.equal(records.slots, 1_000);
  records.shift();
  assert.equal(records.slots, 500);
  assert.equal(records.first()?.offset, 501);
  for (let offset = 502; offset <= 1_000; offset += 2) records.remove(offset);
  assert.equal(records.slots, 250);
  assert.deepEqual(offsets(records, 900).slice(0, 3), [901, 903, 905]);
  while (records.shift() !== undefined);
  assert.equal(records.length, 0);
  assert.ok(records.slots < 64);
});

Deno.test("S10 records are found by offset with and without gaps", () => {
  const records = list(300);
  for (let offset = 3; offset <= 300; offset += 3) records.remove(offset);
  for (let from = 0; from <= 301; from++) {
    const expected = from <= 1 ? 1 : from % 3 === 0 ? from + 1 : from;
    assert.equal(offsets(records, from)[0], expected > 299 ? undefined : expected, `from ${from}`);
  }
  assert.equal(records.replace({ offset: 7 }), true);
  assert.equal(records.replace({ offset: 9 }), false);
});

Deno.test("S192 a removal costs the same however many records are held", () => {
  const slotsMoved = (count: number) => {
    const records = list(count);
    const before = records.slots;
    for (let i = 0; i < 100; i++) records.shift();
    return before - records.slots;
  };
  assert.equal(slotsMoved(10_000), 0);
  assert.equal(slotsMoved(100_000), 0);
});
