/**
 * Costly steps on the event loop, one at a time and never more than half of its time: after each the loop
 * has as long for everybody else. What waits here is late; what is connected already is not.
 */
export class Turns {
  #waiting: (() => void)[] = [];
  #next = 0;
  #scheduled = false;

  /** Runs `step` in its turn; resolves with what it returns, and rejects with what it throws. */
  run<T>(step: () => T): Promise<T> {
    return new Promise((resolve, reject) => {
      this.#waiting.push(() => {
        try {
          resolve(step());
        } catch (error) {
          reject(error);
        }
      });
      if (!this.#scheduled) this.#schedule(0);
    });
  }

  #schedule(afterMs: number): void {
    this.#scheduled = true;
    setTimeout(() => this.#turn(), afterMs);
  }

  #turn(): void {
    this.#scheduled = false;
    if (this.#next === this.#waiting.length) {
      this.#waiting = [];
      this.#next = 0;
      return;
    }
    const begun = performance.now();
    this.#waiting[this.#next++]();
    // Also after the last one: the next may come while the loop is still owed its half.
    this.#schedule(performance.now() - begun);
  }
}

/**
 * The turns of TLS handshakes, one for the whole process: what they compute, the runtime computes on the
 * event loop, one to three milliseconds for each.
 */
export const handshakeTurns = new Turns();
