import type { Clock } from "../platform/clock.ts";
import type { Timer, Timers } from "../platform/timers.ts";

export interface HeartbeatEvents {
  /** Monotonic ms of the last write. */
  lastWriteAt(): number;
  send(): void;
  /** Nothing was heard for twice the interval. */
  silent(): void;
}

/** Heartbeats of one connection (A14): ours when we were silent, theirs when they were. */
export class Heartbeats {
  readonly #intervalMs: number;
  #heardAt: number;
  #paused = false;
  #timer: Timer | undefined;

  /** @param seconds the interval agreed on, above 0 */
  constructor(
    seconds: number,
    private readonly clock: Clock,
    private readonly timers: Timers,
    private readonly events: HeartbeatEvents,
  ) {
    this.#intervalMs = seconds * 1_000;
    this.#heardAt = clock.monotonic();
    this.#arm(this.#intervalMs / 2);
  }

  /** An octet came in. */
  heard(): void {
    this.#heardAt = this.clock.monotonic();
    this.#paused = false;
  }

  /** The connection is not read: its silence says nothing (A17). */
  pause(): void {
    this.#paused = true;
  }

  #arm(delayMs: number): void {
    this.#timer = this.timers.after(delayMs, () => this.#look());
  }

  #look(): void {
    const now = this.clock.monotonic();
    if (!this.#paused && now - this.#heardAt >= this.#intervalMs * 2) return this.events.silent();
    const half = this.#intervalMs / 2;
    let next = half - (now - this.events.lastWriteAt());
    if (next <= 0) {
      this.events.send();
      next = half;
    }
    const death = this.#paused ? Infinity : this.#heardAt + this.#intervalMs * 2 - now;
    this.#arm(Math.max(1, Math.min(next, death)));
  }

  stop(): void {
    this.#timer?.cancel();
  }
}
