/** Removed places kept at the front before the list is moved up. */
const COMPACT_AT = 1024;

/** A first-in first-out list whose removals move an index, not the items. */
export class Fifo<T> {
  #items: (T | undefined)[] = [];
  #head = 0;

  get length(): number {
    return this.#items.length - this.#head;
  }

  push(item: T): void {
    this.#items.push(item);
  }

  /** Puts items back at the front, in their order. */
  unshift(items: readonly T[]): void {
    this.#items.splice(0, this.#head, ...items);
    this.#head = 0;
  }

  peek(): T | undefined {
    return this.#items[this.#head];
  }

  /** The item pushed last. */
  last(): T | undefined {
    return this.length === 0 ? undefined : this.#items[this.#items.length - 1];
  }

  /** The item `place` behind the first. */
  at(place: number): T | undefined {
    return this.#items[this.#head + place];
  }

  shift(): T | undefined {
    if (this.length === 0) return undefined;
    const item = this.#items[this.#head];
    this.#items[this.#head++] = undefined;
    if (this.#head === this.#items.length) {
      this.#items.length = 0;
      this.#head = 0;
    } else if (this.#head >= COMPACT_AT && this.#head * 2 >= this.#items.length) {
      this.#items.splice(0, this.#head);
      this.#head = 0;
    }
    return item;
  }

  clear(): void {
    this.#items = [];
    this.#head = 0;
  }
}
