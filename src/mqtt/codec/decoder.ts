import type { InboundPacket } from "../packet.ts";
import { checkFirstByte, decodePacket, readDeclaredLevel } from "./decode.ts";
import { Reason } from "../../broker/reason.ts";
import { MalformedPacket } from "./fault.ts";
import { NO_BYTES, Reader } from "./primitives.ts";
import { TopicCache } from "./text.ts";

export interface DecoderOptions {
  /** Bytes of the largest packet accepted, fixed header included. */
  readonly maximumPacketSize: number;
  /** The same for the CONNECT; the smaller of the two holds. */
  readonly maximumConnectSize: number;
}

/** Takes one packet; `false` pauses the decoder behind it. */
export type OnPacket = (packet: InboundPacket) => void | boolean;

/** The longest fixed header: the first byte and a Remaining Length of four. */
const LONGEST_HEADER_BYTES = 5;
/** The first allocation for a packet that arrives in pieces; doubled as bytes come in. */
const FIRST_CARRY_BYTES = 64;

/**
 * The inbound half of one connection: bytes in, packets out, one fault at most.
 *
 * Whole packets are decoded where they lie in the chunk. Of an incomplete one the bytes that arrived
 * are copied into a carry buffer, never larger than 64 bytes or twice what came, nor than the packet
 * declared above that, and only after the declared length was judged.
 */
export class Decoder {
  readonly #maximumPacketSize: number;
  readonly #maximumConnectSize: number;
  readonly #reader = new Reader();
  readonly #topics = new TopicCache();
  /** The level that the CONNECT settled. */
  #level: 4 | 5 | undefined = undefined;
  #fault: MalformedPacket | undefined = undefined;
  #paused = false;
  /** What is left of the chunk while paused, and during `decode`. */
  #chunk: Uint8Array = NO_BYTES;
  #at = 0;
  /** The start of a packet that is not complete, `#kept` bytes of it. */
  #carry: Uint8Array = NO_BYTES;
  #kept = 0;
  /** From the fixed header last read; size 0 while that is incomplete. */
  #headerSize = 0;
  #packetSize = 0;
  #oversize = false;

  constructor(options: DecoderOptions) {
    this.#maximumPacketSize = options.maximumPacketSize;
    this.#maximumConnectSize = Math.min(options.maximumConnectSize, options.maximumPacketSize);
  }

  /** Undefined until a CONNECT was decoded. */
  get level(): 4 | 5 | undefined {
    return this.#level;
  }

  get paused(): boolean {
    return this.#paused;
  }

  /**
   * After `decode` or `resume`: true when the chunk's memory is still in use, by a payload that was
   * handed out or by packets waiting behind a pause, so that the caller must read into another buffer.
   * Holds for the chunk given last.
   */
  get holdsInput(): boolean {
    return this.#reader.viewed || this.#at < this.#chunk.length;
  }

  /** Bytes allocated for an incomplete packet. */
  get carryBytes(): number {
    return this.#carry.length;
  }

  /**
   * Decodes every packet that `chunk` completes, in order. Returns the fault that ended decoding, if
   * one did; from then on every call returns it and reads nothing. Finishes in this turn. Errors that
   * `onPacket` throws pass through.
   *
   * @throws Error while paused: the bytes would overtake those that wait.
   */
  decode(chunk: Uint8Array, onPacket: OnPacket): MalformedPacket | undefined {
    if (this.#paused) throw new Error("bytes were pushed into a paused decoder");
    if (this.#fault !== undefined) return this.#fault;
    this.#reader.viewed = false;
    this.#chunk = chunk;
    this.#at = 0;
    return this.#run(onPacket);
  }

  /** Goes on behind the packet that paused; the same answers as `decode`. */
  resume(onPacket: OnPacket): MalformedPacket | undefined {
    this.#paused = false;
    if (this.#fault !== undefined) return this.#fault;
    return this.#run(onPacket);
  }

  #run(onPacket: OnPacket): MalformedPacket | undefined {
    while (this.#at < this.#chunk.length) {
      let packet: InboundPacket | undefined;
      try {
        packet = this.#kept === 0 ? this.#nextInPlace() : this.#nextFromCarry();
      } catch (fault) {
        if (!(fault instanceof MalformedPacket)) throw fault;
        this.#fault = fault;
        this.#carry = NO_BYTES;
        this.#kept = 0;
        this.#releaseChunk();
        return fault;
      }
      if (packet === undefined) break;
      if (onPacket(packet) === false) {
        this.#paused = true;
        if (this.#at === this.#chunk.length) this.#releaseChunk();
        return undefined;
      }
    }
    this.#releaseChunk();
    return undefined;
  }

  #releaseChunk(): void {
    this.#chunk = NO_BYTES;
    this.#at = 0;
    this.#reader.bytes = NO_BYTES;
  }

  /** The packet at `#at`; what there is of it is kept when it is not complete. */
  #nextInPlace(): InboundPacket | undefined {
    const chunk = this.#chunk;
    const start = this.#at;
    this.#readHeader(chunk, start, chunk.length);
    if (this.#packetSize === 0 || this.#oversize || start + this.#packetSize > chunk.length) {
      this.#keep(chunk.length - start);
      return undefined;
    }
    this.#at = start + this.#packetSize;
    return this.#decode(chunk, start);
  }

  /** Completes the kept packet from the chunk. */
  #nextFromCarry(): InboundPacket | undefined {
    while (this.#packetSize === 0 || this.#oversize) {
      if (this.#at === this.#chunk.length) return undefined;
      this.#keep(1);
      this.#readHeader(this.#carry, 0, this.#kept);
    }
    const available = this.#chunk.length - this.#at;
    this.#keep(Math.min(this.#packetSize - this.#kept, available));
    if (this.#kept < this.#packetSize) return undefined;
    const carry = this.#carry;
    this.#carry = NO_BYTES;
    this.#kept = 0;
    const viewed = this.#reader.viewed;
    const packet = this.#decode(carry, 0);
    this.#reader.viewed = viewed; // The carry is not the caller's buffer.
    return packet;
  }

  /** Moves `count` bytes of the chunk into the carry. */
  #keep(count: number): void {
    const needed = this.#kept + count;
    if (needed > this.#carry.length) {
      const bound = this.#packetSize === 0 || this.#oversize ? FIRST_CARRY_BYTES : this.#packetSize;
      const grown = new Uint8Array(Math.min(bound, Math.max(FIRST_CARRY_BYTES, needed * 2)));
      grown.set(this.#carry.subarray(0, this.#kept));
      this.#carry = grown;
    }
    this.#carry.set(this.#chunk.subarray(this.#at, this.#at + count), this.#kept);
    this.#kept = needed;
    this.#at += count;
  }

  /** Reads the fixed header in `[start, end)` as far as it goes and judges it (2.1). */
  #readHeader(bytes: Uint8Array, start: number, end: number): void {
    const reader = this.#reader;
    this.#packetSize = 0;
    checkFirstByte(reader, bytes[start], this.#level);
    let length = 0;
    for (let i = 1; i < LONGEST_HEADER_BYTES; i++) {
      if (start + i >= end) return;
      const byte = bytes[start + i];
      length |= (byte & 0x7f) << (7 * (i - 1));
      if (byte < 0x80) {
        if (byte === 0 && i > 1) {
          reader.fail(
            Reason.MalformedPacket,
            "the Remaining Length is longer than its value needs",
          );
        }
        this.#headerSize = i + 1;
        this.#packetSize = i + 1 + length;
        this.#judgeSize(bytes, start, end);
        return;
      }
    }
    reader.fail(Reason.MalformedPacket, "the Remaining Length is longer than four bytes");
  }

  #judgeSize(bytes: Uint8Array, start: number, end: number): void {
    const limit = this.#level === undefined ? this.#maximumConnectSize : this.#maximumPacketSize;
    if (this.#packetSize <= limit) return;
    const reader = this.#reader;
    if (this.#level === undefined) {
      // Which answer a CONNECT gets depends on its level, a few bytes on: those are waited for.
      const level = readDeclaredLevel(reader, bytes, start + this.#headerSize, end);
      if (level === undefined) {
        if (this.#packetSize < this.#headerSize + 9) reader.overrun();
        this.#oversize = true;
        return;
      }
      reader.level = level;
    }
    reader.fail(
      Reason.PacketTooLarge,
      `a packet declares ${this.#packetSize} bytes, more than the ${limit} allowed`,
    );
  }

  #decode(bytes: Uint8Array, start: number): InboundPacket {
    const reader = this.#reader;
    reader.bytes = bytes;
    reader.at = start + this.#headerSize;
    reader.end = start + this.#packetSize;
    this.#packetSize = 0;
    const packet = decodePacket(reader, bytes[start], this.#topics);
    if (this.#level === undefined) {
      this.#level = reader.level as 4 | 5;
      reader.inConnect = false;
    }
    return packet;
  }
}

/** What the opening of a connection says before its CONNECT is complete. */
export type Opening =
  | { readonly state: "incomplete" }
  | { readonly state: "level"; readonly level: number }
  | { readonly state: "fault"; readonly fault: MalformedPacket };

/**
 * Looks at the first bytes of a connection just far enough to answer a CONNECT that will not be read
 * (02a 13.3): needs at most 14 bytes and decodes no more.
 */
export function readOpening(bytes: Uint8Array): Opening {
  const reader = new Reader();
  try {
    if (bytes.length === 0) return { state: "incomplete" };
    checkFirstByte(reader, bytes[0], undefined);
    let at = 1;
    while (at < bytes.length && bytes[at] >= 0x80) at++;
    if (at >= LONGEST_HEADER_BYTES) {
      reader.fail(Reason.MalformedPacket, "the Remaining Length is longer than four bytes");
    }
    const level = at < bytes.length
      ? readDeclaredLevel(reader, bytes, at + 1, bytes.length)
      : undefined;
    return level === undefined ? { state: "incomplete" } : { state: "level", level };
  } catch (fault) {
    if (!(fault instanceof MalformedPacket)) throw fault;
    return { state: "fault", fault };
  }
}
