// npm's amqplib against a broker. Arguments: the directory of node_modules, AMQP port, scenario, MQTT port.
// Prints what happened, a line each; the test knows what it should be.
import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { createRequire } from "node:module";
import { setTimeout as sleep } from "node:timers/promises";

const [directory, port, scenario, mqttPort] = process.argv.slice(2);
const amqplib = createRequire(`${directory}/`)("amqplib");
const url = `amqp://guest:guest@127.0.0.1:${port}`;
const LASTING = { persistent: true, contentType: "text/plain" };

function connect() {
  return amqplib.connect(url);
}

async function drain(channel, queue) {
  const bodies = [];
  for (;;) {
    const message = await channel.get(queue, { noAck: true });
    if (message === false) return bodies;
    bodies.push(message.content.toString());
  }
}

/** What the broker says when it closes the channel that `act` is done on. */
async function refused(connection, act) {
  const channel = await connection.createChannel();
  const error = new Promise((resolve) => channel.once("error", resolve));
  await assert.rejects(async () => await act(channel));
  return await error;
}

/** What a command prints until it ends. */
async function said(command, ...args) {
  const child = spawn(command, ["-h", "127.0.0.1", "-p", mqttPort, ...args]);
  let text = "";
  child.stdout.on("data", (bytes) => text += bytes);
  const code = await new Promise((resolve) => child.on("close", resolve));
  assert.equal(code, 0, command);
  return text.trim();
}

// ------------------------------------------------------------------------------ what pika does too

async function exchanges() {
  const connection = await connect();
  const channel = await connection.createChannel();
  console.log("product", connection.connection.serverProperties.product);
  await channel.assertExchange("orders", "direct", { durable: false });
  for (const [queue, key] of [["q.paid", "paid"], ["q.refund", "refunded"]]) {
    await channel.assertQueue(queue, { durable: false });
    await channel.bindQueue(queue, "orders", key);
  }
  const orders = [
    ["paid", "order-1001"],
    ["refunded", "order-0999"],
    ["paid", "order-1002"],
    ["cancelled", "order-1003"],
  ];
  for (const [key, body] of orders) channel.publish("orders", key, Buffer.from(body));
  await channel.assertExchange("cache-bust", "fanout", { durable: false });
  for (const queue of ["node-a", "node-b", "node-c"]) {
    await channel.assertQueue(queue, { durable: false });
    await channel.bindQueue(queue, "cache-bust", "");
  }
  channel.publish("cache-bust", "ignored", Buffer.from("invalidate:/products/42"));
  await channel.assertExchange("logs", "topic", { durable: false });
  const patterns = [
    ["all-errors", "*.error"],
    ["eu-everything", "eu.#"],
    ["eu-west-db", "eu.west.db.*"],
  ];
  for (const [queue, pattern] of patterns) {
    await channel.assertQueue(queue, { durable: false });
    await channel.bindQueue(queue, "logs", pattern);
  }
  for (
    const key of ["api.error", "eu.west.db.error", "eu.west.db.slow", "eu", "us.east.api.info"]
  ) {
    channel.publish("logs", key, Buffer.from(key));
  }
  const queues = ["q.paid", "q.refund", "node-a", "node-b", "node-c", ...patterns.map(([q]) => q)];
  for (const queue of queues) console.log(queue, ...await drain(channel, queue));
  await connection.close();
}

async function confirms() {
  const connection = await connect();
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue("jobs", { durable: false });
  channel.sendToQueue("jobs", Buffer.from("resize:img-1.png"));
  await channel.waitForConfirms();
  console.log("confirmed");
  // The return has to be there before the confirm of the same message.
  const order = [];
  channel.on("return", ({ fields, content }) => {
    order.push(`unroutable ${fields.replyCode} ${fields.replyText} ${content}`);
  });
  channel.publish("", "no-such-queue", Buffer.from("lost?"), { mandatory: true }, () => {
    console.log(...order);
  });
  await channel.waitForConfirms();
  for (const settle of [(m) => channel.nack(m, false, true), (m) => channel.ack(m)]) {
    const message = await channel.get("jobs");
    console.log("got", `${message.content}`, "redelivered", message.fields.redelivered);
    settle(message);
  }
  console.log("left", ...await drain(channel, "jobs"));
  const { message } = await refused(connection, (other) => other.assertExchange("hdr", "headers"));
  console.log("refused", /540 \(NOT-IMPLEMENTED\) with message "(.*)"/.exec(message)[1]);
  await connection.close();
}

/** Twelve jobs, a worker of 50 ms and one of 500 ms, on connections of their own. */
async function compete(prefetch) {
  const queue = `work-${prefetch}`;
  const setup = await connect();
  const channel = await setup.createChannel();
  await channel.assertQueue(queue);
  const done = { fast: [], slow: [] };
  const connections = [];
  for (const [name, cost] of [["fast", 50], ["slow", 500]]) {
    const connection = await connect();
    connections.push(connection);
    const worker = await connection.createChannel();
    if (prefetch > 0) await worker.prefetch(prefetch);
    let turn = Promise.resolve();
    await worker.consume(queue, (message) => {
      turn = turn.then(async () => {
        await sleep(cost);
        done[name].push(message.content.toString());
        worker.ack(message);
      });
    });
  }
  for (let number = 1; number <= 12; number++) {
    channel.sendToQueue(queue, Buffer.from(`job-${`${number}`.padStart(2, "0")}`), LASTING);
  }
  const deadline = Date.now() + 20_000;
  while (done.fast.length + done.slow.length < 12 && Date.now() < deadline) await sleep(50);
  for (const connection of [...connections, setup]) await connection.close();
  return done;
}

async function workers() {
  const fair = await compete(0);
  console.log("unlimited", fair.fast.length, fair.slow.length);
  const jobs = Array.from({ length: 12 }, (_, i) => `job-${`${i + 1}`.padStart(2, "0")}`);
  const [odd, even] = [0, 1].map((first) => jobs.filter((_, i) => i % 2 === first).join());
  const inTurn = [fair.fast.join(), fair.slow.join()].sort();
  console.log("in turn", inTurn[0] === odd && inTurn[1] === even);
  const { fast, slow } = await compete(1);
  const near = (length, about) => Math.abs(length - about) <= 2;
  console.log("prefetch 1", near(fast.length, 10), near(slow.length, 2));
  console.log("all once", [...fast, ...slow].sort().join() === jobs.join());
}

async function durable_before() {
  const connection = await connect();
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue("invoices");
  await channel.assertQueue("scratch", { durable: false });
  for (const number of [1, 2, 3]) {
    channel.sendToQueue("invoices", Buffer.from(`invoice-${number}`), LASTING);
  }
  channel.sendToQueue("invoices", Buffer.from("draft"), { deliveryMode: 1 });
  channel.sendToQueue("scratch", Buffer.from("scribble"), LASTING);
  await channel.waitForConfirms();
  console.log("confirmed", 5);
  process.exit(0);
}

async function durable_after() {
  const connection = await connect();
  const channel = await connection.createChannel();
  for (;;) {
    const message = await channel.get("invoices");
    if (message === false) break;
    const { contentType, deliveryMode } = message.properties;
    console.log(`${message.content}`, message.fields.redelivered, contentType, deliveryMode);
    channel.ack(message);
  }
  const { code } = await refused(connection, (other) => other.checkQueue("scratch"));
  console.log("scratch", code);
  await connection.close();
}

async function bindAlerts() {
  const connection = await connect();
  const channel = await connection.createChannel();
  await channel.assertQueue("temp-alerts");
  await channel.bindQueue("temp-alerts", "amq.topic", "sensors.*.temp");
  await connection.close();
}

async function takeAlerts(count) {
  const connection = await connect();
  const channel = await connection.createChannel();
  await channel.prefetch(10);
  let taken = 0;
  await new Promise((resolve) => {
    channel.consume("temp-alerts", (message) => {
      const { exchange, routingKey } = message.fields;
      console.log(exchange, routingKey, message.properties.deliveryMode, `${message.content}`);
      channel.ack(message);
      if (++taken === count) resolve();
    });
  });
  await connection.close();
}

async function measure(topic, payload) {
  const lines = await said(
    "mosquitto_pub",
    "-i",
    "probe",
    "-q",
    "1",
    "-t",
    topic,
    "-m",
    payload,
    "-d",
  );
  console.log(...lines.split("\n").filter((line) => line.includes("PUBACK")));
}

async function crossing() {
  await bindAlerts();
  await measure("sensors/boiler/temp", '{"value": 91.5, "unit": "C"}');
  await measure("sensors/boiler/pressure", '{"value": 2.1, "unit": "bar"}');
  await takeAlerts(1);
  let heard;
  const listener = said("mosquitto_sub", "-t", "devices/+/cmd", "-v", "-C", "1", "-W", "15");
  listener.then((line) => heard = line);
  const connection = await connect();
  const channel = await connection.createConfirmChannel();
  while (heard === undefined) {
    channel.publish("amq.topic", "devices.valve7.cmd", Buffer.from('{"open": false}'), LASTING);
    await channel.waitForConfirms();
    await sleep(200);
  }
  console.log(await listener);
  await connection.close();
}

async function hardest_before() {
  await bindAlerts();
  for (const value of ["92.8", "95.1"]) {
    await measure("sensors/boiler/temp", `{"value": ${value}, "unit": "C"}`);
  }
}

const hardest_after = () => takeAlerts(2);

// ---------------------------------------------------------------------------- what is amqplib's own

async function properties() {
  const connection = await connect();
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  const headers = { one: 1, nested: { deep: [true, null, "x"] } };
  channel.sendToQueue(queue, Buffer.from("hello"), {
    contentType: "text/plain",
    headers,
    messageId: "m-1",
    timestamp: 1234567890,
  });
  await channel.waitForConfirms();
  const message = await channel.get(queue);
  assert.equal(message.properties.contentType, "text/plain");
  assert.deepEqual(message.properties.headers, headers);
  assert.equal(message.properties.messageId, "m-1");
  channel.ack(message);
  console.log(`${message.content}`, await channel.get(queue));
  await connection.close();
}

async function prefetch() {
  const connection = await connect();
  const channel = await connection.createChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  await channel.prefetch(3);
  const seen = [];
  let most = 0;
  let held = 0;
  const all = new Promise((resolve) => {
    channel.consume(queue, (message) => {
      most = Math.max(most, ++held);
      setTimeout(() => {
        held--;
        seen.push(Number(message.content.toString()));
        channel.ack(message);
        if (seen.length === 50) resolve();
      }, 1);
    });
  });
  for (let i = 0; i < 50; i++) channel.sendToQueue(queue, Buffer.from(String(i)));
  await all;
  const inOrder = seen.sort((a, b) => a - b).every((number, i) => number === i);
  console.log("at most", most, "all", inOrder);
  await connection.close();
}

async function refusals() {
  const connection = await connect();
  const code = async (act) => (await refused(connection, act)).code;
  console.log(await code((channel) => channel.checkQueue("nothing-here")));
  console.log(await code((channel) => channel.assertQueue("q", { messageTtl: 1000 })));
  console.log(await code((channel) => channel.assertExchange("amq.mine", "topic")));
  const channel = await connection.createChannel();
  await channel.assertQueue("plain", { durable: false });
  console.log(await code((other) => other.assertQueue("plain", { durable: true })));
  await connection.close();
}

async function large_bodies() {
  const connection = await amqplib.connect(`${url}?frameMax=4096`);
  const channel = await connection.createConfirmChannel();
  const { queue } = await channel.assertQueue("", { exclusive: true });
  const body = Buffer.alloc(500_000, "0123456789");
  channel.sendToQueue(queue, body);
  await channel.waitForConfirms();
  const message = await channel.get(queue, { noAck: true });
  console.log(message.content.length, message.content.equals(body));
  await connection.close();
}

async function cancelled() {
  const connection = await connect();
  const channel = await connection.createChannel();
  await channel.assertQueue("short-lived", { durable: false });
  const told = new Promise((resolve) => channel.consume("short-lived", resolve));
  const other = await connection.createChannel();
  await other.deleteQueue("short-lived");
  console.log(await told);
  await connection.close();
}

const SCENARIOS = {
  exchanges,
  confirms,
  workers,
  durable_before,
  durable_after,
  crossing,
  hardest_before,
  hardest_after,
  properties,
  prefetch,
  refusals,
  large_bodies,
  cancelled,
};
await SCENARIOS[scenario]();
