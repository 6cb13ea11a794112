import type { Offset } from "../storage/record.ts";

/** Reports remembered while an earlier one is still to come. */
const EARLY_REPORTS = 4_096;

/**
 * Up to where a sequence was reported without a gap. Storage and report may differ in order: a publish of
 * which several providers keep something is reported when the last of them has stored its part.
 */
export class Watermark {
  #next: Offset;
  readonly #early = new Set<Offset>();

  constructor(next: Offset) {
    this.#next = next;
  }

  /** Everything below was reported. */
  get next(): Offset {
    return this.#next;
  }

  report(offset: Offset): void {
    if (offset === this.#next && this.#early.size === 0) {
      this.#next++;
      return;
    }
    if (offset < this.#next) return;
    this.#early.add(offset);
    // A report that never comes must not hold back, or grow, what is remembered.
    if (this.#early.size > EARLY_REPORTS) this.#next = Math.min(...this.#early);
    while (this.#early.delete(this.#next)) this.#next++;
  }
}
