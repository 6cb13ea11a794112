import { errorText } from "../platform/log.ts";
import type { Message, Offset, StoredRecord } from "../storage/record.ts";
import type { BroadcastLog } from "./log.ts";

/** One read of somebody who is behind: records and bytes. */
const READ_RECORDS = 64;
const READ_BYTES = 256 * 1024;
const RETRY_MS = 1_000;

/**
 * Messages of the log for one reader that takes them in ascending order: from the newest in hand, else
 * from a page read before, else a page is read and `ready` is called when it is there.
 */
export class LogPages {
  #page: readonly StoredRecord[] = [];
  #at = 0;
  /** What the page says something about: offsets in it and not among its records are gone. */
  #from: Offset = 0;
  #to: Offset = 0;
  #reading = false;
  #closed = false;

  /** `label` names the reader in the log. */
  constructor(
    private readonly log: BroadcastLog,
    private readonly label: string,
    private readonly ready: () => void,
  ) {}

  /** A page is being read. */
  get reading(): boolean {
    return this.#reading;
  }

  /** The message; `"gone"` when the log gave it away for room; undefined until `ready`. */
  at(offset: Offset): Message | "gone" | undefined {
    const record = this.log.tail.at(offset);
    if (record !== undefined) return record.message;
    if (offset >= this.#from && offset < this.#to) {
      if (this.#at > 0 && this.#page[this.#at - 1].offset >= offset) this.#at = 0;
      while (this.#at < this.#page.length && this.#page[this.#at].offset < offset) this.#at++;
      const found = this.#page[this.#at];
      return found?.offset === offset ? found.message : "gone";
    }
    this.#read(offset);
    return undefined;
  }

  #read(offset: Offset): void {
    if (this.#reading) return;
    this.#reading = true;
    const end = this.log.store.next();
    this.log.store.readFrom(offset, READ_RECORDS, READ_BYTES).then((window) => {
      this.#reading = false;
      if (this.#closed) return;
      const records = window.belowFloor ? [] : window.records;
      this.#page = records;
      this.#at = 0;
      this.#from = offset;
      if (window.belowFloor) this.#to = Math.max(window.floor, offset + 1);
      else this.#to = records.length > 0 ? records[records.length - 1].offset + 1 : end;
      this.ready();
    }, (error) => {
      this.#reading = false;
      const { context, store } = this.log;
      context.counters.storageErrors.add(store.channel);
      context.log.error("cannot read the broadcast log", {
        reader: this.label,
        error: errorText(error),
      });
      context.timers.after(RETRY_MS, () => {
        if (!this.#closed) this.ready();
      });
    });
  }

  /** Forgets the page at hand; for a reader that stops for a while. */
  clear(): void {
    this.#page = [];
    this.#at = 0;
    this.#from = 0;
    this.#to = 0;
  }

  close(): void {
    this.#closed = true;
    this.clear();
  }
}
