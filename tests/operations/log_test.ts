/** What is said in the log and where, and what is not (05 sections 12 and 13). */
import assert from "node:assert/strict";
import {
  BrokerProcess,
  configurationText,
  executable,
  temporaryPlace,
} from "../support/broker_process.ts";
import { durable, published, stuffed, subscribed } from "../support/clients.ts";
import { ask } from "../support/http.ts";
import { Metrics } from "../support/metrics.ts";
import { freePort } from "../support/ports.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";
import { OperationsHouse } from "./house.ts";

Deno.test("05 12.1 the log is standard output alone: nothing on standard error, no file of its own", async () => {
  const place = temporaryPlace();
  const configuration = `${place.directory}/saguin.yaml`;
  Deno.writeTextFileSync(configuration, configurationText(place));
  const child = new Deno.Command(executable(), {
    args: ["--config", configuration],
    cwd: place.directory,
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  try {
    const errors = new Response(child.stderr).text();
    let log = "";
    for await (const text of child.stdout.pipeThrough(new TextDecoderStream())) {
      if (!log.includes("is running") && (log + text).includes("is running")) child.kill("SIGTERM");
      log += text;
    }
    assert.equal((await child.status).code, 0);
    assert.equal(await errors, "");
    const lines = log.trimEnd().split("\n");
    assert.ok(lines.length > 3);
    for (const line of lines) {
      assert.match(line, /^time=\S+Z level=(DEBUG|INFO|WARN|ERROR) broker=test msg=/);
    }
    const files = [...Deno.readDirSync(place.directory)].map(({ name }) => name);
    assert.deepEqual(files.filter((name) => !name.startsWith("broker.db")), ["saguin.yaml"]);
  } finally {
    Deno.removeSync(place.directory, { recursive: true });
  }
});

const BOUNDS = { limits: "session_queue_bytes: 64KiB\nmax_message_size: 32KiB" };

Deno.test("05 12.2 a session at its bound is named, once a minute however much it drops", async () => {
  await using ops = await OperationsHouse.open(BOUNDS);
  const { house } = ops;
  const full = () => house.log.lines.filter(({ msg }) => /session_queue_bytes/.test(msg));
  const { client: away } = await durable(house, "away");
  await subscribed(away, "a/#");
  away.close();
  await house.away("away");
  using writer = await house.client({ clientId: "writer" });
  const fill = async () => {
    for (let i = 0; i < 200; i++) await published(writer, "a/x", "x".repeat(500));
  };
  await fill();
  assert.deepEqual(full().map(({ level, fields }) => [level, fields.client]), [["warn", "away"]]);
  await fill();
  assert.equal(full().length, 1);
  await house.time.pass(60_000);
  await fill();
  assert.equal(full().length, 2);
  const metrics = await ops.scrape();
  const dropped = metrics.get("saguin_session_deliveries_dropped_total", {
    cause: "session_queue_full",
  })!;
  assert.ok(dropped > 200);
  assert.equal(metrics.get("saguin_deliveries_refused_total"), dropped);
});

Deno.test("05 12.2 a delivery at QoS 0 that is shed is said at debug, with its consumer", async () => {
  await using ops = await OperationsHouse.open(BOUNDS);
  const { house } = ops;
  using deaf = await house.client({ clientId: "deaf" });
  await subscribed(deaf, "b/#", 0);
  using writer = await house.client({ clientId: "writer" });
  await stuffed(house, "deaf", writer, "b/x");
  const shed = house.lines("dropped a QoS 0 delivery at a full outbound queue");
  assert.equal(shed.length, (await ops.scrape()).get("saguin_deliveries_dropped_total"));
  assert.deepEqual([shed[0].level, shed[0].fields.client], ["debug", "deaf"]);
});

Deno.test("05 12.2 a publish over its rate is said at debug and refused by name", async () => {
  await using ops = await OperationsHouse.open({ limits: "publish_rate: 1" });
  const { house } = ops;
  using eager = await house.client({ clientId: "eager" });
  const codes: number[] = [];
  for (let packetId = 1; packetId <= 5; packetId++) {
    await eager.publish({ topic: "a", qos: 1, packetId });
    codes.push((await eager.expect("puback")).reasonCode);
  }
  const refused = codes.filter((code) => code === 0x97).length;
  assert.ok(refused > 0, `${codes}`);
  const said = house.lines("refused a publish over its client's rate");
  assert.deepEqual([said[0].level, said[0].fields.client], ["debug", "eager"]);
  assert.ok(
    house.log.lines.every(({ level, fields }) => level === "debug" || fields.topic !== "a"),
  );
  const metrics = await ops.scrape();
  assert.equal(
    metrics.get("saguin_publish_refused_total", { reason: "publish rate exceeded" }),
    refused,
  );
});

const JOBS = [
  "jobs: {type: queue, filter: q/#, visibility_timeout: 10s, retry: {max_attempts: 2}}",
  "state: {type: latest, filter: s/#}",
  "log: {type: append, filter: l/#}",
].join("\n");

Deno.test("02b 3.1 each step of a job and each deletion is a line at debug, a dead letter one at warn", async () => {
  await using ops = await OperationsHouse.open({ channels: JOBS });
  const { house } = ops;
  using writer = await house.client({ clientId: "writer" });
  using worker = await house.client({ clientId: "worker" });
  await subscribed(worker, "$saguin/queue/jobs");
  const steps = () =>
    house.log.lines.filter(({ fields }) => fields.queue === "jobs" || fields.channel === "state")
      .map(({ level, msg, fields }) =>
        `${level} ${msg} ${fields.attempt ?? fields.attempts ?? ""} ${
          fields.why ?? fields.reason ?? ""
        }`.trim()
      );
  const offered = async () => {
    await house.time.pass(200);
    const offer = await worker.expect("publish");
    await worker.puback(offer.packetId);
    await until("the lease", () => steps().at(-1)?.includes("leased"));
    return offer;
  };
  const answer = async (
    { properties: { responseTopic, correlationData } }: Awaited<ReturnType<typeof offered>>,
    payload: string,
  ) => {
    const properties = { correlationData };
    await published(worker, responseTopic!, payload, { properties });
    await house.settled();
  };
  const atInfo = () => house.log.lines.filter(({ level }) => level === "info").length;
  const before = atInfo();
  await published(writer, "q/1", "x");
  await answer(await offered(), "ack");
  await published(writer, "q/2", "x");
  await answer(await offered(), "return");
  await offered();
  await house.time.pass(10_000);
  await until("the dead letter", () => steps().at(-1)?.startsWith("warn"));
  assert.deepEqual(steps(), [
    "debug offered a job 1",
    "debug leased a job 1",
    "debug a job is done 1",
    "debug offered a job 1",
    "debug leased a job 1",
    "debug a job came back 1 return",
    "debug offered a job 2",
    "debug leased a job 2",
    "warn moved a job to its dead-letter channel 2 attempts_exhausted",
  ]);
  for (const payload of ["1", "2", "", ""]) await published(writer, "s/a", payload);
  await published(writer, "l/a", "1");
  assert.deepEqual(steps().slice(9), ["debug deleted a value"]);
  assert.equal(atInfo(), before, "nothing is said once a record at info");
});

Deno.test("05 13 there is no $SYS: a filter is refused and counted, a publish refused and nothing more", async () => {
  await using ops = await OperationsHouse.open();
  const { house } = ops;
  using client = await house.client({ clientId: "c" });
  const filters = ["$SYS", "$SYS/#", "$SYS/broker/uptime", "$SYS/+/x"];
  await client.subscribe({
    packetId: 1,
    subscriptions: filters.map((filter) => ({ filter, qos: 1 })),
  });
  await client.expectSuback(1, filters.map(() => 0x87));
  const before = house.log.lines.length;
  for (const [at, topic] of ["$SYS/x", "$SYS/broker/uptime", "$SYS"].entries()) {
    await client.publish({ topic, qos: 1, packetId: 2 + at });
    await client.expectPuback(2 + at, 0x87);
  }
  assert.deepEqual(house.log.lines.slice(before), []);
  const metrics = await ops.scrape();
  assert.equal(
    metrics.get("saguin_subscriptions_refused_total", { reason: "not authorized" }),
    filters.length,
  );
  assert.equal(metrics.sum("saguin_publish_refused_total"), 0);
  assert.equal(metrics.get("saguin_publishes_received_total"), 3);
});

Deno.test("05 12.2 what a client is refused over and over fills no disk, and is counted whole", async () => {
  const operations = freePort();
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      provider: "memory",
      broker: `operations: {listen: {tcp: {address: "127.0.0.1:${operations}"}}}`,
    })
  );
  const EACH = 40;
  const eve = await WireClient.connected(broker.port, { clientId: "eve" });
  for (let packetId = 1; packetId <= EACH; packetId++) {
    await eve.publish({ topic: "$saguin/nowhere", qos: 1, packetId });
    await eve.publish({ topic: "$saguin/nowhere", qos: 0 });
    await eve.subscribe({ packetId, subscriptions: [{ filter: "$SYS/#", qos: 1 }] });
    await eve.expectPuback(packetId, 0x90);
    await eve.expectSuback(packetId, [0x87]);
  }
  eve.close();
  for (let i = 0; i < EACH; i++) {
    using old = await WireClient.open(broker.port, 4);
    await old.connect({ level: 4, clientId: "", cleanStart: false });
    await old.expectConnack(0x02);
    using broken = await WireClient.open(broker.port);
    await broken.send(Uint8Array.of(0xff, 0xff, 0xff, 0xff, 0xff));
    await broken.expectClose();
    using faulty = await WireClient.connected(broker.port, { clientId: "faulty" });
    await faulty.subscribe({ packetId: 1, subscriptions: [] });
    await faulty.expectClose(0x82);
  }
  const { body } = await ask({ port: operations }, "/metrics");
  const metrics = Metrics.parse(body);
  assert.equal(metrics.sum("saguin_publish_refused_total"), 2 * EACH);
  assert.equal(metrics.sum("saguin_subscriptions_refused_total"), EACH);
  assert.equal(metrics.sum("saguin_connections_refused_total"), 3 * EACH);
  assert.equal((await broker.stop()).code, 0);
  const lines = (msg: string) => broker.lines.filter((line) => line.includes(`msg="${msg}"`));
  const said: [string, number, RegExp][] = [
    ["refused a publish", 2 * EACH, /client=eve topic=\$saguin\/nowhere code=144 reason=/],
    ["refused a subscription", EACH, /client=eve filter=\$SYS\/# code=135 reason=/],
    ["refused a connection", EACH, /listener=tcp address=\S+ code=133 reason=/],
    ["closed a connection on a malformed packet", 2 * EACH, /listener=tcp/],
  ];
  for (const [msg, count, like] of said) {
    const held = lines(msg).filter((line) => / times=\d+$/.test(line));
    const atOnce = lines(msg).length - held.length;
    assert.ok(atOnce < count && held.length > 0, `${msg}: ${atOnce} lines of ${count}`);
    const times = held.map((line) => Number(/ times=(\d+)$/.exec(line)![1]));
    assert.equal(atOnce + times.reduce((sum, each) => sum + each, 0), count, msg);
    assert.match(held[0], like);
  }
  // Before the last line.
  assert.match(broker.lines.at(-1)!, /msg="the broker has stopped"$/);
});
