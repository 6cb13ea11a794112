/** A connection of a load: packets in, bytes out, nothing kept of either. */
import { connectPacket, type ConnectWish, type Level } from "./packets.ts";

const READ_BYTES = 16 * 1024;
const CONNACK = 2;

/**
 * A packet as it lies in a buffer that the next read overwrites: the first byte, and where what follows
 * its Remaining Length begins and ends.
 */
export type OnPacket = (first: number, bytes: Uint8Array, at: number, end: number) => void;

export class BenchClient {
  sessionPresent = false;
  #buffer = new Uint8Array(READ_BYTES);
  #have = 0;
  #closed = false;

  private constructor(private readonly socket: Deno.TcpConn, readonly level: Level) {}

  /**
   * Connects, and returns once CONNACK is there.
   * @throws Error when the broker refuses or closes
   */
  static async open(port: number, wish: ConnectWish, hostname = "127.0.0.1"): Promise<BenchClient> {
    const socket = await Deno.connect({ hostname, port });
    socket.setNoDelay(true);
    const client = new BenchClient(socket, wish.level);
    await client.write(connectPacket(wish));
    let answered = false;
    // What a resumed session is sent right behind CONNACK stays in the buffer for `run`.
    while (!answered) {
      if (!await client.#read()) throw new Error("closed before CONNACK");
      answered = client.#connack();
    }
    return client;
  }

  #connack(): boolean {
    const bytes = this.#buffer;
    if (this.#have < 2 || this.#have < 2 + bytes[1]) return false;
    if (bytes[0] >> 4 !== CONNACK || bytes[3] !== 0) throw new Error(`CONNACK said ${bytes[3]}`);
    this.sessionPresent = bytes[2] === 1;
    this.#drop(2 + bytes[1]);
    return true;
  }

  async #read(): Promise<boolean> {
    if (this.#have === this.#buffer.length) {
      const larger = new Uint8Array(2 * this.#buffer.length);
      larger.set(this.#buffer);
      this.#buffer = larger;
    }
    try {
      const count = await this.socket.read(this.#buffer.subarray(this.#have));
      if (count === null) return false;
      this.#have += count;
      return true;
    } catch (error) {
      if (this.#closed) return false;
      throw error;
    }
  }

  #drop(count: number): void {
    this.#buffer.copyWithin(0, count, this.#have);
    this.#have -= count;
  }

  /**
   * Hands every packet to `onPacket` and calls `onBatch` after those of one read, until the connection
   * ends. Rejects when the broker ended it.
   */
  async run(onPacket: OnPacket, onBatch?: () => Promise<void> | void): Promise<void> {
    do {
      this.#drop(this.#packets(onPacket));
      await onBatch?.();
    } while (!this.#closed && await this.#read());
    if (!this.#closed) throw new Error("the broker closed the connection");
  }

  /** How many bytes were whole packets. */
  #packets(onPacket: OnPacket): number {
    const bytes = this.#buffer;
    let at = 0;
    while (at + 2 <= this.#have) {
      let length = 0;
      let body = at + 1;
      for (let shift = 0;; shift += 7) {
        if (body === this.#have) return at;
        const byte = bytes[body++];
        length |= (byte & 0x7f) << shift;
        if (byte < 0x80) break;
      }
      if (body + length > this.#have) return at;
      onPacket(bytes[at], bytes, body, body + length);
      at = body + length;
    }
    return at;
  }

  async write(bytes: Uint8Array): Promise<void> {
    try {
      for (let written = 0; written < bytes.length;) {
        written += await this.socket.write(bytes.subarray(written));
      }
    } catch (error) {
      if (!this.#closed) throw error;
    }
  }

  /** Cuts the connection without a word. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.socket.close();
  }
}
