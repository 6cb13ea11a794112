/** An AMQP client that costs little: frames are made before they are sent, and only counted as they come. */
import * as amqp from "../../tests/amqp/support/amqp_bytes.ts";

const READ_BYTES = 256 * 1024;

export interface Delivered {
  /** Methods seen since the start, by `class << 16 | method`. */
  readonly ack: number;
  readonly deliver: number;
}

/** What a connection has heard. */
export class AmqpLoad implements Disposable {
  /** The highest confirm. */
  confirmed = 0;
  delivered = 0;
  /** Methods other than those, in order of arrival. */
  readonly others: number[] = [];
  #pending = new Uint8Array(0);
  #waiting: { readonly done: () => boolean; readonly resolve: () => void } | undefined;
  #ended = false;

  private constructor(private readonly socket: Deno.TcpConn) {}

  /** A connection with one channel open. */
  static async connect(port: number, user = "guest"): Promise<AmqpLoad> {
    const socket = await Deno.connect({ hostname: "127.0.0.1", port });
    socket.setNoDelay(true);
    const load = new AmqpLoad(socket);
    void load.#read();
    await load.send(amqp.HEADER);
    await load.until(() => load.#took(10, 10));
    await load.send(amqp.startOk({ user, password: user }));
    await load.until(() => load.#took(10, 30));
    await load.send(amqp.tuneOk(2047, 131_072, 0), amqp.open());
    await load.until(() => load.#took(10, 41));
    await load.call(amqp.channelOpen(1), 20, 11);
    return load;
  }

  async send(...parts: readonly Uint8Array[]): Promise<void> {
    for (const part of parts) {
      for (let sent = 0; sent < part.length;) {
        sent += await this.socket.write(part.subarray(sent));
      }
    }
  }

  /** Sends a method and waits for its answer. */
  async call(bytes: Uint8Array, classId: number, methodId: number): Promise<void> {
    await this.send(bytes);
    await this.until(() => this.#took(classId, methodId));
  }

  #took(classId: number, methodId: number): boolean {
    const at = this.others.indexOf(classId << 16 | methodId);
    if (at < 0) return false;
    this.others.splice(at, 1);
    return true;
  }

  /** Resolves once `done` is true, asked after everything that is read. */
  until(done: () => boolean): Promise<void> {
    if (done()) return Promise.resolve();
    if (this.#ended) return Promise.reject(new Error("the broker closed the connection"));
    return new Promise((resolve) => this.#waiting = { done, resolve });
  }

  async #read(): Promise<void> {
    const buffer = new Uint8Array(READ_BYTES);
    for (;;) {
      let count: number | null;
      try {
        count = await this.socket.read(buffer);
      } catch {
        count = null;
      }
      if (count === null) {
        this.#ended = true;
        return;
      }
      this.#take(buffer.subarray(0, count));
      const waiting = this.#waiting;
      if (waiting?.done()) {
        this.#waiting = undefined;
        waiting.resolve();
      }
    }
  }

  #take(read: Uint8Array): void {
    let bytes = read;
    if (this.#pending.length > 0) {
      bytes = amqp.join(this.#pending, read);
      this.#pending = new Uint8Array(0);
    }
    let at = 0;
    while (bytes.length - at >= 7) {
      const size = bytes[at + 3] << 24 | bytes[at + 4] << 16 | bytes[at + 5] << 8 | bytes[at + 6];
      if (bytes.length - at < size + 8) break;
      if (bytes[at] === 1) this.#method(bytes, at + 7);
      at += size + 8;
    }
    if (at < bytes.length) this.#pending = bytes.slice(at);
  }

  #method(bytes: Uint8Array, at: number): void {
    const id = bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3];
    if (id === (60 << 16 | 60)) this.delivered++;
    else if (id === (60 << 16 | 80)) {
      let tag = 0;
      for (let i = 4; i < 12; i++) tag = tag * 256 + bytes[at + i];
      this.confirmed = Math.max(this.confirmed, tag);
    } else if (id === (60 << 16 | 120) || id === (20 << 16 | 40) || id === (10 << 16 | 50)) {
      throw new Error(
        `the broker refused: ${new TextDecoder().decode(bytes.subarray(at, at + 200))}`,
      );
    } else this.others.push(id);
  }

  [Symbol.dispose](): void {
    try {
      this.socket.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }
}

/** `count` publishes to a queue, cut into writes of about 64 KiB. */
export function publishes(
  queue: string,
  count: number,
  persistent: boolean,
  bytes = 100,
): Uint8Array[] {
  const properties = persistent ? amqp.PERSISTENT : {};
  const one = amqp.publish(1, "", queue, new Uint8Array(bytes).fill(0x61), { properties });
  const perWrite = Math.max(1, Math.floor(64 * 1024 / one.length));
  const write = new Uint8Array(one.length * perWrite);
  for (let i = 0; i < perWrite; i++) write.set(one, i * one.length);
  const writes: Uint8Array[] = [];
  for (let left = count; left > 0; left -= perWrite) {
    writes.push(left >= perWrite ? write : write.subarray(0, left * one.length));
  }
  return writes;
}

/** The figure below which this share of `values` lies. */
export function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))];
}
