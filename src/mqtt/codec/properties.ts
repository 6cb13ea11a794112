import { NO_PROPERTIES } from "../../storage/record.ts";
import { Reason } from "../../broker/reason.ts";
import type { Reader } from "./primitives.ts";
import { hasWildcard } from "./text.ts";

/** Where properties stand: a bit for each packet that has a property section, and one for the Will. */
export const Section = {
  Connect: 1 << 0,
  Will: 1 << 1,
  Connack: 1 << 2,
  Publish: 1 << 3,
  Puback: 1 << 4,
  Pubrec: 1 << 5,
  Pubrel: 1 << 6,
  Pubcomp: 1 << 7,
  Subscribe: 1 << 8,
  Suback: 1 << 9,
  Unsubscribe: 1 << 10,
  Unsuback: 1 << 11,
  Disconnect: 1 << 12,
  Auth: 1 << 13,
} as const;

/** Property identifiers (2.2.2.2). */
export const PropertyId = {
  PayloadFormat: 1,
  MessageExpiry: 2,
  ContentType: 3,
  ResponseTopic: 8,
  CorrelationData: 9,
  SubscriptionIdentifier: 11,
  SessionExpiry: 17,
  AssignedClientId: 18,
  ServerKeepAlive: 19,
  AuthenticationMethod: 21,
  AuthenticationData: 22,
  RequestProblemInformation: 23,
  WillDelay: 24,
  RequestResponseInformation: 25,
  ResponseInformation: 26,
  ServerReference: 28,
  ReasonString: 31,
  ReceiveMaximum: 33,
  TopicAliasMaximum: 34,
  TopicAlias: 35,
  MaximumQoS: 36,
  RetainAvailable: 37,
  UserProperty: 38,
  MaximumPacketSize: 39,
  WildcardSubscriptionAvailable: 40,
  SubscriptionIdentifierAvailable: 41,
  SharedSubscriptionAvailable: 42,
} as const;

/** What a property section said. `subscriptionIdentifiers` and `userProperties` keep wire order. */
export interface Properties {
  payloadFormat?: 0 | 1;
  messageExpiry?: number;
  contentType?: string;
  responseTopic?: string;
  correlationData?: Uint8Array;
  subscriptionIdentifiers?: number[];
  sessionExpiry?: number;
  assignedClientId?: string;
  serverKeepAlive?: number;
  authenticationMethod?: string;
  authenticationData?: Uint8Array;
  requestProblemInformation?: 0 | 1;
  willDelay?: number;
  requestResponseInformation?: 0 | 1;
  responseInformation?: string;
  serverReference?: string;
  reasonString?: string;
  receiveMaximum?: number;
  topicAliasMaximum?: number;
  topicAlias?: number;
  maximumQoS?: 0 | 1;
  retainAvailable?: 0 | 1;
  userProperties?: (readonly [string, string])[];
  maximumPacketSize?: number;
  wildcardSubscriptionAvailable?: 0 | 1;
  subscriptionIdentifierAvailable?: 0 | 1;
  sharedSubscriptionAvailable?: 0 | 1;
}

/** `flag` is a byte of 0 or 1; `positive...` may not be 0; `topic` is text without wildcards. */
type PropertyType =
  | "flag"
  | "two"
  | "positiveTwo"
  | "four"
  | "positiveFour"
  | "positiveVariable"
  | "text"
  | "topic"
  | "binary"
  | "pair";

/** One row of the property table. */
interface PropertyRow {
  readonly id: number;
  readonly key: keyof Properties;
  /** The standard's name, for faults. */
  readonly title: string;
  readonly type: PropertyType;
  /** Sections in which a client may send it. */
  readonly client: number;
  /** Sections in which a server may send it. */
  readonly server: number;
  /** A bit of its own, to notice a second one; 0 where repeats are legal. */
  readonly once: number;
}

const S = Section;
const P = PropertyId;
const MESSAGE = S.Publish | S.Will;
const ACKNOWLEDGEMENT = S.Puback | S.Pubrec | S.Pubrel | S.Pubcomp;
/** Every section in which a Reason String or a User Property may travel from a client. */
const REASONED = ACKNOWLEDGEMENT | S.Disconnect | S.Auth;
const REASONED_BY_SERVER = REASONED | S.Connack | S.Suback | S.Unsuback;

/** MQTT 5 table 2-4: identifier, key, name, type, sent by a client in, sent by a server in. */
const TABLE: readonly [number, keyof Properties, string, PropertyType, number, number][] = [
  [P.PayloadFormat, "payloadFormat", "Payload Format Indicator", "flag", MESSAGE, S.Publish],
  [P.MessageExpiry, "messageExpiry", "Message Expiry Interval", "four", MESSAGE, S.Publish],
  [P.ContentType, "contentType", "Content Type", "text", MESSAGE, S.Publish],
  [P.ResponseTopic, "responseTopic", "Response Topic", "topic", MESSAGE, S.Publish],
  [P.CorrelationData, "correlationData", "Correlation Data", "binary", MESSAGE, S.Publish],
  [
    P.SubscriptionIdentifier,
    "subscriptionIdentifiers",
    "Subscription Identifier",
    "positiveVariable",
    S.Subscribe,
    S.Publish,
  ],
  [
    P.SessionExpiry,
    "sessionExpiry",
    "Session Expiry Interval",
    "four",
    S.Connect | S.Disconnect,
    S.Connack,
  ],
  [P.AssignedClientId, "assignedClientId", "Assigned Client Identifier", "text", 0, S.Connack],
  [P.ServerKeepAlive, "serverKeepAlive", "Server Keep Alive", "two", 0, S.Connack],
  [
    P.AuthenticationMethod,
    "authenticationMethod",
    "Authentication Method",
    "text",
    S.Connect | S.Auth,
    S.Connack | S.Auth,
  ],
  [
    P.AuthenticationData,
    "authenticationData",
    "Authentication Data",
    "binary",
    S.Connect | S.Auth,
    S.Connack | S.Auth,
  ],
  [
    P.RequestProblemInformation,
    "requestProblemInformation",
    "Request Problem Information",
    "flag",
    S.Connect,
    0,
  ],
  [P.WillDelay, "willDelay", "Will Delay Interval", "four", S.Will, 0],
  [
    P.RequestResponseInformation,
    "requestResponseInformation",
    "Request Response Information",
    "flag",
    S.Connect,
    0,
  ],
  [P.ResponseInformation, "responseInformation", "Response Information", "text", 0, S.Connack],
  [P.ServerReference, "serverReference", "Server Reference", "text", 0, S.Connack | S.Disconnect],
  [P.ReasonString, "reasonString", "Reason String", "text", REASONED, REASONED_BY_SERVER],
  [P.ReceiveMaximum, "receiveMaximum", "Receive Maximum", "positiveTwo", S.Connect, S.Connack],
  [P.TopicAliasMaximum, "topicAliasMaximum", "Topic Alias Maximum", "two", S.Connect, S.Connack],
  [P.TopicAlias, "topicAlias", "Topic Alias", "positiveTwo", S.Publish, S.Publish],
  [P.MaximumQoS, "maximumQoS", "Maximum QoS", "flag", 0, S.Connack],
  [P.RetainAvailable, "retainAvailable", "Retain Available", "flag", 0, S.Connack],
  [
    P.UserProperty,
    "userProperties",
    "User Property",
    "pair",
    REASONED | MESSAGE | S.Connect | S.Subscribe | S.Unsubscribe,
    REASONED_BY_SERVER | S.Publish,
  ],
  [
    P.MaximumPacketSize,
    "maximumPacketSize",
    "Maximum Packet Size",
    "positiveFour",
    S.Connect,
    S.Connack,
  ],
  [
    P.WildcardSubscriptionAvailable,
    "wildcardSubscriptionAvailable",
    "Wildcard Subscription Available",
    "flag",
    0,
    S.Connack,
  ],
  [
    P.SubscriptionIdentifierAvailable,
    "subscriptionIdentifierAvailable",
    "Subscription Identifier Available",
    "flag",
    0,
    S.Connack,
  ],
  [
    P.SharedSubscriptionAvailable,
    "sharedSubscriptionAvailable",
    "Shared Subscription Available",
    "flag",
    0,
    S.Connack,
  ],
];

/** The table by identifier. */
const ROWS: readonly (PropertyRow | undefined)[] = byIdentifier();

function byIdentifier(): (PropertyRow | undefined)[] {
  const rows: (PropertyRow | undefined)[] = new Array(P.SharedSubscriptionAvailable + 1);
  rows.fill(undefined);
  TABLE.forEach(([id, key, title, type, client, server], index) => {
    rows[id] = { id, key, title, type, client, server, once: type === "pair" ? 0 : 1 << index };
  });
  return rows;
}

/**
 * Reads one property section, its length included, as a client sent it. Fails with 0x81 on an
 * identifier that does not belong there, with 0x82 on a second one and on an illegal value, with
 * 0x94 on Topic Alias 0.
 */
export function readProperties(reader: Reader, section: number): Readonly<Properties> {
  const length = reader.variableByteInteger();
  if (length === 0) return NO_PROPERTIES;
  const packetEnd = reader.end;
  const end = reader.at + length;
  if (end > packetEnd) {
    reader.fail(Reason.MalformedPacket, "the properties run past the end of the packet");
  }
  reader.end = end;
  const properties: Properties = {};
  let seen = 0;
  while (reader.at < end) {
    const id = reader.variableByteInteger();
    const row = ROWS[id];
    if (row === undefined) return unknownProperty(reader, id);
    if ((row.client & section) === 0) misplaced(reader, row, section);
    if ((row.once & seen) !== 0) {
      reader.fail(Reason.ProtocolError, `${row.title} was sent twice`);
    }
    seen |= row.once;
    readValue(reader, row, properties);
  }
  reader.end = packetEnd;
  return properties;
}

function readValue(reader: Reader, row: PropertyRow, properties: Properties): void {
  switch (row.type) {
    case "pair": {
      const name = reader.text("User Property name");
      const value = reader.text("User Property value");
      if (properties.userProperties === undefined) properties.userProperties = [[name, value]];
      else properties.userProperties.push([name, value]);
      return;
    }
    case "positiveVariable": {
      const value = reader.variableByteInteger();
      if (value === 0) illegal(reader, row);
      properties.subscriptionIdentifiers = [value];
      return;
    }
    case "flag": {
      const value = reader.byte();
      if (value > 1) illegal(reader, row);
      store(properties, row, value);
      return;
    }
    case "two":
      store(properties, row, reader.twoByteInteger());
      return;
    case "positiveTwo": {
      const value = reader.twoByteInteger();
      if (value === 0) illegal(reader, row);
      store(properties, row, value);
      return;
    }
    case "four":
      store(properties, row, reader.fourByteInteger());
      return;
    case "positiveFour": {
      const value = reader.fourByteInteger();
      if (value === 0) illegal(reader, row);
      store(properties, row, value);
      return;
    }
    case "text":
      store(properties, row, reader.text(row.title));
      return;
    case "topic": {
      const topic = reader.text(row.title);
      if (topic === "" || hasWildcard(topic)) illegal(reader, row);
      store(properties, row, topic);
      return;
    }
    case "binary":
      store(properties, row, reader.binary());
      return;
  }
}

/** The key is the table's own, never a name from the wire. */
function store(
  properties: Properties,
  row: PropertyRow,
  value: number | string | Uint8Array,
): void {
  (properties as Record<string, unknown>)[row.key] = value;
}

function illegal(reader: Reader, row: PropertyRow): never {
  reader.fail(
    row.id === P.TopicAlias ? Reason.TopicAliasInvalid : Reason.ProtocolError,
    `${row.title} has a value that the standard forbids`,
  );
}

function unknownProperty(reader: Reader, id: number): never {
  reader.fail(Reason.MalformedPacket, `property identifier ${id} is not defined`);
}

/** 2.2.2.2: not of this packet is malformed; of this packet, but the server's, a protocol error. */
function misplaced(reader: Reader, row: PropertyRow, section: number): never {
  if ((row.server & section) !== 0) {
    reader.fail(Reason.ProtocolError, `${row.title} is only the server's to send here`);
  }
  reader.fail(Reason.MalformedPacket, `${row.title} does not belong to this packet`);
}
