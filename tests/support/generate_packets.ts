/**
 * Client packets by chance, each as the value a decoder must make of it and as bytes, and ways to spoil
 * such bytes. Everything comes out of the `Random` that is handed in, so a printed seed repeats it.
 */
import type { Headers, QoS } from "../../src/storage/record.ts";
import type { InboundPacket, PublishPacketProperties, WillPacket } from "../../src/mqtt/packet.ts";
import { PacketType } from "../../src/mqtt/packet.ts";
import type { Random } from "./random.ts";
import {
  encodeConnect,
  encodeDisconnect,
  encodePingreq,
  encodePuback,
  encodePubcomp,
  encodePublish,
  encodePubrec,
  encodePubrel,
  encodeSubscribe,
  encodeUnsubscribe,
  join,
  type Level,
  type MqttProperties,
} from "./mqtt_bytes.ts";

export interface Generated {
  /** Without the keys that would be undefined; compare after `present`. */
  readonly packet: InboundPacket;
  readonly bytes: Uint8Array<ArrayBuffer>;
}

/** `value` without its undefined keys, all the way down: "not sent" has two spellings. */
export function present<T>(value: T): T {
  if (Array.isArray(value)) return value.map(present) as T;
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  return Object.fromEntries(
    Object.entries(value).filter(([, v]) => v !== undefined).map(([k, v]) => [k, present(v)]),
  ) as T;
}

// -------------------------------------------------------------------------------------- strings

const WORDS = [
  ...["a", "b", "temperature", "sensors", "7", "42", "001", "__proto__", "constructor", "x-y_z"],
  ...["größe", "温度", "🌡️", "\ufeff", "\u0001", "\u007f", "\uffff", " ", "saguin-filter"],
];

/** Any string MQTT allows, mostly short and mostly ASCII; may be empty. */
export function generateText(random: Random): string {
  const words = random.below(4);
  let text = "";
  for (let i = 0; i < words; i++) text += random.pick(WORDS);
  return random.chance(0.02) ? text + "long ".repeat(random.between(20, 200)) : text;
}

/** A Topic Name of one level or more, without wildcards. */
export function generateTopic(random: Random): string {
  const levels = random.between(1, 5);
  const topic = Array.from({ length: levels }, () => generateText(random)).join("/");
  return topic === "" ? "t" : topic;
}

/** A Topic Filter, some of them shared, with wildcards where they may stand. */
export function generateFilter(random: Random): string {
  const levels = generateTopic(random).split("/").map((level) => random.chance(0.2) ? "+" : level);
  if (random.chance(0.2)) levels.push("#");
  const filter = levels.join("/");
  return random.chance(0.1) ? `$share/group/${filter}` : filter;
}

function generateHeaders(random: Random): Headers | undefined {
  if (random.chance(0.6)) return undefined;
  const count = random.between(1, 6);
  return Array.from({ length: count }, () => [generateText(random), generateText(random)] as const);
}

function maybe<T>(random: Random, probability: number, make: () => T): T | undefined {
  return random.chance(probability) ? make() : undefined;
}

function generateQoS(random: Random): QoS {
  return random.below(3) as QoS;
}

function flag(random: Random): 0 | 1 {
  return random.below(2) as 0 | 1;
}

function generatePacketId(random: Random): number {
  return random.chance(0.1) ? random.pick([1, 255, 256, 65535]) : random.between(1, 65535);
}

function generateSeconds(random: Random): number {
  return random.chance(0.2)
    ? random.pick([0, 1, 0x7fffffff, 0x80000000, 0xffffffff])
    : random.uint32();
}

function generatePayload(random: Random): Uint8Array<ArrayBuffer> {
  const roll = random.fraction();
  const length = roll < 0.1 ? 0 : roll < 0.9 ? random.below(200) : random.below(20_000);
  return random.bytes(length);
}

// -------------------------------------------------------------------------------------- packets

/** Properties that a PUBLISH and a Will share. */
function generateMessageProperties(random: Random): PublishPacketProperties {
  return present({
    payloadFormat: maybe(random, 0.2, () => flag(random)),
    messageExpiry: maybe(random, 0.2, () => generateSeconds(random)),
    contentType: maybe(random, 0.2, () => generateText(random)),
    responseTopic: maybe(random, 0.2, () => generateTopic(random)),
    correlationData: maybe(random, 0.2, () => random.bytes(random.below(20))),
    userProperties: generateHeaders(random),
  });
}

export function generateConnect(random: Random, level: Level): Generated {
  const five = level === 5;
  const cleanStart = random.chance(0.5);
  const keepAlive = random.between(0, 65535);
  const clientId = generateText(random);
  const will = maybe(random, 0.4, (): WillPacket => ({
    topic: generateTopic(random),
    payload: random.bytes(random.below(100)),
    qos: generateQoS(random),
    retain: random.chance(0.5),
    delay: five && random.chance(0.5) ? generateSeconds(random) : 0,
    properties: five ? generateMessageProperties(random) : {},
  }));
  const userName = maybe(random, 0.5, () => generateText(random));
  const password = five || userName !== undefined
    ? maybe(random, 0.5, () => random.bytes(random.below(30)))
    : undefined;
  const authenticationMethod = five ? maybe(random, 0.1, () => generateText(random)) : undefined;
  const values = five
    ? {
      sessionExpiry: maybe(random, 0.4, () => generateSeconds(random)),
      receiveMaximum: maybe(random, 0.4, () => random.between(1, 65535)),
      maximumPacketSize: maybe(random, 0.4, () => random.between(1, 0xffffffff)),
      topicAliasMaximum: maybe(random, 0.4, () => random.between(0, 65535)),
      requestResponseInformation: maybe(random, 0.2, () => flag(random)),
      requestProblemInformation: maybe(random, 0.2, () => flag(random)),
      userProperties: generateHeaders(random),
      authenticationMethod,
      authenticationData: authenticationMethod === undefined
        ? undefined
        : maybe(random, 0.5, () => random.bytes(random.below(30))),
    }
    : {};
  return {
    packet: present({
      type: PacketType.Connect,
      level,
      cleanStart,
      keepAlive,
      clientId,
      will,
      userName,
      password,
      ...values,
    }),
    bytes: encodeConnect({
      level,
      clientId,
      cleanStart,
      keepAlive,
      userName,
      password,
      properties: values,
      will: will === undefined ? undefined : {
        ...will,
        properties: {
          willDelay: will.delay === 0 ? undefined : will.delay,
          ...will.properties as MqttProperties,
        },
      },
    }),
  };
}

export function generatePublish(random: Random, level: Level): Generated {
  const qos = generateQoS(random);
  const properties: PublishPacketProperties = level === 5
    ? present({
      ...generateMessageProperties(random),
      topicAlias: maybe(random, 0.1, () => random.between(1, 65535)),
    })
    : {};
  const fields = {
    dup: qos > 0 && random.chance(0.2),
    qos,
    retain: random.chance(0.2),
    topic: properties.topicAlias !== undefined && random.chance(0.5) ? "" : generateTopic(random),
    packetId: qos === 0 ? 0 : generatePacketId(random),
    payload: generatePayload(random),
  };
  return {
    packet: { type: PacketType.Publish, ...fields, properties },
    bytes: encodePublish({ ...fields, level, properties: properties as MqttProperties }),
  };
}

const ACKNOWLEDGEMENTS = [
  { type: PacketType.Puback, encode: encodePuback },
  { type: PacketType.Pubrec, encode: encodePubrec },
  { type: PacketType.Pubrel, encode: encodePubrel },
  { type: PacketType.Pubcomp, encode: encodePubcomp },
] as const;

const PUBLISH_ANSWERS = [0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99];

function generateAcknowledgement(random: Random, level: Level): Generated {
  const { type, encode } = random.pick(ACKNOWLEDGEMENTS);
  const packetId = generatePacketId(random);
  if (level === 4 || random.chance(0.4)) {
    return { packet: { type, packetId, reasonCode: 0 }, bytes: encode({ packetId }) };
  }
  const reasonCode = type === PacketType.Puback || type === PacketType.Pubrec
    ? random.pick(PUBLISH_ANSWERS)
    : random.pick([0x00, 0x92]);
  const properties = maybe(random, 0.5, () => ({
    reasonString: maybe(random, 0.5, () => generateText(random)),
    userProperties: generateHeaders(random),
  }));
  return {
    packet: present({ type, packetId, reasonCode, ...properties }),
    bytes: encode({ packetId, reasonCode, properties }),
  };
}

function generateSubscribe(random: Random, level: Level): Generated {
  const five = level === 5;
  const packetId = generatePacketId(random);
  const subscriptions = Array.from({ length: random.between(1, 4) }, () => ({
    filter: generateFilter(random),
    qos: generateQoS(random),
    noLocal: five && random.chance(0.3),
    retainAsPublished: five && random.chance(0.3),
    retainHandling: (five ? random.below(3) : 0) as 0 | 1 | 2,
  }));
  const subscriptionIdentifier = five
    ? maybe(
      random,
      0.4,
      () => random.pick([1, 127, 128, 16383, 16384, 2097151, 2097152, 268435455]),
    )
    : undefined;
  const userProperties = five ? generateHeaders(random) : undefined;
  return {
    packet: present({
      type: PacketType.Subscribe,
      packetId,
      subscriptions,
      subscriptionIdentifier,
      userProperties,
    }),
    bytes: encodeSubscribe({
      level,
      packetId,
      subscriptions,
      properties: {
        subscriptionIdentifiers: subscriptionIdentifier === undefined
          ? undefined
          : [subscriptionIdentifier],
        userProperties,
      },
    }),
  };
}

function generateUnsubscribe(random: Random, level: Level): Generated {
  const packetId = generatePacketId(random);
  const filters = Array.from({ length: random.between(1, 4) }, () => generateFilter(random));
  const userProperties = level === 5 ? generateHeaders(random) : undefined;
  return {
    packet: present({ type: PacketType.Unsubscribe, packetId, filters, userProperties }),
    bytes: encodeUnsubscribe({ level, packetId, filters, properties: { userProperties } }),
  };
}

const DISCONNECT_REASONS = [
  ...[0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99],
];

export function generateDisconnect(random: Random, level: Level): Generated {
  if (level === 4 || random.chance(0.4)) {
    return { packet: { type: PacketType.Disconnect, reasonCode: 0 }, bytes: encodeDisconnect() };
  }
  const reasonCode = random.pick(DISCONNECT_REASONS);
  const properties = maybe(random, 0.6, () => ({
    sessionExpiry: maybe(random, 0.5, () => generateSeconds(random)),
    reasonString: maybe(random, 0.5, () => generateText(random)),
    userProperties: generateHeaders(random),
  }));
  return {
    packet: present({ type: PacketType.Disconnect, reasonCode, ...properties }),
    bytes: encodeDisconnect({ reasonCode, properties }),
  };
}

/** A packet that may follow the CONNECT, but no DISCONNECT: PUBLISH half of the time. */
export function generatePacket(random: Random, level: Level): Generated {
  const roll = random.fraction();
  if (roll < 0.5) return generatePublish(random, level);
  if (roll < 0.7) return generateAcknowledgement(random, level);
  if (roll < 0.83) return generateSubscribe(random, level);
  if (roll < 0.95) return generateUnsubscribe(random, level);
  return { packet: { type: PacketType.Pingreq }, bytes: encodePingreq() };
}

/** What one connection may send: a CONNECT, `count` packets, now and then a DISCONNECT. */
export function generateStream(random: Random, level: Level, count: number): Generated[] {
  const stream = [generateConnect(random, level)];
  for (let i = 0; i < count; i++) stream.push(generatePacket(random, level));
  if (random.chance(0.3)) stream.push(generateDisconnect(random, level));
  return stream;
}

export function bytesOf(stream: readonly Generated[]): Uint8Array<ArrayBuffer> {
  return join(...stream.map((each) => each.bytes));
}

// -------------------------------------------------------------------------------------- spoiling

/** Bytes that mean something to MQTT somewhere: lengths, flags, property identifiers, bad UTF-8. */
const TELLING = [
  0x00,
  0x01,
  0x02,
  0x0b,
  0x1f,
  0x21,
  0x23,
  0x26,
  0x30,
  0x36,
  0x7f,
  0x80,
  0xc0,
  0xed,
];

/** `bytes` with one to three things wrong; never the same bytes, and not always a fault. */
export function mutate(random: Random, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  let spoiled = new Uint8Array(bytes);
  const mistakes = random.between(1, 3);
  for (let i = 0; i < mistakes; i++) spoiled = mutateOnce(random, spoiled);
  const same = spoiled.length === bytes.length && spoiled.every((byte, i) => byte === bytes[i]);
  return same ? join(spoiled, [0xff]) : spoiled;
}

function mutateOnce(random: Random, bytes: Uint8Array): Uint8Array<ArrayBuffer> {
  if (bytes.length === 0) return random.bytes(1);
  // Mistakes near the front meet the headers; further back they mostly meet payload.
  const at = random.chance(0.5)
    ? random.below(Math.min(bytes.length, 24))
    : random.below(bytes.length);
  const changed = new Uint8Array(bytes);
  switch (random.below(7)) {
    case 0:
      changed[at] ^= 1 << random.below(8);
      return changed;
    case 1:
      changed[at] = random.pick(TELLING);
      return changed;
    case 2:
      changed[at] = (changed[at] + random.pick([1, 255])) & 0xff;
      return changed;
    case 3:
      return join(bytes.subarray(0, at), random.bytes(random.between(1, 4)), bytes.subarray(at));
    case 4:
      return join(bytes.subarray(0, at), bytes.subarray(at + random.between(1, 4)));
    case 5:
      return changed.slice(0, at);
    default: {
      const length = random.between(1, 16);
      return join(bytes.subarray(0, at + length), bytes.subarray(at));
    }
  }
}
