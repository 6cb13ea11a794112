interface Declared {
  /** Partition counts by client. */
  readonly counts: Map<string, number>;
  /** The disagreement has been told. */
  told: boolean;
}

/**
 * Who declared how many partitions on which filter (D15.9). Members of a partitioned stream know nothing
 * of each other, so two that count differently are only seen here.
 */
export class DeclaredSlices {
  readonly #filters = new Map<string, Declared>();

  /**
   * The client declares `count` on `filter`. Another client that counts differently, once for each
   * disagreement; undefined otherwise.
   */
  declare(filter: string, clientId: string, count: number): string | undefined {
    let declared = this.#filters.get(filter);
    if (declared === undefined) {
      this.#filters.set(filter, declared = { counts: new Map(), told: false });
    }
    declared.counts.set(clientId, count);
    for (const [other, otherCount] of declared.counts) {
      if (otherCount === count) continue;
      if (declared.told) return undefined;
      declared.told = true;
      return other;
    }
    declared.told = false;
    return undefined;
  }

  /** The client has the filter no more, or without a declaration. */
  withdraw(filter: string, clientId: string): void {
    const declared = this.#filters.get(filter);
    if (declared === undefined || !declared.counts.delete(clientId)) return;
    if (declared.counts.size === 0) this.#filters.delete(filter);
    else if (new Set(declared.counts.values()).size === 1) declared.told = false;
  }
}
