import assert from "node:assert/strict";
import { Arrivals } from "../../src/broker/channels/arrivals.ts";

Deno.test("D13.12 reports in order are all news, and all known afterwards", () => {
  const arrivals = new Arrivals(5);
  assert.ok(arrivals.has(4));
  for (let offset = 5; offset < 10; offset++) {
    assert.ok(!arrivals.has(offset));
    assert.ok(arrivals.report(offset, "t"));
    assert.ok(arrivals.has(offset));
  }
  assert.equal(arrivals.end, 10);
});

Deno.test("D13.12 a late report is news only of a topic that nothing newer was reported of", () => {
  const arrivals = new Arrivals(1);
  assert.ok(arrivals.report(4, "a"));
  assert.ok(!arrivals.has(3));
  assert.ok(arrivals.report(2, "b"));
  assert.ok(!arrivals.report(3, "a"));
  assert.ok(arrivals.report(1, "c"));
  assert.equal(arrivals.end, 5);
  assert.ok(arrivals.report(5, "a"));
});

Deno.test("D13.12 a topic's newest report counts however many older ones come late", () => {
  const arrivals = new Arrivals(1);
  assert.ok(arrivals.report(4, "a"));
  assert.ok(!arrivals.report(2, "a"));
  assert.ok(!arrivals.report(3, "a"));
  assert.ok(!arrivals.report(1, "a"));
});

Deno.test("I13 a report that never comes holds nothing back for long", () => {
  const arrivals = new Arrivals(1);
  for (let offset = 2; offset <= 10_000; offset++) {
    assert.ok(arrivals.report(offset, `t/${offset}`));
  }
  assert.ok(arrivals.has(1));
  assert.ok(arrivals.report(10_001, "t"));
  assert.ok(arrivals.report(1, "late"));
});
