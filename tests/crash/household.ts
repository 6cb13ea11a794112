/**
 * A life that leaves something of every kind behind, and what a later broker has to know of it:
 * records, values, jobs and positions, a retained value, sessions with what they are owed, an open
 * QoS 2 exchange.
 */
import assert from "node:assert/strict";
import type { BrokerProcess } from "../support/broker_process.ts";
import { encodePublish, join } from "../support/mqtt_bytes.ts";
import { type Received, WireClient } from "../support/wire.ts";

export const CHANNELS = `events:
  type: append
state:
  type: latest
jobs:
  type: queue
  visibility_timeout: 30s
  retry:
    max_attempts: 3`;

const HOUR = { sessionExpiry: 3600 };
const EVENTS = 10;
const READ = 4;

export function label(packet: Received<"publish">, name: string): string | undefined {
  return packet.properties.userProperties?.find(([key]) => key === name)?.[1];
}

export function payload(packet: Received<"publish">): string {
  return new TextDecoder().decode(packet.payload);
}

/** Warnings and errors that the broker wrote from line `from` on, but for connections it ended. */
export function said(broker: BrokerProcess, from = 0): string[] {
  return broker.lines.slice(from).filter((line) =>
    / level=(WARN|ERROR) /.test(line) && !line.includes('msg="ended a connection"')
  );
}

/** A connection that takes up its session where there is one. */
export async function resumed(
  port: number,
  clientId: string,
): Promise<{ client: WireClient; present: boolean }> {
  const client = await WireClient.open(port);
  await client.connect({ clientId, cleanStart: false, properties: HOUR });
  return { client, present: (await client.expectConnack()).sessionPresent };
}

/** Publishes at QoS 1 and waits until all of it is stored. */
export async function publishAll(
  port: number,
  messages: readonly { topic: string; payload: string; retain?: boolean }[],
): Promise<void> {
  using client = await WireClient.connected(port, { clientId: "publisher" });
  await client.send(
    join(...messages.map((message, i) => encodePublish({ ...message, qos: 1, packetId: i + 1 }))),
  );
  for (let i = 0; i < messages.length; i++) await client.expectPuback(i + 1);
  await client.disconnect();
}

async function worker(port: number): Promise<WireClient> {
  const client = await WireClient.connected(port, { clientId: "worker" });
  await client.subscribe({ subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1 }] });
  await client.expectSuback(1, [1]);
  return client;
}

/** Takes the next job, which has to be `name`, and answers it. */
async function work(port: number, name: string, verdict: "ack" | "return"): Promise<void> {
  using client = await worker(port);
  const offer = await client.expectPublish(undefined, name);
  await client.puback(offer.packetId);
  await client.publish({
    topic: offer.properties.responseTopic!,
    payload: verdict,
    qos: 1,
    packetId: 7,
    properties: { correlationData: offer.properties.correlationData },
  });
  // Another offer may come before the answer's PUBACK: it goes back unspent with the connection.
  for (let packet = await client.next(); packet.type !== "puback";) packet = await client.next();
}

/** Fills a broker with `CHANNELS`. */
export async function live(port: number): Promise<void> {
  {
    const { client } = await resumed(port, "reader");
    using reader = client;
    await reader.subscribe({ subscriptions: [{ filter: "events/#", qos: 1 }] });
    await reader.expectSuback(1, [1]);
    const records = Array.from({ length: EVENTS }, (_, i) => `e${i + 1}`);
    await publishAll(port, records.map((payload) => ({ topic: "events/a", payload })));
    for (let i = 1; i <= EVENTS; i++) {
      const packet = await reader.expectPublish("events/a", `e${i}`);
      if (i <= READ) await reader.puback(packet.packetId);
    }
    await reader.disconnect();
  }
  await publishAll(port, [
    { topic: "state/replaced", payload: "old" },
    { topic: "state/replaced", payload: "new" },
    { topic: "state/deleted", payload: "gone" },
    { topic: "state/deleted", payload: "" },
    { topic: "lights/1", payload: "on", retain: true },
    { topic: "jobs/1", payload: "done" },
  ]);
  await work(port, "done", "ack");
  await publishAll(port, [
    { topic: "jobs/2", payload: "returned" },
    { topic: "jobs/3", payload: "untouched" },
  ]);
  await work(port, "returned", "return");
  {
    const { client } = await resumed(port, "away");
    using away = client;
    await away.subscribe({ subscriptions: [{ filter: "news/#", qos: 1 }] });
    await away.expectSuback(1, [1]);
    await away.disconnect();
  }
  await publishAll(port, [{ topic: "news/1", payload: "owed" }]);
  {
    const { client } = await resumed(port, "twice");
    using twice = client;
    await twice.publish({ topic: "events/held", payload: "held", qos: 2, packetId: 9 });
    await twice.expectPubrec(9);
    await twice.disconnect();
  }
}

/** What the channels and the retained store hold after `live`. */
export async function checkChannels(port: number): Promise<void> {
  {
    using viewer = await WireClient.connected(port, { clientId: "viewer" });
    await viewer.subscribe({
      subscriptions: [{ filter: "state/#", qos: 1 }, { filter: "lights/#", qos: 1 }],
    });
    await viewer.expectSuback(1, [1, 1]);
    const found = [await viewer.expectPublish(), await viewer.expectPublish()];
    assert.deepEqual(
      found.map((packet) => `${packet.topic}=${payload(packet)} ${packet.retain}`).sort(),
      ["lights/1=on true", "state/replaced=new true"],
    );
    await viewer.expectSilence(50);
  }
  for (const [name, attempt] of [["returned", "2"], ["untouched", "1"]]) {
    using taker = await worker(port);
    const offer = await taker.expectPublish(undefined, name);
    assert.equal(label(offer, "saguin-attempt"), attempt, name);
    await taker.publish({
      topic: offer.properties.responseTopic!,
      payload: "ack",
      qos: 1,
      packetId: 7,
      properties: { correlationData: offer.properties.correlationData },
    });
    for (let packet = await taker.next(); packet.type !== "puback";) packet = await taker.next();
  }
  {
    using taker = await worker(port);
    await taker.expectSilence(500);
  }
  // The consumer goes on one past its last acknowledgement, whether its session came along or not.
  const { client } = await resumed(port, "reader");
  using reader = client;
  await reader.subscribe({ packetId: 2, subscriptions: [{ filter: "events/#", qos: 1 }] });
  const records = [];
  while (records.length < EVENTS - READ) {
    const packet = await reader.next();
    if (packet.type === "publish") records.push(packet);
  }
  assert.deepEqual(
    records.map((packet) => `${label(packet, "saguin-offset")}:${payload(packet)}`),
    Array.from({ length: EVENTS - READ }, (_, i) => `${READ + i + 1}:e${READ + i + 1}`),
  );
}

/** What the sessions hold after `live`. */
export async function checkSessions(port: number): Promise<void> {
  const away = await resumed(port, "away");
  assert.equal(away.present, true);
  await away.client.expectPublish("news/1", "owed");
  away.client.close();
  const twice = await resumed(port, "twice");
  assert.equal(twice.present, true);
  await twice.client.pubrel(9);
  await twice.client.expectPubcomp(9);
  twice.client.close();
  const { client, present } = await resumed(port, "reader");
  using reader = client;
  assert.equal(present, true);
  for (let i = READ + 1; i <= EVENTS; i++) await reader.expectPublish("events/a", `e${i}`);
  const released = await reader.expectPublish("events/held", "held");
  assert.equal(label(released, "saguin-offset"), String(EVENTS + 1));
}
