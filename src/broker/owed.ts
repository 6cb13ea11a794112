import type { Offset } from "../storage/record.ts";

/** A log message that is owed and not on a wire. */
export interface Owed {
  readonly offset: Offset;
  /** Its `recordSize`. */
  readonly bytes: number;
}

/** Charged for an owed message beside its size (02a 13.1). */
export const OWED_BYTES = 80;

const COMPACTED_AT = 1_024;

/** Owed messages in the order they are due: added at the end, taken from the front. */
export class OwedList {
  #items: Owed[] = [];
  #head = 0;
  #bytes = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  /** Charged for all of it. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Undefined when nothing is owed. */
  get first(): Owed | undefined {
    return this.#items[this.#head];
  }

  /** What is reported after something stored later is due before that. */
  push(owed: Owed): void {
    const last = this.#items[this.#items.length - 1];
    if (this.length > 0 && last.offset > owed.offset) return this.insert(owed);
    this.#items.push(owed);
    this.#bytes += charged(owed);
  }

  /** Takes the first. Called only when there is one. */
  shift(): Owed {
    const owed = this.#items[this.#head++];
    this.#bytes -= charged(owed);
    if (this.#head > COMPACTED_AT || this.#head === this.#items.length) {
      this.#items = this.#items.slice(this.#head);
      this.#head = 0;
    }
    return owed;
  }

  /** Puts one among the others by its offset: what came back is due before what followed it. */
  insert(owed: Owed): void {
    let at = this.#items.length;
    while (at > this.#head && this.#items[at - 1].offset > owed.offset) at--;
    this.#items.splice(at, 0, owed);
    this.#bytes += charged(owed);
  }

  values(): Owed[] {
    return this.#items.slice(this.#head);
  }
}

/** What an owed message counts against `limits.session_queue_bytes`. */
export function charged(owed: Owed): number {
  return owed.bytes + OWED_BYTES;
}
