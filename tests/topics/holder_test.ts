import assert from "node:assert/strict";
import { expandBraces } from "../../src/topics/braces.ts";
import { deadLetterFilter } from "../../src/topics/deadletter.ts";
import { isFault } from "../../src/topics/filter.ts";
import { TopicHolders } from "../../src/topics/holder.ts";
import { type Random, seeded } from "../support/random.ts";
import { plainExactness, plainMatches, someFilter, someTopic } from "./oracle.ts";

/** Channels as a configuration writes them: name to filter, braces included. */
function holders(channels: Record<string, string>): TopicHolders<string> {
  const pairs: [string, string][] = [];
  for (const [name, written] of Object.entries(channels)) {
    const expanded = expandBraces(written);
    assert.ok(!isFault(expanded));
    for (const filter of expanded) pairs.push([filter, name]);
  }
  return new TopicHolders(pairs);
}

const PLANT = {
  "pump-state": "plant/pump/+/state/#",
  "pump-log": "plant/pump/+/+/#",
  "tank-log": "plant/tank/+/{level,alarm}",
};

Deno.test("02a 1.1 the worked example: who holds which topic", () => {
  const plant = holders(PLANT);
  const rows: [string, string | undefined][] = [
    ["plant/pump/p9/state", "pump-state"],
    ["plant/pump/p9/state/mode", "pump-state"],
    ["plant/pump/p9/rpm", "pump-log"],
    ["plant/pump/p9/rpm/raw", "pump-log"],
    ["plant/tank/t3/level", "tank-log"],
    ["plant/tank/t3/level/raw", undefined],
    ["plant/tank/t3/temp", undefined],
    ["plant/pump/p9", undefined],
  ];
  for (const [topic, holder] of rows) {
    assert.equal(plant.holder(topic), holder, topic);
    assert.equal(plant.holder(topic), holder, `${topic}, asked again`);
  }
  assert.equal(plant.claim("plant/tank/t3/alarm")?.filter, "plant/tank/+/alarm");
});

Deno.test("02a 1.4 the table of winners", () => {
  const rows = [
    ["a/b/c", "a/+/c", "a/b/#", "a/b/#"],
    ["a/b", "a/b", "a/b/#", "a/b"],
    ["a/x", "a/+", "a/#", "a/+"],
    ["a/x", "a/+", "a/+/#", "a/+"],
    ["a/x/c", "a/+/#", "a/+/c", "a/+/c"],
  ];
  for (const [topic, one, two, winner] of rows) {
    assert.equal(new TopicHolders([[one, one], [two, two]]).holder(topic), winner);
    assert.equal(new TopicHolders([[two, two], [one, one]]).holder(topic), winner);
  }
});

Deno.test("02a 2 what a filter touches: intersection, not ownership, and each channel once", () => {
  const plant = holders(PLANT);
  assert.deepEqual(plant.touched("plant/pump/p9/state"), ["pump-state", "pump-log"]);
  assert.deepEqual(plant.touched("plant/tank/#"), ["tank-log"]);
  assert.deepEqual(plant.touched("plant/tank/t3/level/raw"), []);
  assert.deepEqual(new Set(plant.touched("#")), new Set(Object.keys(PLANT)));
});

Deno.test("02a 4 a filter inside a queue, and one that a more exact channel takes out of it", () => {
  const shop = holders({
    jobs: "jobs/#",
    jobs__dlq: deadLetterFilter("jobs/#"),
    notes: "jobs/notes/#",
    welds: "shop/+/weld",
    welds__dlq: deadLetterFilter("shop/+/weld"),
  });
  const rows: [string, string | undefined][] = [
    ["jobs/#", "jobs"],
    ["jobs/+/x", "jobs"],
    ["jobs", "jobs"],
    ["jobs/__dlq/#", "jobs__dlq"],
    ["jobs/__dlq/j1", "jobs__dlq"],
    ["jobs/notes/+", "notes"],
    ["shop/s1/weld", "welds"],
    ["shop/+/weld", "welds"],
    ["shop/+/weld/__dlq", "welds__dlq"],
    ["shop/#", undefined],
    ["#", undefined],
    ["shop/+/weld/#", undefined],
  ];
  for (const [filter, expected] of rows) {
    assert.equal(shop.inside(filter)?.value, expected, filter);
    assert.equal(shop.covering(filter)[0]?.value, expected, filter);
  }
  assert.deepEqual(shop.covering("jobs/__dlq/x").map((claim) => claim.value), [
    "jobs__dlq",
    "jobs",
  ]);
});

Deno.test("two equal filters are a mistake of the caller", () => {
  assert.throws(() => new TopicHolders([["a/+", 1], ["a/+", 2]]), /a\/\+/);
  assert.throws(() => new TopicHolders([["a/#", 1], ["a/#", 2]]), /a\/#/);
});

function someFilters(random: Random): string[] {
  const count = random.between(1, 25);
  return [...new Set(Array.from({ length: count }, () => someFilter(random, 4)))];
}

Deno.test("02a 1.4 and I12: the holder is the first by exactness, in whatever order they are given", () => {
  const random = seeded("holders");
  let held = 0;
  for (let round = 0; round < 400; round++) {
    const filters = someFilters(random);
    const built = new TopicHolders(filters.map((each) => [each, each]));
    const again = new TopicHolders(random.shuffled(filters).map((each) => [each, each]));
    assert.deepEqual(again.claims, built.claims);
    for (let i = 0; i < 60; i++) {
      const topic = someTopic(random, 5);
      const expected = filters.filter((filter) =>
        plainMatches(filter, topic)
      ).sort(plainExactness)[0];
      if (expected !== undefined) held++;
      assert.equal(built.holder(topic), expected, `${topic} among ${filters.join(" ")}`);
      assert.equal(again.holder(topic), expected, `${topic} among the same, shuffled`);
      const asked = someFilter(random, 4);
      assert.deepEqual(again.touched(asked), built.touched(asked));
      assert.deepEqual(again.covering(asked), built.covering(asked));
      assert.deepEqual(again.inside(asked), built.covering(asked)[0]);
    }
  }
  assert.ok(held > 1000, `only ${held} topics were held`);
});

Deno.test("I13 more topics than the cache remembers are answered as before", () => {
  const built = new TopicHolders<number>([["a/#", 1], ["b/+", 2]]);
  for (let round = 0; round < 2; round++) {
    for (let i = 0; i < 20_000; i++) {
      assert.equal(built.holder(`a/${i}`), 1);
      assert.equal(built.holder(`b/${i}`), 2);
      assert.equal(built.holder(`c/${i}`), undefined);
    }
  }
});

Deno.test("a topic of thousands of levels is resolved without recursion", () => {
  const pluses = "a/" + "+/".repeat(30_000);
  const built = new TopicHolders([[`${pluses}x`, "end"], [`${pluses}#`, "tail"]]);
  const deep = "a/".repeat(30_001);
  assert.equal(built.holder(`${deep}x`), "end");
  assert.equal(built.holder(`${deep}y`), "tail");
  assert.equal(built.holder("a/b"), undefined);
});
