/** A connection without a socket. */
import type { ByteLink } from "../../src/doors/byte_link.ts";
import type { ClientWire, WireEvents } from "./world.ts";

/** Both ends of a connection. */
export class Pipe implements ByteLink, ClientWire {
  #toBroker: Uint8Array[] = [];
  #ended = false;
  #closed = false;
  #reader: { buffer: Uint8Array; resolve: (count: number | null) => void } | undefined;
  /** Bytes moved, or an end reached, since somebody looked. */
  moved = false;

  constructor(private events: WireEvents | undefined, private readonly deaf: boolean) {}

  send(bytes: Uint8Array): void {
    if (this.#ended) return;
    this.#toBroker.push(bytes);
    this.#feed();
  }

  /** The client's end, or the broker's: each stops hearing of the other. */
  close(): void {
    this.#ended = true;
    this.moved = true;
    const { events } = this;
    this.events = undefined;
    this.#feed();
    if (events !== undefined) events.closed();
  }

  /** The client goes without a word from the broker. */
  leave(): void {
    this.events = undefined;
    this.#ended = true;
    this.#closed = true;
    this.#feed();
  }

  /** The broker is dead: nothing it does reaches anybody. */
  die(): void {
    const { events } = this;
    this.events = undefined;
    this.#toBroker = [];
    this.#ended = true;
    this.#closed = true;
    this.#feed();
    events?.closed();
  }

  read(buffer: Uint8Array): Promise<number | null> {
    return new Promise((resolve) => {
      this.#reader = { buffer, resolve };
      this.#feed();
    });
  }

  #feed(): void {
    const reader = this.#reader;
    if (reader === undefined) return;
    const [bytes] = this.#toBroker;
    if (bytes === undefined) {
      if (!this.#ended) return;
      this.#reader = undefined;
      this.moved = true;
      return reader.resolve(null);
    }
    this.#reader = undefined;
    this.moved = true;
    const count = Math.min(bytes.length, reader.buffer.length);
    reader.buffer.set(bytes.subarray(0, count));
    if (count === bytes.length) this.#toBroker.shift();
    else this.#toBroker[0] = bytes.subarray(count);
    reader.resolve(count);
  }

  write(bytes: Uint8Array): Promise<void> {
    if (this.deaf || this.#closed) return Promise.reject(new Error("the peer is gone"));
    this.moved = true;
    this.events?.data(bytes.slice());
    return Promise.resolve();
  }
}
