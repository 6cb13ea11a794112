/**
 * Randomness that can be repeated. A test takes one generator and prints its seed; running it again
 * with SAGUIN_SEED set to that figure makes the same choices.
 */
import { CAMPAIGN } from "./campaign.ts";

export class Random {
  #a: number;
  #b: number;
  #c: number;
  #d: number;

  /** `seed`: any integer; its low 32 bits count. */
  constructor(readonly seed: number) {
    // A generator with 128 bits of state is seeded from 32 by mixing; the first rounds are dropped
    // because neighbouring seeds still look alike in them.
    this.#a = 0x9e3779b9;
    this.#b = 0x243f6a88;
    this.#c = seed >>> 0;
    this.#d = 1;
    for (let i = 0; i < 16; i++) this.uint32();
  }

  /** Small fast counting generator (sfc32): 0 to 2^32-1. */
  uint32(): number {
    const sum = (this.#a + this.#b + this.#d) | 0;
    this.#d = (this.#d + 1) | 0;
    this.#a = this.#b ^ (this.#b >>> 9);
    this.#b = (this.#c + (this.#c << 3)) | 0;
    this.#c = ((this.#c << 21) | (this.#c >>> 11)) + sum | 0;
    return sum >>> 0;
  }

  /** 0 up to, not including, 1. */
  fraction(): number {
    return this.uint32() / 2 ** 32;
  }

  /** A whole number from 0 up to, not including, `bound`. */
  below(bound: number): number {
    return Math.floor(this.fraction() * bound);
  }

  /** A whole number from `low` to `high`, both included. */
  between(low: number, high: number): number {
    return low + this.below(high - low + 1);
  }

  /** True with this probability. */
  chance(probability: number): boolean {
    return this.fraction() < probability;
  }

  pick<T>(from: readonly T[]): T {
    if (from.length === 0) throw new RangeError("pick: nothing to pick from");
    return from[this.below(from.length)];
  }

  bytes(length: number): Uint8Array<ArrayBuffer> {
    const bytes = new Uint8Array(length);
    for (let i = 0; i < length; i++) bytes[i] = this.uint32() >>> 24;
    return bytes;
  }

  /** A new array with the same members in another order. */
  shuffled<T>(from: readonly T[]): T[] {
    const order = [...from];
    for (let i = order.length - 1; i > 0; i--) {
      const j = this.below(i + 1);
      [order[i], order[j]] = [order[j], order[i]];
    }
    return order;
  }
}

/**
 * A generator for `test`, seeded from SAGUIN_SEED where that is set. Else a campaign draws a new seed each
 * time, and any other run takes the one that the test's name gives: a run that turns red was turned red by
 * what changed. The seed is printed.
 */
export function seeded(test: string): Random {
  const asked = Deno.env.get("SAGUIN_SEED");
  const seed = asked !== undefined ? Number(asked) : CAMPAIGN > 1 ? drawn() : named(test);
  if (!Number.isInteger(seed)) throw new RangeError(`SAGUIN_SEED "${asked}" is not a whole number`);
  console.log(`${test}: SAGUIN_SEED=${seed}`);
  return new Random(seed);
}

function drawn(): number {
  return crypto.getRandomValues(new Uint32Array(1))[0];
}

/** FNV-1a of the name. */
function named(test: string): number {
  let hash = 0x811c9dc5;
  for (let i = 0; i < test.length; i++) hash = Math.imul(hash ^ test.charCodeAt(i), 0x01000193);
  return hash >>> 0;
}
