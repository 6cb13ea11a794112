import {
  type Message,
  type Offset,
  ownedMessage,
  recordSize,
  type StoredRecord,
} from "../../storage/record.ts";

/** Records and bytes a channel keeps in hand for consumers that are nearly caught up. */
const TAIL_RECORDS = 256;
const TAIL_BYTES = 1024 * 1024;

/**
 * The newest records of a channel, contiguous, so that a consumer waiting only for its window does not
 * read a disk. Empty while nobody consumes: a channel without readers pays nothing.
 */
export class Tail {
  #records: StoredRecord[] = [];
  #sizes: number[] = [];
  #head = 0;
  #bytes = 0;

  /**
   * Appends the record just committed and returns it with a payload of its own. A gap (nobody listened
   * meanwhile) starts the tail afresh.
   */
  push(offset: Offset, message: Message): StoredRecord {
    const record = { offset, message: ownedMessage(message) };
    if (this.#head < this.#records.length && record.offset !== this.#end) this.clear();
    const size = recordSize(record.message);
    this.#records.push(record);
    this.#sizes.push(size);
    this.#bytes += size;
    while (this.#records.length - this.#head > TAIL_RECORDS || this.#bytes > TAIL_BYTES) {
      this.#bytes -= this.#sizes[this.#head++];
    }
    if (this.#head > TAIL_RECORDS) {
      this.#records = this.#records.slice(this.#head);
      this.#sizes = this.#sizes.slice(this.#head);
      this.#head = 0;
    }
    return record;
  }

  get #end(): Offset {
    return this.#records[this.#records.length - 1].offset + 1;
  }

  /** The record at `offset` if it is in hand. */
  at(offset: Offset): StoredRecord | undefined {
    if (this.#head === this.#records.length) return undefined;
    const index = this.#head + offset - this.#records[this.#head].offset;
    return index < this.#head ? undefined : this.#records[index];
  }

  clear(): void {
    this.#records = [];
    this.#sizes = [];
    this.#head = 0;
    this.#bytes = 0;
  }
}
