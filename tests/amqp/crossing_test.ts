/** `amq.topic` and MQTT topics, both ways (07 section 10). */
import assert from "node:assert/strict";
import { Acl } from "../../src/auth/acl/acl.ts";
import { readAcl } from "../../src/auth/acl/read.ts";
import { Findings } from "../../src/config/finding.ts";
import { until } from "../support/wait.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { type AmqpClient, text } from "./support/client.ts";
import { AmqpHouse } from "./support/house.ts";

const PERSISTENT: amqp.Publish = { properties: amqp.PERSISTENT };

const CHANNELS = `
readings:
  type: append
  filter: plant/readings/#
state:
  type: latest
  filter: plant/state/#
jobs:
  type: queue
  filter: plant/jobs/#
`;

/** A durable queue bound to `amq.topic` under `key`. */
async function bound(house: AmqpHouse, queue: string, key: string): Promise<AmqpClient> {
  const client = await house.client();
  await client.declare(queue, { durable: true });
  await client.call(amqp.queueBind(1, queue, "amq.topic", key), "bind-ok");
  return client;
}

Deno.test("B1, B2 an MQTT publish reaches the queues bound with its key, QoS 1 as delivery-mode 2", async () => {
  await using house = await AmqpHouse.open();
  using worker = await bound(house, "alerts", "plant.*.temp");
  using other = await bound(house, "all", "plant.#");
  using sensor = await house.house.client();
  await sensor.publish({ topic: "plant/kiln/temp", payload: "412", qos: 1, packetId: 1 });
  await sensor.expectPuback(1);
  await sensor.publish({ topic: "plant/kiln/rpm", payload: "1480", qos: 0 });
  await until("both", async () => (await other.declare("all", { durable: true })).messages === 2);
  const received = await worker.get("alerts");
  assert.deepEqual(
    [received.exchange, received.key, text(received), received.redelivered],
    ["amq.topic", "plant.kiln.temp", "412", false],
  );
  assert.deepEqual(received.properties, Uint8Array.of(0x10, 0x00, 0x02));
  assert.equal((await worker.get("alerts")).name, "get-empty");
  const [first, second] = [await other.get("all"), await other.get("all")];
  assert.deepEqual([text(first), text(second)], ["412", "1480"]);
  assert.deepEqual(second.properties, Uint8Array.of(0, 0));
});

Deno.test("B1 broadcasts, append and latest topics cross; jobs and dead letters do not", async () => {
  await using house = await AmqpHouse.open({ channels: CHANNELS });
  using worker = await bound(house, "all", "#");
  using client = await house.house.client();
  const topics = ["plant/other", "plant/readings/a", "plant/state/a", "plant/jobs/a"];
  for (const [i, topic] of topics.entries()) {
    await client.publish({ topic, payload: topic, qos: 1, packetId: i + 1 });
    await client.expectPuback(i + 1);
  }
  assert.deepEqual(await worker.drain("all"), topics.slice(0, 3));
});

Deno.test("T1, P1, B8 a PUBACK covers the copies: one transaction, nothing before it", async () => {
  await using house = await AmqpHouse.open({ channels: CHANNELS });
  using worker = await bound(house, "all", "plant.#");
  using client = await house.house.client();
  for (const topic of ["plant/readings/a", "plant/state/a", "plant/nobody"]) {
    const before = house.provider.statistics().commits;
    const gate = house.house.faults.hold("submit");
    await client.publish({ topic, payload: "x", qos: 1, packetId: 1 });
    await until("the publish to wait", () => gate.waiting === 1);
    assert.equal((await worker.declare("all", { durable: true })).messages, 0);
    gate.open();
    await client.expectPuback(1);
    assert.equal(house.provider.statistics().commits, before + 1, topic);
    assert.equal((await worker.get("all", true)).key, topic.replaceAll("/", "."));
    await house.time.pass(200);
  }
});

Deno.test("T4 a store that fails withholds the PUBACK and leaves no copy", async () => {
  await using house = await AmqpHouse.open({ channels: CHANNELS });
  using worker = await bound(house, "all", "plant.#");
  using client = await house.house.client();
  for (const [kind, code] of [["failed", 0x83], ["full", 0x97]] as const) {
    for (const topic of ["plant/readings/a", "plant/nobody"]) {
      house.house.faults.refuse("submit", kind, 1);
      await client.publish({ topic, payload: "x", qos: 1, packetId: 1 });
      await client.expectPuback(1, code);
    }
  }
  assert.equal((await worker.get("all")).name, "get-empty");
  await client.publish({ topic: "plant/nobody", payload: "y", qos: 1, packetId: 2 });
  await client.expectPuback(2);
  assert.deepEqual(await worker.drain("all"), ["y"]);
});

Deno.test("P5 at QoS 2 copies appear at PUBREL, once, in the transaction of the release", async () => {
  await using house = await AmqpHouse.open({ channels: CHANNELS });
  using worker = await bound(house, "all", "plant.#");
  using client = await house.house.client();
  for (const topic of ["plant/readings/a", "plant/nobody"]) {
    await client.publish({ topic, payload: topic, qos: 2, packetId: 1 });
    await client.expectPubrec(1);
    await client.publish({ topic, payload: topic, qos: 2, packetId: 1, dup: true });
    await client.expectPubrec(1);
    assert.equal((await worker.get("all")).name, "get-empty");
    const before = house.provider.statistics().commits;
    await client.pubrel(1);
    await client.expectPubcomp(1);
    assert.equal(house.provider.statistics().commits, before + 1);
    const received = await worker.get("all", true);
    assert.deepEqual([text(received), received.properties], [topic, Uint8Array.of(0x10, 0, 2)]);
    assert.equal((await worker.get("all")).name, "get-empty");
  }
});

Deno.test("14.7 readings sent while the worker is down are in its queue after a kill, binding and all", async () => {
  await using house = await AmqpHouse.open();
  (await bound(house, "alerts", "sensors.*.temp")).cut();
  await house.connections(0);
  using sensor = await house.house.client();
  for (const [i, payload] of ["92.8", "95.1"].entries()) {
    await sensor.publish({ topic: "sensors/boiler/temp", payload, qos: 1, packetId: i + 1 });
    await sensor.expectPuback(i + 1);
  }
  await using after = await house.killed();
  using worker = await after.client();
  assert.deepEqual(await worker.drain("alerts"), ["92.8", "95.1"]);
  using again = await after.house.client();
  await again.publish({ topic: "sensors/boiler/temp", payload: "97", qos: 1, packetId: 1 });
  await again.expectPuback(1);
  assert.deepEqual(await worker.drain("alerts"), ["97"]);
});

Deno.test("B3 an AMQP publish to amq.topic comes out as MQTT, durable subscribers and channels included", async () => {
  await using house = await AmqpHouse.open({ channels: CHANNELS });
  using live = await house.house.client({ clientId: "live" });
  await live.subscribe({ packetId: 1, subscriptions: [{ filter: "devices/+/cmd", qos: 1 }] });
  await live.expectSuback(1, [1]);
  using publisher = await house.client();
  await publisher.call(amqp.confirmSelect(1), "select-ok");
  await publisher.send(
    amqp.publish(1, "amq.topic", "devices.valve7.cmd", '{"open":false}', PERSISTENT),
    amqp.publish(1, "amq.topic", "devices.valve7.cmd", "transient"),
    amqp.publish(1, "amq.topic", "plant.readings.a", "record", PERSISTENT),
    amqp.publish(1, "amq.direct", "devices.valve7.cmd", "does not cross"),
  );
  assert.equal((await publisher.expect("ack")).delivery >= 1, true);
  const one = await live.expectPublish();
  assert.deepEqual([one.topic, one.qos, one.retain, new TextDecoder().decode(one.payload)], [
    "devices/valve7/cmd",
    1,
    false,
    '{"open":false}',
  ]);
  await live.puback(one.packetId!);
  const two = await live.expectPublish();
  assert.deepEqual([two.qos, new TextDecoder().decode(two.payload)], [0, "transient"]);
  await live.expectSilence(50);
  await until(
    "the record",
    () => house.rows("SELECT topic FROM records WHERE channel = 'readings'").length === 1,
  );
  assert.equal(
    house.rows("SELECT topic FROM records WHERE channel = 'readings'")[0].topic,
    "plant/readings/a",
  );
});

Deno.test("B4 nothing crosses twice: no echo on either side", async () => {
  await using house = await AmqpHouse.open();
  using worker = await bound(house, "all", "#");
  using client = await house.house.client();
  await client.subscribe({ packetId: 1, subscriptions: [{ filter: "#", qos: 1 }] });
  await client.expectSuback(1, [1]);
  await worker.send(amqp.publish(1, "amq.topic", "from.amqp", "a", PERSISTENT));
  const first = await client.expectPublish();
  await client.puback(first.packetId!);
  await client.publish({ topic: "from/mqtt", payload: "m", qos: 1, packetId: 1 });
  await client.expectPuback(1);
  const second = await client.expectPublish();
  assert.deepEqual([first.topic, second.topic], ["from/amqp", "from/mqtt"]);
  await client.expectSilence(50);
  assert.deepEqual(await worker.drain("all"), ["a", "m"]);
});

Deno.test("B8 a confirm covers the MQTT copies: one transaction for queue, log and channel", async () => {
  await using house = await AmqpHouse.open({ channels: CHANNELS });
  using durable = await house.house.client({ clientId: "d", properties: { sessionExpiry: 600 } });
  await durable.subscribe({ packetId: 1, subscriptions: [{ filter: "a/#", qos: 1 }] });
  await durable.expectSuback(1, [1]);
  durable[Symbol.dispose]();
  await house.house.away("d");
  using worker = await bound(house, "all", "#");
  await worker.call(amqp.confirmSelect(1), "select-ok");
  for (const [i, key] of ["a.b", "plant.readings.x"].entries()) {
    const before = house.provider.statistics().commits;
    await worker.send(amqp.publish(1, "amq.topic", key, key, PERSISTENT));
    assert.equal((await worker.expect("ack")).delivery, i + 1);
    assert.equal(house.provider.statistics().commits, before + 1);
  }
  assert.equal(
    house.rows("SELECT offset FROM records WHERE channel = '$saguin/broadcast'").length,
    1,
  );
  assert.equal(house.rows("SELECT offset FROM records WHERE channel = 'readings'").length, 1);
  assert.equal(house.rows("SELECT * FROM amqp_msg").length, 2);
  house.house.faults.refuse("submit", "failed", 1);
  await worker.send(amqp.publish(1, "amq.topic", "a.b", "lost", PERSISTENT));
  assert.equal((await worker.expect("nack")).delivery, 3);
  assert.equal(house.rows("SELECT * FROM amqp_msg").length, 2);
});

Deno.test("B7 for mandatory an MQTT subscription and a claiming channel count as routed", async () => {
  await using house = await AmqpHouse.open({ channels: CHANNELS });
  using client = await house.house.client();
  await client.subscribe({ packetId: 1, subscriptions: [{ filter: "heard/#", qos: 0 }] });
  await client.expectSuback(1, [0]);
  using publisher = await house.client();
  const mandatory = (key: string) => amqp.publish(1, "amq.topic", key, key, { mandatory: true });
  await publisher.send(mandatory("heard.a"), mandatory("plant.state.a"), mandatory("unheard"));
  assert.equal((await publisher.expect("return")).key, "unheard");
});

Deno.test("B5 what cannot cross is counted, and otherwise normal", async () => {
  await using house = await AmqpHouse.open();
  using worker = await bound(house, "all", "#");
  await worker.call(amqp.confirmSelect(1), "select-ok");
  using client = await house.house.client();
  const { counters } = house.amqp.host;
  await client.publish({ topic: "a/" + "x".repeat(254), payload: "long", qos: 1, packetId: 1 });
  await client.expectPuback(1);
  await client.publish({ topic: "$other/a", payload: "reserved", qos: 1, packetId: 2 });
  await client.expectPuback(2);
  assert.equal(counters.skippedFromMqtt.get("key_too_long"), 1);
  assert.equal(counters.skippedFromMqtt.get("reserved_topic"), 1);
  const keys = ["", "a.+", "a.#", "a\0b", "$x.y", new Array(250).fill("a").join(".").slice(0, 250)];
  for (const key of keys) await worker.send(amqp.publish(1, "amq.topic", key, key, PERSISTENT));
  for (let tag = 0; tag < keys.length;) tag = (await worker.expect("ack")).delivery;
  assert.equal(counters.skippedToMqtt.get("no_topic"), 4);
  assert.equal(counters.skippedToMqtt.get("reserved_topic"), 1);
  assert.deepEqual(await worker.drain("all"), keys);
});

Deno.test("B6 a dot in a topic and a slash in a key are what they are on the other side, and do not map back", async () => {
  await using house = await AmqpHouse.open();
  using worker = await bound(house, "all", "#");
  using narrow = await bound(house, "narrow", "plant.*");
  using client = await house.house.client();
  await client.subscribe({ packetId: 1, subscriptions: [{ filter: "#", qos: 0 }] });
  await client.expectSuback(1, [0]);
  await client.publish({ topic: "plant/kiln.temp", payload: "from MQTT", qos: 1, packetId: 2 });
  await client.expectPuback(2);
  assert.equal((await client.expectPublish()).topic, "plant/kiln.temp");
  assert.equal((await worker.get("all", true)).key, "plant.kiln.temp");
  assert.equal((await narrow.get("narrow")).name, "get-empty", "three words by then");
  await worker.send(amqp.publish(1, "amq.topic", "plant/kiln.temp", "from AMQP"));
  assert.equal((await client.expectPublish()).topic, "plant/kiln/temp");
  assert.equal((await worker.get("all", true)).key, "plant/kiln.temp");
  assert.equal((await narrow.get("narrow")).name, "get-empty", "`plant/kiln` is one word");
});

Deno.test("B9 a retained clear crosses as an empty body; retained values are not replayed", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.house.client();
  await client.publish({ topic: "r/a", payload: "kept", qos: 1, packetId: 1, retain: true });
  await client.expectPuback(1);
  using worker = await bound(house, "all", "r.#");
  assert.equal((await worker.get("all")).name, "get-empty");
  await client.publish({ topic: "r/a", payload: "", qos: 1, packetId: 2, retain: true });
  await client.expectPuback(2);
  const received = await worker.get("all");
  assert.deepEqual([received.name, received.body!.length], ["get-ok", 0]);
});

Deno.test("a binary payload crosses intact both ways", async () => {
  await using house = await AmqpHouse.open();
  const body = new Uint8Array(70_000).map((_, i) => i * 31);
  using worker = await bound(house, "all", "b.#");
  using client = await house.house.client();
  await client.publish({ topic: "b/in", payload: body, qos: 1, packetId: 1 });
  await client.expectPuback(1);
  assert.deepEqual((await worker.get("all")).body, body);
  await client.subscribe({ packetId: 2, subscriptions: [{ filter: "b/out", qos: 0 }] });
  await client.expectSuback(2, [0]);
  await worker.send(amqp.publish(1, "amq.topic", "b.out", body));
  assert.deepEqual((await client.expectPublish()).payload, body);
});

Deno.test("P9 a Will crosses", async () => {
  await using house = await AmqpHouse.open();
  using worker = await bound(house, "all", "#");
  const client = await house.house.client({
    clientId: "w",
    will: { topic: "gone/w", payload: "bye", qos: 1 },
  });
  client[Symbol.dispose]();
  await until(
    "the Will",
    async () => (await worker.declare("all", { durable: true })).messages === 1,
  );
  assert.deepEqual(await worker.drain("all"), ["bye"]);
});

Deno.test("07 crossing: false leaves both sides alone", async () => {
  await using house = await AmqpHouse.open({ amqp: "crossing: false" });
  using worker = await bound(house, "all", "#");
  using client = await house.house.client();
  await client.subscribe({ packetId: 1, subscriptions: [{ filter: "#", qos: 0 }] });
  await client.expectSuback(1, [0]);
  await client.publish({ topic: "a/b", payload: "mqtt", qos: 1, packetId: 1 });
  await client.expectPuback(1);
  await client.expectPublish();
  await worker.send(amqp.publish(1, "amq.topic", "a.b", "amqp"));
  await client.expectSilence(50);
  assert.deepEqual(await worker.drain("all"), ["amqp"]);
});

Deno.test("B3 the ACL is asked for the AMQP login: a crossing it denies is 403, and nothing is stored", async () => {
  await using house = await AmqpHouse.open();
  const findings = new Findings();
  const file = new TextEncoder().encode(
    "roles:\n  r:\n    - {topic: allowed/#, allow: [write]}\nusers:\n  anna: [r]\n",
  );
  const { configuration, broker } = house.house;
  const document = readAcl(file, "acl.yaml", configuration, findings);
  assert.ok(findings.empty, findings.report("acl.yaml"));
  broker.access.replace(new Acl(document, configuration));
  using worker = await house.client({ user: "anna" });
  await worker.declare("all", { durable: true });
  await worker.call(amqp.queueBind(1, "all", "amq.topic", "#"), "bind-ok");
  await worker.call(amqp.confirmSelect(1), "select-ok");
  await worker.send(amqp.publish(1, "amq.topic", "allowed.a", "yes", PERSISTENT));
  assert.equal((await worker.expect("ack")).delivery, 1);
  await worker.send(amqp.publish(1, "amq.topic", "denied.a", "no", PERSISTENT));
  await worker.expectChannelClose(403);
  await worker.openChannel(1);
  assert.deepEqual(await worker.drain("all"), ["yes"]);
});
