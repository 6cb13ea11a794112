/**
 * Client-declared partitioning (03 section 15): the hash of a topic, the slice it falls in, and the
 * `saguin-filter` User Property that declares slices.
 */

import type { Fault } from "./filter.ts";

/** What a subscription declared: `indices` of `count` partitions, ascending, each once. */
export interface Partitions {
  readonly count: number;
  readonly indices: readonly number[];
}

/** The most partitions that can be declared (D15.2). */
export const MAX_PARTITIONS = 2147483647;

// The hash is arithmetic mod 2^64 kept in two 32-bit words, because BigInt costs an allocation per
// byte of topic. The words of the last topic stay here: a publish asks once per subscription. They
// lie in a typed array since a variable of the module would box every figure above 2^30.
let hashed: string | undefined;
const words = new Int32Array(2);
const HIGH = 0;
const LOW = 1;

const FNV_OFFSET_HIGH = 0xcbf29ce4 | 0;
const FNV_OFFSET_LOW = 0x84222325 | 0;
/** The FNV prime is 2^40 + 435. */
const FNV_PRIME_LOW = 435;

/** `h = (h xor byte) * prime`, the low word of the product taken from 16-bit halves. */
function step(byte: number): void {
  const word = words[LOW] ^ byte;
  const first = (word & 0xffff) * FNV_PRIME_LOW;
  const second = (word >>> 16) * FNV_PRIME_LOW + (first >>> 16);
  words[HIGH] = Math.imul(words[HIGH], FNV_PRIME_LOW) + (word << 8) + (second >>> 16);
  words[LOW] = (second << 16) | (first & 0xffff);
}

/** `h ^= h >> shift`, for a shift below 32. */
function fold(shift: number): void {
  words[LOW] ^= (words[LOW] >>> shift) | (words[HIGH] << (32 - shift));
  words[HIGH] ^= words[HIGH] >>> shift;
}

/** `h *= factor`. */
function multiply(factorHigh: number, factorLow: number): void {
  const low = words[LOW];
  const low0 = low & 0xffff;
  const low1 = low >>> 16;
  const factor0 = factorLow & 0xffff;
  const factor1 = factorLow >>> 16;
  const p01 = low0 * factor1;
  // Each term is below 2^32, so the sums are exact.
  const middle = low1 * factor0 + ((low0 * factor0) >>> 16) + (p01 & 0xffff);
  const carry = low1 * factor1 + Math.floor(middle / 0x10000) + (p01 >>> 16);
  // What lies above 32 bits in the sum is cut off as the typed array stores it.
  words[HIGH] = Math.imul(words[HIGH], factorLow) + Math.imul(low, factorHigh) + carry;
  words[LOW] = Math.imul(low, factorLow);
}

function hash(topic: string): void {
  if (topic === hashed) return;
  words[HIGH] = FNV_OFFSET_HIGH;
  words[LOW] = FNV_OFFSET_LOW;
  for (let i = 0; i < topic.length; i++) {
    let c = topic.charCodeAt(i);
    if (c < 0x80) {
      step(c);
      continue;
    }
    if (c < 0x800) {
      step(0xc0 | (c >>> 6));
    } else {
      if (c >= 0xd800 && c < 0xdc00) {
        // A topic came in as UTF-8, so a high surrogate is always followed by its low one.
        c = topic.codePointAt(i++)!;
        step(0xf0 | (c >>> 18));
        step(0x80 | ((c >>> 12) & 0x3f));
      } else {
        step(0xe0 | (c >>> 12));
      }
      step(0x80 | ((c >>> 6) & 0x3f));
    }
    step(0x80 | (c & 0x3f));
  }
  fold(30);
  multiply(0xbf58476d, 0x1ce4e5b9);
  fold(27);
  multiply(0x94d049bb, 0x133111eb);
  fold(31);
  hashed = topic;
}

/** The mixed hash of a topic's UTF-8 bytes (D15.10). For people and tests: it makes a BigInt. */
export function topicHash(topic: string): bigint {
  hash(topic);
  return (BigInt(words[HIGH] >>> 0) << 32n) | BigInt(words[LOW] >>> 0);
}

/** The slice of `count` partitions that a topic falls in: its hash mod `count`. */
export function slice(topic: string, count: number): number {
  hash(topic);
  // Sixteen bits at a time keep every product below 2^53.
  let rest = (words[HIGH] >>> 0) % count;
  rest = (rest * 0x10000 + (words[LOW] >>> 16)) % count;
  return (rest * 0x10000 + (words[LOW] & 0xffff)) % count;
}

/** Whether a topic is in one of the declared slices; everything is when nothing was declared. */
export function inSlices(partitions: Partitions | undefined, topic: string): boolean {
  if (partitions === undefined) return true;
  const wanted = slice(topic, partitions.count);
  const indices = partitions.indices;
  let from = 0;
  let to = indices.length;
  while (from < to) {
    const middle = (from + to) >>> 1;
    if (indices[middle] < wanted) from = middle + 1;
    else to = middle;
  }
  return indices[from] === wanted;
}

const FORM = "saguin-filter takes topic_hash(<partitions>, <index>)";
const FUNCTION = "topic_hash";

/** The refusals of a declaration (D15.3), each its own sentence. */
const Refused = {
  empty: `${FORM}: the value is empty`,
  notACall: `${FORM}: the value is not one call of it`,
  unknown: `${FORM}: there is no other function`,
  arguments: `${FORM}: it has exactly two arguments`,
  notANumber: `${FORM}: an argument is not a number written in decimal digits`,
  tooLarge: `${FORM}: an argument is larger than ${MAX_PARTITIONS}`,
  noPartitions: `${FORM}: there is at least one partition`,
  beyond: `${FORM}: the index is below the number of partitions`,
  differing: `${FORM}: every declaration of one SUBSCRIBE names the same number of partitions`,
} as const;

/**
 * Reads the `saguin-filter` values of one SUBSCRIBE (D15.1 to D15.3). Undefined for an empty list:
 * nothing was declared. A fault is the Reason String that goes with 0x83 on every filter.
 */
export function parseDeclaration(values: readonly string[]): Partitions | Fault | undefined {
  if (values.length === 0) return undefined;
  const indices = new Set<number>();
  let count = 0;
  for (const value of values) {
    const call = parseCall(value);
    if ("fault" in call) return call;
    if (count !== 0 && call.count !== count) return { fault: Refused.differing };
    count = call.count;
    indices.add(call.index);
  }
  return { count, indices: [...indices].sort((a, b) => a - b) };
}

/** One `topic_hash(<partitions>, <index>)`, scanned in time linear in its length. */
function parseCall(value: string): { count: number; index: number } | Fault {
  const call = trim(value);
  if (call === "") return { fault: Refused.empty };
  const open = call.indexOf("(");
  if (open < 0 || !call.endsWith(")")) return { fault: Refused.notACall };
  const name = trim(call.slice(0, open));
  const inside = call.slice(open + 1, -1);
  if (inside.includes("(") || inside.includes(")") || !/^\w+$/.test(name)) {
    return { fault: Refused.notACall };
  }
  if (name !== FUNCTION) return { fault: Refused.unknown };
  const comma = inside.indexOf(",");
  if (comma < 0 || inside.includes(",", comma + 1)) return { fault: Refused.arguments };
  const count = parseNumber(trim(inside.slice(0, comma)));
  const index = parseNumber(trim(inside.slice(comma + 1)));
  if (Number.isNaN(count) || Number.isNaN(index)) return { fault: Refused.notANumber };
  if (count > MAX_PARTITIONS || index > MAX_PARTITIONS) return { fault: Refused.tooLarge };
  if (count === 0) return { fault: Refused.noPartitions };
  if (index >= count) return { fault: Refused.beyond };
  return { count, index };
}

/** Strips the four ASCII whitespace characters of D15.2, and no others, from both ends. */
function trim(text: string): string {
  let from = 0;
  let to = text.length;
  while (from < to && isSpace(text.charCodeAt(from))) from++;
  while (to > from && isSpace(text.charCodeAt(to - 1))) to--;
  return text.slice(from, to);
}

function isSpace(c: number): boolean {
  return c === 0x20 || c === 0x09 || c === 0x0d || c === 0x0a;
}

/** The number that decimal digits spell, or NaN when there is anything else, or nothing. */
function parseNumber(text: string): number {
  return /^[0-9]+$/.test(text) ? Number(text) : NaN;
}

/**
 * Why a declaration cannot apply to this filter, though it is valid (D15.4), or undefined. Decided
 * by the prefix alone; it costs the one filter, not the packet.
 */
export function undeclarable(filter: string): string | undefined {
  if (filter.startsWith("$share/")) {
    return "saguin-filter does not apply to a shared subscription, which splits its messages itself";
  }
  if (filter.startsWith("$saguin/queue/")) {
    return "saguin-filter does not apply to a queue, which hands each job to one worker itself";
  }
  return undefined;
}
