import assert from "node:assert/strict";
import { Turns } from "../../src/doors/turns.ts";

/** Keeps the event loop for so long. */
function compute(ms: number): void {
  const end = performance.now() + ms;
  while (performance.now() < end);
}

Deno.test("steps run in order, one a turn, and others get as long after each", async () => {
  const turns = new Turns();
  const order: string[] = [];
  let others = 0;
  const other = setInterval(() => {
    order.push("other");
    others++;
  }, 1);
  const results = await Promise.all(
    [0, 1, 2, 3, 4].map((i) =>
      turns.run(() => {
        order.push(`step ${i}`);
        compute(8);
        return i;
      })
    ),
  );
  clearInterval(other);
  assert.deepEqual(results, [0, 1, 2, 3, 4]);
  const steps = order.flatMap((what, at) => what === "other" ? [] : [at]);
  assert.deepEqual(steps.map((at) => order[at]), results.map((i) => `step ${i}`));
  for (const [i, at] of steps.entries()) {
    if (i > 0) assert.ok(at - steps[i - 1] > 1, `nobody came between: ${order.join(", ")}`);
  }
  assert.ok(others >= 4);
});

Deno.test("a step that comes while the loop is owed its half waits for it", async () => {
  const turns = new Turns();
  const computed = await turns.run(() => {
    compute(30);
    return performance.now();
  });
  const next = await turns.run(() => performance.now());
  assert.ok(next - computed > 15, `it waited ${next - computed} ms`);
});

Deno.test("a step that throws costs its own caller, and the next one runs", async () => {
  const turns = new Turns();
  const failed = turns.run(() => {
    throw new Error("ours");
  });
  const after = turns.run(() => "next");
  await assert.rejects(failed, /ours/);
  assert.equal(await after, "next");
});
