import assert from "node:assert/strict";
import { PublishBudgets, type PublishRates } from "../../src/auth/publish_rates.ts";
import { HeapTimers } from "../../src/platform/timers.ts";

function budgets(most?: number) {
  const clock = { now: 0, monotonic: () => clock.now, wall: () => 0n };
  const timers = new HeapTimers(clock, (error) => {
    throw error;
  });
  const budgets = new PublishBudgets(clock, timers, most);
  return {
    budgets,
    take: (clientId: string, rates: PublishRates, bytes: number) =>
      budgets.take(clientId, rates, bytes) === undefined,
    pass(ms: number) {
      clock.now += ms;
      timers.runDue();
    },
    [Symbol.dispose]: () => timers.stop(),
  };
}

function rates(messagesPerSecond?: number, bytesPerSecond?: number): PublishRates {
  return { messagesPerSecond, bytesPerSecond };
}

Deno.test("02a 13.5 without a bound nothing is counted", () => {
  using of = budgets();
  for (let i = 0; i < 1_000; i++) assert.ok(of.take("a", rates(), 1e9));
  assert.equal(of.budgets.size, 0);
});

Deno.test("02b 3.5 a quiet client may publish a second's worth at once, then what comes in", () => {
  using of = budgets();
  const ten = rates(10);
  for (let i = 0; i < 10; i++) assert.ok(of.take("a", ten, 1), `message ${i}`);
  assert.ok(!of.take("a", ten, 1));
  of.pass(99);
  assert.ok(!of.take("a", ten, 1));
  of.pass(1);
  assert.ok(of.take("a", ten, 1));
  assert.ok(!of.take("a", ten, 1));
  of.pass(5_000);
  for (let i = 0; i < 10; i++) assert.ok(of.take("a", ten, 1));
  assert.ok(!of.take("a", ten, 1));
});

Deno.test("02a 13.5 both figures are counted, and the first that is used up refuses", () => {
  using of = budgets();
  const both = rates(3, 1_000);
  assert.ok(of.take("a", both, 900));
  assert.equal(of.budgets.take("a", both, 101), "publish_bytes");
  assert.ok(of.take("a", both, 100), "a refusal takes nothing");
  assert.ok(of.take("a", both, 0));
  assert.equal(of.budgets.take("a", both, 0), "publish_rate");
});

Deno.test("02a 13.5 a message above all bytes passes, and is paid off before the next", () => {
  using of = budgets();
  const small = rates(undefined, 100);
  assert.ok(of.take("a", small, 450));
  for (let waited = 0; waited < 3_500; waited += 500) {
    assert.ok(!of.take("a", small, 1), `after ${waited} ms`);
    of.pass(500);
  }
  assert.ok(!of.take("a", small, 1));
  of.pass(10);
  assert.ok(of.take("a", small, 1));
  assert.ok(!of.take("a", small, 1));
  of.pass(10);
  assert.ok(of.take("a", small, 101), "also while only some bytes are left");
});

Deno.test("02a 13.5 the budget is the client id's: it outlives connections, the figures do not", () => {
  using of = budgets();
  for (let i = 0; i < 5; i++) assert.ok(of.take("id", rates(5), 1));
  assert.ok(!of.take("id", rates(5), 1));
  assert.ok(of.take("other id", rates(5), 1));
  assert.ok(of.take("id", rates(6), 1), "another user took the id over");
  assert.ok(!of.take("id", rates(6), 1));
  assert.ok(of.take("id", rates(), 1), "a user without a bound");
});

Deno.test("02a 13.5 a budget that is whole again is forgotten", () => {
  using of = budgets();
  assert.ok(of.take("a", rates(10), 1));
  assert.ok(of.take("b", rates(undefined, 100), 500));
  assert.equal(of.budgets.size, 2);
  of.pass(1_000);
  assert.equal(of.budgets.size, 1, "a needed 100 ms");
  for (let s = 1; s < 5; s++) of.pass(1_000);
  assert.equal(of.budgets.size, 0, "b needed 5 s");
  assert.ok(of.take("c", rates(10), 1));
  of.pass(1_000);
  assert.equal(of.budgets.size, 0, "looked at again later");
});

Deno.test("01 5.13 budgets are bounded, and the oldest makes room", () => {
  using of = budgets(3);
  for (const id of ["a", "b", "c", "d"]) assert.ok(of.take(id, rates(1), 1));
  assert.equal(of.budgets.size, 3);
  for (const id of ["b", "c", "d"]) assert.ok(!of.take(id, rates(1), 1), id);
  assert.ok(of.take("a", rates(1), 1));
});

Deno.test("a client id is never a word of this language", () => {
  using of = budgets();
  assert.ok(of.take("__proto__", rates(1), 1));
  assert.ok(!of.take("__proto__", rates(1), 1));
});
