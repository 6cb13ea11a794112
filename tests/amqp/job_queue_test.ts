/** `queue` channels as AMQP queues: one pool for MQTT workers and AMQP consumers. */
import assert from "node:assert/strict";
import { until } from "../support/wait.ts";
import type { WireClient } from "../support/wire.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { type AmqpClient, type Received, text } from "./support/client.ts";
import { AmqpHouse } from "./support/house.ts";

const JOBS = `
jobs:
  type: queue
  filter: plant/jobs/#
  visibility_timeout: 30s
  retry: {max_attempts: 3}
one:
  type: queue
  filter: plant/one
  retry: {max_attempts: 3}
`;

async function put(house: AmqpHouse, count: number): Promise<void> {
  using client = await house.house.client();
  for (let i = 1; i <= count; i++) {
    await client.publish({ topic: `plant/jobs/${i}`, payload: `job ${i}`, qos: 1, packetId: i });
    await client.expectPuback(i);
  }
  await client.disconnect();
}

/** Lets the queue's tick come. */
async function tick(house: AmqpHouse): Promise<void> {
  await house.time.pass(200);
}

function depth(house: AmqpHouse): number {
  return house.provider.queue("jobs").depth();
}

async function worker(house: AmqpHouse, clientId: string): Promise<WireClient> {
  const client = await house.house.client({ clientId });
  await client.subscribe({
    packetId: 1,
    subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1 }],
  });
  await client.expectSuback(1, [1]);
  return client;
}

async function consuming(house: AmqpHouse, prefetch: number): Promise<AmqpClient> {
  const client = await house.client();
  await client.call(amqp.qos(1, prefetch), "qos-ok");
  await client.call(amqp.consume(1, "jobs", { tag: "c" }), "consume-ok");
  return client;
}

Deno.test("a queue channel is there as a durable queue of its name, and can be nothing else", async () => {
  await using house = await AmqpHouse.open({ channels: JOBS });
  await put(house, 3);
  using client = await house.client();
  assert.equal((await client.declare("jobs", { passive: true })).messages, 3);
  const declared = await client.declare("jobs", { durable: true });
  assert.deepEqual([declared.queue, declared.messages, declared.consumers], ["jobs", 3, 0]);
  const cases: [number, Uint8Array][] = [
    [406, amqp.queueDeclare(1, "jobs")],
    [406, amqp.queueDeclare(1, "jobs", { durable: true, exclusive: true })],
    [406, amqp.queueDeclare(1, "jobs", { durable: true, autoDelete: true })],
    [406, amqp.queueDeclare(1, "jobs", { durable: true, args: { a: 1 } })],
    [403, amqp.queueDelete(1, "jobs")],
    [403, amqp.queuePurge(1, "jobs")],
    [403, amqp.queueBind(1, "jobs", "amq.topic", "#")],
    [403, amqp.consume(1, "jobs", { exclusive: true })],
  ];
  for (const [code, bytes] of cases) {
    await client.send(bytes);
    await client.expectChannelClose(code);
    await client.openChannel(1);
  }
  assert.deepEqual(house.rows("SELECT * FROM amqp_queue"), []);
});

Deno.test("get leases a job, ack resolves it, and what it was is in properties and headers", async () => {
  await using house = await AmqpHouse.open({ channels: JOBS });
  await put(house, 2);
  using client = await house.client();
  const job = await client.get("jobs");
  assert.deepEqual(
    [text(job), job.exchange, job.key, job.redelivered, job.messages],
    ["job 1", "amq.topic", "plant.jobs.1", false, 1],
  );
  const properties = new TextDecoder("latin1").decode(job.properties);
  for (const part of ["saguin-topic", "plant/jobs/1", "saguin-attempt", "saguin-offset"]) {
    assert.ok(properties.includes(part), part);
  }
  await client.send(amqp.ack(1, job.delivery));
  assert.equal(text(await client.get("jobs")), "job 2");
  assert.equal((await client.get("jobs")).name, "get-empty");
  assert.equal(depth(house), 1, "T6: resolved before the next reply");
  await using after = await house.killed();
  using other = await after.client();
  assert.equal(text(await other.get("jobs")), "job 2");
});

Deno.test("consume with a prefetch holds that many jobs, and an ack brings the next at once", async () => {
  await using house = await AmqpHouse.open({ channels: JOBS });
  await put(house, 5);
  using client = await consuming(house, 2);
  await tick(house);
  const two = await client.deliveries(2);
  await client.expectSilence(50);
  assert.deepEqual(two.map(text), ["job 1", "job 2"]);
  await client.send(amqp.ack(1, two[0].delivery));
  assert.equal(text(await client.expect("deliver")), "job 3");
  await client.call(amqp.cancel(1, "c"), "cancel-ok");
  await client.send(amqp.ack(1, 0, true));
  await until("the jobs to go", () => depth(house) === 2);
  await tick(house);
  await client.expectSilence(50);
});

Deno.test("MQTT workers and AMQP consumers compete, and no job has two holders", async () => {
  await using house = await AmqpHouse.open({ channels: JOBS });
  using consumer = await consuming(house, 1);
  using mqtt = await worker(house, "w");
  await put(house, 6);
  await tick(house);
  const seen: string[] = [];
  const byAmqp: string[] = [];
  const byMqtt: string[] = [];
  let delivery: Received | undefined = await consumer.expect("deliver");
  let offer = await mqtt.expectPublish();
  while (seen.length < 6) {
    if (delivery !== undefined) {
      byAmqp.push(text(delivery));
      seen.push(text(delivery));
      await consumer.send(amqp.ack(1, delivery.delivery));
      delivery = seen.length < 5 ? await consumer.expect("deliver") : undefined;
    }
    if (seen.length === 6) break;
    const payload = new TextDecoder().decode(offer.payload);
    byMqtt.push(payload);
    seen.push(payload);
    await mqtt.puback(offer.packetId!);
    await mqtt.publish({
      topic: "$saguin/queue/jobs/response",
      payload: "ack",
      properties: { correlationData: offer.properties.correlationData },
    });
    if (seen.length < 5) offer = await mqtt.expectPublish();
  }
  assert.equal(new Set(seen).size, 6);
  assert.ok(byAmqp.length >= 2 && byMqtt.length >= 2, `${byAmqp.length} and ${byMqtt.length}`);
  await until("all resolved", () => depth(house) === 0);
});

Deno.test("requeue gives a job back as if it had never been out; without requeue the attempt counts", async () => {
  await using house = await AmqpHouse.open({ channels: JOBS });
  await put(house, 1);
  using client = await house.client();
  for (let i = 0; i < 5; i++) {
    const job = await client.get("jobs");
    assert.equal(job.redelivered, false, "no attempt was counted");
    await client.send(amqp.nack(1, job.delivery, { requeue: true }));
  }
  for (let attempt = 1; attempt <= 3; attempt++) {
    const job = await client.get("jobs");
    assert.equal(job.redelivered, attempt > 1);
    await client.send(amqp.reject(1, job.delivery, false));
    assert.equal(
      (await client.get("jobs")).name,
      "get-empty",
      "the backoff of the channel applies",
    );
    await house.time.pass(60_000);
  }
  assert.equal((await client.get("jobs")).name, "get-empty");
  assert.equal(depth(house), 0);
  const letters = house.rows(
    "SELECT CAST(payload AS TEXT) AS payload FROM records WHERE channel = 'jobs__dlq'",
  );
  assert.deepEqual(letters, [{ payload: "job 1" }], "dead letters of the channel apply");
});

Deno.test("a job whose visibility timeout passes is somebody else's, and the late ack does nothing", async () => {
  await using house = await AmqpHouse.open({ channels: JOBS });
  await put(house, 1);
  using client = await house.client();
  const job = await client.get("jobs");
  await house.time.pass(30_000);
  using other = await house.client();
  const again = await other.get("jobs");
  assert.deepEqual([text(again), again.redelivered], ["job 1", true]);
  await client.send(amqp.ack(1, job.delivery));
  await client.declare("jobs", { passive: true });
  assert.equal(depth(house), 1);
  await other.send(amqp.ack(1, again.delivery));
  await other.declare("jobs", { passive: true });
  assert.equal(depth(house), 0);
});

Deno.test("a connection that dies gives its jobs back uncounted", async () => {
  await using house = await AmqpHouse.open({ channels: JOBS });
  await put(house, 3);
  const client = await consuming(house, 0);
  await tick(house);
  await client.deliveries(3);
  client.cut();
  await house.connections(0);
  using other = await house.client();
  const back = [await other.get("jobs"), await other.get("jobs"), await other.get("jobs")];
  assert.deepEqual(back.map(text), ["job 1", "job 2", "job 3"]);
  assert.ok(back.every(({ redelivered }) => !redelivered));
});

Deno.test("no-ack consumers resolve a job by being sent it", async () => {
  await using house = await AmqpHouse.open({ channels: JOBS });
  await put(house, 2);
  using client = await house.client();
  await client.call(amqp.consume(1, "jobs", { noAck: true }), "consume-ok");
  await tick(house);
  assert.deepEqual((await client.deliveries(2)).map(text), ["job 1", "job 2"]);
  await until("both resolved", () => depth(house) === 0);
});

Deno.test("the default exchange enqueues where the filter names one topic, else 403 says why", async () => {
  await using house = await AmqpHouse.open({ channels: JOBS });
  using client = await house.client();
  await client.call(amqp.confirmSelect(1), "select-ok");
  await client.send(amqp.publish(1, "", "one", "a job", { mandatory: true }));
  assert.equal((await client.expect("ack")).delivery, 1);
  const job = await client.get("one");
  assert.deepEqual([text(job), job.key], ["a job", "plant.one"]);
  assert.equal(house.rows("SELECT topic FROM queue_items")[0].topic, "plant/one");
  await client.send(amqp.publish(1, "amq.topic", "plant.jobs.x", "through the topic"));
  assert.equal((await client.expect("ack")).delivery, 2);
  assert.equal(text(await client.get("jobs")), "through the topic");
  await client.send(amqp.publish(1, "", "jobs", "which topic?"));
  assert.match(
    (await client.expectChannelClose(403)).text,
    /more topics than one \(plant\/jobs\/#\)/,
  );
});
