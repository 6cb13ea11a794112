import assert from "node:assert/strict";
import { SessionFilters } from "../../src/broker/session_filters.ts";
import type { StoredSubscription } from "../../src/storage/contract.ts";
import type { QoS } from "../../src/storage/record.ts";
import { matches } from "../../src/topics/filter.ts";
import { Random } from "../support/random.ts";

const LEVELS = ["a", "b", "", "$c"];

function topicOf(random: Random): string {
  const levels = Array.from({ length: random.between(1, 4) }, () => random.pick(LEVELS));
  return levels.join("/") || "a";
}

function filterOf(random: Random): string {
  const levels = topicOf(random).split("/").map((level) => random.chance(0.3) ? "+" : level);
  if (random.chance(0.3)) levels.push("#");
  return levels.join("/");
}

function subscriptionOf(random: Random, filter: string): StoredSubscription {
  return {
    filter,
    qos: random.below(3) as QoS,
    noLocal: random.chance(0.3),
    retainAsPublished: random.chance(0.3),
    retainHandling: 0,
    ...(random.chance(0.5) ? { identifier: random.between(1, 1_000) } : {}),
  } as StoredSubscription;
}

Deno.test("D4.6 a session of many filters is granted by those that match, and no others", () => {
  const random = new Random(4);
  const filters = new SessionFilters(() => false);
  const held = new Map<string, StoredSubscription>();
  for (let step = 0; step < 3_000; step++) {
    const filter = filterOf(random);
    if (random.chance(held.size > 60 ? 0.6 : 0.2)) {
      assert.deepEqual(filters.remove(filter), held.delete(filter));
    } else {
      const subscription = subscriptionOf(random, filter);
      filters.add(subscription, false);
      held.set(filter, subscription);
    }
    const topic = topicOf(random);
    for (const own of [false, true]) {
      const granted = filters.grants(topic, false)[own ? "own" : "others"];
      const matching = [...held.values()].filter((each) =>
        matches(each.filter, topic) && !(own && each.noLocal)
      );
      const identifiers = matching.flatMap((each) => each.identifier ?? []);
      assert.deepEqual(granted === undefined, matching.length === 0, topic);
      if (granted === undefined) continue;
      assert.deepEqual(granted.qos, Math.max(...matching.map((each) => each.qos)));
      assert.deepEqual(granted.retainAsPublished, matching.some((each) => each.retainAsPublished));
      assert.deepEqual([...granted.identifiers].sort(), identifiers.sort());
    }
  }
});
