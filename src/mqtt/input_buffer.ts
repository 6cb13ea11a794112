/** An idle connection holds this much; it grows after a read that filled it. */
const SMALLEST_BYTES = 128;
const LARGEST_BYTES = 64 * 1024;

/** A read into less than this is not worth the call: a new buffer is taken instead. */
const LEAST_SPACE_BYTES = 2 * 1024;

/** Reads in a row that used a sixteenth of the buffer or less, after which a smaller one will do. */
const SMALL_READS = 64;

/**
 * The memory one connection reads into. Payloads are views of it until they are stored, so what was
 * handed out is never read over: reading goes on in the rest of the buffer, then in a new one.
 */
export class InputBuffer {
  #bytes = new Uint8Array(SMALLEST_BYTES);
  #at = 0;
  #smallReads = 0;

  /** Where the next read goes. */
  space(): Uint8Array {
    return this.#at === 0 ? this.#bytes : this.#bytes.subarray(this.#at);
  }

  /** `count` bytes were read into `space`; `held` when views of them are still in use. */
  used(count: number, held: boolean): void {
    const size = this.#bytes.length;
    const filled = count === size - this.#at;
    this.#smallReads = count * 16 <= size ? this.#smallReads + 1 : 0;
    if (filled && size < LARGEST_BYTES) this.#replace(Math.min(size * 4, LARGEST_BYTES));
    else if (this.#smallReads > SMALL_READS && size > SMALLEST_BYTES) this.#replace(size / 4);
    else if (held) {
      this.#at += count;
      if (size - this.#at < Math.min(LEAST_SPACE_BYTES, size / 4)) this.#replace(size);
    }
  }

  #replace(size: number): void {
    this.#bytes = new Uint8Array(Math.max(SMALLEST_BYTES, size));
    this.#at = 0;
    this.#smallReads = 0;
  }
}
