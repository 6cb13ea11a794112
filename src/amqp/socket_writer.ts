import type { ByteLink } from "../doors/byte_link.ts";
import type { Clock } from "../platform/clock.ts";
import { FrameWriter } from "./wire/frame_writer.ts";

/** What a connection does around its writes. */
export interface WriteEvents {
  /** Runs before what waits is taken: the last moment to add to it. */
  beforeWrite(): void;
  /** A piece was taken by the socket; `written` counts all bytes so far. */
  afterWrite(written: number): void;
  /** The peer is gone. */
  writeFailed(): void;
}

/**
 * What leaves on one connection: frames collect in the writer during a turn and leave in one write at
 * its end.
 */
export class SocketWriter {
  readonly frames = new FrameWriter();
  /** Monotonic ms of the last write that began. */
  lastWriteAt: number;
  #written = 0;
  #writing = false;
  #scheduled = false;
  #pending = 0;
  #stopped = false;
  #idle: (() => void)[] = [];

  constructor(
    private readonly link: ByteLink,
    private readonly clock: Clock,
    private readonly events: WriteEvents,
  ) {
    this.lastWriteAt = clock.monotonic();
  }

  /** Bytes not yet taken by the socket. */
  get buffered(): number {
    return this.frames.length + this.#pending;
  }

  /** The count of bytes written once all that is buffered now has left. */
  get position(): number {
    return this.#written + this.buffered;
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
        this.events.beforeWrite();
        const piece = this.frames.output.take();
        if (piece === undefined) break;
        this.#pending = piece.length;
        this.lastWriteAt = this.clock.monotonic();
        await this.link.write(piece);
        this.#written += piece.length;
        this.#pending = 0;
        this.frames.output.release();
        if (this.#stopped) break;
        this.events.afterWrite(this.#written);
      }
    } catch {
      // Reset or closed: whoever reads this connection sees its end too.
      if (!this.#stopped) {
        this.stop();
        this.events.writeFailed();
      }
    } finally {
      this.#pending = 0;
      this.#writing = false;
      this.#settleIdle();
    }
  }

  /** Resolves once everything was written, or nothing is written any more. */
  flushed(): Promise<void> {
    this.events.beforeWrite();
    this.schedule();
    if (this.#stopped || this.buffered === 0) return Promise.resolve();
    return new Promise((resolve) => this.#idle.push(resolve));
  }

  #settleIdle(): void {
    if (this.buffered > 0 && !this.#stopped) return this.schedule();
    const waiting = this.#idle;
    this.#idle = [];
    for (const resolve of waiting) resolve();
  }

  /** Nothing is written any more. */
  stop(): void {
    this.#stopped = true;
    if (!this.#writing) this.#settleIdle();
  }
}
