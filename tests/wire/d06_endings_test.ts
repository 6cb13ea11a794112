/** 03 section 6: sessions whose CONNACK, end or removal fails, and those that a restart brings back. */
import assert from "node:assert/strict";
import {
  connecting,
  durable,
  nothingMore,
  published,
  subscribed,
  taken,
} from "../support/clients.ts";
import { type House, overBoth } from "../support/house.ts";
import { until } from "../support/wait.ts";

const CHANNELS = "log:\n  type: append\n  filter: log/#";

overBoth("D6.4 a CONNACK that cannot be written leaves the session as it was", {
  channels: CHANNELS,
}, async (house) => {
  using writer = await house.client({ clientId: "w" });
  for (const cleanStart of [false, true]) {
    const id = `c-${cleanStart}`;
    const { client: first } = await durable(house, id);
    await subscribed(first, `${id}/#`);
    await published(writer, `${id}/x`, "one");
    const { packetId } = await first.expectPublish(`${id}/x`, "one");
    await house.time.pass(200);

    const claimed = await claim(house, id, cleanStart);
    assert.equal(claimed.sessionPresent, !cleanStart);
    const place = cleanStart ? "sessions.begin" : "sessions.save";
    house.faults.refuse(place);
    claimed.abandon();
    // Restored every second until it lands, and before anything else is done for the client id.
    const waiting = await connecting(house, { clientId: id, cleanStart: false });
    await house.time.pass(1_000);
    await waiting.expectSilence(20);
    house.faults.relent(place);
    await published(writer, `${id}/x`, "two");
    const second = await first.expectPublish(`${id}/x`, "two");
    await first.puback(second.packetId);
    await nothingMore(first);
    await house.time.pass(1_000);
    assert.equal((await waiting.expectConnack()).sessionPresent, true);
    await first.expectClose(0x8e);
    const again = await waiting.expectPublish(`${id}/x`, "one");
    assert.deepEqual([again.packetId, again.dup], [packetId, true]);
    await nothingMore(waiting);
    waiting.close();
  }
});

overBoth("D6.4 a new session whose CONNACK cannot be written ends at once, whatever its expiry", {
  channels: CHANNELS,
}, async (house, provider) => {
  (await claim(house, "new", false)).abandon();
  const { client, present } = await durable(house, "new");
  assert.equal(present, false);
  client.close();
  await house.away("new");
  if (provider === "sqlite") assert.equal(house.rows("SELECT client FROM sessions").length, 1);
});

/** A CONNECT as the broker core is asked, its CONNACK not written yet. */
async function claim(house: House, clientId: string, cleanStart: boolean) {
  const claimed = await house.broker.connect({
    clientId,
    user: "",
    sentClientId: clientId,
    access: undefined,
    level: 5,
    cleanStart,
    expiry: 5,
    receiveMaximum: 1,
    will: undefined,
  });
  assert.ok("abandon" in claimed);
  return claimed;
}

overBoth("D6.12 D6.13 what a session leaves is dropped before its client id is served again", {
  channels: CHANNELS,
}, async (house) => {
  // A position that cannot be dropped.
  const { client } = await durable(house, "a", { expiry: 10 });
  await subscribed(client, "log/#");
  using writer = await house.client({ clientId: "w" });
  await published(writer, "log/x", "one");
  await taken(client, "log/x", "one");
  await house.time.pass(200);
  client.close();
  await house.away("a");
  house.faults.refuse("log.dropPosition");
  await house.time.leap(10_000);
  await until("the session to end", () => house.broker.sessions.get("a") === undefined);
  for (let i = 0; i < 2; i++) {
    using refused = await connecting(house, { clientId: "a", properties: { sessionExpiry: 10 } });
    await refused.expectConnack(0x83);
    await refused.expectClose();
  }
  // Tried every second, until it lands.
  await house.time.pass(2_000);
  house.faults.relent("log.dropPosition");
  await house.time.pass(1_000);
  const calls = house.faults.calls.get("log.dropPosition")!;
  assert.ok(calls >= 1);
  const again = await durable(house, "a", { expiry: 10 });
  assert.equal(again.present, false);
  await subscribed(again.client, "log/#");
  await taken(again.client, "log/x", "one");
  again.client.close();
});

overBoth(
  "D6.12 an ending that the store refuses after the CONNACK costs the connection, and is tried again",
  {
    channels: CHANNELS,
  },
  async (house) => {
    const { client } = await durable(house, "a");
    await subscribed(client, "log/#");
    house.faults.refuse("log.dropPosition");
    const next = await connecting(house, { clientId: "a", properties: { sessionExpiry: 10 } });
    await next.expectConnack();
    await next.expectClose(0x83);
    await client.expectClose(0x8e);
    using refused = await connecting(house, { clientId: "a", properties: { sessionExpiry: 10 } });
    await refused.expectConnack(0x83);
    house.faults.relent("log.dropPosition");
    const third = await durable(house, "a");
    third.client.close();
  },
);

overBoth("D6.12 what an ending leaves late was not refused: the session that follows goes on", {
  channels: CHANNELS,
}, async (house) => {
  const { client } = await durable(house, "a");
  await subscribed(client, "log/#");
  const holding = house.faults.hold("submit");
  await client.publish({ topic: "log/x", payload: "held", qos: 2, packetId: 1 });
  await until("the hold to reach its store", () => holding.waiting === 1);
  const position = house.faults.hold("log.dropPosition");
  const hold = house.faults.hold("log.abandonHold");
  const next = await connecting(house, { clientId: "a", properties: { sessionExpiry: 10 } });
  await next.expectConnack();
  await client.expectClose(0x8e);
  await until("the position to be dropped", () => position.waiting === 1);
  // Stored for a session that is no more: it is left too, while the position is on its way out.
  holding.open();
  await until("the hold to be abandoned", () => hold.waiting === 1);
  position.open();
  await next.expectSilence(20);
  hold.open();
  await nothingMore(next);
  next.close();
});

overBoth("D6.12 a record that cannot be removed refuses the CONNECT that found it expired", {
  channels: CHANNELS,
}, async (house) => {
  const { client } = await durable(house, "a", { expiry: 10 });
  client.close();
  await house.away("a");
  house.faults.refuse("sessions.end");
  house.time.begin(house.time.monotonic() + 10_000);
  using refused = await connecting(house, { clientId: "a", properties: { sessionExpiry: 10 } });
  await refused.expectConnack(0x83);
  house.faults.relent("sessions.end");
  const next = await durable(house, "a");
  assert.equal(next.present, false);
  next.client.close();
});

overBoth(
  "D6.16 D19.11 a clean DISCONNECT that the store refuses closes, and is written every second until it lands",
  {
    channels: CHANNELS,
  },
  async (house, provider) => {
    const { client } = await durable(house, "a", {
      will: { topic: "will/a", payload: "withdrawn" },
    });
    await subscribed(client, "log/#");
    using writer = await house.client({ clientId: "w" });
    await published(writer, "log/x", "one");
    await taken(client, "log/x", "one");
    await nothingMore(client);
    house.faults.refuse("sessions.save");
    await client.disconnect();
    assert.equal(
      house.lines("cannot store a disconnect; it is tried again every second").length,
      1,
    );
    using refused = await connecting(house, {
      clientId: "a",
      cleanStart: false,
      properties: { sessionExpiry: 10 },
    });
    await refused.expectConnack(0x83);
    await house.time.pass(3_000);
    assert.equal(
      house.lines("cannot store a disconnect; it is tried again every second").length,
      1,
    );
    house.faults.relent("sessions.save");
    await house.time.pass(1_000);
    await house.settled();
    if (provider === "memory") return;
    const [row] = house.rows(
      "SELECT will, away_since > 0 AS away FROM sessions WHERE client = 'a'",
    );
    assert.deepEqual(row, { will: null, away: 1 });
    const [position] = house.rows(
      "SELECT \"offset\" FROM positions WHERE reader = 'mqtt:a' AND channel = 'log'",
    );
    assert.equal(position.offset, 2);
  },
);

overBoth(
  "D6.14 D6.20 D6.21 an ended session leaves no row behind",
  { channels: CHANNELS },
  async (house) => {
    const { client } = await durable(house, "a", { expiry: 10 });
    await subscribed(client, "log/#");
    await subscribed(client, "t/#");
    using writer = await house.client({ clientId: "w" });
    await published(writer, "log/x", "one");
    await published(writer, "t/x", "two");
    await client.expectPublish();
    await client.expectPublish();
    await client.publish({ topic: "log/held", qos: 2, packetId: 9 });
    await client.expectPubrec(9);
    await house.time.pass(200);
    client.close();
    await house.away("a");
    await house.time.leap(10_000);
    await until("the session to end", () => house.broker.sessions.get("a") === undefined);
    await house.settled();
    assert.equal(house.counters.qos2Abandoned, 1);
    for (
      const sql of [
        "SELECT 1 FROM sessions",
        "SELECT 1 FROM session_inflight",
        "SELECT 1 FROM positions",
        "SELECT 1 FROM held_publishes",
      ]
    ) await until(`no row of ${sql}`, () => house.rows(sql).length === 0);
  },
  ["sqlite"],
);

overBoth(
  "D6.14 D22.10 sessions that expired while stopped, ended with their connection, or hold what is refused now end at the start",
  {
    channels: CHANNELS,
  },
  async (house) => {
    for (const [clientId, expiry] of [["short", 10], ["long", 1_000]] as const) {
      const { client } = await durable(house, clientId, { expiry });
      await subscribed(client, `${clientId}/#`);
      client.close();
      await house.away(clientId);
    }
    using gone = await house.client({ clientId: "ephemeral" });
    await subscribed(gone, "ephemeral/#");
    const queued = await durable(house, "queued");
    await subscribed(queued.client, "jobs/+");
    queued.client.close();
    await house.away("queued");
    gone.close();
    house.change({ channels: CHANNELS + "\njobs:\n  type: queue\n  filter: jobs/#" });
    await house.restart(20_000);
    const present = async (clientId: string) => {
      const { client, present } = await durable(house, clientId);
      client.close();
      return present;
    };
    assert.equal(await present("short"), false);
    assert.equal(await present("long"), true);
    assert.equal(await present("ephemeral"), false);
    assert.equal(await present("queued"), false);
    assert.equal(house.counters.sessionsDropped.get("expired_while_stopped"), 1);
    assert.equal(house.counters.sessionsDropped.get("subscription_refused"), 1);
  },
  ["sqlite"],
);

overBoth(
  "D6.17 D6.18 D6.20 subscriptions, owed and unacknowledged messages, positions come back after a stop and after a kill",
  {
    channels: CHANNELS,
  },
  async (house) => {
    const { client } = await durable(house, "a", {
      expiry: 1_000,
      properties: { receiveMaximum: 2 },
    });
    await client.subscribe({
      subscriptions: [{ filter: "t/#", qos: 2, retainAsPublished: true }, {
        filter: "log/#",
        qos: 1,
      }],
      properties: { subscriptionIdentifiers: [42] },
    });
    await client.expectSuback(1, [2, 1]);
    using writer = await house.client({ clientId: "w" });
    await published(writer, "log/x", "record");
    await taken(client, "log/x", "record");
    for (const payload of ["1", "2", "3"]) {
      await published(writer, "t/x", payload, { retain: payload === "1" });
    }
    const first = await client.expectPublish("t/x", "1");
    const second = await client.expectPublish("t/x", "2");
    await house.time.pass(200);
    await house.settled();

    const check = async (next: House) => {
      const { client: resumed, present } = await durable(next, "a", { expiry: 1_000 });
      assert.equal(present, true);
      for (const [sent, payload] of [[first, "1"], [second, "2"]] as const) {
        const again = await resumed.expectPublish("t/x", payload);
        assert.deepEqual(
          [again.packetId, again.dup, again.retain, again.properties.subscriptionIdentifiers],
          [sent.packetId, true, payload === "1", [42]],
        );
      }
      await resumed.expectPublish("t/x", "3");
      await nothingMore(resumed);
      resumed.close();
    };
    await using killed = await house.killed();
    await check(killed);
    client.close();
    await house.restart();
    await check(house);
  },
  ["sqlite"],
);
