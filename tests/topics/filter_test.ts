import assert from "node:assert/strict";
import {
  compareExactness,
  covers,
  filterFault,
  intersects,
  isFault,
  levels,
  matches,
  splitShared,
  topicFault,
} from "../../src/topics/filter.ts";
import { seeded } from "../support/random.ts";
import {
  everyFilter,
  everySequence,
  plainExactness,
  plainMatches,
  someFilter,
  someTopic,
} from "./oracle.ts";

Deno.test("MQTT 4.7.1, 4.7.3: what a Topic Name may hold", () => {
  for (const topic of ["a", "/", "//", " ", "a/", "/a", "$SYS/x", "ü/😀", "a{b}"]) {
    assert.equal(topicFault(topic), undefined, topic);
  }
  for (const topic of ["", "+", "a/+", "a#", "#", "a\0b"]) {
    assert.equal(typeof topicFault(topic), "string", topic);
  }
});

Deno.test("MQTT 4.7.1: wildcards of a Topic Filter take whole levels, # only the last", () => {
  const right = [
    "#",
    "+",
    "/",
    "a",
    "a/#",
    "+/+",
    "/+",
    "+/",
    "/#",
    "a/+/b/#",
    "$share/g/#",
    "a//b",
  ];
  for (const filter of right) assert.equal(filterFault(filter), undefined, filter);
  const wrong = ["", "a+", "+a", "a/b+/c", "a#", "#a", "a/#/b", "#/", "##", "++", "a/b#", "a\0"];
  for (const filter of wrong) assert.equal(typeof filterFault(filter), "string", filter);
});

Deno.test("levels counts empty levels too", () => {
  assert.deepEqual(["a", "a/b", "/", "a/", "//"].map(levels), [1, 2, 2, 2, 3]);
  assert.equal(levels("/".repeat(60_000)), 60_001);
});

Deno.test("02a 1.1 the worked example: which filter matches which topic", () => {
  const rows: [string, string, boolean][] = [
    ["plant/pump/+/state/#", "plant/pump/p9/state", true],
    ["plant/pump/+/state/#", "plant/pump/p9/state/mode", true],
    ["plant/pump/+/+/#", "plant/pump/p9/rpm/raw", true],
    ["plant/pump/+/+/#", "plant/pump/p9", false],
    ["plant/tank/+/level", "plant/tank/t3/level/raw", false],
    ["#", "$SYS/x", false],
    ["+/x", "$SYS/x", false],
    ["$SYS/#", "$SYS/x", true],
    ["$SYS/#", "$SYS", true],
    ["a/+", "a/", true],
    ["a/+", "a", false],
    ["+/+", "/", true],
    ["/+", "/a", true],
    ["+", "/a", false],
    ["a/#", "ab", false],
    ["a/b", "a/bc", false],
    ["a/bc", "a/b", false],
  ];
  for (const [filter, topic, expected] of rows) {
    assert.equal(matches(filter, topic), expected, `${filter} on ${topic}`);
    assert.equal(plainMatches(filter, topic), expected, `the oracle: ${filter} on ${topic}`);
  }
});

Deno.test("matches agrees with splitting on random topics and filters", () => {
  const random = seeded("matches");
  let hits = 0;
  for (let i = 0; i < 60_000; i++) {
    const filter = someFilter(random, 5);
    const topic = someTopic(random, 5);
    const expected = plainMatches(filter, topic);
    if (expected) hits++;
    assert.equal(matches(filter, topic), expected, `${filter} on ${topic}`);
  }
  assert.ok(hits > 1000, `only ${hits} matched`);
});

// Small enough to try everything: two levels that filters may name, one ("z") that none does, and
// topics one level deeper than any filter.
const FILTERS = everyFilter(["", "a", "$s"], 3);
const TOPICS = everySequence(["", "a", "$s", "z"], 5);

/** For each filter the topics it matches, as bits. */
const MATCHED = new Map(FILTERS.map((filter) => {
  const bits = new Uint32Array(Math.ceil(TOPICS.length / 32));
  TOPICS.forEach((topic, i) => {
    if (plainMatches(filter, topic)) bits[i >>> 5] |= 1 << (i & 31);
  });
  return [filter, bits];
}));

Deno.test("matches agrees with splitting on every small topic and filter", () => {
  for (const filter of FILTERS) {
    const bits = MATCHED.get(filter)!;
    TOPICS.forEach((topic, i) => {
      const expected = (bits[i >>> 5] >>> (i & 31) & 1) === 1;
      if (matches(filter, topic) !== expected) assert.fail(`${filter} on ${topic}`);
    });
  }
});

Deno.test("02a 2.1 intersects: some topic matches both, tried on every pair of small filters", () => {
  for (const a of FILTERS) {
    const one = MATCHED.get(a)!;
    for (const b of FILTERS) {
      const two = MATCHED.get(b)!;
      const expected = one.some((word, i) => (word & two[i]) !== 0);
      if (intersects(a, b) !== expected) assert.fail(`${a} and ${b}: ${expected}`);
    }
  }
});

Deno.test("02b covers: every topic of the other matches, tried on every pair of small filters", () => {
  for (const a of FILTERS) {
    const one = MATCHED.get(a)!;
    for (const b of FILTERS) {
      const two = MATCHED.get(b)!;
      const expected = two.every((word, i) => (word & ~one[i]) === 0);
      if (covers(a, b) !== expected) assert.fail(`${a} covers ${b}: ${expected}`);
    }
  }
});

Deno.test("02a 1.4 compareExactness: the table of winners", () => {
  const rows = [
    ["a/b/#", "a/+/c"],
    ["a/b", "a/b/#"],
    ["a/+", "a/#"],
    ["a/+", "a/+/#"],
    ["a/+/c", "a/+/#"],
  ];
  for (const [winner, loser] of rows) {
    assert.ok(compareExactness(winner, loser) < 0, `${winner} beats ${loser}`);
    assert.ok(compareExactness(loser, winner) > 0, `${loser} loses to ${winner}`);
    assert.equal(compareExactness(winner, winner), 0);
  }
});

Deno.test("02a 1.4 compareExactness decides as the table does wherever two filters share a topic", () => {
  for (const a of FILTERS) {
    for (const b of FILTERS) {
      const sign = Math.sign(compareExactness(a, b));
      if (sign + Math.sign(compareExactness(b, a)) !== 0) assert.fail(`${a} and ${b} both win`);
      if ((sign === 0) !== (a === b)) assert.fail(`${a} and ${b} tie`);
      if (a !== b && intersects(a, b) && sign !== Math.sign(plainExactness(a, b))) {
        assert.fail(`${a} against ${b}`);
      }
    }
  }
});

Deno.test("I12 sorting by exactness has one outcome, whatever the order before", () => {
  const random = seeded("exactness order");
  const expected = [...FILTERS].sort(compareExactness);
  for (let i = 0; i < 20; i++) {
    assert.deepEqual(random.shuffled(FILTERS).sort(compareExactness), expected);
  }
});

Deno.test("topics and filters of thousands of levels are no deeper than any other", () => {
  const deep = "a/".repeat(30_000);
  const pluses = "+/".repeat(30_000);
  assert.ok(matches(`${pluses}#`, `${deep}b`));
  assert.ok(!matches(`${pluses}c`, `${deep}b`));
  assert.ok(intersects(`${pluses}#`, `${deep}b`));
  assert.ok(covers(`${pluses}#`, `${deep}b`));
  assert.ok(compareExactness(`${deep}b`, `${deep}+`) < 0);
});

Deno.test("02a 5 $share: what is one, what is none, and what is refused", () => {
  assert.deepEqual(splitShared("$share/g/a/+/#"), { share: "g", filter: "a/+/#" });
  assert.deepEqual(splitShared("$share/$g/x"), { share: "$g", filter: "x" });
  assert.deepEqual(splitShared("$share/g//"), { share: "g", filter: "/" });
  assert.deepEqual(splitShared("$share/g/$sharex/y"), { share: "g", filter: "$sharex/y" });
  assert.deepEqual(splitShared("$share/g/$saguin/queue/w"), {
    share: "g",
    filter: "$saguin/queue/w",
  });
  for (
    const plain of ["a", "a/$share/g/x", "$sharex/g/x", "share/g/x", "$SYS/x", "#", "$shar/g/x"]
  ) {
    assert.equal(splitShared(plain), undefined, plain);
  }
  const refused = [
    "$share",
    "$share/",
    "$share//x",
    "$share/g",
    "$share/g/",
    "$share/+/x",
    "$share/#",
    "$share/a+b/x",
    "$share/a#/x",
    "$share/g/$share/h/x",
    "$share/g/$SHARE/h/x",
    "$share/g/$share",
    "$SHARE/g/x",
    "$Share/g/x",
    "$SHARE",
  ];
  for (const filter of refused) assert.ok(isFault(splitShared(filter)), filter);
});
