import type { Clock } from "../platform/clock.ts";
import type { Timer, Timers } from "../platform/timers.ts";
import { PacketWriter } from "./codec/encode.ts";
import type { ByteLink } from "../doors/byte_link.ts";

/** Looks that a write which stands still is given within `limits.write_timeout`. */
const LOOKS = 8;

/**
 * What leaves on one connection: packets collect in the writer during a turn and leave in one write at
 * its end. A write that the peer does not take within `limits.write_timeout` ends the connection,
 * since a packet half written cannot be taken back (02a 13.2). Time in which the broker itself stood
 * still is not the peer's: nothing could have been written then.
 */
export class OutputQueue {
  readonly packets = new PacketWriter();
  #writing = false;
  #scheduled = false;
  #pending = 0;
  /** How long the write at hand has stood still, as far as it was looked at. */
  #stoodMs = 0;
  #lookedAt = 0;
  #timer: Timer | undefined;
  #stopped = false;
  #idle: (() => void)[] = [];
  #taken: (() => void)[] = [];

  /**
   * `tally` counts what was written. `onDrained` runs after each write that left nothing behind;
   * `onFailed` once, when the peer is gone or took nothing in time.
   */
  constructor(
    private readonly link: ByteLink,
    private readonly tally: { bytesSent: number },
    private readonly clock: Clock,
    private readonly timers: Timers,
    private readonly timeoutMs: number | undefined,
    private readonly onDrained: () => void,
    private readonly onFailed: (timedOut: boolean) => void,
  ) {}

  /** Bytes not yet taken by the socket. */
  get buffered(): number {
    return this.packets.length + this.#pending;
  }

  /** What the turn wrote leaves at its end. */
  schedule(): void {
    if (this.#writing || this.#scheduled || this.#stopped) return;
    this.#scheduled = true;
    queueMicrotask(() => {
      this.#scheduled = false;
      void this.#run();
    });
  }

  async #run(): Promise<void> {
    if (this.#writing || this.#stopped) return;
    this.#writing = true;
    try {
      for (;;) {
        const piece = this.packets.take();
        if (piece === undefined) break;
        this.#pending = piece.length;
        this.#stoodMs = 0;
        this.#lookedAt = this.clock.monotonic();
        this.#watch();
        await this.link.write(piece);
        this.tally.bytesSent += piece.length;
        this.#pending = 0;
        this.packets.release();
        this.#settleTaken();
        if (this.packets.length === 0) this.onDrained();
        if (this.#stopped) break;
      }
    } catch {
      this.stop();
      this.onFailed(false);
    } finally {
      this.#pending = 0;
      this.#writing = false;
      this.#settleIdle();
    }
  }

  /**
   * One timer for many writes: it looks, a few times within the timeout, whether the write at hand is
   * one that stands still. A look that comes late says that the broker was late, not the peer.
   */
  #watch(): void {
    if (this.timeoutMs === undefined || this.#timer !== undefined) return;
    const timeoutMs = this.timeoutMs;
    const stepMs = Math.max(1, Math.floor(timeoutMs / LOOKS));
    const look = () => {
      this.#timer = undefined;
      if (this.#stopped || this.#pending === 0) return;
      const now = this.clock.monotonic();
      this.#stoodMs += Math.min(now - this.#lookedAt, 2 * stepMs);
      this.#lookedAt = now;
      if (this.#stoodMs >= timeoutMs) {
        this.stop();
        this.onFailed(true);
      } else this.#timer = this.timers.after(Math.min(stepMs, timeoutMs - this.#stoodMs), look);
    };
    this.#timer = this.timers.after(stepMs, look);
  }

  /** Resolves once everything was written, or the connection failed. */
  flushed(): Promise<void> {
    this.schedule();
    if (this.#stopped || this.buffered === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  /** Resolves once the write at hand was taken, or the connection failed. */
  taken(): Promise<void> {
    this.schedule();
    if (this.#stopped || this.buffered === 0) return Promise.resolve();
    return new Promise((resolve) => this.#taken.push(resolve));
  }

  #settleTaken(): void {
    if (this.#taken.length === 0) return;
    const waiting = this.#taken;
    this.#taken = [];
    for (const resolve of waiting) resolve();
  }

  /** Whether the connection ended with a write that could not be made. */
  get failed(): boolean {
    return this.#stopped;
  }

  #settleIdle(): void {
    this.#settleTaken();
    if (this.buffered > 0 && !this.#stopped) return this.schedule();
    const waiting = this.#idle;
    this.#idle = [];
    for (const resolve of waiting) resolve();
  }

  /** Nothing is written any more. */
  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
    this.#timer = undefined;
    if (!this.#writing) this.#settleIdle();
  }
}
