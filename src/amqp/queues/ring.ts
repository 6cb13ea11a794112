import type { Taker } from "./source.ts";

/** The consumers of one queue and whose turn it is (A49). */
export class Ring {
  #takers: Taker[] = [];
  #cursor = 0;

  get size(): number {
    return this.#takers.length;
  }

  get heldExclusively(): boolean {
    return this.#takers.length === 1 && this.#takers[0].exclusive;
  }

  add(taker: Taker): void {
    this.#takers.push(taker);
  }

  /** False when it was not there. */
  remove(taker: Taker): boolean {
    const at = this.#takers.indexOf(taker);
    if (at < 0) return false;
    this.#takers.splice(at, 1);
    if (at < this.#cursor) this.#cursor--;
    return true;
  }

  /** The first at or behind the cursor that has capacity; the cursor moves behind it. */
  next(): Taker | undefined {
    const takers = this.#takers;
    for (let i = 0; i < takers.length; i++) {
      const at = (this.#cursor + i) % takers.length;
      if (!takers[at].hasCapacity) continue;
      this.#cursor = at + 1;
      return takers[at];
    }
    return undefined;
  }

  someCapacity(): boolean {
    return this.#takers.some((taker) => taker.hasCapacity);
  }

  clear(): Taker[] {
    const takers = this.#takers;
    this.#takers = [];
    this.#cursor = 0;
    return takers;
  }
}
