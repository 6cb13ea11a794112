import type { Nanoseconds } from "../platform/clock.ts";

/**
 * A channel's address of a record: 1, 2, 3, ... per channel, never reused (invariant 9). Held as a
 * Number; a stored value above 2^53-1 is refused when read (S45).
 */
export type Offset = number;

export const FIRST_OFFSET: Offset = 1;

export type QoS = 0 | 1 | 2;

/** The publish properties a record keeps (S43); each absent when the publisher sent none. */
export interface PublishProperties {
  readonly contentType?: string;
  readonly responseTopic?: string;
  readonly correlationData?: Uint8Array;
  /** 0 bytes, 1 UTF-8 (MQTT 5 3.3.2.3.2). */
  readonly payloadFormat?: 0 | 1;
  /** Seconds, as the publisher wrote it; counted from `Message.timestamp`. */
  readonly messageExpiry?: number;
}

export const NO_PROPERTIES: PublishProperties = Object.freeze({});

/** User Properties in publisher order, repeats kept. */
export type Headers = readonly (readonly [name: string, value: string])[];

export const NO_HEADERS: Headers = Object.freeze([]);

/** What was published (D3.1): everything of a record but its offset. Immutable once made. */
export interface Message {
  /** `saguin-id` of the publisher, else a UUIDv7 of the broker. */
  readonly messageId: string;
  /** Byte for byte as published. */
  readonly topic: string;
  /** Receipt time; `0n` is unset. */
  readonly timestamp: Nanoseconds;
  readonly headers: Headers;
  readonly properties: PublishProperties;
  /**
   * Opaque. May be a view of a read buffer: whoever keeps the message beyond the store's answer keeps
   * `ownedMessage(message)`.
   */
  readonly payload: Uint8Array;
  /** The publisher's RETAIN flag: stored, and acted on only for Retain As Published. */
  readonly retain: boolean;
  /** The bridge it arrived on; empty for none. */
  readonly bridge: string;
  /** The publishing client; empty for none. For No Local only, never on a wire. */
  readonly clientId: string;
  readonly qos: QoS;
  /** On the broadcast log only: a channel record copied for the shared groups over it (D9.5). */
  readonly groupCopy: boolean;
  /** On the broadcast log only: the one session it is owed to (D17.9); empty for none. */
  readonly onlyFor: string;
}

export interface StoredRecord {
  readonly offset: Offset;
  readonly message: Message;
}

/** A message whose payload no longer shares memory with a read buffer. */
export function ownedMessage(message: Message): Message {
  const { payload } = message;
  if (payload.byteLength === payload.buffer.byteLength) return message;
  return { ...message, payload: payload.slice() };
}

/** UTF-8 length of `text`, without encoding it. */
export function utf8Length(text: string): number {
  let bytes = text.length;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x80) continue;
    if (code < 0x800) bytes += 1;
    else if (code >= 0xd800 && code <= 0xdbff) {
      bytes += 2;
      i++;
    } else bytes += 2;
  }
  return bytes;
}

/**
 * What a record counts against a bound (S14): payload, topic, message id and User Properties. Of the
 * payload only the length is looked at, so a store counts a row without reading it.
 */
export function recordSize(
  message: Pick<Message, "topic" | "messageId" | "headers"> & {
    readonly payload: { readonly byteLength: number };
  },
): number {
  let size = message.payload.byteLength + utf8Length(message.topic) +
    utf8Length(message.messageId);
  for (const [name, value] of message.headers) size += utf8Length(name) + utf8Length(value);
  return size;
}
