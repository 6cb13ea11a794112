/** npm:mqtt-packet as the other side of the differential test: its packets in our shapes and back. */
import { Buffer } from "node:buffer";
import mqttPacket from "mqtt-packet";
import type { InboundPacket, PublishPacketProperties } from "../../../src/mqtt/packet.ts";
import { present } from "../../support/generate_packets.ts";
import type { Level } from "../../support/mqtt_bytes.ts";

/** A packet of the peer's: plain keys, some of them Buffers. */
type PeerPacket = Record<string, unknown>;

/** Our key, the peer's, and whether it shows a byte as a boolean. */
const PROPERTIES: readonly [ours: string, theirs: string, flag: boolean][] = [
  ["payloadFormat", "payloadFormatIndicator", true],
  ["messageExpiry", "messageExpiryInterval", false],
  ["contentType", "contentType", false],
  ["responseTopic", "responseTopic", false],
  ["correlationData", "correlationData", false],
  ["subscriptionIdentifiers", "subscriptionIdentifier", false],
  ["sessionExpiry", "sessionExpiryInterval", false],
  ["assignedClientId", "assignedClientIdentifier", false],
  ["serverKeepAlive", "serverKeepAlive", false],
  ["authenticationMethod", "authenticationMethod", false],
  ["authenticationData", "authenticationData", false],
  ["requestProblemInformation", "requestProblemInformation", true],
  ["willDelay", "willDelayInterval", false],
  ["requestResponseInformation", "requestResponseInformation", true],
  ["responseInformation", "responseInformation", false],
  ["serverReference", "serverReference", false],
  ["reasonString", "reasonString", false],
  ["receiveMaximum", "receiveMaximum", false],
  ["topicAliasMaximum", "topicAliasMaximum", false],
  ["topicAlias", "topicAlias", false],
  ["maximumQoS", "maximumQoS", false],
  ["retainAvailable", "retainAvailable", true],
  ["userProperties", "userProperties", false],
  ["maximumPacketSize", "maximumPacketSize", false],
  ["wildcardSubscriptionAvailable", "wildcardSubscriptionAvailable", true],
  ["subscriptionIdentifierAvailable", "subscriptionIdentifiersAvailable", true],
  ["sharedSubscriptionAvailable", "sharedSubscriptionAvailable", true],
];

// ------------------------------------------------------------------------------- ours to theirs

function bytesOf(value: unknown): Buffer | undefined {
  return value === undefined ? undefined : Buffer.from(value as Uint8Array);
}

function toPeerProperties(values: object): PeerPacket {
  const properties: PeerPacket = {};
  for (const [ours, theirs, flag] of PROPERTIES) {
    const value = (values as PeerPacket)[ours];
    if (value === undefined) continue;
    if (ours === "userProperties") properties[theirs] = toPeerHeaders(value as [string, string][]);
    else if (flag) properties[theirs] = value === 1;
    else if (value instanceof Uint8Array) properties[theirs] = Buffer.from(value);
    else properties[theirs] = value;
  }
  return properties;
}

/** The peer has one value a name, or a list of them: the order between names is its own. */
function toPeerHeaders(headers: [string, string][]): Record<string, string[]> {
  const object: Record<string, string[]> = Object.create(null);
  for (const [name, value] of headers) (object[name] ??= []).push(value);
  return object;
}

const NAMES: Record<number, string> = {
  1: "connect",
  3: "publish",
  4: "puback",
  5: "pubrec",
  6: "pubrel",
  7: "pubcomp",
  8: "subscribe",
  10: "unsubscribe",
  12: "pingreq",
  14: "disconnect",
  15: "auth",
};

function toPeer(packet: InboundPacket): PeerPacket {
  const cmd = NAMES[packet.type];
  switch (packet.type) {
    case 1:
      return {
        cmd,
        protocolVersion: packet.level,
        clean: packet.cleanStart,
        keepalive: packet.keepAlive,
        clientId: packet.clientId,
        username: packet.userName,
        password: bytesOf(packet.password),
        properties: toPeerProperties(packet),
        will: packet.will === undefined ? undefined : {
          topic: packet.will.topic,
          payload: bytesOf(packet.will.payload),
          qos: packet.will.qos,
          retain: packet.will.retain,
          properties: toPeerProperties({
            ...packet.will.properties,
            willDelay: packet.will.delay === 0 ? undefined : packet.will.delay,
          }),
        },
      };
    case 3:
      return {
        cmd,
        topic: packet.topic,
        payload: bytesOf(packet.payload),
        qos: packet.qos,
        dup: packet.dup,
        retain: packet.retain,
        messageId: packet.packetId,
        properties: toPeerProperties(packet.properties),
      };
    case 8:
      return {
        cmd,
        messageId: packet.packetId,
        subscriptions: packet.subscriptions.map((each) => ({
          topic: each.filter,
          qos: each.qos,
          nl: each.noLocal,
          rap: each.retainAsPublished,
          rh: each.retainHandling,
        })),
        properties: toPeerProperties({
          ...packet,
          subscriptionIdentifiers: packet.subscriptionIdentifier,
        }),
      };
    case 10:
      return {
        cmd,
        messageId: packet.packetId,
        unsubscriptions: packet.filters,
        properties: toPeerProperties(packet),
      };
    case 12:
      return { cmd };
    default:
      return {
        cmd,
        messageId: "packetId" in packet ? packet.packetId : undefined,
        reasonCode: packet.reasonCode,
        properties: toPeerProperties(packet),
      };
  }
}

/** The peer's bytes for `packet`, or the reason for which it makes none. */
export function peerEncode(packet: InboundPacket, level: Level): Uint8Array | string {
  try {
    const options = { protocolVersion: level };
    return new Uint8Array(mqttPacket.generate(toPeer(packet) as never, options));
  } catch (error) {
    return (error as Error).message;
  }
}

// ------------------------------------------------------------------------------- theirs to ours

function plain(value: unknown): unknown {
  return value instanceof Uint8Array ? new Uint8Array(value) : value;
}

function fromPeerProperties(properties: unknown): PeerPacket {
  const found: PeerPacket = {};
  for (const [ours, theirs, flag] of PROPERTIES) {
    const value = (properties as PeerPacket | undefined)?.[theirs];
    if (value === undefined) continue;
    if (ours === "userProperties") found[ours] = fromPeerHeaders(value as PeerPacket);
    else if (ours === "subscriptionIdentifiers") {
      found[ours] = Array.isArray(value) ? value : [value];
    } else if (flag) found[ours] = value === true ? 1 : value === false ? 0 : value;
    else found[ours] = plain(value);
  }
  return found;
}

function fromPeerHeaders(object: PeerPacket): [string, unknown][] {
  return Object.entries(object).flatMap(([name, value]) => {
    return (Array.isArray(value) ? value : [value]).map((each) =>
      [name, each] as [string, unknown]
    );
  });
}

const TYPES = new Map(Object.entries(NAMES).map(([type, cmd]) => [cmd, Number(type)]));

/** A client's packet in the shape our decoder gives it. */
function clientPacket(packet: PeerPacket): InboundPacket {
  const type = TYPES.get(packet.cmd as string);
  const properties = fromPeerProperties(packet.properties);
  const will = packet.will as PeerPacket | undefined;
  return present(shape()) as unknown as InboundPacket;

  function shape(): PeerPacket {
    switch (type) {
      case 1: {
        const { willDelay, ...others } = fromPeerProperties(will?.properties);
        return {
          type,
          level: packet.protocolVersion,
          cleanStart: packet.clean,
          keepAlive: packet.keepalive,
          clientId: packet.clientId,
          userName: packet.username,
          password: plain(packet.password),
          will: will && {
            topic: will.topic,
            payload: plain(will.payload),
            qos: will.qos,
            retain: will.retain,
            delay: willDelay ?? 0,
            properties: others as PublishPacketProperties,
          },
          ...properties,
        };
      }
      case 3:
        return {
          type,
          dup: packet.dup,
          qos: packet.qos,
          retain: packet.retain,
          topic: packet.topic,
          packetId: packet.messageId ?? 0,
          payload: plain(packet.payload),
          properties,
        };
      case 8: {
        const { subscriptionIdentifiers, ...others } = properties;
        return {
          type,
          packetId: packet.messageId,
          subscriptions: (packet.subscriptions as PeerPacket[]).map((each) => ({
            filter: each.topic,
            qos: each.qos,
            noLocal: each.nl ?? false,
            retainAsPublished: each.rap ?? false,
            retainHandling: each.rh ?? 0,
          })),
          subscriptionIdentifier: (subscriptionIdentifiers as number[] | undefined)?.[0],
          ...others,
        };
      }
      case 10:
        return { type, packetId: packet.messageId, filters: packet.unsubscriptions, ...properties };
      case 12:
        return { type };
      case 15: // Ours keeps the code alone: every AUTH is refused.
        return { type, reasonCode: packet.reasonCode };
      default:
        return {
          type,
          packetId: packet.messageId,
          reasonCode: packet.reasonCode ?? 0,
          ...properties,
        };
    }
  }
}

/** A server's packet in the shape of `parseServerPackets`. */
function serverPacket(packet: PeerPacket): PeerPacket {
  const type = packet.cmd;
  const properties = fromPeerProperties(packet.properties);
  switch (type) {
    case "connack":
      return {
        type,
        sessionPresent: packet.sessionPresent,
        reasonCode: packet.reasonCode ?? packet.returnCode,
        properties,
      };
    case "publish":
      return {
        type,
        dup: packet.dup,
        qos: packet.qos,
        retain: packet.retain,
        topic: packet.topic,
        packetId: packet.messageId ?? 0,
        payload: plain(packet.payload),
        properties,
      };
    case "suback":
    case "unsuback":
      return { type, packetId: packet.messageId, reasonCodes: packet.granted ?? [], properties };
    case "pingresp":
      return { type };
    case "disconnect":
      return { type, reasonCode: packet.reasonCode, properties };
    default:
      return { type, packetId: packet.messageId, reasonCode: packet.reasonCode ?? 0, properties };
  }
}

/** What the peer's parser said to one connection's bytes. */
export interface PeerOutcome<T> {
  readonly packets: T[];
  /** Why it refused; undefined when it did not. */
  readonly error: string | undefined;
}

function peerDecode<T>(
  level: Level,
  bytes: readonly Uint8Array[],
  shape: (packet: PeerPacket) => T,
): PeerOutcome<T> {
  const packets: T[] = [];
  let error: string | undefined;
  const parser = mqttPacket.parser({ protocolVersion: level });
  parser.on("packet", (packet) => {
    packets.push(shape(packet as unknown as PeerPacket));
  });
  parser.on("error", (problem: Error) => {
    error ??= problem.message;
  });
  for (const chunk of bytes) {
    try {
      if (error === undefined) parser.parse(Buffer.from(chunk));
    } catch (problem) {
      error ??= `threw: ${(problem as Error).message}`;
    }
  }
  return { packets, error };
}

/** Client bytes, the CONNECT among them. */
export function peerDecodeClient(bytes: readonly Uint8Array[]): PeerOutcome<InboundPacket> {
  return peerDecode(5, bytes, clientPacket);
}

export function peerDecodeServer(level: Level, bytes: Uint8Array): PeerOutcome<PeerPacket> {
  return peerDecode(level, [bytes], serverPacket);
}
