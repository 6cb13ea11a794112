/** 03 section 7: records larger than the subscriber's Maximum Packet Size. */
import assert from "node:assert/strict";
import { durable, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { property, rules } from "../support/house.ts";

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
const BIG = "x".repeat(500);
const SMALL = { maximumPacketSize: 200 };

rules("03 section 7: too large for the subscriber", { channels: CHANNELS }, {
  "D7.1 an append record ends the connection 0x95, is never skipped, and waits for one that takes it":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d7.1w" });
      await published(writer, "log/d7.1", "fits");
      await published(writer, "log/d7.1", BIG);
      const { client } = await durable(house, "d7.1", { properties: SMALL });
      await subscribed(client, "log/d7.1");
      await client.expectPublish("log/d7.1", "fits");
      await client.expectClose(0x95);
      const { client: again } = await durable(house, "d7.1", { properties: SMALL });
      await again.expectPublish("log/d7.1", "fits");
      await again.expectClose(0x95);
      const { client: able } = await durable(house, "d7.1");
      await taken(able, "log/d7.1", "fits");
      const got = await taken(able, "log/d7.1", BIG);
      assert.ok(Number(property(got, "saguin-offset")[0]) > 0);
      able.close();
    },

  "D7.1 one sent to a larger connection and unacknowledged ends a smaller one too": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d7.1bw" });
    const { client } = await durable(house, "d7.1b");
    await subscribed(client, "log/d7.1b");
    await published(writer, "log/d7.1b", BIG);
    await client.expectPublish("log/d7.1b");
    client.close();
    await house.away("d7.1b");
    const { client: small } = await durable(house, "d7.1b", { properties: SMALL });
    await small.expectClose(0x95);
    const { client: able } = await durable(house, "d7.1b");
    assert.equal((await taken(able, "log/d7.1b", BIG)).dup, true);
    able.close();
  },

  "D7.1 a latest value ends the connection, is noted and held for one that takes it": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d7.1lw" });
    await published(writer, "values/d7.1", BIG);
    const { client } = await durable(house, "d7.1l", { properties: SMALL });
    await subscribed(client, "values/d7.1");
    await client.expectClose(0x95);
    const { client: able } = await durable(house, "d7.1l");
    await taken(able, "values/d7.1", BIG);
    able.close();
  },

  "D7.1 at QoS 0 it ends the connection too": async (house) => {
    using writer = await house.client({ clientId: "d7.1zw" });
    await published(writer, "log/d7.1z", BIG);
    using client = await house.client({ clientId: "d7.1z", properties: SMALL });
    await subscribed(client, "log/d7.1z", 0);
    await client.expectClose(0x95);
  },

  "D7.2 a broadcast is dropped for that subscriber only, live, owed, retained, at every QoS":
    async (house) => {
      const before = house.counters.sessionDeliveriesDropped.get("too_large");
      using writer = await house.client({ clientId: "d7.2w" });
      using live = await house.client({ clientId: "d7.2l", properties: SMALL });
      const { client: kept } = await durable(house, "d7.2k", { properties: SMALL });
      using other = await house.client({ clientId: "d7.2o" });
      for (const client of [live, kept, other]) await subscribed(client, "d7.2/#");
      for (const qos of [0, 1]) {
        await published(writer, "d7.2/x", BIG, { qos, retain: true });
        await published(writer, "d7.2/x/y", "fits", { qos });
        for (const client of [live, kept]) await taken(client, "d7.2/x/y", "fits");
        await taken(other, "d7.2/x", BIG);
        await taken(other, "d7.2/x/y", "fits");
      }
      assert.equal(house.counters.sessionDeliveriesDropped.get("too_large"), before + 4);
      await subscribed(live, "d7.2/x");
      await subscribed(kept, "d7.2/x");
      await nothingMore(live);
      await nothingMore(kept);
      kept.close();
    },

  "D7.2 one unacknowledged from a larger connection is let go": async (house) => {
    using writer = await house.client({ clientId: "d7.2bw" });
    const { client } = await durable(house, "d7.2b");
    await subscribed(client, "d7.2b");
    await published(writer, "d7.2b", BIG);
    await client.expectPublish("d7.2b");
    client.close();
    await house.away("d7.2b");
    await published(writer, "d7.2b", "fits");
    const { client: small } = await durable(house, "d7.2b", { properties: SMALL });
    await taken(small, "d7.2b", "fits");
    await nothingMore(small);
    small.close();
  },

  "D7.3 a job ends its worker's connection 0x95 and goes back with its attempt unspent": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d7.3w" });
    using small = await house.client({ clientId: "d7.3a", properties: SMALL });
    await subscribed(small, "$saguin/queue/jobs");
    await published(writer, "jobs/1", BIG);
    await house.time.pass(200);
    await small.expectClose(0x95);
    using able = await house.client({ clientId: "d7.3b" });
    await subscribed(able, "$saguin/queue/jobs");
    await house.time.pass(400);
    const offer = await taken(able, "jobs/1", BIG);
    assert.deepEqual(property(offer, "saguin-attempt"), ["1"]);
  },

  "D7.4 a group passes a member over that it does not fit, without a word": async (house) => {
    using writer = await house.client({ clientId: "d7.4w" });
    using small = await house.client({ clientId: "d7.4a", properties: SMALL });
    using able = await house.client({ clientId: "d7.4b" });
    for (const client of [small, able]) await subscribed(client, "$share/g/+/d7.4");
    for (const topic of ["plain/d7.4", "log/d7.4"]) {
      for (let i = 0; i < 3; i++) {
        await published(writer, topic, BIG);
        await taken(able, topic, BIG);
      }
      await published(writer, topic, "small");
      await taken(small, topic, "small");
    }
    await nothingMore(small);
    await nothingMore(able);
    able.close();
    await house.away("d7.4b");
    const before = house.counters.sessionDeliveriesDropped.get("no_shared_member");
    await published(writer, "plain/d7.4", BIG);
    assert.equal(house.counters.sessionDeliveriesDropped.get("no_shared_member"), before + 1);
  },

  "D7.4 a group with a durable member holds it for one that it fits": async (house) => {
    using writer = await house.client({ clientId: "d7.4dw" });
    const { client: small } = await durable(house, "d7.4da", { properties: SMALL });
    await subscribed(small, "$share/g/d7.4d/#");
    await published(writer, "d7.4d/x", BIG);
    await published(writer, "d7.4d/x", "behind it");
    await nothingMore(small);
    using able = await house.client({ clientId: "d7.4db" });
    await subscribed(able, "$share/g/d7.4d/#");
    await taken(able, "d7.4d/x", BIG);
    const [next] = await Promise.race([
      small.next().then((packet) => [packet]),
      able.next().then((packet) => [packet]),
    ]);
    assert.equal(next.type, "publish");
    small.close();
  },

  "D7.5 a value replaced while it waited for room is not too large": async (house) => {
    using writer = await house.client({ clientId: "d7.5w" });
    using client = await house.client({
      clientId: "d7.5",
      properties: { ...SMALL, receiveMaximum: 1 },
    });
    await subscribed(client, "values/d7.5/#");
    await published(writer, "values/d7.5/a", "fills the window");
    const first = await client.expectPublish("values/d7.5/a");
    await published(writer, "values/d7.5/b", BIG);
    await published(writer, "values/d7.5/b", "fits");
    await client.puback(first.packetId);
    await taken(client, "values/d7.5/b", "fits");
  },
});
