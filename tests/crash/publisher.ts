import assert from "node:assert/strict";
import { encodePublish, join } from "../support/mqtt_bytes.ts";
import { ConnectionEnded, WireClient } from "../support/wire.ts";

/** Identifiers in use at one time stay apart as long as the window is far below this. */
const IDENTIFIERS = 60_000;
const PADDING = " ".repeat(80);

/**
 * Numbers what it publishes, over any number of connections, and never sends a number twice: what was
 * cut off stays cut off. So the store may hold each number once, and must if it was acknowledged.
 */
export class Publisher {
  readonly topic: string;
  /** Numbers of the present connection: from `first` up to, not including, `sent`. */
  first = 0;
  sent = 0;
  /** Those below were acknowledged: PUBACKs come in the order of their publishes. */
  acknowledged = 0;
  /** How many were acknowledged over all connections. */
  total = 0;
  #stopped = false;

  constructor(readonly number: number) {
    this.topic = `crash/${number}`;
  }

  payload(sequence: number): string {
    return `${this.number}:${sequence}${PADDING}`;
  }

  /** Which publisher and which number a payload is. */
  static read(payload: string): { readonly publisher: number; readonly sequence: number } {
    const [publisher, sequence] = payload.trimEnd().split(":").map(Number);
    return { publisher, sequence };
  }

  /** Publishes with `window` out until the connection dies or `stop` and the last PUBACK. */
  async run(port: number, window: number): Promise<void> {
    this.first = this.acknowledged = this.sent;
    this.#stopped = false;
    try {
      using client = await WireClient.connected(port, { clientId: `publisher-${this.number}` });
      await this.#send(client, window);
      while (this.acknowledged < this.sent) {
        const packets = await client.some();
        for (const packet of packets) {
          assert.equal(packet.type, "puback");
          if (packet.type !== "puback") return;
          assert.equal(packet.packetId, this.#identifier(this.acknowledged), "PUBACK out of order");
          assert.equal(packet.reasonCode, 0);
          this.acknowledged++;
          this.total++;
        }
        if (!this.#stopped) await this.#send(client, packets.length);
      }
    } catch (error) {
      if (!cutOff(error)) throw error;
    }
  }

  /** No further publishes; `run` ends when all that are out are acknowledged. */
  stop(): void {
    this.#stopped = true;
  }

  #identifier(sequence: number): number {
    return 1 + sequence % IDENTIFIERS;
  }

  async #send(client: WireClient, count: number): Promise<void> {
    const packets = [];
    for (let i = 0; i < count; i++) {
      const sequence = this.sent++;
      packets.push(encodePublish({
        topic: this.topic,
        payload: this.payload(sequence),
        qos: 1,
        packetId: this.#identifier(sequence),
      }));
    }
    await client.send(join(...packets));
  }
}

/** What a client sees of a broker that is killed, at whatever point. */
export function cutOff(error: unknown): boolean {
  return error instanceof ConnectionEnded ||
    error instanceof Deno.errors.ConnectionRefused ||
    error instanceof Deno.errors.ConnectionReset ||
    error instanceof Deno.errors.BrokenPipe;
}
