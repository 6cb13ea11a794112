import assert from "node:assert/strict";
import { encodePuback, join, type ServerPacket } from "../support/mqtt_bytes.ts";
import { type Received, Silence, WireClient } from "../support/wire.ts";
import { cutOff, Publisher } from "./publisher.ts";

/** What the reader acknowledges: everything, everything but one record, or nothing. */
export type Manner = "all" | "all but one" | "nothing";

const SESSION_EXPIRY_S = 3600;
const WINDOW = 200;
const GLANCE_MS = 50;

export interface Delivered {
  readonly messageId: string;
  readonly publisher: number;
  readonly sequence: number;
}

/**
 * A durable consumer of the channel over many lives of the broker. Knows by itself where it may be
 * resumed: never past the lowest record whose PUBACK it did not send since it was last resumed. (What
 * it acknowledged in an earlier life, and the broker had not stored, it is sent again.)
 */
export class DurableReader {
  /** By offset: what came under it since `forget`. */
  readonly delivered = new Map<number, Delivered>();
  readonly #acknowledged = new Set<number>();
  #lowest = 1;
  #stopped = false;
  #client: WireClient | undefined;
  #work: Promise<void> = Promise.resolve();

  constructor(readonly clientId: string, private readonly filter: string) {}

  /** Lowest offset not acknowledged. */
  get lowestUnacknowledged(): number {
    while (this.#acknowledged.delete(this.#lowest)) this.#lowest++;
    return this.#lowest;
  }

  /**
   * Connects; the session must be there iff `known`. A new one subscribes, a known one is served
   * without asking.
   */
  async connect(port: number, known: boolean): Promise<void> {
    const client = await WireClient.open(port);
    await client.connect({
      clientId: this.clientId,
      cleanStart: false,
      properties: { sessionExpiry: SESSION_EXPIRY_S, receiveMaximum: WINDOW },
    });
    const connack = await client.expectConnack();
    assert.equal(connack.sessionPresent, known, "Session Present");
    if (!known) {
      await client.subscribe({ packetId: 1, subscriptions: [{ filter: this.filter, qos: 1 }] });
      await client.expectSuback(1, [1]);
    }
    this.#client = client;
  }

  /**
   * Reads until the connection dies, `halt`, or the record `last`. The first record must be the one at
   * `from`, each further one the next.
   */
  read(from: number, manner: Manner, last = Infinity): void {
    this.#stopped = false;
    this.#lowest = from;
    this.#acknowledged.clear();
    this.#work = this.#readOn(from, manner, last);
    // Heard of in `done`, which may be waited for only later.
    this.#work.catch(() => {});
  }

  /** Waits for what `read` started. */
  async done(): Promise<void> {
    await this.#work;
  }

  /** Deliveries that were checked need not be kept. */
  forget(): void {
    this.delivered.clear();
  }

  /** No further PUBACK from now on; the connection stays. */
  halt(): void {
    this.#stopped = true;
  }

  close(): void {
    this.#client?.close();
    this.#client = undefined;
  }

  async #readOn(from: number, manner: Manner, last: number): Promise<void> {
    const client = this.#client!;
    let next = from;
    /** In this life of the broker the record that stays unacknowledged, under "all but one". */
    let held = -1;
    try {
      while (!this.#stopped && next <= last) {
        const acknowledgements: Uint8Array[] = [];
        const offsets: number[] = [];
        for (const packet of await some(client)) {
          assert.equal(packet.type, "publish");
          if (packet.type !== "publish") return;
          const offset = this.#take(packet);
          assert.equal(offset, next, next === from ? "resumed at" : "a gap in the replay");
          next++;
          if (manner === "nothing") continue;
          if (manner === "all but one" && held < 0 && offset >= from + WINDOW / 2) held = offset;
          if (offset === held) continue;
          acknowledgements.push(encodePuback({ packetId: packet.packetId }));
          offsets.push(offset);
        }
        // Counted first: a PUBACK cut off on its way only makes the bound looser than it could be.
        for (const offset of offsets) {
          if (offset >= this.lowestUnacknowledged) this.#acknowledged.add(offset);
        }
        await client.send(join(...acknowledgements));
      }
    } catch (error) {
      if (!cutOff(error)) throw error;
    }
  }

  #take(packet: Received<"publish">): number {
    const label = (name: string) => {
      const values = packet.properties.userProperties?.filter(([key]) => key === name) ?? [];
      assert.equal(values.length, 1, `a delivery carries ${name} once`);
      return values[0][1];
    };
    assert.equal(packet.qos, 1);
    assert.equal(packet.dup, false, "after a restart nothing is in flight");
    const offset = Number(label("saguin-offset"));
    this.delivered.set(offset, {
      messageId: label("saguin-id"),
      ...Publisher.read(new TextDecoder().decode(packet.payload)),
    });
    return offset;
  }
}

/** What came within a short while, perhaps nothing: `halt` is seen although nobody publishes. */
async function some(client: WireClient): Promise<ServerPacket[]> {
  try {
    return await client.some(GLANCE_MS);
  } catch (error) {
    if (error instanceof Silence) return [];
    throw error;
  }
}
