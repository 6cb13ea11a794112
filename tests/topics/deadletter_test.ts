import assert from "node:assert/strict";
import {
  deadLetterFilter,
  deadLetterTopic,
  hasDeadLetterLevel,
} from "../../src/topics/deadletter.ts";
import { covers, matches } from "../../src/topics/filter.ts";
import { seeded } from "../support/random.ts";
import { someFilter, someTopic } from "./oracle.ts";

Deno.test("02a 9 the filter of a dead-letter channel", () => {
  const rows = [
    ["shop/+/weld", "shop/+/weld/__dlq"],
    ["shop/+/+", "shop/+/+/__dlq"],
    ["shop/+/weld/#", "shop/+/weld/__dlq/#"],
    ["welds/#", "welds/__dlq/#"],
  ];
  for (const [queue, expected] of rows) assert.equal(deadLetterFilter(queue), expected);
});

Deno.test("D14.23 a dead letter's topic gains one level", () => {
  const rows = [
    ["jobs/#", "jobs/j1", "jobs/__dlq/j1"],
    ["jobs/#", "jobs/a/b", "jobs/__dlq/a/b"],
    ["jobs/#", "jobs", "jobs/__dlq"],
    ["jobs/#", "jobs/", "jobs/__dlq/"],
    ["iot/+/work/+", "iot/site/work/j1", "iot/site/work/j1/__dlq"],
    ["shop/+/weld", "shop/s1/weld", "shop/s1/weld/__dlq"],
    ["shop/+/weld/#", "shop/s1/weld/deep/er", "shop/s1/weld/__dlq/deep/er"],
    ["shop/+/weld/#", "shop//weld", "shop//weld/__dlq"],
    ["a/+/#", "a//", "a//__dlq/"],
  ];
  for (const [queue, topic, expected] of rows) {
    assert.equal(deadLetterTopic(queue, topic), expected, `${topic} of ${queue}`);
  }
});

Deno.test("D14.23 a dead letter's topic is one the dead-letter channel's filter matches", () => {
  const random = seeded("dead letters");
  let seen = 0;
  for (let i = 0; i < 60_000; i++) {
    const queue = `q/${someFilter(random, 3)}`;
    const topic = `q/${someTopic(random, 4)}`;
    if (!matches(queue, topic)) continue;
    seen++;
    const moved = deadLetterTopic(queue, topic);
    assert.ok(matches(deadLetterFilter(queue), moved), `${topic} of ${queue} became ${moved}`);
    assert.ok(hasDeadLetterLevel(moved));
    if (queue.endsWith("#")) assert.ok(covers(queue, deadLetterFilter(queue)), queue);
  }
  assert.ok(seen > 1000, `only ${seen} pairs`);
});

Deno.test("02a 9 the reserved level is found wherever it stands, and only as a whole level", () => {
  for (const filter of ["__dlq", "a/__dlq", "__dlq/a", "a/__dlq/#"]) {
    assert.ok(hasDeadLetterLevel(filter), filter);
  }
  for (const filter of ["a__dlq", "a/__dlq2", "a/x__dlq/b", "a/__DLQ", "a"]) {
    assert.ok(!hasDeadLetterLevel(filter), filter);
  }
});
