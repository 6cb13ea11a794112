import type { ByteLink } from "../../src/doors/byte_link.ts";

/** A link without a socket: a test gives what is read and sees what is written. */
export class Pipe implements ByteLink {
  readonly written: Uint8Array[] = [];
  closed = false;
  /** Where writes wait; undefined lets them through. */
  held: Promise<void> | undefined;
  #incoming: Uint8Array[] = [];
  #ended = false;
  #wake: (() => void) | undefined;

  /** What the peer sends; each piece arrives on its own. */
  receive(pieces: Uint8Array | readonly Uint8Array[]): void {
    for (const piece of [pieces].flat()) if (piece.length > 0) this.#incoming.push(piece);
    this.#wake?.();
  }

  /** The peer sends no more. */
  end(): void {
    this.#ended = true;
    this.#wake?.();
  }

  async read(buffer: Uint8Array): Promise<number | null> {
    while (this.#incoming.length === 0) {
      if (this.closed || this.#ended) return null;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    const piece = this.#incoming.shift()!;
    const count = Math.min(piece.length, buffer.length);
    buffer.set(piece.subarray(0, count));
    if (count < piece.length) this.#incoming.unshift(piece.subarray(count));
    return count;
  }

  async write(bytes: Uint8Array): Promise<void> {
    await this.held;
    if (this.closed) throw new Error("the pipe is closed");
    this.written.push(bytes.slice());
  }

  close(): void {
    this.closed = true;
    this.#incoming = [];
    this.#wake?.();
  }
}

/** `bytes` in pieces of at most `size`. */
export function pieces(bytes: Uint8Array, size: number): Uint8Array[] {
  const cut: Uint8Array[] = [];
  for (let at = 0; at < bytes.length; at += size) cut.push(bytes.slice(at, at + size));
  return cut;
}
