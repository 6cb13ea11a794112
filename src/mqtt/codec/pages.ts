/** The size of one pooled output page: a few hundred small packets. */
export const PAGE_BYTES = 16 * 1024;
/** Pages kept for reuse, all connections together (1 MiB). */
const POOLED_PAGES = 64;

/**
 * Output pages shared by every connection, so that an idle one holds none. Pages come back with
 * whatever was written on them.
 */
export class PagePool {
  readonly #free: Uint8Array[] = [];

  take(): Uint8Array {
    return this.#free.pop() ?? new Uint8Array(PAGE_BYTES);
  }

  /** Buffers of another size, and those beyond the bound, are left to the collector. */
  giveBack(page: Uint8Array): void {
    if (page.length === PAGE_BYTES && this.#free.length < POOLED_PAGES) this.#free.push(page);
  }
}

/** The pool of this process. */
export const sharedPages = new PagePool();
