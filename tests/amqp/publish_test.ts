/** Publishing, confirms, mandatory, and stores that refuse (07 sections 3, 9.1 and 4.1 A17). */
import assert from "node:assert/strict";
import { StorageFailure } from "../../src/storage/contract.ts";
import { until } from "../support/wait.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { type AmqpClient, text } from "./support/client.ts";
import { AmqpHouse } from "./support/house.ts";

const PERSISTENT: amqp.Publish = { properties: amqp.PERSISTENT };

/** A channel in confirm mode and a durable queue `q`. */
async function confirming(house: AmqpHouse): Promise<AmqpClient> {
  const client = await house.client();
  await client.declare("q", { durable: true });
  await client.call(amqp.confirmSelect(1), "select-ok");
  return client;
}

/** Confirms up to `tag` as `ack 3`, `ack 5 multiple`, `nack 6`. */
async function confirms(client: AmqpClient, tag: number): Promise<string[]> {
  const all: string[] = [];
  for (;;) {
    const { name, delivery, multiple } = await client.next();
    if (name === "blocked" || name === "unblocked") continue;
    all.push(`${name} ${delivery}${multiple ? " multiple" : ""}`);
    if (delivery >= tag) return all;
  }
}

Deno.test("A44 tags count completed publishes from 1; confirm.select again resets nothing", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  await client.send(amqp.publish(1, "", "q", "a", PERSISTENT));
  assert.deepEqual(await confirms(client, 1), ["ack 1"]);
  await client.call(amqp.confirmSelect(1), "select-ok");
  await client.send(amqp.publish(1, "", "nowhere", "b"));
  assert.deepEqual(await confirms(client, 2), ["ack 2"]);
});

Deno.test("A45, A46 one burst: one commit, the return before its confirm, order kept", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  await client.declare("t");
  const before = house.provider.statistics().commits;
  await client.send(
    amqp.publish(1, "", "q", "one", PERSISTENT),
    amqp.publish(1, "", "no-such-queue", "two", {
      mandatory: true,
      properties: { contentType: "x", headers: { a: 1 } },
    }),
    amqp.publish(1, "", "t", "three"),
  );
  const seen: string[] = [];
  let confirmed = 0;
  while (confirmed < 3) {
    const received = await client.next();
    if (received.name === "return") {
      assert.ok(confirmed < 2, "the return precedes the confirm of its message");
      assert.deepEqual(
        [received.code, received.text, received.exchange, received.key, text(received)],
        [312, "NO_ROUTE", "", "no-such-queue", "two"],
      );
      assert.deepEqual(
        received.properties,
        amqp.properties({ contentType: "x", headers: { a: 1 } }),
      );
    } else confirmed = received.delivery;
    seen.push(received.name);
  }
  assert.ok(seen.includes("return"));
  assert.equal(house.provider.statistics().commits, before + 1);
});

Deno.test("A46 mandatory without confirm mode: returned, and what is routed is not", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q");
  await client.send(
    amqp.publish(1, "", "q", "routed", { mandatory: true }),
    amqp.publish(1, "amq.topic", "a.b", "nobody", { mandatory: true }),
  );
  const returned = await client.expect("return");
  assert.equal(text(returned), "nobody");
  assert.deepEqual(await client.drain("q"), ["routed"]);
});

Deno.test("T5, A45 nothing is confirmed or delivered before its commit", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  using consumer = await house.client();
  await consumer.call(amqp.consume(1, "q"), "consume-ok");
  const gate = house.house.faults.hold("submit");
  await client.send(amqp.publish(1, "", "q", "a", PERSISTENT), amqp.publish(1, "", "q", "b"));
  await until("the publish to wait for its store", () => gate.waiting === 1);
  await client.expectSilence(50);
  await consumer.expectSilence(50);
  gate.open();
  assert.deepEqual(await confirms(client, 2), ["ack 2 multiple"]);
  assert.deepEqual((await consumer.deliveries(2)).map(text), ["a", "b"]);
});

Deno.test("A46 a batch without durable copies does not overtake an earlier one of its channel", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 2 });
  await client.declare("q", { durable: true });
  await client.call(amqp.confirmSelect(1), "select-ok");
  await client.call(amqp.confirmSelect(2), "select-ok");
  const gate = house.house.faults.hold("submit");
  await client.send(amqp.publish(1, "", "q", "durable", PERSISTENT));
  await until("the publish to wait for its store", () => gate.waiting === 1);
  await client.send(amqp.publish(1, "", "q", "behind"), amqp.publish(2, "", "q", "beside"));
  const other = await client.expect("ack");
  assert.deepEqual([other.channel, other.delivery], [2, 1], "another channel does not wait");
  await client.expectSilence(50);
  gate.open();
  assert.deepEqual(await confirms(client, 2), ["ack 2 multiple"]);
  assert.deepEqual(await client.drain("q"), ["durable", "behind", "beside"]);
});

Deno.test("A45 a method waits for the publishes before it, and sees them", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  const gate = house.house.faults.hold("submit");
  await client.send(
    amqp.publish(1, "", "q", "a", PERSISTENT),
    amqp.queueDeclare(1, "q", { durable: true }),
  );
  await until("the publish to wait for its store", () => gate.waiting === 1);
  await client.expectSilence(50);
  gate.open();
  assert.equal((await client.expect("ack")).delivery, 1);
  assert.equal((await client.expect("queue.declare-ok")).messages, 1);
});

Deno.test("A24 publishes behind a declare that is being stored are routed after it", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.send(
    amqp.confirmSelect(1),
    amqp.queueDeclare(1, "q", { durable: true }),
    ...Array.from({ length: 20 }, (_, i) => amqp.publish(1, "", "q", `m${i}`, PERSISTENT)),
    amqp.get(1, "q"),
  );
  await client.expect("select-ok");
  await client.expect("queue.declare-ok");
  await confirms(client, 20);
  assert.equal((await client.expect("get-ok")).messages, 19);
});

Deno.test("T4 a failed store: basic.nack for those tags, and nothing is kept", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  house.house.faults.refuse("submit", "failed", 2);
  await client.send(
    amqp.publish(1, "", "q", "a", PERSISTENT),
    amqp.publish(1, "", "q", "b", PERSISTENT),
  );
  assert.deepEqual(await confirms(client, 2), ["nack 1", "nack 2"]);
  await until("the probe", async () => {
    await house.time.pass(1_000);
    return house.amqp.host.alarm.reason === undefined;
  });
  await client.send(amqp.publish(1, "", "q", "c", PERSISTENT));
  assert.deepEqual(await confirms(client, 3), ["ack 3"]);
  assert.deepEqual(await client.drain("q"), ["c"]);
});

Deno.test("T4 without confirms a persistent publish that fails ends the connection: 541, full 506", async () => {
  await using house = await AmqpHouse.open();
  for (const [kind, code] of [["failed", 541], ["full", 506]] as const) {
    using client = await house.client({ properties: {} });
    await client.declare("q", { durable: true });
    house.house.faults.refuse("submit", kind, 1);
    await client.send(amqp.publish(1, "", "q", "lost", PERSISTENT));
    await client.expectClose(code);
    await until("the probe", async () => {
      await house.time.pass(1_000);
      return house.amqp.host.alarm.reason === undefined;
    });
  }
  using client = await house.client();
  assert.deepEqual(await client.drain("q"), []);
});

Deno.test("A42 what a failed publish would have pushed out is still there", async () => {
  await using house = await AmqpHouse.open({ amqp: "max_ready: 2" });
  using client = await confirming(house);
  await client.send(
    amqp.publish(1, "", "q", "a", PERSISTENT),
    amqp.publish(1, "", "q", "b", PERSISTENT),
  );
  await confirms(client, 2);
  house.house.faults.refuse("submit", "failed", 1);
  await client.send(amqp.publish(1, "", "q", "c", PERSISTENT));
  assert.deepEqual(await confirms(client, 3), ["nack 3"]);
  assert.deepEqual(await client.drain("q"), ["a", "b"]);
  assert.equal(house.amqp.host.queues.get("q")!.dropped, 0);
});

Deno.test("A17 while the store refuses, publishers are read no further and told so; consumers go on", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  using plain = await house.client({ properties: {} });
  using consumer = await house.client({ heartbeat: 5 });
  await client.send(amqp.publish(1, "", "q", "kept", PERSISTENT));
  await confirms(client, 1);
  const { store } = house.amqp.host;
  const probe = store.probe;
  store.probe = () => Promise.reject(new StorageFailure("full", "a test lets it be full"));
  house.house.faults.refuse("submit", "full", 1);
  await client.send(amqp.publish(1, "", "q", "finds out", PERSISTENT));
  const names = new Set<string>();
  let reason = "";
  for (let i = 0; i < 2; i++) {
    const received = await client.next();
    names.add(received.name);
    if (received.name === "blocked") reason = received.reason;
  }
  assert.deepEqual(names, new Set(["nack", "blocked"]));
  assert.equal(reason, "no room left in storage");
  await client.send(amqp.publish(1, "", "q", "waits", PERSISTENT), amqp.get(1, "q"));
  await plain.send(amqp.publish(1, "", "q", "waits too"), amqp.queueDeclare(1, "later"));
  await client.expectSilence(50);
  await plain.expectSilence(50);
  assert.equal((await consumer.expect("blocked")).reason, reason);
  const got = await consumer.get("q");
  await consumer.send(amqp.ack(1, got.delivery));
  await consumer.declare("q", { durable: true });
  await house.time.pass(3_000);
  await client.expectSilence(50);
  store.probe = probe;
  await house.time.pass(1_000);
  await client.expect("unblocked");
  assert.deepEqual(await confirms(client, 3), ["ack 3"]);
  await client.expect("get-ok");
  await plain.expect("queue.declare-ok");
});

Deno.test("A17 a newcomer during the alarm is told at once, and its heartbeat watch rests while unread", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  const { store } = house.amqp.host;
  const probe = store.probe;
  store.probe = () => Promise.reject(new StorageFailure("failed", "a test lets it fail"));
  house.house.faults.refuse("submit", "failed", 1);
  await client.send(amqp.publish(1, "", "q", "x", PERSISTENT));
  assert.deepEqual(
    new Set([(await client.next()).name, (await client.next()).name]),
    new Set(["nack", "blocked"]),
  );
  using late = await house.client({ heartbeat: 5, channels: 0 });
  assert.equal((await late.expect("blocked")).reason, "storage failed");
  await late.openChannel(1);
  await late.send(amqp.publish(1, "", "q", "waits"));
  await house.time.pass(60_000);
  assert.ok(house.amqp.host.counters.connections === 2, "nobody was dropped");
  store.probe = probe;
  await house.time.pass(1_000);
  await late.expect("unblocked");
  assert.equal((await late.declare("q", { durable: true })).messages, 1);
});

Deno.test("A3, A7 content: a stray frame is 505, a body too long 501, another class 505", async () => {
  await using house = await AmqpHouse.open();
  const start = amqp.publishMethod(1, "", "q");
  const cases: [number, Uint8Array][] = [
    [505, amqp.contentHeader(1, 1)],
    [505, amqp.frame(3, 1, Uint8Array.of(1))],
    [505, amqp.join(start, amqp.queueDeclare(1, "q"))],
    [505, amqp.join(start, start)],
    [505, amqp.join(start, amqp.frame(3, 1, Uint8Array.of(1)))],
    [505, amqp.join(start, amqp.contentHeader(1, 5), amqp.contentHeader(1, 5))],
    [
      505,
      amqp.join(
        start,
        amqp.frame(2, 1, amqp.join(amqp.u16(50), amqp.u16(0), amqp.u64(0), amqp.u16(0))),
      ),
    ],
    [501, amqp.join(start, amqp.contentHeader(1, 2), amqp.frame(3, 1, new Uint8Array(3)))],
    [502, amqp.join(start, amqp.contentHeader(1, 0, amqp.u16(1)))],
    [502, amqp.join(start, amqp.contentHeader(1, 0, amqp.u16(0x8000)))],
  ];
  for (const [code, bytes] of cases) {
    using client = await house.client();
    await client.send(bytes);
    await client.expectClose(code);
  }
});

Deno.test("A3, A6 bodies: empty, in many frames, interleaved on two channels", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 2, frameMax: 4_096 });
  await client.declare("q");
  await client.send(amqp.publish(1, "", "q", ""));
  assert.equal((await client.get("q")).body!.length, 0);
  const one = new Uint8Array(10_000).map((_, i) => i);
  const two = new Uint8Array(9_000).map((_, i) => i * 3);
  await client.send(
    amqp.publishMethod(1, "", "q"),
    amqp.publishMethod(2, "", "q"),
    amqp.contentHeader(2, two.length),
    amqp.contentHeader(1, one.length),
  );
  for (let at = 0; at < 10_000; at += 1_000) {
    await client.send(amqp.frame(3, 1, one.subarray(at, at + 1_000)));
    if (at < 9_000) await client.send(amqp.frame(3, 2, two.subarray(at, at + 1_000)));
  }
  await client.declare("q");
  assert.deepEqual((await client.get("q")).body, two);
  assert.deepEqual((await client.get("q")).body, one);
});

Deno.test("A7 a body of exactly max_message_size is taken, one byte more is 406 at its header", async () => {
  await using house = await AmqpHouse.open({ limits: "max_message_size: 100KiB" });
  using client = await house.client({ frameMax: 4_096 });
  await client.declare("q");
  const body = new Uint8Array(100 * 1024).map((_, i) => i * 11);
  await client.send(amqp.publish(1, "", "q", body, { split: 4_088 }));
  assert.deepEqual((await client.get("q", true)).body, body);
  await client.send(
    amqp.publishMethod(1, "", "q"),
    amqp.contentHeader(1, body.length + 1),
    amqp.frame(3, 1, new Uint8Array(4_000)),
  );
  const closed = await client.expectChannelClose(406);
  assert.match(closed.text, /message size 102401 is larger than limits.max_message_size/);
  await client.openChannel(1);
  assert.equal((await client.get("q")).name, "get-empty");
});

Deno.test("what is declared and never sent takes no memory; what is sent is bounded", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 0 });
  const channels = Array.from({ length: 500 }, (_, i) => i + 1);
  const size = 1_000_000;
  await client.send(...channels.map(amqp.channelOpen));
  for (const _ of channels) await client.expect("channel.open-ok");
  await client.send(
    ...channels.map((channel) =>
      amqp.join(amqp.publishMethod(channel, "", "q"), amqp.contentHeader(channel, size))
    ),
  );
  await client.expectSilence(50);
  const chunk = new Uint8Array(100_000);
  for (const channel of channels) await client.send(amqp.frame(3, channel, chunk));
  await client.expectClose(506);
});

Deno.test("A20 publishes completed before the error still commit and are confirmed, before the close", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  const gate = house.house.faults.hold("submit");
  await client.send(
    amqp.publish(1, "", "q", "a", PERSISTENT),
    amqp.publish(1, "", "q", "b", PERSISTENT),
    amqp.publish(1, "nowhere", "", "c", PERSISTENT),
    amqp.publish(1, "", "q", "d", PERSISTENT),
  );
  await until("two to wait for their store", () => gate.waiting === 2);
  gate.open();
  assert.deepEqual((await confirms(client, 2)).at(-1)?.includes("ack 2"), true);
  await client.expectChannelClose(404);
  await client.openChannel(1);
  assert.deepEqual(await client.drain("q"), ["a", "b"]);
});

Deno.test("A21 an exception of the connection waits for its publishes too", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  const gate = house.house.faults.hold("submit");
  await client.send(amqp.publish(1, "", "q", "a", PERSISTENT), amqp.queueDeclare(0, "x"));
  await until("one to wait for its store", () => gate.waiting === 1);
  await client.expectSilence(50);
  gate.open();
  assert.equal((await client.expect("ack")).delivery, 1);
  await client.expectClose(504);
});

Deno.test("A46 on connection loss what was received whole is still committed", async () => {
  await using house = await AmqpHouse.open();
  const client = await confirming(house);
  const gate = house.house.faults.hold("submit");
  await client.send(
    amqp.publish(1, "", "q", "whole", PERSISTENT),
    amqp.publishMethod(1, "", "q"),
    amqp.contentHeader(1, 10, amqp.properties(amqp.PERSISTENT)),
    amqp.frame(3, 1, new Uint8Array(5)),
  );
  await until("one to wait for its store", () => gate.waiting === 1);
  client.cut();
  await house.connections(0);
  gate.open();
  using other = await house.client();
  await until(
    "the message",
    async () => (await other.declare("q", { durable: true })).messages === 1,
  );
  assert.deepEqual(await other.drain("q"), ["whole"]);
});

Deno.test("A46 a queue that vanished between routing and enqueue leaves no row", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  using other = await house.client();
  const gate = house.house.faults.hold("submit");
  await client.send(amqp.publish(1, "", "q", "a", PERSISTENT));
  await until("one to wait for its store", () => gate.waiting === 1);
  await other.call(amqp.queueDelete(1, "q"), "queue.delete-ok");
  await other.declare("q", { durable: true });
  gate.open();
  assert.deepEqual(await confirms(client, 1), ["ack 1"]);
  assert.deepEqual(await other.drain("q"), []);
  assert.deepEqual(house.rows("SELECT * FROM amqp_msg"), []);
});

Deno.test("A43 a copy is durable for delivery-mode 2 in a durable queue, and for nothing else", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("durable", { durable: true });
  await client.declare("transient");
  await client.declare("mine", { durable: true, exclusive: true });
  for (const queue of ["durable", "transient", "mine"]) {
    await client.call(amqp.queueBind(1, queue, "amq.fanout"), "bind-ok");
  }
  await client.send(
    amqp.publish(1, "amq.fanout", "", "p", PERSISTENT),
    amqp.publish(1, "amq.fanout", "", "t", { properties: { deliveryMode: 1 } }),
    amqp.publish(1, "amq.fanout", "", "n"),
  );
  assert.equal((await client.declare("durable", { durable: true })).messages, 3);
  const rows = house.rows(
    "SELECT name, CAST(body AS TEXT) AS body FROM amqp_msg JOIN amqp_queue ON id = queue_id",
  );
  assert.deepEqual(rows, [{ name: "durable", body: "p" }]);
});

Deno.test("A20 content errors wait for their turn too: an ack sent before them counts", async () => {
  await using house = await AmqpHouse.open();
  using client = await confirming(house);
  await client.send(amqp.publish(1, "", "q", "job", PERSISTENT));
  await confirms(client, 1);
  const { delivery } = await client.get("q");
  const gate = house.house.faults.hold("submit");
  await client.send(
    amqp.publish(1, "", "q", "result", PERSISTENT),
    amqp.ack(1, delivery),
    amqp.publish(1, "", "q", "x", { properties: { expiration: "5" } }),
  );
  await until("one to wait for its store", () => gate.waiting === 1);
  gate.open();
  assert.deepEqual(await confirms(client, 2), ["ack 2"]);
  await client.expectChannelClose(540);
  await client.openChannel(1);
  assert.deepEqual(await client.drain("q"), ["result"]);
});
