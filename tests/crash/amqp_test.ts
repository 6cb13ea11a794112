/**
 * What a confirm and an acknowledgement are worth: the broker is killed under a storm of publishes,
 * confirms and acknowledgements again and again, and every one it gave is held against its database
 * (07 sections 14.9, A60, T5, T6).
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import * as amqp from "../amqp/support/amqp_bytes.ts";
import { AmqpClient, text } from "../amqp/support/client.ts";
import { BrokerProcess, configurationText, type Place } from "../support/broker_process.ts";
import { CAMPAIGN } from "../support/campaign.ts";
import { freePort } from "../support/ports.ts";
import { type Random, seeded } from "../support/random.ts";
import { sleep, until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

const KILLS = 50 * CAMPAIGN;
const PUBLISHERS = 3;
const LONGEST_LOAD_MS = 350;
/** Rounds after which the queue that nobody consumes is emptied. */
const PURGE_EVERY = 10;

const PERSISTENT = { properties: amqp.PERSISTENT };

/** Whatever a client is told when the broker is killed under it. */
function killed(error: unknown): boolean {
  return error instanceof Error;
}

/** Publishes numbers to the fanout, and knows up to which one it was promised they are kept. */
class Publisher {
  next = 0;
  /** Every number below was confirmed. */
  confirmed = 0;

  constructor(readonly name: string) {}

  async run(port: number, window: number): Promise<void> {
    const first = this.next;
    try {
      using client = await AmqpClient.connected(port);
      await client.call(amqp.confirmSelect(1), "select-ok");
      this.confirmed = first;
      for (;;) {
        const burst: Uint8Array[] = [];
        for (let i = 0; i < window; i++) {
          burst.push(amqp.publish(1, "storm", "", `${this.name}:${this.next++}`, PERSISTENT));
        }
        await client.send(...burst);
        while (this.confirmed < this.next) {
          const { name, delivery } = await client.next(20_000);
          assert.equal(name, "ack");
          this.confirmed = first + delivery;
        }
      }
    } catch (error) {
      if (!killed(error)) throw error;
    }
  }
}

/** The same over MQTT at QoS 1, one at a time, through `amq.topic`. */
class Sensor extends Publisher {
  override async run(port: number): Promise<void> {
    try {
      using client = await WireClient.connected(port);
      this.confirmed = this.next;
      for (;;) {
        const payload = `${this.name}:${this.next++}`;
        const packetId = this.next % 60_000 + 1;
        await client.publish({ topic: "storm/sensor", payload, qos: 1, packetId });
        await client.expectPuback(packetId);
        this.confirmed = this.next;
      }
    } catch (error) {
      if (!killed(error)) throw error;
    }
  }
}

/** Consumes queue `worked`, acknowledges most, and knows which acknowledgements must last. */
class Worker {
  /** Acknowledged, and a synchronous reply has come since. */
  readonly settled = new Set<string>();
  /** Acknowledged at all. */
  readonly acknowledged = new Set<string>();
  /** By publisher, the highest number delivered for the first time on this connection. */
  #last = new Map<string, number>();

  async run(port: number, random: Random): Promise<void> {
    try {
      using client = await AmqpClient.connected(port);
      await client.call(amqp.qos(1, 40), "qos-ok");
      await client.call(amqp.consume(1, "worked"), "consume-ok");
      this.#last = new Map();
      let unsettled: string[] = [];
      for (let count = 1;; count++) {
        const received = await client.next(20_000);
        if (received.name === "qos-ok") {
          for (const each of unsettled) this.settled.add(each);
          unsettled = [];
          continue;
        }
        assert.equal(received.name, "deliver");
        const body = text(received);
        // What came back is somewhere between the new ones.
        if (!received.redelivered) this.#inOrder(body);
        assert.ok(!this.settled.has(body), `${body} was settled and came again`);
        if (random.chance(0.2)) {
          await client.send(amqp.nack(1, received.delivery, { requeue: true }));
        } else {
          await client.send(amqp.ack(1, received.delivery));
          this.acknowledged.add(body);
          unsettled.push(body);
        }
        if (count % 20 === 0) {
          await client.send(amqp.qos(1, 40));
          // What is behind this acknowledgement is not covered by its reply.
          const covered = unsettled;
          unsettled = [];
          for (;;) {
            const next = await client.next(20_000);
            if (next.name === "qos-ok") break;
            await client.send(amqp.nack(1, next.delivery, { requeue: true }));
          }
          for (const each of covered) this.settled.add(each);
        }
      }
    } catch (error) {
      if (!killed(error) || error instanceof assert.AssertionError) throw error;
    }
  }

  #inOrder(body: string): void {
    const [publisher, number] = body.split(":");
    const last = this.#last.get(publisher) ?? -1;
    assert.ok(Number(number) > last, `${body} after ${publisher}:${last}`);
    this.#last.set(publisher, Number(number));
  }
}

/** Bodies of a queue in the order of their positions. */
function stored(database: string, queue: string): string[] {
  const reader = new DatabaseSync(database, { readOnly: true });
  try {
    return reader.prepare(
      "SELECT CAST(body AS TEXT) AS body FROM amqp_msg JOIN amqp_queue ON id = queue_id " +
        "WHERE name = ? ORDER BY seq",
    ).all(queue).map(({ body }) => body as string);
  } finally {
    reader.close();
  }
}

function check(
  database: string,
  publishers: readonly Publisher[],
  worker: Worker,
  from: ReadonlyMap<string, number>,
): void {
  const worked = stored(database, "worked");
  const kept = stored(database, "kept");
  const all = new Set([...worked]);
  const whole = new Set(kept);
  for (const publisher of publishers) {
    for (let i = from.get(publisher.name)!; i < publisher.confirmed; i++) {
      const body = `${publisher.name}:${i}`;
      assert.ok(whole.has(body), `${body} was confirmed and is not in the queue nobody consumes`);
      assert.ok(
        all.has(body) || worker.acknowledged.has(body),
        `${body} was confirmed, never acknowledged, and is gone`,
      );
    }
  }
  for (const body of worked) {
    assert.ok(!worker.settled.has(body), `${body} was settled and is back`);
    assert.ok(whole.has(body), `${body} is in one queue of two: half a transaction`);
  }
  for (const body of kept) {
    assert.ok(
      all.has(body) || worker.acknowledged.has(body),
      `${body} is in one queue of two: half a transaction`,
    );
  }
  for (const queue of [worked, kept]) {
    assert.equal(new Set(queue).size, queue.length, "a message is there twice");
    const last = new Map<string, number>();
    for (const body of queue) {
      const [publisher, number] = body.split(":");
      assert.ok(Number(number) > (last.get(publisher) ?? -1), `${body} is out of order`);
      last.set(publisher, Number(number));
    }
  }
}

const MS = 1_000_000;

/** Unix ms at which the Will of `client` is due; 0 while it does not wait. */
function willDue(database: string, client: string): number {
  const reader = new DatabaseSync(database, { readOnly: true });
  try {
    const row = reader.prepare(
      `SELECT will_due / ${MS} AS due FROM sessions WHERE client = ?`,
    ).get(client);
    return row?.due as number | undefined ?? 0;
  } finally {
    reader.close();
  }
}

Deno.test("P9 a Will that fell due between a kill -9 and the next start is in its queue", async () => {
  const port = freePort();
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      logLevel: "warn",
      broker: `amqp:\n  listen:\n    tcp:\n      address: 127.0.0.1:${port}`,
    })
  );
  {
    using client = await AmqpClient.connected(port);
    await client.declare("gone", { durable: true });
    await client.call(amqp.queueBind(1, "gone", "amq.topic", "gone.#"), "bind-ok");
    await client.close();
  }
  {
    using _lost = await WireClient.connected(broker.port, {
      clientId: "sensor",
      properties: { sessionExpiry: 3_600 },
      will: { topic: "gone/sensor", payload: "bye", qos: 1, properties: { willDelay: 1 } },
    });
  }
  const due = await until("the Will to wait", () => willDue(broker.database, "sensor") || false);
  await broker.kill();
  await sleep(Math.max(0, due + 1 - Date.now()));
  await broker.startAgain();
  assert.deepEqual(stored(broker.database, "gone"), ["bye"]);
});

Deno.test("14.9 confirmed is there, settled is not, in order and whole, over kill -9 under load", async () => {
  const random = seeded("amqp crash");
  const port = freePort();
  const configuration = (acknowledge: "committed" | "synced") => (place: Place) =>
    configurationText(place, {
      acknowledge,
      logLevel: "warn",
      broker: "session:\n  ack_commit_interval: 50ms\n" +
        `amqp:\n  max_ready: 10000000\n  listen:\n    tcp:\n      address: 127.0.0.1:${port}`,
    });
  await using broker = await BrokerProcess.start(configuration("committed"));
  {
    using client = await AmqpClient.connected(port);
    await client.call(
      amqp.exchangeDeclare(1, "storm", "fanout", { durable: true }),
      "exchange.declare-ok",
    );
    for (const queue of ["worked", "kept"]) {
      await client.declare(queue, { durable: true });
      await client.call(amqp.queueBind(1, queue, "storm"), "bind-ok");
      await client.call(amqp.queueBind(1, queue, "amq.topic", "storm.#"), "bind-ok");
    }
    await client.close();
  }
  const publishers: Publisher[] = Array.from({ length: PUBLISHERS }, (_, i) => {
    return new Publisher(`p${i}`);
  });
  const sensor = new Sensor("mqtt");
  const worker = new Worker();
  const everybody = [...publishers, sensor];
  let confirmed = 0;
  for (let round = 1; round <= KILLS; round++) {
    const from = new Map(everybody.map(({ name, next }) => [name, next]));
    const window = random.pick([1, 8, 64]);
    const runs = Promise.all([
      ...publishers.map((publisher) => publisher.run(port, window)),
      sensor.run(broker.port),
      worker.run(port, random),
    ]);
    runs.catch(() => {}); // Heard of after the kill.
    await until("every publisher's first confirm", () => {
      return everybody.every(({ name, confirmed }) => confirmed > from.get(name)!);
    }, 20_000);
    await sleep(random.below(LONGEST_LOAD_MS));
    await broker.kill();
    await runs;
    for (const { name, confirmed: up } of everybody) confirmed += up - from.get(name)!;
    broker.configure(configuration(random.pick(["committed", "synced"] as const)));
    await broker.startAgain();
    check(broker.database, everybody, worker, from);
    if (round % PURGE_EVERY === 0) {
      using client = await AmqpClient.connected(port);
      for (const queue of ["kept", "worked"]) {
        await client.call(amqp.queuePurge(1, queue), "purge-ok");
      }
      await client.close();
      assert.deepEqual(stored(broker.database, "kept"), []);
    }
  }
  console.log(
    `amqp crash: ${KILLS} kills, ${confirmed} confirmed, ${worker.settled.size} settled`,
  );
  assert.ok(worker.settled.size > KILLS, "the load was too small to show anything");
});
