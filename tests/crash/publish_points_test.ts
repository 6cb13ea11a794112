/** Publishes at the points where a kill can tell one order from another (X1, X2, X4, X5, X16, X21, X27). */
import assert from "node:assert/strict";
import type { BrokerProcess } from "../support/broker_process.ts";
import { encodePuback, encodePublish, join, type ServerPacket } from "../support/mqtt_bytes.ts";
import { Silence, WireClient } from "../support/wire.ts";
import { label, payload, resumed } from "./household.ts";
import { diesAt, killable, rows } from "./support/killable_broker.ts";

const CHANNELS = `events:
  type: append
state:
  type: latest
short:
  type: append
  retention_bytes: 300`;

function offsets(broker: BrokerProcess): string {
  return rows(
    broker,
    "SELECT offset || ':' || CAST(payload AS TEXT) AS text FROM records WHERE channel = 'events' " +
      "ORDER BY offset",
  ).map(({ text }) => text).join(" ");
}

const RECORD = "INSERT INTO records";

Deno.test("X1 killed before a publish's commit: nothing is stored, and the resend takes its offset", async () => {
  await using broker = await killable({ channels: CHANNELS });
  using client = await WireClient.connected(broker.port);
  const publish = { topic: "events/a", payload: "a", qos: 1, packetId: 3 };
  await diesAt(broker, { sql: RECORD, at: "before" }, async () => {
    await client.publish(publish);
    await client.expectPuback(3);
  });
  assert.equal(offsets(broker), "");
  await broker.startAgain();
  using again = await WireClient.connected(broker.port);
  await again.publish({ ...publish, dup: true });
  await again.expectPuback(3);
  assert.equal(offsets(broker), "1:a");
});

Deno.test("X2 killed between a publish's commit and its PUBACK: the resend is a second record", async () => {
  await using broker = await killable({ channels: CHANNELS });
  using client = await WireClient.connected(broker.port);
  const publish = { topic: "events/a", payload: "a", qos: 1, packetId: 3 };
  await diesAt(broker, { sql: RECORD, at: "after" }, async () => {
    await client.publish(publish);
    await client.expectClose();
  });
  assert.equal(offsets(broker), "1:a");
  await broker.startAgain();
  using again = await WireClient.connected(broker.port);
  await again.publish({ ...publish, dup: true });
  await again.expectPuback(3);
  assert.equal(offsets(broker), "1:a 2:a");
});

for (const at of ["inside", "before"] as const) {
  Deno.test(`X4 killed ${at} the commit of a batch: none of it is there, and no PUBACK went out`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    using client = await WireClient.connected(broker.port);
    const batch = Array.from({ length: 20 }, (_, i) => ({
      topic: "events/a",
      payload: `${i + 1}`,
      qos: 1,
      packetId: i + 1,
    }));
    await diesAt(broker, { sql: RECORD, at }, async () => {
      await client.send(join(...batch.map(encodePublish)));
      // The first thing heard is the end of the connection.
      await client.expectClose();
    });
    assert.equal(offsets(broker), "");
    await broker.startAgain();
    using again = await WireClient.connected(broker.port);
    await again.send(join(...batch.map((publish) => encodePublish({ ...publish, dup: true }))));
    for (const { packetId } of batch) await again.expectPuback(packetId);
    assert.equal(offsets(broker), batch.map(({ payload }) => `${payload}:${payload}`).join(" "));
  });
}

for (const [what, next] of [["replaced", "new"], ["deleted", ""]] as const) {
  for (const at of ["inside", "before", "after"] as const) {
    Deno.test(`X5 killed ${at} the commit of a value ${what}: old or new, whole, by every way of asking`, async () => {
      await using broker = await killable({ channels: CHANNELS });
      using client = await WireClient.connected(broker.port);
      await client.publish({ topic: "state/a", payload: "old", qos: 1, packetId: 1 });
      await client.expectPuback(1);
      await diesAt(broker, { sql: "(UPDATE|INSERT INTO) latest_values", at }, async () => {
        await client.publish({ topic: "state/a", payload: next, qos: 1, packetId: 2 });
        await client.expectClose();
      });
      const expected = at === "after" ? next : "old";
      await broker.startAgain();
      using viewer = await WireClient.connected(broker.port);
      await viewer.subscribe({ subscriptions: [{ filter: "state/#", qos: 1 }] });
      await viewer.expectSuback(1, [1]);
      if (expected === "") await viewer.expectSilence(100);
      else await viewer.expectPublish("state/a", expected);
      await viewer.subscribe({
        packetId: 2,
        subscriptions: [{ filter: "answer", qos: 0 }],
      });
      await viewer.expectSuback(2, [0]);
      await viewer.publish({
        topic: "$saguin/kv/get",
        payload: "state/a",
        qos: 1,
        packetId: 3,
        properties: { responseTopic: "answer" },
      });
      const packets = [await viewer.next(), await viewer.next()];
      const reply = packets.find(({ type }) => type === "publish");
      assert.ok(reply?.type === "publish", "the point read is answered");
      assert.equal(payload(reply), expected);
    });
  }
}

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X16 killed ${at} the commit of a trim: rows, floor and bytes are of one moment`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    const { client } = await resumed(broker.port, "reader");
    using reader = client;
    await reader.subscribe({ subscriptions: [{ filter: "short/#", qos: 1 }] });
    await reader.expectSuback(1, [1]);
    await reader.disconnect();
    using publisher = await WireClient.connected(broker.port);
    await diesAt(broker, { sql: "DELETE FROM records", at }, async () => {
      for (let i = 1; i <= 10; i++) {
        await publisher.publish({ topic: "short/a", payload: "x".repeat(50), qos: 1, packetId: i });
        await publisher.expectPuback(i);
      }
      await publisher.expectClose();
    });
    const [{ floor }] = rows(broker, "SELECT floor FROM channels WHERE name = 'short'");
    if (at === "after") assert.ok(Number(floor) > 1);
    else assert.equal(floor, 1);
    await broker.startAgain();
    // Whoever stands below the new floor is told so with Session Present 0 and begins at it (D11.18). Where
    // the trim was lost, the start may have made up for it before the reader was back.
    const again = await resumed(broker.port, "reader");
    using resumedReader = again.client;
    if (at === "after") assert.equal(again.present, false);
    if (!again.present) {
      await resumedReader.subscribe({ subscriptions: [{ filter: "short/#", qos: 1 }] });
      await resumedReader.expectSuback(1, [1]);
    }
    const first = await resumedReader.expectPublish("short/a");
    assert.ok(Number(label(first, "saguin-offset")) >= Number(floor));
  });
}

for (const at of ["before", "after"] as const) {
  Deno.test(`X21 killed ${at} the log commit of a broadcast: what was stored is owed once to every durable session`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    const clients = ["one", "two"];
    for (const clientId of clients) {
      const { client } = await resumed(broker.port, clientId);
      await client.subscribe({ subscriptions: [{ filter: "news/#", qos: 1 }] });
      await client.expectSuback(1, [1]);
      await client.disconnect();
    }
    using publisher = await WireClient.connected(broker.port);
    await diesAt(broker, { sql: RECORD, at }, async () => {
      await publisher.publish({ topic: "news/a", payload: "first", qos: 1, packetId: 1 });
      await publisher.expectClose();
    });
    await broker.startAgain();
    using again = await WireClient.connected(broker.port);
    await again.publish({ topic: "news/a", payload: "resent", qos: 1, packetId: 1, dup: true });
    await again.expectPuback(1);
    for (const clientId of clients) {
      const { client, present } = await resumed(broker.port, clientId);
      using member = client;
      assert.equal(present, true);
      if (at === "after") await member.expectPublish("news/a", "first");
      await member.expectPublish("news/a", "resent");
      await member.expectSilence(50);
    }
  });
}

/** What comes before 100 ms in which nothing does. */
async function untilSilence(client: WireClient): Promise<ServerPacket[]> {
  const packets: ServerPacket[] = [];
  for (;;) {
    try {
      packets.push(await client.next(100));
    } catch (error) {
      if (error instanceof Silence) return packets;
      throw error;
    }
  }
}

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X27 killed ${at} the commit of a log release: what is still owed is delivered, and nothing else`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    for (const [clientId, filter] of [["one", "news/#"], ["two", "news/2"]]) {
      const { client } = await resumed(broker.port, clientId);
      await client.subscribe({ subscriptions: [{ filter, qos: 1 }] });
      await client.expectSuback(1, [1]);
      await client.disconnect();
    }
    using publisher = await WireClient.connected(broker.port);
    for (const name of ["1", "2", "3"]) {
      await publisher.publish({ topic: `news/${name}`, payload: name, qos: 1, packetId: 1 });
      await publisher.expectPuback(1);
    }
    const { client } = await resumed(broker.port, "one");
    using one = client;
    const acknowledged = new Map<string, number>();
    await diesAt(broker, { sql: "DELETE FROM records", at }, async () => {
      const acknowledgements: Uint8Array[] = [];
      for (const name of ["1", "2", "3"]) {
        const { packetId } = await one.expectPublish(`news/${name}`);
        acknowledged.set(`news/${name}`, packetId);
        acknowledgements.push(encodePuback({ packetId }));
      }
      await one.send(join(...acknowledgements));
      await one.expectClose();
    });
    const [{ n }] = rows(broker, "SELECT count(*) AS n FROM records");
    assert.equal(n, at === "after" ? 1 : 3);
    await broker.startAgain();
    const again = await resumed(broker.port, "one");
    using still = again.client;
    // D8.9: acknowledgements that were not written yet are asked for again, under their identifiers.
    for (const repeat of await untilSilence(still)) {
      assert.ok(repeat.type === "publish" && repeat.dup);
      assert.equal(
        repeat.packetId,
        acknowledged.get(repeat.topic),
        `${repeat.topic} once, its own`,
      );
      acknowledged.delete(repeat.topic);
    }
    const other = await resumed(broker.port, "two");
    using two = other.client;
    await two.expectPublish("news/2", "2");
    await two.expectSilence(50);
  });
}
