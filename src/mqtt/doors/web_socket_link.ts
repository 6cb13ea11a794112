import type { ByteLink } from "../../doors/byte_link.ts";

const OPCODE_CONTINUATION = 0x0;
const OPCODE_TEXT = 0x1;
const OPCODE_BINARY = 0x2;
const OPCODE_CLOSE = 0x8;
const OPCODE_PING = 0x9;
const OPCODE_PONG = 0xa;

const FIN = 0x80;
const RESERVED = 0x70;
const MASKED = 0x80;

/** Two bytes, eight of length, four of mask. */
const LONGEST_HEADER_BYTES = 14;
const LONGEST_CONTROL_BYTES = 125;

/** Close codes (RFC 6455 section 7.4.1). */
const NORMAL_CLOSURE = 1000;
const PROTOCOL_ERROR = 1002;
const UNSUPPORTED_DATA = 1003;

/** How long the last frame may take to leave before the connection is cut. */
const GOODBYE_MS = 1_000;

/**
 * The bytes inside the binary messages of a WebSocket, the server's side of RFC 6455. Where messages and
 * frames begin and end means nothing to MQTT (MQTT 5 section 6), so payload is passed on as it comes and
 * nothing is collected: a message of any length, in fragments without end, costs the reader's buffer and
 * no more. A text frame ends the connection, and so does every breach of the protocol.
 *
 * Compression is not offered, so every reserved bit is such a breach.
 */
export class WebSocketLink implements ByteLink {
  /** What followed the request's head. */
  #rest: Uint8Array | undefined;
  /** The header of the frame being read, until it is whole. */
  readonly #header = new Uint8Array(LONGEST_HEADER_BYTES);
  #headerHave = 0;
  #headerNeeds = 2;
  #opcode = 0;
  /** Payload bytes of the frame still to come. */
  #remaining = 0;
  #maskAt = 0;
  /** A message has begun and its last frame has not. */
  #inMessage = false;
  /** The payload of a control frame, until it is whole. */
  #control: Uint8Array | undefined;
  #controlHave = 0;
  #writing: Promise<void> | undefined;
  /** The answer to the latest ping, while something else is being written. */
  #pong: Uint8Array | undefined;
  #closing = false;

  /** @param onRefused told once, when the peer breaks the protocol */
  constructor(
    private readonly link: ByteLink,
    rest: Uint8Array,
    private readonly onRefused: () => void = () => {},
  ) {
    if (rest.length > 0) this.#rest = rest;
  }

  async read(buffer: Uint8Array): Promise<number | null> {
    for (;;) {
      if (this.#closing) return null;
      const count = await this.#fill(buffer);
      if (count === null) return null;
      const payload = this.#unframe(buffer, count);
      if (payload > 0) return payload;
    }
  }

  async #fill(buffer: Uint8Array): Promise<number | null> {
    const rest = this.#rest;
    if (rest === undefined) return await this.link.read(buffer);
    const count = Math.min(rest.length, buffer.length);
    buffer.set(rest.subarray(0, count));
    this.#rest = count < rest.length ? rest.subarray(count) : undefined;
    return count;
  }

  /** Takes the frames off `count` bytes of the wire, in place; the payload bytes that are left. */
  #unframe(buffer: Uint8Array, count: number): number {
    let payload = 0;
    for (let at = 0; at < count && !this.#closing;) {
      if (this.#headerHave < this.#headerNeeds) {
        this.#header[this.#headerHave++] = buffer[at++];
        if (this.#headerHave === 2) this.#begin();
        if (this.#headerHave === this.#headerNeeds && !this.#closing) this.#headerRead();
        continue;
      }
      const length = Math.min(this.#remaining, count - at);
      const control = this.#control;
      if (control === undefined) {
        this.#unmask(buffer, at, length, buffer, payload);
        payload += length;
      } else {
        this.#unmask(buffer, at, length, control, this.#controlHave);
        this.#controlHave += length;
      }
      at += length;
      this.#remaining -= length;
      if (this.#remaining === 0) this.#frameRead();
    }
    return payload;
  }

  #unmask(from: Uint8Array, at: number, length: number, to: Uint8Array, toAt: number): void {
    const header = this.#header;
    const mask = this.#headerNeeds - 4;
    let phase = this.#maskAt;
    for (let i = 0; i < length; i++) to[toAt + i] = from[at + i] ^ header[mask + (phase++ & 3)];
    this.#maskAt = phase & 3;
  }

  /** The first two bytes of a header say how long it is. */
  #begin(): void {
    const [first, second] = this.#header;
    const length = second & 0x7f;
    this.#opcode = first & 0x0f;
    const final = (first & FIN) !== 0;
    const known = this.#opcode <= OPCODE_BINARY ||
      (this.#opcode >= OPCODE_CLOSE && this.#opcode <= OPCODE_PONG);
    if (!known || (first & RESERVED) !== 0 || (second & MASKED) === 0) {
      return this.#refuse(PROTOCOL_ERROR);
    }
    if (this.#opcode === OPCODE_TEXT) return this.#refuse(UNSUPPORTED_DATA);
    if (this.#opcode >= OPCODE_CLOSE) {
      if (!final || length > LONGEST_CONTROL_BYTES) return this.#refuse(PROTOCOL_ERROR);
    } else {
      if ((this.#opcode === OPCODE_CONTINUATION) !== this.#inMessage) {
        return this.#refuse(PROTOCOL_ERROR);
      }
      this.#inMessage = !final;
    }
    this.#headerNeeds = 2 + (length === 126 ? 2 : length === 127 ? 8 : 0) + 4;
  }

  #headerRead(): void {
    const header = this.#header;
    const view = new DataView(header.buffer);
    const length = header[1] & 0x7f;
    this.#maskAt = 0;
    if (length < 126) this.#remaining = length;
    else if (length === 126) {
      this.#remaining = view.getUint16(2);
      if (this.#remaining < 126) return this.#refuse(PROTOCOL_ERROR);
    } else {
      const long = view.getBigUint64(2);
      if (long < 0x1_0000n || long >= 1n << 53n) return this.#refuse(PROTOCOL_ERROR);
      this.#remaining = Number(long);
    }
    if (this.#opcode >= OPCODE_CLOSE) {
      this.#control = new Uint8Array(this.#remaining);
      this.#controlHave = 0;
    }
    if (this.#remaining === 0) this.#frameRead();
  }

  #frameRead(): void {
    this.#headerHave = 0;
    this.#headerNeeds = 2;
    const control = this.#control;
    this.#control = undefined;
    if (control === undefined) return;
    if (this.#opcode === OPCODE_PING) this.#answerPing(control);
    else if (this.#opcode === OPCODE_CLOSE) this.#end(closeCode(control));
  }

  /** Only the latest ping is owed an answer (RFC 6455 section 5.5.3), so one is kept at most. */
  #answerPing(payload: Uint8Array): void {
    const pong = frame(OPCODE_PONG, payload);
    if (this.#writing !== undefined) this.#pong = pong;
    // A peer that is gone is noticed by whoever reads.
    else this.#send(pong).catch(() => {});
  }

  async write(bytes: Uint8Array): Promise<void> {
    while (this.#writing !== undefined) await this.#writing;
    if (this.#closing) throw new Error("the connection is closed");
    await this.#send(frame(OPCODE_BINARY, bytes));
  }

  /** Writes a frame and what came up meanwhile. Nothing else is being written. */
  #send(bytes: Uint8Array): Promise<void> {
    const writing = this.#sendAll(bytes).finally(() => {
      if (this.#writing === settled) this.#writing = undefined;
    });
    const settled = writing.catch(() => {});
    this.#writing = settled;
    return writing;
  }

  async #sendAll(bytes: Uint8Array): Promise<void> {
    await this.link.write(bytes);
    for (let pong = this.#pong; pong !== undefined; pong = this.#pong) {
      this.#pong = undefined;
      await this.link.write(pong);
    }
  }

  close(): void {
    this.#end(NORMAL_CLOSURE);
  }

  /** The peer broke the protocol, or speaks text. */
  #refuse(code: number): void {
    if (!this.#closing) this.onRefused();
    this.#end(code);
  }

  /** Says a last word where that can be done, and closes. Idempotent. */
  #end(code: number): void {
    if (this.#closing) return;
    this.#closing = true;
    this.#rest = undefined;
    // A peer that does not take what was written before would not take this either.
    if (this.#writing !== undefined) {
      this.link.close();
      return;
    }
    const timer = setTimeout(() => this.link.close(), GOODBYE_MS);
    this.link.write(frame(OPCODE_CLOSE, Uint8Array.of(code >> 8, code & 0xff))).catch(() => {})
      .finally(() => {
        clearTimeout(timer);
        this.link.close();
      });
  }
}

/** What a close frame is answered with: its own code, where it has a lawful one. */
function closeCode(payload: Uint8Array): number {
  if (payload.length === 0) return NORMAL_CLOSURE;
  if (payload.length === 1) return PROTOCOL_ERROR;
  const code = payload[0] << 8 | payload[1];
  const lawful =
    (code >= 1000 && code <= 1014 && code !== 1004 && code !== 1005 && code !== 1006) ||
    (code >= 3000 && code <= 4999);
  return lawful ? code : PROTOCOL_ERROR;
}

/** One whole message; servers do not mask. */
function frame(opcode: number, payload: Uint8Array): Uint8Array {
  const { length } = payload;
  const size = length < 126 ? 2 : length < 0x1_0000 ? 4 : 10;
  const bytes = new Uint8Array(size + length);
  bytes[0] = FIN | opcode;
  if (size === 2) bytes[1] = length;
  else {
    const view = new DataView(bytes.buffer);
    if (size === 4) {
      bytes[1] = 126;
      view.setUint16(2, length);
    } else {
      bytes[1] = 127;
      view.setBigUint64(2, BigInt(length));
    }
  }
  bytes.set(payload, size);
  return bytes;
}
