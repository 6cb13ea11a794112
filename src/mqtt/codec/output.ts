import { LONGEST_FIELD_BYTES, NO_BYTES } from "./primitives.ts";
import { textSize } from "./text.ts";
import { PAGE_BYTES, type PagePool } from "./pages.ts";

/** A payload from this size on is sent from where it lies, not copied into the page. */
export const SHARED_PAYLOAD_BYTES = 32 * 1024;

const encoder = new TextEncoder();

/** A finished piece of output. `page` is set when it lies on a page that may be used again. */
interface Segment {
  readonly bytes: Uint8Array;
  readonly page: Uint8Array | undefined;
}

/**
 * Bytes on their way to one peer: primitive writes gather on a page, `take` hands over what is
 * there. The writes trust the caller to have called `reserve` for the whole packet.
 */
export class Output {
  readonly #pages: PagePool;
  #bytes: Uint8Array = NO_BYTES;
  #at = 0;
  /** Output before the page at hand; empty unless large payloads were shared. */
  #segments: Segment[] = [];
  #segmentBytes = 0;
  /** The page under the piece taken last. */
  #lent: Uint8Array | undefined = undefined;

  constructor(pages: PagePool) {
    this.#pages = pages;
  }

  /** Bytes written and not yet taken. */
  get length(): number {
    return this.#segmentBytes + this.#at;
  }

  /**
   * The oldest piece of output, or undefined when there is none. Its bytes are not touched until
   * `release`, nor ever when that is not called.
   */
  take(): Uint8Array | undefined {
    let segment = this.#segments.shift();
    if (segment !== undefined) this.#segmentBytes -= segment.bytes.length;
    else segment = this.#closePage();
    this.#lent = segment?.page;
    return segment?.bytes;
  }

  /** Says that the piece taken last has left, and that its memory may be used again. */
  release(): void {
    if (this.#lent === undefined) return;
    this.#pages.giveBack(this.#lent);
    this.#lent = undefined;
  }

  #closePage(): Segment | undefined {
    if (this.#at === 0) return undefined;
    const segment = { bytes: this.#bytes.subarray(0, this.#at), page: this.#bytes };
    this.#bytes = NO_BYTES;
    this.#at = 0;
    return segment;
  }

  /** Makes room for `count` more bytes. */
  reserve(count: number): void {
    const needed = this.#at + count;
    if (needed <= this.#bytes.length) return;
    const grown = needed <= PAGE_BYTES
      ? this.#pages.take()
      : new Uint8Array(Math.max(needed, this.#bytes.length * 2));
    if (this.#at > 0) grown.set(this.#bytes.subarray(0, this.#at));
    if (this.#bytes.length > 0) this.#pages.giveBack(this.#bytes);
    this.#bytes = grown;
  }

  byte(value: number): void {
    this.#bytes[this.#at++] = value;
  }

  twoByteInteger(value: number): void {
    const bytes = this.#bytes;
    bytes[this.#at++] = value >>> 8;
    bytes[this.#at++] = value;
  }

  fourByteInteger(value: number): void {
    const bytes = this.#bytes;
    bytes[this.#at++] = value >>> 24;
    bytes[this.#at++] = value >>> 16;
    bytes[this.#at++] = value >>> 8;
    bytes[this.#at++] = value;
  }

  variableByteInteger(value: number): void {
    while (value > 0x7f) {
      this.#bytes[this.#at++] = (value & 0x7f) | 0x80;
      value >>>= 7;
    }
    this.#bytes[this.#at++] = value;
  }

  /** A UTF-8 Encoded String, its length included. */
  text(text: string): void {
    const bytes = this.#bytes;
    const length = text.length;
    let at = this.#at + 2;
    for (let i = 0; i < length; i++) {
      const code = text.charCodeAt(i);
      if (code >= 0x80) return this.#otherText(text);
      bytes[at++] = code;
    }
    bytes[this.#at] = length >>> 8;
    bytes[this.#at + 1] = length;
    this.#at = at;
  }

  #otherText(text: string): void {
    const start = this.#at + 2;
    const { written } = encoder.encodeInto(text, this.#bytes.subarray(start));
    this.#bytes[this.#at] = written >>> 8;
    this.#bytes[this.#at + 1] = written;
    this.#at = start + written;
  }

  /** Binary Data, its length included. */
  binary(value: Uint8Array): void {
    this.twoByteInteger(value.length);
    this.#bytes.set(value, this.#at);
    this.#at += value.length;
  }

  /** The last bytes of a packet, copied; `reserve` counted them. */
  copy(payload: Uint8Array): void {
    this.#bytes.set(payload, this.#at);
    this.#at += payload.length;
  }

  /** The last bytes of a packet, left where they are; nobody may change them before they left. */
  share(payload: Uint8Array): void {
    const segment = this.#closePage();
    if (segment !== undefined) this.#push(segment);
    this.#push({ bytes: payload, page: undefined });
  }

  #push(segment: Segment): void {
    this.#segments.push(segment);
    this.#segmentBytes += segment.bytes.length;
  }
}

/** Bytes of a string field; throws RangeError when the standard has no length for it. */
export function textFieldSize(text: string): number {
  const size = textSize(text);
  if (size > LONGEST_FIELD_BYTES) throw new RangeError(`a string of ${size} bytes fits no packet`);
  return 2 + size;
}

/** Bytes of a binary field; throws RangeError when the standard has no length for it. */
export function binaryFieldSize(value: Uint8Array): number {
  if (value.length > LONGEST_FIELD_BYTES) {
    throw new RangeError(`binary data of ${value.length} bytes fits no packet`);
  }
  return 2 + value.length;
}
