import { type Nanoseconds, NANOSECONDS_PER_MS, toMilliseconds } from "../platform/clock.ts";
import { type Headers, type Message, NO_HEADERS, type StoredRecord } from "../storage/record.ts";

export const RESERVED_PREFIX = "saguin-";
export const ID_HEADER = "saguin-id";

const NANOSECONDS_PER_SECOND = 1_000n * NANOSECONDS_PER_MS;

/** Seconds left of the publisher's Message Expiry Interval: undefined without one, 0 when run out. */
export function remainingExpiry(message: Message, now: Nanoseconds): number | undefined {
  const interval = message.properties.messageExpiry;
  if (interval === undefined) return undefined;
  if (message.timestamp === 0n) return interval;
  const waited = Number((now - message.timestamp) / NANOSECONDS_PER_SECOND);
  return Math.max(0, interval - Math.max(0, waited));
}

/** True once the publisher's Message Expiry Interval has run out (MQTT 5 3.3.2.3.3). */
export function isExpired(message: Message, now: Nanoseconds): boolean {
  return message.properties.messageExpiry !== undefined && remainingExpiry(message, now) === 0;
}

/** The interval to send with a channel record: once run out it is omitted, the record goes (D4.10). */
export function channelExpiry(message: Message, now: Nanoseconds): number | undefined {
  return remainingExpiry(message, now) || undefined;
}

/**
 * The broker's User Properties on a channel delivery (spec 03 section 4): id, offset, receipt time,
 * expiry moment, and the channel where the consumer's filter reaches several.
 */
export function channelLabels(
  record: StoredRecord,
  channel: string | undefined,
  attempt: number | undefined,
): Headers {
  const { message } = record;
  const labels: [string, string][] = [[ID_HEADER, message.messageId]];
  // A deletion of a value that is not there took no offset.
  if (record.offset > 0) labels.push(["saguin-offset", String(record.offset)]);
  if (message.timestamp !== 0n) {
    const receivedMs = toMilliseconds(message.timestamp);
    labels.push(["saguin-timestamp", String(receivedMs)]);
    const interval = message.properties.messageExpiry;
    if (interval !== undefined) {
      labels.push(["saguin-expires", String(receivedMs + interval * 1_000)]);
    }
  }
  if (channel !== undefined) labels.push(["saguin-channel", channel]);
  if (attempt !== undefined) labels.push(["saguin-attempt", String(attempt)]);
  return labels;
}

/** What a publish carries once its reserved names are taken out (D3.3, D3.4). */
export interface PublishedHeaders {
  /** Without any `saguin-*` name. */
  readonly headers: Headers;
  /** The publisher's `saguin-id`: undefined when absent, empty, or given twice with two values. */
  readonly messageId: string | undefined;
}

export function publishedHeaders(userProperties: Headers | undefined): PublishedHeaders {
  if (userProperties === undefined) return NOTHING_PUBLISHED;
  let reserved = false;
  for (const [name] of userProperties) {
    if (name.startsWith(RESERVED_PREFIX)) reserved = true;
  }
  if (!reserved) return { headers: userProperties, messageId: undefined };
  const headers: (readonly [string, string])[] = [];
  let messageId: string | undefined;
  let contradicted = false;
  for (const header of userProperties) {
    const [name, value] = header;
    if (!name.startsWith(RESERVED_PREFIX)) headers.push(header);
    else if (name === ID_HEADER) {
      if (messageId !== undefined && messageId !== value) contradicted = true;
      messageId = value;
    }
  }
  return {
    headers: headers.length === 0 ? NO_HEADERS : headers,
    messageId: contradicted || messageId === "" ? undefined : messageId,
  };
}

const NOTHING_PUBLISHED: PublishedHeaders = { headers: NO_HEADERS, messageId: undefined };

/** The first User Property in the reserved space that `known` does not list (D3.10 to D3.12). */
export function unreadProperty(
  userProperties: Headers | undefined,
  known: readonly string[],
): string | undefined {
  return userProperties?.find(([name]) => name.startsWith(RESERVED_PREFIX) && !known.includes(name))
    ?.[0];
}
