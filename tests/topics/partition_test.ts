import assert from "node:assert/strict";
import { isFault } from "../../src/topics/filter.ts";
import {
  inSlices,
  MAX_PARTITIONS,
  parseDeclaration,
  slice,
  topicHash,
  undeclarable,
} from "../../src/topics/partition.ts";
import { seeded } from "../support/random.ts";

Deno.test("D15.10 the hash vectors", () => {
  const rows: [string, bigint, number, number][] = [
    ["iot/depot/events/dev-1", 16961261177379703000n, 1, 0],
    ["iot/water/w-7/inspect", 16406880391913018636n, 2, 4],
    ["orders/resize/thumbnails/42", 10596179872049748585n, 0, 1],
    ["a", 198367012849983736n, 1, 0],
  ];
  for (const [topic, hash, of3, of8] of rows) {
    assert.equal(topicHash(topic), hash, topic);
    assert.equal(slice(topic, 3), of3, topic);
    assert.equal(slice(topic, 8), of8, topic);
  }
});

function plainHash(topic: string): bigint {
  const word = (value: bigint) => BigInt.asUintN(64, value);
  let h = 14695981039346656037n;
  for (const byte of new TextEncoder().encode(topic)) {
    h = word((h ^ BigInt(byte)) * 1099511628211n);
  }
  h = word((h ^ (h >> 30n)) * 13787848793156543929n);
  h = word((h ^ (h >> 27n)) * 10723151780598845931n);
  return h ^ (h >> 31n);
}

Deno.test("D15.10 the hash in two words is the hash in 64 bits, over UTF-8 of every width", () => {
  const random = seeded("topic hash");
  const characters = ["a", "/", "~", "\x7f", "\x80", "ü", "\u07ff", "\u0800", "€", "\uffff", "😀"];
  for (let i = 0; i < 5000; i++) {
    const length = random.between(1, 40);
    const topic = Array.from({ length }, () => random.pick(characters)).join("");
    const hash = plainHash(topic);
    assert.equal(topicHash(topic), hash, topic);
    const count = random.chance(0.2) ? MAX_PARTITIONS : random.between(1, MAX_PARTITIONS);
    assert.equal(slice(topic, count), Number(hash % BigInt(count)), `${topic} mod ${count}`);
  }
});

Deno.test("D15.1 a topic is delivered when its slice is declared; declaring nothing takes all", () => {
  for (let i = 0; i < 300; i++) {
    const topic = `device/${i}`;
    const own = slice(topic, 7);
    for (let index = 0; index < 7; index++) {
      assert.equal(inSlices({ count: 7, indices: [index] }, topic), index === own);
    }
    assert.ok(inSlices({ count: 7, indices: [0, 1, 2, 3, 4, 5, 6] }, topic));
    assert.equal(inSlices({ count: 7, indices: [1, 3, 4] }, topic), [1, 3, 4].includes(own));
    assert.ok(inSlices(undefined, topic));
  }
});

Deno.test("D15.2 what is read as a declaration", () => {
  assert.equal(parseDeclaration([]), undefined);
  const rows: [string[], number, number[]][] = [
    [["topic_hash(3, 0)"], 3, [0]],
    [["topic_hash(3,2)"], 3, [2]],
    [[" \t\r\ntopic_hash \t( \r3\n , 0002\t ) \n"], 3, [2]],
    [["topic_hash(1,0)"], 1, [0]],
    [["topic_hash(2147483647,2147483646)"], 2147483647, [2147483646]],
    [[`topic_hash(${"0".repeat(50)}8,1)`], 8, [1]],
    [["topic_hash(16,11)", "topic_hash(16, 2)", "topic_hash(16,11)"], 16, [2, 11]],
  ];
  for (const [values, count, indices] of rows) {
    assert.deepEqual(parseDeclaration(values), { count, indices }, values.join(" and "));
  }
});

function sentence(...values: string[]): string {
  const outcome = parseDeclaration(values);
  assert.ok(isFault(outcome), `${values.join(" and ")} was accepted`);
  assert.match(outcome.fault, /saguin-filter/);
  assert.match(outcome.fault, /topic_hash\(/);
  return outcome.fault;
}

Deno.test("D15.3 every refusal names the property and the form, and has its own sentence", () => {
  const same: Record<string, string[]> = {
    empty: ["", " ", "\t\r\n"],
    notACall: [
      "3,0",
      "topic_hash",
      "topic_hash(3,0",
      "topic_hash 3,0)",
      "topic_hash(3,0) topic_hash(3,1)",
      "topic_hash(3,0) or topic_hash(3,1)",
      "not topic_hash(3,0)",
      "topic_hash(3,0)x",
      "topic_hash((3),0)",
      "(3,0)",
      "\u00a0topic_hash(3,0)",
    ],
    unknown: ["TOPIC_HASH(3,0)", "nonesuch(3,0)", "nonesuch()", "Topic_hash(3, 0)"],
    arguments: ["topic_hash()", "topic_hash(3)", "topic_hash(3,0,1)", "topic_hash(3,0,)"],
    notANumber: [
      "topic_hash(3,)",
      "topic_hash(,0)",
      "topic_hash(+3,0)",
      "topic_hash(3,-1)",
      "topic_hash(0x3,0)",
      "topic_hash(3e0,0)",
      "topic_hash(3.0,0)",
      "topic_hash(3,a)",
      "topic_hash(1 6,0)",
      "topic_hash(٣,0)",
      "topic_hash(3,\u00a00)",
      "topic_hash(3,0\v)",
    ],
    tooLarge: [
      "topic_hash(2147483648,0)",
      "topic_hash(3,2147483648)",
      `topic_hash(${"9".repeat(5000)},0)`,
    ],
    noPartitions: ["topic_hash(0,0)", "topic_hash(000,1)"],
    beyond: ["topic_hash(3,3)", "topic_hash(3,2147483647)"],
  };
  const sentences = new Set<string>();
  for (const [kind, values] of Object.entries(same)) {
    const first = sentence(values[0]);
    for (const value of values) assert.equal(sentence(value), first, `${kind}: ${value}`);
    sentences.add(first);
  }
  sentences.add(sentence("topic_hash(3,0)", "topic_hash(4,0)"));
  assert.equal(sentences.size, Object.keys(same).length + 1);
});

Deno.test("D15.3 one bad value among good ones refuses them all", () => {
  assert.equal(sentence("topic_hash(3,0)", "topic_hash(3,3)"), sentence("topic_hash(3,3)"));
});

Deno.test("D15.2 a long value is read in time that grows with its length", () => {
  const spaces = " ".repeat(65_000);
  sentence(`${spaces}x${spaces}`);
  sentence(`topic_hash(${spaces}x${spaces},${spaces}`);
  assert.deepEqual(parseDeclaration([`topic_hash(3${spaces},1)`]), { count: 3, indices: [1] });
});

Deno.test("D15.4 shared subscriptions and queues take no declaration, each for its own reason", () => {
  const shared = undeclarable("$share/g/a");
  const queue = undeclarable("$saguin/queue/welds");
  assert.equal(typeof shared, "string");
  assert.equal(typeof queue, "string");
  assert.notEqual(shared, queue);
  for (const filter of ["#", "a/b", "$saguin/consumer/c/seek/reply", "a/$share/g"]) {
    assert.equal(undeclarable(filter), undefined, filter);
  }
});
