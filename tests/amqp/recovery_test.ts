/** What a start brings back after a kill (07 sections 9.4, T5, T6 and 14). */
import assert from "node:assert/strict";
import { until } from "../support/wait.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { type AmqpClient, type Received, text } from "./support/client.ts";
import { AmqpHouse } from "./support/house.ts";

const PERSISTENT: amqp.Publish = { properties: amqp.PERSISTENT };

async function confirmed(client: AmqpClient, ...publishes: Uint8Array[]): Promise<void> {
  await client.call(amqp.confirmSelect(1), "select-ok");
  await client.send(...publishes);
  for (let tag = 0; tag < publishes.length;) tag = (await client.expect("ack")).delivery;
}

async function all(client: AmqpClient, queue: string): Promise<Received[]> {
  const got: Received[] = [];
  for (;;) {
    const received = await client.get(queue);
    if (received.name === "get-empty") return got;
    got.push(received);
  }
}

Deno.test("14.4 confirmed persistent messages come back in order, redelivered, byte for byte", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("invoices", { durable: true });
  await client.declare("scratch");
  const properties: amqp.Properties = {
    contentType: "text/plain",
    headers: { a: [1, { b: null }] },
    deliveryMode: 2,
    priority: 4,
    correlationId: "c",
    messageId: "m",
  };
  await confirmed(
    client,
    ...["one", "two", "three"].map((body) => amqp.publish(1, "", "invoices", body, { properties })),
    amqp.publish(1, "", "invoices", "draft", { properties: { deliveryMode: 1 } }),
    amqp.publish(1, "", "scratch", "gone", PERSISTENT),
  );
  await using after = await house.killed();
  const line = after.house.lines("AMQP recovered what is stored")[0];
  assert.deepEqual([line.fields.queues, line.fields.messages], [1, 3]);
  using other = await after.client();
  const got = await all(other, "invoices");
  assert.deepEqual(got.map(text), ["one", "two", "three"]);
  for (const received of got) {
    assert.equal(received.redelivered, true);
    assert.deepEqual(received.properties, amqp.properties(properties));
    assert.deepEqual([received.exchange, received.key], ["", "invoices"]);
  }
  await other.send(amqp.queueDeclare(1, "scratch", { passive: true }));
  await other.expectChannelClose(404);
  await other.openChannel(1);
  for (const _ of got) await other.get("invoices");
  await other.send(amqp.ack(1, 0, true));
  await other.close();
  await using again = await after.killed();
  using last = await again.client();
  assert.deepEqual(await all(last, "invoices"), []);
});

Deno.test("14.5, A60 what was acknowledged before a close-ok is gone; what was not is back", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  await confirmed(
    client,
    amqp.publish(1, "", "q", "a", PERSISTENT),
    amqp.publish(1, "", "q", "b", PERSISTENT),
  );
  const a = await client.get("q");
  await client.get("q");
  await client.send(amqp.ack(1, a.delivery));
  await client.call(amqp.channelClose(1), "channel.close-ok");
  await using after = await house.killed();
  using other = await after.client();
  assert.deepEqual((await all(other, "q")).map(text), ["b"]);
});

Deno.test("T6 an acknowledgement is stored within ack_commit_interval, or before a synchronous reply", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  await confirmed(
    client,
    ...["a", "b", "c"].map((body) => amqp.publish(1, "", "q", body, PERSISTENT)),
  );
  const rows = () =>
    house.rows("SELECT CAST(body AS TEXT) AS body FROM amqp_msg").map(({ body }) => body);
  await client.get("q");
  await client.send(amqp.ack(1, 1));
  await client.get("q");
  assert.deepEqual(rows(), ["b", "c"], "the get that followed was answered after it");
  await client.send(amqp.ack(1, 2));
  await until("the ack to arrive", () => house.amqp.host.removals.added === 2);
  assert.deepEqual(rows(), ["b", "c"]);
  await house.time.pass(200);
  await until("the row to go", () => rows().length === 1);
});

Deno.test("A58 redelivered is true after a restart even for what was never delivered", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  await confirmed(client, amqp.publish(1, "", "q", "a", PERSISTENT));
  await house.restart();
  using other = await house.client();
  assert.equal((await other.get("q")).redelivered, true);
});

Deno.test("14.6, A42 a smaller bound trims at the start, newest kept, and on disk too", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  await confirmed(
    client,
    ...Array.from({ length: 10 }, (_, i) => amqp.publish(1, "", "q", `m${i}`, PERSISTENT)),
  );
  house.configure({ amqp: "max_ready: 4" });
  await house.restart();
  const [line] = house.house.lines("AMQP recovered what is stored").slice(-1);
  assert.deepEqual([line.fields.messages, line.fields.dropped], [4, 6]);
  assert.equal(house.rows("SELECT count(*) AS n FROM amqp_msg")[0].n, 4);
  assert.equal(house.rows("SELECT dropped FROM amqp_queue")[0].dropped, 6);
  using other = await house.client();
  assert.deepEqual((await all(other, "q")).map(text), ["m6", "m7", "m8", "m9"]);
});

Deno.test("T8 positions go on where they were", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  await confirmed(
    client,
    amqp.publish(1, "", "q", "a", PERSISTENT),
    amqp.publish(1, "", "q", "b", PERSISTENT),
  );
  await house.restart();
  using other = await house.client();
  await other.declare("r", { durable: true });
  await confirmed(other, amqp.publish(1, "", "q", "c", PERSISTENT));
  assert.deepEqual((await all(other, "q")).map(text), ["a", "b", "c"]);
  const ids = house.rows("SELECT id FROM amqp_queue ORDER BY id").map(({ id }) => id);
  assert.deepEqual(ids, [1, 2]);
});

Deno.test("a long backlog is read back in windows, in order, whatever is out meanwhile", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  const count = 1_000;
  await confirmed(
    client,
    ...Array.from({ length: count }, (_, i) => amqp.publish(1, "", "q", `m${i}`, PERSISTENT)),
  );
  await house.restart();
  using other = await house.client();
  await other.call(amqp.qos(1, 50), "qos-ok");
  await other.call(amqp.consume(1, "q"), "consume-ok");
  const seen: string[] = [];
  while (seen.length < count) {
    const received = await other.expect("deliver");
    seen.push(text(received));
    if (seen.length % 10 === 0) await other.send(amqp.ack(1, received.delivery, true));
  }
  assert.deepEqual(seen, Array.from({ length: count }, (_, i) => `m${i}`));
  await other.close();
  assert.deepEqual(house.rows("SELECT * FROM amqp_msg"), []);
});

Deno.test("a stored queue with the name of another's table row survives what it cannot read", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q", { durable: true });
  await confirmed(
    client,
    ...["a", "b", "c"].map((body) => amqp.publish(1, "", "q", body, PERSISTENT)),
  );
  await house.restart();
  house.execute("DELETE FROM amqp_msg WHERE CAST(body AS TEXT) = 'b'");
  using other = await house.client();
  assert.deepEqual((await all(other, "q")).map(text), ["a", "c"]);
  assert.equal(house.house.lines("a message of an AMQP queue is missing in its store").length, 1);
});
