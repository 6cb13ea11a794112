import type { LatestStore, Scan } from "../../storage/contract.ts";
import { type Offset, recordSize, type StoredRecord } from "../../storage/record.ts";
import { matches } from "../../topics/filter.ts";

/** Values of one page, and the bytes they should not pass: a page is all of a pass that is in memory. */
const PAGE_VALUES = 64;
const PAGE_BYTES = 256 * 1024;
/** The first page, before the size of a value here is known. */
const FIRST_PAGE_VALUES = 8;

/** Higher than every offset: nothing is owed. */
export const NOTHING: Offset = Infinity;

const WILDCARD = /[+#]/;

export interface PassFilter {
  readonly filter: string;
  /** Values below are not served. */
  readonly from: Offset;
  /** Stored deletions are served too. */
  readonly deletions: boolean;
}

/** Deletions that a session is owed as changes, whatever it asked of a state pass. */
export interface OwedDeletions {
  readonly from: Offset;
  /** Exclusive. */
  readonly below: Offset;
}

/** Why values are read from the store. */
export type PassKind =
  /** A SUBSCRIBE asked for the current state (D13.8). */
  | "state"
  /** The session came back (D13.14, D13.18). */
  | "resume"
  /** More changes than a view keeps in memory: they are read back (D13.11). */
  | "changes";

/**
 * One walk over the stored values that a session's filters reach, a page at a time, one filter after
 * the other. A topic that several filters reach comes up once.
 */
export class Pass {
  /** Filters not walked to their end, the current one included. */
  readonly #left = new Map<string, PassFilter>();
  readonly #order = this.#left.values();
  #current: PassFilter | undefined;
  #scan: Scan | undefined;
  #page: readonly StoredRecord[] = [];
  #pageAt = 0;
  #pageValues = FIRST_PAGE_VALUES;
  /** Filters walked to their end: whatever they reach was served. */
  readonly #walkedTopics = new Map<string, PassFilter>();
  readonly #walkedWildcards: PassFilter[] = [];
  #begun = false;
  /** A page is on its way. */
  reading = false;

  /** With `owedDeletions`, stored deletions outside of it are left out. */
  constructor(
    readonly kind: PassKind,
    private readonly store: LatestStore,
    filters: readonly PassFilter[],
    readonly owedDeletions: OwedDeletions | undefined,
  ) {
    for (const filter of filters) this.#left.set(filter.filter, filter);
  }

  /** Something was read. */
  get begun(): boolean {
    return this.#begun;
  }

  /** The filter to be read next; undefined at the end. */
  get filter(): string | undefined {
    if (this.#current === undefined && this.#left.size > 0) {
      this.#current = this.#order.next().value;
    }
    return this.#current?.filter;
  }

  /** The lowest offset that may still come up, over the filters that `counts` is true for. */
  lowest(counts: (filter: string) => boolean): Offset {
    let lowest = NOTHING;
    for (const { filter, from } of this.#left.values()) {
      if (from < lowest && counts(filter)) lowest = from;
    }
    return lowest;
  }

  /** Adds a filter, or begins with it anew. */
  add(added: PassFilter): void {
    this.drop(added.filter);
    this.#left.set(added.filter, added);
  }

  /** Leaves out what was not yet served of a filter. */
  drop(filter: string): void {
    if (this.#left.delete(filter) && this.#current?.filter === filter) this.#endScan();
  }

  #endScan(): void {
    this.#current = undefined;
    this.#scan = undefined;
    this.#page = [];
    this.#pageAt = 0;
  }

  /** The next value in memory; undefined when a page is to be read, or none is left. */
  get value(): StoredRecord | undefined {
    while (this.#pageAt < this.#page.length) {
      const record = this.#page[this.#pageAt];
      if (this.#wants(record)) return record;
      this.#pageAt++;
    }
    return undefined;
  }

  /** `value` was dealt with. */
  step(): void {
    this.#pageAt++;
  }

  #wants(record: StoredRecord): boolean {
    const { offset, message } = record;
    const deletion = message.payload.byteLength === 0;
    const { owedDeletions } = this;
    if (deletion && owedDeletions !== undefined) {
      if (offset < owedDeletions.from || offset >= owedDeletions.below) return false;
    }
    const served = (walked: PassFilter) => offset >= walked.from && (!deletion || walked.deletions);
    const same = this.#walkedTopics.get(message.topic);
    if (same !== undefined && served(same)) return false;
    return !this.#walkedWildcards.some((walked) =>
      served(walked) && matches(walked.filter, message.topic)
    );
  }

  /**
   * Reads the next page of `current`, or finds its end. Called when `filter` named one and `value` is
   * used up. Rejects when the store could not be read; the next call tries again.
   */
  async read(): Promise<void> {
    const current = this.#current!;
    const scan = this.#scan ??= this.store.scan(current.filter, current.from, current.deletions);
    this.#begun = true;
    this.reading = true;
    try {
      const page = await scan.next(this.#pageValues);
      if (this.#scan !== scan) return;
      if (page.length === 0) this.#walked(current);
      else this.#open(page);
    } finally {
      this.reading = false;
    }
  }

  #open(page: readonly StoredRecord[]): void {
    this.#page = page;
    this.#pageAt = 0;
    let bytes = 0;
    for (const { message } of page) bytes += recordSize(message);
    const mean = bytes / page.length;
    this.#pageValues = Math.max(1, Math.min(PAGE_VALUES, Math.floor(PAGE_BYTES / mean)));
  }

  #walked(current: PassFilter): void {
    this.#left.delete(current.filter);
    if (WILDCARD.test(current.filter)) this.#walkedWildcards.push(current);
    else this.#walkedTopics.set(current.filter, current);
    this.#endScan();
  }
}
