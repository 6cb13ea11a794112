import { Buffer } from "node:buffer";
import type { Nanoseconds } from "../../platform/clock.ts";
import type { Offset } from "../record.ts";
import { SnapshotFault } from "./format.ts";

/** Strings that repeat (topics, client ids) are kept once, up to so many different ones a file. */
const SHARED_TEXTS = 4_096;

const STRICT = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * The primitives of the snapshot format, read from the body of a file whose checksum held. Whatever a
 * length or a count says is compared with the bytes that are left before anything is made (S54).
 */
export class ByteReader {
  /** Where the next read begins. */
  at = 0;
  readonly #view: DataView;
  readonly #ascii: Buffer;
  readonly #shared = new Map<string, string>();

  constructor(readonly body: Uint8Array) {
    this.#view = new DataView(body.buffer, body.byteOffset, body.byteLength);
    this.#ascii = Buffer.from(body.buffer, body.byteOffset, body.byteLength);
  }

  get left(): number {
    return this.body.byteLength - this.at;
  }

  u8(): number {
    return this.body[this.#take(1)];
  }

  /** Goes over the next `count` bytes if all of them are 0. */
  skipZeros(count: number): boolean {
    const end = this.at + count;
    if (count > this.left) return false;
    for (let at = this.at; at < end; at++) if (this.body[at] !== 0) return false;
    this.at = end;
    return true;
  }

  bool(): boolean {
    const value = this.u8();
    if (value > 1) throw new SnapshotFault(`is damaged: ${value} stands where 0 or 1 does`);
    return value === 1;
  }

  u16(): number {
    return this.#view.getUint16(this.#take(2), true);
  }

  u32(): number {
    return this.#view.getUint32(this.#take(4), true);
  }

  /** Refused past 2^53-1, never rounded (S45). */
  offset(): Offset {
    const at = this.#take(8);
    const high = this.#view.getUint32(at + 4, true);
    const value = high * 0x1_0000_0000 + this.#view.getUint32(at, true);
    if (value > Number.MAX_SAFE_INTEGER) {
      throw new SnapshotFault("holds an offset above 2^53-1, which this broker cannot count");
    }
    return value;
  }

  time(): Nanoseconds {
    return this.#view.getBigInt64(this.#take(8), true);
  }

  /** A view of the file's bytes. */
  bytes(): Uint8Array {
    const length = this.u32();
    const at = this.#take(length);
    return this.body.subarray(at, at + length);
  }

  text(): string {
    const length = this.u32();
    const start = this.#take(length);
    const end = start + length;
    if (length === 0) return "";
    const { body } = this;
    let at = start;
    while (at < end && body[at] < 0x80) at++;
    // Six times as fast as the decoder, and a million records have five million texts.
    if (at === end) return this.#ascii.toString("latin1", start, end);
    try {
      return STRICT.decode(body.subarray(start, end));
    } catch (error) {
      throw new SnapshotFault("is damaged: a text in it is not UTF-8", { cause: error });
    }
  }

  /** As `text`, for texts of which many are the same. */
  sharedText(): string {
    const text = this.text();
    const shared = this.#shared.get(text);
    if (shared !== undefined) return shared;
    if (this.#shared.size < SHARED_TEXTS) this.#shared.set(text, text);
    return text;
  }

  /** One of the first `count` whole numbers. */
  oneOf(count: number): number {
    const value = this.u8();
    if (value >= count) {
      throw new SnapshotFault(`is damaged: ${value} stands where a number below ${count} does`);
    }
    return value;
  }

  optional<T>(read: () => T): T | undefined {
    return this.bool() ? read() : undefined;
  }

  /** The length of a list whose items take `smallest` bytes each at least. */
  count(smallest: number): number {
    const count = this.u32();
    if (count * smallest > this.left) {
      throw new SnapshotFault(
        `is damaged: it announces ${count} items where ${this.left} bytes are left`,
      );
    }
    return count;
  }

  list<T>(smallest: number, read: () => T): T[] {
    const count = this.count(smallest);
    const items: T[] = [];
    for (let i = 0; i < count; i++) items.push(read());
    return items;
  }

  /** @throws SnapshotFault when something follows what was read */
  end(): void {
    if (this.left > 0) {
      throw new SnapshotFault(`is damaged: ${this.left} bytes follow its contents`);
    }
  }

  #take(bytes: number): number {
    if (bytes > this.left) {
      throw new SnapshotFault(
        `is damaged: ${bytes} bytes are announced where ${this.left} are left`,
      );
    }
    const at = this.at;
    this.at += bytes;
    return at;
  }
}
