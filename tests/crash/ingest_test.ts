/**
 * What an acknowledgement says of ingest tables: the broker is killed under load again and again, and every
 * number it acknowledged is a row, once where it came at QoS 2, and never without its record (07 N4, N9, P5).
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { check } from "../storage/check/support.ts";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { CAMPAIGN } from "../support/campaign.ts";
import { encodePublish, encodePubrel, join } from "../support/mqtt_bytes.ts";
import { seeded } from "../support/random.ts";
import { sleep, until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";
import { cutOff, Publisher } from "./publisher.ts";

const KILLS = 8 * CAMPAIGN;
const PUBLISHERS = 3;
const LONGEST_LOAD_MS = 250;
const WINDOW = 16;

/**
 * A client that publishes numbers at QoS 2 and finishes every one of them, over any number of
 * connections: the packet identifier of a number is the number.
 */
class Exactly {
  readonly topic = "crash/exactly";
  /** Next number to publish. */
  next = 1;
  /** Numbers of which PUBREC is due, and those of which PUBCOMP is. */
  readonly held = new Set<number>();
  readonly released = new Set<number>();
  done = 0;
  #stopped = false;

  async run(port: number): Promise<void> {
    this.#stopped = false;
    try {
      using client = await WireClient.connected(port, {
        clientId: "exactly",
        cleanStart: false,
        properties: { sessionExpiry: 3_600 },
      });
      await client.send(join(
        ...[...this.released].map((packetId) => encodePubrel({ packetId })),
        ...[...this.held].map((number) => this.#publish(number, true)),
      ));
      await this.#fill(client);
      while (this.held.size + this.released.size > 0) {
        const answers: Uint8Array[] = [];
        for (const packet of await client.some()) {
          if (packet.type === "pubrec") {
            assert.equal(packet.reasonCode, 0);
            if (!this.held.delete(packet.packetId)) continue;
            this.released.add(packet.packetId);
            answers.push(encodePubrel({ packetId: packet.packetId }));
          } else {
            assert.equal(packet.type, "pubcomp");
            // 0x92: it was released, and the kill took the answer.
            const { packetId, reasonCode } = packet as { packetId: number; reasonCode: number };
            assert.ok(reasonCode === 0 || reasonCode === 0x92);
            if (this.released.delete(packetId)) this.done++;
          }
        }
        if (answers.length > 0) await client.send(join(...answers));
        if (!this.#stopped) await this.#fill(client);
      }
    } catch (error) {
      if (!cutOff(error)) throw error;
    }
  }

  stop(): void {
    this.#stopped = true;
  }

  #publish(number: number, dup: boolean): Uint8Array {
    return encodePublish({
      topic: this.topic,
      payload: `{"number":${number}}`,
      qos: 2,
      packetId: number,
      dup,
    });
  }

  async #fill(client: WireClient): Promise<void> {
    const packets: Uint8Array[] = [];
    while (this.held.size + this.released.size < WINDOW) {
      this.held.add(this.next);
      packets.push(this.#publish(this.next++, false));
    }
    if (packets.length > 0) await client.send(join(...packets));
  }
}

/** The payloads of `topic` as the channel has them and as the table has them, each in its order. */
function kept(database: DatabaseSync, topic: string): { records: string[]; rows: string[] } {
  const records = database.prepare(
    "SELECT CAST(payload AS TEXT) AS payload FROM records WHERE channel = 'crash' AND topic = ? " +
      "ORDER BY offset",
  ).all(topic).map(({ payload }) => payload as string);
  const rows = database.prepare("SELECT doc FROM readings WHERE _topic = ? ORDER BY _id")
    .all(topic).map(({ doc }) => doc as string);
  return { records, rows };
}

Deno.test("N9, P5 every acknowledged publish is a row after kill -9, QoS 2 ones once, and no row is without its record", async () => {
  const random = seeded("ingest crash");
  const text =
    (acknowledge: "committed" | "synced") =>
    (place: Parameters<Parameters<typeof BrokerProcess.start>[0]>[0]) =>
      configurationText(place, {
        acknowledge,
        logLevel: "warn",
        channels: "crash:\n  type: append",
        ingest: "routes:\n  - filter: crash/#\n    table: readings\n" +
          "    columns: {number: INTEGER}\n    index: [number]",
      });
  await using broker = await BrokerProcess.start(text("committed"));
  const publishers = Array.from({ length: PUBLISHERS }, (_, i) => new Publisher(i));
  const exactly = new Exactly();
  for (let round = 1; round <= KILLS; round++) {
    const last = round === KILLS;
    const runs = Promise.all([
      ...publishers.map((each) => each.run(broker.port, random.pick([1, 8, 64]))),
      exactly.run(broker.port),
    ]);
    runs.catch(() => {}); // Heard of after the kill.
    await until(
      "every publisher's first PUBACK",
      () => publishers.every((publisher) => publisher.acknowledged > publisher.first),
      20_000,
    );
    await sleep(random.below(LONGEST_LOAD_MS));
    if (last) { for (const each of [...publishers, exactly]) each.stop(); }
    else await broker.kill();
    await runs;
    if (!last) {
      broker.configure(text(random.pick(["committed", "synced"])));
      await broker.startAgain();
    }
    using database = new DatabaseSync(broker.database, { readOnly: true });
    for (const publisher of publishers) {
      const { records, rows } = kept(database, publisher.topic);
      assert.deepEqual(rows, records.map((payload) => JSON.stringify({ payload })));
      const present = new Set(records.map((payload) => Publisher.read(payload).sequence));
      for (let sequence = publisher.first; sequence < publisher.acknowledged; sequence++) {
        assert.ok(present.has(sequence), `round ${round}: ${publisher.topic} lost ${sequence}`);
      }
    }
    const { records, rows } = kept(database, exactly.topic);
    assert.deepEqual(rows, records);
    const numbers = new Set(rows.map((doc) => JSON.parse(doc).number as number));
    assert.equal(numbers.size, rows.length, `round ${round}: a number twice`);
    for (let number = 1; number < exactly.next; number++) {
      if (exactly.held.has(number) || exactly.released.has(number)) continue;
      assert.ok(numbers.has(number), `round ${round}: QoS 2 lost ${number}`);
    }
  }
  assert.equal(exactly.held.size + exactly.released.size, 0);
  assert.ok(exactly.done > KILLS, "the load was too small to show anything");
  assert.deepEqual((await check(broker.database)).findings, []);
});
