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

/** Prints what a scenario came to, a line each. */
type Client = (ports: { amqp: number; mqtt: number }, scenario: string) => Promise<string[]>;

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

const CLIENTS: Readonly<Record<string, Client>> = {
  pika({ amqp, mqtt }, scenario) {
    const script = ROOT + "tests/interop/pika_client.py";
    return run("/usr/bin/python3", script, String(amqp), scenario, String(mqtt));
  },
  amqplib({ amqp, mqtt }, scenario) {
    const script = ROOT + "tests/interop/amqplib_client.mjs";
    return run("node", script, ROOT + ".interop", String(amqp), scenario, String(mqtt));
  },
};

/** Python and JavaScript write a truth differently. */
const truths = (lines: readonly string[]) =>
  lines.map((line) => line.replaceAll("True", "true").replaceAll("False", "false"));

for (const [name, client] of Object.entries(CLIENTS)) {
  const play = async (
    { process, port }: { process: BrokerProcess; port: number },
    scenario: string,
    expected: readonly string[],
  ) => {
    const lines = await client({ amqp: port, mqtt: process.port }, scenario);
    assert.deepEqual(truths(lines), expected);
  };

  Deno.test(`${name}: direct, fanout and topic exchanges route by their tables`, async () => {
    const started = await broker();
    await using _ = started.process;
    await play(started, "exchanges", [
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

  Deno.test(`${name}: confirms, a return before its confirm, nack with requeue, a refusal by name`, async () => {
    const started = await broker();
    await using _ = started.process;
    await play(started, "confirms", [
      "confirmed",
      "unroutable 312 NO_ROUTE lost?",
      "got resize:img-1.png redelivered false",
      "got resize:img-1.png redelivered true",
      "left",
      "refused NOT_IMPLEMENTED - exchange type 'headers' is not supported; " +
      "supported: direct, fanout, topic",
    ]);
  });

  Deno.test(`${name}: competing consumers share in turn, and by capacity with a prefetch of one`, async () => {
    const started = await broker();
    await using _ = started.process;
    await play(started, "workers", [
      "unlimited 6 6",
      "in turn true",
      "prefetch 1 true true",
      "all once true",
    ]);
  });

  Deno.test(`${name}: a durable queue over kill -9`, async () => {
    const started = await broker();
    const { process } = started;
    await using _ = process;
    await play(started, "durable_before", ["confirmed 5"]);
    await process.kill();
    await process.startAgain();
    await process.line(/AMQP recovered what is stored.* queues=1 messages=3/);
    await play(started, "durable_after", [
      "invoice-1 true text/plain 2",
      "invoice-2 true text/plain 2",
      "invoice-3 true text/plain 2",
      "scratch 404",
    ]);
    await process.kill();
    await process.startAgain();
    await play(started, "durable_after", ["scratch 404"]);
  });

  Deno.test(`${name} and mosquitto: a sensor reaches a worker, and a command comes back`, async () => {
    const started = await broker();
    await using _ = started.process;
    await play(started, "crossing", [
      "Client probe received PUBACK (Mid: 1, RC:0)",
      "Client probe received PUBACK (Mid: 1, RC:0)",
      'amq.topic sensors.boiler.temp 2 {"value": 91.5, "unit": "C"}',
      'devices/valve7/cmd {"open": false}',
    ]);
  });

  Deno.test(`${name} and mosquitto: the worker down, the broker killed, nothing acknowledged is lost`, async () => {
    const started = await broker();
    const { process } = started;
    await using _ = process;
    await play(started, "hardest_before", [
      "Client probe received PUBACK (Mid: 1, RC:0)",
      "Client probe received PUBACK (Mid: 1, RC:0)",
    ]);
    await process.kill();
    await process.startAgain();
    await process.line(/AMQP recovered what is stored.* queues=1 messages=2/);
    await play(started, "hardest_after", [
      'amq.topic sensors.boiler.temp 2 {"value": 92.8, "unit": "C"}',
      'amq.topic sensors.boiler.temp 2 {"value": 95.1, "unit": "C"}',
    ]);
  });
}

Deno.test("amqplib: headers, prefetch, refusals, large bodies in small frames, a cancelled consumer", async () => {
  const { process, port } = await broker();
  await using _ = process;
  const expected = {
    properties: ["hello false"],
    prefetch: ["at most 3 all true"],
    refusals: ["404", "540", "403", "406"],
    large_bodies: ["500000 true"],
    cancelled: ["null"],
  };
  for (const [scenario, lines] of Object.entries(expected)) {
    assert.deepEqual(
      await CLIENTS.amqplib({ amqp: port, mqtt: process.port }, scenario),
      lines,
      scenario,
    );
  }
});
