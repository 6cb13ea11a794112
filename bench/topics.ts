/**
 * What one message costs in the topic room: matching, resolving to a channel, walking the
 * subscription tree; and how matching goes with the number of subscriptions. Prints nanoseconds a call;
 * medians of several rounds.
 *
 *   deno run bench/topics.ts [--smoke]
 */

import { matches } from "../src/topics/filter.ts";
import { TopicHolders } from "../src/topics/holder.ts";
import { slice } from "../src/topics/partition.ts";
import { SubscriptionTree } from "../src/topics/tree.ts";

const SMOKE = Deno.args.includes("--smoke");
const ROUNDS = SMOKE ? 1 : 7;
const CALLS = SMOKE ? 10_000 : 200_000;
const SIZES = SMOKE ? [10, 1_000] : [10, 100, 1_000, 10_000, 100_000];

/** Results are added up here so that no call can be optimized away. */
let sum = 0;

function measure(what: string, call: (i: number) => number): void {
  console.log(`${what.padEnd(64)}${nanoseconds(call).toFixed(0).padStart(8)} ns`);
}

/** Nanoseconds a call, the median of several rounds. */
function nanoseconds(call: (i: number) => number): number {
  for (let i = 0; i < CALLS / 4; i++) sum += call(i);
  const rounds: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    const begin = performance.now();
    for (let i = 0; i < CALLS; i++) sum += call(i);
    rounds.push((performance.now() - begin) * 1e6 / CALLS);
  }
  rounds.sort((a, b) => a - b);
  return rounds[ROUNDS >> 1];
}

/** A string as it comes off the wire: flat, not a concatenation. */
function received(text: string): string {
  return new TextDecoder().decode(new TextEncoder().encode(text));
}

const strangers = Array.from(
  { length: 50_000 },
  (_, i) => received(`plant/pump/p${i}/readings/rpm`),
);
const topics = strangers.slice(0, 2048);
const topicAt = (i: number) => topics[i & 2047];

measure("matches, literal filter of 5 levels", (i) => +matches(topics[7], topicAt(i)));
measure("matches, plant/pump/+/readings/#", (i) => +matches("plant/pump/+/readings/#", topicAt(i)));
measure("slice of 16", (i) => slice(topicAt(i), 16));

const pairs: [string, number][] = [["plant/#", 0], ["plant/+/+/state/#", 1]];
for (let i = 0; i < 50; i++) pairs.push([`plant/kind${i}/+/readings/#`, i + 2]);
pairs.push(["plant/pump/+/readings/#", 99]);
const holders = new TopicHolders(pairs);
measure("holder, 53 channels, topics that repeat", (i) => holders.holder(topicAt(i))!);
measure("holder, 53 channels, 50000 topics in turn", (i) => holders.holder(strangers[i % 50_000])!);

const tree = new SubscriptionTree<number>();
for (let i = 0; i < 10_000; i++) {
  const filter = i % 2 === 0 ? `plant/pump/p${i}/readings/#` : `plant/pump/p${i}/+/rpm`;
  tree.add(filter, `client${i}`, i);
}
const count = (value: number) => {
  sum += value;
};
const walk = (topic: string) => {
  tree.match(topic, count);
  return 0;
};
measure("tree, 10000 filters, 1 matches", (i) => walk(topicAt(i)));
measure("tree, 10000 filters, none matches", (i) => walk(i & 1 ? "plant/fan/p1/readings" : "x/y"));
for (let i = 0; i < 100; i++) tree.add("plant/+/+/readings/rpm", `watcher${i}`, i);
measure("tree, 10000 filters, 101 match", (i) => walk(topicAt(i)));

// Every topic matches one filter of its own and one that all share, whatever the number of the others.
console.log("\nMatching a topic against so many subscriptions\n");
let least = Infinity;
let most = 0;
for (const size of SIZES) {
  const grown = new SubscriptionTree<number>();
  for (let i = 1; i < size; i++) {
    const filter = i % 2 === 0 ? `plant/pump/p${i}/readings/#` : `plant/pump/p${i}/+/rpm`;
    grown.add(filter, `client${i}`, i);
  }
  grown.add("plant/+/+/readings/rpm", "watcher", 1);
  // The same few topics at every size, so that what differs is the tree and not the cache of strings.
  const asked = strangers.slice(1, 9);
  const took = nanoseconds((i) => {
    grown.match(asked[i & 7], count);
    return 0;
  });
  least = Math.min(least, took);
  most = Math.max(most, took);
  console.log(`${String(size).padStart(10)}${took.toFixed(0).padStart(10)} ns`);
}
console.log(`\nmost / least ${(most / least).toFixed(2)}; promised: flat`);
if (sum === 0) console.log("nothing was measured");
