import type { Offset } from "../record.ts";

/** Slots below which a dead part is not worth moving records for. */
const SMALLEST_COMPACTION = 64;

/**
 * Records in ascending offset order, added at the end and removed mostly from the front (S192).
 *
 * A removed record leaves its bare offset in its slot, so its payload is unreachable at once and the
 * slots stay ordered. Whatever reads goes over those. The slots are copied to a new array, without
 * the dead ones, when half of them are dead: a removal costs the same wherever it happens and however
 * many are held.
 */
export class RecordList<T extends { readonly offset: Offset }> {
  #slots: (T | Offset)[] = [];
  /** Every slot before it is dead. */
  #head = 0;
  #live = 0;

  get length(): number {
    return this.#live;
  }

  /** The lowest record held. */
  first(): T | undefined {
    return this.#live === 0 ? undefined : this.#slots[this.#head] as T;
  }

  /** `record.offset` is above every offset added before. */
  push(record: T): void {
    this.#slots.push(record);
    this.#live++;
  }

  get(offset: Offset): T | undefined {
    const slot = this.#slots[this.#find(offset)];
    return typeof slot === "object" && slot.offset === offset ? slot : undefined;
  }

  /** Puts another record in the place of the one at its offset. False when there is none. */
  replace(record: T): boolean {
    const at = this.#find(record.offset);
    const slot = this.#slots[at];
    if (typeof slot !== "object" || slot.offset !== record.offset) return false;
    this.#slots[at] = record;
    return true;
  }

  remove(offset: Offset): T | undefined {
    const at = this.#find(offset);
    const slot = this.#slots[at];
    if (typeof slot !== "object" || slot.offset !== offset) return undefined;
    this.#slots[at] = offset;
    this.#live--;
    if (at === this.#head) this.#advance();
    this.#compact();
    return slot;
  }

  /** Removes the lowest record. */
  shift(): T | undefined {
    const first = this.first();
    if (first === undefined) return undefined;
    this.#slots[this.#head] = first.offset;
    this.#live--;
    this.#advance();
    this.#compact();
    return first;
  }

  /**
   * Calls `visit` with the records from `from` on, ascending, until it answers false.
   * The list must not be changed meanwhile.
   */
  walk(from: Offset, visit: (record: T) => boolean): void {
    for (let at = this.#find(from); at < this.#slots.length; at++) {
      const slot = this.#slots[at];
      if (typeof slot === "object" && !visit(slot)) return;
    }
  }

  /** Every record held, in a new array. */
  toArray(): T[] {
    if (this.#live === this.#slots.length - this.#head) {
      return this.#slots.slice(this.#head) as T[];
    }
    const records: T[] = [];
    this.walk(0, (record) => records.push(record) > 0);
    return records;
  }

  /** Slots allocated, the dead ones included. */
  get slots(): number {
    return this.#slots.length;
  }

  #advance(): void {
    while (this.#head < this.#slots.length && typeof this.#slots[this.#head] === "number") {
      this.#head++;
    }
  }

  #compact(): void {
    const { length } = this.#slots;
    if (length < SMALLEST_COMPACTION || this.#live * 2 > length) return;
    this.#slots = this.toArray();
    this.#head = 0;
  }

  /** Index of the first slot at or after `offset`. */
  #find(offset: Offset): number {
    const slots = this.#slots;
    let low = this.#head;
    let high = slots.length;
    if (low === high || offset <= offsetOf(slots[low])) return low;
    // Without gaps in the numbers, the offset says where it is.
    const guess = low + (offset - offsetOf(slots[low]));
    if (guess < high && offsetOf(slots[guess]) === offset) return guess;
    while (low < high) {
      const middle = (low + high) >>> 1;
      if (offsetOf(slots[middle]) < offset) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

function offsetOf(slot: { readonly offset: Offset } | Offset): Offset {
  return typeof slot === "number" ? slot : slot.offset;
}
