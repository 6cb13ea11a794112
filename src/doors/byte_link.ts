/**
 * A stream of bytes in both directions, whatever carries it: TCP, a Unix socket, TLS or WebSocket. One
 * reader and one writer at a time.
 */
export interface ByteLink {
  /**
   * Bytes read into `buffer`, at least one; null at the end of the stream or once closed. Never rejects.
   * Nothing is taken from the peer while no read is pending, save what one read of the layer below
   * brought: a link that is not read makes its peer wait.
   */
  read(buffer: Uint8Array): Promise<number | null>;
  /**
   * Writes all of `bytes`, which stay as they are until it settles. Resolves once the system has taken
   * them, so that a peer that reads nothing keeps it pending. Rejects when the peer is gone.
   */
  write(bytes: Uint8Array): Promise<void>;
  /** Idempotent. Pending reads answer null, pending writes reject. */
  close(): void;
}
