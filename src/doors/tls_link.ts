import type { TLSSocket } from "node:tls";
import type { ByteLink } from "./byte_link.ts";
import type { LinkDuplex } from "./link_duplex.ts";

/** How long the end of the stream may take to leave before the connection is cut. */
const GOODBYE_MS = 1_000;

/** The plain bytes inside a TLS connection whose handshake is over. */
export class TlsLink implements ByteLink {
  /** What the last read of the stream brought and no buffer had room for. */
  #rest: Uint8Array | undefined;
  #ended = false;
  #closed = false;
  #wake: (() => void) | undefined;

  constructor(private readonly socket: TLSSocket, private readonly below: LinkDuplex) {
    below.demand = false;
    const end = () => {
      this.#ended = true;
      this.#notify();
    };
    socket.on("readable", () => this.#notify());
    socket.on("end", end);
    socket.on("close", end);
    below.on("close", end);
    // Told to whoever reads or writes; without a listener the process would end.
    socket.on("error", end);
  }

  async read(buffer: Uint8Array): Promise<number | null> {
    for (;;) {
      if (this.#closed) return null;
      const bytes = this.#rest ?? this.socket.read() as Uint8Array | null;
      if (bytes !== null) {
        const count = Math.min(bytes.length, buffer.length);
        buffer.set(bytes.subarray(0, count));
        this.#rest = count < bytes.length ? bytes.subarray(count) : undefined;
        return count;
      }
      if (this.#ended) return null;
      const waited = new Promise<void>((resolve) => this.#wake = resolve);
      this.below.demand = true;
      await waited;
      this.below.demand = false;
    }
  }

  write(bytes: Uint8Array): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (error?: Error | null) => {
        // The TLS layer goes on taking bytes for a while when there is nothing below it any more.
        if (error || this.#gone) reject(error ?? new Error("the connection is closed"));
        else resolve();
      };
      if (this.#gone) settle();
      else this.socket.write(bytes, settle);
    });
  }

  get #gone(): boolean {
    return this.#closed || this.socket.destroyed || this.below.destroyed;
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#rest = undefined;
    this.#notify();
    // A peer that has not taken what was written would not take the end of the stream either.
    if (this.socket.destroyed || this.below.destroyed || this.socket.writableLength > 0) {
      this.socket.destroy();
      this.below.destroy();
      return;
    }
    const timer = setTimeout(() => this.below.destroy(), GOODBYE_MS);
    this.below.once("close", () => clearTimeout(timer));
    this.socket.destroySoon();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = undefined;
    wake?.();
  }
}
