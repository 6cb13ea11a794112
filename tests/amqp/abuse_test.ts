/** Clients that ask for more than they take, and clients that go at any moment: what they cost ends with them. */
import assert from "node:assert/strict";
import { seeded } from "../support/random.ts";
import { sleep, until } from "../support/wait.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { AmqpClient, text } from "./support/client.ts";
import { AmqpHouse } from "./support/house.ts";

/** Whether a write that the broker does not read stays where it is. */
async function stuck(write: Promise<void>, ms = 300): Promise<boolean> {
  return await Promise.race([write.then(() => false), sleep(ms).then(() => true)]);
}

/** Reads what comes, in order, until `count` methods of this name did. */
async function count(client: AmqpClient, name: string, wanted: number): Promise<void> {
  for (let seen = 0; seen < wanted;) if ((await client.next(20_000)).name === name) seen++;
}

Deno.test("A18 who asks for more messages than it reads waits, and has lost none", async () => {
  await using house = await AmqpHouse.open({ amqp: "outbound_high_water: 64KiB" });
  using client = await house.client();
  const messages = 200;
  const body = new Uint8Array(128 * 1024);
  await client.declare("q");
  for (let i = 0; i < messages; i++) {
    await client.send(amqp.publish(1, "", "q", body, { split: 100_000 }));
  }
  const queue = house.amqp.host.queues.get("q")!;
  await until("the queue to fill", () => queue.messageCount === messages);
  await client.send(...Array.from({ length: messages }, () => amqp.get(1, "q")));
  let out = -1;
  await until("no more to leave", async () => {
    const before = out;
    await sleep(100);
    return (out = queue.unackedCount) > 0 && out === before;
  });
  assert.ok(
    out < messages / 2,
    `${out} of ${messages} are on their way to a client that reads nothing`,
  );
  await count(client, "get-ok", messages);
  assert.equal(queue.unackedCount, messages);
});

Deno.test("A18, A14 who is returned more than it reads is read no further; what it takes is life enough", async () => {
  await using house = await AmqpHouse.open({ amqp: "outbound_high_water: 64KiB" });
  using client = await house.client({ heartbeat: 10 });
  const messages = 400;
  const body = new Uint8Array(64 * 1024);
  const one = amqp.publish(1, "", "nowhere", body, { mandatory: true });
  const writing = client.send(...Array.from({ length: messages }, () => one));
  assert.ok(await stuck(writing), "all of it was read");
  const { counters } = house.amqp.host;
  assert.ok(counters.published < messages, `${counters.published} were read`);
  await house.time.pass(15_000);
  await count(client, "return", 10);
  await house.time.pass(15_000);
  await count(client, "return", messages - 10);
  await writing;
  assert.equal(counters.returned, messages);
});

Deno.test("methods that wait for the store are bounded like publishes", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  const declares = 200;
  const args = { padding: "x".repeat(100_000) };
  const one = amqp.queueDeclare(1, "q", { durable: true, args });
  // As many bytes of what nothing waits for take this long.
  const started = performance.now();
  const unbound = amqp.publish(1, "", "nowhere", new Uint8Array(100_000));
  await client.send(...Array.from({ length: declares }, () => unbound));
  await client.call(amqp.qos(1, 0), "qos-ok");
  const unhindered = performance.now() - started;
  const { store } = house.amqp.host;
  const change = store.change.bind(store);
  let open = () => {};
  const gate = new Promise<void>((resolve) => open = resolve);
  store.change = async (asked) => {
    await gate;
    await change(asked);
  };
  const writing = client.send(...Array.from({ length: declares }, () => one));
  const waited = await stuck(writing, 200 + 3 * unhindered);
  open();
  assert.ok(waited, "all of it was read");
  await count(client, "queue.declare-ok", declares);
  await writing;
});

Deno.test("A19 every number a channel can have, all at once, and none left behind", async () => {
  await using house = await AmqpHouse.open({ amqp: "channel_max: 65535" });
  using client = await house.client({ channels: 0 });
  const numbers = Array.from({ length: 65_535 }, (_, i) => i + 1);
  const writing = (async () => {
    for (let at = 0; at < numbers.length; at += 5_000) {
      await client.send(...numbers.slice(at, at + 5_000).map(amqp.channelOpen));
    }
  })();
  await count(client, "channel.open-ok", numbers.length);
  await writing;
  const { counters } = house.amqp.host;
  assert.equal(counters.channels, numbers.length);
  await client.declare("q", { exclusive: true }, 65_535);
  client.cut();
  await house.connections(0);
  assert.equal(counters.channels, 0);
});

Deno.test("a connection has so many consumers and no more, whatever channels they are on", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 2 });
  await client.declare("q");
  const consumers = 10_000;
  const one = (i: number) => amqp.consume(1 + i % 2, "q", { tag: `c${i}`, noWait: true });
  for (let at = 0; at < consumers; at += 2_000) {
    await client.send(...Array.from({ length: 2_000 }, (_, i) => one(at + i)));
  }
  await client.call(amqp.cancel(1, "c0"), "cancel-ok");
  await client.call(amqp.consume(1, "q", { tag: "last" }), "consume-ok");
  assert.equal((await client.declare("q")).consumers, consumers);
  await client.send(amqp.consume(2, "q"));
  await client.expectClose(506);
  await house.connections(0);
  assert.equal(house.amqp.host.queues.get("q")!.consumerCount, 0);
});

Deno.test("A50, A55 as many deliveries as a channel may hold, given back one by one from the last", async () => {
  await using house = await AmqpHouse.open({ amqp: "max_unacked: 8000\nmax_ready: 100000" });
  using client = await house.client();
  await client.declare("q");
  const held = 8_000;
  await client.send(
    ...Array.from({ length: held + 100 }, (_, i) => amqp.publish(1, "", "q", String(i))),
  );
  await client.call(amqp.consume(1, "q", { tag: "c" }), "consume-ok");
  await client.deliveries(held);
  await client.expectSilence(50);
  await client.call(amqp.cancel(1, "c"), "cancel-ok");
  await client.send(
    ...Array.from({ length: held }, (_, i) => amqp.nack(1, held - i, { requeue: true })),
  );
  assert.equal((await client.declare("q")).messages, held + 100);
  for (let i = 0; i < 20; i++) assert.equal(text(await client.get("q", true)), String(i));
});

Deno.test("A47 no delivery follows cancel-ok, and what was not delivered is still there", async () => {
  const random = seeded("amqp cancel");
  await using house = await AmqpHouse.open();
  using consumer = await house.client();
  using publisher = await house.client();
  await publisher.declare("q");
  let published = 0;
  const seen = new Set<string>();
  for (let round = 0; round < 200; round++) {
    const some = () =>
      Array.from({ length: random.below(6) }, () => amqp.publish(1, "", "q", `${published++}`));
    const publishing = publisher.send(...some());
    const noWait = random.chance(0.3);
    await consumer.send(
      amqp.consume(1, "q", { tag: "c", noAck: true, noWait }),
      ...random.chance(0.3) ? some() : [],
      amqp.cancel(1, "c"),
      amqp.qos(1, 0),
    );
    await publishing;
    for (let over = false;;) {
      const received = await consumer.next();
      if (received.name === "qos-ok") break;
      if (received.name === "cancel-ok") over = true;
      if (received.name !== "deliver") continue;
      assert.ok(!over, `a delivery behind cancel-ok in round ${round}`);
      assert.ok(!seen.has(text(received)), "delivered twice");
      seen.add(text(received));
    }
  }
  for (const body of await publisher.drain("q")) {
    assert.ok(!seen.has(body), "delivered and still there");
    seen.add(body);
  }
  assert.equal(seen.size, published);
});

/** One of everything a client sends in a session. */
function session(): Uint8Array[] {
  const persistent = { properties: amqp.PERSISTENT, mandatory: true, split: 3 };
  return [
    amqp.HEADER,
    amqp.startOk(),
    amqp.tuneOk(0, 0, 1),
    amqp.open(),
    amqp.channelOpen(1),
    amqp.channelOpen(2),
    amqp.exchangeDeclare(1, "x", "topic", { durable: true }),
    amqp.queueDeclare(1, "lasting", { durable: true }),
    amqp.queueDeclare(1, "mine", { exclusive: true }),
    amqp.queueDeclare(1, "passing", { autoDelete: true }),
    amqp.queueBind(1, "lasting", "x", "#"),
    amqp.queueBind(1, "mine", "x", "a.*"),
    amqp.queueBind(1, "mine", "amq.topic", "#"),
    amqp.confirmSelect(1),
    amqp.qos(1, 2),
    amqp.consume(1, "lasting", { tag: "a" }),
    amqp.consume(1, "mine", { tag: "b", noAck: true }),
    amqp.consume(2, "passing"),
    amqp.publish(1, "x", "a.b", "several frames", persistent),
    amqp.publish(1, "amq.topic", "a.b", "crosses", persistent),
    amqp.publish(1, "", "nowhere", "comes back", persistent),
    amqp.publish(2, "", "passing", "hello"),
    amqp.get(2, "lasting"),
    amqp.ack(1, 1),
    amqp.nack(1, 2, { requeue: true }),
    amqp.reject(1, 3, false),
    amqp.recover(2, true),
    amqp.cancel(1, "a"),
    amqp.queueUnbind(1, "mine", "x", "a.*"),
    amqp.queuePurge(1, "mine"),
    amqp.queueDelete(1, "mine"),
    amqp.exchangeDelete(1, "x"),
    amqp.flow(2, true),
    amqp.channelClose(2),
    amqp.close(),
  ];
}

Deno.test("A47, A37, A38 a connection cut behind and inside every frame of a session leaves nothing of its own", async () => {
  const random = seeded("amqp cut");
  await using house = await AmqpHouse.open();
  const frames = session();
  const { host } = house.amqp;
  for (let whole = 0; whole < frames.length; whole++) {
    const next = frames[whole];
    for (const piece of [0, random.between(1, next.length - 1), next.length]) {
      const client = await AmqpClient.open(house.port);
      await client.send(...frames.slice(0, whole), next.subarray(0, piece));
      // At once, or when some of it has been done.
      if (random.chance(0.5)) await sleep(random.below(8));
      client.cut();
    }
  }
  await house.connections(0);
  await host.changed();
  assert.equal(host.counters.channels, 0);
  for (const queue of host.queues.values()) {
    assert.equal(queue.exclusive, false, `${queue.name} belongs to nobody`);
    assert.equal(queue.consumerCount, 0, `${queue.name} has consumers of nobody`);
    assert.equal(queue.unackedCount, 0, `${queue.name} has deliveries out with nobody`);
  }
  const faults = house.house.log.lines.filter(({ level }) => level === "error");
  assert.deepEqual(faults.map(({ msg, fields }) => `${msg}: ${fields.error}`), []);
  using client = await house.client();
  for (const name of [...host.queues.keys()]) {
    await client.call(amqp.queueDelete(1, name), "queue.delete-ok");
  }
  assert.equal(host.residence.bytes, 0, "bodies of messages that are gone are counted");
});
