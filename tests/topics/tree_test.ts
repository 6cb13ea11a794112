import assert from "node:assert/strict";
import { SubscriptionTree } from "../../src/topics/tree.ts";
import { seeded } from "../support/random.ts";
import { plainMatches, someFilter, someTopic } from "./oracle.ts";

function matched<V>(tree: SubscriptionTree<V>, topic: string): V[] {
  const values: V[] = [];
  tree.match(topic, (value) => values.push(value));
  return values;
}

Deno.test("a subscription is a filter and a key: replacing it gives back the old value", () => {
  const tree = new SubscriptionTree<number>();
  assert.ok(tree.isEmpty);
  assert.equal(tree.add("a/+", "c1", 1), undefined);
  assert.equal(tree.add("a/+", "c2", 2), undefined);
  assert.equal(tree.add("a/#", "c1", 3), undefined);
  assert.equal(tree.add("a/+", "c1", 4), 1);
  assert.equal(tree.size, 3);
  assert.deepEqual(matched(tree, "a/x").sort(), [2, 3, 4]);
  assert.equal(tree.get("a/+", "c1"), 4);
  assert.equal(tree.get("a/+", "c3"), undefined);
  assert.equal(tree.get("b", "c1"), undefined);
  assert.deepEqual(tree.at("a/+").sort(), [2, 4]);
  assert.deepEqual(tree.at("a/x"), []);
  assert.equal(tree.remove("a/+", "c1"), 4);
  assert.equal(tree.remove("a/+", "c1"), undefined);
  assert.equal(tree.remove("a", "c1"), undefined);
  assert.equal(tree.remove("nowhere/at/all", "c1"), undefined);
  assert.equal(tree.size, 2);
});

Deno.test("match names the filter that matched", () => {
  const tree = new SubscriptionTree<string>();
  for (const filter of ["#", "a/#", "a/+", "a/b", "+/b", "b", "$SYS/#"]) tree.add(filter, "c", "v");
  const filters: string[] = [];
  tree.match("a/b", (_, filter) => filters.push(filter));
  assert.deepEqual(filters.sort(), ["#", "+/b", "a/#", "a/+", "a/b"]);
  filters.length = 0;
  tree.match("$SYS/x", (_, filter) => filters.push(filter));
  assert.deepEqual(filters, ["$SYS/#"]);
});

Deno.test("match agrees with scanning a list, while subscriptions come and go (I12)", () => {
  const random = seeded("subscription tree");
  let hits = 0;
  for (let round = 0; round < 60; round++) {
    const tree = new SubscriptionTree<string>();
    const list = new Map<string, { filter: string; key: string; value: string }>();
    for (let step = 0; step < 400; step++) {
      const known = [...list.values()];
      if (known.length > 0 && random.chance(0.35)) {
        const gone = random.pick(known);
        assert.equal(tree.remove(gone.filter, gone.key), gone.value);
        list.delete(`${gone.key} ${gone.filter}`);
      } else {
        // Few filters and many keys, so that one filter gets more subscribers than are scanned.
        const filter = random.chance(0.3) ? "a/+" : someFilter(random, 4);
        const key = `c${random.below(60)}`;
        const id = `${key} ${filter}`;
        const value = `${id} ${step}`;
        assert.equal(tree.add(filter, key, value), list.get(id)?.value);
        list.set(id, { filter, key, value });
      }
      assert.equal(tree.size, list.size);
      const topic = random.chance(0.2) ? "a/b" : someTopic(random, 5);
      const expected = [...list.values()].filter((each) => plainMatches(each.filter, topic));
      hits += expected.length;
      assert.deepEqual(matched(tree, topic).sort(), expected.map((each) => each.value).sort());
    }
    for (const each of random.shuffled([...list.values()])) {
      assert.equal(tree.get(each.filter, each.key), each.value);
      assert.equal(tree.remove(each.filter, each.key), each.value);
    }
    assert.ok(tree.isEmpty);
    assert.equal(tree.nodes, 0);
  }
  assert.ok(hits > 1000, `only ${hits} hits`);
});

Deno.test("I13 removed filters leave no nodes behind", () => {
  const random = seeded("empty nodes");
  const tree = new SubscriptionTree<number>();
  tree.add("keep/this", "c", 1);
  const before = tree.nodes;
  const filters = Array.from({ length: 500 }, () => someFilter(random, 6));
  for (const filter of filters) tree.add(filter, "c", 1);
  for (const filter of random.shuffled([...new Set(filters)])) tree.remove(filter, "c");
  assert.equal(tree.nodes, before);
  assert.deepEqual(matched(tree, "keep/this"), [1]);
});

Deno.test("a filter of thousands of levels is added, matched and removed without recursion", () => {
  const tree = new SubscriptionTree<number>();
  const deep = "a/".repeat(30_000);
  tree.add(`${deep}b`, "c", 1);
  tree.add("+/".repeat(30_000) + "#", "c", 2);
  assert.deepEqual(matched(tree, `${deep}b`).sort(), [1, 2]);
  assert.deepEqual(matched(tree, `${deep}c`), [2]);
  assert.equal(tree.remove(`${deep}b`, "c"), 1);
  assert.equal(tree.remove("+/".repeat(30_000) + "#", "c"), 2);
  assert.equal(tree.nodes, 0);
});

Deno.test("a visit may remove subscriptions: every other one is still visited exactly once", () => {
  const random = seeded("removing visits");
  for (let round = 0; round < 200; round++) {
    const tree = new SubscriptionTree<string>();
    const filters = ["a/b", "a/+", "a/#", "#", "+/b"];
    const all: [filter: string, key: string][] = [];
    for (const filter of filters) {
      for (let i = 0; i < random.between(1, 30); i++) {
        tree.add(filter, `c${i}`, `${filter} c${i}`);
        all.push([filter, `c${i}`]);
      }
    }
    const removed = new Set<string>();
    const visits = new Map<string, number>();
    tree.match("a/b", (value) => {
      visits.set(value, (visits.get(value) ?? 0) + 1);
      const [filter, key] = random.pick(all);
      if (random.chance(0.3) && tree.remove(filter, key) !== undefined) {
        removed.add(`${filter} ${key}`);
      }
    });
    for (const [filter, key] of all) {
      const value = `${filter} ${key}`;
      const times = visits.get(value) ?? 0;
      assert.ok(times === 1 || (times === 0 && removed.has(value)), `${value}: ${times} visits`);
    }
    assert.equal(tree.size, all.length - removed.size);
  }
});

Deno.test("a visit may match again, and one that throws leaves the tree usable", () => {
  const tree = new SubscriptionTree<string>();
  for (const filter of ["a", "+", "#", "b"]) tree.add(filter, "c", filter);
  assert.equal(matched(tree, "a").length, 3);
  const seen: string[] = [];
  tree.match("a", (outer) => tree.match("b", (inner) => seen.push(outer + inner)));
  assert.deepEqual(seen.sort(), ["##", "#+", "#b", "+#", "++", "+b", "a#", "a+", "ab"]);
  assert.throws(() =>
    tree.match("a", () => {
      throw new Error("from the visit");
    }), /from the visit/);
  assert.deepEqual(matched(tree, "a").sort(), ["#", "+", "a"]);
});
