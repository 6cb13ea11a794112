/** The first of many things in an order, without holding or sorting the others. */
export class FirstFew<T> {
  readonly #kept: T[] = [];

  /** `compare` as for `Array.sort`; `most` at least 1. */
  constructor(
    private readonly most: number,
    private readonly compare: (a: T, b: T) => number,
  ) {}

  add(item: T): void {
    const kept = this.#kept;
    if (kept.length === this.most) {
      if (this.compare(item, kept[kept.length - 1]) >= 0) return;
      kept.pop();
    }
    let low = 0;
    let high = kept.length;
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.compare(kept[middle], item) <= 0) low = middle + 1;
      else high = middle;
    }
    kept.splice(low, 0, item);
  }

  /** In order; equals in the order in which they came. */
  values(): readonly T[] {
    return this.#kept;
  }
}
