import type { Clock } from "../platform/clock.ts";

/** How long work for operators may hold the event loop before others have a turn. */
const STRETCH_MS = 4;

/** Divides long work into stretches: `await pace.breathe()` between its steps. */
export class Pace {
  #began: number;

  constructor(private readonly clock: Clock, private readonly stretchMs = STRETCH_MS) {
    this.#began = clock.monotonic();
  }

  /** Resolves at once within a stretch, and in a later turn of the loop after one. */
  breathe(): Promise<void> | undefined {
    if (this.clock.monotonic() - this.#began < this.stretchMs) return undefined;
    return new Promise((resolve) =>
      setTimeout(() => {
        this.#began = this.clock.monotonic();
        resolve();
      }, 0)
    );
  }
}
