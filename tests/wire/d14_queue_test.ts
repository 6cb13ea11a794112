/** 03 section 14, 02a section 4 and 06 section 6: queues, as workers see them. */
import assert from "node:assert/strict";
import { durable, left, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { type House, overBoth, property, rules, text } from "../support/house.ts";
import type { Pair } from "../support/mqtt_bytes.ts";
import type { Received, WireClient } from "../support/wire.ts";

const CHANNELS = `
jobs:
  type: queue
  filter: jobs/#
  visibility_timeout: 30s
  retry:
    max_attempts: 2
once:
  type: queue
  filter: once/+
  retry:
    max_attempts: 1
small:
  type: queue
  filter: small/#
  max_bytes: 200
log:
  type: append
  filter: log/#
`;

async function worker(house: House, clientId: string, queue = "jobs"): Promise<WireClient> {
  const client = await house.client({ clientId });
  await subscribed(client, `$saguin/queue/${queue}`);
  return client;
}

let packetId = 100;

async function answer(client: WireClient, offer: Received<"publish">, word: string): Promise<void> {
  await client.publish({
    topic: offer.properties.responseTopic!,
    payload: word,
    qos: 1,
    packetId: ++packetId,
    properties: { correlationData: offer.properties.correlationData },
  });
}

/** The next packet that is not the PUBACK of an answer. */
async function next(client: WireClient): Promise<Received<"publish">> {
  for (;;) {
    const packet = await client.next();
    if (packet.type === "puback") {
      assert.equal(packet.reasonCode, 0);
      continue;
    }
    assert.equal(packet.type, "publish");
    return packet as Received<"publish">;
  }
}

rules("03 section 14: queues", { channels: CHANNELS, limits: "max_message_size: 4KiB" }, {
  "D14.4 02a 4 only one form is granted": async (house) => {
    using client = await house.client({ clientId: "d14.4" });
    const cases: [string, { qos?: number; noLocal?: boolean }, number][] = [
      ["$saguin/queue/jobs", { qos: 1 }, 0x01],
      ["$saguin/queue/jobs", { qos: 2 }, 0x01],
      ["$saguin/queue/jobs", { qos: 0 }, 0x83],
      ["$saguin/queue/jobs", { qos: 1, noLocal: true }, 0x8f],
      ["$saguin/queue/jobs/#", { qos: 1 }, 0x8f],
      ["$saguin/queue/jobs/x", { qos: 1 }, 0x8f],
      ["$saguin/queue/#", { qos: 1 }, 0x8f],
      ["$saguin/queue/+", { qos: 1 }, 0x8f],
      ["$saguin/queue/nosuch", { qos: 1 }, 0x8f],
      ["$saguin/queue/log", { qos: 1 }, 0x8f],
      ["$saguin/queue/jobs__dlq", { qos: 1 }, 0x8f],
      ["jobs/#", { qos: 1 }, 0x8f],
      ["jobs/x/+", { qos: 1 }, 0x8f],
      ["jobs/__dlq/#", { qos: 1 }, 0x01],
      ["#", { qos: 1 }, 0x01],
      ["$saguin/else", { qos: 1 }, 0x87],
      ["$saguin/#", { qos: 1 }, 0x87],
      ["$SYS/#", { qos: 1 }, 0x87],
    ];
    for (const [filter, options, code] of cases) {
      await client.subscribe({ subscriptions: [{ filter, ...options }] });
      const packet = await client.expect("suback");
      assert.deepEqual(packet.reasonCodes, [code], filter);
      if (code >= 0x80) assert.ok(packet.properties.reasonString, filter);
    }
    await client.subscribe({
      subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1 }, { filter: "log/#", qos: 1 }],
      properties: { userProperties: [["saguin-filter", "topic_hash(2, 0)"]] },
    });
    await client.expectSuback(1, [0x83, 1]);
    using old = await house.client({ level: 4, clientId: "d14.4o" });
    await old.subscribe({ subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1 }] });
    await old.expectSuback(1, [0x80]);
  },

  "D2.1 D14.1 D14.11 a lapsed lease is offered again, and the late answer changes nothing": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d2.1w" });
    using slow = await worker(house, "d2.1a");
    await published(writer, "jobs/d2.1", "work");
    await house.time.pass(200);
    const first = await taken(slow, "jobs/d2.1");
    using other = await worker(house, "d2.1b");
    await slow.unsubscribe({ filters: ["$saguin/queue/jobs"] });
    await slow.expectUnsuback(1, [0]);
    await house.time.pass(31_000);
    const second = await taken(other, "jobs/d2.1", "work");
    assert.deepEqual(property(second, "saguin-attempt"), ["2"]);
    assert.deepEqual(property(second, "saguin-id"), property(first, "saguin-id"));
    await answer(slow, first, "ack");
    await slow.expectPuback(packetId);
    await answer(other, second, "ack");
    await other.expectPuback(packetId);
    const queue = house.broker.routes.channel("jobs");
    assert.ok(queue?.kind === "queue");
    assert.equal(queue.store.depth(), 0);
  },

  "D2.2 PUBACK is not work done: a worker that goes after it has its job done again": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d2.2w" });
    const first = await worker(house, "d2.2a");
    await published(writer, "jobs/d2.2", "work");
    await house.time.pass(200);
    await taken(first, "jobs/d2.2");
    first.close();
    await house.away("d2.2a");
    using second = await worker(house, "d2.2b");
    await house.time.pass(400);
    const again = await taken(second, "jobs/d2.2");
    assert.deepEqual(property(again, "saguin-attempt"), ["2"]);
    await answer(second, again, "ack");
    await second.expectPuback(packetId);
  },

  "D2.4 a worker is never told whether its answer applied": async (house) => {
    using client = await house.client({ clientId: "d2.4" });
    for (const payload of ["ack", "return", "nonsense", ""]) {
      await client.publish({
        topic: "$saguin/queue/jobs/response",
        payload,
        qos: 1,
        packetId: 7,
        properties: { correlationData: new Uint8Array([1]) },
      });
      const { properties } = await client.expectPuback(7, 0);
      assert.deepEqual(properties, {});
    }
  },

  "D2.5 D20.3 jobs are offered in offset order, and done in any": async (house) => {
    using writer = await house.client({ clientId: "d2.5w" });
    for (const payload of ["1", "2", "3"]) await published(writer, "jobs/d2.5", payload);
    using a = await worker(house, "d2.5a");
    using b = await worker(house, "d2.5b");
    await house.time.pass(200);
    const first = await taken(a);
    const second = await taken(b);
    assert.deepEqual([text(first), text(second)].sort(), ["1", "2"]);
    await answer(b, second, "ack");
    const third = await next(b);
    assert.equal(text(third), "3");
    await answer(b, third, "ack");
    await answer(a, first, "ack");
    await nothingMore2(a);
    await nothingMore2(b);
  },

  "D14.20 a full queue refuses, and takes again as work is done": async (house) => {
    using writer = await house.client({ clientId: "d14.20w" });
    await published(writer, "small/x", "x".repeat(100));
    await writer.publish({ topic: "small/x", payload: "y".repeat(100), qos: 1, packetId: 3 });
    await writer.expectPuback(3, 0x97);
    using client = await worker(house, "d14.20", "small");
    await house.time.pass(200);
    const offer = await taken(client);
    await answer(client, offer, "ack");
    await client.expectPuback(packetId);
    await published(writer, "small/x", "y".repeat(100));
  },

  "D14.27 a redriven job is a new one under its old identity": async (house) => {
    using writer = await house.client({ clientId: "d14.27w" });
    await published(writer, "once/x", "work", {
      properties: { userProperties: [["k", "v"], ["saguin-id", "the-job"]] },
    });
    using client = await worker(house, "d14.27", "once");
    await house.time.pass(200);
    await answer(client, await taken(client), "return");
    await client.expectPuback(packetId);
    using reader = await house.client({ clientId: "d14.27r" });
    await subscribed(reader, "once/+/__dlq");
    const letter = await taken(reader, "once/x/__dlq", "work");
    assert.deepEqual(property(letter, "saguin-id"), ["the-job"]);
    assert.deepEqual(property(letter, "saguin-dlq-attempts"), ["1"]);
    const userProperties = letter.properties.userProperties!.filter(([name]) =>
      !name.startsWith("saguin-") || name === "saguin-id" || name.startsWith("saguin-dlq")
    ) as Pair[];
    await published(reader, "once/x", text(letter), { properties: { userProperties } });
    const again = await (async () => {
      await house.time.pass(200);
      return await taken(client, "once/x", "work");
    })();
    assert.deepEqual(property(again, "saguin-attempt"), ["1"]);
    assert.deepEqual(property(again, "saguin-id"), ["the-job"]);
    assert.deepEqual(property(again, "k"), ["v"]);
    assert.deepEqual(property(again, "saguin-dlq-channel"), []);
    await reader.publish({ topic: "once/x/__dlq", payload: "no", qos: 1, packetId: 9 });
    await reader.expectPuback(9, 0x87);
  },

  "D6.24 a job goes back when its connection is taken over, and its packet of before answers nothing":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d6.24w" });
      const { client } = await durable(house, "d6.24");
      await subscribed(client, "$saguin/queue/jobs");
      await published(writer, "jobs/d6.24", "work");
      await house.time.pass(200);
      const offer = await client.expectPublish("jobs/d6.24");
      const { client: over } = await durable(house, "d6.24");
      await client.expectClose(0x8e);
      // The packet goes again with the session; its Delivery ID is dead.
      const resent = await over.expectPublish("jobs/d6.24");
      assert.deepEqual([resent.packetId, resent.dup], [offer.packetId, true]);
      await over.puback(resent.packetId);
      await answer(over, resent, "ack");
      await over.expectPuback(packetId);
      await house.time.pass(400);
      const again = await taken(over, "jobs/d6.24");
      assert.deepEqual(property(again, "saguin-attempt"), ["1"], "the attempt was not spent");
      await answer(over, again, "ack");
      await over.expectPuback(packetId);
      over.close();
    },
});

async function nothingMore2(client: WireClient): Promise<void> {
  await client.pingreq();
  for (;;) {
    const packet = await client.next();
    if (packet.type === "pingresp") return;
    assert.equal(packet.type, "puback");
  }
}

overBoth(
  "D14.28 D22.7 after a kill held jobs are available at once, attempts kept, old answers dead",
  {
    channels: CHANNELS,
  },
  async (house) => {
    using writer = await house.client({ clientId: "w" });
    for (const topic of ["jobs/1", "once/1"]) await published(writer, topic, "work");
    const held = await worker(house, "a");
    const spent = await worker(house, "b", "once");
    await house.time.pass(200);
    const offer = await taken(held, "jobs/1");
    await taken(spent, "once/1");
    await nothingMore(held);
    await nothingMore(spent);
    await house.settled();
    await using killed = await house.killed();
    using next = await worker(killed, "c");
    using none = await worker(killed, "d", "once");
    await killed.time.pass(400);
    const again = await taken(next, "jobs/1");
    assert.deepEqual(property(again, "saguin-attempt"), ["2"]);
    await answer(next, offer, "ack");
    await next.expectPuback(packetId);
    const queue = killed.broker.routes.channel("jobs");
    assert.ok(queue?.kind === "queue");
    assert.equal(queue.store.depth(), 1, "a dead Delivery ID resolves nothing");
    await nothingMore(none);
    using reader = await killed.client({ clientId: "r" });
    await subscribed(reader, "once/+/__dlq");
    await taken(reader, "once/1/__dlq");
  },
  ["sqlite"],
);

overBoth(
  "D14.21 in a full provider answers, timeouts, attempts, positions and dead letters still find room",
  {
    channels: CHANNELS,
    limits: "max_message_size: 8KiB",
    providerKeys: "max_bytes: 300KiB",
  },
  async (house) => {
    using writer = await house.client({ clientId: "w" });
    await published(writer, "once/1", "to the dead letters");
    await published(writer, "jobs/1", "returned");
    const { client: reader } = await durable(house, "r");
    await subscribed(reader, "log/#");
    using once = await worker(house, "a", "once");
    using client = await worker(house, "b");
    for (let i = 0; i < 400; i++) {
      await writer.publish({ topic: "log/x", payload: "x".repeat(4_000), qos: 1, packetId: 9 });
      const packet = await writer.expect("puback");
      if (packet.reasonCode === 0x97) break;
      assert.ok(i < 399, "it never filled");
    }
    await house.time.pass(200);
    await answer(once, await taken(once, "once/1"), "return");
    await once.expectPuback(packetId);
    await answer(client, await taken(client, "jobs/1"), "return");
    await client.expectPuback(packetId);
    await house.time.pass(400);
    const again = await taken(client, "jobs/1");
    assert.deepEqual(property(again, "saguin-attempt"), ["2"]);
    await answer(client, again, "ack");
    await client.expectPuback(packetId);
    const letters = house.broker.routes.channel("once__dlq");
    assert.ok(letters?.kind === "append");
    assert.equal(letters.store.next(), 2);
    await taken(reader, "log/x");
    await left(reader);
    const log = house.broker.routes.channel("log");
    assert.ok(log?.kind === "append");
    assert.ok((await log.store.position("mqtt:r")) !== undefined);
  },
);
