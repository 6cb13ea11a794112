/** 03 section 5: QoS 2 publishes from clients, from PUBREC to PUBCOMP and over every restart. */
import assert from "node:assert/strict";
import {
  durable,
  nothingMore,
  published,
  publishedTwice,
  subscribed,
  taken,
} from "../support/clients.ts";
import { overBoth, property, rules } from "../support/house.ts";
import { encodePingreq, encodePubrel } from "../support/mqtt_bytes.ts";
import { join } from "../support/mqtt_pieces.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

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
small:
  type: append
  filter: small/#
  max_bytes: 300
`;
const QOS2 = "qos2:\n  max_inflight_per_client: 3\n  expires_after: 1m";

/** Publishes at QoS 2 up to PUBREC. */
async function held(client: WireClient, topic: string, payload: string, packetId = 1) {
  await client.publish({ topic, payload, qos: 2, packetId });
  await client.expectPubrec(packetId);
}

rules("03 section 5: exactly once", { channels: CHANNELS, broker: QOS2 }, {
  "D5.1 D5.3 D5.6 the record is written at PUBREL, and nobody sees it before": async (house) => {
    using reader = await house.client({ clientId: "d5.1r" });
    await subscribed(reader, "log/d5.1", 2);
    using writer = await house.client({ clientId: "d5.1w" });
    await held(writer, "log/d5.1", "held");
    await published(writer, "log/d5.1", "passes it", { packetId: 9 });
    const first = await taken(reader, "log/d5.1", "passes it");
    await nothingMore(reader);
    await writer.pubrel(1);
    await writer.expectPubcomp(1);
    const second = await taken(reader, "log/d5.1", "held");
    assert.equal(second.qos, 2);
    const offset = (packet: typeof first) => Number(property(packet, "saguin-offset")[0]);
    assert.equal(offset(second), offset(first) + 1, "the offset is the release's");
  },

  "D5.9 a repeated PUBLISH is answered again and held once": async (house) => {
    using reader = await house.client({ clientId: "d5.9r" });
    await subscribed(reader, "log/d5.9");
    using writer = await house.client({ clientId: "d5.9w" });
    await held(writer, "log/d5.9", "once");
    await writer.publish({ topic: "log/d5.9", payload: "once", qos: 2, packetId: 1, dup: true });
    await writer.expectPubrec(1);
    await writer.pubrel(1);
    await writer.expectPubcomp(1);
    await writer.pubrel(1);
    await writer.expectPubcomp(1, 0x92);
    await taken(reader, "log/d5.9", "once");
    await nothingMore(reader);
  },

  "D5.9 repeats that come before the hold is stored are held once too": async (house, provider) => {
    if (provider === "memory") return;
    using writer = await house.client({ clientId: "d5.9b" });
    const gate = house.faults.hold("submit");
    for (const dup of [false, true, true]) {
      await writer.publish({ topic: "log/d5.9b", payload: "once", qos: 2, packetId: 1, dup });
    }
    await until("the hold at the store", () => gate.waiting === 1);
    gate.open();
    for (let i = 0; i < 3; i++) await writer.expectPubrec(1);
    await writer.pubrel(1);
    await writer.expectPubcomp(1);
    using reader = await house.client({ clientId: "d5.9br" });
    await subscribed(reader, "log/d5.9b");
    await taken(reader, "log/d5.9b", "once");
    await nothingMore(reader);
  },

  "an unknown PUBREL is told 0x92; on 3.1.1 it is just completed": async (house) => {
    using client = await house.client({ clientId: "unknown5" });
    await client.pubrel(33);
    await client.expectPubcomp(33, 0x92);
    using old = await house.client({ level: 4, clientId: "unknown4" });
    await old.pubrel(33);
    await old.expectPubcomp(33);
  },

  "D5.12 unreleased exchanges of one client are bounded, broadcast ones included": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d5.12" });
    await held(writer, "log/d5.12", "1", 1);
    await held(writer, "plain/d5.12", "2", 2);
    await held(writer, "values/d5.12", "3", 3);
    await writer.publish({ topic: "log/d5.12", qos: 2, packetId: 4 });
    const refused = await writer.expectPubrec(4, 0x97);
    assert.match(refused.properties.reasonString!, /max_inflight_per_client/);
    await writer.publish({ topic: "log/d5.12", qos: 2, packetId: 2, dup: true });
    await writer.expectPubrec(2);
    await writer.pubrel(2);
    await writer.expectPubcomp(2);
    await held(writer, "log/d5.12", "4", 4);
    for (const id of [1, 3, 4]) {
      await writer.pubrel(id);
      await writer.expectPubcomp(id);
    }
  },

  "D5.4 a channel without room refuses the release and keeps it held until there is": async (
    house,
  ) => {
    const { client: writer } = await durable(house, "d5.4");
    await held(writer, "small/d5.4", "x".repeat(150));
    await published(writer, "small/d5.4", "y".repeat(150), { packetId: 9 });
    await writer.pubrel(1);
    await writer.expectClose(0x97);
    const again = await durable(house, "d5.4");
    assert.equal(again.present, true);
    await again.client.pubrel(1);
    await again.client.expectClose(0x97);
    const channel = house.broker.routes.channel("small");
    assert.ok(channel?.kind === "append");
    await channel.store.trim(0n, 0);
    const last = await durable(house, "d5.4");
    await last.client.pubrel(1);
    await last.client.expectPubcomp(1);
    last.client.close();
  },

  "D5.5 a release that the store fails stays held, and the next connection's PUBREL completes it":
    async (
      house,
    ) => {
      const { client } = await durable(house, "d5.5");
      await held(client, "log/d5.5", "kept");
      house.faults.refuse("log.releaseHold", "failed", 1);
      await client.pubrel(1);
      await client.expectClose(0x83);
      const again = await durable(house, "d5.5");
      await again.client.pubrel(1);
      await again.client.expectPubcomp(1);
      again.client.close();
    },

  "D5.6 no PUBCOMP for a PUBREL of a connection that was taken over; the new one's hears the outcome":
    async (
      house,
    ) => {
      const { client: old } = await durable(house, "d5.6");
      await held(old, "log/d5.6", "once");
      const gate = house.faults.hold("log.releaseHold");
      await old.pubrel(1);
      await until("the release at the store", () => gate.waiting === 1);
      const { client } = await durable(house, "d5.6");
      await client.pubrel(1);
      await client.expectSilence(30);
      gate.open();
      await client.expectPubcomp(1);
      await old.expectClose(0x8e);
      using reader = await house.client({ clientId: "d5.6r" });
      await subscribed(reader, "log/d5.6");
      await taken(reader, "log/d5.6", "once");
      await nothingMore(reader);
      client.close();
    },

  "D5.8 an exchange older than expires_after is abandoned, and its PUBREL told 0x92": async (
    house,
  ) => {
    const before = house.counters.qos2Abandoned;
    using writer = await house.client({ clientId: "d5.8" });
    await held(writer, "log/d5.8", "late");
    await house.time.leap(59_000);
    await held(writer, "plain/d5.8", "later", 2);
    await house.time.leap(1_000);
    await until("the hold to be dropped", () => house.counters.qos2Abandoned === before + 1);
    await writer.pubrel(1);
    await writer.expectPubcomp(1, 0x92);
    await writer.pubrel(2);
    await writer.expectPubcomp(2);
    await house.time.leap(120_000);
    assert.equal(house.counters.qos2Abandoned, before + 1, "what was released does not expire");
  },

  "D5.8 a release under way does not expire": async (house) => {
    const before = house.counters.qos2Abandoned;
    using writer = await house.client({ clientId: "d5.8b" });
    await held(writer, "log/d5.8b", "in time");
    const gate = house.faults.hold("log.releaseHold");
    await writer.pubrel(1);
    await until("the release at the store", () => gate.waiting === 1);
    await house.time.leap(120_000);
    gate.open();
    await writer.expectPubcomp(1);
    assert.equal(house.counters.qos2Abandoned, before);
  },

  "D5.10 D5.13 subscribers of every kind see it at release": async (house) => {
    using live = await house.client({ clientId: "d5.13l" });
    await subscribed(live, "plain/d5.13", 2);
    const { client: kept } = await durable(house, "d5.13k");
    await subscribed(kept, "plain/d5.13", 2);
    using member = await house.client({ clientId: "d5.13m" });
    await subscribed(member, "$share/g/+/d5.13", 2);
    using writer = await house.client({ clientId: "d5.13w" });
    await held(writer, "plain/d5.13", "b", 1);
    await held(writer, "log/d5.13", "c", 2);
    for (const client of [live, kept, member]) await nothingMore(client);
    await writer.pubrel(1);
    await writer.expectPubcomp(1);
    for (const client of [live, kept, member]) {
      assert.equal((await taken(client, "plain/d5.13", "b")).qos, 2);
    }
    await writer.pubrel(2);
    await writer.expectPubcomp(2);
    assert.equal((await taken(member, "log/d5.13", "c")).qos, 2);
    kept.close();
  },

  "D5.13 a broadcast is held whether or not anybody will keep it": async (house) => {
    using writer = await house.client({ clientId: "d5.13n" });
    await held(writer, "plain/nobody", "x");
    await writer.pubrel(1);
    await writer.expectPubcomp(1);
    await writer.pubrel(1);
    await writer.expectPubcomp(1, 0x92);
  },

  "D5.14 a retained broadcast is retained at release": async (house) => {
    using writer = await house.client({ clientId: "d5.14w" });
    await writer.publish({ topic: "plain/d5.14", payload: "r", qos: 2, retain: true });
    await writer.expectPubrec(1);
    using early = await house.client({ clientId: "d5.14e" });
    await subscribed(early, "plain/d5.14");
    await nothingMore(early);
    await writer.pubrel(1);
    await writer.expectPubcomp(1);
    await taken(early, "plain/d5.14", "r");
    using late = await house.client({ clientId: "d5.14l" });
    await subscribed(late, "plain/d5.14");
    assert.equal((await taken(late, "plain/d5.14", "r")).retain, true);
  },

  "D5.14 a value retained before its release was refused stays, and the abandonment names the client":
    async (
      house,
    ) => {
      const { client } = await durable(house, "d5.14b", { expiry: 10 });
      await client.publish({ topic: "plain/d5.14b", payload: "r", qos: 2, retain: true });
      await client.expectPubrec(1);
      house.faults.refuse("log.releaseHold", "failed", 1);
      await client.pubrel(1);
      await client.expectClose(0x83);
      const before = house.counters.qos2Abandoned;
      await house.time.leap(10_000);
      await until("the session to end", () => house.counters.qos2Abandoned === before + 1);
      const [line] = house.lines("an abandoned QoS 2 publish had its value retained before");
      assert.deepEqual([line.level, line.fields.client], ["warn", "d5.14b"]);
      using late = await house.client({ clientId: "d5.14bl" });
      await subscribed(late, "plain/d5.14b");
      await taken(late, "plain/d5.14b", "r");
    },

  "D5.15 a retained value that finds no room refuses the release": async (house) => {
    const { client } = await durable(house, "d5.15");
    await client.publish({ topic: "plain/d5.15", payload: "r", qos: 2, retain: true });
    await client.expectPubrec(1);
    house.faults.refuse("submit", "full", 1);
    await client.pubrel(1);
    await client.expectClose(0x97);
    const again = await durable(house, "d5.15");
    await again.client.pubrel(1);
    await again.client.expectPubcomp(1);
    again.client.close();
  },

  "D5.7 latest and queue channels take a release where its PUBLISH placed it": async (house) => {
    using reader = await house.client({ clientId: "d5.7r" });
    await subscribed(reader, "values/d5.7");
    using writer = await house.client({ clientId: "d5.7w" });
    await publishedTwice(writer, "values/d5.7", "v");
    await taken(reader, "values/d5.7", "v");
    await publishedTwice(writer, "values/d5.7", "");
    await taken(reader, "values/d5.7", "");
    await publishedTwice(writer, "jobs/d5.7", "j");
    using worker = await house.client({ clientId: "d5.7k" });
    await subscribed(worker, "$saguin/queue/jobs");
    await house.time.pass(200);
    await taken(worker, "jobs/d5.7", "j");
  },

  "a refused QoS 2 publish is answered by PUBREC and holds nothing": async (house) => {
    using writer = await house.client({ clientId: "refused2" });
    house.faults.refuse("submit", "full", 1);
    await writer.publish({ topic: "log/refused", qos: 2, packetId: 1 });
    await writer.expectPubrec(1, 0x97);
    await writer.pubrel(1);
    await writer.expectPubcomp(1, 0x92);
    house.faults.refuse("submit", "failed", 1);
    await writer.publish({ topic: "log/refused", qos: 2, packetId: 1 });
    await writer.expectPubrec(1, 0x83);
    await held(writer, "log/refused", "now", 1);
    await writer.pubrel(1);
    await writer.expectPubcomp(1);
  },

  "D6.19 the exchanges of a session move with it, and end counted when it does": async (house) => {
    const { client: old } = await durable(house, "d6.19");
    await held(old, "log/d6.19", "moves", 1);
    const { client } = await durable(house, "d6.19");
    await old.expectClose(0x8e);
    await client.pubrel(1);
    await client.expectPubcomp(1);
    const before = house.counters.qos2Abandoned;
    await held(client, "log/d6.19", "ends", 2);
    const { client: clean } = await durable(house, "d6.19", { cleanStart: true });
    await clean.pubrel(2);
    await clean.expectPubcomp(2, 0x92);
    assert.equal(house.counters.qos2Abandoned, before + 1);
    await held(clean, "log/d6.19", "of the new one", 2);
    await clean.pubrel(2);
    await clean.expectPubcomp(2);
    clean.close();
  },

  "D6.19 the exchanges of a session without expiry end with its connection": async (house) => {
    const before = house.counters.qos2Abandoned;
    const old = await house.client({ clientId: "d6.19e" });
    await held(old, "log/d6.19e", "ends", 2);
    old.close();
    await until("the hold to be dropped", () => house.counters.qos2Abandoned === before + 1);
    using next = await house.client({ clientId: "d6.19e" });
    await held(next, "log/d6.19e", "new", 2);
    await next.pubrel(2);
    await next.expectPubcomp(2);
  },

  "06 2.8 a request to a control topic is carried out once at QoS 2": async (house) => {
    const { client } = await durable(house, "control2");
    await subscribed(client, "$saguin/consumer/log/seek/reply");
    const seek = { topic: "$saguin/consumer/log/seek", payload: "-1", qos: 2, packetId: 7 };
    await client.publish(seek);
    await client.expectPublish("$saguin/consumer/log/seek/reply");
    await client.expectPubrec(7);
    await client.publish({ ...seek, dup: true });
    await client.expectPubrec(7);
    await client.pubrel(7);
    await client.expectPubcomp(7);
    await client.publish({ ...seek, payload: "nonsense" });
    await client.expectPublish("$saguin/consumer/log/seek/reply", "malformed");
    await client.expectPubrec(7, 0x83);
    await client.pubrel(7);
    await client.expectPubcomp(7, 0x92);
    client.close();
  },
});

overBoth("D5.2 a hold counts against its provider and not against its channel", {
  channels: CHANNELS,
}, async (house) => {
  const channel = house.broker.routes.channel("small");
  assert.ok(channel?.kind === "append");
  using writer = await house.client({ clientId: "w" });
  const bytes = channel.provider.statistics().bytes;
  await held(writer, "small/x", "x".repeat(200), 1);
  await held(writer, "small/x", "x".repeat(200), 2);
  assert.equal(channel.store.bytes(), 0);
  if (channel.provider.kind === "memory") {
    assert.ok(channel.provider.statistics().bytes > bytes + 400);
  }
  await writer.pubrel(1);
  await writer.expectPubcomp(1);
  await writer.pubrel(2);
  await writer.expectClose(0x97);
});

overBoth(
  "D5.11 a Will at QoS 2 is written at once, without a hold",
  { channels: CHANNELS },
  async (house) => {
    using reader = await house.client({ clientId: "r" });
    await subscribed(reader, "log/will", 2);
    const armed = await house.client({
      clientId: "w",
      will: { topic: "log/will", payload: "gone", qos: 2 },
    });
    armed.close();
    assert.equal((await taken(reader, "log/will", "gone")).qos, 2);
  },
);

overBoth(
  "D5.6 02a 13 a PUBREL repeated while its release is being stored is read no further than a bound",
  { channels: CHANNELS },
  async (house) => {
    const repeats = 5_000;
    using writer = await house.client({ clientId: "w" });
    await held(writer, "log/x", "once", 7);
    const gate = house.faults.hold("log.releaseHold");
    const pubrel = encodePubrel({ packetId: 7 });
    const flood = join(...Array(repeats).fill(pubrel), encodePingreq());
    const sending = writer.send(flood);
    await until("the release to be on its way", () => gate.waiting === 1);
    await writer.expectSilence(100);
    gate.open();
    await sending;
    const answers = { pubcomp: 0, pingresp: 0 };
    while (answers.pubcomp < repeats || answers.pingresp === 0) {
      const packet = await writer.next();
      assert.ok(packet.type === "pubcomp" || packet.type === "pingresp", packet.type);
      answers[packet.type]++;
      // One that came after the release is of no exchange.
      if (packet.type === "pubcomp") assert.ok([0, 0x92].includes(packet.reasonCode));
    }
    assert.deepEqual(answers, { pubcomp: repeats, pingresp: 1 });
  },
);
