/** 03 section 17: retained messages. */
import assert from "node:assert/strict";
import {
  durable,
  nothingMore,
  published,
  publishedTwice,
  subscribed,
  taken,
  takenAll,
} from "../support/clients.ts";
import { type House, overBoth, property, rules, text } from "../support/house.ts";
import type { WireClient } from "../support/wire.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
values:
  type: latest
  filter: values/#
jobs:
  type: queue
  filter: jobs/#
`;
const RETAIN = { retain: true };

/** After so long without a packet there is no more: a slow machine's turns are well below. */
const SILENCE_MS = 300;

/** What a fresh client gets of a filter. */
async function reads(
  house: House,
  filter: string,
  options: { qos?: number; retainHandling?: number; retainAsPublished?: boolean } = {},
): Promise<Awaited<ReturnType<WireClient["expectPublish"]>>[]> {
  using client = await house.client({ clientId: "reads" });
  const { qos = 1, ...rest } = options;
  await subscribed(client, filter, qos, rest);
  const got: Awaited<ReturnType<WireClient["expectPublish"]>>[] = [];
  for (;;) {
    let packet: Awaited<ReturnType<WireClient["next"]>>;
    try {
      packet = await client.next(SILENCE_MS);
    } catch {
      return got;
    }
    if (packet.type === "publish") {
      got.push(packet);
      if (packet.qos === 1) await client.puback(packet.packetId);
    }
  }
}

rules("03 section 17: retained", { channels: CHANNELS, limits: "max_header_count: 8" }, {
  "D17.1 D17.2 D17.3 the flag on a channel's topic keeps nothing: a record, a value, a job": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d17.1w" });
    for (const topic of ["log/d17.1", "values/d17.1", "jobs/d17.1"]) {
      await published(writer, topic, "p", RETAIN);
    }
    const record = (await reads(house, "log/d17.1"))[0];
    assert.equal(record.retain, false);
    assert.equal((await reads(house, "log/d17.1", { retainAsPublished: true }))[0].retain, true);
    assert.equal((await reads(house, "values/d17.1"))[0].retain, true, "the state pass sets it");
    assert.deepEqual(await reads(house, "+/d17.1", { qos: 0 }).then((got) => got.length), 2);
    using worker = await house.client({ clientId: "d17.1k" });
    await subscribed(worker, "$saguin/queue/jobs");
    await house.time.pass(200);
    const job = await taken(worker, "jobs/d17.1", "p");
    assert.equal(job.retain, false);
    const queue = house.broker.routes.channel("jobs");
    assert.ok(queue?.kind === "queue");
    assert.equal(queue.retainIgnored, 1);
  },

  "D17.4 D17.5 D17.6 one value a topic, empty deletes; 1 on the pass, 0 live unless Retain As Published":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d17.4w" });
      using live = await house.client({ clientId: "d17.4l" });
      await subscribed(live, "d17.4/#");
      using rap = await house.client({ clientId: "d17.4p" });
      await subscribed(rap, "d17.4/#", 1, { retainAsPublished: true });
      await published(writer, "d17.4/a", "old", RETAIN);
      await published(writer, "d17.4/a", "new", RETAIN);
      await published(writer, "d17.4/b", "other", RETAIN);
      await published(writer, "d17.4/a", "not kept");
      for (const payload of ["old", "new", "other", "not kept"]) {
        assert.equal((await taken(live, undefined, payload)).retain, false);
        assert.equal((await taken(rap, undefined, payload)).retain, payload !== "not kept");
      }
      const values = await reads(house, "d17.4/+");
      assert.deepEqual(values.map((each) => [each.topic, text(each), each.retain]).sort(), [
        ["d17.4/a", "new", true],
        ["d17.4/b", "other", true],
      ]);
      await published(writer, "d17.4/a", "", RETAIN);
      await taken(live, "d17.4/a", "");
      assert.deepEqual((await reads(house, "d17.4/#")).map(text), ["other"]);
      await published(writer, "d17.4/none", "", RETAIN);
      assert.equal((await taken(live, "d17.4/none", "")).payload.length, 0);
    },

  "D17.5 Retain Handling 0 always, 1 when the subscription is new, 2 never; 3.1.1 always": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d17.5w" });
    await published(writer, "d17.5", "v", RETAIN);
    using client = await house.client({ clientId: "d17.5" });
    await subscribed(client, "d17.5", 1, { retainHandling: 2 });
    await nothingMore(client);
    await subscribed(client, "d17.5", 1, { retainHandling: 1 });
    await nothingMore(client);
    await subscribed(client, "d17.5", 1, { retainHandling: 0 });
    await taken(client, "d17.5", "v");
    await client.unsubscribe({ filters: ["d17.5"] });
    await client.expectUnsuback(1, [0]);
    await subscribed(client, "d17.5", 1, { retainHandling: 1 });
    await taken(client, "d17.5", "v");
    using old = await house.client({ level: 4, clientId: "d17.5o" });
    for (let i = 0; i < 2; i++) {
      await subscribed(old, "d17.5");
      assert.equal((await taken(old, "d17.5", "v")).retain, true);
    }
  },

  "D17.5 never on resume, and never to a shared subscription": async (house) => {
    using writer = await house.client({ clientId: "d17.5rw" });
    await published(writer, "d17.5r", "v", RETAIN);
    const { client } = await durable(house, "d17.5r");
    await subscribed(client, "d17.5r");
    await taken(client, "d17.5r", "v");
    await client.disconnect();
    const { client: again } = await durable(house, "d17.5r");
    await nothingMore(again);
    await subscribed(again, "$share/g/d17.5r");
    await nothingMore(again);
    again.close();
  },

  "D4.12 D17.7 a value dies at its publisher's expiry, and says only what is left of that": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d17.7w" });
    await published(writer, "d17.7/short", "s", { ...RETAIN, properties: { messageExpiry: 10 } });
    await published(writer, "d17.7/none", "n", RETAIN);
    await house.time.leap(4_000);
    const values = await reads(house, "d17.7/+");
    assert.deepEqual(
      values.map((each) => [each.topic, each.properties.messageExpiry]).sort(),
      [["d17.7/none", undefined], ["d17.7/short", 6]],
    );
    await house.time.leap(6_000);
    assert.deepEqual((await reads(house, "d17.7/+")).map(text), ["n"]);
    // Not served, and reclaimed by the sweep.
    await house.time.leap(60_000);
    await house.settled();
    assert.deepEqual((await reads(house, "d17.7/+")).map(text), ["n"]);
  },

  "D17.8 it is sent as published, with nothing of the broker's": async (house) => {
    using writer = await house.client({ clientId: "d17.8w" });
    await published(writer, "d17.8", "v", {
      ...RETAIN,
      properties: {
        contentType: "t",
        responseTopic: "r",
        correlationData: new Uint8Array([1]),
        payloadFormat: 1,
        userProperties: [["b", "1"], ["a", "2"], ["b", "3"]],
      },
    });
    const [value] = await reads(house, "d17.8");
    assert.deepEqual(value.properties, {
      contentType: "t",
      responseTopic: "r",
      correlationData: new Uint8Array([1]),
      payloadFormat: 1,
      userProperties: [["b", "1"], ["a", "2"], ["b", "3"]],
    });
  },

  "D17.10 D2.7 a full provider refuses a new value, at QoS 1 and 2, and keeps the old": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d17.10w" });
    await published(writer, "d17.10", "old", RETAIN);
    house.faults.refuse("submit", "full", 1);
    await writer.publish({ topic: "d17.10", payload: "new", qos: 1, retain: true, packetId: 5 });
    await writer.expectPuback(5, 0x97);
    assert.deepEqual((await reads(house, "d17.10")).map(text), ["old"]);
  },

  "D17.12 CONNACK says that retained messages are available": async (house) => {
    const { WireClient } = await import("../support/wire.ts");
    using client = await WireClient.open(house.port);
    await client.connect({ clientId: "d17.12" });
    assert.equal((await client.expectConnack()).properties.retainAvailable, 1);
  },

  "a value's QoS is the lower of its own and the subscription's; every matching identifier is told":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "qosw" });
      await publishedTwice(writer, "qos/2", "two", RETAIN);
      await published(writer, "qos/0", "zero", { ...RETAIN, qos: 0 });
      await nothingMore(writer);
      await house.settled();
      using client = await house.client({ clientId: "qos" });
      await client.subscribe({
        subscriptions: [{ filter: "qos/#", qos: 1 }],
        properties: { subscriptionIdentifiers: [3] },
      });
      await client.expectSuback(1, [1]);
      const got = await takenAll(client, 2);
      assert.deepEqual(got.map((each) => [each.topic, each.qos]).sort(), [["qos/0", 0], [
        "qos/2",
        1,
      ]]);
      assert.ok(got.every((each) => each.properties.subscriptionIdentifiers![0] === 3));
    },

  "many values are paged by the subscriber's window, none lost": async (house) => {
    using writer = await house.client({ clientId: "manyw" });
    for (let i = 0; i < 200; i++) await published(writer, `many/${i}`, "v".repeat(2_000), RETAIN);
    for (const expiry of [0, 100]) {
      const { client } = await durable(house, `many-${expiry}`, {
        expiry,
        properties: { receiveMaximum: 7 },
      });
      await subscribed(client, "many/#");
      const topics = new Set<string>();
      for (let i = 0; i < 200; i++) topics.add((await taken(client)).topic);
      assert.equal(topics.size, 200);
      await nothingMore(client);
      client.close();
    }
  },

  "a subscription that goes during the pass stops it": async (house) => {
    const { client } = await durable(house, "stops", { properties: { receiveMaximum: 1 } });
    await subscribed(client, "many/#");
    const first = await client.expectPublish();
    await client.unsubscribe({ filters: ["many/#"] });
    await client.expectUnsuback(1, [0]);
    await client.puback(first.packetId);
    await nothingMore(client);
    client.close();
  },
});

overBoth(
  "D17.9 to a durable session values go through the log: re-sent under their identifiers with RETAIN, after a kill too",
  {
    channels: CHANNELS,
  },
  async (house) => {
    using writer = await house.client({ clientId: "w" });
    await published(writer, "t/a", "A", RETAIN);
    await published(writer, "t/b", "B", RETAIN);
    const { client } = await durable(house, "k");
    await subscribed(client, "t/+");
    const got = [await client.expectPublish(), await client.expectPublish()];
    assert.deepEqual(got.map((each) => [each.topic, each.retain]), [["t/a", true], ["t/b", true]]);
    const { client: other } = await durable(house, "o");
    await subscribed(other, "t/#", 1, { retainHandling: 2 });
    await nothingMore(other);
    other.close();
    await house.time.pass(200);
    await house.settled();
    await using killed = await house.killed();
    const { client: again } = await durable(killed, "k");
    for (const first of got) {
      const { packetId, dup, retain } = await again.expectPublish(first.topic);
      assert.deepEqual([packetId, dup, retain], [first.packetId, true, true]);
      await again.puback(packetId);
    }
    await nothingMore(again);
    const { client: otherAgain } = await durable(killed, "o");
    await nothingMore(otherAgain);
    await nothingMore(again);
    await killed.time.pass(400);
    again.close();
    otherAgain.close();
    client.close();
  },
  ["sqlite"],
);

overBoth("D17.7 retention_period is the other clock of a value; the earlier one wins", {
  broker: "retained:\n  retention_period: 20s",
}, async (house) => {
  using writer = await house.client({ clientId: "w" });
  await published(writer, "t/a", "A", RETAIN);
  await published(writer, "t/b", "B", { ...RETAIN, properties: { messageExpiry: 10 } });
  await house.time.leap(10_000);
  await house.settled();
  assert.deepEqual((await reads(house, "t/+")).map(text), ["A"]);
  await house.time.leap(12_000);
  await house.settled();
  assert.deepEqual((await reads(house, "t/+")).map(text), []);
});

overBoth("D22.1 retained values come back after a kill", {}, async (house) => {
  using writer = await house.client({ clientId: "w" });
  await published(writer, "t/a", "A", {
    ...RETAIN,
    properties: { userProperties: [["saguin-id", "x"]] },
  });
  await using killed = await house.killed();
  const [value] = await reads(killed, "t/+");
  assert.deepEqual([text(value), value.retain, property(value, "saguin-id")], ["A", true, ["x"]]);
}, ["sqlite"]);
