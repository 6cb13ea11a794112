import type { Provider } from "../storage/contract.ts";

/** Publishes and methods of one connection that may wait for a store, in batches of `publish_batch`. */
const WAITING_BATCHES = 4;
const WAITING_BYTES = 8 * 1024 * 1024;

/**
 * How much of what was read waits for the stores, and whoever waits for that to be less: past the bound
 * a connection is read no further.
 */
export class Intake {
  #steps = 0;
  #bytes = 0;
  #resume: (() => void) | undefined;
  readonly #most: number;

  constructor(publishBatch: number) {
    this.#most = publishBatch * WAITING_BATCHES;
  }

  get #full(): boolean {
    return this.#steps >= this.#most || this.#bytes >= WAITING_BYTES;
  }

  /**
   * Resolves when less waits, or when the provider accepts again what it was too full for; undefined
   * when more may be read.
   */
  untilRoom(publishing: { saturated: boolean }, provider: Provider): Promise<void> | undefined {
    if (publishing.saturated && this.#steps > 0) {
      publishing.saturated = false;
      if (!provider.accepting) {
        provider.onceAccepting(() => this.wake());
        return this.paused();
      }
    }
    return this.#full ? this.paused() : undefined;
  }

  /** More or, with negative figures, less waits. */
  waits(steps: number, bytes: number): void {
    this.#steps += steps;
    this.#bytes += bytes;
    if (steps < 0 && !this.#full) this.wake();
  }

  /** Resolves at the next `wake`. One waits at a time. */
  paused(): Promise<void> {
    return new Promise((resolve) => this.#resume = resolve);
  }

  wake(): void {
    const resume = this.#resume;
    this.#resume = undefined;
    resume?.();
  }
}
