/**
 * How long sessions deliver before the loop looks at sockets, timers and the storage's answers again: no
 * other client waits longer than this and the longest single quantum, however many sessions have how much
 * to be sent (invariant 16).
 */
const BUDGET_MS = 10;

/**
 * The deliveries of all sessions that wait for a turn, in the order they asked. They run at the end of the
 * turn in which the first of them asked, and where that takes long, in turns of their own.
 */
class PumpTurns {
  #waiting: (() => void)[] = [];
  #scheduled = false;

  /** Runs `pump` soon, behind all that asked before. It may ask again while it runs. */
  ask(pump: () => void): void {
    this.#waiting.push(pump);
    if (this.#scheduled) return;
    this.#scheduled = true;
    queueMicrotask(() => this.#run());
  }

  /** Some wait for a turn. */
  get due(): boolean {
    return this.#scheduled;
  }

  #run(): void {
    const end = performance.now() + BUDGET_MS;
    let at = 0;
    try {
      while (at < this.#waiting.length && performance.now() < end) this.#waiting[at++]();
    } finally {
      this.#waiting = at < this.#waiting.length ? this.#waiting.slice(at) : [];
      this.#scheduled = this.#waiting.length > 0;
      if (this.#scheduled) setTimeout(() => this.#run(), 0);
    }
  }
}

/** One loop, one order of turns. */
export const pumpTurns = new PumpTurns();
