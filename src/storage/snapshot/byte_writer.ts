import type { Nanoseconds } from "../../platform/clock.ts";
import type { Message, Offset } from "../record.ts";

/** A stop of many channels writes many small files. */
const FIRST_BYTES = 4 * 1024;
/** Bytes that are worth a write of their own. */
const FULL_BYTES = 512 * 1024;
/** Of a message without its texts, its payload and its properties: lengths, numbers, marks of what is absent. */
const PLAIN_MESSAGE_BYTES = 5 * 4 + 8 + 4 + 4 + 5 + 1 + 1 + 1;
const TWO_TO_32 = 0x1_0000_0000;
/** Strings up to this are copied unit by unit while they are ASCII; longer ones by the runtime. */
const SHORT_TEXT = 64;
const ENCODER = new TextEncoder();

/** The primitives of the snapshot format (S55), little-endian, into a buffer that grows. */
export class ByteWriter {
  #bytes = new Uint8Array(FIRST_BYTES);
  #other = new Uint8Array(FIRST_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #length = 0;

  get length(): number {
    return this.#length;
  }

  /** What was written is to be taken out before more is. */
  get full(): boolean {
    return this.#length >= FULL_BYTES;
  }

  /** What was written since the last exchange; valid until the next write. */
  written(): Uint8Array {
    return this.#bytes.subarray(0, this.#length);
  }

  /**
   * What was written since the last exchange; valid until the next one. Writing goes on in a second buffer
   * meanwhile.
   */
  exchange(): Uint8Array {
    const written = this.written();
    [this.#bytes, this.#other] = [this.#other, this.#bytes];
    this.#view = new DataView(this.#bytes.buffer);
    this.#length = 0;
    return written;
  }

  u8(value: number): void {
    this.#grow(1);
    this.#bytes[this.#length++] = value;
  }

  bool(value: boolean): void {
    this.u8(value ? 1 : 0);
  }

  u16(value: number): void {
    this.#grow(2);
    this.#view.setUint16(this.#length, value, true);
    this.#length += 2;
  }

  u32(value: number): void {
    this.#grow(4);
    this.#view.setUint32(this.#length, value, true);
    this.#length += 4;
  }

  offset(value: Offset): void {
    this.#grow(8);
    // A remainder of doubles costs as much as the rest of a record.
    const high = value < TWO_TO_32 ? 0 : Math.floor(value / TWO_TO_32);
    this.#view.setUint32(this.#length, value - high * TWO_TO_32, true);
    this.#view.setUint32(this.#length + 4, high, true);
    this.#length += 8;
  }

  time(value: Nanoseconds): void {
    this.#grow(8);
    this.#view.setBigInt64(this.#length, value, true);
    this.#length += 8;
  }

  bytes(value: Uint8Array): void {
    this.u32(value.byteLength);
    this.raw(value);
  }

  raw(value: Uint8Array): void {
    this.#grow(value.byteLength);
    this.#bytes.set(value, this.#length);
    this.#length += value.byteLength;
  }

  text(value: string): void {
    this.#grow(4 + 3 * value.length);
    this.#length = this.#textAt(value, this.#length);
  }

  /**
   * The fields of a record's message that has neither User Properties nor publish properties, which most
   * have not: one look at the room there is instead of one a field, at half the cost of the whole.
   */
  plainMessage(message: Message): void {
    const { messageId, topic, payload, bridge, clientId, onlyFor } = message;
    const units = messageId.length + topic.length + bridge.length + clientId.length +
      onlyFor.length;
    this.#grow(PLAIN_MESSAGE_BYTES + 3 * units + payload.byteLength);
    const bytes = this.#bytes;
    const view = this.#view;
    let at = this.#textAt(topic, this.#textAt(messageId, this.#length));
    view.setBigInt64(at, message.timestamp, true);
    view.setUint32(at + 8, 0, true);
    view.setUint32(at + 12, payload.byteLength, true);
    bytes.set(payload, at + 16);
    at += 16 + payload.byteLength;
    view.setUint32(at, 0, true);
    bytes[at + 4] = 0;
    bytes[at + 5] = message.retain ? 1 : 0;
    at = this.#textAt(clientId, this.#textAt(bridge, at + 6));
    bytes[at] = message.qos;
    bytes[at + 1] = message.groupCopy ? 1 : 0;
    this.#length = this.#textAt(onlyFor, at + 2);
  }

  /** Writes a text where there is room for it. @return where it ends */
  #textAt(value: string, at: number): number {
    const { length } = value;
    const bytes = this.#bytes;
    const start = at + 4;
    let written = 0;
    if (length <= SHORT_TEXT) {
      while (written < length) {
        const unit = value.charCodeAt(written);
        if (unit > 0x7f) break;
        bytes[start + written++] = unit;
      }
    }
    if (written < length) {
      written = ENCODER.encodeInto(value, bytes.subarray(start)).written;
    }
    this.#view.setUint32(at, written, true);
    return start + written;
  }

  #grow(bytes: number): void {
    const needed = this.#length + bytes;
    if (needed <= this.#bytes.byteLength) return;
    const larger = new Uint8Array(Math.max(needed, 2 * this.#bytes.byteLength));
    larger.set(this.#bytes.subarray(0, this.#length));
    this.#bytes = larger;
    this.#view = new DataView(larger.buffer);
  }
}
