/** 03 section 6: who owns a client id, how sessions change hands, and how they end. */
import assert from "node:assert/strict";
import { durable, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { type House, overBoth, rules } from "../support/house.ts";
import { WireClient } from "../support/wire.ts";
import { until } from "../support/wait.ts";

const CHANNELS = "log:\n  type: append\n  filter: log/#";

/** A CONNECT that was sent and not answered yet. */
async function connecting(
  house: House,
  options: Parameters<WireClient["connect"]>[0],
): Promise<WireClient> {
  const client = await WireClient.open(house.port, options?.level ?? 5);
  await client.connect(options);
  return client;
}

rules("03 section 6: sessions", { channels: CHANNELS, limits: "max_session_expiry: 1h" }, {
  "a session outlives its connection as long as was granted, and no longer (MQTT 5)": async (
    house,
  ) => {
    const first = await durable(house, "s1", { expiry: 100 });
    assert.equal(first.present, false);
    await subscribed(first.client, "s1/#");
    first.client.close();
    await house.away("s1");
    await house.time.leap(99_000);
    const second = await durable(house, "s1", { expiry: 100 });
    assert.equal(second.present, true);
    second.client.close();
    await house.away("s1");
    await house.time.leap(100_000);
    const third = await durable(house, "s1", { expiry: 100 });
    assert.equal(third.present, false);
    third.client.close();
  },

  "D6.14 D11.21 the expiry is capped and CONNACK says so; never is capped too": async (house) => {
    for (const asked of [7_200, 0xffff_ffff]) {
      const client = await WireClient.open(house.port);
      await client.connect({ clientId: "cap", properties: { sessionExpiry: asked } });
      const { properties } = await client.expectConnack();
      assert.equal(properties.sessionExpiry, 3_600);
      client.close();
    }
    using client = await WireClient.open(house.port);
    await client.connect({ clientId: "cap", properties: { sessionExpiry: 60 } });
    assert.equal((await client.expectConnack()).properties.sessionExpiry, undefined);
  },

  "3.1.1: cleanSession 0 keeps the session for limits.max_session_expiry": async (house) => {
    const first = await durable(house, "s311", { level: 4 });
    assert.equal(first.present, false);
    await subscribed(first.client, "s311/#");
    await first.client.disconnect();
    await house.time.leap(3_599_000);
    const second = await durable(house, "s311", { level: 4 });
    assert.equal(second.present, true);
    second.client.close();
    await house.away("s311");
    await house.time.leap(3_600_000);
    const third = await durable(house, "s311", { level: 4 });
    assert.equal(third.present, false);
    third.client.close();
    await house.away("s311");
    const clean = await house.connect({ level: 4, clientId: "s311", cleanStart: true });
    assert.equal(clean.present, false);
    await clean.client.disconnect();
    const after = await durable(house, "s311", { level: 4 });
    assert.equal(after.present, false, "cleanSession 1 leaves nothing behind");
    after.client.close();
  },

  "D6.8 a session past its expiry is ended before a CONNECT is answered": async (house) => {
    const { client } = await durable(house, "d6.8", { expiry: 10 });
    await subscribed(client, "d6.8/#");
    client.close();
    await house.away("d6.8");
    // The clock stands at the moment, and no timer has fired yet.
    house.time.begin(house.time.monotonic() + 10_000);
    const { client: next, present } = await durable(house, "d6.8", { expiry: 10 });
    assert.equal(present, false);
    using writer = await house.client({ clientId: "d6.8w" });
    await published(writer, "d6.8/x", "not subscribed");
    await nothingMore(next);
    next.close();
  },

  "D6.1 D6.3 D6.17 a takeover moves the session, and tells the old connection 0x8E": async (
    house,
  ) => {
    const { client: old } = await durable(house, "d6.3");
    await subscribed(old, "d6.3/#");
    const { client, present } = await durable(house, "d6.3");
    assert.equal(present, true);
    await old.expectClose(0x8e);
    using writer = await house.client({ clientId: "d6.3w" });
    await published(writer, "d6.3/x", "to the new one");
    await taken(client, "d6.3/x", "to the new one");
    // The old one's teardown is long over, and changed nothing.
    await published(writer, "d6.3/x", "still");
    await taken(client, "d6.3/x", "still");
    client.close();
  },

  "D6.3 a 3.1.1 connection that is taken over is closed without a word": async (house) => {
    const { client: old } = await durable(house, "d6.3old", { level: 4 });
    const { client, present } = await durable(house, "d6.3old");
    assert.equal(present, true);
    await old.expectClose();
    client.close();
  },

  "D6.3 the taken-over connection's unread packets change nothing": async (house) => {
    using reader = await house.client({ clientId: "d6.3pr" });
    await subscribed(reader, "d6.3p/#");
    const { client: old } = await durable(house, "d6.3p");
    const { client } = await durable(house, "d6.3p");
    await old.publish({ topic: "d6.3p/x", payload: "from the past", qos: 0 }).catch(() => {});
    await old.expectClose(0x8e);
    await published(client, "d6.3p/x", "from now");
    await taken(reader, "d6.3p/x", "from now");
    client.close();
  },

  "D6.5 D6.11 Clean Start ends the old session whole: nothing is inherited": async (house) => {
    const { client: old } = await durable(house, "d6.5");
    await subscribed(old, "d6.5/#");
    await subscribed(old, "log/#");
    using writer = await house.client({ clientId: "d6.5w" });
    await published(writer, "d6.5/x", "owed");
    await published(writer, "log/d6.5", "record");
    await old.expectPublish("d6.5/x");
    await old.expectPublish("log/d6.5");
    const { client, present } = await durable(house, "d6.5", { cleanStart: true });
    assert.equal(present, false);
    await old.expectClose(0x8e);
    await nothingMore(client);
    await published(writer, "d6.5/x", "not subscribed any more");
    await nothingMore(client);
    client.close();
    await house.away("d6.5");
    const again = await durable(house, "d6.5");
    assert.equal(again.present, true);
    await nothingMore(again.client);
    await subscribed(again.client, "log/d6.5");
    await taken(again.client, "log/d6.5", "record");
    again.client.close();
  },

  "D6.6 a takeover of a connection whose session ends with it begins afresh, whatever Clean Start says":
    async (
      house,
    ) => {
      using old = await house.client({ clientId: "d6.6", cleanStart: false });
      await subscribed(old, "d6.6/#");
      const { client, present } = await durable(house, "d6.6");
      assert.equal(present, false);
      await old.expectClose(0x8e);
      using writer = await house.client({ clientId: "d6.6w" });
      await published(writer, "d6.6/x", "nobody's");
      await nothingMore(client);
      client.close();
    },

  "D6.15 a lost connection, a kept session: what is owed waits": async (house) => {
    const { client: old } = await durable(house, "d6.15");
    await subscribed(old, "d6.15/#");
    old.close();
    await house.away("d6.15");
    using writer = await house.client({ clientId: "d6.15w" });
    for (const payload of ["1", "2", "3"]) await published(writer, "d6.15/x", payload);
    await published(writer, "d6.15/x", "QoS 0 is not kept", { qos: 0 });
    await nothingMore(writer);
    const { client } = await durable(house, "d6.15");
    for (const payload of ["1", "2", "3"]) await taken(client, "d6.15/x", payload);
    await nothingMore(client);
    client.close();
  },

  "D6.18 unacknowledged deliveries go again under their identifiers, with DUP, in order": async (
    house,
  ) => {
    const { client: old } = await durable(house, "d6.18");
    await subscribed(old, "d6.18/#", 2);
    using writer = await house.client({ clientId: "d6.18w" });
    const sent: { packetId: number; payload: string; qos: number }[] = [];
    for (const qos of [1, 2, 1]) {
      const id = 10 + sent.length;
      await writer.publish({ topic: "d6.18/x", payload: `at ${qos} ${id}`, qos, packetId: id });
      if (qos === 1) await writer.expectPuback(id);
      else {
        await writer.expectPubrec(id);
        await writer.pubrel(id);
        await writer.expectPubcomp(id);
      }
      const got = await old.expectPublish("d6.18/x");
      assert.equal(got.dup, false);
      sent.push({ packetId: got.packetId, payload: `at ${qos} ${id}`, qos });
    }
    await old.puback(sent[0].packetId);
    await nothingMore(old);
    old.close();
    await house.away("d6.18");
    const { client } = await durable(house, "d6.18");
    for (const { packetId, payload, qos } of sent.slice(1)) {
      const got = await client.expectPublish("d6.18/x", payload);
      assert.deepEqual([got.packetId, got.qos, got.dup], [packetId, qos, true]);
    }
    await nothingMore(client);
    client.close();
  },

  "D6.18 an exchange past PUBREC goes on with PUBREL, never with the PUBLISH": async (house) => {
    const { client: old } = await durable(house, "d6.18r");
    await subscribed(old, "d6.18r/#", 2);
    using writer = await house.client({ clientId: "d6.18rw" });
    await published(writer, "d6.18r/x", "one", { qos: 1 });
    await taken(old);
    await writer.publish({ topic: "d6.18r/x", payload: "two", qos: 2, packetId: 5 });
    await writer.expectPubrec(5);
    await writer.pubrel(5);
    await writer.expectPubcomp(5);
    const { packetId } = await old.expectPublish("d6.18r/x", "two");
    await old.pubrec(packetId);
    await old.expectPubrel(packetId);
    old.close();
    await house.away("d6.18r");
    const { client } = await durable(house, "d6.18r");
    await client.expectPubrel(packetId);
    await client.pubcomp(packetId);
    await nothingMore(client);
    client.close();
  },

  "MQTT-3.3.4-9 a resumed connection with a smaller Receive Maximum is re-sent that much at a time":
    async (
      house,
    ) => {
      const { client: old } = await durable(house, "rm");
      await subscribed(old, "rm/#");
      using writer = await house.client({ clientId: "rmw" });
      const ids: number[] = [];
      for (let i = 0; i < 6; i++) {
        await published(writer, "rm/x", String(i));
        ids.push((await old.expectPublish("rm/x", String(i))).packetId);
      }
      await house.time.pass(200);
      old.close();
      await house.away("rm");
      await published(writer, "rm/x", "6");
      const { client } = await durable(house, "rm", { properties: { receiveMaximum: 2 } });
      await client.expectPublish("rm/x", "0");
      await client.expectPublish("rm/x", "1");
      await nothingMore(client);
      // What was not issued on this connection cannot be acknowledged on it.
      await client.puback(ids[4]);
      await nothingMore(client);
      for (let i = 0; i < 4; i++) {
        await client.puback(ids[i]);
        await client.expectPublish("rm/x", String(i + 2));
        await nothingMore(client);
      }
      await client.puback(ids[4]);
      const last = await client.expectPublish("rm/x", "6");
      await client.puback(ids[5]);
      await client.puback(last.packetId);
      await nothingMore(client);
      client.close();
    },

  "06 9.12 an acknowledgement of what was never issued is ignored; a PUBREC is told so": async (
    house,
  ) => {
    using client = await house.client({ clientId: "unknown" });
    await client.puback(77);
    await client.pubcomp(78);
    await client.pubrec(79);
    await client.expectPubrel(79, 0x92);
    await nothingMore(client);
  },

  "D6.16 DISCONNECT changes the expiry, capped; 0 ends the session": async (house) => {
    const { encodeDisconnect } = await import("../support/mqtt_bytes.ts");
    const leave = async (expiry: number) => {
      const { client } = await durable(house, "d6.16", { expiry: 100 });
      await client.send(encodeDisconnect({ properties: { sessionExpiry: expiry } }));
      await client.expectClose();
    };
    await leave(1_000);
    await house.time.leap(500_000);
    assert.equal((await durable(house, "d6.16", { expiry: 100 })).present, true);
    await leave(100_000);
    await house.time.leap(3_601_000);
    const capped = await durable(house, "d6.16", { expiry: 100 });
    assert.equal(capped.present, false);
    capped.client.close();
    await leave(0);
    const ended = await durable(house, "d6.16", { expiry: 100 });
    assert.equal(ended.present, false);
    ended.client.close();
    using none = await house.client({ clientId: "d6.16n" });
    await none.send(encodeDisconnect({ properties: { sessionExpiry: 10 } }));
    await none.expectClose(0x82);
  },

  "D6.7 a resuming CONNECT with a newer one behind it is passed over": async (house) => {
    const { client: first } = await durable(house, "d6.7");
    await subscribed(first, "d6.7/#");
    const gate = house.faults.hold("sessions.save");
    // One at the store, one passed, one that takes the session.
    const second = await connecting(house, {
      clientId: "d6.7",
      cleanStart: false,
      properties: { sessionExpiry: 50 },
    });
    await until("the second CONNECT at the store", () => gate.waiting === 1);
    const third = await connecting(house, {
      clientId: "d6.7",
      cleanStart: false,
      properties: { sessionExpiry: 50 },
      will: { topic: "d6.7/will/third", payload: "dropped", properties: { willDelay: 5 } },
    });
    const fourth = await connecting(house, {
      clientId: "d6.7",
      cleanStart: false,
      properties: { sessionExpiry: 50 },
      will: { topic: "d6.7/will/fourth", payload: "armed" },
    });
    await third.publish({ topic: "d6.7/x", payload: "never read", qos: 0 });
    await until("all of them waiting", () => house.broker.sessions.get("d6.7")?.link !== undefined);
    await first.expectSilence(50);
    gate.open();
    assert.equal((await second.expectConnack()).sessionPresent, true);
    await first.expectClose(0x8e);
    assert.equal((await third.expectConnack()).sessionPresent, true);
    await third.expectClose(0x8e);
    assert.equal((await fourth.expectConnack()).sessionPresent, true);
    await second.expectClose(0x8e);
    await nothingMore(fourth);
    fourth.close();
  },

  "D6.7 a passed CONNECT whose newer one is refused has its turn again": async (house) => {
    const { client: first } = await durable(house, "d6.7a");
    const gate = house.faults.hold("sessions.save");
    const second = await connecting(house, {
      clientId: "d6.7a",
      cleanStart: false,
      properties: { sessionExpiry: 50 },
    });
    await until("the second CONNECT at the store", () => gate.waiting === 1);
    const third = await connecting(house, {
      clientId: "d6.7a",
      cleanStart: false,
      properties: { sessionExpiry: 50 },
    });
    const fourth = await connecting(house, {
      clientId: "d6.7a",
      properties: { sessionExpiry: 50 },
    });
    await third.expectSilence(20);
    house.faults.refuse("sessions.begin");
    gate.open();
    await second.expectConnack();
    await first.expectClose(0x8e);
    await fourth.expectConnack(0x83);
    house.faults.relent("sessions.begin");
    assert.equal((await third.expectConnack()).sessionPresent, true);
    await second.expectClose(0x8e);
    await nothingMore(third);
    third.close();
  },

  "D6.2 D6.9 a CONNECT that the store refuses changes nothing for the session that is there":
    async (
      house,
    ) => {
      const { client: first } = await durable(house, "d6.2");
      await subscribed(first, "d6.2/#");
      for (
        const [place, cleanStart] of [["sessions.save", false], ["sessions.begin", true]] as const
      ) {
        house.faults.refuse(place);
        using refused = await connecting(house, {
          clientId: "d6.2",
          cleanStart,
          properties: { sessionExpiry: 50 },
        });
        await refused.expectConnack(0x83);
        await refused.expectClose();
        house.faults.relent(place);
        using writer = await house.client({ clientId: "d6.2w" });
        await published(writer, "d6.2/x", place);
        await taken(first, "d6.2/x", place);
      }
      first.close();
    },

  "D6.2 a refused CONNECT arms no Will and replaces nobody": async (house) => {
    using watcher = await house.client({ clientId: "d6.2o" });
    await subscribed(watcher, "d6.2o/#");
    const { client: first } = await durable(house, "d6.2x");
    using refused = await connecting(house, {
      clientId: "d6.2x",
      will: { topic: "$SYS/x", payload: "no" },
      cleanStart: true,
    });
    await refused.expectConnack(0x90);
    await refused.expectClose();
    await nothingMore(first);
    await nothingMore(watcher);
    first.close();
  },
});

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
        "SELECT * FROM sessions",
        "SELECT * FROM session_inflight",
        "SELECT * FROM positions",
        "SELECT * FROM held_publishes",
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
