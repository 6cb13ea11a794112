/** What most exchanges of the wire tests begin with. */
import assert from "node:assert/strict";
import type { House } from "./house.ts";
import {
  type ConnectOptions,
  encodeDisconnect,
  type PublishOptions,
  type SubscribeOptions,
} from "./mqtt_bytes.ts";
import { sleep } from "./wait.ts";
import { ConnectionEnded, type Received, WireClient } from "./wire.ts";

/** A connection with a session that outlives it; resumed if there is one. */
export async function durable(
  house: House,
  clientId: string,
  options: ConnectOptions & { expiry?: number } = {},
): Promise<{ client: WireClient; present: boolean }> {
  const { expiry = 3_600, properties, ...rest } = options;
  return await house.connect({
    clientId,
    cleanStart: false,
    properties: options.level === 4 ? undefined : { sessionExpiry: expiry, ...properties },
    ...rest,
  });
}

/** A CONNECT that was sent and not answered yet. */
export async function connecting(
  house: House,
  options: Parameters<WireClient["connect"]>[0],
): Promise<WireClient> {
  const client = await WireClient.open(house.port, options?.level ?? 5);
  await client.connect(options);
  return client;
}

/** Subscribes to one filter and takes the SUBACK, which grants what was asked. */
export async function subscribed(
  client: WireClient,
  filter: string,
  qos = 1,
  options: Partial<SubscribeOptions["subscriptions"][number]> = {},
): Promise<void> {
  await client.subscribe({ subscriptions: [{ filter, qos, ...options }] });
  await client.expectSuback(1, [qos]);
}

let packetId = 0;

/** Publishes at QoS 1 (or 0) and takes the PUBACK. */
export async function published(
  client: WireClient,
  topic: string,
  payload: string,
  options: Partial<PublishOptions> = {},
): Promise<void> {
  packetId = packetId % 60_000 + 1;
  const publish = { topic, payload, qos: 1, packetId, ...options };
  await client.publish(publish);
  if (publish.qos !== 0) await client.expectPuback(publish.packetId);
}

/** Publishes at QoS 2 through PUBCOMP. */
export async function publishedTwice(
  client: WireClient,
  topic: string,
  payload: string,
  options: Partial<PublishOptions> = {},
): Promise<void> {
  packetId = packetId % 60_000 + 1;
  const id = packetId;
  await client.publish({ topic, payload, qos: 2, packetId: id, ...options });
  await client.expectPubrec(id);
  await client.pubrel(id);
  await client.expectPubcomp(id);
}

/** The next PUBLISH, acknowledged as its QoS asks. */
export async function taken(
  client: WireClient,
  topic?: string,
  payload?: string,
): Promise<Received<"publish">> {
  const got = await client.expectPublish(topic, payload);
  if (got.qos === 1) await client.puback(got.packetId);
  if (got.qos === 2) {
    await client.pubrec(got.packetId);
    await client.expectPubrel(got.packetId);
    await client.pubcomp(got.packetId);
  }
  return got;
}

/** The next `count` PUBLISHes, each acknowledged as its QoS asks, in whatever order their packets mix. */
export async function takenAll(
  client: WireClient,
  count: number,
): Promise<Received<"publish">[]> {
  const publishes: Received<"publish">[] = [];
  let open = 0;
  while (publishes.length < count || open > 0) {
    const packet = await client.next();
    if (packet.type === "publish") {
      publishes.push(packet);
      if (packet.qos === 1) await client.puback(packet.packetId);
      if (packet.qos === 2) {
        open++;
        await client.pubrec(packet.packetId);
      }
    } else if (packet.type === "pubrel") {
      open--;
      await client.pubcomp(packet.packetId);
    } else throw new Error(`got a ${packet.type} among deliveries`);
  }
  return publishes;
}

/** A clean DISCONNECT, whatever deliveries are still under way. */
export async function left(client: WireClient): Promise<void> {
  await client.send(encodeDisconnect());
  try {
    for (;;) await client.next();
  } catch (error) {
    if (!(error instanceof ConnectionEnded)) throw error;
  }
  client.close();
}

/** Nothing more comes: a PINGREQ is answered at once. */
export async function nothingMore(client: WireClient): Promise<void> {
  await client.pingreq();
  await client.expectPingresp();
}

const FLOOD = "x".repeat(20_000);

/**
 * Publishes at QoS 0 to a subscriber that reads nothing until its socket takes no more: what the system
 * buffers on the way is not the broker's to count.
 */
export async function stuffed(
  house: House,
  clientId: string,
  writer: WireClient,
  topic: string,
): Promise<void> {
  const buffered = () => house.broker.sessions.get(clientId)!.link!.buffered;
  for (let round = 0; round < 200; round++) {
    for (let i = 0; i < 40; i++) await published(writer, topic, FLOOD, { qos: 0 });
    await nothingMore(writer);
    await sleep(5);
    const before = buffered();
    if (before === 0) continue;
    await sleep(50);
    if (buffered() === before) return;
  }
  assert.fail("the socket took everything");
}
