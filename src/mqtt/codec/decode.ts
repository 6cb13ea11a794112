import type {
  AcknowledgementPacket,
  AuthPacket,
  ConnectPacket,
  DisconnectPacket,
  InboundPacket,
  PublishPacket,
  PublishPacketProperties,
  SubscribePacket,
  SubscriptionRequest,
  UnsubscribePacket,
  WillPacket,
} from "../packet.ts";
import { PacketType } from "../packet.ts";
import { NO_PROPERTIES, type QoS } from "../../storage/record.ts";
import { Reason } from "../../broker/reason.ts";
import { MalformedPacket, ReturnCode } from "./fault.ts";
import { NO_BYTES, type Reader } from "./primitives.ts";
import { readProperties, Section } from "./properties.ts";
import type { TopicCache } from "./text.ts";

const PINGREQ = Object.freeze({ type: PacketType.Pingreq });

/** Reason codes a client may put into each packet (2.4), MQTT 5. */
const PUBLISH_ANSWERS = new Set([0x00, 0x10, 0x80, 0x83, 0x87, 0x90, 0x91, 0x97, 0x99]);
const RELEASE_ANSWERS = new Set([0x00, 0x92]);
const DISCONNECT_REASONS = new Set([
  ...[0x00, 0x04, 0x80, 0x81, 0x82, 0x83, 0x90, 0x93, 0x94, 0x95, 0x96, 0x97, 0x98, 0x99],
]);
const AUTH_REASONS = new Set([0x18, 0x19]);

const ACKNOWLEDGEMENT_SECTION = new Map<number, number>([
  [PacketType.Puback, Section.Puback],
  [PacketType.Pubrec, Section.Pubrec],
  [PacketType.Pubrel, Section.Pubrel],
  [PacketType.Pubcomp, Section.Pubcomp],
]);

/** Flag bits of a CONNECT (3.1.2.3). */
const ConnectFlag = {
  Reserved: 0x01,
  CleanStart: 0x02,
  Will: 0x04,
  WillQoS: 0x18,
  WillRetain: 0x20,
  Password: 0x40,
  UserName: 0x80,
} as const;

/** A record of TLS begins with it, and no CONNECT does: whoever is at the wrong port is to know. */
const TLS_HANDSHAKE = 0x16;

/**
 * Judges the first byte of a packet (2.1.2, 2.1.3), before anything of it is kept.
 * `level` is undefined until the CONNECT was read.
 */
export function checkFirstByte(reader: Reader, first: number, level: number | undefined): void {
  const type = first >> 4;
  const flags = first & 0x0f;
  if (level === undefined && type !== PacketType.Connect) {
    reader.fail(Reason.ProtocolError, "the first packet is not a CONNECT");
  }
  if (level === undefined && first === TLS_HANDSHAKE) {
    reader.fail(Reason.MalformedPacket, "a TLS handshake came to a door without tls");
  }
  switch (type) {
    case PacketType.Publish:
      if ((flags & 0x06) === 0x06) reader.fail(Reason.MalformedPacket, "a PUBLISH has QoS 3");
      if ((flags & 0x0e) === 0x08) {
        reader.fail(Reason.MalformedPacket, "a PUBLISH has DUP set at QoS 0");
      }
      return;
    case PacketType.Pubrel:
    case PacketType.Subscribe:
    case PacketType.Unsubscribe:
      if (flags !== 0x02) reservedFlags(reader);
      return;
    case PacketType.Connect:
      if (flags !== 0) reservedFlags(reader);
      if (level !== undefined) {
        reader.fail(Reason.ProtocolError, "a second CONNECT on one connection");
      }
      return;
    case PacketType.Auth:
      if (level !== 5) {
        reader.fail(Reason.MalformedPacket, "packet type 15 is reserved in MQTT 3.1.1");
      }
      if (flags !== 0) reservedFlags(reader);
      return;
    case PacketType.Puback:
    case PacketType.Pubrec:
    case PacketType.Pubcomp:
    case PacketType.Pingreq:
    case PacketType.Disconnect:
      if (flags !== 0) reservedFlags(reader);
      return;
    case 0:
      reader.fail(Reason.MalformedPacket, "packet type 0 is reserved");
      return;
    default:
      reader.fail(Reason.ProtocolError, "this packet type is only the server's to send");
  }
}

function reservedFlags(reader: Reader): never {
  reader.fail(Reason.MalformedPacket, "reserved flags of the fixed header are not as they must be");
}

/**
 * Decodes one packet: `reader` stands at its variable header and ends with it; the first byte has
 * passed `checkFirstByte`. `topics` are those of the connection. Throws `MalformedPacket`.
 */
export function decodePacket(reader: Reader, first: number, topics: TopicCache): InboundPacket {
  const type = first >> 4;
  switch (type) {
    case PacketType.Publish:
      return decodePublish(reader, first, topics);
    case PacketType.Puback:
    case PacketType.Pubrec:
    case PacketType.Pubrel:
    case PacketType.Pubcomp:
      return decodeAcknowledgement(reader, type);
    case PacketType.Subscribe:
      return decodeSubscribe(reader);
    case PacketType.Unsubscribe:
      return decodeUnsubscribe(reader);
    case PacketType.Pingreq:
      reader.finish();
      return PINGREQ;
    case PacketType.Disconnect:
      return decodeDisconnect(reader);
    case PacketType.Connect:
      return decodeConnect(reader);
    default:
      return decodeAuth(reader);
  }
}

// ------------------------------------------------------------------------------------ CONNECT (3.1)

const PROTOCOL_NAME = [0x00, 0x04, 0x4d, 0x51, 0x54, 0x54];
const PROTOCOL_NAME_OF_3_1 = [0x00, 0x06, 0x4d, 0x51, 0x49, 0x73, 0x64, 0x70];

/**
 * The protocol level declared at the start of a CONNECT's variable header, or undefined when
 * `[at, end)` stops short of it. Fails, without a level, on an unknown protocol name.
 */
export function readDeclaredLevel(
  reader: Reader,
  bytes: Uint8Array,
  at: number,
  end: number,
): number | undefined {
  const name = at + 1 < end && bytes[at + 1] === PROTOCOL_NAME_OF_3_1[1]
    ? PROTOCOL_NAME_OF_3_1
    : PROTOCOL_NAME;
  for (let i = 0; i < name.length; i++) {
    if (at + i >= end) return undefined;
    if (bytes[at + i] !== name[i]) {
      reader.fail(Reason.UnsupportedProtocolVersion, "the protocol name is not MQTT");
    }
  }
  return at + name.length < end ? bytes[at + name.length] : undefined;
}

/** What a bridge of mosquitto declares first, unless it is told not to; refused, it comes back with 4. */
const BRIDGE_OF_3_1_1 = 0x84;
const BRIDGE_ADVICE = "; a bridge comes back with 4, at once if it says try_private false";

/** Sets `reader.level`, or fails in the vocabulary of the level that was declared. */
function readLevel(reader: Reader): 4 | 5 {
  const { bytes, at } = reader;
  const level = readDeclaredLevel(reader, bytes, at, reader.end);
  if (level === undefined) return reader.overrun();
  reader.level = level;
  const old = bytes[at + 1] === PROTOCOL_NAME_OF_3_1[1];
  if (old || (level !== 4 && level !== 5)) {
    if (old) reader.level = 3;
    reader.fail(
      Reason.UnsupportedProtocolVersion,
      `protocol level ${level} is not served; MQTT 3.1.1 (4) and MQTT 5 (5) are` +
        (level === BRIDGE_OF_3_1_1 ? BRIDGE_ADVICE : ""),
      ReturnCode.UnacceptableProtocolVersion,
    );
  }
  reader.at = at + PROTOCOL_NAME.length + 1;
  return level;
}

function decodeConnect(reader: Reader): ConnectPacket {
  const level = readLevel(reader);
  const flags = reader.byte();
  checkConnectFlags(reader, flags, level);
  const keepAlive = reader.twoByteInteger();
  const properties = level === 5 ? readProperties(reader, Section.Connect) : {};
  if (
    properties.authenticationData !== undefined && properties.authenticationMethod === undefined
  ) {
    reader.fail(Reason.ProtocolError, "Authentication Data came without an Authentication Method");
  }
  const clientId = reader.text("client identifier");
  const will = (flags & ConnectFlag.Will) !== 0 ? decodeWill(reader, flags, level) : undefined;
  const userName = (flags & ConnectFlag.UserName) !== 0 ? readUserName(reader) : undefined;
  const password = (flags & ConnectFlag.Password) !== 0 ? reader.binary() : undefined;
  reader.finish();
  return {
    type: PacketType.Connect,
    level,
    cleanStart: (flags & ConnectFlag.CleanStart) !== 0,
    keepAlive,
    clientId,
    will,
    userName,
    password,
    sessionExpiry: properties.sessionExpiry,
    receiveMaximum: properties.receiveMaximum,
    maximumPacketSize: properties.maximumPacketSize,
    topicAliasMaximum: properties.topicAliasMaximum,
    requestResponseInformation: properties.requestResponseInformation,
    requestProblemInformation: properties.requestProblemInformation,
    userProperties: properties.userProperties,
    authenticationMethod: properties.authenticationMethod,
    authenticationData: properties.authenticationData,
  };
}

/** 02a section 10: each of these is answered even below MQTT 5. */
function checkConnectFlags(reader: Reader, flags: number, level: 4 | 5): void {
  if ((flags & ConnectFlag.Reserved) !== 0) {
    reader.fail(
      Reason.MalformedPacket,
      "the reserved connect flag is set",
      ReturnCode.NotAuthorized,
    );
  }
  if ((flags & ConnectFlag.WillQoS) === ConnectFlag.WillQoS) {
    reader.fail(Reason.MalformedPacket, "the Will QoS is 3", ReturnCode.NotAuthorized);
  }
  if ((flags & ConnectFlag.Will) === 0) {
    if ((flags & ConnectFlag.WillQoS) !== 0) {
      reader.fail(
        Reason.MalformedPacket,
        "a Will QoS is set without a Will",
        ReturnCode.NotAuthorized,
      );
    }
    if ((flags & ConnectFlag.WillRetain) !== 0) {
      reader.fail(
        Reason.ProtocolError,
        "Will Retain is set without a Will",
        ReturnCode.NotAuthorized,
      );
    }
  }
  const credentials = flags & (ConnectFlag.UserName | ConnectFlag.Password);
  if (level === 4 && credentials === ConnectFlag.Password) {
    reader.fail(
      Reason.ProtocolError,
      "MQTT 3.1.1 has no password without a user name",
      ReturnCode.NotAuthorized,
    );
  }
}

function decodeWill(reader: Reader, flags: number, level: 4 | 5): WillPacket {
  const { willDelay, ...properties } = level === 5
    ? readProperties(reader, Section.Will)
    : { willDelay: undefined };
  const topic = reader.text("Will topic");
  if (topic === "") {
    reader.fail(Reason.TopicNameInvalid, "the Will topic is empty", ReturnCode.NotAuthorized);
  }
  const payload = reader.binary();
  return {
    topic,
    payload,
    qos: ((flags & ConnectFlag.WillQoS) >> 3) as QoS,
    retain: (flags & ConnectFlag.WillRetain) !== 0,
    delay: willDelay ?? 0,
    properties,
  };
}

function readUserName(reader: Reader): string {
  const name = reader.textOrUndefined();
  if (name === undefined) {
    reader.fail(
      Reason.MalformedPacket,
      "the user name is not a UTF-8 string without U+0000",
      ReturnCode.BadUserNameOrPassword,
    );
  }
  return name;
}

// ------------------------------------------------------------------------------------ PUBLISH (3.3)

function decodePublish(reader: Reader, first: number, topics: TopicCache): PublishPacket {
  const topic = reader.topicOrUndefined(topics);
  if (topic === undefined) {
    throw new MalformedPacket(
      Reason.MalformedPacket,
      "the topic is not a UTF-8 string without U+0000",
      reader.level,
      false,
      undefined,
      true,
    );
  }
  const qos = ((first >> 1) & 0x03) as QoS;
  const packetId = qos === 0 ? 0 : readPacketId(reader);
  const properties: PublishPacketProperties = reader.level === 5
    ? readProperties(reader, Section.Publish)
    : NO_PROPERTIES;
  if (topic === "" && properties.topicAlias === undefined) {
    reader.fail(Reason.ProtocolError, "a PUBLISH has neither a topic nor a Topic Alias");
  }
  return {
    type: PacketType.Publish,
    dup: (first & 0x08) !== 0,
    qos,
    retain: (first & 0x01) !== 0,
    topic,
    packetId,
    payload: reader.at === reader.end ? NO_BYTES : reader.rest(),
    properties,
  };
}

/** 2.2.1: never 0. */
function readPacketId(reader: Reader): number {
  const packetId = reader.twoByteInteger();
  if (packetId === 0) reader.fail(Reason.ProtocolError, "the packet identifier is 0");
  return packetId;
}

// ------------------------------------------- PUBACK, PUBREC, PUBREL, PUBCOMP (3.4, 3.5, 3.6, 3.7)

function decodeAcknowledgement(
  reader: Reader,
  type: AcknowledgementPacket["type"],
): AcknowledgementPacket {
  const packetId = readPacketId(reader);
  if (reader.at === reader.end) return { type, packetId, reasonCode: Reason.Success };
  if (reader.level !== 5) reader.finish();
  const reasonCode = reader.byte();
  const legal = type === PacketType.Puback || type === PacketType.Pubrec
    ? PUBLISH_ANSWERS
    : RELEASE_ANSWERS;
  if (!legal.has(reasonCode)) undefinedReason(reader, reasonCode);
  if (reader.at === reader.end) return { type, packetId, reasonCode };
  const { reasonString, userProperties } = readProperties(
    reader,
    ACKNOWLEDGEMENT_SECTION.get(type)!,
  );
  reader.finish();
  return { type, packetId, reasonCode, reasonString, userProperties };
}

function undefinedReason(reader: Reader, reasonCode: number): never {
  reader.fail(
    Reason.ProtocolError,
    `reason code 0x${reasonCode.toString(16).padStart(2, "0")} is not a client's to send here`,
  );
}

// --------------------------------------------------------------- SUBSCRIBE, UNSUBSCRIBE (3.8, 3.10)

function decodeSubscribe(reader: Reader): SubscribePacket {
  const packetId = readPacketId(reader);
  const properties = reader.level === 5 ? readProperties(reader, Section.Subscribe) : {};
  const subscriptions: SubscriptionRequest[] = [];
  do {
    const filter = readFilter(reader);
    subscriptions.push(
      reader.level === 5 ? readOptions(reader, filter) : readRequestedQoS(reader, filter),
    );
  } while (reader.at < reader.end);
  return {
    type: PacketType.Subscribe,
    packetId,
    subscriptions,
    subscriptionIdentifier: properties.subscriptionIdentifiers?.[0],
    userProperties: properties.userProperties,
  };
}

/** 3.8.3.1 */
function readOptions(reader: Reader, filter: string): SubscriptionRequest {
  const options = reader.byte();
  if ((options & 0xc0) !== 0) {
    reader.fail(Reason.MalformedPacket, "reserved bits of the subscription options are set");
  }
  const qos = options & 0x03;
  if (qos === 3) reader.fail(Reason.ProtocolError, "a subscription asks for QoS 3");
  const retainHandling = (options >> 4) & 0x03;
  if (retainHandling === 3) reader.fail(Reason.ProtocolError, "Retain Handling is 3");
  return {
    filter,
    qos: qos as QoS,
    noLocal: (options & 0x04) !== 0,
    retainAsPublished: (options & 0x08) !== 0,
    retainHandling: retainHandling as 0 | 1 | 2,
  };
}

/** 3.1.1 3.8.3: the upper six bits are reserved, and QoS 3 is malformed. */
function readRequestedQoS(reader: Reader, filter: string): SubscriptionRequest {
  const qos = reader.byte();
  if (qos > 2) reader.fail(Reason.MalformedPacket, "the requested QoS is not 0, 1 or 2");
  return {
    filter,
    qos: qos as QoS,
    noLocal: false,
    retainAsPublished: false,
    retainHandling: 0,
  };
}

function decodeUnsubscribe(reader: Reader): UnsubscribePacket {
  const packetId = readPacketId(reader);
  const properties = reader.level === 5 ? readProperties(reader, Section.Unsubscribe) : {};
  const filters: string[] = [];
  do {
    filters.push(readFilter(reader));
  } while (reader.at < reader.end);
  return {
    type: PacketType.Unsubscribe,
    packetId,
    filters,
    userProperties: properties.userProperties,
  };
}

/** A zero-length filter counts as none sent (02a section 6). */
function readFilter(reader: Reader): string {
  if (reader.at === reader.end) reader.fail(Reason.ProtocolError, "the packet has no topic filter");
  const filter = reader.text("topic filter");
  if (filter === "") reader.fail(Reason.ProtocolError, "a topic filter is empty");
  return filter;
}

// --------------------------------------------------------------------- DISCONNECT, AUTH (3.14, 3.15)

function decodeDisconnect(reader: Reader): DisconnectPacket {
  if (reader.at === reader.end) return { type: PacketType.Disconnect, reasonCode: Reason.Success };
  if (reader.level !== 5) reader.finish();
  const reasonCode = reader.byte();
  if (!DISCONNECT_REASONS.has(reasonCode)) undefinedReason(reader, reasonCode);
  if (reader.at === reader.end) return { type: PacketType.Disconnect, reasonCode };
  const properties = readProperties(reader, Section.Disconnect);
  reader.finish();
  return {
    type: PacketType.Disconnect,
    reasonCode,
    sessionExpiry: properties.sessionExpiry,
    reasonString: properties.reasonString,
    userProperties: properties.userProperties,
  };
}

/** Read in full although every AUTH is refused, so that the refusal says what was wrong with it. */
function decodeAuth(reader: Reader): AuthPacket {
  if (reader.at === reader.end) undefinedReason(reader, Reason.Success);
  const reasonCode = reader.byte();
  if (!AUTH_REASONS.has(reasonCode)) undefinedReason(reader, reasonCode);
  const properties = readProperties(reader, Section.Auth);
  if (properties.authenticationMethod === undefined) {
    reader.fail(Reason.ProtocolError, "an AUTH has no Authentication Method");
  }
  reader.finish();
  return { type: PacketType.Auth, reasonCode };
}
