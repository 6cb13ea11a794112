import type { ByteLink } from "./byte_link.ts";

/** A connection as the system accepted it: TCP or a Unix socket. */
export class ConnLink implements ByteLink {
  #closed = false;

  constructor(private readonly conn: Deno.Conn) {}

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
