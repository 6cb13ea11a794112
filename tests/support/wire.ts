/**
 * A client that speaks bytes, so that a test is the exchange and nothing else. It reads only when a
 * test asks for a packet: one that asks for nothing is a client that stopped reading.
 *
 * ```ts
 * using client = await WireClient.connected(broker.port, { clientId: "a" });
 * await client.publish({ topic: "t", payload: "x", qos: 1, packetId: 7 });
 * await client.expectPuback(7);
 * ```
 */
import assert from "node:assert/strict";
import {
  type ConnectOptions,
  encodeConnect,
  encodeDisconnect,
  encodePingreq,
  encodePuback,
  encodePubcomp,
  encodePublish,
  encodePubrec,
  encodePubrel,
  encodeSubscribe,
  encodeUnsubscribe,
  type Level,
  parseServerPacket,
  type PublishOptions,
  type ServerPacket,
  type SubscribeOptions,
  type UnsubscribeOptions,
} from "./mqtt_bytes.ts";
import { ANSWER_MS, within } from "./wait.ts";

const READ_BYTES = 64 * 1024;

export type Received<T extends ServerPacket["type"]> = Extract<ServerPacket, { type: T }>;

/** The broker ended the stream: no further packet comes. */
export class ConnectionEnded extends Error {
  constructor() {
    super("the broker closed the connection");
    this.name = "ConnectionEnded";
  }
}

/** What carries a client's bytes: a TCP connection, or one of another kind. */
export type Carriage = Pick<Deno.Conn, "read" | "write" | "close">;

export class WireClient implements Disposable {
  #unread = new Uint8Array(0);
  /** A read that outlived the wait for it; the next wait takes it over. */
  #reading: Promise<Uint8Array | undefined> | undefined;
  #closed = false;

  private constructor(private readonly socket: Carriage, public level: Level) {}

  /** A socket, and nothing sent on it yet. */
  static async open(port: number, level: Level = 5, hostname = "127.0.0.1"): Promise<WireClient> {
    const socket = await Deno.connect({ hostname, port });
    socket.setNoDelay(true);
    return new WireClient(socket, level);
  }

  /** A client over a connection of another kind, with nothing sent on it yet. */
  static over(socket: Carriage, level: Level = 5): WireClient {
    return new WireClient(socket, level);
  }

  /** A connection that was admitted; `level` is taken from the options, as are all the rest. */
  static async connected(port: number, options: ConnectOptions = {}): Promise<WireClient> {
    const client = await WireClient.open(port, options.level ?? 5);
    await client.connect(options);
    await client.expectConnack();
    return client;
  }

  // ------------------------------------------------------------------------------------ sending

  /** Sends bytes as they are, whole. */
  async send(bytes: Uint8Array): Promise<void> {
    for (let sent = 0; sent < bytes.length;) sent += await this.socket.write(bytes.subarray(sent));
  }

  connect(options: ConnectOptions = {}): Promise<void> {
    this.level = options.level ?? this.level;
    return this.send(encodeConnect({ level: this.level, ...options }));
  }

  publish(options: PublishOptions): Promise<void> {
    return this.send(encodePublish({ level: this.level, ...options }));
  }

  puback(packetId: number, reasonCode?: number): Promise<void> {
    return this.send(encodePuback({ packetId, reasonCode }));
  }

  pubrec(packetId: number, reasonCode?: number): Promise<void> {
    return this.send(encodePubrec({ packetId, reasonCode }));
  }

  pubrel(packetId: number, reasonCode?: number): Promise<void> {
    return this.send(encodePubrel({ packetId, reasonCode }));
  }

  pubcomp(packetId: number, reasonCode?: number): Promise<void> {
    return this.send(encodePubcomp({ packetId, reasonCode }));
  }

  subscribe(options: SubscribeOptions): Promise<void> {
    return this.send(encodeSubscribe({ level: this.level, ...options }));
  }

  unsubscribe(options: UnsubscribeOptions): Promise<void> {
    return this.send(encodeUnsubscribe({ level: this.level, ...options }));
  }

  pingreq(): Promise<void> {
    return this.send(encodePingreq());
  }

  /** DISCONNECT, and the wait until the broker closed in answer to it. */
  async disconnect(): Promise<void> {
    await this.send(encodeDisconnect());
    await this.expectClose();
  }

  // ---------------------------------------------------------------------------------- expecting

  /**
   * The next packet, whatever it is.
   * @throws ConnectionEnded when the stream ends first; Silence when nothing comes in time
   */
  async next(timeoutMs = ANSWER_MS): Promise<ServerPacket> {
    const packet = await this.#next(timeoutMs, "a packet");
    if (packet === undefined) throw new ConnectionEnded();
    return packet;
  }

  /**
   * Every packet of one read, at least one: for clients that keep a broker busy.
   * @throws ConnectionEnded and Silence, as `next`
   */
  async some(timeoutMs?: number): Promise<ServerPacket[]> {
    const packets = [await this.next(timeoutMs)];
    for (;;) {
      const parsed = parseServerPacket(this.#unread, this.level);
      if (parsed === undefined) return packets;
      this.#unread = this.#unread.subarray(parsed.size);
      packets.push(parsed.packet);
    }
  }

  async expect<T extends ServerPacket["type"]>(type: T, timeoutMs?: number): Promise<Received<T>> {
    const packet = await this.next(timeoutMs);
    assert.equal(packet.type, type, `got ${shown(packet)}`);
    return packet as Received<T>;
  }

  async expectConnack(reasonCode = 0, timeoutMs?: number): Promise<Received<"connack">> {
    const packet = await this.expect("connack", timeoutMs);
    assert.equal(packet.reasonCode, reasonCode, `got ${shown(packet)}`);
    return packet;
  }

  expectPuback(packetId: number, reasonCode = 0): Promise<Received<"puback">> {
    return this.#acknowledged("puback", packetId, reasonCode);
  }

  expectPubrec(packetId: number, reasonCode = 0): Promise<Received<"pubrec">> {
    return this.#acknowledged("pubrec", packetId, reasonCode);
  }

  expectPubrel(packetId: number, reasonCode = 0): Promise<Received<"pubrel">> {
    return this.#acknowledged("pubrel", packetId, reasonCode);
  }

  expectPubcomp(packetId: number, reasonCode = 0): Promise<Received<"pubcomp">> {
    return this.#acknowledged("pubcomp", packetId, reasonCode);
  }

  /** SUBACK with exactly these reason codes. */
  async expectSuback(packetId: number, reasonCodes: number[]): Promise<Received<"suback">> {
    const packet = await this.expect("suback");
    assert.deepEqual([packet.packetId, packet.reasonCodes], [packetId, reasonCodes], shown(packet));
    return packet;
  }

  /** UNSUBACK; at level 4 it has no reason codes. */
  async expectUnsuback(packetId: number, reasonCodes?: number[]): Promise<Received<"unsuback">> {
    const packet = await this.expect("unsuback");
    assert.equal(packet.packetId, packetId, shown(packet));
    if (reasonCodes !== undefined) assert.deepEqual(packet.reasonCodes, reasonCodes, shown(packet));
    return packet;
  }

  /** The next packet is a PUBLISH; with a topic and a payload when they are given. */
  async expectPublish(
    topic?: string,
    payload?: string | Uint8Array,
    timeoutMs?: number,
  ): Promise<Received<"publish">> {
    const packet = await this.expect("publish", timeoutMs);
    if (topic !== undefined) assert.equal(packet.topic, topic, shown(packet));
    if (typeof payload === "string") {
      assert.equal(new TextDecoder().decode(packet.payload), payload, shown(packet));
    } else if (payload !== undefined) {
      assert.deepEqual([...packet.payload], [...payload], shown(packet));
    }
    return packet;
  }

  async expectPingresp(): Promise<void> {
    await this.expect("pingresp");
  }

  /**
   * The stream ends: after a DISCONNECT with this code when one is given, without any packet
   * otherwise. MQTT 3.1.1 has no DISCONNECT from a server, so there the code must be left out.
   */
  async expectClose(reasonCode?: number, timeoutMs = ANSWER_MS): Promise<void> {
    if (reasonCode !== undefined) {
      const packet = await this.expect("disconnect", timeoutMs);
      assert.equal(packet.reasonCode, reasonCode, `got ${shown(packet)}`);
    }
    const packet = await this.#next(timeoutMs, "the close");
    assert.equal(packet, undefined, `not closed, got ${packet && shown(packet)}`);
    this.close();
  }

  /** Nothing comes for so long. */
  async expectSilence(ms: number): Promise<void> {
    let packet: ServerPacket | undefined;
    try {
      packet = await this.#next(ms, "silence");
    } catch (error) {
      if (error instanceof Silence) return;
      throw error;
    }
    assert.fail(packet === undefined ? "the connection was closed" : `got ${shown(packet)}`);
  }

  // ------------------------------------------------------------------------------------ closing

  /** Cut by the test. */
  get closed(): boolean {
    return this.#closed;
  }

  /** Cuts the connection without a word. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.socket.close();
  }

  [Symbol.dispose](): void {
    this.close();
  }

  async #acknowledged<T extends "puback" | "pubrec" | "pubrel" | "pubcomp">(
    type: T,
    packetId: number,
    reasonCode: number,
  ): Promise<Received<T>> {
    const packet = await this.expect(type);
    const got = packet as Received<"puback">;
    assert.deepEqual([got.packetId, got.reasonCode], [packetId, reasonCode], shown(packet));
    return packet;
  }

  /** Undefined at the end of the stream. @throws Silence when neither comes in time */
  async #next(timeoutMs: number, what: string): Promise<ServerPacket | undefined> {
    const end = performance.now() + timeoutMs;
    for (;;) {
      const parsed = parseServerPacket(this.#unread, this.level);
      if (parsed !== undefined) {
        this.#unread = this.#unread.subarray(parsed.size);
        return parsed.packet;
      }
      this.#reading ??= this.#read();
      let bytes: Uint8Array | undefined;
      try {
        bytes = await within(what, this.#reading, Math.max(1, end - performance.now()));
      } catch (error) {
        throw new Silence((error as Error).message);
      }
      this.#reading = undefined;
      if (bytes === undefined) {
        assert.equal(this.#unread.length, 0, "the stream ended inside a packet");
        return undefined;
      }
      const joined = new Uint8Array(this.#unread.length + bytes.length);
      joined.set(this.#unread);
      joined.set(bytes, this.#unread.length);
      this.#unread = joined;
    }
  }

  /** Undefined at the end of the stream, whether it ended with FIN or with RST. Never rejects. */
  async #read(): Promise<Uint8Array | undefined> {
    const buffer = new Uint8Array(READ_BYTES);
    try {
      const read = await this.socket.read(buffer);
      return read === null ? undefined : buffer.subarray(0, read);
    } catch {
      return undefined;
    }
  }
}

/** Neither a packet nor the end of the stream came in time. */
export class Silence extends Error {}

/** A packet in one line, for the message of a failed assertion. */
function shown(packet: ServerPacket): string {
  return JSON.stringify(packet, (_, value) => {
    if (!(value instanceof Uint8Array)) return value;
    const hex = [...value.subarray(0, 32)].map((byte) => byte.toString(16).padStart(2, "0"));
    return hex.join(" ") + (value.length > 32 ? " ..." : "");
  });
}
