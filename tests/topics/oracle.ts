/**
 * What the topic rules say, written as plainly as possible: split into levels, try everything. The
 * tests hold the fast code against this.
 */

import { Random } from "../support/random.ts";

/** MQTT 5 4.7 by splitting. */
export function plainMatches(filter: string, topic: string): boolean {
  const wanted = filter.split("/");
  const given = topic.split("/");
  if (topic.startsWith("$") && (wanted[0] === "+" || wanted[0] === "#")) return false;
  for (const [i, level] of wanted.entries()) {
    if (level === "#") return true;
    if (i >= given.length) return false;
    if (level !== "+" && level !== given[i]) return false;
    // "#" after the topic's last level matches the parent.
    if (i === given.length - 1 && i === wanted.length - 2 && wanted[i + 1] === "#") return true;
  }
  return wanted.length === given.length;
}

/** The table of 02a 1.4, for two filters that match one topic. */
export function plainExactness(a: string, b: string): number {
  const one = a.split("/");
  const two = b.split("/");
  for (let i = 0; i < Math.max(one.length, two.length); i++) {
    const x = one[i];
    const y = two[i];
    if (x === y) continue;
    const order = (level: string | undefined) =>
      level === "#" ? 3 : level === undefined ? 2 : level === "+" ? 1 : 0;
    return order(x) - order(y);
  }
  return 0;
}

/** Every sequence of one to `depth` of these levels, joined; the empty string is no topic. */
export function everySequence(levels: readonly string[], depth: number): string[] {
  const made: string[] = [];
  let longest: string[][] = [[]];
  for (let i = 0; i < depth; i++) {
    longest = longest.flatMap((begin) => levels.map((level) => [...begin, level]));
    made.push(...longest.map((each) => each.join("/")));
  }
  return made.filter((each) => each !== "");
}

/** Every filter of up to `depth` of these levels, with and without "#" after them. */
export function everyFilter(levels: readonly string[], depth: number): string[] {
  const without = everySequence([...levels, "+"], depth);
  return ["#", "/#", ...without, ...without.map((each) => `${each}/#`)];
}

const NAMES = ["", "a", "b", "c", "ab", "$s", "ü"];

export function someTopic(random: Random, depth: number): string {
  for (;;) {
    const levels = Array.from({ length: random.between(1, depth) }, () => random.pick(NAMES));
    const topic = levels.join("/");
    if (topic !== "") return topic;
  }
}

export function someFilter(random: Random, depth: number): string {
  for (;;) {
    const levels = Array.from(
      { length: random.between(1, depth) },
      () => random.chance(0.3) ? "+" : random.pick(NAMES),
    );
    if (random.chance(0.35)) levels[random.chance(0.5) ? levels.length : levels.length - 1] = "#";
    const filter = levels.join("/");
    if (filter !== "") return filter;
  }
}
