import type { ConnackPacket } from "../packet.ts";
import { PacketType } from "../packet.ts";
import type { Delivery } from "../../broker/link.ts";
import type { Headers } from "../../storage/record.ts";
import { NO_HEADERS } from "../../storage/record.ts";
import { binaryFieldSize, Output, SHARED_PAYLOAD_BYTES, textFieldSize } from "./output.ts";
import { type PagePool, sharedPages } from "./pages.ts";
import {
  LARGEST_VARIABLE_BYTE_INTEGER,
  LONGEST_FIELD_BYTES,
  variableByteIntegerSize,
} from "./primitives.ts";
import { textSize } from "./text.ts";
import { PropertyId } from "./properties.ts";

/** The largest packet the standard can express: first byte, Remaining Length and what it counts. */
export const LARGEST_PACKET_BYTES = 1 + 4 + LARGEST_VARIABLE_BYTE_INTEGER;

/** What a server may add to most of its answers (MQTT 5). */
export interface Explanation {
  readonly reasonString?: string;
  readonly userProperties?: Headers;
}

const NOTHING: Explanation = Object.freeze({});
const NO_CODES: readonly number[] = Object.freeze([]);

/**
 * The outbound half of one connection: every call appends one whole packet, and many of them leave in
 * one socket write through `take`. A call that answers false wrote nothing, because the packet would be
 * larger than the client's Maximum Packet Size or does not exist at this level. Fields that no packet
 * can carry (a string over 65,535 bytes) throw RangeError, again with nothing written.
 */
export class PacketWriter {
  /** Until the CONNECT is read, the level of the refusal. */
  level: 4 | 5 = 5;
  /** The client's Maximum Packet Size (3.1.2.11.4). */
  maximumPacketSize: number = LARGEST_PACKET_BYTES;
  /** False after Request Problem Information 0 (3.1.2.11.7): no Reason String leaves. */
  problemInformation = true;

  readonly #out: Output;

  constructor(pages: PagePool = sharedPages) {
    this.#out = new Output(pages);
  }

  /** Bytes written and not yet taken. */
  get length(): number {
    return this.#out.length;
  }

  /**
   * The oldest output, to be written to the socket whole, or undefined when there is none: usually
   * everything in one piece, but large payloads come as pieces of their own. The bytes stay as they are
   * until `release`.
   */
  take(): Uint8Array | undefined {
    return this.#out.take();
  }

  /** Says that the piece taken last was written, so that its memory can be used again. Optional. */
  release(): void {
    this.#out.release();
  }

  /** CONNACK (3.2). At level 4 `reasonCode` is a return code and everything else stays out. */
  connack(packet: ConnackPacket): boolean {
    const out = this.#out;
    const sessionPresent = packet.sessionPresent && packet.reasonCode === 0 ? 1 : 0;
    if (this.level === 4) {
      if (!this.#begin(PacketType.Connack << 4, 2)) return false;
      out.byte(sessionPresent);
      out.byte(packet.reasonCode);
      return true;
    }
    const fixed = connackPropertiesSize(packet);
    const size = this.#explained(2, fixed, packet);
    if (!this.#begin(PacketType.Connack << 4, 2 + sectionSize(size))) return false;
    out.byte(sessionPresent);
    out.byte(packet.reasonCode);
    out.variableByteInteger(size);
    writeConnackProperties(out, packet);
    this.#explain();
    return true;
  }

  /** The exact size of the PUBLISH that `publish` would write. */
  publishSize(delivery: Delivery): number {
    const remaining = this.#publishRemaining(delivery);
    return 1 + variableByteIntegerSize(remaining) + remaining;
  }

  /**
   * PUBLISH (3.3). Labels go ahead of the publisher's User Properties, and a Response Topic with its
   * Correlation Data in `reply` stands for the publisher's. No Topic Alias is ever used.
   */
  publish(delivery: Delivery, packetId: number, dup: boolean): boolean {
    const remaining = this.#publishRemaining(delivery);
    const out = this.#out;
    const { payload, topic } = delivery.message;
    const shared = payload.length >= SHARED_PAYLOAD_BYTES;
    const first = (PacketType.Publish << 4) | (dup ? 0x08 : 0) | (delivery.qos << 1) |
      (delivery.retain ? 0x01 : 0);
    if (!this.#begin(first, remaining, shared ? payload.length : 0)) return false;
    out.text(topic);
    if (delivery.qos !== 0) out.twoByteInteger(packetId);
    if (this.level === 5) {
      out.variableByteInteger(this.#propertiesSize);
      if (this.#propertiesSize > 0) writePublishProperties(out, delivery);
    }
    if (shared) out.share(payload);
    else out.copy(payload);
    return true;
  }

  puback(packetId: number, reasonCode = 0, explanation: Explanation = NOTHING): boolean {
    return this.#acknowledge(PacketType.Puback << 4, packetId, reasonCode, explanation);
  }

  pubrec(packetId: number, reasonCode = 0, explanation: Explanation = NOTHING): boolean {
    return this.#acknowledge(PacketType.Pubrec << 4, packetId, reasonCode, explanation);
  }

  pubrel(packetId: number, reasonCode = 0, explanation: Explanation = NOTHING): boolean {
    return this.#acknowledge((PacketType.Pubrel << 4) | 0x02, packetId, reasonCode, explanation);
  }

  pubcomp(packetId: number, reasonCode = 0, explanation: Explanation = NOTHING): boolean {
    return this.#acknowledge(PacketType.Pubcomp << 4, packetId, reasonCode, explanation);
  }

  /** SUBACK (3.9). At level 4 every refusal is 0x80. */
  suback(
    packetId: number,
    reasonCodes: readonly number[],
    explanation: Explanation = NOTHING,
  ): boolean {
    return this.#acknowledgeFilters(PacketType.Suback << 4, packetId, reasonCodes, explanation);
  }

  /** UNSUBACK (3.11). At level 4 it has no codes. */
  unsuback(
    packetId: number,
    reasonCodes: readonly number[],
    explanation: Explanation = NOTHING,
  ): boolean {
    const codes = this.level === 4 ? NO_CODES : reasonCodes;
    return this.#acknowledgeFilters(PacketType.Unsuback << 4, packetId, codes, explanation);
  }

  pingresp(): boolean {
    return this.#begin(PacketType.Pingresp << 4, 0);
  }

  /** DISCONNECT (3.14). At level 4 a server has none: false. */
  disconnect(reasonCode: number, explanation: Explanation = NOTHING): boolean {
    if (this.level === 4) return false;
    const size = this.#explained(1, 0, explanation);
    if (size === 0 && reasonCode === 0) return this.#begin(PacketType.Disconnect << 4, 0);
    const section = size === 0 ? 0 : sectionSize(size);
    if (!this.#begin(PacketType.Disconnect << 4, 1 + section)) return false;
    this.#out.byte(reasonCode);
    if (size > 0) {
      this.#out.variableByteInteger(size);
      this.#explain();
    }
    return true;
  }

  #acknowledge(
    first: number,
    packetId: number,
    reasonCode: number,
    explanation: Explanation,
  ): boolean {
    const out = this.#out;
    const size = this.level === 4 || explanation === NOTHING
      ? 0
      : this.#explained(3, 0, explanation);
    if (size === 0) {
      const long = this.level === 5 && reasonCode !== 0;
      if (!this.#begin(first, long ? 3 : 2)) return false;
      out.twoByteInteger(packetId);
      if (long) out.byte(reasonCode);
      return true;
    }
    if (!this.#begin(first, 3 + sectionSize(size))) return false;
    out.twoByteInteger(packetId);
    out.byte(reasonCode);
    out.variableByteInteger(size);
    this.#explain();
    return true;
  }

  #acknowledgeFilters(
    first: number,
    packetId: number,
    codes: readonly number[],
    explanation: Explanation,
  ): boolean {
    const out = this.#out;
    const five = this.level === 5;
    const size = five ? this.#explained(2 + codes.length, 0, explanation) : 0;
    const section = five ? sectionSize(size) : 0;
    if (!this.#begin(first, 2 + section + codes.length)) return false;
    out.twoByteInteger(packetId);
    if (five) {
      out.variableByteInteger(size);
      this.#explain();
    }
    for (const code of codes) out.byte(five || code < 0x80 ? code : 0x80);
    return true;
  }

  /** Writes the fixed header and makes room, or writes nothing and answers false. */
  #begin(first: number, remaining: number, elsewhere = 0): boolean {
    const size = 1 + variableByteIntegerSize(remaining) + remaining;
    if (size > this.maximumPacketSize || remaining > LARGEST_VARIABLE_BYTE_INTEGER) return false;
    this.#out.reserve(size - elsewhere);
    this.#out.byte(first);
    this.#out.variableByteInteger(remaining);
    return true;
  }

  // What `#explained` granted to the packet at hand.
  #reasonString: string | undefined = undefined;
  #userProperties: Headers = NO_HEADERS;

  /**
   * Decides which of the explanation fits the client's Maximum Packet Size beside `body` bytes and
   * `fixed` bytes of other properties, first the Reason String, then the User Properties (3.1.2.11.4).
   * Returns the length of all properties; `#explain` writes what was granted.
   */
  #explained(body: number, fixed: number, explanation: Explanation): number {
    this.#reasonString = undefined;
    this.#userProperties = NO_HEADERS;
    let size = fixed;
    const { reasonString, userProperties } = explanation;
    if (!this.problemInformation) return size;
    if (reasonString !== undefined) {
      // Reasons quote what clients sent, so one may be longer than any string field.
      const length = textSize(reasonString);
      const more = 1 + 2 + length;
      if (length <= LONGEST_FIELD_BYTES && this.#fits(body, size + more)) {
        size += more;
        this.#reasonString = reasonString;
      }
    }
    if (userProperties !== undefined && userProperties.length > 0) {
      const more = headersSize(userProperties);
      if (this.#fits(body, size + more)) {
        size += more;
        this.#userProperties = userProperties;
      }
    }
    return size;
  }

  #fits(body: number, properties: number): boolean {
    const remaining = body + sectionSize(properties);
    return 1 + variableByteIntegerSize(remaining) + remaining <= this.maximumPacketSize;
  }

  #explain(): void {
    const out = this.#out;
    if (this.#reasonString !== undefined) {
      out.byte(PropertyId.ReasonString);
      out.text(this.#reasonString);
    }
    writeHeaders(out, this.#userProperties);
  }

  /** The property length of the PUBLISH that `#publishRemaining` measured last. */
  #propertiesSize = 0;

  #publishRemaining(delivery: Delivery): number {
    const { message } = delivery;
    const size = textFieldSize(message.topic) + (delivery.qos === 0 ? 0 : 2) +
      message.payload.length;
    if (this.level === 4) return size;
    this.#propertiesSize = publishPropertiesSize(delivery);
    return size + sectionSize(this.#propertiesSize);
  }
}

/** Bytes of a property section whose properties take `size`. */
function sectionSize(size: number): number {
  return variableByteIntegerSize(size) + size;
}

function headersSize(headers: Headers): number {
  let size = 0;
  for (let i = 0; i < headers.length; i++) {
    const header = headers[i];
    size += 1 + textFieldSize(header[0]) + textFieldSize(header[1]);
  }
  return size;
}

function writeHeaders(out: Output, headers: Headers): void {
  for (let i = 0; i < headers.length; i++) {
    const header = headers[i];
    out.byte(PropertyId.UserProperty);
    out.text(header[0]);
    out.text(header[1]);
  }
}

// --------------------------------------------------------------------------- PUBLISH (3.3.2.3)

function publishPropertiesSize(delivery: Delivery): number {
  const { message, identifiers } = delivery;
  const { properties } = message;
  const { responseTopic, correlationData } = delivery.reply ?? properties;
  let size = headersSize(delivery.labels) + headersSize(message.headers);
  if (properties.payloadFormat !== undefined) size += 2;
  if (delivery.expiry !== undefined) size += 5;
  if (properties.contentType !== undefined) size += 1 + textFieldSize(properties.contentType);
  if (responseTopic !== undefined) size += 1 + textFieldSize(responseTopic);
  if (correlationData !== undefined) size += 1 + binaryFieldSize(correlationData);
  for (let i = 0; i < identifiers.length; i++) size += 1 + variableByteIntegerSize(identifiers[i]);
  return size;
}

function writePublishProperties(out: Output, delivery: Delivery): void {
  const { message, identifiers } = delivery;
  const { properties } = message;
  const { responseTopic, correlationData } = delivery.reply ?? properties;
  if (properties.payloadFormat !== undefined) {
    out.byte(PropertyId.PayloadFormat);
    out.byte(properties.payloadFormat);
  }
  if (delivery.expiry !== undefined) {
    out.byte(PropertyId.MessageExpiry);
    out.fourByteInteger(delivery.expiry);
  }
  if (properties.contentType !== undefined) {
    out.byte(PropertyId.ContentType);
    out.text(properties.contentType);
  }
  if (responseTopic !== undefined) {
    out.byte(PropertyId.ResponseTopic);
    out.text(responseTopic);
  }
  if (correlationData !== undefined) {
    out.byte(PropertyId.CorrelationData);
    out.binary(correlationData);
  }
  for (let i = 0; i < identifiers.length; i++) {
    out.byte(PropertyId.SubscriptionIdentifier);
    out.variableByteInteger(identifiers[i]);
  }
  writeHeaders(out, delivery.labels);
  writeHeaders(out, message.headers);
}

// --------------------------------------------------------------------------- CONNACK (3.2.2.3)

function connackPropertiesSize(packet: ConnackPacket): number {
  let size = 0;
  if (packet.sessionExpiry !== undefined) size += 5;
  if (packet.maximumQoS !== undefined) size += 2;
  if (packet.retainAvailable !== undefined) size += 2;
  if (packet.maximumPacketSize !== undefined) size += 5;
  if (packet.assignedClientId !== undefined) size += 1 + textFieldSize(packet.assignedClientId);
  if (packet.topicAliasMaximum !== undefined) size += 3;
  if (packet.sharedSubscriptionAvailable !== undefined) size += 2;
  if (packet.serverKeepAlive !== undefined) size += 3;
  return size;
}

function writeConnackProperties(out: Output, packet: ConnackPacket): void {
  if (packet.sessionExpiry !== undefined) {
    out.byte(PropertyId.SessionExpiry);
    out.fourByteInteger(packet.sessionExpiry);
  }
  if (packet.maximumQoS !== undefined) {
    out.byte(PropertyId.MaximumQoS);
    out.byte(packet.maximumQoS);
  }
  if (packet.retainAvailable !== undefined) {
    out.byte(PropertyId.RetainAvailable);
    out.byte(packet.retainAvailable);
  }
  if (packet.maximumPacketSize !== undefined) {
    out.byte(PropertyId.MaximumPacketSize);
    out.fourByteInteger(packet.maximumPacketSize);
  }
  if (packet.assignedClientId !== undefined) {
    out.byte(PropertyId.AssignedClientId);
    out.text(packet.assignedClientId);
  }
  if (packet.topicAliasMaximum !== undefined) {
    out.byte(PropertyId.TopicAliasMaximum);
    out.twoByteInteger(packet.topicAliasMaximum);
  }
  if (packet.sharedSubscriptionAvailable !== undefined) {
    out.byte(PropertyId.SharedSubscriptionAvailable);
    out.byte(packet.sharedSubscriptionAvailable);
  }
  if (packet.serverKeepAlive !== undefined) {
    out.byte(PropertyId.ServerKeepAlive);
    out.twoByteInteger(packet.serverKeepAlive);
  }
}
