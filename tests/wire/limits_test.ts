/** 02a section 13 and 02b section 3.5: what clients may ask for, and what happens at each bound. */
import assert from "node:assert/strict";
import { durable, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { overBoth, rules } from "../support/house.ts";
import { encodePublish, join } from "../support/mqtt_bytes.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

const CHANNELS = "log:\n  type: append\n  filter: log/#";

rules("02b 3.5: limits", {
  channels: CHANNELS,
  limits: `
max_subscriptions: 3
max_topic_levels: 3
max_keepalive: 20s
max_message_size: 1KiB
max_session_expiry: 100s
connect_timeout: 5s
`,
}, {
  "CONNACK announces what is bounded": async (house) => {
    using client = await WireClient.open(house.port);
    await client.connect({
      clientId: "announced",
      keepAlive: 30,
      properties: { sessionExpiry: 200 },
    });
    assert.deepEqual((await client.expectConnack()).properties, {
      sessionExpiry: 100,
      maximumPacketSize: 1_024,
      topicAliasMaximum: 16,
      retainAvailable: 1,
      serverKeepAlive: 20,
    });
    using modest = await WireClient.open(house.port);
    await modest.connect({ clientId: "modest", keepAlive: 10, properties: { sessionExpiry: 50 } });
    const { properties } = await modest.expectConnack();
    assert.deepEqual([properties.serverKeepAlive, properties.sessionExpiry], [
      undefined,
      undefined,
    ]);
  },

  "max_keepalive holds for MQTT 5 clients that ask for more or for none, and not for 3.1.1": async (
    house,
  ) => {
    using none = await WireClient.open(house.port);
    await none.connect({ clientId: "keep0" });
    assert.equal((await none.expectConnack()).properties.serverKeepAlive, 20);
    using old = await house.client({ level: 4, clientId: "keep4", keepAlive: 100 });
    using busy = await house.client({ clientId: "keepb", keepAlive: 10 });
    for (let i = 0; i < 3; i++) {
      await house.time.pass(14_000);
      await nothingMore(busy);
    }
    await none.expectClose(0x8d);
    await nothingMore(old);
    await house.time.pass(15_000);
    await busy.expectClose(0x8d);
    await nothingMore(old);
    await house.time.pass(150_000);
    await old.expectClose();
  },

  "a client that only trickles is silent; one that waits for the broker is not": async (
    house,
    provider,
  ) => {
    using trickles = await house.client({ clientId: "trickles", keepAlive: 10 });
    const bytes = encodePublish({ topic: "t", payload: "x".repeat(20) });
    for (let i = 0; i < 3; i++) {
      await trickles.send(bytes.subarray(i * 4, i * 4 + 4));
      await house.time.pass(5_000);
    }
    await trickles.expectClose(0x8d);
    if (provider === "memory") return;
    using waits = await house.client({ clientId: "waits", keepAlive: 10 });
    const gate = house.faults.hold("submit");
    await waits.publish({ topic: "log/x", qos: 1, packetId: 1 });
    await waits.subscribe({ subscriptions: [{ filter: "t" }] });
    await until("the publish at the store", () => gate.waiting === 1);
    await house.time.pass(100_000);
    gate.open();
    await waits.expectPuback(1);
    await waits.expectSuback(1, [0]);
  },

  "max_subscriptions is judged on what would be held, refuses each filter over it, and frees with UNSUBSCRIBE":
    async (
      house,
    ) => {
      using client = await house.client({ clientId: "subs" });
      await client.subscribe({
        subscriptions: ["a", "b", "a", "$share/g/c", "d", "$SYS/x"].map((filter) => ({ filter })),
      });
      const { properties } = await client.expectSuback(1, [0, 0, 0, 0, 0x97, 0x87]);
      assert.match(properties.reasonString!, /max_subscriptions/);
      await subscribed(client, "a", 1);
      await client.unsubscribe({ filters: ["b"] });
      await client.expectUnsuback(1, [0]);
      await subscribed(client, "d", 1);
      using old = await house.client({ level: 4, clientId: "subs4" });
      await old.subscribe({ subscriptions: ["a", "b", "c", "d"].map((filter) => ({ filter })) });
      await old.expectSuback(1, [0, 0, 0, 0x80]);
    },

  "a client at max_subscriptions is named once until it adds a filter": async (house) => {
    using client = await house.client({ clientId: "full" });
    const said = () =>
      house.lines("refused a subscription").filter(({ fields }) => fields.client === "full")
        .map(({ fields }) => `${fields.filter} ${fields.code}`);
    const ask = async (filters: readonly string[], codes: number[]) => {
      await client.subscribe({ subscriptions: filters.map((filter) => ({ filter })) });
      await client.expectSuback(1, codes);
    };
    await ask(["a", "b", "c", "d", "e"], [0, 0, 0, 0x97, 0x97]);
    assert.deepEqual(said(), ["d 151"]);
    await ask(["d"], [0x97]);
    await ask(["a", "f"], [0, 0x97]);
    assert.deepEqual(said(), ["d 151"]);
    // Another refusal is said beside it.
    await ask(["g", "$SYS/x"], [0x97, 0x87]);
    assert.deepEqual(said(), ["d 151", "$SYS/x 135"]);
    await client.unsubscribe({ filters: ["a"] });
    await client.expectUnsuback(1, [0]);
    await ask(["h", "i"], [0, 0x97]);
    assert.deepEqual(said(), ["d 151", "$SYS/x 135", "i 151"]);
  },

  "max_topic_levels holds for filters, measured behind a ShareName, and not for UNSUBSCRIBE":
    async (house) => {
      using client = await house.client({ clientId: "levels" });
      await client.subscribe({
        subscriptions: ["1/2/3", "1/2/3/4", "$share/g/1/2/3"].map((filter) => ({ filter })),
      });
      await client.expectSuback(1, [0, 0x8f, 0]);
      await client.unsubscribe({ filters: ["1/2/3/4/5"] });
      await client.expectUnsuback(1, [0x11]);
      using old = await house.client({ level: 4, clientId: "levels4" });
      await old.subscribe({ subscriptions: [{ filter: "1/2/3/4" }, { filter: "a" }] });
      await old.expectSuback(1, [0x80, 0]);
    },

  "connect_timeout closes who sends no CONNECT, and does not run while one is being served": async (
    house,
  ) => {
    using silent = await WireClient.open(house.port);
    await until("the connection to be accepted", async () => {
      await house.time.pass(0);
      return true;
    });
    await new Promise((resolve) => setTimeout(resolve, 50));
    await house.time.pass(5_000);
    await silent.expectClose();
    using half = await WireClient.open(house.port);
    await half.send(new Uint8Array([0x10, 30, 0, 4]));
    await new Promise((resolve) => setTimeout(resolve, 50));
    await house.time.pass(5_000);
    await half.expectClose();
    const gate = house.faults.hold("sessions.begin");
    using slow = await WireClient.open(house.port);
    await slow.connect({ clientId: "slow", properties: { sessionExpiry: 50 } });
    await until("the CONNECT at the store", () => gate.waiting === 1);
    await house.time.pass(20_000);
    gate.open();
    await slow.expectConnack();
  },

  "UNSUBSCRIBE of what is not held is 0x11; a store that cannot forget keeps the filter": async (
    house,
  ) => {
    const { client } = await durable(house, "forget");
    await subscribed(client, "t");
    house.faults.refuse("sessions.save", "failed", 1);
    await client.unsubscribe({ filters: ["t"] });
    await client.expectUnsuback(1, [0x83]);
    await published(client, "t", "still subscribed", { qos: 0 });
    await taken(client, "t", "still subscribed");
    await client.unsubscribe({ filters: ["t", "none"] });
    await client.expectUnsuback(1, [0, 0x11]);
    client.close();
    const { client: old } = await durable(house, "forget4", { level: 4 });
    await subscribed(old, "t");
    house.faults.refuse("sessions.save", "failed", 1);
    await old.unsubscribe({ filters: ["t"] });
    await old.expectClose();
  },

  "a SUBSCRIBE that the store cannot keep is refused whole, and the session is as it was": async (
    house,
  ) => {
    const { client } = await durable(house, "keeps");
    for (const [kind, code] of [["full", 0x97], ["failed", 0x83]] as const) {
      house.faults.refuse("sessions.save", kind, 1);
      await client.subscribe({
        subscriptions: [{ filter: "t" }, { filter: "u" }, { filter: "$SYS/x" }],
      });
      await client.expectSuback(1, [code, code, 0x87]);
    }
    await published(client, "t", "not subscribed");
    await nothingMore(client);
    client.close();
  },
});

overBoth(
  "publish_rate refuses what is over it, keeps the connection, and its budget outlives reconnects",
  {
    channels: CHANNELS,
    limits: "publish_rate: 5",
  },
  async (house) => {
    const publish = async (client: WireClient, count: number, qos = 1) => {
      const codes: number[] = [];
      for (let i = 1; i <= count; i++) {
        await client.publish({ topic: "$SYS/refused anyway", qos, packetId: i });
        const packet = await client.next();
        assert.ok(packet.type === "puback" || packet.type === "pubrec");
        codes.push(packet.reasonCode);
      }
      return codes;
    };
    using first = await house.client({ clientId: "a" });
    assert.deepEqual(await publish(first, 7), [0x87, 0x87, 0x87, 0x87, 0x87, 0x97, 0x97]);
    first.close();
    using again = await house.client({ clientId: "a" });
    assert.deepEqual(await publish(again, 1), [0x97]);
    using other = await house.client({ clientId: "b" });
    assert.deepEqual(await publish(other, 1), [0x87]);
    await house.time.pass(200);
    assert.deepEqual(await publish(again, 2, 2), [0x87, 0x97]);
    await again.publish({ topic: "t", qos: 0 });
    await nothingMore(again);
    await house.time.pass(5_000);
    assert.deepEqual(await publish(again, 6), [0x87, 0x87, 0x87, 0x87, 0x87, 0x97]);
    using old = await house.client({ level: 4, clientId: "a4" });
    for (let i = 1; i <= 5; i++) await published(old, "t", "p");
    await old.publish({ topic: "t", qos: 0 });
    await nothingMore(old);
    await old.publish({ topic: "t", qos: 1 });
    await old.expectClose();
  },
);

overBoth("publish_bytes admits one message whatever its size, and drives into deficit", {
  channels: CHANNELS,
  limits: "publish_bytes: 1KiB",
}, async (house) => {
  using client = await house.client({ clientId: "a" });
  await published(client, "log/x", "x".repeat(3_000));
  await client.publish({ topic: "log/x", qos: 1, packetId: 5 });
  const { properties } = await client.expectPuback(5, 0x97);
  assert.match(properties.reasonString!, /publish_bytes/);
  await house.time.pass(1_500);
  await client.publish({ topic: "log/x", qos: 1, packetId: 5 });
  await client.expectPuback(5, 0x97);
  await house.time.pass(1_000);
  await published(client, "log/x", "in credit again");
});

overBoth("large publishes sent without waiting are bounded and served, their answers in order", {
  channels: CHANNELS,
}, async (house) => {
  using client = await house.client({ clientId: "a" });
  const payload = "x".repeat(700_000);
  const packets = Array.from(
    { length: 6 },
    (_, i) =>
      encodePublish({ topic: i % 2 === 0 ? "log/x" : "plain", payload, qos: 1, packetId: i + 1 }),
  );
  const sending = client.send(join(...packets));
  for (let id = 1; id <= 6; id++) await client.expectPuback(id);
  await sending;
});

overBoth("02a 13.6 13.7 lowered limits take nothing from a session that comes back", {
  limits: "max_subscriptions: 3\nmax_topic_levels: 3",
  snapshots: true,
}, async (house) => {
  const { client } = await durable(house, "kept");
  for (const filter of ["a", "b", "c/d/#"]) await subscribed(client, filter, 1);
  client.close();
  await house.away("kept");
  house.change({ limits: "max_subscriptions: 1\nmax_topic_levels: 2" });
  await house.restart();
  const { client: back, present } = await durable(house, "kept");
  assert.equal(present, true);
  using writer = await house.client({ clientId: "writer" });
  for (const topic of ["a", "b", "c/d"]) {
    await published(writer, topic, "x");
    await taken(back, topic, "x");
  }
  await subscribed(back, "a", 1);
  await back.subscribe({ subscriptions: [{ filter: "e" }, { filter: "c/d/#" }] });
  await back.expectSuback(1, [0x97, 0x8f]);
  back.close();
});

overBoth("02a 9 13.7 max_topic_levels is about neither dead letters nor the topics of the broker", {
  channels: "jobs: {type: queue, filter: d/+, retry: {max_attempts: 1}}",
  limits: "max_topic_levels: 2",
}, async (house) => {
  using writer = await house.client({ clientId: "writer" });
  await published(writer, "d/x", "work");
  using worker = await house.client({ clientId: "worker" });
  await subscribed(worker, "$saguin/queue/jobs");
  await house.time.pass(200);
  const { properties: { responseTopic, correlationData } } = await taken(worker);
  await published(worker, responseTopic!, "return", { properties: { correlationData } });
  using reader = await house.client({ clientId: "reader" });
  await reader.subscribe({ subscriptions: [{ filter: "d/x/__dlq" }] });
  await reader.expectSuback(1, [0x8f]);
  for (const filter of ["$saguin/consumer/jobs__dlq/seek/reply", "d/#"]) {
    await subscribed(reader, filter, 1);
  }
  await taken(reader, "d/x/__dlq", "work");
});

overBoth("02a 6 of a filter that is repeated in one SUBSCRIBE ten thousand are granted", {
  limits: "max_subscriptions: 3",
}, async (house) => {
  using client = await house.client({ clientId: "repeats" });
  await client.subscribe({
    subscriptions: Array.from({ length: 10_002 }, () => ({ filter: "t" })),
  });
  const { reasonCodes } = await client.expect("suback");
  assert.equal(reasonCodes.lastIndexOf(0), 9_999);
  assert.deepEqual(reasonCodes.slice(9_999), [0, 0x97, 0x97]);
  await published(client, "t", "once", { qos: 0 });
  await taken(client, "t", "once");
});
