/** Deliveries by chance: what the broker asks of a connection, and the PUBLISH a client must see. */
import type { Delivery } from "../../src/broker/link.ts";
import type { PacketWriter } from "../../src/mqtt/codec/encode.ts";
import type { Headers, QoS } from "../../src/storage/record.ts";
import { generateText, generateTopic, present } from "./generate_packets.ts";
import type { Level, ServerPacket } from "./mqtt_bytes.ts";
import type { Random } from "./random.ts";

/** A delivery as it goes to one client. */
export interface Sent extends Delivery {
  readonly packetId: number;
  readonly dup: boolean;
}

/** Writes it; false when it is larger than the client takes. */
export function put(writer: PacketWriter, sent: Sent): boolean {
  return writer.publish(sent, sent.packetId, sent.dup);
}

export interface GeneratedDelivery {
  readonly delivery: Sent;
  readonly packet: ServerPacket & { type: "publish" };
}

function maybe<T>(random: Random, probability: number, make: () => T): T | undefined {
  return random.chance(probability) ? make() : undefined;
}

function headers(random: Random): Headers {
  const pairs = Array.from({ length: Math.max(0, random.between(-3, 4)) }, () => {
    return [generateText(random), generateText(random)] as const;
  });
  return pairs;
}

/** Payloads up to 100,000 bytes, so that some are copied and some are sent from where they lie. */
function payload(random: Random): Uint8Array {
  const roll = random.fraction();
  return random.bytes(random.below(roll < 0.9 ? 200 : roll < 0.97 ? 20_000 : 100_000));
}

export function generateDelivery(random: Random, level: Level): GeneratedDelivery {
  const qos = random.below(3) as QoS;
  const delivery: Sent = {
    message: {
      messageId: "id",
      topic: generateTopic(random),
      timestamp: 1n,
      headers: headers(random),
      properties: present({
        contentType: maybe(random, 0.2, () => generateText(random)),
        responseTopic: maybe(random, 0.2, () => generateTopic(random)),
        correlationData: maybe(random, 0.2, () => random.bytes(random.below(30))),
        payloadFormat: maybe(random, 0.2, () => random.below(2) as 0 | 1),
        messageExpiry: maybe(random, 0.2, () => random.uint32()),
      }),
      payload: payload(random),
      retain: random.chance(0.5),
      bridge: "",
      clientId: "",
      qos: 2,
      groupCopy: false,
      onlyFor: "",
    },
    qos,
    retain: random.chance(0.2),
    dup: qos > 0 && random.chance(0.2),
    packetId: qos === 0 ? 0 : random.between(1, 65535),
    identifiers: Array.from({ length: random.chance(0.3) ? random.between(1, 3) : 0 }, () => {
      return random.chance(0.5) ? random.between(1, 300) : random.between(1, 268_435_455);
    }),
    labels: headers(random),
    reply: maybe(random, 0.1, () => ({
      responseTopic: generateTopic(random),
      correlationData: random.bytes(16),
    })),
    expiry: maybe(random, 0.2, () => random.uint32()),
  };
  return { delivery, packet: expectedPublish(delivery, level) };
}

/** The PUBLISH that `delivery` is to a client of that level. */
function expectedPublish(delivery: Sent, level: Level): ServerPacket & { type: "publish" } {
  const { message, qos, retain, dup, packetId, reply } = delivery;
  const { topic } = message;
  const userProperties = [...delivery.labels, ...message.headers];
  const properties = level === 4 ? {} : present({
    payloadFormat: message.properties.payloadFormat,
    messageExpiry: delivery.expiry,
    contentType: message.properties.contentType,
    responseTopic: reply === undefined ? message.properties.responseTopic : reply.responseTopic,
    correlationData: reply === undefined
      ? message.properties.correlationData
      : reply.correlationData,
    subscriptionIdentifiers: delivery.identifiers.length > 0 ? delivery.identifiers : undefined,
    userProperties: userProperties.length > 0 ? userProperties : undefined,
  });
  return {
    type: "publish",
    dup,
    qos,
    retain,
    topic,
    packetId,
    payload: message.payload,
    properties,
  };
}
