/** Unmodified AMQP clients against a running broker. `clients.sh` puts them in place before. */
import assert from "node:assert/strict";
import { BrokerProcess, configurationText, type Place } from "../support/broker_process.ts";
import { freePort } from "../support/ports.ts";
import { within } from "../support/wait.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const CLIENT_MS = 120_000;

/** A broker with an AMQP door, and that door's port. */
async function broker(): Promise<{ process: BrokerProcess; port: number }> {
  const port = freePort();
  const amqp = `amqp:\n  listen:\n    tcp:\n      address: 127.0.0.1:${port}`;
  const text = (place: Place) => configurationText(place, { broker: amqp });
  return { process: await BrokerProcess.start(text), port };
}

async function run(command: string, ...args: string[]): Promise<string[]> {
  const child = new Deno.Command(command, {
    args,
    env: { PATH: `/usr/bin:${Deno.env.get("PATH")}` },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  try {
    const { code, stdout, stderr } = await within(
      `the end of ${command} ${args.join(" ")}`,
      child.output(),
      CLIENT_MS,
    );
    const decoder = new TextDecoder();
    assert.equal(code, 0, decoder.decode(stdout) + decoder.decode(stderr));
    return decoder.decode(stdout).trimEnd().split("\n");
  } catch (error) {
    try {
      child.kill("SIGKILL");
    } catch {
      // It ended between the deadline and here.
    }
    throw error;
  }
}

function pika(port: number, scenario: string, mqttPort: number): Promise<string[]> {
  const script = ROOT + "tests/interop/pika_client.py";
  return run("/usr/bin/python3", script, String(port), scenario, String(mqttPort));
}

Deno.test("pika: direct, fanout and topic exchanges route by their tables", async () => {
  const { process, port } = await broker();
  await using _ = process;
  assert.deepEqual(await pika(port, "exchanges", process.port), [
    "product saguin",
    "q.paid order-1001 order-1002",
    "q.refund order-0999",
    "node-a invalidate:/products/42",
    "node-b invalidate:/products/42",
    "node-c invalidate:/products/42",
    "all-errors api.error",
    "eu-everything eu.west.db.error eu.west.db.slow eu",
    "eu-west-db eu.west.db.error eu.west.db.slow",
  ]);
});

Deno.test("pika: confirms, a mandatory return, nack with requeue, and a refusal by name", async () => {
  const { process, port } = await broker();
  await using _ = process;
  assert.deepEqual(await pika(port, "confirms", process.port), [
    "confirmed",
    "unroutable 312 NO_ROUTE lost?",
    "got resize:img-1.png redelivered False",
    "got resize:img-1.png redelivered True",
    "left",
    "refused 540 NOT_IMPLEMENTED - exchange type 'headers' is not supported; " +
    "supported: direct, fanout, topic",
  ]);
});

Deno.test("pika: competing consumers share evenly, and by capacity with a prefetch of one", async () => {
  const { process, port } = await broker();
  await using _ = process;
  assert.deepEqual(await pika(port, "workers", process.port), [
    "unlimited 6 6",
    "prefetch 1 True True",
    "all once True",
  ]);
});

Deno.test("pika: a durable queue over kill -9", async () => {
  const { process, port } = await broker();
  await using _ = process;
  assert.deepEqual(await pika(port, "durable_before", process.port), ["confirmed 5"]);
  await process.kill();
  await process.startAgain();
  assert.deepEqual(await pika(port, "durable_after", process.port), [
    "invoice-1 True text/plain 2",
    "invoice-2 True text/plain 2",
    "invoice-3 True text/plain 2",
    "scratch 404",
  ]);
  await process.kill();
  await process.startAgain();
  assert.deepEqual(await pika(port, "durable_after", process.port), ["scratch 404"]);
});

Deno.test("pika and mosquitto: a sensor reaches a worker, and a command comes back", async () => {
  const { process, port } = await broker();
  await using _ = process;
  assert.deepEqual(await pika(port, "crossing", process.port), [
    'amq.topic sensors.boiler.temp 2 {"value": 91.5}',
    'devices/valve7/cmd {"open": false}',
  ]);
});

Deno.test("pika and mosquitto: the worker down, the broker killed, and nothing acknowledged is lost", async () => {
  const { process, port } = await broker();
  await using _ = process;
  assert.deepEqual(await pika(port, "hardest_before", process.port), ["published 2"]);
  await process.kill();
  await process.startAgain();
  assert.deepEqual(await pika(port, "hardest_after", process.port), [
    "amq.topic sensors.boiler.temp 2 92.8",
    "amq.topic sensors.boiler.temp 2 95.1",
  ]);
});

Deno.test("amqplib (npm) works unmodified", async () => {
  const { process, port } = await broker();
  await using _ = process;
  const script = ROOT + "tests/interop/amqplib_client.mjs";
  assert.deepEqual(
    await run("node", script, ROOT + ".interop", String(port)),
    ["hello", "routing", "returns", "consuming", "refusals", "large_bodies", "cancelled"]
      .map((name) => `ok ${name}`),
  );
});
