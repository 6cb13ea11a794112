import { Buffer } from "node:buffer";
import { Duplex } from "node:stream";
import type { ByteLink } from "./byte_link.ts";
import { handshakeTurns } from "./turns.ts";

/** A link that waits for its peer holds a buffer of this size; it grows after a read that filled it. */
const SMALLEST_BYTES = 512;
const LARGEST_BYTES = 16 * 1024;

/**
 * A link as the stream that node:tls is put upon.
 *
 * It reads only on demand: the TLS layer of this runtime goes on asking for bytes when nobody reads what
 * it made of them (70 MB of one client's in its own memory, measured), so the demand comes from above it.
 *
 * While the handshake goes on, what was read is handed up in a turn of its own.
 */
export class LinkDuplex extends Duplex {
  #size = SMALLEST_BYTES;
  #asked = false;
  #demand = true;
  #reading = false;
  #shakingHands = true;
  #first: Buffer | undefined;

  constructor(private readonly link: ByteLink) {
    super({ readableHighWaterMark: LARGEST_BYTES, writableHighWaterMark: LARGEST_BYTES });
  }

  /** Whether bytes are wanted; at first, for the handshake, they are. It is over when this is set. */
  set demand(wanted: boolean) {
    this.#shakingHands = false;
    this.#demand = wanted;
    if (wanted) this.#pull();
  }

  /** Waits until the peer has said something, which the first read then brings; false when it left. */
  async opened(): Promise<boolean> {
    const bytes = new Uint8Array(this.#size);
    const count = await this.link.read(bytes);
    if (count === null) return false;
    this.#first = Buffer.from(bytes.buffer, 0, count);
    return true;
  }

  override _read(): void {
    this.#asked = true;
    this.#pull();
  }

  override _write(
    bytes: Uint8Array,
    _encoding: string,
    done: (error?: Error | null) => void,
  ): void {
    this.link.write(bytes).then(() => done(), done);
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.link.close();
    done(error);
  }

  async #pull(): Promise<void> {
    if (!this.#asked || !this.#demand || this.#reading) return;
    this.#asked = false;
    const first = this.#first;
    if (first !== undefined) {
      // In the turn in which the server took this stream.
      this.#first = undefined;
      this.push(first);
      return;
    }
    this.#reading = true;
    const bytes = new Uint8Array(this.#size);
    const count = await this.link.read(bytes);
    this.#reading = false;
    if (this.destroyed) return;
    if (count === null) {
      this.push(null);
      return;
    }
    if (count === this.#size) this.#size = Math.min(this.#size * 4, LARGEST_BYTES);
    else if (count * 16 < this.#size) this.#size = Math.max(SMALLEST_BYTES, this.#size / 4);
    const read = Buffer.from(bytes.buffer, 0, count);
    if (this.#shakingHands) await handshakeTurns.run(() => this.destroyed || this.push(read));
    else this.push(read);
  }
}
