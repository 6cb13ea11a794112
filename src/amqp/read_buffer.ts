/** An idle connection holds this much; it grows after a read that filled it. */
const SMALLEST_BYTES = 512;
/**
 * No more than the event loop gives one connection at a time: what was read is decoded and routed in one go,
 * and 64 KiB of declares took it long enough that everybody else waited for a second.
 */
const LARGEST_BYTES = 16 * 1024;

/** Reads in a row that used a sixteenth of the buffer or less, after which a smaller one will do. */
const SMALL_READS = 64;

/** The memory one connection reads into; what was read is done with before the next read. */
export class ReadBuffer {
  bytes = new Uint8Array(SMALLEST_BYTES);
  #smallReads = 0;

  /** `count` bytes were read into it, and are done with. */
  used(count: number): void {
    const size = this.bytes.length;
    this.#smallReads = count * 16 <= size ? this.#smallReads + 1 : 0;
    if (count === size && size < LARGEST_BYTES) {
      this.bytes = new Uint8Array(Math.min(size * 4, LARGEST_BYTES));
    } else if (this.#smallReads > SMALL_READS && size > SMALLEST_BYTES) {
      this.bytes = new Uint8Array(Math.max(size / 4, SMALLEST_BYTES));
      this.#smallReads = 0;
    }
  }
}
