import type { Offset } from "../../storage/record.ts";

/** Changes remembered while an earlier one is still to be reported. */
const EARLY_CHANGES = 4_096;

/**
 * Which changes of a `latest` channel the broker was told of. No value is sent after a newer one of its
 * topic whatever the order of the reports (D13.12). Only while one is missing does anything have to be
 * remembered, so the usual report costs one comparison, and no view keeps a table of all topics.
 */
export class Arrivals {
  /** Every offset below was reported. */
  #next: Offset;
  #end: Offset;
  /** What was reported at or above `#next`. */
  readonly #early = new Set<Offset>();
  /** The newest early report of a topic. */
  readonly #newest = new Map<string, Offset>();

  /** `next`: the store's next offset, before anything is reported. */
  constructor(next: Offset) {
    this.#next = next;
    this.#end = next;
  }

  /** One past the highest offset reported. */
  get end(): Offset {
    return this.#end;
  }

  /** True when `offset` was reported. */
  has(offset: Offset): boolean {
    return offset < this.#next || this.#early.has(offset);
  }

  /** False: a newer change of the same topic was reported before. */
  report(offset: Offset, topic: string): boolean {
    if (offset >= this.#end) this.#end = offset + 1;
    if (offset === this.#next && this.#early.size === 0) {
      this.#next++;
      return true;
    }
    const newest = this.#newest.get(topic);
    const superseded = newest !== undefined && newest > offset;
    if (offset >= this.#next) {
      this.#early.add(offset);
      if (!superseded) this.#newest.set(topic, offset);
      this.#advance();
    }
    return !superseded;
  }

  #advance(): void {
    // A report that never comes must not hold back, or grow, what is remembered.
    if (this.#early.size > EARLY_CHANGES) this.#next = Math.min(...this.#early);
    while (this.#early.delete(this.#next)) this.#next++;
    if (this.#early.size === 0) {
      this.#newest.clear();
    } else if (this.#newest.size > EARLY_CHANGES) {
      for (const [topic, offset] of this.#newest) {
        if (offset < this.#next) this.#newest.delete(topic);
      }
    }
  }
}
