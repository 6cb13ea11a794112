import type {
  GroupImage,
  Hold,
  InFlight,
  Job,
  Position,
  SessionImage,
  StoredSubscription,
  StoredWill,
} from "../contract.ts";
import type { ChannelState } from "../memory/state.ts";
import {
  type Headers,
  type Message,
  NO_PROPERTIES,
  type PublishProperties,
  type StoredRecord,
} from "../record.ts";
import type { ByteWriter } from "./byte_writer.ts";
import { IN_FLIGHT_STATES, type ManifestEntry, STORE_KINDS } from "./format.ts";

/** A list that is walked once, and whose length is known before. */
export interface Listed<T> extends Iterable<T> {
  readonly length: number;
}

/** A `ChannelState` whose lists need not be in memory. */
export interface EncodedChannel
  extends Pick<ChannelState, "name" | "kind" | "next" | "floor" | "packed"> {
  readonly records: Listed<StoredRecord>;
  readonly jobs: Listed<Job>;
  readonly positions: Listed<Position>;
  readonly holds: Listed<Hold>;
}

/**
 * The bodies of the three kinds of files (S56). The generators stop where the buffer is full and has to be
 * emptied, so that a file of any size is encoded in one.
 */
export function* encodeChannels(
  out: ByteWriter,
  channels: readonly EncodedChannel[],
): Generator<void> {
  out.u32(channels.length);
  for (const channel of channels) {
    out.text(channel.name);
    out.u8(STORE_KINDS.indexOf(channel.kind));
    out.offset(channel.next);
    out.offset(channel.floor);
    if (channel.kind === "queue") {
      out.u32(channel.jobs.length);
      for (const job of channel.jobs) {
        encodeJob(out, job);
        if (out.full) yield;
      }
    } else {
      out.u32((channel.packed?.length ?? 0) + channel.records.length);
      for (const piece of channel.packed?.encoded() ?? []) {
        out.raw(piece);
        if (out.full) yield;
      }
      for (const record of channel.records) {
        out.offset(record.offset);
        encodeMessage(out, record.message);
        if (out.full) yield;
      }
    }
    if (channel.kind === "append") {
      out.u32(channel.positions.length);
      for (const position of channel.positions) {
        encodePosition(out, position);
        if (out.full) yield;
      }
    }
    out.u32(channel.holds.length);
    for (const hold of channel.holds) {
      encodeHold(out, hold);
      if (out.full) yield;
    }
  }
}

export function* encodeManifest(
  out: ByteWriter,
  entries: readonly ManifestEntry[],
): Generator<void> {
  out.u32(entries.length);
  for (const { file, channels } of entries) {
    out.text(file);
    out.u32(channels.length);
    for (const channel of channels) out.text(channel);
    if (out.full) yield;
  }
}

export function* encodeSessions(
  out: ByteWriter,
  sessions: readonly SessionImage[],
  groups: readonly GroupImage[],
): Generator<void> {
  out.u32(sessions.length);
  for (const session of sessions) {
    encodeSession(out, session);
    if (out.full) yield;
  }
  out.u32(groups.length);
  for (const { name, cursor, returned } of groups) {
    out.text(name);
    out.offset(cursor);
    out.u32(returned.length);
    for (const offset of returned) out.offset(offset);
    if (out.full) yield;
  }
}

function encodeMessage(out: ByteWriter, message: Message): void {
  if (message.headers.length === 0 && message.properties === NO_PROPERTIES) {
    return out.plainMessage(message);
  }
  out.text(message.messageId);
  out.text(message.topic);
  out.time(message.timestamp);
  encodeHeaders(out, message.headers);
  out.bytes(message.payload);
  encodeProperties(out, message.properties);
  out.bool(message.retain);
  out.text(message.bridge);
  out.text(message.clientId);
  out.u8(message.qos);
  out.bool(message.groupCopy);
  out.text(message.onlyFor);
}

/** Most messages have no publish property at all. */
const FIVE_ABSENT = new Uint8Array(5);

function encodeHeaders(out: ByteWriter, headers: Headers): void {
  out.u32(headers.length);
  for (const [name, value] of headers) {
    out.text(name);
    out.text(value);
  }
}

function encodeProperties(out: ByteWriter, properties: PublishProperties): void {
  if (properties === NO_PROPERTIES) return out.raw(FIVE_ABSENT);
  const { contentType, responseTopic, correlationData, payloadFormat, messageExpiry } = properties;
  optional(out, contentType, (value) => out.text(value));
  optional(out, responseTopic, (value) => out.text(value));
  optional(out, correlationData, (value) => out.bytes(value));
  optional(out, payloadFormat, (value) => out.u8(value));
  optional(out, messageExpiry, (value) => out.u32(value));
}

function encodeJob(out: ByteWriter, job: Job): void {
  out.offset(job.offset);
  encodeMessage(out, job.message);
  out.u32(job.attempts);
  out.time(job.firstDelivered);
  out.time(job.lastDelivered);
}

function encodePosition(out: ByteWriter, position: Position): void {
  out.text(position.reader);
  out.offset(position.offset);
  out.u32(position.expiry);
  out.time(position.lastSeen);
}

function encodeHold(out: ByteWriter, hold: Hold): void {
  out.text(hold.clientId);
  out.u16(hold.packetId);
  out.time(hold.heldAt);
  encodeMessage(out, hold.message);
}

function encodeSession(out: ByteWriter, { record, inFlight }: SessionImage): void {
  out.text(record.clientId);
  out.u32(record.expiry);
  out.time(record.awaySince);
  out.u32(record.subscriptions.length);
  for (const subscription of record.subscriptions) encodeSubscription(out, subscription);
  optional(out, record.will, (will) => encodeWill(out, will));
  out.time(record.willDue);
  out.u16(record.window);
  out.u32(inFlight.length);
  for (const entry of inFlight) encodeInFlight(out, entry);
}

function encodeSubscription(out: ByteWriter, subscription: StoredSubscription): void {
  out.text(subscription.filter);
  out.u8(subscription.qos);
  out.bool(subscription.noLocal);
  out.bool(subscription.retainAsPublished);
  out.u8(subscription.retainHandling);
  optional(out, subscription.identifier, (value) => out.u32(value));
  optional(out, subscription.partitions, ({ count, indices }) => {
    out.u32(count);
    out.u32(indices.length);
    for (const index of indices) out.u32(index);
  });
  out.offset(subscription.logOffset);
}

function encodeWill(out: ByteWriter, will: StoredWill): void {
  out.text(will.topic);
  out.bytes(will.payload);
  out.u8(will.qos);
  out.bool(will.retain);
  out.u32(will.delay);
  encodeProperties(out, will.properties);
  encodeHeaders(out, will.headers);
  out.text(will.user);
}

function encodeInFlight(out: ByteWriter, entry: InFlight): void {
  out.offset(entry.offset);
  out.u16(entry.packetId);
  out.u8(entry.qos);
  out.u8(IN_FLIGHT_STATES.indexOf(entry.state));
  out.text(entry.group);
}

function optional<T>(out: ByteWriter, value: T | undefined, write: (value: T) => void): void {
  out.bool(value !== undefined);
  if (value !== undefined) write(value);
}
