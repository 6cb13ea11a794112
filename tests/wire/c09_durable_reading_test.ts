/** 06 section 9: subscribing and durable reading, rule by rule, in MQTT 5 and 3.1.1. */
import assert from "node:assert/strict";
import {
  durable,
  left,
  nothingMore,
  published,
  publishedTwice,
  subscribed,
  taken,
  takenAll,
} from "../support/clients.ts";
import { type House, overBoth, property, rules, text } from "../support/house.ts";
import { WireClient } from "../support/wire.ts";

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
const LEVELS = [5, 4] as const;

async function written(house: House, topic: string, ...payloads: string[]): Promise<void> {
  using writer = await house.client({ clientId: `writer of ${topic}` });
  for (const payload of payloads) await published(writer, topic, payload);
}

rules("06 section 9: durable reading", { channels: CHANNELS }, {
  "06 9 each filter has its own code; one refused blocks no other, and the sentence covers the packet":
    async (house) => {
      using client = await house.client({ clientId: "9 codes" });
      await client.subscribe({
        subscriptions: [
          { filter: "log/9", qos: 1 },
          { filter: "jobs/#", qos: 1 },
          { filter: "plain/9", qos: 2 },
        ],
      });
      const { properties } = await client.expectSuback(1, [1, 0x8f, 2]);
      assert.match(properties.reasonString!, /jobs/);
      await written(house, "log/9", "served");
      await taken(client, "log/9", "served");
    },

  "06 9 I11 a wide filter is served from channels and broadcast, never from a queue": async (
    house,
  ) => {
    using client = await house.client({ clientId: "9 wide" });
    await subscribed(client, "+/9 wide");
    for (const kind of ["log", "values", "plain", "jobs"]) {
      await written(house, `${kind}/9 wide`, kind);
    }
    const got = (await takenAll(client, 3)).map(text);
    assert.deepEqual(got, ["log", "values", "plain"]);
    await house.time.pass(400);
    await nothingMore(client);
  },

  "06 9 a capped expiry is told in the CONNACK": async (house) => {
    using client = await WireClient.open(house.port);
    const expiry = Math.floor(house.configuration.limits.maxSessionExpiryMs / 1_000);
    await client.connect({ clientId: "9 capped", properties: { sessionExpiry: expiry + 1 } });
    assert.equal((await client.expectConnack()).properties.sessionExpiry, expiry);
  },

  "06 9.1 the position moves on PUBACK, PUBCOMP or the write at QoS 0, and only contiguously":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "9.1w" });
      const { client } = await durable(house, "9.1");
      const position = () => {
        const channel = house.broker.routes.channel("log");
        assert.ok(channel?.kind === "append");
        return channel.consumer(house.broker.sessions.get("9.1")!)!.position;
      };
      await subscribed(client, "log/9.1/+", 2);
      for (const topic of ["one", "two"]) await published(writer, `log/9.1/${topic}`, topic);
      await publishedTwice(writer, "log/9.1/three", "three");
      const [one, two, three] = [
        await client.expectPublish(),
        await client.expectPublish(),
        await client.expectPublish(),
      ];
      const first = position();
      await client.puback(two.packetId);
      await nothingMore(client);
      assert.equal(position(), first);
      await client.puback(one.packetId);
      await nothingMore(client);
      assert.equal(position(), first + 2);
      await client.pubrec(three.packetId);
      await client.expectPubrel(three.packetId);
      assert.equal(position(), first + 2);
      await client.pubcomp(three.packetId);
      await nothingMore(client);
      assert.equal(position(), first + 3);
      await published(writer, "log/9.1/four", "four", { qos: 0 });
      await client.expectPublish("log/9.1/four", "four");
      assert.equal(position(), first + 4);
      client.close();
    },

  "06 9.2 it is the session's: UNSUBSCRIBE, DISCONNECT, SUBSCRIBE again resume at it": async (
    house,
  ) => {
    for (const level of LEVELS) {
      const id = `9.2 ${level}`;
      const topic = `log/9.2/${level}`;
      const { client } = await durable(house, id, { level });
      await subscribed(client, topic);
      await written(house, topic, "1");
      await taken(client, topic, "1");
      await client.unsubscribe({ filters: [topic] });
      await client.expectUnsuback(1);
      await left(client);
      await written(house, topic, "2", "3");
      const again = await durable(house, id, { level });
      assert.equal(again.present, true);
      await nothingMore(again.client);
      await subscribed(again.client, topic);
      await taken(again.client, topic, "2");
      await taken(again.client, topic, "3");
      again.client.close();
    }
  },

  "06 9.4 06 9.5 unacknowledged ones again with DUP, then what follows; unasked, each once, in order":
    async (house) => {
      for (const level of LEVELS) {
        const id = `9.4 ${level}`;
        const topic = `log/9.4/${level}`;
        const { client } = await durable(house, id, { level });
        await subscribed(client, topic);
        await written(house, topic, "A");
        await client.expectPublish(topic, "A");
        client.close();
        await house.away(id);
        await written(house, topic, "B");
        const again = (await durable(house, id, { level })).client;
        const first = await taken(again, topic, "A");
        const second = await taken(again, topic, "B");
        assert.deepEqual([first.dup, second.dup], [true, false]);
        await nothingMore(again);
        again.close();
      }
    },

  "06 9.6 SUBSCRIBE again neither rewinds nor copies; another filter does not reach back": async (
    house,
  ) => {
    for (const level of LEVELS) {
      const topic = `log/9.6/${level}`;
      using client = await house.client({ level, clientId: `9.6 ${level}` });
      await subscribed(client, topic);
      await written(house, topic, "1");
      const held = await client.expectPublish(topic, "1");
      await subscribed(client, topic);
      await client.unsubscribe({ filters: [topic] });
      await client.expectUnsuback(1);
      await subscribed(client, topic);
      await subscribed(client, `log/9.6/+`);
      await nothingMore(client);
      await written(house, topic, "2");
      await taken(client, topic, "2");
      await client.puback(held.packetId);
      await nothingMore(client);
    }
  },

  "06 9.7 a session without expiry is gone with its connection": async (house) => {
    for (const level of LEVELS) {
      const clientId = `9.7 ${level}`;
      const client = await house.client({ level, clientId });
      await subscribed(client, `plain/9.7`);
      client.close();
      await house.away(clientId);
      const again = await durable(house, clientId, { level });
      assert.equal(again.present, false);
      await written(house, "plain/9.7", "x");
      await nothingMore(again.client);
      again.client.close();
    }
  },

  "06 9.9 nothing comes under a filter after its UNSUBACK": async (house) => {
    for (const topic of ["log/9.9", "values/9.9", "plain/9.9"]) {
      using client = await house.client({
        clientId: "9.9",
        properties: { receiveMaximum: 1 },
      });
      await subscribed(client, topic);
      await written(house, topic, "1", "2", "3");
      const held = await client.expectPublish(topic);
      await client.unsubscribe({ filters: [topic] });
      await client.expectUnsuback(1, [0]);
      await client.puback(held.packetId);
      await nothingMore(client);
    }
  },

  "06 9.10 latest: the state to a SUBSCRIBE, changes to a resumed session, deletions if asked for":
    async (house) => {
      await written(house, "values/9.10/a", "a");
      await written(house, "values/9.10/b", "b");
      const { client } = await durable(house, "9.10");
      await subscribed(client, "values/9.10/+");
      assert.deepEqual((await takenAll(client, 2)).map(text).sort(), ["a", "b"]);
      await left(client);
      await written(house, "values/9.10/a", "changed");
      const again = (await durable(house, "9.10")).client;
      await taken(again, "values/9.10/a", "changed");
      await nothingMore(again);
      await written(house, "values/9.10/b", "");
      await taken(again, "values/9.10/b", "");
      await again.subscribe({
        subscriptions: [{ filter: "values/9.10/+", qos: 1 }],
        properties: { userProperties: [["saguin-deletions", ""]] },
      });
      await again.expectSuback(1, [1]);
      assert.deepEqual((await takenAll(again, 2)).map(text).sort(), ["", "changed"]);
      again.close();
    },

  "06 9.11 broadcast to a durable session: what it missed, and exactly what was unacknowledged":
    async (house) => {
      for (const level of LEVELS) {
        const id = `9.11 ${level}`;
        const topic = `plain/9.11/${level}`;
        const { client } = await durable(house, id, { level });
        await subscribed(client, topic);
        await written(house, topic, "1", "2");
        await taken(client, topic, "1");
        await client.expectPublish(topic, "2");
        client.close();
        await house.away(id);
        await written(house, topic, "3");
        const again = (await durable(house, id, { level })).client;
        assert.deepEqual((await takenAll(again, 2)).map(text), ["2", "3"]);
        await nothingMore(again);
        again.close();
      }
    },

  "06 9.12 a PUBACK for what this connection was not sent is ignored": async (house) => {
    const { client } = await durable(house, "9.12");
    await subscribed(client, "log/9.12");
    for (const id of [1, 2, 65_535]) await client.puback(id);
    await written(house, "log/9.12", "1");
    const { packetId } = await client.expectPublish("log/9.12", "1");
    client.close();
    await house.away("9.12");
    const again = (await durable(house, "9.12")).client;
    await again.puback(packetId + 1);
    await taken(again, "log/9.12", "1");
    await nothingMore(again);
    again.close();
  },

  "06 9.13 PUBACKs held back for minutes only fill the Receive Maximum": async (house) => {
    using client = await house.client({ clientId: "9.13", properties: { receiveMaximum: 3 } });
    await subscribed(client, "log/9.13");
    await written(house, "log/9.13", "1", "2", "3", "4");
    const held = [];
    for (let i = 1; i <= 3; i++) held.push(await client.expectPublish("log/9.13", String(i)));
    await house.time.leap(600_000);
    await nothingMore(client);
    await client.puback(held[0].packetId);
    assert.deepEqual(property(await taken(client, "log/9.13", "4"), "saguin-attempt"), []);
  },
});

overBoth(
  "06 9.3 after a clean DISCONNECT what was acknowledged before it is stored",
  { channels: CHANNELS, snapshots: true },
  async (house) => {
    const { client } = await durable(house, "9.3");
    await subscribed(client, "log/9.3");
    await written(house, "log/9.3", "1", "2");
    await taken(client, "log/9.3", "1");
    await taken(client, "log/9.3", "2");
    await left(client);
    await house.restart();
    await written(house, "log/9.3", "3");
    const again = await durable(house, "9.3");
    assert.equal(again.present, true);
    await taken(again.client, "log/9.3", "3");
    await nothingMore(again.client);
    again.client.close();
  },
);

overBoth(
  "06 9.8 a position below the floor: Session Present 0, and from the start again",
  { channels: CHANNELS.replace("log/#", "log/#\n  retention_period: 10s") },
  async (house) => {
    for (const level of LEVELS) {
      const id = `9.8 ${level}`;
      const { client } = await durable(house, id, { level });
      await subscribed(client, "log/9.8");
      await written(house, "log/9.8", "acknowledged");
      await taken(client, "log/9.8", "acknowledged");
      await left(client);
      await written(house, "log/9.8", "lost");
      await house.time.pass(15_000);
      await house.settled();
      await written(house, "log/9.8", "kept");
      const again = await durable(house, id, { level });
      assert.equal(again.present, false);
      await nothingMore(again.client);
      await subscribed(again.client, "log/9.8");
      await taken(again.client, "log/9.8", "kept");
      await left(again.client);
      await house.time.pass(15_000);
    }
  },
);
