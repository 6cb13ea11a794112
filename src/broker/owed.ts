import type { Offset } from "../storage/record.ts";

/** A log message that is owed and not on a wire. */
export interface Owed {
  readonly offset: Offset;
  /** Its `recordSize`. */
  readonly bytes: number;
}

/** Charged for an owed message beside its size (02a 13.1). */
export const OWED_BYTES = 80;

/** Messages of one piece of a list. */
const PIECE = 64;

/**
 * Owed messages in the order they are due: added at the end, taken from the front.
 *
 * One message may be owed to thousands of sessions, so that all their lists grow at once. They hold numbers
 * alone, an offset and its bytes by turns, which the collector does not follow, in pieces that are filled
 * and never copied.
 */
export class OwedList {
  /** In order; the last one is being filled, and the first one emptied. Others may be inserted into. */
  #pieces: number[][] = [];
  /** Places of the first piece that are taken. */
  #head = 0;
  #length = 0;
  #bytes = 0;

  get length(): number {
    return this.#length;
  }

  /** Charged for all of it. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Undefined when nothing is owed. */
  get first(): Owed | undefined {
    if (this.#length === 0) return undefined;
    const piece = this.#pieces[0];
    return { offset: piece[this.#head], bytes: piece[this.#head + 1] };
  }

  /** Offset of the first; undefined when nothing is owed. */
  get firstOffset(): Offset | undefined {
    return this.#length === 0 ? undefined : this.#pieces[0][this.#head];
  }

  /** What is reported after something stored later is due before that. */
  push(owed: Owed): void {
    const pieces = this.#pieces;
    let last = pieces.length === 0 ? undefined : pieces[pieces.length - 1];
    if (last !== undefined && last[last.length - 2] > owed.offset) return this.insert(owed);
    if (last === undefined || last.length >= 2 * PIECE) pieces.push(last = []);
    last.push(owed.offset, owed.bytes);
    this.#length++;
    this.#bytes += charged(owed);
  }

  /** Takes the first. Called only when there is one. */
  shift(): Owed {
    const piece = this.#pieces[0];
    const owed = { offset: piece[this.#head], bytes: piece[this.#head + 1] };
    this.#head += 2;
    this.#length--;
    this.#bytes -= charged(owed);
    if (this.#head >= piece.length) {
      this.#pieces.shift();
      this.#head = 0;
    }
    return owed;
  }

  /** Puts one among the others by its offset: what came back is due before what followed it. */
  insert(owed: Owed): void {
    const { offset, bytes } = owed;
    for (let i = this.#pieces.length - 1; i >= 0; i--) {
      const piece = this.#pieces[i];
      const first = i === 0 ? this.#head : 0;
      if (i > 0 && piece[first] > offset) continue;
      let at = piece.length;
      while (at > first && piece[at - 2] > offset) at -= 2;
      piece.splice(at, 0, offset, bytes);
      this.#length++;
      this.#bytes += charged(owed);
      return;
    }
    this.push(owed);
  }

  values(): Owed[] {
    const values: Owed[] = [];
    let from = this.#head;
    for (const piece of this.#pieces) {
      for (let at = from; at < piece.length; at += 2) {
        values.push({ offset: piece[at], bytes: piece[at + 1] });
      }
      from = 0;
    }
    return values;
  }
}

/** What an owed message counts against `limits.session_queue_bytes`. */
export function charged(owed: Owed): number {
  return owed.bytes + OWED_BYTES;
}
