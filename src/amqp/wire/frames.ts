import { Reply } from "../reply.ts";
import { WireFault } from "./fault.ts";
import { NO_BYTES } from "./reader.ts";

/** Frame types of the standard (4.2.3). */
export const FrameType = { Method: 1, Header: 2, Body: 3, Heartbeat: 8 } as const;

/** The octet that ends every frame. */
export const FRAME_END = 0xce;

/** Type, channel and size. */
export const FRAME_HEADER_BYTES = 7;

/** Frame header and end octet. */
export const FRAME_OVERHEAD_BYTES = 8;

/** What must be accepted, and is all that is accepted, before tuning (A6). */
export const FRAME_MIN_BYTES = 4096;
const UNTUNED_PAYLOAD_BYTES = 8192;

/** What a client sends first, and a server that wants something else answers (4.2.2). */
export const PROTOCOL_HEADER = Uint8Array.of(0x41, 0x4d, 0x51, 0x50, 0, 0, 9, 1);

/** The first allocation for a frame that arrives in pieces; doubled as bytes come in. */
const FIRST_CARRY_BYTES = 64;

/** Hears frames in order of arrival. `false` pauses the decoder behind the frame. */
export interface FrameSink {
  /** The eight bytes were the ones of AMQP 0-9-1. */
  greeted(): boolean;
  /** The payload is `bytes[start, end)`: valid during the call only. */
  frame(type: number, channel: number, bytes: Uint8Array, start: number, end: number): boolean;
}

/** The peer speaks something else. */
export class WrongProtocol extends Error {}

/**
 * The inbound half of one connection: bytes in, frames out.
 *
 * ```
 * protocol header (8 bytes), then frames: type u8 | channel u16 | size u32 | payload | 0xCE
 * ```
 * Whole frames are handed over where they lie in the chunk. Of an incomplete one the bytes that arrived
 * are copied into a carry buffer, never larger than twice what came and never larger than the frame
 * declared, and only after the declared size was judged.
 */
export class FrameDecoder {
  /** Largest payload accepted. */
  maximumPayload = UNTUNED_PAYLOAD_BYTES;
  #greeting = 0;
  #paused = false;
  #chunk: Uint8Array = NO_BYTES;
  #at = 0;
  #carry: Uint8Array = NO_BYTES;
  #kept = 0;
  /** Of the frame at hand, all of it; 0 while its header is incomplete. */
  #frameBytes = 0;

  constructor(private readonly sink: FrameSink) {}

  get paused(): boolean {
    return this.#paused;
  }

  /** Bytes allocated for an incomplete frame. */
  get carryBytes(): number {
    return this.#carry.length;
  }

  /**
   * Hands over every frame that `chunk` completes. While paused, `chunk` must not change before
   * `resume` returned with `paused` false.
   * @throws WireFault 501, WrongProtocol; the decoder is then of no use any more
   */
  decode(chunk: Uint8Array): void {
    if (this.#paused) throw new Error("bytes were pushed into a paused decoder");
    this.#chunk = chunk;
    this.#at = 0;
    this.#run();
  }

  /** Goes on behind the frame that paused. */
  resume(): void {
    this.#paused = false;
    this.#run();
  }

  #run(): void {
    if (this.#greeting < PROTOCOL_HEADER.length && !this.#greet()) return;
    while (this.#at < this.#chunk.length) {
      const proceed = this.#kept === 0 ? this.#inPlace() : this.#fromCarry();
      if (proceed === undefined) break;
      if (!proceed) {
        this.#paused = true;
        return;
      }
    }
    this.#chunk = NO_BYTES;
    this.#at = 0;
  }

  /** False: wait for more, or paused. */
  #greet(): boolean {
    while (this.#at < this.#chunk.length) {
      if (this.#chunk[this.#at] !== PROTOCOL_HEADER[this.#greeting]) throw new WrongProtocol();
      this.#at++;
      if (++this.#greeting < PROTOCOL_HEADER.length) continue;
      if (this.sink.greeted()) return true;
      this.#paused = true;
      return false;
    }
    return false;
  }

  #inPlace(): boolean | undefined {
    const chunk = this.#chunk;
    const start = this.#at;
    this.#readHeader(chunk, start, chunk.length);
    if (this.#frameBytes === 0 || start + this.#frameBytes > chunk.length) {
      this.#keep(chunk.length - start);
      return undefined;
    }
    this.#at = start + this.#frameBytes;
    return this.#handOver(chunk, start);
  }

  #fromCarry(): boolean | undefined {
    while (this.#frameBytes === 0) {
      if (this.#at === this.#chunk.length) return undefined;
      this.#keep(1);
      this.#readHeader(this.#carry, 0, this.#kept);
    }
    this.#keep(Math.min(this.#frameBytes - this.#kept, this.#chunk.length - this.#at));
    if (this.#kept < this.#frameBytes) return undefined;
    const carry = this.#carry;
    this.#carry = NO_BYTES;
    this.#kept = 0;
    return this.#handOver(carry, 0);
  }

  /** Moves `count` bytes of the chunk into the carry. */
  #keep(count: number): void {
    const needed = this.#kept + count;
    if (needed > this.#carry.length) {
      const bound = this.#frameBytes === 0 ? FIRST_CARRY_BYTES : this.#frameBytes;
      const grown = new Uint8Array(Math.min(bound, Math.max(FIRST_CARRY_BYTES, needed * 2)));
      grown.set(this.#carry.subarray(0, this.#kept));
      this.#carry = grown;
    }
    this.#carry.set(this.#chunk.subarray(this.#at, this.#at + count), this.#kept);
    this.#kept = needed;
    this.#at += count;
  }

  /** Reads the frame header in `[start, end)` as far as it goes and judges it. */
  #readHeader(bytes: Uint8Array, start: number, end: number): void {
    this.#frameBytes = 0;
    if (end === start) return;
    const type = bytes[start];
    if (type !== 1 && type !== 2 && type !== 3 && type !== 8) {
      throw new WireFault(Reply.FrameError, `there is no frame type ${type}`);
    }
    if (end - start < FRAME_HEADER_BYTES) return;
    const size = (bytes[start + 3] << 24 | bytes[start + 4] << 16 | bytes[start + 5] << 8 |
      bytes[start + 6]) >>> 0;
    if (size > this.maximumPayload) {
      throw new WireFault(
        Reply.FrameError,
        `a frame of ${size} bytes is larger than the ${this.maximumPayload} agreed on`,
      );
    }
    this.#frameBytes = size + FRAME_OVERHEAD_BYTES;
  }

  #handOver(bytes: Uint8Array, start: number): boolean {
    const end = start + this.#frameBytes - 1;
    this.#frameBytes = 0;
    if (bytes[end] !== FRAME_END) {
      throw new WireFault(
        Reply.FrameError,
        `a frame ends with 0x${bytes[end].toString(16)} instead of 0xce`,
      );
    }
    const channel = bytes[start + 1] << 8 | bytes[start + 2];
    return this.sink.frame(bytes[start], channel, bytes, start + FRAME_HEADER_BYTES, end);
  }
}
