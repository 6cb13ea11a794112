/** 06 section 6: what a worker sees, rule by rule. */
import assert from "node:assert/strict";
import { durable, left, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { type House, overBoth, property, rules, text } from "../support/house.ts";
import { request } from "../support/requests.ts";
import type { Received, WireClient } from "../support/wire.ts";

const CHANNELS = `
jobs:
  type: queue
  filter: jobs/#
  visibility_timeout: 30s
  retry:
    max_attempts: 3
    backoff: linear
    backoff_base: 10s
once:
  type: queue
  filter: once/+
  retry:
    max_attempts: 1
`;
const TICK_MS = 200;
const PIN = "$saguin/queue/jobs";
type Offer = Received<"publish">;

async function worker(house: House, clientId: string, queue = "jobs"): Promise<WireClient> {
  const client = await house.client({ clientId });
  await subscribed(client, `$saguin/queue/${queue}`);
  return client;
}

async function offered(house: House, client: WireClient, payload?: string): Promise<Offer> {
  await house.time.pass(TICK_MS);
  const offer = await client.expectPublish(undefined, payload);
  return offer;
}

/**
 * Answers, and takes the PUBACK, which is success whatever the answer comes to. The next offer, when it
 * came before the PUBACK.
 */
async function answer(client: WireClient, { properties }: Offer, word: string) {
  const { reply, code } = await request(client, properties.responseTopic!, word, {
    correlationData: properties.correlationData,
  });
  assert.equal(code, 0);
  return reply;
}

const attempt = (offer: Offer) => Number(property(offer, "saguin-attempt")[0]);

/** Each rule leaves the queue empty. */
rules("06 section 6: workers", { channels: CHANNELS }, {
  "06 6.1 one form at QoS 1; QoS 2 is granted 1; 3.1.1 is no worker": async (house) => {
    using client = await house.client({ clientId: "6.1" });
    const declared = { userProperties: [["saguin-filter", "topic_hash(2, 0)"] as const] };
    const cases: [string, { qos: number; noLocal?: boolean }, number, boolean?][] = [
      [PIN, { qos: 1 }, 0x01],
      [PIN, { qos: 2 }, 0x01],
      [PIN, { qos: 0 }, 0x83],
      [PIN, { qos: 1, noLocal: true }, 0x8f],
      [PIN + "/x", { qos: 1 }, 0x8f],
      ["$saguin/queue/+", { qos: 1 }, 0x8f],
      ["jobs/x/#", { qos: 1 }, 0x8f],
      [PIN, { qos: 1 }, 0x83, true],
    ];
    for (const [filter, options, code, slices] of cases) {
      await client.subscribe({
        subscriptions: [{ filter, ...options }],
        properties: slices === true ? declared as never : undefined,
      });
      const { properties } = await client.expectSuback(1, [code]);
      assert.equal(properties.reasonString !== undefined, code >= 0x80, filter);
    }
    using old = await house.client({ level: 4, clientId: "6.1 old" });
    await old.subscribe({ subscriptions: [{ filter: PIN, qos: 1 }] });
    await old.expectSuback(1, [0x80]);
  },

  "06 6.2 an offer: the job's own topic, the publisher's headers, the broker's reply address":
    async (
      house,
    ) => {
      using client = await worker(house, "6.2");
      using writer = await house.client({ clientId: "6.2w" });
      await published(writer, "jobs/6.2", "work", {
        properties: {
          responseTopic: "theirs",
          correlationData: new Uint8Array([9]),
          messageExpiry: 60,
          userProperties: [["a", "1"], ["a", "2"]],
        } as never,
      });
      const offer = await offered(house, client, "work");
      assert.deepEqual([offer.topic, offer.qos], ["jobs/6.2", 1]);
      const { responseTopic, correlationData } = offer.properties;
      assert.equal(responseTopic, PIN + "/response");
      assert.ok(correlationData!.length >= 1 && correlationData!.length <= 32);
      assert.deepEqual(property(offer, "a"), ["1", "2"]);
      for (const name of ["id", "offset", "timestamp", "attempt", "expires"]) {
        assert.equal(property(offer, `saguin-${name}`).length, 1, name);
      }
      assert.deepEqual(property(offer, "saguin-channel"), []);
      await answer(client, offer, "ack");
    },

  "06 6.3 06 6.4 one job a worker; an answer brings the next at once, not on the tick": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "6.3w" });
    using one = await worker(house, "6.3 one");
    using two = await worker(house, "6.3 two");
    for (let i = 0; i < 4; i++) await published(writer, "jobs/6.3", String(i));
    await nothingMore(one);
    await house.time.pass(TICK_MS);
    const first = await one.expectPublish();
    const second = await two.expectPublish();
    assert.deepEqual([text(first), text(second)].sort(), ["0", "1"]);
    await house.time.pass(3 * TICK_MS);
    await nothingMore(one);
    const third = await answer(one, first, "ack") ?? await one.expectPublish();
    const fourth = await answer(two, second, "ack") ?? await two.expectPublish();
    assert.deepEqual([text(third), text(fourth)], ["2", "3"]);
    await answer(one, third, "ack");
    await answer(two, fourth, "ack");
  },

  "06 6.5 06 6.8 an answer applies to a current id of its own session, with one of two words":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "6.5w" });
      using client = await worker(house, "6.5");
      using other = await house.client({ clientId: "6.5 other" });
      await published(writer, "jobs/6.5", "work");
      const offer = await offered(house, client, "work");
      await answer(other, offer, "ack");
      for (const word of ["Ack", "ack ", "done", ""]) await answer(client, offer, word);
      const unknown = { ...offer, properties: { ...offer.properties } };
      unknown.properties.correlationData = new Uint8Array([1, 2, 3]);
      await answer(client, unknown, "ack");
      // Still held: nobody else gets it.
      using second = await worker(house, "6.5 second");
      await house.time.pass(TICK_MS);
      await nothingMore(second);
      await answer(client, offer, "ack");
      // And gone.
      client.close();
      await house.away("6.5");
      await house.time.pass(TICK_MS);
      await nothingMore(second);
    },

  "06 6.6 06 6.7 PUBACK and answer in either order; the attempt is spent at the first": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "6.6w" });
    using client = await worker(house, "6.6");
    await published(writer, "jobs/6.6", "answered first");
    const first = await offered(house, client, "answered first");
    await answer(client, first, "ack");
    await client.puback(first.packetId);
    await published(writer, "jobs/6.6", "acknowledged first");
    const second = await offered(house, client, "acknowledged first");
    await client.puback(second.packetId);
    await answer(client, second, "ack");

    // No PUBACK, no answer: unspent. A PUBACK: spent.
    await published(writer, "jobs/6.6", "again");
    const third = await offered(house, client, "again");
    assert.equal(attempt(third), 1);
    client.close();
    await house.away("6.6");
    using next = await worker(house, "6.6 next");
    const fourth = await offered(house, next, "again");
    assert.equal(attempt(fourth), 1);
    await next.puback(fourth.packetId);
    await nothingMore(next);
    next.close();
    await house.away("6.6 next");
    using last = await worker(house, "6.6 last");
    await house.time.pass(10_000);
    const fifth = await offered(house, last, "again");
    assert.equal(attempt(fifth), 2);
    await answer(last, fifth, "ack");
  },

  "06 6.7 I7 the visibility timeout starts at PUBACK": async (house) => {
    using writer = await house.client({ clientId: "6.7w" });
    using client = await worker(house, "6.7");
    await published(writer, "jobs/6.7", "work");
    const offer = await offered(house, client, "work");
    using second = await worker(house, "6.7 second");
    await house.time.pass(29_000);
    await client.puback(offer.packetId);
    await nothingMore(client);
    await house.time.pass(29_000);
    await nothingMore(second);
    await house.time.pass(2_000);
    const again = await second.expectPublish("jobs/6.7", "work");
    assert.equal(attempt(again), 2);
    // The first worker comes too late, and is not told so.
    await answer(client, offer, "ack");
    await answer(second, again, "ack");
  },

  "06 6.9 a returned job waits out its gap, and is stepped over meanwhile": async (house) => {
    using writer = await house.client({ clientId: "6.9w" });
    using client = await worker(house, "6.9");
    await published(writer, "jobs/6.9", "failing");
    const first = await offered(house, client, "failing");
    await answer(client, first, "return");
    await published(writer, "jobs/6.9", "next");
    const next = await offered(house, client, "next");
    await answer(client, next, "ack");
    await house.time.pass(9_000);
    await nothingMore(client);
    await house.time.pass(1_500);
    const second = await client.expectPublish("jobs/6.9", "failing");
    assert.equal(attempt(second), 2);
    await answer(client, second, "return");
    await house.time.pass(19_000);
    await nothingMore(client);
    await house.time.pass(1_500);
    const third = await client.expectPublish("jobs/6.9", "failing");
    assert.equal(attempt(third), 3);
    using reader = await house.client({ clientId: "6.9 letters" });
    await subscribed(reader, "jobs/__dlq/#");
    await answer(client, third, "return");
    const letter = await taken(reader, "jobs/__dlq/6.9", "failing");
    assert.deepEqual(property(letter, "saguin-dlq-reason"), ["attempts_exhausted"]);
    assert.deepEqual(property(letter, "saguin-dlq-attempts"), ["3"]);
    assert.deepEqual(property(letter, "saguin-id"), property(first, "saguin-id"));
    for (const name of ["at", "first", "last"]) {
      const [moment] = property(letter, `saguin-dlq-${name}`);
      assert.match(moment, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d{3}|\.\d{6})?Z$/);
    }
  },

  "06 6.10 a job that is neither acknowledged nor answered stays, also past UNSUBSCRIBE": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "6.10w" });
    using client = await worker(house, "6.10");
    await published(writer, "jobs/6.10", "held");
    const offer = await offered(house, client, "held");
    await client.unsubscribe({ filters: [PIN] });
    await client.expectUnsuback(1, [0]);
    await published(writer, "jobs/6.10", "later");
    using second = await worker(house, "6.10 second");
    const later = await offered(house, second, "later");
    await answer(second, later, "ack");
    await house.time.pass(120_000);
    await nothingMore(second);
    await nothingMore(client);
    await answer(client, offer, "ack");
    await house.time.pass(TICK_MS);
    await nothingMore(second);
  },

  "06 6.11 a connection's end gives its job back; what is sent again on resume is dead": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "6.11w" });
    const { client } = await durable(house, "6.11");
    await subscribed(client, PIN);
    await published(writer, "jobs/6.11", "work");
    const offer = await offered(house, client, "work");
    await left(client);
    using second = await worker(house, "6.11 second");
    const again = await offered(house, second, "work");
    assert.equal(attempt(again), 1);
    const resumed = (await durable(house, "6.11")).client;
    // Sent again by the session, as every unacknowledged packet is; its id is dead.
    await resumed.expectPublish("jobs/6.11", "work");
    await answer(resumed, offer, "ack");
    await house.time.pass(TICK_MS);
    await nothingMore(second);
    await answer(second, again, "ack");
    await house.time.pass(TICK_MS);
    await nothingMore(resumed);
    await left(resumed);
  },

  "06 6.9 max_attempts 1: a dead letter at once, and redriving makes a new job of the same identity":
    async (house) => {
      using writer = await house.client({ clientId: "6 dlq w" });
      using client = await worker(house, "6 dlq", "once");
      await published(writer, "once/x", "work", {
        properties: { userProperties: [["k", "v"], ["saguin-dlq-reason", "forged"]] } as never,
      });
      const offer = await offered(house, client, "work");
      await answer(client, offer, "return");
      using reader = await house.client({ clientId: "6 dlq reader" });
      await subscribed(reader, "once/x/__dlq");
      const letter = await taken(reader, "once/x/__dlq", "work");
      assert.deepEqual(property(letter, "saguin-dlq-reason"), ["attempts_exhausted"]);
      const [id] = property(letter, "saguin-id");
      await published(writer, "once/x", "work", {
        properties: { userProperties: [["k", "v"], ["saguin-id", id]] } as never,
      });
      const redriven = await offered(house, client, "work");
      assert.deepEqual([property(redriven, "saguin-id"), attempt(redriven)], [[id], 1]);
      assert.deepEqual(property(redriven, "saguin-dlq-reason"), []);
      await answer(client, redriven, "ack");
      await writer.publish({ topic: "once/x/__dlq", payload: "x", qos: 1, packetId: 77 });
      await writer.expectPuback(77, 0x87);
    },
});

overBoth(
  "06 6.12 after a restart held jobs are there at once, ids are dead, attempts are kept",
  { channels: CHANNELS, snapshots: true },
  async (house) => {
    using writer = await house.client({ clientId: "w" });
    using client = await worker(house, "worker");
    await published(writer, "jobs/6.12", "work");
    const offer = await offered(house, client, "work");
    await client.puback(offer.packetId);
    await nothingMore(client);
    await house.restart();
    using second = await worker(house, "second");
    const again = await offered(house, second, "work");
    assert.equal(attempt(again), 2);
    assert.notDeepEqual(again.properties.correlationData, offer.properties.correlationData);
    await answer(second, { ...again, properties: offer.properties }, "ack");
    await answer(second, again, "ack");
    await house.time.pass(30_000);
    await nothingMore(second);
  },
);
