/**
 * A stream of bytes in both directions, whatever carries it: TCP today; TLS, WebSocket and unix
 * sockets are others of the kind. One reader and one writer at a time.
 */
export interface ByteLink {
  /** Peer address as logs print it. */
  readonly address: string;
  /** Bytes read into `buffer`; null at the end of the stream or once closed. Never rejects. */
  read(buffer: Uint8Array): Promise<number | null>;
  /** Writes all of `bytes`. Rejects when the peer is gone. */
  write(bytes: Uint8Array): Promise<void>;
  /** Idempotent. Pending reads answer null, pending writes reject. */
  close(): void;
}

/** A plain TCP connection. */
export class TcpLink implements ByteLink {
  readonly address: string;
  #closed = false;

  constructor(private readonly conn: Deno.TcpConn) {
    const { hostname, port } = conn.remoteAddr;
    this.address = hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
    conn.setNoDelay(true);
  }

  async read(buffer: Uint8Array): Promise<number | null> {
    try {
      return await this.conn.read(buffer);
    } catch {
      // Reset or closed: for the reader, the end of the stream either way.
      return null;
    }
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
