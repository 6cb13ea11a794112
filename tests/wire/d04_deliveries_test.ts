/** 03 section 4 and 06 section 7: what a delivery carries. */
import assert from "node:assert/strict";
import {
  durable,
  nothingMore,
  published,
  publishedTwice,
  subscribed,
  taken,
} from "../support/clients.ts";
import { type House, property, rules, text } from "../support/house.ts";
import type { WireClient } from "../support/wire.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
other:
  type: append
  filter: other/#
values:
  type: latest
  filter: values/#
jobs:
  type: queue
  filter: jobs/#
  retry:
    max_attempts: 1
`;

/** A client that reads `filter`, and its first delivery. */
async function reading(
  house: House,
  clientId: string,
  filter: string,
  qos = 1,
): Promise<WireClient> {
  const client = await house.client({ clientId });
  await subscribed(client, filter, qos);
  return client;
}

rules("03 section 4: what a delivery carries", { channels: CHANNELS }, {
  "D4.1 the receipt time in Unix milliseconds, on every channel delivery": async (house) => {
    using writer = await house.client({ clientId: "d4.1w" });
    const received = String(house.time.wall() / 1_000_000n);
    for (const topic of ["log/d4.1", "values/d4.1"]) await published(writer, topic, "p");
    await house.time.pass(5_000);
    for (const topic of ["log/d4.1", "values/d4.1"]) {
      using reader = await reading(house, "d4.1r", topic);
      assert.deepEqual(property(await taken(reader, topic), "saguin-timestamp"), [received]);
    }
  },

  "I2 D4.2 D4.10 the expiry's moment stays when its countdown is over, and the record is delivered":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d4.2w" });
      const now = Number(house.time.wall() / 1_000_000n);
      for (const topic of ["log/d4.2", "values/d4.2"]) {
        await published(writer, topic, "p", { properties: { messageExpiry: 10 } });
      }
      await house.time.leap(4_000);
      for (const [left, wait] of [[6, 20_000], [undefined, 0]] as const) {
        for (const topic of ["log/d4.2", "values/d4.2"]) {
          using reader = await reading(house, "d4.2r", topic);
          const got = await taken(reader, topic, "p");
          assert.equal(got.properties.messageExpiry, left);
          assert.deepEqual(property(got, "saguin-expires"), [String(now + 10_000)]);
        }
        await house.time.leap(wait);
      }
    },

  "D4.3 no expiry and no Subscription Identifier that nobody set": async (house) => {
    using writer = await house.client({ clientId: "d4.3w" });
    for (const topic of ["log/d4.3", "values/d4.3", "plain/d4.3"]) {
      using reader = await reading(house, "d4.3r", topic);
      await published(writer, topic, "p");
      const { properties } = await taken(reader, topic);
      assert.equal(properties.messageExpiry, undefined);
      assert.equal(properties.subscriptionIdentifiers, undefined);
      assert.equal(property({ properties }, "saguin-expires").length, 0);
    }
  },

  "D4.4 the channel's name only where the filter reaches more than one": async (house) => {
    using writer = await house.client({ clientId: "d4.4w" });
    await published(writer, "log/d4.4", "p");
    await published(writer, "values/d4.4", "p");
    await published(writer, "plain/d4.4", "p", { retain: true });
    using several = await reading(house, "d4.4s", "+/d4.4");
    const names: Record<string, string[]> = {};
    for (let i = 0; i < 3; i++) {
      const got = await taken(several);
      names[got.topic] = property(got, "saguin-channel");
    }
    assert.deepEqual(names, { "log/d4.4": ["log"], "values/d4.4": ["values"], "plain/d4.4": [] });
    using one = await reading(house, "d4.4o", "log/#");
    for (;;) {
      const got = await taken(one);
      assert.deepEqual(property(got, "saguin-channel"), []);
      if (got.topic === "log/d4.4") break;
    }
  },

  "D4.5 a dead letter may carry its own channel's name beside its queue's": async (house) => {
    using writer = await house.client({ clientId: "d4.5w" });
    await published(writer, "jobs/d4.5", "p");
    using worker = await house.client({ clientId: "d4.5k" });
    await subscribed(worker, "$saguin/queue/jobs");
    await house.time.pass(200);
    const offer = await taken(worker, "jobs/d4.5");
    await worker.publish({
      topic: offer.properties.responseTopic!,
      payload: "return",
      qos: 1,
      packetId: 9,
      properties: { correlationData: offer.properties.correlationData },
    });
    await worker.expectPuback(9);
    using reader = await reading(house, "d4.5r", "jobs/__dlq/#");
    const letter = await taken(reader, "jobs/__dlq/d4.5");
    assert.deepEqual(property(letter, "saguin-channel"), []);
    assert.deepEqual(property(letter, "saguin-dlq-channel"), ["jobs"]);
    using all = await reading(house, "d4.5a", "+/+/d4.5");
    const again = await taken(all, "jobs/__dlq/d4.5");
    assert.deepEqual(property(again, "saguin-channel"), ["jobs__dlq"]);
    assert.deepEqual(property(again, "saguin-dlq-channel"), ["jobs"]);
  },

  "D4.6 several matching subscriptions, one copy: the highest QoS, every identifier, RAP if any asked":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d4.6w" });
      using client = await house.client({ clientId: "d4.6" });
      for (
        const [filter, qos, identifier, retainAsPublished] of [
          ["+/d4.6", 0, 11, false],
          ["+/d4.6/#", 2, 12, true],
          ["log/d4.6", 1, undefined, false],
        ] as const
      ) {
        await client.subscribe({
          subscriptions: [{ filter, qos, retainAsPublished }],
          properties: identifier === undefined ? {} : { subscriptionIdentifiers: [identifier] },
        });
        await client.expectSuback(1, [qos]);
      }
      for (const topic of ["log/d4.6", "values/d4.6", "plain/d4.6"]) {
        await publishedTwice(writer, topic, "p", { retain: true });
        const got = await taken(client, topic, "p");
        assert.deepEqual(
          [got.qos, got.retain, [...got.properties.subscriptionIdentifiers!].sort()],
          [2, true, [11, 12]],
          topic,
        );
      }
      await nothingMore(client);
    },

  "D4.7 an offer has the queue's Response Topic and Correlation Data; stored are the publisher's":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d4.7w" });
      await published(writer, "jobs/d4.7", "p", {
        properties: {
          responseTopic: "mine",
          correlationData: new Uint8Array([1, 2]),
          contentType: "t",
        },
      });
      using worker = await house.client({ clientId: "d4.7k" });
      await subscribed(worker, "$saguin/queue/jobs");
      await house.time.pass(200);
      const offer = await taken(worker, "jobs/d4.7");
      assert.equal(offer.properties.responseTopic, "$saguin/queue/jobs/response");
      assert.equal(offer.properties.contentType, "t");
      assert.ok(offer.properties.correlationData!.length <= 32);
      await worker.publish({
        topic: "$saguin/queue/jobs/response",
        payload: "return",
        qos: 1,
        packetId: 9,
        properties: { correlationData: offer.properties.correlationData },
      });
      await worker.expectPuback(9);
      using reader = await reading(house, "d4.7r", "jobs/__dlq/d4.7");
      const letter = await taken(reader);
      assert.equal(letter.properties.responseTopic, "mine");
      assert.deepEqual([...letter.properties.correlationData!], [1, 2]);
    },

  "D4.8 a 3.1.1 subscriber gets topic, payload and flags, of every kind": async (house) => {
    using writer = await house.client({ clientId: "d4.8w" });
    const options = { properties: { contentType: "t", messageExpiry: 100 } };
    for (const topic of ["log/d4.8", "values/d4.8"]) await published(writer, topic, "p", options);
    await published(writer, "plain/d4.8", "p", { ...options, retain: true });
    using reader = await house.client({ level: 4, clientId: "d4.8r" });
    await subscribed(reader, "+/d4.8");
    const retained: Record<string, boolean> = {};
    for (let i = 0; i < 3; i++) {
      const got = await taken(reader, undefined, "p");
      assert.deepEqual(got.properties, {});
      retained[got.topic] = got.retain;
    }
    assert.deepEqual(retained, { "log/d4.8": false, "values/d4.8": true, "plain/d4.8": true });
  },

  "D4.9 SUBACK comes before anything that the SUBSCRIBE earns": async (house, provider) => {
    using writer = await house.client({ clientId: "d4.9w" });
    for (const topic of ["log/d4.9", "values/d4.9"]) await published(writer, topic, "old");
    await published(writer, "plain/d4.9", "old", { retain: true });
    const { client } = await durable(house, "d4.9");
    const gate = house.faults.hold("sessions.save");
    await client.subscribe({ subscriptions: [{ filter: "+/d4.9", qos: 1 }] });
    await published(writer, "log/d4.9", "in the gap");
    await published(writer, "plain/d4.9", "in the gap");
    if (provider === "sqlite") await client.expectSilence(30);
    gate.open();
    await client.expectSuback(1, [1]);
    const seen: string[] = [];
    for (let i = 0; i < 4; i++) {
      const got = await taken(client);
      seen.push(`${got.topic} ${text(got)}`);
    }
    assert.ok(seen.includes("log/d4.9 in the gap"));
    assert.deepEqual(seen.filter((each) => each.startsWith("log")), [
      "log/d4.9 old",
      "log/d4.9 in the gap",
    ]);
    client.close();
  },

  "D4.11 a job past its publisher's expiry is offered all the same": async (house) => {
    using writer = await house.client({ clientId: "d4.11w" });
    await published(writer, "jobs/d4.11", "p", { properties: { messageExpiry: 5 } });
    await house.time.leap(10_000);
    using worker = await house.client({ clientId: "d4.11k" });
    await subscribed(worker, "$saguin/queue/jobs");
    await house.time.pass(200);
    const offer = await taken(worker, "jobs/d4.11");
    assert.equal(offer.properties.messageExpiry, undefined);
    assert.equal(property(offer, "saguin-expires").length, 1);
  },
});
