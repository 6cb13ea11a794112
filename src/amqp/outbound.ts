import type { ByteLink } from "../doors/byte_link.ts";
import type { Clock } from "../platform/clock.ts";
import type { QueueItem } from "./queues/source.ts";
import { SocketWriter, type WriteEvents } from "./socket_writer.ts";
import { Unwritten } from "./unwritten.ts";
import type { FrameWriter } from "./wire/frame_writer.ts";

/** A channel that collects confirms until the next write. */
export interface Confirming {
  flushConfirms(): void;
}

export interface OutboundEvents {
  /** There is room again for whoever found `congested`. */
  room(): void;
  /** The peer took something. */
  taken(): void;
  /** The peer is gone. Runs once. */
  failed(): void;
}

/** High waters at which what would cause more bytes waits until they are fewer. */
const FULL_AT = 2;

/**
 * What leaves on one connection, and what waits for its leaving: confirms that are merged until then
 * (A45), deliveries that need no acknowledgement (A57), and consumers of a socket that has enough (A18).
 */
export class Outbound implements WriteEvents {
  readonly #socket: SocketWriter;
  readonly #confirming: Confirming[] = [];
  readonly #unwritten = new Unwritten();
  #starved = false;
  #stopped = false;
  #waiting: (() => void)[] = [];

  constructor(
    link: ByteLink,
    clock: Clock,
    private readonly highWater: number,
    private readonly events: OutboundEvents,
  ) {
    this.#socket = new SocketWriter(link, clock, this);
  }

  get frames(): FrameWriter {
    return this.#socket.frames;
  }

  /** Monotonic ms of the last write that began. */
  get lastWriteAt(): number {
    return this.#socket.lastWriteAt;
  }

  /** More bytes wait for the socket than `broker.amqp.outbound_high_water`. */
  get congested(): boolean {
    if (this.#socket.buffered < this.highWater) return false;
    this.#starved = true;
    return true;
  }

  /**
   * Resolves when the peer has taken enough for whatever makes more for it: replies, returns, what
   * basic.get asks for. Undefined when it has. Consumers stop before that, at `congested`.
   */
  untilRoom(): Promise<void> | undefined {
    if (this.#socket.buffered < this.highWater * FULL_AT || this.#stopped) return undefined;
    this.#starved = true;
    return new Promise((resolve) => this.#waiting.push(resolve));
  }

  /** What was written leaves at the end of the turn. */
  schedule(): void {
    this.#socket.schedule();
  }

  /** The channel has confirms to flush before the next write. */
  confirmsWait(channel: Confirming): void {
    this.#confirming.push(channel);
    this.#socket.schedule();
  }

  /** A delivery that needs no acknowledgement: settled once it is written. */
  settleWhenWritten(item: QueueItem): void {
    this.#unwritten.add(item, this.#socket.position);
  }

  /** Resolves once everything was written, or nothing is written any more. */
  flushed(): Promise<void> {
    return this.#socket.flushed();
  }

  /** Nothing is written any more. */
  stop(): void {
    this.#stopped = true;
    this.#socket.stop();
    this.#wake();
  }

  #wake(): void {
    const waiting = this.#waiting;
    this.#waiting = [];
    for (const resolve of waiting) resolve();
  }

  /** What never left goes back where it was. */
  giveBackUnwritten(): void {
    for (const item of this.#unwritten.all()) item.source.requeue([item]);
  }

  beforeWrite(): void {
    for (const channel of this.#confirming) channel.flushConfirms();
    this.#confirming.length = 0;
  }

  afterWrite(written: number): void {
    for (const item of this.#unwritten.upTo(written)) item.source.acknowledged(item);
    this.events.taken();
    if (!this.#starved || this.#socket.buffered >= this.highWater) return;
    this.#starved = false;
    this.#wake();
    this.events.room();
  }

  writeFailed(): void {
    this.events.failed();
  }
}
