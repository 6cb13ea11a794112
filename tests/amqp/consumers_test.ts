/** Consumers, prefetch, fairness, and settling (07 sections 9.2 and 9.3). */
import assert from "node:assert/strict";
import { until } from "../support/wait.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { type AmqpClient, text } from "./support/client.ts";
import { AmqpHouse } from "./support/house.ts";

/** Publishes `count` messages m1, m2, ... */
async function fill(client: AmqpClient, queue: string, count: number, persistent = false) {
  const properties = persistent ? amqp.PERSISTENT : {};
  const all = Array.from(
    { length: count },
    (_, i) => amqp.publish(1, "", queue, `m${i + 1}`, { properties }),
  );
  await client.send(...all);
}

async function consume(client: AmqpClient, queue: string, options: amqp.Consume = {}, channel = 1) {
  return await client.call(amqp.consume(channel, queue, options), "consume-ok");
}

Deno.test("A47 consume-ok precedes the first delivery; tags, and reuse of one is 530", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 2 });
  await client.declare("q");
  await fill(client, "q", 1);
  const { tag } = await consume(client, "q");
  assert.match(tag, /^amq\.ctag-/);
  assert.equal((await client.expect("deliver")).tag, tag);
  await consume(client, "q", { tag: "c" });
  await consume(client, "q", { tag: "c" }, 2);
  await client.send(amqp.consume(1, "q", { tag: "c" }));
  await client.expectClose(530);
});

Deno.test("A47 cancel keeps what is out; it can still be acknowledged", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q");
  await fill(client, "q", 2);
  await client.call(amqp.qos(1, 1), "qos-ok");
  await consume(client, "q", { tag: "c" });
  const first = await client.expect("deliver");
  await client.call(amqp.cancel(1, "c"), "cancel-ok");
  await client.send(amqp.ack(1, first.delivery));
  await client.expectSilence(50);
  assert.deepEqual(await client.drain("q"), ["m2"]);
});

Deno.test("A48 an exclusive consumer has its queue to itself", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 2 });
  await client.declare("q");
  await consume(client, "q", { tag: "plain" });
  await client.send(amqp.consume(2, "q", { exclusive: true }));
  await client.expectChannelClose(403, 2);
  await client.openChannel(2);
  await client.call(amqp.cancel(1, "plain"), "cancel-ok");
  await consume(client, "q", { tag: "alone", exclusive: true });
  await client.send(amqp.consume(2, "q"));
  await client.expectChannelClose(403, 2);
  await client.openChannel(2);
  await client.call(amqp.cancel(1, "alone"), "cancel-ok");
  await consume(client, "q", {}, 2);
});

Deno.test("A48 of two that ask at once while their acknowledgements are stored one has the queue", async () => {
  await using house = await AmqpHouse.open();
  const clients = [await house.client(), await house.client()];
  await clients[0].declare("q");
  await clients[0].declare("work", { durable: true });
  await fill(clients[0], "work", 2, true);
  const store = house.provider.amqp();
  const remove = store.remove.bind(store);
  let go!: () => void;
  const gate = new Promise<void>((resolve) => go = resolve);
  store.remove = async (...asked) => {
    await gate;
    return await remove(...asked);
  };
  for (const client of clients) {
    const { delivery } = await client.call(amqp.get(1, "work"), "get-ok");
    await client.send(amqp.ack(1, delivery), amqp.consume(1, "q", { exclusive: true }));
    await client.expectSilence(50);
  }
  go();
  await clients[0].expect("consume-ok");
  await clients[1].expectChannelClose(403, 1);
  for (const client of clients) client[Symbol.dispose]();
});

Deno.test("A49 ten messages and two equal consumers on two connections: five each", async () => {
  await using house = await AmqpHouse.open();
  using one = await house.client();
  using two = await house.client();
  using publisher = await house.client();
  await publisher.declare("q");
  await consume(one, "q");
  await consume(two, "q");
  await fill(publisher, "q", 10);
  const [a, b] = [await one.deliveries(5), await two.deliveries(5)];
  assert.deepEqual(a.map(text), ["m1", "m3", "m5", "m7", "m9"]);
  assert.deepEqual(b.map(text), ["m2", "m4", "m6", "m8", "m10"]);
});

Deno.test("A51 a consumer at its limit is skipped, not waited for", async () => {
  await using house = await AmqpHouse.open();
  using stuck = await house.client();
  using busy = await house.client();
  using publisher = await house.client();
  await publisher.declare("q");
  await stuck.call(amqp.qos(1, 1), "qos-ok");
  await consume(stuck, "q");
  await consume(busy, "q");
  await fill(publisher, "q", 6);
  const [held] = await stuck.deliveries(1);
  const rest = await busy.deliveries(5);
  await busy.send(amqp.ack(1, 0, true));
  await stuck.expectSilence(50);
  assert.deepEqual([held, ...rest].map(text).sort(), ["m1", "m2", "m3", "m4", "m5", "m6"]);
});

Deno.test("A50 prefetch per consumer counts for consumers made later, the shared one at once", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q");
  await consume(client, "q", { tag: "before" });
  await client.call(amqp.qos(1, 2), "qos-ok");
  await fill(client, "q", 5);
  await client.deliveries(5);
  await client.call(amqp.cancel(1, "before"), "cancel-ok");
  await consume(client, "q", { tag: "after" });
  await fill(client, "q", 5);
  await client.deliveries(2);
  await client.expectSilence(50);
  await client.call(amqp.qos(1, 3, true), "qos-ok");
  await client.send(amqp.ack(1, 0, true));
  await client.deliveries(2);
  await client.call(amqp.cancel(1, "after"), "cancel-ok");
  await client.call(amqp.qos(1, 0), "qos-ok");
  await consume(client, "q", { tag: "unlimited" });
  await client.deliveries(1);
  await client.expectSilence(50);
  await client.call(amqp.qos(1, 0, true), "qos-ok");
  await fill(client, "q", 4);
  await client.deliveries(4);
});

Deno.test("A50 two consumers of one channel share its limit, and each has its own", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q");
  await client.call(amqp.qos(1, 2), "qos-ok");
  await client.call(amqp.qos(1, 3, true), "qos-ok");
  await consume(client, "q", { tag: "a" });
  await consume(client, "q", { tag: "b" });
  await fill(client, "q", 6);
  const first = await client.deliveries(3);
  assert.deepEqual(first.map(({ tag }) => tag), ["a", "b", "a"]);
  await client.expectSilence(50);
  await client.send(amqp.ack(1, first[1].delivery));
  const [next] = await client.deliveries(1);
  assert.equal(next.tag, "b", "a is at its own limit");
});

Deno.test("A50 max_unacked holds for a channel without prefetch; a get above it is 406", async () => {
  await using house = await AmqpHouse.open({ amqp: "max_unacked: 3" });
  using client = await house.client();
  await client.declare("q");
  await fill(client, "q", 6);
  await consume(client, "q");
  const held = await client.deliveries(3);
  await client.expectSilence(50);
  assert.equal((await client.get("q", true)).name, "get-ok", "no-ack needs no place");
  await client.send(amqp.ack(1, held[0].delivery));
  await client.deliveries(1);
  await client.send(amqp.get(1, "q"));
  await client.expectChannelClose(406);
});

Deno.test("A52 tags count up on each channel, for deliver and get-ok together", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 2 });
  await client.declare("q");
  await fill(client, "q", 4);
  assert.equal((await client.get("q")).delivery, 1);
  await client.call(amqp.qos(1, 1), "qos-ok");
  await consume(client, "q");
  assert.equal((await client.expect("deliver")).delivery, 2);
  assert.equal((await client.get("q", true, 2)).delivery, 1);
  await client.send(amqp.nack(1, 2));
  assert.equal((await client.expect("deliver")).delivery, 3);
});

Deno.test("A53 acknowledging one, several and all; what is unknown is 406", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 2 });
  await client.declare("q");
  await fill(client, "q", 6);
  await client.call(amqp.qos(1, 6), "qos-ok");
  await consume(client, "q");
  await client.deliveries(6);
  await client.send(
    amqp.ack(1, 2),
    amqp.ack(1, 4, true),
    amqp.ack(1, 0, true),
    amqp.ack(1, 0, true),
  );
  await client.expectSilence(50);
  assert.equal((await client.declare("q")).messages, 0);
  const cases: [Uint8Array, RegExp][] = [
    [amqp.ack(1, 2), /^PRECONDITION_FAILED - unknown delivery tag 2$/],
    [amqp.ack(1, 0), /unknown delivery tag 0/],
    [amqp.ack(1, 99, true), /unknown delivery tag 99/],
    [amqp.nack(1, 7), /unknown delivery tag 7/],
    [amqp.reject(1, 7, true), /unknown delivery tag 7/],
  ];
  for (const [bytes, says] of cases) {
    await client.send(bytes);
    assert.match((await client.expectChannelClose(406)).text, says);
    await client.openChannel(1);
  }
  await fill(client, "q", 1);
  const { delivery } = await client.get("q");
  await client.send(amqp.ack(2, delivery));
  await client.expectChannelClose(406, 2);
});

Deno.test("A53 multiple takes the tag itself and every one below it, and no other", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q");
  await fill(client, "q", 6);
  for (let i = 0; i < 6; i++) await client.get("q");
  await client.send(amqp.ack(1, 4, true), amqp.nack(1, 5, { multiple: true, requeue: false }));
  await client.call(amqp.channelClose(1), "channel.close-ok");
  await client.openChannel(1);
  assert.deepEqual(await client.drain("q"), ["m6"]);
});

Deno.test("A54 nack and reject: discarded without requeue, back with redelivered set", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  await fill(client, "q", 4, true);
  const got = [];
  for (let i = 0; i < 4; i++) got.push(await client.get("q"));
  assert.ok(got.every(({ redelivered }) => redelivered === false));
  await client.send(
    amqp.nack(1, 1, { requeue: false }),
    amqp.reject(1, 2, false),
    amqp.nack(1, 3, { requeue: true }),
    amqp.reject(1, 4, true),
  );
  const [m3, m4] = [await client.get("q"), await client.get("q")];
  assert.deepEqual([text(m3), text(m4)], ["m3", "m4"]);
  assert.ok(m3.redelivered && m4.redelivered);
  assert.equal((await client.get("q")).name, "get-empty");
  assert.equal(house.rows("SELECT count(*) AS n FROM amqp_msg")[0].n, 2, "T6 before the reply");
});

Deno.test("A56 requeue changes nothing in the store, and whoever has capacity is next", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  await fill(client, "q", 1, true);
  const rows = () => house.rows("SELECT queue_id, seq FROM amqp_msg");
  const written = () => house.amqp.host.removals.added;
  using other = await house.client();
  assert.equal((await client.declare("q", { durable: true })).messages, 1);
  const stored = rows();
  await client.call(amqp.consume(1, "q"), "consume-ok");
  for (let i = 1; i <= 3; i++) {
    const [mine] = await client.deliveries(1);
    assert.equal(mine.redelivered, i > 1, "the same consumer may have it again");
    await client.send(amqp.nack(1, mine.delivery, { requeue: true }));
  }
  await client.deliveries(1);
  await other.call(amqp.consume(1, "q"), "consume-ok");
  await client.call(amqp.channelClose(1), "channel.close-ok");
  const [theirs] = await other.deliveries(1);
  assert.deepEqual([text(theirs), theirs.redelivered], ["m1", true]);
  assert.deepEqual(rows(), stored);
  assert.equal(written(), 0);
});

Deno.test("A54, A22 recover requeues what is out on the channel; without requeue it is refused", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q");
  await fill(client, "q", 3);
  for (let i = 0; i < 3; i++) await client.get("q");
  await client.call(amqp.recover(1, true), "recover-ok");
  const back = [await client.get("q"), await client.get("q"), await client.get("q")];
  assert.deepEqual(back.map(text), ["m1", "m2", "m3"]);
  assert.ok(back.every(({ redelivered }) => redelivered));
  await client.send(amqp.recover(1, false));
  await client.expectChannelClose(540);
});

Deno.test("A55 what is requeued together comes back in its order, before what came later", async () => {
  await using house = await AmqpHouse.open();
  const ways: [string, (client: AmqpClient) => Promise<unknown>][] = [
    ["nack multiple", (client) => client.send(amqp.nack(1, 0, { multiple: true }))],
    ["channel close", async (client) => {
      await client.call(amqp.channelClose(1), "channel.close-ok");
      await client.openChannel(1);
    }],
    ["one by one, backwards", async (client) => {
      for (const tag of [3, 2, 1]) await client.send(amqp.nack(1, tag));
    }],
    ["socket death", async (client) => {
      client.cut();
      await house.connections(1);
    }],
  ];
  using watcher = await house.client();
  for (const [way, giveBack] of ways) {
    using client = await house.client();
    await watcher.declare(way);
    await fill(watcher, way, 5);
    await client.call(amqp.qos(1, 3), "qos-ok");
    await consume(client, way, { tag: "c" });
    await client.deliveries(3);
    if (way !== "socket death") await client.call(amqp.cancel(1, "c"), "cancel-ok");
    await giveBack(client);
    await until("all five", async () => (await watcher.declare(way)).messages === 5);
    assert.deepEqual(await watcher.drain(way), ["m1", "m2", "m3", "m4", "m5"], way);
    client.cut();
    await house.connections(1);
  }
});

Deno.test("A57, A58 no-ack: the row goes when it was sent, and nothing comes back", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  await fill(client, "q", 3, true);
  await consume(client, "q", { noAck: true });
  const all = await client.deliveries(3);
  assert.ok(all.every(({ redelivered }) => !redelivered));
  client.cut();
  await house.connections(0);
  await house.time.pass(200);
  await until("the rows to go", () => house.rows("SELECT 1 FROM amqp_msg").length === 0);
});

Deno.test("section 5 a get of a missing queue is 404, of an empty one get-empty", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q");
  assert.equal((await client.get("q")).name, "get-empty");
  await fill(client, "q", 3);
  assert.equal((await client.get("q")).messages, 2);
  for (const bytes of [amqp.get(1, "no"), amqp.consume(1, "no")]) {
    await client.send(bytes);
    await client.expectChannelClose(404);
    await client.openChannel(1);
  }
});

Deno.test("A22 what this broker lacks closes its channel and no other", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 2 });
  await client.declare("q");
  const ttl = amqp.publish(1, "", "q", "m", { properties: { expiration: "1000" } });
  const direct = amqp.publish(1, "", "q", "m", {
    properties: { replyTo: "amq.rabbitmq.reply-to" },
  });
  const cases: [Uint8Array, RegExp][] = [
    [amqp.publish(1, "", "q", "m", { immediate: true }), /immediate/],
    [ttl, /expiration/],
    [direct, /direct reply-to/],
    [amqp.consume(1, "amq.rabbitmq.reply-to"), /direct reply-to/],
    [amqp.qos(1, 1, false, 1_000), /prefetch-size/],
    [amqp.flow(1, false), /channel\.flow/],
    [amqp.method(1, 90, 10), /transactions/],
    [
      amqp.method(
        1,
        40,
        30,
        amqp.u16(0),
        amqp.short("a"),
        amqp.short("b"),
        amqp.short(""),
        [0],
        amqp.table(),
      ),
      /exchange-to-exchange/,
    ],
  ];
  for (const [bytes, says] of cases) {
    await client.send(bytes);
    const closed = await client.expectChannelClose(540);
    assert.match(closed.text, says);
    await client.openChannel(1);
    assert.equal((await client.declare("q", {}, 2)).messages, 0, closed.text);
  }
  await client.call(amqp.flow(1, true), "flow-ok");
});

Deno.test("A20 a failed channel discards what comes until close-ok, then its number is free", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q");
  await fill(client, "q", 2);
  await client.get("q");
  await client.send(
    amqp.ack(1, 77),
    amqp.queueDeclare(1, "never"),
    amqp.publish(1, "", "q", "never"),
    amqp.ack(1, 1),
  );
  await client.expectChannelClose(406);
  await client.openChannel(1);
  assert.deepEqual(await client.drain("q"), ["m1", "m2"]);
  await client.send(amqp.queueDeclare(1, "never", { passive: true }));
  const closed = await client.expect("channel.close");
  assert.equal(closed.code, 404);
  await client.send(amqp.channelClose(1));
  await client.expect("channel.close-ok");
  await client.openChannel(1);
});

Deno.test("A19 a method on a channel that is not open, and opening one twice, are 504", async () => {
  await using house = await AmqpHouse.open();
  for (const bytes of [amqp.queueDeclare(9, "q"), amqp.channelOpen(1), amqp.contentHeader(9, 0)]) {
    using client = await house.client();
    await client.send(bytes);
    await client.expectClose(504);
  }
  using client = await house.client();
  await client.call(amqp.channelClose(1), "channel.close-ok");
  await client.send(amqp.get(1, "q"));
  await client.expectClose(504);
});

Deno.test("A18 a slow reader gets no more than the high water, and all of it once it reads", async () => {
  await using house = await AmqpHouse.open({ amqp: "outbound_high_water: 64KiB" });
  using slow = await house.client();
  using publisher = await house.client();
  await publisher.declare("q");
  const count = 400;
  const body = "x".repeat(20_000);
  await consume(slow, "q", { noAck: true });
  for (let i = 0; i < count; i++) await publisher.send(amqp.publish(1, "", "q", body));
  const queue = house.amqp.host.queues.get("q")!;
  await until("the queue to fill", async () => (await publisher.declare("q")).messages > 0);
  assert.ok(queue.messageCount > 20, `${queue.messageCount} wait in the queue`);
  const all = await slow.deliveries(count);
  assert.equal(all.length, count);
  assert.equal((await publisher.declare("q")).messages, 0);
});

Deno.test("a thousand channels on one connection", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 0 });
  const numbers = Array.from({ length: 1_000 }, (_, i) => i + 1);
  await client.send(...numbers.map(amqp.channelOpen));
  for (const number of numbers) {
    assert.equal((await client.expect("channel.open-ok")).channel, number);
  }
  await client.declare("q", {}, 1_000);
  await client.send(...numbers.map((number) => amqp.publish(number, "", "q", String(number))));
  await until("all of them", async () => (await client.declare("q", {}, 500)).messages === 1_000);
  await client.close();
});
