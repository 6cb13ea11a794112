/** 03 section 8: broadcast, live and through the log of durable sessions. */
import assert from "node:assert/strict";
import {
  durable,
  nothingMore,
  published,
  publishedTwice,
  stuffed,
  subscribed,
  taken,
  takenAll,
} from "../support/clients.ts";
import { overBoth, rules, text } from "../support/house.ts";
import { encodePingreq, encodePublish, join } from "../support/mqtt_bytes.ts";
import { until } from "../support/wait.ts";
import type { WireClient } from "../support/wire.ts";

/** Waits until the broker's log keeps `count` messages. */
function logKeeps(house: Parameters<Parameters<typeof overBoth>[2]>[0], count: number) {
  return until(`${count} messages in the log`, () => house.logLength() === count);
}

rules(
  "03 section 8: broadcast",
  { limits: "session_queue_bytes: 64KiB\nmax_message_size: 32KiB" },
  {
    "D8.1 D4.6 live deliveries go to whoever is subscribed when it is published, one copy each at the lower QoS":
      async (
        house,
      ) => {
        using reader = await house.client({ clientId: "d8.1r" });
        await reader.subscribe({
          subscriptions: [{ filter: "d8.1/#", qos: 1 }],
          properties: { subscriptionIdentifiers: [1] },
        });
        await reader.expectSuback(1, [1]);
        await reader.subscribe({
          subscriptions: [{ filter: "d8.1/+", qos: 2 }, { filter: "d8.1/x", qos: 0 }],
          properties: { subscriptionIdentifiers: [2] },
        });
        await reader.expectSuback(1, [2, 0]);
        using late = await house.client({ clientId: "d8.1l" });
        using writer = await house.client({ clientId: "d8.1w" });
        for (const qos of [0, 1]) {
          await published(writer, "d8.1/x", `at ${qos}`, { qos });
          const got = await taken(reader, "d8.1/x", `at ${qos}`);
          assert.equal(got.qos, qos);
          assert.deepEqual([...got.properties.subscriptionIdentifiers!].sort(), [1, 2, 2]);
        }
        await publishedTwice(writer, "d8.1/x", "at 2");
        assert.equal((await taken(reader, "d8.1/x", "at 2")).qos, 2);
        await nothingMore(reader);
        await subscribed(late, "d8.1/#");
        await nothingMore(late);
      },

    "D8.13 nobody owes a message to a session that ended while it was stored": async (house) => {
      const id = "d8.13e";
      const { client } = await durable(house, id);
      await subscribed(client, `${id}/#`);
      using writer = await house.client({ clientId: `${id}w` });
      const gate = house.faults.hold("submit");
      await writer.publish({ topic: `${id}/x`, payload: "late", qos: 1, packetId: 1 });
      await until("the publish at the store", () => gate.waiting === 1);
      const ended = house.broker.sessions.get(id)!;
      using _clean = await house.client({ clientId: id, cleanStart: true });
      await until("the session's end", () => ended.ended);
      gate.open();
      await writer.expectPuback(1);
      await logKeeps(house, 0);
      client.close();
    },

    "D8.5 D8.13 a message is in the log once, until every durable session has had it": async (
      house,
    ) => {
      const clients: WireClient[] = [];
      for (const id of ["d8.5a", "d8.5b", "d8.5c"]) {
        const { client } = await durable(house, id);
        await subscribed(client, "d8.5/#");
        clients.push(client);
      }
      using writer = await house.client({ clientId: "d8.5w" });
      const kept = house.logLength();
      await published(writer, "d8.5/x", "once");
      await logKeeps(house, kept + 1);
      for (const [i, client] of clients.entries()) {
        await taken(client, "d8.5/x", "once");
        await nothingMore(client);
        await house.time.pass(400);
        await logKeeps(house, i < 2 ? kept + 1 : kept);
        client.close();
      }
    },

    "D8.5 a later subscription does not reach back": async (house) => {
      const { client } = await durable(house, "d8.5d");
      await subscribed(client, "d8.5d/a");
      client.close();
      await house.away("d8.5d");
      using writer = await house.client({ clientId: "d8.5dw" });
      await published(writer, "d8.5d/a", "owed");
      await published(writer, "d8.5d/b", "not owed");
      const { client: again } = await durable(house, "d8.5d");
      await taken(again, "d8.5d/a", "owed");
      await subscribed(again, "d8.5d/b");
      await nothingMore(again);
      again.close();
    },

    "D8.6 PUBACK waits for the log's write, and for no session": async (house, provider) => {
      if (provider === "memory") return;
      const { client } = await durable(house, "d8.6");
      await subscribed(client, "d8.6/#");
      using writer = await house.client({ clientId: "d8.6w" });
      const change = house.faults.hold("sessions.change");
      const submit = house.faults.hold("submit");
      await writer.publish({ topic: "d8.6/x", payload: "p", qos: 1 });
      await writer.expectSilence(30);
      submit.open();
      await writer.expectPuback(1);
      change.open();
      await taken(client, "d8.6/x", "p");
      client.close();
    },

    "D8.8 acknowledgements are written within ack_commit_interval, and before a clean DISCONNECT closes":
      async (
        house,
        provider,
      ) => {
        if (provider === "memory") return;
        const { client } = await durable(house, "d8.8");
        await subscribed(client, "d8.8/#");
        using writer = await house.client({ clientId: "d8.8w" });
        const rows = () =>
          house.rows("SELECT packet, offset FROM session_inflight WHERE client = 'd8.8'").length;
        await published(writer, "d8.8/x", "1");
        const first = await client.expectPublish();
        await house.time.pass(200);
        await until("the row of what is on the wire", () => rows() === 1);
        await client.puback(first.packetId);
        await nothingMore(client);
        assert.equal(rows(), 1, "not before the interval");
        await house.time.pass(200);
        await until("the acknowledgement to be written", () => rows() === 0);
        await published(writer, "d8.8/x", "2");
        const second = await client.expectPublish();
        await house.time.pass(200);
        await until("the row of what is on the wire", () => rows() === 1);
        await client.puback(second.packetId);
        await client.disconnect();
        assert.equal(rows(), 0, "stored before the close");
      },

    "D8.9 no more than a Receive Maximum is sent before acknowledgements are written": async (
      house,
    ) => {
      const { client } = await durable(house, "d8.9", { properties: { receiveMaximum: 3 } });
      await subscribed(client, "d8.9/#");
      using writer = await house.client({ clientId: "d8.9w" });
      const gate = house.faults.hold("sessions.change");
      for (let i = 0; i < 8; i++) await published(writer, "d8.9/x", String(i));
      for (let i = 0; i < 3; i++) await taken(client, "d8.9/x", String(i));
      await nothingMore(client);
      gate.open();
      for (let i = 3; i < 8; i++) await taken(client, "d8.9/x", String(i));
      await nothingMore(client);
      client.close();
    },

    "D8.10 PUBREL leaves once the PUBREC is stored; a refusal ends the connection, and the PUBLISH goes again":
      async (
        house,
      ) => {
        const { client } = await durable(house, "d8.10");
        await subscribed(client, "d8.10/#", 2);
        using writer = await house.client({ clientId: "d8.10w" });
        await publishedTwice(writer, "d8.10/x", "p");
        const { packetId } = await client.expectPublish("d8.10/x", "p");
        house.faults.refuse("sessions.change", "failed", 1);
        await client.pubrec(packetId);
        await client.expectClose(0x80);
        const { client: again } = await durable(house, "d8.10");
        const resent = await again.expectPublish("d8.10/x", "p");
        assert.deepEqual([resent.packetId, resent.dup], [packetId, true]);
        const gate = house.faults.hold("sessions.change");
        await again.pubrec(packetId);
        await again.expectSilence(30);
        gate.open();
        await again.expectPubrel(packetId);
        await again.pubcomp(packetId);
        await nothingMore(again);
        again.close();
        const { client: old } = await durable(house, "d8.10o", { level: 4 });
        await subscribed(old, "d8.10o/#", 2);
        await publishedTwice(writer, "d8.10o/x", "p");
        const sent = await old.expectPublish();
        house.faults.refuse("sessions.change", "failed", 1);
        await old.pubrec(sent.packetId);
        await old.expectClose();
      },

    "MQTT-4.6.0-4 D8.10 PUBRELs leave in the order of their PUBRECs, whatever the store is at":
      async (
        house,
      ) => {
        const { client } = await durable(house, "order");
        await subscribed(client, "order/#", 2);
        using writer = await house.client({ clientId: "order-w" });
        const ids: number[] = [];
        for (let i = 0; i < 7; i++) {
          await publishedTwice(writer, "order/x", `${i}`);
          ids.push((await client.expectPublish("order/x", `${i}`)).packetId);
        }
        await house.time.pass(1_000);
        const receive = async (...some: number[]) => {
          for (const id of some) await client.pubrec(id);
          await client.send(encodePingreq());
          await client.expectPingresp();
        };
        let gate = house.faults.hold("sessions.change");
        await receive(ids[0]);
        await receive(ids[1], ids[2], ids[3]);
        // The second write begins with what waited for the first, and more comes while it is under way.
        gate.open();
        gate = house.faults.hold("sessions.change");
        await client.expectPubrel(ids[0]);
        await until("the second write", () => gate.waiting === 1);
        await receive(ids[4], ids[5], ids[6]);
        gate.open();
        gate = house.faults.hold("sessions.change");
        // What a write has stored waits for none that follows.
        for (const id of ids.slice(1, 4)) await client.expectPubrel(id);
        await until("the third write", () => gate.waiting === 1);
        gate.open();
        for (const id of ids.slice(4)) await client.expectPubrel(id);
        for (const id of ids) await client.pubcomp(id);
        await nothingMore(client);
        client.close();
      },

    "07 P6 a QoS 2 identifier is stored before its PUBLISH is sent": async (house) => {
      const { client } = await durable(house, "p6");
      await subscribed(client, "p6/#", 2);
      using writer = await house.client({ clientId: "p6w" });
      const gate = house.faults.hold("sessions.change");
      await publishedTwice(writer, "p6/x", "two");
      await published(writer, "p6/x", "one");
      await client.expectSilence(30);
      gate.open();
      assert.deepEqual((await takenAll(client, 2)).map(text), ["two", "one"]);
      house.faults.refuse("sessions.change", "failed", 1);
      await publishedTwice(writer, "p6/x", "three");
      await client.expectSilence(30);
      await house.time.pass(1_000);
      await taken(client, "p6/x", "three");
      client.close();
    },

    "D8.11 options are those of the moment of sending": async (house) => {
      const { client } = await durable(house, "d8.11", { properties: { receiveMaximum: 1 } });
      await subscribed(client, "d8.11/#", 2);
      using writer = await house.client({ clientId: "d8.11w" });
      await published(writer, "d8.11/x", "fills the window");
      const first = await client.expectPublish();
      await published(writer, "d8.11/x", "waits", { retain: true });
      await client.subscribe({
        subscriptions: [{ filter: "d8.11/#", qos: 1, retainAsPublished: true, retainHandling: 2 }],
        properties: { subscriptionIdentifiers: [5] },
      });
      await client.expectSuback(1, [1]);
      await client.puback(first.packetId);
      const second = await taken(client, "d8.11/x", "waits");
      assert.deepEqual(
        [second.qos, second.retain, second.properties.subscriptionIdentifiers],
        [1, true, [5]],
      );
      client.close();
    },

    "D8.12 what no subscription reaches any more is let go": async (house) => {
      const { client } = await durable(house, "d8.12", { properties: { receiveMaximum: 1 } });
      await subscribed(client, "d8.12/#");
      using writer = await house.client({ clientId: "d8.12w" });
      const kept = house.logLength();
      for (const payload of ["1", "2", "3"]) await published(writer, "d8.12/x", payload);
      const first = await client.expectPublish("d8.12/x", "1");
      await client.unsubscribe({ filters: ["d8.12/#"] });
      await client.expectUnsuback(1, [0]);
      await client.puback(first.packetId);
      await nothingMore(client);
      await house.time.pass(400);
      await logKeeps(house, kept);
      client.close();
    },

    "D4.13 D8.16 an expired entry is skipped and counted, and stays for whoever is behind it":
      async (house) => {
        const before = house.counters.deliveriesExpired;
        const ids = ["d4.13a", "d4.13b"];
        for (const id of ids) {
          const { client } = await durable(house, id);
          await subscribed(client, "d4.13/#");
          client.close();
          await house.away(id);
        }
        using writer = await house.client({ clientId: "d4.13w" });
        await published(writer, "d4.13/x", "short", { properties: { messageExpiry: 10 } });
        await published(writer, "d4.13/x", "long", { properties: { messageExpiry: 100 } });
        await house.time.leap(4_000);
        const { client: first } = await durable(house, ids[0]);
        assert.equal((await taken(first, "d4.13/x", "short")).properties.messageExpiry, 6);
        assert.equal((await taken(first, "d4.13/x", "long")).properties.messageExpiry, 96);
        first.close();
        await house.time.leap(10_000);
        const { client: second } = await durable(house, ids[1]);
        assert.equal((await taken(second, "d4.13/x", "long")).properties.messageExpiry, 86);
        await nothingMore(second);
        assert.equal(house.counters.deliveriesExpired, before + 1);
        second.close();
      },

    "D8.14 past session_queue_bytes the oldest owed messages of that session go, and nobody else's":
      async (
        house,
      ) => {
        const { client: away } = await durable(house, "d8.14");
        await subscribed(away, "d8.14/#");
        away.close();
        await house.away("d8.14");
        const { client: other } = await durable(house, "d8.14o");
        await subscribed(other, "d8.14/#");
        using writer = await house.client({ clientId: "d8.14w" });
        const before = house.counters.sessionDeliveriesDropped.get("session_queue_full");
        const COUNT = 400;
        const filler = "x".repeat(200);
        for (let i = 0; i < COUNT; i++) {
          await published(writer, "d8.14/x", `${i} ${filler}`);
          await taken(other, "d8.14/x", `${i} ${filler}`);
        }
        const dropped = house.counters.sessionDeliveriesDropped.get("session_queue_full") - before;
        const session = house.broker.sessions.get("d8.14")!;
        assert.ok(session.waitingBytes <= 64 * 1024, `${session.waitingBytes} bytes`);
        assert.ok(dropped > 0 && dropped < COUNT);
        const { client } = await durable(house, "d8.14");
        for (let i = dropped; i < COUNT; i++) await taken(client, "d8.14/x", `${i} ${filler}`);
        await nothingMore(client);
        client.close();
        other.close();
      },

    "D8.14 a flood of tiny messages to an away session stays within the bound by its entries' cost":
      async (
        house,
      ) => {
        const { client: away } = await durable(house, "d8.14t");
        await subscribed(away, "f");
        away.close();
        await house.away("d8.14t");
        using writer = await house.client({ clientId: "d8.14tw" });
        const packets: Uint8Array[] = [];
        for (let id = 1; id <= 3_000; id++) {
          packets.push(encodePublish({ topic: "f", qos: 1, packetId: id }));
        }
        await writer.send(join(...packets));
        for (let id = 1; id <= 3_000; id++) await writer.expectPuback(id);
        const session = house.broker.sessions.get("d8.14t")!;
        assert.ok(session.waitingBytes <= 64 * 1024, `${session.waitingBytes} bytes`);
        assert.ok(session.log!.length < 900, `${session.log!.length} messages`);
      },

    "D8.2 a full outbound buffer sheds QoS 0 and counts it; QoS 1 waits in the session": async (
      house,
    ) => {
      const before = house.counters.deliveriesDropped;
      const session = () => house.broker.sessions.get("d8.2")!;
      using deaf = await house.client({ clientId: "d8.2", properties: { receiveMaximum: 2 } });
      await subscribed(deaf, "d8.2/#");
      using writer = await house.client({ clientId: "d8.2w" });
      await stuffed(house, "d8.2", writer, "d8.2/x");
      assert.ok(house.counters.deliveriesDropped > before);
      assert.ok(session().link!.buffered <= 64 * 1024 + 32 * 1024, `${session().link!.buffered}`);
      await published(writer, "d8.2/x", "one");
      await published(writer, "d8.2/x", "two");
      assert.ok(session().waitingBytes <= 64 * 1024);
      let seen = 0;
      for (;;) {
        const got = await deaf.expectPublish("d8.2/x");
        if (got.qos === 1) {
          await deaf.puback(got.packetId);
          if (++seen === 2) break;
        }
      }
      await nothingMore(deaf);
    },

    "D8.3 a socket that takes nothing for write_timeout is disconnected, whatever the QoS": async (
      house,
    ) => {
      using deaf = await house.client({ clientId: "d8.3" });
      await subscribed(deaf, "d8.3/#", 0);
      using writer = await house.client({ clientId: "d8.3w" });
      await stuffed(house, "d8.3", writer, "d8.3/x");
      await house.time.pass(4_000);
      assert.ok(house.broker.sessions.get("d8.3") !== undefined);
      await house.time.pass(2_000);
      await until("the deaf one to be gone", () => house.broker.sessions.get("d8.3") === undefined);
      assert.equal(house.lines("disconnected a consumer that stopped reading").length, 1);
    },

    "06 9.9 nothing is delivered under a filter after its UNSUBACK": async (house) => {
      using reader = await house.client({ clientId: "9.9", properties: { receiveMaximum: 1 } });
      await subscribed(reader, "9.9/a");
      await subscribed(reader, "9.9/b");
      using writer = await house.client({ clientId: "9.9w" });
      for (const topic of ["9.9/a", "9.9/a", "9.9/b"]) await published(writer, topic, topic);
      const first = await reader.expectPublish("9.9/a");
      await reader.unsubscribe({ filters: ["9.9/a"] });
      await reader.expectUnsuback(1, [0]);
      await reader.puback(first.packetId);
      await taken(reader, "9.9/b");
      await nothingMore(reader);
    },

    "D20.4 MQTT-4.6.0-5 what is stored first is not overtaken by its client's next publish": async (
      house,
    ) => {
      using reader = await house.client({ clientId: "order" });
      await subscribed(reader, "order/x", 0);
      using writer = await house.client({ clientId: "orderw" });
      const gate = house.faults.hold("submit");
      await published(writer, "order/x", "1", { qos: 0, retain: true });
      await published(writer, "order/x", "2", { qos: 0 });
      await published(writer, "order/x", "3", { qos: 0, retain: true });
      await published(writer, "order/x", "4", { qos: 0 });
      await nothingMore(writer);
      using other = await house.client({ clientId: "ordero" });
      await published(other, "order/x", "another's", { qos: 0 });
      await taken(reader, "order/x", "another's");
      await nothingMore(reader);
      gate.open();
      for (const payload of ["1", "2", "3", "4"]) await taken(reader, "order/x", payload);
      house.faults.refuse("submit", "failed", 1);
      await published(writer, "order/x", "lost", { qos: 0, retain: true });
      await published(writer, "order/x", "5", { qos: 0 });
      await taken(reader, "order/x", "5");
    },

    "D20.4 a subscriber gets broadcasts in the order they were published, resumed or not": async (
      house,
    ) => {
      const { client } = await durable(house, "d20.4", { properties: { receiveMaximum: 5 } });
      await subscribed(client, "d20.4/#", 2);
      using writer = await house.client({ clientId: "d20.4w" });
      for (let i = 0; i < 30; i++) {
        if (i % 3 === 0) await publishedTwice(writer, "d20.4/x", String(i));
        else await published(writer, "d20.4/x", String(i));
      }
      const first = (await takenAll(client, 12)).map(text);
      client.close();
      await house.away("d20.4");
      const { client: again } = await durable(house, "d20.4");
      const seen = [...first];
      while (seen[seen.length - 1] !== "29") {
        for (const got of await takenAll(again, 1)) {
          if (!seen.includes(text(got))) seen.push(text(got));
          else assert.ok(got.dup);
        }
      }
      assert.deepEqual(seen, Array.from({ length: 30 }, (_, i) => String(i)));
      again.close();
    },
  },
);
