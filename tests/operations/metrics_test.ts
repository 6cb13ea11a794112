import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { gunzipSync } from "node:zlib";
import { familyText } from "../../src/operations/metrics/exposition.ts";
import { Metrics } from "../support/metrics.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";
import { CATALOGUE, ON_EVENT } from "./catalogue.ts";
import { OperationsHouse, SCRAPE_MS } from "./house.ts";

const CHANNELS = "events:\n  type: append\n  filter: ev/{a,b}/#\n" +
  "state:\n  type: latest\n  filter: st/#\n" +
  "jobs:\n  type: queue\n  filter: jobs/#\n  visibility_timeout: 30s\n" +
  "  retry: {max_attempts: 2}\n";

const DURABLE = { cleanStart: false, properties: { sessionExpiry: 3600 } };

async function publish(client: WireClient, topic: string, qos = 1, extra = {}): Promise<void> {
  await client.publish({ topic, payload: "x", qos, packetId: 77, ...extra });
  if (qos === 1) await client.expectPuback(77);
}

async function subscribe(client: WireClient, filter: string, qos = 1, extra = {}): Promise<void> {
  await client.subscribe({ packetId: 9, subscriptions: [{ filter, qos }], ...extra });
  await client.expectSuback(9, [qos]);
}

Deno.test("05 8.1 labels and help are escaped, and numbers are what a scraper reads", () => {
  const text = familyText({
    name: "m",
    type: "gauge",
    labels: ["a", "b"],
    help: 'back\\slash\nline "quoted"',
    samples: (_, add) => {
      add(1e21, 'say "hi"\n', "back\\slash");
      add(0.5, "", "é");
      add(Infinity, "x", "y");
    },
  }, undefined);
  assert.equal(
    text,
    '# HELP m back\\\\slash\\nline "quoted"\n# TYPE m gauge\n' +
      'm{a="say \\"hi\\"\\n",b="back\\\\slash"} 1e+21\n' +
      'm{a="",b="é"} 0.5\nm{a="x",b="y"} +Inf\n',
  );
  const nothing = { name: "m", type: "gauge", labels: [], help: "h", samples: () => {} } as const;
  assert.equal(familyText(nothing, undefined), "");
});

Deno.test("05 9 at the start every family is there but those of events, each at zero", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const metrics = await ops.scrape();
  const expected = CATALOGUE.filter(([name]) => !ON_EVENT.includes(name));
  assert.deepEqual(
    [...metrics.families].map(([name, { type, samples }]) => [
      name,
      type,
      ...Object.keys(samples[0].labels),
    ]),
    expected,
  );
  for (const [name, { type, samples }] of metrics.families) {
    if (type !== "counter" || name.startsWith("saguin_runtime_")) continue;
    for (const { value } of samples) assert.equal(value, 0, name);
  }
  const causes = (name: string) => metrics.values(name, "cause").length;
  assert.equal(causes("saguin_sessions_dropped_total"), 3);
  assert.equal(causes("saguin_shares_dropped_total"), 6);
  assert.equal(causes("saguin_session_deliveries_dropped_total"), 5);
  assert.deepEqual(
    metrics.values("saguin_storage_commits_total", "closed_by"),
    ["commit", "interval", "records", "unbatched"],
  );
});

Deno.test("05 10.1 which series a channel has follows from its type", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const metrics = await ops.scrape();
  const has = (name: string) => metrics.values(name, "channel");
  const all = ["events", "jobs", "jobs__dlq", "state"];
  const appends = ["events", "jobs__dlq"];
  assert.deepEqual(has("saguin_published_total"), [...all, "broadcast"]);
  for (
    const name of [
      "info",
      "retention_removed_total",
      "partitioned_consumers",
      "position_lost_total",
    ]
  ) assert.deepEqual(has(`saguin_channel_${name}`), all);
  assert.deepEqual(has("saguin_channel_records"), ["events", "jobs__dlq", "state"]);
  assert.deepEqual(has("saguin_channel_bytes"), ["events", "jobs", "jobs__dlq"]);
  for (const name of ["next_offset", "floor_offset", "consumers"]) {
    assert.deepEqual(has(`saguin_channel_${name}`), appends);
  }
  assert.deepEqual(has("saguin_channel_consumer_position_min"), []);
  assert.deepEqual(has("saguin_latest_superseded_total"), ["state"]);
  for (const { 0: name } of CATALOGUE.filter(([name]) => name.startsWith("saguin_queue_"))) {
    assert.deepEqual(has(name), ["jobs"]);
  }
  assert.equal(
    metrics.get("saguin_channel_info", {
      channel: "events",
      filter: "ev/{a,b}/#",
      type: "append",
      provider: "store",
    }),
    1,
  );
});

Deno.test("05 8.2 one computation an interval, for everybody, and only because somebody asks", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const read = async () => (await ops.get("/metrics")).body;
  const [first, second] = await Promise.all([read(), read()]);
  assert.equal(first, second);
  using client = await ops.house.client({});
  await ops.house.time.pass(SCRAPE_MS - 1);
  assert.equal(await read(), first, "a sample may be one interval old");
  await ops.house.time.pass(1);
  const third = await read();
  assert.equal(Metrics.parse(first).get("saguin_connections"), 0);
  assert.equal(Metrics.parse(third).get("saguin_connections"), 1);
  assert.equal(
    Metrics.parse(third).get("saguin_uptime_seconds"),
    Metrics.parse(first).get("saguin_uptime_seconds")! + SCRAPE_MS / 1_000,
  );
  await client.disconnect();
});

Deno.test("05 8.1 a scrape says its format, and is compressed for whoever asks", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const plain = await ops.get("/metrics", { "Accept-Encoding": "gzip;q=0" });
  assert.equal(plain.headers.get("content-type"), "text/plain; version=0.0.4; charset=utf-8");
  assert.equal(plain.headers.get("content-encoding"), undefined);
  assert.equal(plain.headers.get("vary"), "Accept-Encoding");
  const zipped = await ops.get("/metrics", { "Accept-Encoding": "deflate, gzip;q=0.5" });
  assert.equal(zipped.headers.get("content-encoding"), "gzip");
  assert.equal(new TextDecoder().decode(gunzipSync(zipped.bytes)), plain.body);
});

Deno.test("05 9 connections and sessions: by protocol, offline, restored, shortened", async () => {
  await using ops = await OperationsHouse.open({
    channels: CHANNELS,
    limits: "max_session_expiry: 1h",
  });
  const { house } = ops;
  using five = await house.client({
    clientId: "five",
    cleanStart: false,
    properties: { sessionExpiry: 7200 },
  });
  using old = await WireClient.connected(house.port, { clientId: "old", level: 4 });
  await subscribe(five, "a/#");
  await subscribe(five, "ev/a/#");
  const metrics = await ops.scrape();
  assert.equal(metrics.get("saguin_connections"), 2);
  assert.equal(metrics.get("saguin_connections_by_protocol", { protocol: "5" }), 1);
  assert.equal(metrics.get("saguin_connections_by_protocol", { protocol: "3.1.1" }), 1);
  assert.equal(metrics.get("saguin_connections_total"), 2);
  assert.equal(metrics.get("saguin_subscriptions"), 2);
  assert.equal(metrics.get("saguin_session_expiry_shortened_total"), 1);
  assert.equal(metrics.get("saguin_max_session_expiry_seconds"), 3600);
  assert.ok(metrics.get("saguin_bytes_received_total")! > 60);
  assert.ok(metrics.get("saguin_bytes_sent_total")! > 20);
  await five.disconnect();
  await old.disconnect();
  await house.away("five");
  assert.equal((await ops.scrape()).get("saguin_sessions_offline"), 1);
  await house.restart(1_000);
  ops.reopen();
  const after = await ops.scrape();
  assert.equal(after.get("saguin_sessions_restored_total"), 1);
  assert.equal(after.get("saguin_sessions_offline"), 1);
});

Deno.test("05 9 publishes: by channel and broadcast, unmatched, refused by reason, retained, held", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  using client = await ops.house.client({ clientId: "c" });
  await publish(client, "ev/a/1");
  await publish(client, "ev/a/1");
  await publish(client, "st/1");
  await publish(client, "st/2");
  await publish(client, "st/2", 1, { payload: "" });
  await publish(client, "jobs/1", 1, { retain: true });
  await publish(client, "elsewhere", 1, { retain: true });
  await publish(client, "elsewhere/2");
  await client.publish({ topic: "$saguin/x", qos: 1, packetId: 5 });
  await client.expectPuback(5, 0x90);
  await client.publish({ topic: "$SYS/x", qos: 1, packetId: 6 });
  await client.expectPuback(6, 0x87);
  const gate = ops.house.faults.hold("submit");
  await client.publish({ topic: "ev/b/1", payload: "q", qos: 2, packetId: 7 });
  await until("the hold to wait for its store", () => gate.waiting === 1);
  assert.equal((await ops.scrape()).get("saguin_qos2_held"), 0, "not before its PUBREC");
  gate.open();
  await client.expectPubrec(7);
  const metrics = await ops.scrape();
  const published = (channel: string) => metrics.get("saguin_published_total", { channel });
  assert.deepEqual(
    ["events", "state", "jobs", "jobs__dlq", "broadcast"].map(published),
    [2, 3, 1, 0, 2],
  );
  assert.equal(metrics.get("saguin_publishes_received_total"), 11);
  assert.equal(metrics.get("saguin_broadcast_unmatched_total"), 2);
  assert.equal(metrics.get("saguin_publish_refused_total", { reason: "topic name invalid" }), 1);
  assert.deepEqual(
    metrics.values("saguin_publish_refused_total", "reason"),
    ["topic name invalid"],
    "what is published under $SYS is counted nowhere",
  );
  assert.equal(metrics.get("saguin_retained_messages"), 1);
  assert.equal(metrics.get("saguin_qos2_held"), 1);
  assert.equal(metrics.get("saguin_channel_records", { channel: "events" }), 2);
  assert.equal(metrics.get("saguin_channel_records", { channel: "state" }), 2);
  assert.equal(metrics.get("saguin_queue_depth", { channel: "jobs" }), 1);
  assert.equal(metrics.get("saguin_queue_retain_ignored_total", { channel: "jobs" }), 1);
  await client.pubrel(7);
  await client.expectPubcomp(7);
  const after = await ops.scrape();
  assert.equal(after.get("saguin_qos2_held"), 0);
  assert.equal(after.get("saguin_published_total", { channel: "events" }), 3);
});

Deno.test("05 9 deliveries: sent, waiting and charged, expired, too large, superseded, partitioned", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { house } = ops;
  using reader = await house.client({ clientId: "r", ...DURABLE });
  await subscribe(reader, "b/#");
  await subscribe(reader, "ev/#", 1, {
    properties: { userProperties: [["saguin-filter", "topic_hash(2, 0)"]] },
  });
  await reader.disconnect();
  await house.away("r");
  using publisher = await house.client({});
  await publish(publisher, "b/1", 1, { payload: "12345" });
  await publish(publisher, "b/2", 1, { payload: "12345", properties: { messageExpiry: 30 } });
  const waiting = await ops.scrape();
  assert.equal(waiting.get("saguin_session_queue_messages"), 2);
  assert.ok(waiting.get("saguin_session_queue_bytes")! >= 2 * 80);
  assert.equal(waiting.get("saguin_channel_partitioned_consumers", { channel: "events" }), 1);
  assert.equal(waiting.get("saguin_channel_partitioned_consumers", { channel: "state" }), 0);
  const { client } = await house.connect({ clientId: "r", ...DURABLE });
  const { packetId } = await client.expectPublish();
  await client.puback(packetId);
  using small = await house.client({ clientId: "s", properties: { maximumPacketSize: 40 } });
  await subscribe(small, "b/#");
  await publish(publisher, "b/1", 1, { payload: "x".repeat(100) });
  const last = await client.expectPublish();
  await client.puback(last.packetId);
  const metrics = await until("the acknowledgement", async () => {
    const metrics = await ops.scrape();
    return metrics.get("saguin_session_queue_messages") === 0 ? metrics : undefined;
  });
  assert.equal(metrics.get("saguin_deliveries_sent_total"), 2);
  assert.equal(metrics.get("saguin_deliveries_expired_total"), 1);
  assert.equal(
    metrics.get("saguin_session_deliveries_dropped_total", { cause: "too_large" }),
    1,
  );
  client[Symbol.dispose]();
});

Deno.test("05 9 Wills: published by cause, waiting, cancelled", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { house } = ops;
  const will = (delay: number) => ({
    topic: "w",
    payload: "x",
    properties: { willDelay: delay },
  });
  {
    using lost = await house.client({ clientId: "lost", will: will(0) });
    void lost;
  }
  await until("the Will", () => house.counters.willsPublished.get("immediate") === 1);
  {
    using late = await house.client({ clientId: "late", ...DURABLE, will: will(300) });
    void late;
  }
  await house.away("late");
  const metrics = await ops.scrape();
  assert.equal(metrics.get("saguin_wills_waiting"), 1);
  assert.equal(metrics.get("saguin_wills_published_total", { cause: "immediate" }), 1);
  const { client } = await house.connect({ clientId: "late", ...DURABLE });
  const after = await ops.scrape();
  assert.equal(after.get("saguin_wills_waiting"), 0);
  assert.equal(after.get("saguin_wills_cancelled_total"), 1);
  client[Symbol.dispose]();
  const published = (cause: string) =>
    until(`a Will by ${cause}`, async () => {
      await house.settled();
      return (await ops.scrape()).get("saguin_wills_published_total", { cause }) === 1;
    });
  for (const clientId of ["waited", "replaced", "stopped"]) {
    const delay = clientId === "waited" ? 30 : 3_000;
    using gone = await house.client({ clientId, ...DURABLE, will: will(delay) });
    void gone;
  }
  for (const clientId of ["waited", "replaced", "stopped"]) await house.away(clientId);
  await published("delayed");
  using anew = await house.client({ clientId: "replaced", cleanStart: true });
  void anew;
  await published("session_ended");
  await house.restart(3_600_000);
  ops.reopen();
  await published("start");
});

Deno.test("05 9 publish transactions by provider, and storage errors once there is one", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { house } = ops;
  using client = await house.client({});
  await publish(client, "ev/a/1");
  const metrics = await ops.scrape();
  assert.equal(metrics.sum("saguin_storage_commits_total", { provider: "store" }), 1);
  assert.equal(metrics.get("saguin_storage_committed_records_total", { provider: "store" }), 1);
  assert.equal(metrics.get("saguin_provider_publish_commit_max_records"), 256);
  assert.equal(metrics.get("saguin_provider_max_bytes"), 0);
  assert.ok(metrics.get("saguin_provider_bytes")! >= metrics.sum("saguin_channel_bytes"));
  assert.equal(metrics.get("saguin_storage_errors_total"), undefined);
  const database = new DatabaseSync(house.database);
  database.prepare("DROP TABLE latest_values").run();
  database.close();
  await client.publish({ topic: "st/1", payload: "x", qos: 1, packetId: 1 });
  await client.expectPuback(1, 0x83);
  const after = await ops.scrape();
  assert.equal(after.get("saguin_storage_errors_total", { provider: "store" }), 1);
  assert.equal(
    after.get("saguin_publish_refused_total", { reason: "implementation specific error" }),
    1,
  );
});

Deno.test("05 11 a job whose worker's connection ends counts as returned", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { house } = ops;
  using publisher = await house.client({});
  await publish(publisher, "jobs/1");
  using worker = await house.client({ clientId: "w" });
  await subscribe(worker, "$saguin/queue/jobs");
  const offered = worker.expectPublish();
  await house.time.pass(1_000);
  await worker.puback((await offered).packetId);
  await until("the lease", async () => (await ops.json("queues/jobs")).records[0].attempts === 1);
  worker[Symbol.dispose]();
  await house.away("w");
  const metrics = await until("the job to be back", async () => {
    const metrics = await ops.scrape();
    return metrics.get("saguin_queue_inflight") === 0 ? metrics : undefined;
  });
  assert.equal(metrics.get("saguin_queue_delivered_total"), 1);
  assert.equal(metrics.get("saguin_queue_returned_total"), 1);
  assert.equal(metrics.get("saguin_queue_redelivered_total"), 0);
});

Deno.test("05 11 what a member of a shared group took along enters the group's list and leaves it", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { house } = ops;
  using member = await house.client({ clientId: "m", ...DURABLE });
  await subscribe(member, "$share/g/s/#", 2);
  using publisher = await house.client({});
  await publisher.publish({ topic: "s/1", payload: "x", qos: 2, packetId: 1 });
  await publisher.expectPubrec(1);
  await publisher.pubrel(1);
  await publisher.expectPubcomp(1);
  await member.expectPublish();
  // Sent at QoS 2 and not answered: no other member may have it (MQTT-4.8.2-5).
  member[Symbol.dispose]();
  await house.away("m");
  using successor = await house.client({ clientId: "m" });
  const metrics = await until("the old session to end", async () => {
    const metrics = await ops.scrape();
    return metrics.sum("saguin_shares_dropped_total") > 0 ? metrics : undefined;
  });
  assert.equal(metrics.get("saguin_shares_dropped_total", { cause: "member_ended" }), 1);
  assert.equal(metrics.get("saguin_shares_drained_total"), 1);
  assert.equal(metrics.get("saguin_shares_held_total"), 2);
  await successor.disconnect();
});
