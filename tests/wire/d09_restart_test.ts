/** 03 section 9: what becomes of a group and its backlog when members, time or the broker go. */
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
import { type House, overBoth, text } from "../support/house.ts";
import { until } from "../support/wait.ts";
import type { WireClient } from "../support/wire.ts";

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

async function member(
  house: House,
  clientId: string,
  filter: string,
  qos = 1,
): Promise<WireClient> {
  const client = await house.client({ clientId });
  await subscribed(client, filter, qos);
  return client;
}

async function durableMember(
  house: House,
  clientId: string,
  filter: string,
  options: Parameters<typeof durable>[2] & { qos?: number } = {},
): Promise<WireClient> {
  const { qos = 1, ...rest } = options;
  const { client } = await durable(house, clientId, rest);
  await subscribed(client, filter, qos);
  return client;
}

overBoth("D9.6 share.expires_after drops what waited longer, counted expired", {
  channels: CHANNELS,
  broker: "share:\n  expires_after: 20s",
}, async (house) => {
  const client = await durableMember(house, "a", "$share/g/t");
  client.close();
  await house.away("a");
  using writer = await house.client({ clientId: "w" });
  await published(writer, "t", "old");
  await house.time.pass(15_000);
  await published(writer, "t", "young");
  await published(writer, "t", "its own expiry", { properties: { messageExpiry: 3 } });
  await house.time.pass(6_000);
  assert.equal(house.counters.sharesDropped.get("expired"), 1);
  const { client: again } = await durable(house, "a");
  await taken(again, "t", "young");
  await nothingMore(again);
  assert.equal(house.counters.sharesDropped.get("expired"), 2);
  again.close();
});

overBoth(
  "D9.9 a join that races the last leave gets a group with a cursor",
  { channels: CHANNELS },
  async (
    house,
  ) => {
    const leaving = await durableMember(house, "a", "$share/g/t");
    const { client: joining } = await durable(house, "b");
    const gate = house.faults.hold("sessions.save");
    await leaving.unsubscribe({ filters: ["$share/g/t"] });
    await until("the leave at the store", () => gate.waiting === 1);
    await joining.subscribe({ subscriptions: [{ filter: "$share/g/t", qos: 1 }] });
    await joining.expectSilence(30);
    gate.open();
    await leaving.expectUnsuback(1, [0]);
    await joining.expectSuback(1, [1]);
    assert.equal(house.rows("SELECT * FROM share_groups").length, 1);
    joining.close();
    await house.away("b");
    using writer = await house.client({ clientId: "w" });
    await published(writer, "t", "kept");
    await using killed = await house.killed();
    const { client: again } = await durable(killed, "b");
    await taken(again, "t", "kept");
    again.close();
    leaving.close();
  },
  ["sqlite"],
);

overBoth(
  "D9.2 D9.6 D9.7 D22.1 a group's backlog, hand-overs and returns come back after a stop and after a kill",
  {
    channels: CHANNELS,
  },
  async (house) => {
    using writer = await house.client({ clientId: "w" });
    const first = await durableMember(house, "a", "$share/g/+/x", {
      expiry: 1_000,
      properties: { receiveMaximum: 2 },
    });
    const short = await durableMember(house, "b", "$share/g/+/x", {
      expiry: 50,
      properties: { receiveMaximum: 1 },
    });
    for (
      const [topic, payload] of [
        ["plain/x", "a's"],
        ["log/x", "b's"],
        ["plain/x", "a's too"],
        ["values/x", "waits"],
        ["plain/x", "waits too"],
      ]
    ) await published(writer, topic, payload);
    const one = await first.expectPublish("plain/x", "a's");
    const two = await first.expectPublish("plain/x", "a's too");
    await short.expectPublish("log/x", "b's");
    await house.time.pass(400);
    await house.settled();
    {
      // On a's wire, on b's, and in the backlog: nothing is anybody else's.
      await using killed = await house.killed();
      const { client: a } = await durable(killed, "a", { expiry: 1_000 });
      for (const sent of [one, two]) {
        const again = await a.expectPublish("plain/x");
        assert.deepEqual([again.packetId, again.dup], [sent.packetId, true]);
      }
      await taken(a, "values/x", "waits");
      await taken(a, "plain/x", "waits too");
      await nothingMore(a);
      const { client: b } = await durable(killed, "b", { expiry: 50 });
      assert.equal((await taken(b, "log/x", "b's")).dup, true);
      await nothingMore(b);
      a.close();
      b.close();
    }
    await first.puback(one.packetId);
    await first.expectPublish("values/x", "waits");
    short.close();
    await house.away("b");
    await house.time.leap(50_000);
    await until("b to end", () => house.broker.sessions.get("b") === undefined);
    await house.settled();
    await house.time.pass(400);
    assert.equal(house.rows("SELECT * FROM share_returned").length, 1);
    for (const graceful of [false, true]) {
      if (graceful) await house.restart();
      const next = graceful ? house : await house.killed();
      const { client: a } = await durable(next, "a", { expiry: 1_000 });
      const seen = await takenAll(a, 4);
      assert.deepEqual(seen.map(text), ["a's too", "waits", "b's", "waits too"]);
      await nothingMore(a);
      a.close();
      if (!graceful) await next[Symbol.asyncDispose]();
    }
    first.close();
  },
  ["sqlite"],
);

overBoth(
  "D9.14 after a kill what members without a kept session had is the group's again, QoS 2 excepted",
  {},
  async (
    house,
  ) => {
    using writer = await house.client({ clientId: "w" });
    const keeper = await durableMember(house, "k", "$share/g/t", { qos: 2 });
    keeper.close();
    await house.away("k");
    using guest = await member(house, "guest", "$share/g/t", 2);
    await published(writer, "t", "acknowledged");
    await taken(guest, "t", "acknowledged");
    await published(writer, "t", "unacknowledged");
    await guest.expectPublish("t", "unacknowledged");
    await publishedTwice(writer, "t", "QoS 2");
    await guest.expectPublish("t", "QoS 2");
    await nothingMore(guest);
    await house.time.pass(400);
    await house.settled();
    await using killed = await house.killed();
    const { client } = await durable(killed, "k");
    await taken(client, "t", "unacknowledged");
    await nothingMore(client);
    client.close();
  },
  ["sqlite"],
);

overBoth(
  "D9.10 a resumed session whose group has no cursor gets one before CONNACK, or is refused",
  {},
  async (
    house,
  ) => {
    const client = await durableMember(house, "a", "$share/g/t");
    await client.disconnect();
    const group = house.broker.shares.get("$share/g/t")!;
    group.kept = false;
    const { WireClient } = await import("../support/wire.ts");
    for (const [kind, code] of [["full", 0x97], ["failed", 0x83]] as const) {
      house.faults.refuse("sessions.save", kind, 1);
      using refused = await WireClient.open(house.port);
      await refused.connect({ clientId: "a", cleanStart: false, properties: { sessionExpiry: 9 } });
      await refused.expectConnack(code);
    }
    assert.equal(group.kept, false);
    const { client: again, present } = await durable(house, "a");
    assert.equal(present, true);
    assert.equal(group.kept, true);
    again.close();
  },
);

overBoth(
  "D6.22 a group that no session is in any more is dropped at the start",
  {},
  async (house) => {
    const client = await durableMember(house, "a", "$share/g/t", { expiry: 10 });
    client.close();
    await house.away("a");
    using writer = await house.client({ clientId: "w" });
    await published(writer, "t", "lost");
    await using killed = await house.killed(20_000);
    assert.deepEqual(killed.rows("SELECT * FROM share_groups"), []);
    assert.equal(killed.broker.shares.size, 0);
    assert.equal(killed.logLength(), 0);
  },
  ["sqlite"],
);

overBoth(
  "D9.6 a group's cursor goes with the record of its last kept member, whatever session replaces that",
  {},
  async (house) => {
    for (const expiry of [0, 3_600]) {
      const last = await durableMember(house, "last", "$share/g/t");
      // Resumed for one connection, it holds the group no more than a session that never was kept.
      const passing = await durableMember(house, "passing", "$share/g/t");
      passing.close();
      await house.away("passing");
      const { client: resumed } = await durable(house, "passing", { expiry: 0 });
      assert.equal(house.rows("SELECT name FROM share_groups").length, 1);
      const { client } = await house.connect({
        clientId: "last",
        cleanStart: true,
        properties: { sessionExpiry: expiry },
      });
      await last.expectClose(0x8e);
      assert.deepEqual(house.rows("SELECT name FROM share_groups"), [], `expiry ${expiry}`);
      for (const each of [client, resumed]) each.close();
      await house.away("last");
      await house.away("passing");
    }
  },
  ["sqlite"],
);

/** Two members of one group, and somebody else for whom the log keeps everything. */
async function twoMembers(house: House): Promise<[WireClient, WireClient, WireClient]> {
  const keeper = await durableMember(house, "keeper", "t");
  keeper.close();
  await house.away("keeper");
  return [
    await durableMember(house, "a", "$share/g/t"),
    await durableMember(house, "b", "$share/g/t"),
    await house.client({ clientId: "w" }),
  ];
}

/** Nothing is served again after a stop, or a kill, that comes when everything was stored. */
async function servedOnce(house: House, provider: string): Promise<void> {
  await house.time.pass(600);
  await house.settled();
  if (provider === "sqlite") {
    await using killed = await house.killed();
    const { client } = await durable(killed, "b");
    await nothingMore(client);
    client.close();
  }
  await house.restart();
  const { client } = await durable(house, "b");
  await nothingMore(client);
  client.close();
}

overBoth(
  "D9.2 D22.5 what members of a group had on their wires at once is not served again after a restart",
  { snapshots: true },
  async (house, provider) => {
    const [a, b, writer] = await twoMembers(house);
    for (const payload of ["1", "2"]) await published(writer, "t", payload);
    const first = await a.expectPublish("t", "1");
    const second = await b.expectPublish("t", "2");
    await house.time.pass(200);
    await house.settled();
    await a.puback(first.packetId);
    await b.puback(second.packetId);
    for (const each of [a, b]) await nothingMore(each);
    await servedOnce(house, provider);
  },
);

overBoth(
  "D9.2 D22.5 what members of a group acknowledged at once is not served again after a restart",
  { snapshots: true },
  async (house, provider) => {
    const [a, b, writer] = await twoMembers(house);
    for (const [at, payload] of ["1", "2", "3", "4"].entries()) {
      await published(writer, "t", payload);
      await taken(at % 2 === 0 ? a : b, "t", payload);
    }
    for (const each of [a, b]) await nothingMore(each);
    await servedOnce(house, provider);
  },
);

overBoth(
  "D9.12 D22.5 a member that ended before its hand-over was stored does not hold the group's cursor",
  { snapshots: true },
  async (house, provider) => {
    const [a, b, writer] = await twoMembers(house);
    await published(writer, "t", "1");
    await a.expectPublish("t", "1");
    const { client: successor } = await durable(house, "a", { cleanStart: true });
    await a.expectClose(0x8e);
    await taken(b, "t", "1");
    for (const payload of ["2", "3"]) {
      await published(writer, "t", payload);
      await taken(b, "t", payload);
    }
    await nothingMore(b);
    await servedOnce(house, provider);
    successor.close();
  },
);
