/** QoS 2 publishes and queues at the points where a kill can tell one order from another (X6 to X15, X31). */
import assert from "node:assert/strict";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { type Received, WireClient } from "../support/wire.ts";
import { label, resumed } from "./household.ts";
import { diesAt, killable, killableCommand, rows } from "./support/killable_broker.ts";

const CHANNELS = `events:
  type: append
jobs:
  type: queue
  retry:
    max_attempts: 2`;

const HOLD = "INSERT INTO held_publishes";
const RELEASE = "DELETE FROM held_publishes";

function held(broker: BrokerProcess): number {
  return Number(rows(broker, "SELECT count(*) AS n FROM held_publishes")[0].n);
}

function records(broker: BrokerProcess, channel = "events"): number {
  return Number(
    rows(broker, `SELECT count(*) AS n FROM records WHERE channel = '${channel}'`)[0].n,
  );
}

const PUBLISH = { topic: "events/a", payload: "once", qos: 2, packetId: 4 };

/** A client with a session, and a publish of it that was answered PUBREC. */
async function holding(broker: BrokerProcess): Promise<WireClient> {
  const { client } = await resumed(broker.port, "sender");
  await client.publish(PUBLISH);
  await client.expectPubrec(4);
  return client;
}

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X6 X7 killed ${at} the commit of a hold: the exchange goes on, and there is one record`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    const { client } = await resumed(broker.port, "sender");
    using sender = client;
    await diesAt(broker, { sql: HOLD, at }, async () => {
      await sender.publish(PUBLISH);
      await sender.expectClose();
    });
    assert.equal(held(broker), at === "after" ? 1 : 0);
    await broker.startAgain();
    const again = await resumed(broker.port, "sender");
    using resender = again.client;
    assert.equal(again.present, true);
    await resender.publish({ ...PUBLISH, dup: true });
    await resender.expectPubrec(4);
    assert.equal(held(broker), 1);
    await resender.pubrel(4);
    await resender.expectPubcomp(4);
    assert.deepEqual([held(broker), records(broker)], [0, 1]);
  });
}

Deno.test("X7 killed after PUBREC: a repeated PUBLISH is still one hold, and PUBREL makes one record", async () => {
  await using broker = await killable({ channels: CHANNELS });
  (await holding(broker)).close();
  await broker.kill();
  assert.equal(held(broker), 1);
  broker.command = undefined;
  await broker.startAgain();
  const { client, present } = await resumed(broker.port, "sender");
  using sender = client;
  assert.equal(present, true);
  for (let i = 0; i < 2; i++) {
    await sender.publish({ ...PUBLISH, dup: true });
    await sender.expectPubrec(4);
  }
  await sender.pubrel(4);
  await sender.expectPubcomp(4);
  assert.deepEqual([held(broker), records(broker)], [0, 1]);
});

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X8 X9 killed ${at} the commit of a release: hold or record, never both, and one record in the end`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    using sender = await holding(broker);
    await diesAt(broker, { sql: RELEASE, at }, async () => {
      await sender.pubrel(4);
      await sender.expectClose();
    });
    assert.deepEqual([held(broker), records(broker)], at === "after" ? [0, 1] : [1, 0]);
    await broker.startAgain();
    const { client } = await resumed(broker.port, "sender");
    using again = client;
    await again.pubrel(4);
    await again.expectPubcomp(4, at === "after" ? 0x92 : 0);
    assert.deepEqual([held(broker), records(broker)], [0, 1]);
  });
}

Deno.test("X10 the hold of a session that ended with its connection is dropped at the start", async () => {
  await using broker = await killable({ channels: CHANNELS });
  using sender = await WireClient.connected(broker.port, { clientId: "sender" });
  await sender.publish(PUBLISH);
  await sender.expectPubrec(4);
  await broker.kill();
  assert.equal(held(broker), 1);
  broker.command = undefined;
  await broker.startAgain();
  assert.deepEqual([held(broker), records(broker)], [0, 0]);
});

Deno.test("X11 the hold of a channel that is configured no more is dropped, and its PUBREL finds nothing", async () => {
  await using broker = await killable({ channels: CHANNELS });
  (await holding(broker)).close();
  await broker.kill();
  broker.command = undefined;
  broker.configure((place) =>
    configurationText(place, { channels: CHANNELS.replace("events", "other") })
  );
  await broker.startAgain();
  assert.deepEqual([held(broker), records(broker)], [0, 0]);
  const { client, present } = await resumed(broker.port, "sender");
  using sender = client;
  assert.equal(present, true);
  await sender.pubrel(4);
  await sender.expectPubcomp(4, 0x92);
});

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X31 X8 killed ${at} the commit of a release into the reserve: publishes have no room after the start either`, async () => {
    const parts = {
      channels: CHANNELS,
      limits: "max_message_size: 8KiB\nmax_header_bytes: 4KiB",
      providerKeys: "max_bytes: 256KiB",
    };
    await using broker = await BrokerProcess.start(
      (place) => configurationText(place, { ...parts, logLevel: "warn" }),
      undefined,
      killableCommand,
    );
    const { client } = await resumed(broker.port, "sender");
    using sender = client;
    const large = "x".repeat(7_000);
    await sender.publish({ ...PUBLISH, payload: large });
    await sender.expectPubrec(4);
    const put = async (client: WireClient) => {
      await client.publish({ topic: "events/b", payload: large, qos: 1, packetId: 5 });
      return (await client.expect("puback")).reasonCode;
    };
    let stored = 0;
    while (await put(sender) === 0) stored++;
    await diesAt(broker, { sql: RELEASE, at }, async () => {
      await sender.pubrel(4);
      await sender.expectClose();
    });
    assert.deepEqual(
      [held(broker), records(broker)],
      at === "after" ? [0, stored + 1] : [1, stored],
    );
    await broker.startAgain();
    const again = await resumed(broker.port, "sender");
    using resender = again.client;
    if (at !== "after") assert.equal(await put(resender), 0x97);
    await resender.pubrel(4);
    await resender.expectPubcomp(4, at === "after" ? 0x92 : 0);
    assert.deepEqual([held(broker), records(broker)], [0, stored + 1]);
  });
}

// ------------------------------------------------------------------------------------------ queues

async function put(port: number, name: string): Promise<void> {
  using client = await WireClient.connected(port);
  await client.publish({ topic: `jobs/${name}`, payload: name, qos: 1, packetId: 1 });
  await client.expectPuback(1);
  await client.disconnect();
}

async function worker(port: number): Promise<WireClient> {
  const client = await WireClient.connected(port, { clientId: "worker" });
  await client.subscribe({ subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1 }] });
  await client.expectSuback(1, [1]);
  return client;
}

function answer(worker: WireClient, offer: Received<"publish">, verdict: string, packetId = 9) {
  return worker.publish({
    topic: offer.properties.responseTopic!,
    payload: verdict,
    qos: 1,
    packetId,
    properties: { correlationData: offer.properties.correlationData },
  });
}

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X12 X13 killed ${at} the commit of an attempt: it counts or not, and the old delivery is dead`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    await put(broker.port, "a");
    using first = await worker(broker.port);
    const offer = await first.expectPublish("jobs/a");
    assert.equal(label(offer, "saguin-attempt"), "1");
    await diesAt(broker, { sql: "UPDATE queue_items SET attempts", at }, async () => {
      await first.puback(offer.packetId);
      await first.expectClose();
    });
    await broker.startAgain();
    using second = await worker(broker.port);
    const again = await second.expectPublish("jobs/a");
    assert.equal(label(again, "saguin-attempt"), at === "after" ? "2" : "1");
    // An answer to the delivery of before the kill changes nothing.
    await answer(second, offer, "ack");
    await second.expectPuback(9);
    assert.equal(rows(broker, "SELECT offset FROM queue_items").length, 1);
    await answer(second, again, "ack");
    await second.expectPuback(9);
    assert.equal(rows(broker, "SELECT offset FROM queue_items").length, 0);
  });
}

Deno.test("X13 killed after the last attempt was counted: the job is dead-lettered, not offered", async () => {
  await using broker = await killable({ channels: CHANNELS });
  await put(broker.port, "a");
  using first = await worker(broker.port);
  let offer = await first.expectPublish("jobs/a");
  await first.puback(offer.packetId);
  await answer(first, offer, "return");
  const packets = [await first.next(), await first.next()];
  offer = packets.find(({ type }) => type === "publish") as Received<"publish">;
  assert.equal(label(offer, "saguin-attempt"), "2");
  await diesAt(broker, { sql: "UPDATE queue_items SET attempts", at: "after" }, async () => {
    await first.puback(offer.packetId);
    await first.expectClose();
  });
  await broker.startAgain();
  using second = await worker(broker.port);
  await second.expectSilence(600);
  const letter = rows(
    broker,
    "SELECT offset, topic, headers FROM records WHERE channel = 'jobs__dlq'",
  );
  assert.equal(letter.length, 1);
  assert.match(
    String(letter[0].headers),
    /"saguin-dlq-attempts","2"\],\["saguin-dlq-reason","attempts_exhausted"/,
  );
  assert.equal(rows(broker, "SELECT offset FROM queue_items").length, 0);
});

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X14 killed ${at} the commit of a resolution: the job is offered again, or never`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    await put(broker.port, "a");
    using first = await worker(broker.port);
    const offer = await first.expectPublish("jobs/a");
    await diesAt(broker, { sql: "DELETE FROM queue_items", at }, async () => {
      await answer(first, offer, "ack");
      await first.expectClose();
    });
    await broker.startAgain();
    using second = await worker(broker.port);
    if (at === "after") await second.expectSilence(600);
    else await second.expectPublish("jobs/a");
  });

  Deno.test(`X15 killed ${at} the commit of a dead letter's move: the job is in one place, and no offset is missing`, async () => {
    await using broker = await killable({
      channels: CHANNELS.replace("max_attempts: 2", "max_attempts: 1"),
    });
    await put(broker.port, "a");
    using first = await worker(broker.port);
    const offer = await first.expectPublish("jobs/a");
    await first.puback(offer.packetId);
    await diesAt(broker, { sql: "DELETE FROM queue_items", at }, async () => {
      await answer(first, offer, "return");
      await first.expectClose();
    });
    const jobs = rows(broker, "SELECT attempts FROM queue_items");
    assert.deepEqual(jobs, at === "after" ? [] : [{ attempts: 1 }]);
    assert.equal(records(broker, "jobs__dlq"), at === "after" ? 1 : 0);
    await broker.startAgain();
    using letters = await WireClient.connected(broker.port);
    await letters.subscribe({ subscriptions: [{ filter: "jobs/__dlq/#", qos: 1 }] });
    await letters.expectSuback(1, [1]);
    using second = await worker(broker.port);
    const letter = await letters.expectPublish("jobs/__dlq/a");
    assert.equal(label(letter, "saguin-offset"), "1");
    await second.expectSilence(300);
    assert.equal(records(broker, "jobs__dlq"), 1);
    assert.equal(rows(broker, "SELECT offset FROM queue_items").length, 0);
  });
}
