import assert from "node:assert/strict";
import { Reach, REMEMBERED_TOPICS } from "../../../src/auth/acl/reach.ts";

function reach(...filters: readonly string[]): Reach {
  const made = new Reach();
  made.filters.push(...filters);
  return made;
}

Deno.test("01 5.13 remembered answers are the right ones, and no more than the bound", () => {
  const of = reach("a/+", "b/+", "c/+", "d/+", "e/#");
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 3 * REMEMBERED_TOPICS; i++) {
      assert.equal(of.includes(`${"abcde"[i % 5]}/${i}`), true);
      assert.equal(of.includes(`f/${i}`), false);
      assert.ok(of.remembered <= REMEMBERED_TOPICS);
    }
  }
  assert.ok(of.remembered > 0);
});

Deno.test("few filters are compared anew, and a whole channel not at all", () => {
  const few = reach("a/+", "b/+");
  assert.deepEqual([few.includes("a/x"), few.includes("c/x"), few.remembered], [true, false, 0]);
  const whole = reach();
  whole.whole = true;
  assert.deepEqual([whole.includes("any/thing"), whole.covers("#"), whole.remembered], [
    true,
    true,
    0,
  ]);
});

Deno.test("one filter has to cover, several together do not", () => {
  const of = reach("a/b", "a/c", "b/#");
  assert.deepEqual(["a/b", "a/+", "b", "b/+/#"].map((filter) => of.covers(filter)), [
    true,
    false,
    true,
    true,
  ]);
});
