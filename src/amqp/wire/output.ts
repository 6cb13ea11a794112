import { NO_BYTES } from "./reader.ts";

/** One pooled page: a few hundred small frames, one write. */
const PAGE_BYTES = 64 * 1024;
/** A page begins small, since most connections write little at a time. */
const FIRST_PAGE_BYTES = 1024;
/** Pages kept for reuse, all connections together (1 MiB). */
const POOLED_PAGES = 16;

const pool: Uint8Array[] = [];

/** A finished piece of output. */
interface Segment {
  readonly bytes: Uint8Array;
  /** The page it lies on; undefined for memory of somebody else. */
  readonly page: Uint8Array | undefined;
}

/**
 * Bytes on their way to one peer: primitive writes gather on a page, `take` hands over what is there.
 * The writes trust the caller to have called `reserve`.
 */
export class Output {
  #page: Uint8Array = NO_BYTES;
  at = 0;
  #segments: Segment[] = [];
  #segmentBytes = 0;
  #lent: Uint8Array | undefined;

  /** Bytes written and not yet taken. */
  get length(): number {
    return this.#segmentBytes + this.at;
  }

  /** The page at hand; `at` is where the next byte goes. */
  get bytes(): Uint8Array {
    return this.#page;
  }

  /** Makes room for `count` more bytes in one piece. */
  reserve(count: number): void {
    const needed = this.at + count;
    if (needed <= this.#page.length) return;
    if (needed <= PAGE_BYTES) return this.#grow(needed);
    this.#close();
    this.#page = count <= PAGE_BYTES ? pool.pop() ?? new Uint8Array(PAGE_BYTES) : new Uint8Array(
      count,
    );
  }

  #grow(needed: number): void {
    const size = needed > FIRST_PAGE_BYTES * 4 ? PAGE_BYTES : FIRST_PAGE_BYTES * 4;
    const page = size === PAGE_BYTES
      ? pool.pop() ?? new Uint8Array(PAGE_BYTES)
      : new Uint8Array(needed <= FIRST_PAGE_BYTES ? FIRST_PAGE_BYTES : size);
    if (this.at > 0) page.set(this.#page.subarray(0, this.at));
    this.#page = page;
  }

  octet(value: number): void {
    this.#page[this.at++] = value;
  }

  short(value: number): void {
    const page = this.#page;
    page[this.at++] = value >>> 8;
    page[this.at++] = value;
  }

  long(value: number): void {
    const page = this.#page;
    page[this.at++] = value >>> 24;
    page[this.at++] = value >>> 16;
    page[this.at++] = value >>> 8;
    page[this.at++] = value;
  }

  longlong(value: number): void {
    this.long(Math.floor(value / 2 ** 32));
    this.long(value >>> 0);
  }

  copy(from: Uint8Array, start: number, end: number): void {
    // Below this a loop costs less than the view that `set` needs.
    if (end - start <= 48) {
      const page = this.#page;
      let at = this.at;
      for (let i = start; i < end; i++) page[at++] = from[i];
      this.at = at;
      return;
    }
    this.#page.set(from.subarray(start, end), this.at);
    this.at += end - start;
  }

  /** Bytes left where they are; nobody may change them before they left. */
  share(bytes: Uint8Array): void {
    this.#close();
    this.#segments.push({ bytes, page: undefined });
    this.#segmentBytes += bytes.length;
  }

  #close(): void {
    if (this.at === 0) return;
    this.#segments.push({ bytes: this.#page.subarray(0, this.at), page: this.#page });
    this.#segmentBytes += this.at;
    this.#page = NO_BYTES;
    this.at = 0;
  }

  /**
   * The oldest piece of output, or undefined when there is none. Its bytes are not touched until
   * `release`.
   */
  take(): Uint8Array | undefined {
    if (this.#segments.length === 0) this.#close();
    const segment = this.#segments.shift();
    if (segment === undefined) return undefined;
    this.#segmentBytes -= segment.bytes.length;
    this.#lent = segment.page;
    return segment.bytes;
  }

  /** Says that the piece taken last has left, and that its memory may be used again. */
  release(): void {
    const page = this.#lent;
    this.#lent = undefined;
    if (page?.length === PAGE_BYTES && pool.length < POOLED_PAGES) pool.push(page);
  }
}
