import assert from "node:assert/strict";
import { pumpTurns } from "../../src/broker/pump_turns.ts";

const PUMP_MS = 5;

Deno.test("I16 deliveries of many sessions leave the loop to others between turns, and keep their order", async () => {
  const order: number[] = [];
  let between = 0;
  const others = setInterval(() => between++, 0);
  await new Promise<void>((done) => {
    for (let i = 0; i < 20; i++) {
      pumpTurns.ask(() => {
        for (const end = performance.now() + PUMP_MS; performance.now() < end;);
        order.push(i);
        if (i < 5) pumpTurns.ask(() => order.push(100 + i));
        if (i === 19) pumpTurns.ask(done);
      });
    }
  });
  clearInterval(others);
  const first = Array.from({ length: 20 }, (_, i) => i);
  assert.deepEqual(order, [...first, 100, 101, 102, 103, 104]);
  assert.ok(between >= 3, `the loop was left ${between} times in ${20 * PUMP_MS} ms`);
});

Deno.test("one that throws stops no other", async () => {
  const seen: string[] = [];
  const thrown = new Promise<void>((resolve) => {
    const hear = (event: ErrorEvent) => {
      event.preventDefault();
      globalThis.removeEventListener("error", hear);
      resolve();
    };
    globalThis.addEventListener("error", hear);
  });
  await new Promise<void>((done) => {
    pumpTurns.ask(() => {
      throw new Error("a pump of this test");
    });
    pumpTurns.ask(() => {
      seen.push("after");
      done();
    });
  });
  await thrown;
  assert.deepEqual(seen, ["after"]);
});
