/** 03 section 6: who owns a client id, how sessions change hands, and how they end. */
import assert from "node:assert/strict";
import {
  connecting,
  durable,
  nothingMore,
  published,
  subscribed,
  taken,
} from "../support/clients.ts";
import { rules } from "../support/house.ts";
import { WireClient } from "../support/wire.ts";
import { until } from "../support/wait.ts";

const CHANNELS = "log:\n  type: append\n  filter: log/#";

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

  "D6.1 D6.16 a DISCONNECT that ends the session is too late for a CONNECT that resumes it": async (
    house,
  ) => {
    const { encodeDisconnect } = await import("../support/mqtt_bytes.ts");
    using writer = await house.client({ clientId: "w" });
    using watcher = await house.client({ clientId: "watcher" });
    await subscribed(watcher, "will/d6.1");
    const { client: first } = await durable(house, "d6.1", {
      will: { topic: "will/d6.1", payload: "gone" },
    });
    await subscribed(first, "d6.1/#");
    const gate = house.faults.hold("sessions.save");
    const second = await connecting(house, {
      clientId: "d6.1",
      cleanStart: false,
      properties: { sessionExpiry: 50 },
    });
    await until("the CONNECT at the store", () => gate.waiting === 1);
    await first.send(encodeDisconnect({ reasonCode: 4, properties: { sessionExpiry: 0 } }));
    const owner = () => house.broker.sessions.get("d6.1")?.link;
    await until("the DISCONNECT read", () => owner() === undefined);
    gate.open();
    // Its Will is published with it, whoever has the session afterwards.
    await watcher.expectPublish("will/d6.1", "gone");
    assert.equal((await second.expectConnack()).sessionPresent, true);
    await first.expectClose();
    await published(writer, "d6.1/x", "goes on");
    await taken(second, "d6.1/x", "goes on");
    second.close();
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
