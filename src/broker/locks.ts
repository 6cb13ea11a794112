/** One first-in-first-out lock per key (S26). A key costs nothing while nobody holds it. */
export class KeyedLocks {
  readonly #tails = new Map<string, Promise<void>>();

  /** Resolves, in order of calls, to the function that lets the next one in. */
  async acquire(key: string): Promise<() => void> {
    const before = this.#tails.get(key);
    let release!: () => void;
    const tail = new Promise<void>((resolve) => release = resolve);
    const mine = before === undefined ? tail : before.then(() => tail);
    this.#tails.set(key, mine);
    if (before !== undefined) await before;
    return () => {
      if (this.#tails.get(key) === mine) this.#tails.delete(key);
      release();
    };
  }
}
