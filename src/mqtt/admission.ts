import type { Clock } from "../platform/clock.ts";

/** The connections of all MQTT doors together, bounded by `limits.max_connections` (02a 13.3). */
export class Admission {
  #open = 0;

  constructor(private readonly maximum: number) {}

  get open(): number {
    return this.#open;
  }

  /** Takes a place on arrival; false when none is left. */
  take(): boolean {
    if (this.#open >= this.maximum) return false;
    this.#open++;
    return true;
  }

  release(): void {
    this.#open--;
  }
}

/** `limits.max_connect_rate` of one door: a token bucket with a burst of twice the rate. */
export class ConnectRate {
  #tokens: number;
  #filledAt: number;

  /** `perSecond` undefined admits everything. */
  constructor(private readonly perSecond: number | undefined, private readonly clock: Clock) {
    this.#tokens = (perSecond ?? 0) * 2;
    this.#filledAt = clock.monotonic();
  }

  /** Milliseconds until the next connection may be taken from the accept queue; 0 takes it now. */
  next(): number {
    if (this.perSecond === undefined) return 0;
    const now = this.clock.monotonic();
    this.#tokens = Math.min(
      this.perSecond * 2,
      this.#tokens + (now - this.#filledAt) * this.perSecond / 1_000,
    );
    this.#filledAt = now;
    if (this.#tokens < 1) return Math.ceil((1 - this.#tokens) * 1_000 / this.perSecond);
    this.#tokens--;
    return 0;
  }
}
