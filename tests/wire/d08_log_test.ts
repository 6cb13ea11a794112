/** 03 section 8: the log of durable sessions after a kill, and when it is full. */
import assert from "node:assert/strict";
import {
  connecting,
  durable,
  nothingMore,
  published,
  publishedTwice,
  subscribed,
  taken,
} from "../support/clients.ts";
import { overBoth, text } from "../support/house.ts";
import { until } from "../support/wait.ts";

overBoth(
  "D8.7 D22.5 after a kill unacknowledged messages go again under their identifiers, stored or not",
  {},
  async (house) => {
    const { client } = await durable(house, "a");
    await subscribed(client, "t/#", 2);
    using writer = await house.client({ clientId: "w" });
    await published(writer, "t/x", "stored");
    const stored = await client.expectPublish("t/x", "stored");
    await house.time.pass(200);
    await house.settled();
    await published(writer, "t/x", "not stored");
    const unstored = await client.expectPublish("t/x", "not stored");
    await publishedTwice(writer, "t/x", "twice");
    const twice = await client.expectPublish("t/x", "twice");
    await published(writer, "t/x", "acknowledged, not written");
    const acknowledged = await client.expectPublish("t/x", "acknowledged, not written");
    await client.puback(acknowledged.packetId);
    await client.pubrec(twice.packetId);
    await client.expectPubrel(twice.packetId);
    await using killed = await house.killed();
    const { client: again, present } = await durable(killed, "a");
    assert.equal(present, true);
    const seen = new Map<string, [number, boolean]>();
    let released: number | undefined;
    for (let i = 0; i < 4; i++) {
      const packet = await again.next();
      if (packet.type === "publish") seen.set(text(packet), [packet.packetId, packet.dup]);
      if (packet.type === "pubrel") released = packet.packetId;
    }
    assert.equal(released, twice.packetId, "QoS 2 goes on with PUBREL, never a second message");
    assert.deepEqual(Object.fromEntries(seen), {
      "stored": [stored.packetId, true],
      "not stored": [unstored.packetId, true],
      "acknowledged, not written": [acknowledged.packetId, true],
    });
    await nothingMore(again);
    again.close();
  },
  ["sqlite"],
);

overBoth(
  "D8.15 a full log gives up its oldest, spares what is on a wire, and refuses no publisher",
  {
    providerKeys: "max_bytes: 600KiB",
    limits: "max_message_size: 64KiB\nsession_queue_bytes: 4MiB",
  },
  async (house) => {
    const { client: connected } = await durable(house, "c", { properties: { receiveMaximum: 1 } });
    await subscribed(connected, "t/#");
    const { client: away } = await durable(house, "a");
    await subscribed(away, "t/#");
    away.close();
    await house.away("a");
    using writer = await house.client({ clientId: "w" });
    const payload = "x".repeat(20_000);
    await published(writer, "t/0", payload);
    const onWire = await connected.expectPublish("t/0");
    await house.time.pass(200);
    await house.settled();
    for (let i = 1; i <= 60; i++) await published(writer, `t/${i}`, payload);
    // The log yields to everything else: a retained value finds room too (S109).
    await published(writer, "other", payload, { retain: true });
    const { client } = await durable(house, "a");
    const topics: number[] = [];
    while (topics[topics.length - 1] !== 60) {
      topics.push(Number((await taken(client)).topic.slice(2)));
    }
    assert.equal(topics[0], 0, "what is on another's wire was spared");
    const rest = topics.slice(1);
    assert.ok(rest.length < 59, `all ${rest.length} fit`);
    assert.deepEqual(rest, [...rest].sort((a, b) => a - b));
    assert.equal(house.counters.sessionDeliveriesDropped.get("storage_full"), 60 - rest.length);
    await connected.puback(onWire.packetId);
    const next = await taken(connected);
    assert.ok(Number(next.topic.slice(2)) > 1);
    client.close();
    connected.close();
  },
);

overBoth(
  "D8.15 a broadcast for which the log has no room at all is lost to its sessions, and answered 0x00",
  {},
  async (
    house,
  ) => {
    const { client } = await durable(house, "a");
    await subscribed(client, "t/#");
    using live = await house.client({ clientId: "l" });
    await subscribed(live, "t/#");
    using writer = await house.client({ clientId: "w" });
    house.faults.refuse("submit", "full", 1);
    await published(writer, "t/x", "lost to the durable one");
    await taken(live, "t/x", "lost to the durable one");
    await nothingMore(client);
    assert.equal(house.counters.sessionDeliveriesDropped.get("storage_full"), 1);
    const warning =
      "the session store is full: broadcasts are not kept for sessions and shared groups";
    assert.equal(house.lines(warning).length, 1);
    // A retained one is refused for its own room only.
    house.faults.refuse("submit", "full", 1);
    await published(writer, "t/r", "retained", { retain: true });
    using later = await house.client({ clientId: "x" });
    await subscribed(later, "t/r");
    await taken(later, "t/r", "retained");
    await nothingMore(client);
    house.faults.refuse("submit", "full", 2);
    await writer.publish({ topic: "t/r", payload: "no", qos: 1, retain: true, packetId: 70 });
    await writer.expectPuback(70, 0x97);
    house.faults.refuse("submit", "failed", 1);
    await writer.publish({ topic: "t/x", payload: "no", qos: 1, packetId: 71 });
    await writer.expectPuback(71, 0x83);
    client.close();
  },
);

overBoth(
  "D8.13 a message is not kept for a session or a group that ended while it was being stored",
  {},
  async (house) => {
    for (const filter of ["t", "$share/g/t"]) {
      const { client } = await durable(house, "reader");
      await subscribed(client, filter);
      using writer = await house.client({ clientId: "writer" });
      const gate = house.faults.hold("submit");
      await writer.publish({ topic: "t", payload: "x", qos: 1, packetId: 1 });
      await until("the publish to reach its store", () => gate.waiting === 1);
      using successor = await house.client({ clientId: "reader" });
      await client.expectClose(0x8e);
      gate.open();
      await writer.expectPuback(1);
      assert.equal(house.logLength(), 0, `${filter}: nobody is owed it`);
      await nothingMore(successor);
    }
  },
);

overBoth(
  "D21.1 D6.7 a takeover with a smaller Receive Maximum holds for what was being stored for the old connection",
  {},
  async (house) => {
    const { client } = await durable(house, "reader", { properties: { receiveMaximum: 10 } });
    await subscribed(client, "t", 2);
    using writer = await house.client({ clientId: "writer" });
    const identifiers = house.faults.hold("sessions.change");
    const record = house.faults.hold("sessions.save");
    const next = await connecting(house, {
      clientId: "reader",
      cleanStart: false,
      properties: { sessionExpiry: 3_600, receiveMaximum: 1 },
    });
    await until("the record to be on its way", () => record.waiting === 1);
    for (const payload of ["one", "two"]) await publishedTwice(writer, "t", payload);
    await until("the identifiers to be on their way", () => identifiers.waiting === 1);
    record.open();
    await next.expectConnack();
    await client.expectClose(0x8e);
    identifiers.open();
    const one = await next.expectPublish("t", "one");
    await nothingMore(next);
    await next.pubrec(one.packetId);
    await next.expectPubrel(one.packetId);
    await nothingMore(next);
    await next.pubcomp(one.packetId);
    await taken(next, "t", "two");
    await nothingMore(next);
    assert.equal(house.logLength(), 0);
    next.close();
  },
);
