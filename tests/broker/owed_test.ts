import assert from "node:assert/strict";
import { charged, OwedList } from "../../src/broker/owed.ts";

const BYTES = 10;

function listOf(...offsets: number[]): OwedList {
  const list = new OwedList();
  for (const offset of offsets) list.push({ offset, bytes: BYTES });
  return list;
}

Deno.test("D8.5 what is reported late is due in the order of storage all the same", () => {
  const list = listOf(1, 4, 2, 3, 5);
  assert.equal(list.bytes, 5 * charged({ offset: 1, bytes: BYTES }));
  assert.equal(list.shift().offset, 1);
  // What was taken is behind the list's head, and nothing to be sorted among.
  list.push({ offset: 1, bytes: BYTES });
  assert.deepEqual(list.values().map(({ offset }) => offset), [1, 2, 3, 4, 5]);
  assert.equal(list.first?.offset, 1);
});

Deno.test("D8.5 an emptied list takes whatever comes next", () => {
  const list = listOf(7);
  list.shift();
  list.push({ offset: 3, bytes: BYTES });
  assert.deepEqual(list.values().map(({ offset }) => offset), [3]);
});
