import type { ByteLink } from "./byte_link.ts";

/**
 * Bytes of one peer after which the event loop has a turn. A read that finds bytes waiting resolves within
 * the turn it was asked in, so a peer that sends faster than it is read would be all that is ever served.
 */
const TURN_BYTES = 16 * 1024;

/** A connection as the system accepted it: TCP or a Unix socket. */
export class ConnLink implements ByteLink {
  #closed = false;
  /** Bytes read since the event loop last had its turn. */
  #sinceTurn = 0;
  readonly #count = (count: number | null) => {
    this.#sinceTurn += count ?? 0;
    return count;
  };

  constructor(private readonly conn: Deno.Conn) {}

  // Not an async function: what one keeps while it waits is half a kilobyte for each idle connection.
  read(buffer: Uint8Array): Promise<number | null> {
    if (this.#sinceTurn < TURN_BYTES) return this.conn.read(buffer).then(this.#count, ended);
    this.#sinceTurn = 0;
    return new Promise<void>((go) => void setImmediate(go)).then(() => this.read(buffer));
  }

  async write(bytes: Uint8Array): Promise<void> {
    let written = await this.conn.write(bytes);
    while (written < bytes.length) written += await this.conn.write(bytes.subarray(written));
  }

  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    try {
      this.conn.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }
}

/** Reset or closed: for the reader, the end of the stream either way. */
function ended(): null {
  return null;
}
