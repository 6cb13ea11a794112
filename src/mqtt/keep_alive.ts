import type { Clock } from "../platform/clock.ts";
import type { Timer, Timers } from "../platform/timers.ts";

/** The Keep Alive of one connection: silence of one and a half times it ends it (3.1.2.10). */
export class KeepAlive {
  #lastPacketAt: number;
  #timer: Timer | undefined;
  /** It is the broker that does not read: the client's silence says nothing. */
  #holding = false;

  constructor(
    private readonly clock: Clock,
    private readonly timers: Timers,
    private readonly onSilence: () => void,
  ) {
    this.#lastPacketAt = clock.monotonic();
  }

  /** `seconds` 0 switches it off. */
  start(seconds: number): void {
    if (seconds === 0) return;
    const allowed = seconds * 1_500;
    const check = () => {
      const silent = this.#holding ? 0 : this.clock.monotonic() - this.#lastPacketAt;
      if (silent >= allowed) this.onSilence();
      else this.#timer = this.timers.after(allowed - silent, check);
    };
    this.#timer = this.timers.after(allowed, check);
  }

  /** A packet came in whole by `at` (monotonic ms). */
  packet(at: number): void {
    this.#lastPacketAt = at;
  }

  /** The broker stops reading, for reasons of its own. */
  hold(): void {
    this.#holding = true;
  }

  /** It reads on. */
  resume(): void {
    this.#holding = false;
    this.#lastPacketAt = this.clock.monotonic();
  }

  stop(): void {
    this.#timer?.cancel();
  }
}
