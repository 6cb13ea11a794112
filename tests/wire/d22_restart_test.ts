/** 03 sections 16, 20, 21 and 22: sweeps, order, windows, and what a restart costs. */
import assert from "node:assert/strict";
import {
  durable,
  nothingMore,
  published,
  publishedTwice,
  subscribed,
  taken,
  takenAll,
} from "../support/clients.ts";
import { House, overBoth, property, text } from "../support/house.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
values:
  type: latest
  filter: values/#
jobs:
  type: queue
  filter: jobs/#
`;

/** Something of every kind that a broker keeps. */
async function fill(house: House): Promise<void> {
  using writer = await house.client({ clientId: "fills" });
  const { client } = await durable(house, "kept", { expiry: 10_000 });
  await client.subscribe({
    subscriptions: [
      { filter: "plain/#", qos: 2 },
      { filter: "log/#", qos: 1 },
      { filter: "$share/g/shared", qos: 1 },
    ],
  });
  await client.expectSuback(1, [2, 1, 1]);
  await published(writer, "log/x", "read");
  await taken(client, "log/x", "read");
  await published(writer, "plain/x", "on the wire");
  await client.expectPublish("plain/x", "on the wire");
  await client.publish({ topic: "values/held", payload: "held", qos: 2, packetId: 21 });
  await client.expectPubrec(21);
  await house.time.pass(200);
  await house.settled();
  client.close();
  await house.away("kept");
  await published(writer, "log/x", "unread");
  await published(writer, "values/a", "value");
  await published(writer, "jobs/1", "job");
  await published(writer, "retained", "retained", { retain: true });
  await published(writer, "plain/x", "owed");
  await published(writer, "shared", "group's");
}

/** All of it is there, or none of it. */
async function check(house: House, kept: boolean): Promise<void> {
  const { client, present } = await durable(house, "kept", { expiry: 10_000 });
  assert.equal(present, kept);
  const got = await takenAll(client, kept ? 4 : 0);
  assert.deepEqual(
    got.map((each) => `${each.topic} ${text(each)} ${each.dup}`).sort(),
    kept
      ? [
        "log/x unread false",
        "plain/x on the wire true",
        "plain/x owed false",
        "shared group's false",
      ]
      : [],
  );
  await client.pubrel(21);
  await client.expectPubcomp(21, kept ? 0 : 0x92);
  using reader = await house.client({ clientId: "reader" });
  await reader.subscribe({
    subscriptions: [{ filter: "log/#", qos: 1 }, { filter: "values/#", qos: 1 }, {
      filter: "retained",
    }],
  });
  await reader.expectSuback(1, [1, 1, 0]);
  const stored = await takenAll(reader, kept ? 5 : 0);
  assert.deepEqual(
    stored.map(text).sort(),
    kept ? ["held", "read", "retained", "unread", "value"] : [],
  );
  await nothingMore(reader);
  using worker = await house.client({ clientId: "worker" });
  await subscribed(worker, "$saguin/queue/jobs");
  await house.time.pass(400);
  if (kept) await taken(worker, "jobs/1", "job");
  else await nothingMore(worker);
  client.close();
}

overBoth(
  "I14 D22.1 sqlite keeps all of it over a stop and over a kill",
  { channels: CHANNELS },
  async (house) => {
    await fill(house);
    {
      await using killed = await house.killed(1_000);
      await check(killed, true);
    }
    await house.restart(1_000);
    await check(house, true);
  },
  ["sqlite"],
);

overBoth("D22.2 memory with snapshots keeps all of it over a graceful stop", {
  channels: CHANNELS,
  snapshots: true,
}, async (house) => {
  await fill(house);
  await house.restart(1_000);
  await check(house, true);
}, ["memory"]);

overBoth(
  "D22.3 D2.8 memory without snapshots keeps nothing over a stop, and says so at the start",
  {
    channels: CHANNELS,
  },
  async (house) => {
    const warning =
      "nothing outlives this process: every provider in use is memory without a snapshot";
    assert.equal(house.lines(warning).length, 1);
    await fill(house);
    await house.restart();
    await check(house, false);
  },
  ["memory"],
);

overBoth("I14 D2.8 D22.2 a memory provider is back at its last graceful stop after a crash", {
  channels: CHANNELS,
  snapshots: true,
}, async (house) => {
  using writer = await house.client({ clientId: "w" });
  await published(writer, "log/x", "before the stop");
  await house.restart();
  using again = await house.client({ clientId: "w" });
  await published(again, "log/x", "after it");
  await house.crash();
  using reader = await house.client({ clientId: "r" });
  await subscribed(reader, "log/x");
  assert.deepEqual(property(await taken(reader, "log/x", "before the stop"), "saguin-offset"), [
    "1",
  ]);
  await nothingMore(reader);
}, ["memory"]);

overBoth(
  "D5.21 a channel gone from the configuration leaves its snapshot unread, and nothing is counted",
  {
    channels: CHANNELS,
    snapshots: true,
  },
  async (house) => {
    const { client } = await durable(house, "a");
    await client.publish({ topic: "log/x", payload: "held", qos: 2, packetId: 1 });
    await client.expectPubrec(1);
    house.change({ channels: "values:\n  type: latest" });
    await house.restart();
    assert.equal(house.counters.qos2Abandoned, 0);
    const { client: again } = await durable(house, "a");
    await again.pubrel(1);
    await again.expectPubcomp(1, 0x92);
    again.close();
  },
  ["memory"],
);

overBoth(
  "D5.22 a channel that returns from an older snapshot returns without holds, each counted abandoned",
  {
    channels: CHANNELS,
    snapshots: true,
  },
  async (house) => {
    const { client } = await durable(house, "a");
    await published(client, "log/x", "record");
    await client.publish({ topic: "log/x", payload: "held", qos: 2, packetId: 1 });
    await client.expectPubrec(1);
    house.change({ channels: "values:\n  type: latest" });
    await house.restart(1_000);
    house.change({ channels: CHANNELS });
    await house.restart(1_000);
    assert.equal(house.counters.qos2Abandoned, 1);
    const { client: again } = await durable(house, "a");
    await again.pubrel(1);
    await again.expectPubcomp(1, 0x92);
    await subscribed(again, "log/x");
    await taken(again, "log/x", "record");
    await nothingMore(again);
    again.close();
  },
  ["memory"],
);

overBoth(
  "D22.10 D19.15 what ends with its connection is ended by a restart, its Will unannounced",
  {
    channels: CHANNELS,
  },
  async (house) => {
    const { client: watcher } = await durable(house, "watcher");
    await subscribed(watcher, "will");
    using _armed = await house.client({
      clientId: "ephemeral",
      cleanStart: false,
      will: { topic: "will", payload: "w", qos: 1 },
    });
    await house.settled();
    {
      await using killed = await house.killed();
      const { client } = await durable(killed, "watcher");
      await nothingMore(client);
      const { client: again, present } = await durable(killed, "ephemeral");
      assert.equal(present, false);
      client.close();
      again.close();
    }
    await house.restart();
    const { client } = await durable(house, "watcher");
    await nothingMore(client);
    client.close();
    watcher.close();
  },
  ["sqlite"],
);

overBoth("D22.4 D22.5 a graceful stop stores positions and acknowledgements exactly", {
  channels: CHANNELS,
}, async (house) => {
  const { client } = await durable(house, "a");
  await client.subscribe({
    subscriptions: [{ filter: "log/#", qos: 1 }, { filter: "t/#", qos: 2 }],
  });
  await client.expectSuback(1, [1, 2]);
  using writer = await house.client({ clientId: "w" });
  await published(writer, "log/x", "1");
  await publishedTwice(writer, "t/x", "2");
  await takenAll(client, 2);
  await nothingMore(client);
  await house.restart();
  const { client: again, present } = await durable(house, "a");
  assert.equal(present, true);
  await nothingMore(again);
  again.close();
  client.close();
}, ["sqlite"]);

overBoth("D21.1 the Receive Maximum bounds records, values, log entries and jobs together", {
  channels: CHANNELS,
}, async (house) => {
  using writer = await house.client({ clientId: "w" });
  const { client } = await durable(house, "a", { properties: { receiveMaximum: 3 } });
  await client.subscribe({
    subscriptions: [
      { filter: "log/#", qos: 1 },
      { filter: "values/#", qos: 1 },
      { filter: "plain/#", qos: 2 },
      { filter: "$share/g/shared", qos: 1 },
      { filter: "$saguin/queue/jobs", qos: 1 },
    ],
  });
  await client.expectSuback(1, [1, 1, 2, 1, 1]);
  for (const topic of ["log/x", "values/x", "plain/x", "shared", "jobs/x"]) {
    for (let i = 0; i < 2; i++) await published(writer, topic, topic);
  }
  await published(writer, "plain/x", "QoS 0 does not use it", { qos: 0 });
  await house.time.pass(400);
  const open: { packetId: number }[] = [];
  let zero = 0;
  let seen = 0;
  for (;;) {
    await client.pingreq();
    for (;;) {
      const packet = await client.next();
      if (packet.type === "pingresp") break;
      if (packet.type !== "publish") continue;
      if (packet.qos === 0) zero++;
      else {
        open.push(packet);
        seen++;
      }
      assert.ok(open.length <= 3, `${open.length} on the wire`);
    }
    const done = open.shift();
    if (done === undefined) break;
    await client.puback(done.packetId);
    await house.time.pass(200);
  }
  assert.equal(zero, 1);
  // One of a value's two changes may have replaced the other; one job a worker.
  assert.ok(seen === 8 || seen === 9, `${seen} deliveries`);
  client.close();
});

overBoth("D16.1 D16.2 retention is swept on two clocks, both said and run once at the start", {
  channels: `
aged:
  type: append
  filter: aged/#
  retention_period: 100s
sized:
  type: append
  filter: sized/#
  retention_bytes: 1KiB
`,
}, async (house) => {
  const [line] = house.lines("retention sweeps run");
  assert.deepEqual([line.level, line.fields.size_sweep_ms, line.fields.age_sweep_ms], [
    "info",
    1_000,
    10_000,
  ]);
  using writer = await house.client({ clientId: "w" });
  const stores = ["aged", "sized"].map((name) => {
    const channel = house.broker.routes.channel(name);
    assert.ok(channel?.kind === "append");
    return channel.store;
  });
  // Never on the publish path: the bound may be passed until the next sweep.
  for (let i = 0; i < 20; i++) await published(writer, "sized/x", "x".repeat(100));
  assert.ok(stores[1].bytes() > 1_024);
  await house.time.pass(1_000);
  await house.settled();
  assert.ok(stores[1].bytes() <= 1_024);
  await published(writer, "aged/x", "old");
  await house.time.leap(99_000);
  assert.equal(stores[0].floor(), 1);
  await house.time.leap(12_000);
  await house.settled();
  assert.equal(stores[0].floor(), 2);
});

Deno.test("D16.2 the sweeps of a start find what aged while the broker was stopped", async () => {
  await using house = await House.open({
    provider: "sqlite",
    channels: "aged:\n  type: append\n  retention_period: 100s",
  });
  using writer = await house.client({ clientId: "w" });
  await published(writer, "aged/x", "old");
  await house.restart(200_000);
  const channel = house.broker.routes.channel("aged");
  assert.ok(channel?.kind === "append");
  assert.deepEqual([channel.store.floor(), channel.store.next()], [2, 2]);
});
