/**
 * An AMQP client that speaks bytes, so that a test is the exchange and nothing else. It reads only when
 * a test asks: one that asks for nothing is a client that stopped reading.
 */
import assert from "node:assert/strict";
import { ANSWER_MS, within } from "../../support/wait.ts";
import * as amqp from "./amqp_bytes.ts";
import type { Frame, ServerMethod } from "./amqp_bytes.ts";

const READ_BYTES = 64 * 1024;

/** A method of the server with the content that came with it. */
export interface Received extends ServerMethod {
  /** Of deliver, get-ok and return. */
  readonly body?: Uint8Array;
  /** Flags and list, as they came. */
  readonly properties?: Uint8Array;
}

const WITH_CONTENT = new Set(["deliver", "get-ok", "return"]);

export class ConnectionEnded extends Error {}

export interface Connect extends amqp.StartOk {
  readonly channelMax?: number;
  readonly frameMax?: number;
  readonly heartbeat?: number;
  readonly vhost?: string;
  /** Opened too; 1 by default. */
  readonly channels?: number;
}

export class AmqpClient implements Disposable {
  #unread = new Uint8Array(0);
  /** Methods whose content is not complete, by channel. */
  readonly #contents = new Map<
    number,
    { method: ServerMethod; header?: Uint8Array; parts: Uint8Array[] }
  >();
  #received: (Received | "heartbeat")[] = [];
  /** A read that outlived the wait for it; the next wait takes it over. */
  #reading: Promise<void> | undefined;
  #closed = false;
  /** What comes is no frames. */
  #raw = false;
  heartbeats = 0;

  private constructor(private readonly socket: Deno.Conn) {}

  /** Over a connection that was made otherwise, such as TLS. */
  static over(connection: Deno.Conn): AmqpClient {
    return new AmqpClient(connection);
  }

  /** A socket, and nothing sent on it yet. */
  static async open(port: number): Promise<AmqpClient> {
    const socket = await Deno.connect({ hostname: "127.0.0.1", port });
    socket.setNoDelay(true);
    return new AmqpClient(socket);
  }

  /** A running connection with channels 1 to `channels` open. */
  static async connected(port: number, options: Connect = {}): Promise<AmqpClient> {
    const client = await AmqpClient.open(port);
    await client.handshake(options);
    for (let channel = 1; channel <= (options.channels ?? 1); channel++) {
      await client.openChannel(channel);
    }
    return client;
  }

  async handshake(options: Connect = {}): Promise<void> {
    await this.send(amqp.HEADER);
    await this.expect("start");
    await this.send(amqp.startOk(options));
    await this.expect("tune");
    const { channelMax = 0, frameMax = 0, heartbeat = 0, vhost = "/" } = options;
    await this.send(amqp.tuneOk(channelMax, frameMax, heartbeat), amqp.open(vhost));
    await this.expect("open-ok");
  }

  async openChannel(channel: number): Promise<void> {
    await this.send(amqp.channelOpen(channel));
    await this.expect("channel.open-ok");
  }

  // ------------------------------------------------------------------------------------------ sending

  async send(...parts: readonly Uint8Array[]): Promise<void> {
    const bytes = amqp.join(...parts);
    for (let sent = 0; sent < bytes.length;) sent += await this.socket.write(bytes.subarray(sent));
  }

  /** One byte a write. */
  async trickle(...parts: readonly Uint8Array[]): Promise<void> {
    for (const byte of amqp.join(...parts)) await this.send(Uint8Array.of(byte));
  }

  /** Sends a method and expects its answer. */
  async call(bytes: Uint8Array, answer: string): Promise<Received> {
    await this.send(bytes);
    return await this.expect(answer);
  }

  async declare(queue: string, options: amqp.QueueDeclare = {}, channel = 1): Promise<Received> {
    return await this.call(amqp.queueDeclare(channel, queue, options), "queue.declare-ok");
  }

  async get(queue: string, noAck = false, channel = 1): Promise<Received> {
    await this.send(amqp.get(channel, queue, noAck));
    const received = await this.next();
    assert.ok(["get-ok", "get-empty"].includes(received.name), `got ${describe(received)}`);
    return received;
  }

  /** Every body that basic.get gives, without acknowledgement. */
  async drain(queue: string, channel = 1): Promise<string[]> {
    const bodies: string[] = [];
    for (;;) {
      const received = await this.get(queue, true, channel);
      if (received.name === "get-empty") return bodies;
      bodies.push(text(received));
    }
  }

  // ---------------------------------------------------------------------------------------- expecting

  /** The next method, with its content. @throws ConnectionEnded */
  async next(timeoutMs = ANSWER_MS): Promise<Received> {
    for (;;) {
      const received = this.#received.shift();
      if (received !== undefined && received !== "heartbeat") return received;
      if (received === "heartbeat") continue;
      await within("a method of the server", this.#more(), timeoutMs);
    }
  }

  async expect(name: string): Promise<Received> {
    const received = await this.next();
    assert.equal(received.name, name, describe(received));
    return received;
  }

  /** Deliveries until `count` came. */
  async deliveries(count: number): Promise<Received[]> {
    const all: Received[] = [];
    while (all.length < count) all.push(await this.expect("deliver"));
    return all;
  }

  /** An exception of a channel: answered, so that its number is free again. */
  async expectChannelClose(code: number, channel = 1): Promise<Received> {
    const closed = await this.expect("channel.close");
    assert.equal(closed.code, code, describe(closed));
    assert.equal(closed.channel, channel);
    await this.send(amqp.channelCloseOk(channel));
    return closed;
  }

  /** An exception of the connection: answered, and the end of the stream. */
  async expectClose(code: number): Promise<Received> {
    const closed = await this.expect("close");
    assert.equal(closed.code, code, describe(closed));
    await this.send(amqp.closeOk);
    await this.expectEnd();
    return closed;
  }

  async expectEnd(): Promise<void> {
    await assert.rejects(async () => {
      for (;;) await this.next();
    }, ConnectionEnded);
  }

  /** Nothing but heartbeats for `ms`. */
  async expectSilence(ms = 100): Promise<void> {
    await assert.rejects(this.next(ms), /in vain/);
  }

  /** The eight bytes that answer another protocol. */
  async expectHeader(): Promise<void> {
    this.#raw = true;
    while (this.#unread.length < 8) await this.#more();
    assert.deepEqual(this.#unread.slice(0, 8), amqp.HEADER);
    this.#unread = this.#unread.slice(8);
  }

  /** Reads once; the end of the stream is an error. */
  #more(): Promise<void> {
    this.#reading ??= this.#readMore().finally(() => this.#reading = undefined);
    return this.#reading;
  }

  async #readMore(): Promise<void> {
    const bytes = await this.#readOnce();
    if (bytes === undefined) throw new ConnectionEnded("the broker closed the connection");
    this.#unread = amqp.join(this.#unread, bytes);
    if (this.#raw) return;
    const { frames, taken } = amqp.splitFrames(this.#unread);
    this.#unread = this.#unread.slice(taken);
    for (const frame of frames) this.#onFrame(frame);
  }

  async #readOnce(): Promise<Uint8Array | undefined> {
    const buffer = new Uint8Array(READ_BYTES);
    try {
      const count = await this.socket.read(buffer);
      return count === null ? undefined : buffer.subarray(0, count);
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionReset) return undefined;
      throw error;
    }
  }

  #onFrame(frame: Frame): void {
    const { type, channel, payload } = frame;
    if (type === 8) {
      this.heartbeats++;
      this.#received.push("heartbeat");
      return;
    }
    if (type === 1) {
      const method = amqp.parseMethod(frame);
      if (WITH_CONTENT.has(method.name)) this.#contents.set(channel, { method, parts: [] });
      else this.#received.push(method);
      return;
    }
    const content = this.#contents.get(channel);
    assert.ok(content !== undefined, "content of the server without a method");
    if (type === 2) content.header = payload;
    else content.parts.push(payload);
    const reader = new amqp.ArgumentReader(content.header!);
    assert.deepEqual([reader.u16(), reader.u16()], [60, 0]);
    const size = reader.u64();
    const body = amqp.join(...content.parts);
    if (body.length < size) return;
    assert.equal(body.length, size);
    this.#contents.delete(channel);
    this.#received.push({ ...content.method, body, properties: reader.rest() });
  }

  // ------------------------------------------------------------------------------------------- ending

  /** connection.close, and the wait for its answer and the end. */
  async close(): Promise<void> {
    await this.send(amqp.close());
    for (;;) {
      const { name } = await this.next();
      if (name === "close-ok") break;
    }
    await this.expectEnd();
  }

  /** Cuts the socket without a word. */
  [Symbol.dispose](): void {
    if (this.#closed) return;
    this.#closed = true;
    try {
      this.socket.close();
    } catch (error) {
      if (!(error instanceof Deno.errors.BadResource)) throw error;
    }
  }

  cut(): void {
    this[Symbol.dispose]();
  }
}

export function text({ body }: Received): string {
  return new TextDecoder().decode(body);
}

function describe(received: Received): string {
  const { body, properties: _, ...rest } = received;
  return JSON.stringify(body === undefined ? rest : { ...rest, body: text(received) });
}
