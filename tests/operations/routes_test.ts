import assert from "node:assert/strict";
import { START } from "../broker/rig.ts";
import { ask } from "../support/http.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";
import { OperationsHouse } from "./house.ts";

const CHANNELS = "events:\n  type: append\n  filter: ev/#\n" +
  "state:\n  type: latest\n  filter: st/#\n" +
  "jobs:\n  type: queue\n  filter: jobs/#\n  visibility_timeout: 30s\n";

const DURABLE = { cleanStart: false, properties: { sessionExpiry: 3600 } };

async function publishes(client: WireClient, topic: string, count: number): Promise<void> {
  for (let packetId = 1; packetId <= count; packetId++) {
    await client.publish({ topic, payload: "SECRET", qos: 1, packetId });
    await client.expectPuback(packetId);
  }
}

async function subscribed(client: WireClient, filter: string, properties = {}): Promise<void> {
  await client.subscribe({ packetId: 9, subscriptions: [{ filter, qos: 1 }], properties });
  await client.expectSuback(9, [1]);
}

Deno.test("05 7.3 consumers: every append channel, readers furthest behind first", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { house } = ops;
  assert.deepEqual(await ops.json("consumers"), {
    channels: ["events", "jobs__dlq"].map((channel) => ({
      channel,
      next_offset: 1,
      consumers: 0,
      returned: 0,
      positions: [],
    })),
  });
  using publisher = await house.client({ clientId: "p" });
  for (const [clientId, acks] of [["slow", 1], ["fast", 3]] as const) {
    using reader = await house.client({ clientId, ...DURABLE });
    await subscribed(reader, "ev/#");
    if (clientId === "slow") await publishes(publisher, "ev/1", 3);
    for (let i = 0; i < acks; i++) {
      const { packetId } = await reader.expectPublish();
      await reader.puback(packetId);
    }
    await reader.pingreq();
    while ((await reader.next()).type !== "pingresp");
    await house.time.pass(1_000);
    await reader.disconnect();
    await house.away(clientId);
  }
  const { channels: [events] } = await ops.json("consumers");
  assert.deepEqual([events.next_offset, events.consumers, events.returned], [4, 2, 2]);
  const [slow, fast] = events.positions;
  assert.deepEqual(slow, { reader: "mqtt:slow", offset: 2, behind: 2, last_seen: slow.last_seen });
  assert.deepEqual([fast.reader, fast.offset, fast.behind], ["mqtt:fast", 4, 0]);
  assert.match(slow.last_seen, /^2026-01-02T03:04:0\dZ$/);
});

Deno.test("05 6 a list has a hundred rows at most, and says how many there are", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { providers } = ops.house;
  const store = [...providers.values()][0].append("events");
  using publisher = await ops.house.client({});
  await publishes(publisher, "ev/1", 120);
  for (let i = 1; i <= 120; i++) {
    const position = { reader: `mqtt:c${i}`, offset: i, expiry: 60, lastSeen: 0n };
    await store.savePosition(position, "connected");
  }
  const { channels: [events] } = await ops.json("consumers");
  assert.deepEqual([events.consumers, events.returned, events.positions.length], [120, 100, 100]);
  assert.deepEqual(events.positions[99], {
    reader: "mqtt:c100",
    offset: 100,
    behind: 21,
    last_seen: "1970-01-01T00:00:00Z",
  });
});

Deno.test("05 6 every list has a hundred rows at most, the worst of all, and says how many there are", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { house } = ops;
  const { counters } = house;
  for (let i = 1; i <= 120; i++) {
    for (let times = 0; times < i; times++) {
      counters.refusedClients.add(`c${i}`, "", "not authorized", 0n, 100);
    }
    counters.positionLosses.add({
      reader: `mqtt:c${i}`,
      channel: "events",
      kind: "session",
      reported: true,
      position: 1,
      floor: 1 + i,
      at: 0n,
    }, 100);
    using client = await house.client({ clientId: `c${i}`, ...i > 20 ? {} : DURABLE });
    await client.disconnect();
    await house.away(`c${i}`);
  }
  const refused = await ops.json("refused");
  assert.deepEqual(
    [refused.returned, refused.clients.length, refused.tracked, refused.beyond],
    [100, 100, 120, 0],
  );
  assert.deepEqual([refused.clients[0].client_id, refused.clients[99].client_id], ["c120", "c21"]);
  const lost = await ops.json("position-lost");
  assert.deepEqual(
    [lost.returned, lost.readers.length, lost.tracked, lost.beyond],
    [100, 100, 120, 0],
  );
  assert.deepEqual([lost.readers[0].reader, lost.readers[99].reader], ["mqtt:c120", "mqtt:c21"]);

  const clients: WireClient[] = [];
  for (let i = 0; i < 100; i++) clients.push(await house.client({ clientId: `here${i}` }));
  const sessions = await ops.json("sessions");
  assert.deepEqual(
    [sessions.returned, sessions.sessions.length, sessions.total, sessions.offline],
    [100, 100, 120, 20],
  );
  const away = sessions.sessions.filter(({ connected }: { connected: boolean }) => !connected);
  assert.equal(away.length, 20);
  assert.equal(sessions.sessions[19].connected, false, "who is away comes first");

  await publishes(clients[0], "jobs/1", 120);
  await clients[1].subscribe({
    packetId: 1,
    subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1 }],
  });
  await clients[1].expectSuback(1, [1]);
  await house.time.pass(1_000);
  const { packetId } = await clients[1].expectPublish();
  await clients[1].puback(packetId);
  // The first job has an attempt; of the others the oldest come first.
  const queue = await until("the attempt", async () => {
    const body = await ops.json("queues/jobs");
    return body.records[0].attempts === 1 ? body : undefined;
  });
  assert.deepEqual([queue.returned, queue.records.length, queue.unresolved], [100, 100, 120]);
  assert.deepEqual(
    queue.records.map(({ offset }: { offset: number }) => offset),
    Array.from({ length: 100 }, (_, i) => i + 1),
  );
  for (const client of clients) client.close();
});

Deno.test("05 1, 05 3 every route only reads: another method is 405, and HEAD is for two and the page", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const status = async (path: string, method: string) =>
    (await ask(ops.where, path, {}, method)).status;
  const lists = [
    "acl",
    "config",
    "consumers",
    "overview",
    "position-lost",
    "queues/jobs",
    "refused",
    "sessions",
    "users",
  ].map((name) => `/v1/operations/${name}`);
  const open = ["/", "/health", "/metrics"];
  for (const path of [...open, ...lists]) {
    for (const method of ["POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE"]) {
      assert.equal(await status(path, method), 405, `${method} ${path}`);
    }
    assert.equal(await status(path, "HEAD"), open.includes(path) ? 200 : 405, path);
    assert.equal((await ask(ops.where, path)).status, path.endsWith("acl") ? 400 : 200, path);
  }
  for (const path of ["/ready", "/v1", "/v1/operations", "/v1/operations/", "/metrics/", "/v2"]) {
    assert.equal(await status(path, "GET"), 404, path);
  }
});

Deno.test("05 7.7 sessions: who is away first, and what is in force for each", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { house } = ops;
  using here = await house.client({ clientId: "here", keepAlive: 60 });
  await subscribed(here, "ev/#", {
    userProperties: [["saguin-filter", "topic_hash(4, 0)"], ["saguin-filter", "topic_hash(4, 1)"]],
  });
  using old = await WireClient.connected(house.port, {
    clientId: "old",
    level: 4,
    cleanStart: false,
  });
  using away = await house.client({ clientId: "away", keepAlive: 30, ...DURABLE });
  await subscribed(away, "a/#");
  await away.disconnect();
  await house.away("away");
  const body = await ops.json("sessions");
  assert.deepEqual([body.total, body.connected, body.offline, body.returned], [3, 2, 1, 3]);
  const [first, second, third] = body.sessions;
  assert.match(first.remote, /^127\.0\.0\.1:\d+$/);
  assert.deepEqual(first, {
    client_id: "away",
    connected: false,
    user: "",
    protocol: 5,
    listener: "tcp",
    remote: first.remote,
    keepalive: 30,
    expires_after: 3600,
    clean_start: false,
    subscriptions: 1,
  });
  assert.deepEqual([second.client_id, second.clean_start], ["here", true]);
  assert.deepEqual(second.partitions, [{ filter: "ev/#", count: 4, indices: [0, 1] }]);
  assert.deepEqual([third.client_id, third.protocol, third.expires_after], ["old", 4, 2592000]);
  assert.ok(!("partitions" in third));
  await old.disconnect();

  await house.restart(1_000);
  ops.reopen();
  const restored = await ops.json("sessions");
  assert.equal(restored.offline, 2);
  assert.deepEqual(
    restored.sessions.map((row: Record<string, unknown>) => [
      row.listener,
      row.remote,
      row.protocol,
    ]),
    [["", "", 0], ["", "", 0]],
  );
});

Deno.test("05 7.5 queues: what waits, what is being handed over, what is leased and to whom", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { house } = ops;
  using publisher = await house.client({});
  await publishes(publisher, "jobs/weld", 3);
  await house.time.pass(5_000);
  using worker = await house.client({ clientId: "w" });
  await worker.subscribe({
    packetId: 1,
    subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1 }],
  });
  await worker.expectSuback(1, [1]);
  const first = await until("a job", async () => {
    await house.time.pass(200);
    const queue = await ops.json("queues/jobs");
    return queue.records[0].state === "delivering" ? queue : undefined;
  });
  assert.deepEqual(
    [first.channel, first.unresolved, first.returned],
    ["jobs", 3, 3],
  );
  assert.deepEqual(first.records[1], {
    offset: 2,
    topic: "jobs/weld",
    attempts: 0,
    state: "waiting",
    first_seen: "2026-01-02T03:04:05Z",
    last_seen: "2026-01-02T03:04:05Z",
  });
  const offered = await worker.expectPublish();
  await worker.puback(offered.packetId);
  await until("the lease", async () => (await ops.json("queues/jobs")).records[0].attempts === 1);
  const ends = new Date(START + house.time.monotonic() + 30_000).toISOString().slice(0, 19) + "Z";
  const [leased] = (await ops.json("queues/jobs")).records;
  assert.deepEqual([leased.state, leased.holder, leased.lease_until], ["leased", "w", ends]);
  assert.ok(leased.last_seen > leased.first_seen);
  await house.time.pass(30_000);
  const after = await ops.json("queues/jobs");
  assert.deepEqual(
    after.records.map((job: { offset: number; attempts: number }) => [job.offset, job.attempts]),
    [[1, 1], [2, 0], [3, 0]],
  );
});

Deno.test("05 7.5 a queue route for what is no configured queue is 404 and names no channel", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  for (const name of ["events", "state", "jobs__dlq", "nothing", "%", "jobs%20", "__proto__"]) {
    const { status, body } = await ops.get(`/v1/operations/queues/${name}`);
    assert.equal(status, 404, name);
    assert.doesNotMatch(body, /events|state|jobs|nothing/);
  }
  assert.equal((await ops.json("queues/%6aobs")).channel, "jobs");
});

Deno.test("05 7.6 refused: who was refused at CONNECT or ended for a refusal, most often first", async () => {
  await using ops = await OperationsHouse.open({ channels: CHANNELS });
  const { house } = ops;
  for (let i = 0; i < 2; i++) {
    using client = await WireClient.open(house.port);
    await client.connect({ clientId: "a\u0001", userName: "ada" });
    await client.expectConnack(0x85);
  }
  using garbage = await WireClient.open(house.port);
  await garbage.send(Uint8Array.of(0x10, 2, 0, 0));
  await garbage.expectClose();
  using old = await WireClient.connected(house.port, { clientId: "old", level: 4 });
  await old.publish({ topic: "$saguin/nothing", qos: 1, packetId: 1 });
  await old.expectClose();
  using taken = await house.client({ clientId: "taken" });
  using taker = await house.client({ clientId: "taken" });
  await taken.expectClose(0x8e);
  const body = await ops.json("refused");
  assert.deepEqual([body.returned, body.tracked, body.beyond], [3, 3, 0]);
  const last_seen = "2026-01-02T03:04:05Z";
  assert.deepEqual(body.clients, [
    {
      client_id: "a\u0001",
      user: "ada",
      reason: "client identifier not valid",
      count: 2,
      last_seen,
    },
    { client_id: "", user: "", reason: "unsupported protocol version", count: 1, last_seen },
    { client_id: "old", user: "", reason: "topic name invalid", count: 1, last_seen },
  ]);
  const metrics = await ops.scrape();
  assert.equal(metrics.sum("saguin_connections_refused_total"), 4);
  assert.equal(
    metrics.get("saguin_connections_refused_total", { reason: "client identifier not valid" }),
    2,
  );
  assert.equal(metrics.get("saguin_publish_refused_total", { reason: "topic name invalid" }), 1);
  await taker.disconnect();
});

Deno.test("05 7.4 position-lost: a reader that comes back to a floor above its position", async () => {
  const channels = "events:\n  type: append\n  filter: ev/#\n  retention_bytes: 1KiB\n";
  await using ops = await OperationsHouse.open({ channels });
  const { house } = ops;
  using reader = await house.client({ clientId: "r", ...DURABLE });
  await subscribed(reader, "ev/#");
  await house.time.pass(1_000);
  await reader.disconnect();
  await house.away("r");
  using publisher = await house.client({});
  for (let packetId = 1; packetId <= 10; packetId++) {
    await publisher.publish({ topic: "ev/1", payload: "x".repeat(400), qos: 1, packetId });
    await publisher.expectPuback(packetId);
  }
  await house.time.pass(2_000);
  await until("retention", () => house.broker.channels[0].store.floor() > 1);
  const floor = house.broker.channels[0].store.floor();
  const { client, present } = await house.connect({ clientId: "r", ...DURABLE });
  assert.equal(present, false);
  const body = await ops.json("position-lost");
  assert.deepEqual(body, {
    readers: [{
      reader: "mqtt:r",
      channel: "events",
      kind: "session",
      reported: true,
      count: 1,
      records_missed: floor - 1,
      last_position: 1,
      last_floor: floor,
      last_seen: body.readers[0].last_seen,
    }],
    returned: 1,
    tracked: 1,
    beyond: 0,
  });
  const metrics = await ops.scrape();
  assert.equal(metrics.get("saguin_channel_position_lost_total", { channel: "events" }), 1);
  assert.equal(
    metrics.get("saguin_channel_retention_removed_total", { channel: "events" }),
    floor - 1,
  );
  client[Symbol.dispose]();
});
