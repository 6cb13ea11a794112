// npm's amqplib against a broker. Arguments: the directory of node_modules, the AMQP port.
// Prints "ok <check>" a line.
import assert from "node:assert/strict";
import { createRequire } from "node:module";

const [directory, port] = process.argv.slice(2);
const amqplib = createRequire(`${directory}/`)("amqplib");
const url = `amqp://guest:guest@127.0.0.1:${port}`;

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

const checks = {
  async hello() {
    const connection = await connect();
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    channel.sendToQueue(queue, Buffer.from("hello"), {
      contentType: "text/plain",
      headers: { one: 1, nested: { deep: [true, null, "x"] } },
      messageId: "m-1",
      timestamp: 1234567890,
    });
    await channel.waitForConfirms();
    const message = await channel.get(queue);
    assert.equal(message.content.toString(), "hello");
    assert.equal(message.properties.contentType, "text/plain");
    assert.deepEqual(message.properties.headers, { one: 1, nested: { deep: [true, null, "x"] } });
    assert.equal(message.properties.messageId, "m-1");
    assert.equal(message.fields.redelivered, false);
    channel.ack(message);
    assert.equal(await channel.get(queue), false);
    await connection.close();
  },

  async routing() {
    const connection = await connect();
    const channel = await connection.createChannel();
    await channel.assertExchange("events", "topic", { durable: false });
    await channel.assertQueue("errors");
    await channel.bindQueue("errors", "events", "*.error");
    await channel.bindQueue("errors", "events", "api.#");
    for (const key of ["api.error", "db.error", "db.info", "api.v1.info"]) {
      channel.publish("events", key, Buffer.from(key));
    }
    await channel.checkQueue("errors");
    assert.deepEqual(await drain(channel, "errors"), ["api.error", "db.error", "api.v1.info"]);
    await channel.deleteQueue("errors");
    await connection.close();
  },

  async returns() {
    const connection = await connect();
    const channel = await connection.createConfirmChannel();
    const order = [];
    channel.on("return", ({ fields, content }) => order.push(`${fields.replyText} ${content}`));
    channel.publish("", "no-such-queue", Buffer.from("lost?"), { mandatory: true }, () => {
      order.push("confirmed");
    });
    await channel.waitForConfirms();
    assert.deepEqual(order, ["NO_ROUTE lost?", "confirmed"]);
    await connection.close();
  },

  async consuming() {
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
    assert.ok(most <= 3, `${most} at once`);
    assert.deepEqual(seen.sort((a, b) => a - b), Array.from({ length: 50 }, (_, i) => i));
    await connection.close();
  },

  async refusals() {
    const connection = await connect();
    const refused = async (act) => {
      const channel = await connection.createChannel();
      const error = new Promise((resolve) => channel.once("error", resolve));
      await assert.rejects(async () => await act(channel));
      return (await error).code;
    };
    assert.equal(await refused((channel) => channel.checkQueue("nothing-here")), 404);
    assert.equal(await refused((channel) => channel.assertQueue("q", { messageTtl: 1000 })), 540);
    assert.equal(await refused((channel) => channel.assertExchange("amq.mine", "topic")), 403);
    const channel = await connection.createChannel();
    await channel.assertQueue("plain", { durable: false });
    assert.equal(await refused((other) => other.assertQueue("plain", { durable: true })), 406);
    await channel.deleteQueue("plain");
    await connection.close();
  },

  async large_bodies() {
    const connection = await amqplib.connect(`${url}?frameMax=4096`);
    const channel = await connection.createConfirmChannel();
    const { queue } = await channel.assertQueue("", { exclusive: true });
    const body = Buffer.alloc(500_000, "0123456789");
    channel.sendToQueue(queue, body);
    await channel.waitForConfirms();
    const message = await channel.get(queue, { noAck: true });
    assert.ok(message.content.equals(body));
    await connection.close();
  },

  async cancelled() {
    const connection = await connect();
    const channel = await connection.createChannel();
    await channel.assertQueue("short-lived", { durable: false });
    const cancelled = new Promise((resolve) => channel.consume("short-lived", resolve));
    const other = await connection.createChannel();
    await other.deleteQueue("short-lived");
    assert.equal(await cancelled, null);
    await connection.close();
  },
};

for (const [name, check] of Object.entries(checks)) {
  await check();
  console.log(`ok ${name}`);
}
