import { Fifo } from "../../platform/fifo.ts";

/** Places left by what returned and went, before the list is moved up. */
const COMPACT_AT = 1024;

/**
 * Up to this many entries are put in one by one: a consumer that gives tens of thousands back singly,
 * the last first, would have all of them copied for each.
 */
const FEW = 8;

/** What the order of a queue needs to know of an entry. */
interface Placed {
  readonly seq: number;
  /** Bytes of the body. */
  readonly bytes: number;
}

/**
 * The ready messages of a queue in ascending order of their positions, whatever order they come in:
 * what is new goes to the end, what was out comes back to where it was (A55).
 */
export class ReadyEntries<Entry extends Placed> {
  readonly #fresh = new Fifo<Entry>();
  /** What came back, ascending; `#head` is the first that is still there. */
  #returned: Entry[] = [];
  #head = 0;
  bytes = 0;

  get count(): number {
    return this.#fresh.length + this.#returned.length - this.#head;
  }

  push(entry: Entry): void {
    const last = this.#fresh.last();
    if (last !== undefined && entry.seq < last.seq) return this.merge([entry]);
    this.#fresh.push(entry);
    this.bytes += entry.bytes;
  }

  /** Puts entries in ascending order back to their places. */
  merge(entries: readonly Entry[]): void {
    if (entries.length === 0) return;
    for (const { bytes } of entries) this.bytes += bytes;
    const held = this.#returned;
    const head = this.#head;
    if (head === held.length || held[held.length - 1].seq < entries[0].seq) {
      for (const entry of entries) held.push(entry);
      return;
    }
    if (entries.length <= FEW) {
      for (const entry of entries) held.splice(this.#placeOf(entry.seq), 0, entry);
      return;
    }
    const merged: Entry[] = [];
    let at = head;
    for (const entry of entries) {
      while (at < held.length && held[at].seq < entry.seq) merged.push(held[at++]);
      merged.push(entry);
    }
    while (at < held.length) merged.push(held[at++]);
    this.#returned = merged;
    this.#head = 0;
  }

  /** Where an entry of this position belongs in what came back. */
  #placeOf(seq: number): number {
    let low = this.#head;
    let high = this.#returned.length;
    while (low < high) {
      const middle = low + high >> 1;
      if (this.#returned[middle].seq < seq) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  first(): Entry | undefined {
    const fresh = this.#fresh.peek();
    if (this.#head === this.#returned.length) return fresh;
    const returned = this.#returned[this.#head];
    return fresh === undefined || returned.seq < fresh.seq ? returned : fresh;
  }

  shift(): Entry | undefined {
    const entry = this.first();
    if (entry === undefined) return undefined;
    if (this.#fresh.peek() === entry) this.#fresh.shift();
    else this.#shiftReturned();
    this.bytes -= entry.bytes;
    return entry;
  }

  #shiftReturned(): void {
    const { length } = this.#returned;
    this.#head++;
    if (this.#head < length && (this.#head < COMPACT_AT || this.#head * 2 < length)) return;
    this.#returned.splice(0, this.#head);
    this.#head = 0;
  }

  /** The first entries in order, as long as `visit` answers true. */
  walk(visit: (entry: Entry) => boolean): void {
    let fresh = 0;
    let returned = this.#head;
    for (;;) {
      const a = this.#fresh.at(fresh);
      const b = this.#returned[returned];
      if (a === undefined && b === undefined) return;
      const next = b === undefined || a !== undefined && a.seq < b.seq ? a! : b;
      if (next === a) fresh++;
      else returned++;
      if (!visit(next)) return;
    }
  }

  /** Takes everything out. */
  clear(): Entry[] {
    const all: Entry[] = [];
    for (let entry = this.shift(); entry !== undefined; entry = this.shift()) all.push(entry);
    return all;
  }
}
