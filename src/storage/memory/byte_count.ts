/**
 * What a memory provider holds against its `max_bytes`: one counter for all of its stores (S183). Checking
 * and charging is one turn, so two stores are never both given the last bytes (S22).
 */
export class ByteCount {
  #used = 0;

  /**
   * @param maxBytes undefined: no bound
   * @param reserveBytes the last part of `maxBytes`, for relief only (S184)
   * @param makeRoom asked to free at least so many bytes when a write does not fit; false: it cannot
   */
  constructor(
    readonly maxBytes: number | undefined,
    readonly reserveBytes: number,
    private readonly makeRoom: (bytes: number) => boolean,
  ) {}

  get used(): number {
    return this.#used;
  }

  /** Charges `bytes` if they fit under the ceiling of publishes. Growth of 0 or less always fits. */
  charge(bytes: number): boolean {
    if (bytes > 0 && this.maxBytes !== undefined) {
      const ceiling = this.maxBytes - this.reserveBytes;
      if (bytes > ceiling) return false;
      const missing = this.#used + bytes - ceiling;
      if (missing > 0 && !this.makeRoom(missing)) return false;
    }
    this.#used += bytes;
    return true;
  }

  /** Charges without asking: relief, and what a snapshot brings back (S188, S79). Negative gives back. */
  adjust(bytes: number): void {
    this.#used += bytes;
  }
}
