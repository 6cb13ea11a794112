import assert from "node:assert/strict";
import { charged, type Owed, OwedList } from "../../src/broker/owed.ts";
import { Random } from "../support/random.ts";

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

Deno.test("D8.5 what is owed is taken in order, however it came and went", () => {
  const random = new Random(8);
  for (let round = 0; round < 20; round++) {
    const list = new OwedList();
    const expected: Owed[] = [];
    let next = 1;
    for (let step = 0; step < 2_000; step++) {
      const owed = { offset: next, bytes: random.between(1, 5_000) };
      // It grows for a while, then shrinks, past several pieces either way.
      const fills = step % 1_000 < 600;
      if (random.chance(fills ? 0.7 : 0.3)) {
        next += random.between(2, 4);
        list.push(owed);
        expected.push(owed);
      } else if (random.chance(0.2)) {
        const back = { ...owed, offset: random.below(next) + 0.5 };
        if (random.chance(0.5)) list.insert(back);
        else list.push(back);
        const at = expected.findIndex(({ offset }) => offset > back.offset);
        expected.splice(at < 0 ? expected.length : at, 0, back);
      } else if (expected.length > 0) {
        assert.deepEqual(list.shift(), expected.shift());
      }
      assert.deepEqual(list.first, expected[0]);
      assert.equal(list.firstOffset, expected[0]?.offset);
      assert.equal(list.length, expected.length);
      assert.equal(list.bytes, expected.reduce((sum, each) => sum + charged(each), 0));
    }
    assert.deepEqual(list.values(), expected);
  }
});
