/** One publish, one transaction, wherever it lands; and what AMQP has to do with ingest (07 N4, N9, P1, P5). */
import assert from "node:assert/strict";
import * as amqp from "../amqp/support/amqp_bytes.ts";
import { AmqpHouse } from "../amqp/support/house.ts";
import { commitsInLog } from "../support/log_commits.ts";
import { until } from "../support/wait.ts";

const PERSISTENT = { properties: amqp.PERSISTENT };

const PARTS = {
  channels: "readings:\n  type: append\n  filter: plant/readings/#\n" +
    "jobs:\n  type: queue\n  filter: plant/jobs\n",
  ingest: "routes: ['plant/#:readings', 'plant/readings/+:again']",
};

/** Everything that is stored of publishes below `plant`, by where it is. */
function stored(house: AmqpHouse): Record<string, number> {
  const count = (table: string) => house.rows(`SELECT count(*) AS n FROM ${table}`)[0].n as number;
  return {
    records: count("records"),
    copies: count("amqp_msg"),
    readings: count("readings"),
    again: count("again"),
    held: count("held_publishes"),
  };
}

/** Transactions that the write-ahead log gained, while nothing but `work` is stored. */
async function transactions(house: AmqpHouse, work: () => Promise<void>): Promise<number> {
  const { database } = house.house;
  await house.time.pass(200);
  await house.house.settled();
  const before = commitsInLog(database);
  await work();
  return commitsInLog(database) - before;
}

async function bound(house: AmqpHouse) {
  const worker = await house.client();
  await worker.declare("work", { durable: true });
  await worker.call(amqp.queueBind(1, "work", "amq.topic", "plant.#"), "bind-ok");
  return worker;
}

Deno.test("N9, P1 a channel record, a durable AMQP copy and ingest rows are one transaction, before the PUBACK", async () => {
  await using house = await AmqpHouse.open(PARTS);
  using _worker = await bound(house);
  using client = await house.house.client();
  const commits = await transactions(house, async () => {
    const gate = house.house.faults.hold("submit");
    await client.publish({ topic: "plant/readings/a", payload: "1", qos: 1, packetId: 1 });
    await until("the publish to wait", () => gate.waiting === 1);
    assert.deepEqual(stored(house), { records: 0, copies: 0, readings: 0, again: 0, held: 0 });
    gate.open();
    await client.expectPuback(1);
    assert.deepEqual(stored(house), { records: 1, copies: 1, readings: 1, again: 1, held: 0 });
  });
  assert.equal(commits, 1);
  const one = await transactions(house, async () => {
    await client.publish({
      topic: "plant/else",
      payload: "1",
      qos: 1,
      retain: true,
      packetId: 2,
    });
    await client.expectPuback(2);
  });
  assert.equal(one, 1, "a retained broadcast with its copies");
  assert.equal(house.rows("SELECT 1 FROM latest_values").length, 1);
});

Deno.test("N9, P5 a QoS 2 publish is one transaction at PUBLISH and one at PUBREL, its rows in the second", async () => {
  await using house = await AmqpHouse.open(PARTS);
  using _worker = await bound(house);
  using client = await house.house.client();
  const held = await transactions(house, async () => {
    await client.publish({ topic: "plant/readings/a", payload: "1", qos: 2, packetId: 1 });
    await client.expectPubrec(1);
  });
  assert.equal(held, 1);
  assert.deepEqual(stored(house), { records: 0, copies: 0, readings: 0, again: 0, held: 1 });
  const released = await transactions(house, async () => {
    await client.pubrel(1);
    await client.expectPubcomp(1);
  });
  assert.equal(released, 1);
  assert.deepEqual(stored(house), { records: 1, copies: 1, readings: 1, again: 1, held: 0 });
});

Deno.test("N9, T4 what one of the tables refuses, none of them keeps", async () => {
  await using house = await AmqpHouse.open(PARTS);
  using worker = await bound(house);
  house.execute(
    "CREATE TRIGGER no BEFORE INSERT ON again BEGIN SELECT RAISE(ABORT, 'not today'); END",
  );
  using client = await house.house.client();
  await client.publish({ topic: "plant/readings/a", payload: "1", qos: 1, packetId: 1 });
  await client.expectPuback(1, 0x83);
  assert.deepEqual(stored(house), { records: 0, copies: 0, readings: 0, again: 0, held: 0 });
  assert.equal((await worker.get("work")).name, "get-empty");
  house.execute("DROP TRIGGER no");
  await client.publish({ topic: "plant/readings/a", payload: "2", qos: 1, packetId: 1 });
  await client.expectPuback(1);
  assert.equal((await worker.get("work")).key, "plant.readings.a");
});

for (const included of [false, true]) {
  Deno.test(`N4 what crosses over from AMQP is a row with include_amqp only: ${included}`, async () => {
    await using house = await AmqpHouse.open({
      ...PARTS,
      ingest: `include_amqp: ${included}\n${PARTS.ingest}`,
    });
    using client = await bound(house);
    await client.call(amqp.confirmSelect(1), "select-ok");
    await client.send(
      amqp.publish(1, "amq.topic", "plant.readings.a", '{"v":1}', PERSISTENT),
      amqp.publish(1, "amq.topic", "plant.else", "transient"),
      // What does not cross is no row in any case: other exchanges, jobs.
      amqp.publish(1, "", "work", "direct", PERSISTENT),
      amqp.publish(1, "", "jobs", "a job", PERSISTENT),
      amqp.publish(1, "amq.topic", "plant.jobs", "another", PERSISTENT),
    );
    for (;;) {
      const received = await client.next();
      if (received.name === "ack" && received.delivery === 5) break;
    }
    assert.deepEqual(
      house.rows("SELECT _topic, doc FROM readings ORDER BY _id"),
      !included ? [] : [
        { _topic: "plant/readings/a", doc: '{"v":1}' },
        { _topic: "plant/else", doc: '{"payload":"transient"}' },
      ],
    );
    assert.equal(house.rows("SELECT 1 FROM records WHERE channel = 'readings'").length, 1);
  });
}

Deno.test("N9 an AMQP publish with its channel record and its rows is one transaction", async () => {
  await using house = await AmqpHouse.open({
    ...PARTS,
    ingest: `include_amqp: true\n${PARTS.ingest}`,
  });
  using client = await bound(house);
  await client.call(amqp.confirmSelect(1), "select-ok");
  const commits = await transactions(house, async () => {
    await client.send(amqp.publish(1, "amq.topic", "plant.readings.a", "1", PERSISTENT));
    await client.expect("ack");
  });
  assert.equal(commits, 1);
  assert.deepEqual(stored(house), { records: 1, copies: 1, readings: 1, again: 1, held: 0 });
});
