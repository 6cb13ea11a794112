/** Clients that keep their half of an exchange over the lives of a broker, as MQTT asks them to. */
import assert from "node:assert/strict";
import {
  encodePuback,
  encodePubcomp,
  encodePublish,
  encodePubrec,
  encodePubrel,
  join,
  type ServerPacket,
} from "../support/mqtt_bytes.ts";
import { type Received, Silence, WireClient } from "../support/wire.ts";
import { cutOff } from "./publisher.ts";

const SESSION_EXPIRY_S = 3_600;
const GLANCE_MS = 50;

/** Connects `clientId`, whose session must be there iff `known`; undefined: it may be. */
async function resumed(
  port: number,
  clientId: string,
  known: boolean | undefined,
): Promise<WireClient> {
  const client = await WireClient.open(port);
  await client.connect({
    clientId,
    cleanStart: false,
    properties: { sessionExpiry: SESSION_EXPIRY_S },
  });
  const { sessionPresent } = await client.expectConnack();
  if (known !== undefined) assert.equal(sessionPresent, known, `Session Present of ${clientId}`);
  return client;
}

/** What came within a short while, perhaps nothing. */
async function some(client: WireClient): Promise<ServerPacket[]> {
  try {
    return await client.some(GLANCE_MS);
  } catch (error) {
    if (error instanceof Silence) return [];
    throw error;
  }
}

/** How far a subscriber goes with what it gets: "half" is PUBREC and no PUBCOMP. */
export type Zeal = "all" | "half" | "nothing";

/** One durable session and what reached its application, each QoS 2 exchange once. */
export class Subscriber {
  /** By payload, how often it reached the application, in the order of the first time. */
  readonly got = new Map<string, number>();
  /** QoS 2 identifiers whose PUBLISH was taken and that were not released yet. */
  readonly #taken = new Set<number>();
  #client: WireClient | undefined;
  #known = false;
  #stopped = false;
  #work: Promise<void> = Promise.resolve();

  constructor(
    readonly clientId: string,
    private readonly filter: string,
    private readonly qos: number,
  ) {}

  async connect(port: number): Promise<void> {
    const client = this.#client = await resumed(port, this.clientId, this.#known);
    if (this.#known) return;
    await client.subscribe({ subscriptions: [{ filter: this.filter, qos: this.qos }] });
    await client.expectSuback(1, [this.qos]);
    this.#known = true;
  }

  /** Reads until the connection dies or `stop`. */
  read(zeal: Zeal): void {
    this.#stopped = false;
    this.#work = this.#readOn(this.#client!, zeal);
    this.#work.catch(() => {}); // Heard of in `done`.
  }

  stop(): void {
    this.#stopped = true;
  }

  async done(): Promise<void> {
    await this.#work;
    this.#client?.close();
    this.#client = undefined;
  }

  async #readOn(client: WireClient, zeal: Zeal): Promise<void> {
    try {
      while (!this.#stopped) {
        const packets = await some(client);
        const answers = packets.flatMap((packet) => this.#answer(packet, zeal));
        await client.send(join(...answers));
      }
    } catch (error) {
      if (!cutOff(error)) throw error;
    }
  }

  #answer(packet: ServerPacket, zeal: Zeal): Uint8Array[] {
    if (packet.type === "publish") return this.#take(packet, zeal);
    assert.equal(packet.type, "pubrel");
    const { packetId } = packet as Received<"pubrel">;
    const known = this.#taken.delete(packetId);
    return zeal === "all" ? [encodePubcomp({ packetId, reasonCode: known ? 0 : 0x92 })] : [];
  }

  #take(packet: Received<"publish">, zeal: Zeal): Uint8Array[] {
    const { packetId, qos } = packet;
    assert.equal(qos, this.qos);
    if (qos === 1 || !this.#taken.has(packetId)) {
      const payload = new TextDecoder().decode(packet.payload);
      this.got.set(payload, (this.got.get(payload) ?? 0) + 1);
    }
    if (qos === 2) this.#taken.add(packetId);
    if (zeal === "nothing") return [];
    return [qos === 1 ? encodePuback({ packetId }) : encodePubrec({ packetId })];
  }
}

interface Exchange {
  readonly sequence: number;
  received: boolean;
}

/** Publishes numbers at QoS 2, each until it is complete, over any number of connections. */
export class ExactlyOncePublisher {
  /** Numbers given out; below the open ones they are complete. */
  sent = 0;
  completed = 0;
  /** By packet identifier, in the order of their publishes. */
  readonly #open = new Map<number, Exchange>();
  #packetId = 0;
  /** Undefined: a CONNECT was sent, and the kill came before its answer. */
  #known: boolean | undefined = false;
  #stopped = false;

  constructor(readonly clientId: string, private readonly topic: string) {}

  payload(sequence: number): string {
    return `${this.clientId}:${sequence}`;
  }

  /** Goes on with what is open, then publishes with `window` out, until the connection dies or `stop`. */
  async run(port: number, window: number): Promise<void> {
    this.#stopped = false;
    try {
      const known = this.#known;
      this.#known ||= undefined;
      using client = await resumed(port, this.clientId, known);
      this.#known = true;
      const again = [...this.#open].map(([packetId, { sequence, received }]) =>
        received ? encodePubrel({ packetId }) : this.#encode(packetId, sequence, true)
      );
      await client.send(join(...again));
      do {
        await client.send(join(...this.#next(window)));
        const answers = (await client.some()).flatMap((packet) => this.#answer(packet));
        await client.send(join(...answers));
      } while (!this.#stopped || this.#open.size > 0);
    } catch (error) {
      if (!cutOff(error)) throw error;
    }
  }

  /** No further numbers; `run` ends when all that are out are complete. */
  stop(): void {
    this.#stopped = true;
  }

  #next(window: number): Uint8Array[] {
    const packets: Uint8Array[] = [];
    while (!this.#stopped && this.#open.size < window) {
      const packetId = this.#packetId = this.#packetId % 60_000 + 1;
      const sequence = this.sent++;
      this.#open.set(packetId, { sequence, received: false });
      packets.push(this.#encode(packetId, sequence, false));
    }
    return packets;
  }

  #encode(packetId: number, sequence: number, dup: boolean): Uint8Array {
    return encodePublish({
      topic: this.topic,
      payload: this.payload(sequence),
      qos: 2,
      packetId,
      dup,
    });
  }

  #answer(packet: ServerPacket): Uint8Array[] {
    if (packet.type === "pubrec") {
      assert.equal(packet.reasonCode, 0);
      const exchange = this.#open.get(packet.packetId);
      assert.ok(exchange !== undefined, "a PUBREC of nothing open");
      exchange.received = true;
      return [encodePubrel({ packetId: packet.packetId })];
    }
    assert.equal(packet.type, "pubcomp");
    const { packetId, reasonCode } = packet as Received<"pubcomp">;
    // 0x92: released before the kill.
    assert.ok(reasonCode === 0 || reasonCode === 0x92, `PUBCOMP ${reasonCode}`);
    assert.ok(this.#open.get(packetId)?.received, "a PUBCOMP before its PUBREC");
    this.#open.delete(packetId);
    this.completed++;
    return [];
  }
}
