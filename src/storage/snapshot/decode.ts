import type {
  GroupImage,
  Hold,
  InFlight,
  Job,
  Position,
  SessionRecord,
  StoredSubscription,
  StoredWill,
} from "../contract.ts";
import type { ChannelState } from "../memory/state.ts";
import {
  type Headers,
  type Message,
  NO_HEADERS,
  NO_PROPERTIES,
  type PublishProperties,
  type QoS,
  type StoredRecord,
} from "../record.ts";
import { ByteReader } from "./byte_reader.ts";
import { PackedRecords } from "./packed_records.ts";
import { IN_FLIGHT_STATES, type ManifestEntry, SnapshotFault, STORE_KINDS } from "./format.ts";

/** The fewest bytes that an item of each list takes: what a count is held against (S54). */
export const SMALLEST = {
  channel: 4 + 1 + 8 + 8 + 4 + 4,
  record: 8 + 4 + 4 + 8 + 4 + 4 + 5 + 1 + 4 + 4 + 1 + 1 + 4,
  position: 4 + 8 + 4 + 8,
  header: 4 + 4,
  entry: 4 + 4,
  text: 4,
  session: 4 + 4 + 8 + 4 + 1 + 8 + 2 + 4,
  subscription: 4 + 1 + 1 + 1 + 1 + 1 + 1 + 8,
  inFlight: 8 + 2 + 1 + 1 + 4,
  group: 4 + 8 + 4,
};
const SMALLEST_JOB = SMALLEST.record + 4 + 8 + 8;
const SMALLEST_HOLD = SMALLEST.record - 8 + 4 + 2 + 8;

/** A session without the log cursor, which stands in the log's own file (S59). */
export interface StoredSession {
  readonly record: SessionRecord;
  readonly inFlight: readonly InFlight[];
}

/**
 * Each reads the whole body of a file whose header was accepted. Payloads are views of `body`, but for the
 * append channels that `packed` names: their records are copied as they stand.
 *
 * @throws SnapshotFault
 */
export function decodeChannels(
  body: Uint8Array,
  packed: (channel: string) => boolean = () => false,
): ChannelState[] {
  const from = new ByteReader(body);
  const channels = from.list(SMALLEST.channel, () => channel(from, packed));
  from.end();
  return channels;
}

export function decodeManifest(body: Uint8Array): ManifestEntry[] {
  const from = new ByteReader(body);
  const entries = from.list(SMALLEST.entry, () => ({
    file: from.text(),
    channels: from.list(SMALLEST.text, () => from.text()),
  }));
  from.end();
  return entries;
}

export function decodeSessions(
  body: Uint8Array,
): { readonly sessions: readonly StoredSession[]; readonly groups: readonly GroupImage[] } {
  const from = new ByteReader(body);
  const sessions = from.list(SMALLEST.session, () => session(from));
  const groups = from.list(SMALLEST.group, () => ({
    name: from.text(),
    cursor: from.offset(),
    returned: from.list(8, () => from.offset()),
  }));
  from.end();
  return { sessions, groups };
}

function channel(from: ByteReader, packed: (channel: string) => boolean): ChannelState {
  const name = from.text();
  const kind = STORE_KINDS[from.oneOf(STORE_KINDS.length)];
  const next = from.offset();
  const floor = from.offset();
  const jobs = kind === "queue" ? from.list(SMALLEST_JOB, () => job(from)) : [];
  const pack = kind === "append" && packed(name) ? PackedRecords.read(from) : undefined;
  const listed = kind !== "queue" && pack === undefined;
  const records = listed ? from.list(SMALLEST.record, () => decodeRecord(from)) : [];
  const positions = kind === "append" ? from.list(SMALLEST.position, () => position(from)) : [];
  const holds = from.list(SMALLEST_HOLD, () => hold(from));
  const channel = { name, kind, next, floor, records, jobs, positions, holds };
  return pack === undefined ? channel : { ...channel, packed: pack };
}

/** The record at which `from` stands. */
export function decodeRecord(from: ByteReader): StoredRecord {
  const offset = from.offset();
  return { offset, message: message(from) };
}

function message(from: ByteReader): Message {
  const messageId = from.text();
  const topic = from.sharedText();
  const timestamp = from.time();
  const userProperties = headers(from);
  const payload = from.bytes();
  return {
    messageId,
    topic,
    timestamp,
    headers: userProperties,
    properties: properties(from),
    payload,
    retain: from.bool(),
    bridge: from.sharedText(),
    clientId: from.sharedText(),
    qos: from.oneOf(3) as QoS,
    groupCopy: from.bool(),
    onlyFor: from.sharedText(),
  };
}

function headers(from: ByteReader): Headers {
  if (from.skipZeros(4)) return NO_HEADERS;
  return from.list(SMALLEST.header, () => [from.text(), from.text()] as const);
}

function properties(from: ByteReader): PublishProperties {
  if (from.skipZeros(5)) return NO_PROPERTIES;
  const contentType = from.optional(() => from.sharedText());
  const responseTopic = from.optional(() => from.sharedText());
  const correlationData = from.optional(() => from.bytes().slice());
  const payloadFormat = from.optional(() => from.oneOf(2) as 0 | 1);
  const messageExpiry = from.optional(() => from.u32());
  return {
    ...(contentType !== undefined && { contentType }),
    ...(responseTopic !== undefined && { responseTopic }),
    ...(correlationData !== undefined && { correlationData }),
    ...(payloadFormat !== undefined && { payloadFormat }),
    ...(messageExpiry !== undefined && { messageExpiry }),
  };
}

function job(from: ByteReader): Job {
  return {
    ...decodeRecord(from),
    attempts: from.u32(),
    firstDelivered: from.time(),
    lastDelivered: from.time(),
  };
}

function position(from: ByteReader): Position {
  return {
    reader: from.text(),
    offset: from.offset(),
    expiry: from.u32(),
    lastSeen: from.time(),
  };
}

function hold(from: ByteReader): Hold {
  return {
    clientId: from.text(),
    packetId: from.u16(),
    heldAt: from.time(),
    message: message(from),
  };
}

function session(from: ByteReader): StoredSession {
  const record = {
    clientId: from.text(),
    expiry: from.u32(),
    awaySince: from.time(),
    subscriptions: from.list(SMALLEST.subscription, () => subscription(from)),
    will: from.optional(() => will(from)),
    willDue: from.time(),
    window: from.u16(),
  };
  return { record, inFlight: from.list(SMALLEST.inFlight, () => inFlight(from)) };
}

function subscription(from: ByteReader): StoredSubscription {
  const filter = from.sharedText();
  const qos = from.oneOf(3) as QoS;
  const noLocal = from.bool();
  const retainAsPublished = from.bool();
  const retainHandling = from.oneOf(3) as 0 | 1 | 2;
  const identifier = from.optional(() => from.u32());
  const partitions = from.optional(() => ({
    count: from.u32(),
    indices: from.list(4, () => from.u32()),
  }));
  return {
    filter,
    qos,
    noLocal,
    retainAsPublished,
    retainHandling,
    ...(identifier !== undefined && { identifier }),
    ...(partitions !== undefined && { partitions }),
    logOffset: from.offset(),
  };
}

function will(from: ByteReader): StoredWill {
  return {
    topic: from.text(),
    payload: from.bytes().slice(),
    qos: from.oneOf(3) as QoS,
    retain: from.bool(),
    delay: from.u32(),
    properties: properties(from),
    headers: headers(from),
    user: from.text(),
  };
}

function inFlight(from: ByteReader): InFlight {
  const offset = from.offset();
  const packetId = from.u16();
  const qos = from.u8();
  if (qos !== 1 && qos !== 2) {
    throw new SnapshotFault(`is damaged: a message in flight has QoS ${qos}`);
  }
  const state = IN_FLIGHT_STATES[from.oneOf(IN_FLIGHT_STATES.length)];
  return { offset, packetId, qos, state, group: from.sharedText() };
}
