/** Queues: declaring, exclusivity, deletion, the bound (07 section 8). */
import assert from "node:assert/strict";
import { ReadyEntries } from "../../src/amqp/queues/ready_entries.ts";
import { seeded } from "../support/random.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { text } from "./support/client.ts";
import { AmqpHouse } from "./support/house.ts";

Deno.test("A34 a name we make begins amq.gen- and is never the same", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  const names = new Set<string>();
  for (let i = 0; i < 20; i++) names.add((await client.declare("", { exclusive: true })).queue);
  assert.equal(names.size, 20);
  for (const name of names) assert.match(name, /^amq\.gen-[A-Za-z0-9_-]{22,}$/);
  await client.send(amqp.queueDeclare(1, "amq.mine"));
  await client.expectChannelClose(403);
});

Deno.test("A25 an empty name is the last queue of the channel, and its key in a binding", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 2 });
  for (
    const bytes of [
      amqp.queueBind(2, "", "amq.direct"),
      amqp.queueUnbind(2, "", "amq.direct"),
      amqp.consume(2, ""),
      amqp.get(2, ""),
      amqp.queuePurge(2, ""),
      amqp.queueDelete(2, ""),
      amqp.queueDeclare(2, "", { passive: true }),
    ]
  ) {
    await client.send(bytes);
    await client.expectChannelClose(404, 2);
    await client.openChannel(2);
  }
  const { queue } = await client.declare("", { exclusive: true });
  await client.call(amqp.queueBind(1, "", "amq.direct"), "bind-ok");
  await client.send(amqp.publish(1, "amq.direct", queue, "m"));
  assert.equal(text(await client.get("")), "m");
  assert.equal(
    (await client.call(amqp.queueDeclare(1, "", { passive: true }), "queue.declare-ok"))
      .queue,
    queue,
  );
  assert.equal((await client.call(amqp.queueDelete(1, ""), "queue.delete-ok")).messages, 0);
});

Deno.test("A35, A36 declaring again: counts, and what has to be the same", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true, args: { "x-queue-type": "classic" } });
  await client.send(amqp.publish(1, "", "q", "a"), amqp.publish(1, "", "q", "b"));
  await client.get("q");
  await client.call(amqp.qos(1, 1), "qos-ok");
  await client.call(amqp.consume(1, "q", { tag: "c" }), "consume-ok");
  await client.expect("deliver");
  await client.send(amqp.publish(1, "", "q", "c"));
  const { messages, consumers } = await client.declare("q", { durable: true });
  assert.deepEqual({ messages, consumers }, { messages: 1, consumers: 1 });
  assert.equal((await client.declare("q", { passive: true })).messages, 1);
  const cases: [amqp.QueueDeclare, RegExp][] = [
    [{}, /arg 'durable' for queue 'q' in vhost '\/': received 'false' but current is 'true'/],
    [{ durable: true, autoDelete: true }, /arg 'auto_delete'/],
    [{ durable: true, args: { colour: "red" } }, /arg 'colour'.*received 'red'/],
  ];
  for (const [options, says] of cases) {
    await client.send(amqp.queueDeclare(1, "q", options));
    assert.match((await client.expectChannelClose(406)).text, says);
    await client.openChannel(1);
  }
  await client.send(amqp.queueDeclare(1, "nothing", { passive: true }));
  assert.equal(
    (await client.expectChannelClose(404)).text,
    "NOT_FOUND - no queue 'nothing' in vhost '/'",
  );
});

Deno.test("A22 every x- argument but x-queue-type classic is refused by name", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  const refused: Record<string, amqp.Plain>[] = [
    { "x-message-ttl": 1000 },
    { "x-max-length": 5 },
    { "x-dead-letter-exchange": "dlx" },
    { "x-queue-type": "quorum" },
    { "x-queue-type": "stream" },
    { "x-max-priority": 3 },
    { "x-expires": 1 },
  ];
  for (const args of refused) {
    await client.send(amqp.queueDeclare(1, "q", { args }));
    const closed = await client.expectChannelClose(540);
    assert.ok(closed.text.includes(Object.keys(args)[0]), closed.text);
    await client.openChannel(1);
  }
  await client.declare("q");
  await client.send(amqp.consume(1, "q", { args: { "x-priority": 1 } }));
  assert.match((await client.expectChannelClose(540)).text, /x-priority/);
  await client.openChannel(1);
  await client.call(amqp.consume(1, "q", { args: { colour: "red" } }), "consume-ok");
});

Deno.test("A23 no-wait gives no answer, an exception all the same", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.send(
    amqp.queueDeclare(1, "q", { noWait: true }),
    amqp.exchangeDeclare(1, "x", "fanout", { noWait: true }),
    amqp.queueBind(1, "q", "x", "", { noWait: true }),
    amqp.consume(1, "q", { tag: "c", noWait: true }),
    amqp.confirmSelect(1, true),
    amqp.publish(1, "x", "", "m"),
  );
  const names = new Set([(await client.next()).name, (await client.next()).name]);
  assert.deepEqual(names, new Set(["ack", "deliver"]));
  await client.send(amqp.cancel(1, "c", true), amqp.exchangeDelete(1, "x", { noWait: true }));
  await client.send(amqp.queueDeclare(1, "nothing", { passive: true, noWait: true }));
  await client.expectChannelClose(404);
});

Deno.test("A37 an exclusive queue is its connection's alone, and goes with it", async () => {
  await using house = await AmqpHouse.open();
  using owner = await house.client();
  using other = await house.client();
  await owner.declare("mine", { exclusive: true, durable: true });
  await owner.declare("mine", { exclusive: true, durable: true });
  await owner.declare("mine", { passive: true });
  assert.deepEqual(house.rows("SELECT * FROM amqp_queue"), [], "it is never stored");
  for (
    const bytes of [
      amqp.queueDeclare(1, "mine", { exclusive: true, durable: true }),
      amqp.queueDeclare(1, "mine", { passive: true }),
      amqp.queueBind(1, "mine", "amq.direct", "k"),
      amqp.queueUnbind(1, "mine", "amq.direct", "k"),
      amqp.consume(1, "mine"),
      amqp.get(1, "mine"),
      amqp.queuePurge(1, "mine"),
      amqp.queueDelete(1, "mine"),
    ]
  ) {
    await other.send(bytes);
    await other.expectChannelClose(405);
    await other.openChannel(1);
  }
  await other.send(amqp.publish(1, "", "mine", "from another"));
  assert.deepEqual(await owner.drain("mine"), ["from another"]);
  await owner.send(amqp.queueDeclare(1, "mine", { durable: true }));
  await owner.expectChannelClose(405);
  await owner.close();
  await other.send(amqp.queueDeclare(1, "mine", { passive: true }));
  await other.expectChannelClose(404);
});

Deno.test("A38 auto-delete goes with its last consumer, however that goes", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ channels: 2 });
  const gone = async (name: string) => {
    await client.send(amqp.queueDeclare(1, name, { passive: true }));
    await client.expectChannelClose(404);
    await client.openChannel(1);
  };
  await client.declare("q", { autoDelete: true, durable: true });
  assert.equal((await client.get("q")).name, "get-empty");
  await client.declare("q", { passive: true });
  await client.call(amqp.consume(1, "q", { tag: "a" }), "consume-ok");
  await client.call(amqp.consume(2, "q", { tag: "a" }), "consume-ok");
  await client.call(amqp.cancel(1, "a"), "cancel-ok");
  await client.declare("q", { passive: true });
  await client.call(amqp.cancel(2, "a"), "cancel-ok");
  await gone("q");
  await client.declare("r", { autoDelete: true });
  await client.call(amqp.consume(2, "r"), "consume-ok");
  await client.call(amqp.channelClose(2), "channel.close-ok");
  await gone("r");
  using other = await house.client();
  await other.declare("s", { autoDelete: true });
  await other.call(amqp.consume(1, "s"), "consume-ok");
  other.cut();
  await house.connections(1);
  await gone("s");
  assert.deepEqual(house.rows("SELECT * FROM amqp_queue"), []);
});

Deno.test("A38 a durable auto-delete queue waits for its first consumer again after a restart", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { autoDelete: true, durable: true });
  await using after = await house.killed();
  using other = await after.client();
  await other.declare("q", { autoDelete: true, durable: true });
  await other.call(amqp.consume(1, "q", { tag: "c" }), "consume-ok");
  await other.call(amqp.cancel(1, "c"), "cancel-ok");
  await other.send(amqp.queueDeclare(1, "q", { passive: true }));
  await other.expectChannelClose(404);
});

Deno.test("A39, A40 delete and purge: what they look at, and what they answer", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  const put = (body: string) => amqp.publish(1, "", "q", body, { properties: amqp.PERSISTENT });
  await client.send(put("a"), put("b"), put("c"));
  const out = await client.get("q");
  assert.equal((await client.call(amqp.queuePurge(1, "q"), "purge-ok")).messages, 2);
  assert.deepEqual(house.rows("SELECT seq FROM amqp_msg").length, 1, "the unacked one stays");
  await client.send(put("d"));
  await client.send(amqp.queueDelete(1, "q", { ifEmpty: true }));
  assert.match((await client.expectChannelClose(406)).text, /not empty/);
  await client.openChannel(1);
  await client.call(amqp.consume(1, "q", { tag: "c" }), "consume-ok");
  const redelivered = await client.expect("deliver");
  await client.expect("deliver");
  await client.send(amqp.queueDelete(1, "q", { ifUnused: true }));
  assert.match((await client.expectChannelClose(406)).text, /in use/);
  await client.openChannel(1);
  assert.equal(text(redelivered), text(out));
  const held = await client.get("q");
  const { messages } = await client.call(amqp.queueDelete(1, "q"), "queue.delete-ok");
  assert.equal(messages, 1, "ready messages only");
  assert.deepEqual(house.rows("SELECT * FROM amqp_msg"), []);
  await client.send(amqp.ack(1, held.delivery));
  assert.equal((await client.call(amqp.queueDelete(1, "q"), "queue.delete-ok")).messages, 0);
  await client.send(amqp.queuePurge(1, "q"));
  await client.expectChannelClose(404);
});

Deno.test("A41 a consumer hears that its queue is gone, if it said it wants to", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  using plain = await house.client({ properties: {} });
  using other = await house.client();
  await client.declare("q");
  await client.call(amqp.consume(1, "q", { tag: "c" }), "consume-ok");
  await plain.call(amqp.consume(1, "q", { tag: "d" }), "consume-ok");
  await other.call(amqp.queueDelete(1, "q"), "queue.delete-ok");
  const cancelled = await client.expect("cancel");
  assert.deepEqual([cancelled.tag, cancelled.noWait], ["c", true]);
  await plain.expectSilence();
  assert.equal((await client.call(amqp.cancel(1, "c"), "cancel-ok")).tag, "c");
  assert.equal((await client.call(amqp.cancel(1, "never"), "cancel-ok")).tag, "never");
});

Deno.test("A42 beyond max_ready the oldest go, are counted, and their rows go in one transaction", async () => {
  await using house = await AmqpHouse.open({ amqp: "max_ready: 3" });
  using client = await house.client();
  await client.declare("q", { durable: true });
  await client.call(amqp.confirmSelect(1), "select-ok");
  for (let i = 1; i <= 5; i++) {
    const before = house.provider.statistics().commits;
    await client.send(amqp.publish(1, "", "q", `m${i}`, { properties: amqp.PERSISTENT }));
    await client.expect("ack");
    assert.equal(house.provider.statistics().commits, before + 1);
  }
  assert.equal(house.rows("SELECT count(*) AS n FROM amqp_msg")[0].n, 3);
  assert.equal(house.rows("SELECT dropped FROM amqp_queue")[0].dropped, 2);
  assert.equal(house.amqp.host.queues.get("q")!.dropped, 2);
  assert.deepEqual(await client.drain("q"), ["m3", "m4", "m5"]);
});

Deno.test("A42 a burst above the bound keeps its newest, in memory and on disk", async () => {
  await using house = await AmqpHouse.open({ amqp: "max_ready: 4" });
  using client = await house.client();
  await client.declare("q", { durable: true });
  await client.call(amqp.confirmSelect(1), "select-ok");
  const burst = Array.from(
    { length: 30 },
    (_, i) => amqp.publish(1, "", "q", `m${i}`, { properties: amqp.PERSISTENT }),
  );
  await client.send(...burst);
  for (let confirmed = 0; confirmed < 30;) confirmed = (await client.expect("ack")).delivery;
  await using after = await house.killed();
  for (const each of [house, after]) {
    using other = await each.client();
    assert.deepEqual(await other.drain("q"), ["m26", "m27", "m28", "m29"]);
    assert.equal(each.amqp.host.queues.get("q")!.dropped, 26);
  }
});

Deno.test("A42 max_ready_bytes: a message alone above it stays", async () => {
  await using house = await AmqpHouse.open({ amqp: "max_ready_bytes: 1000" });
  using client = await house.client();
  await client.declare("q");
  const body = (letter: string, size: number) => amqp.publish(1, "", "q", letter.repeat(size));
  await client.send(body("a", 400), body("b", 400), body("c", 400));
  assert.deepEqual((await client.drain("q")).map((each) => each[0]), ["b", "c"]);
  await client.send(body("d", 5_000));
  await client.send(body("e", 10));
  assert.deepEqual((await client.drain("q")).map((each) => each[0]), ["e"]);
  await client.send(body("f", 5_000));
  assert.deepEqual((await client.drain("q")).map((each) => each.length), [5_000]);
});

Deno.test("A42 requeue drops nothing, the next publish trims", async () => {
  await using house = await AmqpHouse.open({ amqp: "max_ready: 2" });
  using client = await house.client();
  await client.declare("q");
  await client.send(amqp.publish(1, "", "q", "a"), amqp.publish(1, "", "q", "b"));
  const [a, b] = [await client.get("q"), await client.get("q")];
  await client.send(amqp.publish(1, "", "q", "c"), amqp.publish(1, "", "q", "d"));
  await client.send(amqp.nack(1, b.delivery, { multiple: true }));
  assert.equal((await client.declare("q")).messages, 4);
  await client.send(amqp.publish(1, "", "q", "e"));
  assert.deepEqual(await client.drain("q"), ["d", "e"]);
  assert.equal(text(a), "a");
});

Deno.test("section 5 max_objects counts queues, exchanges and bindings; one more is 506", async () => {
  await using house = await AmqpHouse.open({ amqp: "max_objects: 3" });
  using client = await house.client();
  await client.declare("q");
  await client.call(amqp.exchangeDeclare(1, "x", "fanout"), "exchange.declare-ok");
  await client.call(amqp.queueBind(1, "q", "x"), "bind-ok");
  await client.declare("q");
  for (
    const bytes of [
      amqp.queueDeclare(1, "r"),
      amqp.exchangeDeclare(1, "y", "fanout"),
      amqp.queueBind(1, "q", "amq.topic", "k"),
    ]
  ) {
    using another = await house.client();
    await another.send(bytes);
    assert.match((await another.expectClose(506)).text, /max_objects/);
  }
  await client.call(amqp.queueUnbind(1, "q", "x"), "unbind-ok");
  await client.declare("r");
});

Deno.test("T8 one queue declared by many connections at once is one queue and one row", async () => {
  await using house = await AmqpHouse.open();
  const clients = await Promise.all(Array.from({ length: 8 }, () => house.client()));
  await Promise.all(clients.map((client) => client.declare("q", { durable: true })));
  assert.equal(house.rows("SELECT count(*) AS n FROM amqp_queue")[0].n, 1);
  await Promise.all(
    clients.map((client) => client.call(amqp.queueDelete(1, "q"), "queue.delete-ok")),
  );
  assert.equal(house.rows("SELECT count(*) AS n FROM amqp_queue")[0].n, 0);
  await clients[0].declare("q", { durable: true });
  for (const client of clients) client.cut();
});

Deno.test("A55 ready entries keep their order whatever comes back and whatever comes new", () => {
  const random = seeded("ready entries");
  for (let round = 0; round < 200; round++) {
    const ready = new ReadyEntries<{ seq: number; bytes: number }>();
    let model: number[] = [];
    const out: number[] = [];
    let next = 0;
    for (let step = 0; step < 200; step++) {
      switch (random.below(4)) {
        case 0:
        case 1:
          ready.push({ seq: ++next, bytes: next });
          model.push(next);
          break;
        case 2: {
          const entry = ready.shift();
          assert.equal(entry?.seq, model.shift());
          if (entry !== undefined) out.push(entry.seq);
          break;
        }
        default: {
          const back = out.filter(() => random.chance(0.3)).sort((a, b) => a - b);
          for (const seq of back) out.splice(out.indexOf(seq), 1);
          ready.merge(back.map((seq) => ({ seq, bytes: seq })));
          model = [...model, ...back].sort((a, b) => a - b);
        }
      }
      assert.equal(ready.count, model.length);
      assert.equal(ready.bytes, model.reduce((sum, seq) => sum + seq, 0));
      const walked: number[] = [];
      ready.walk(({ seq }) => walked.push(seq) < 5);
      assert.deepEqual(walked, model.slice(0, 5));
    }
    assert.deepEqual(ready.clear().map(({ seq }) => seq), model);
  }
});
