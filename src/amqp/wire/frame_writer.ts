import { type AmqpMessage, bodyBytes } from "../message.ts";
import { FRAME_END, FRAME_MIN_BYTES, FRAME_OVERHEAD_BYTES, FrameType } from "./frames.ts";
import { PROTOCOL_HEADER } from "./frames.ts";
import { type Arguments, formOf, type MethodForm, type MethodName } from "./methods.ts";
import { Output } from "./output.ts";
import { encodeTable, type FieldTable } from "./table.ts";
import { writeText } from "./text.ts";

/** A body from this size on is sent from where it lies, not copied. */
const SHARED_BODY_BYTES = 32 * 1024;

/** Frame header, class and method id, end octet. */
const METHOD_OVERHEAD_BYTES = FRAME_OVERHEAD_BYTES + 4;

/** Content header without properties: class, weight, body size. */
const HEADER_FIXED_BYTES = 12;

const BASIC = 60;

/** The most bytes a short string of this text can take, its length octet included. */
function shortRoom(text: string): number {
  return 1 + text.length * 3;
}

/** Writes frames for one peer, whole, in the order of the calls. */
export class FrameWriter {
  readonly output = new Output();
  /** Largest frame the peer takes; known after tuning. */
  frameMax = FRAME_MIN_BYTES;

  /** Bytes written and not yet taken. */
  get length(): number {
    return this.output.length;
  }

  /** What a peer that speaks another protocol is told before the close (4.2.2). */
  protocolHeader(): void {
    this.output.reserve(PROTOCOL_HEADER.length);
    this.output.copy(PROTOCOL_HEADER, 0, PROTOCOL_HEADER.length);
  }

  heartbeat(): void {
    this.output.reserve(FRAME_OVERHEAD_BYTES);
    this.#end(this.#begin(FrameType.Heartbeat, 0));
  }

  /** Any method. @throws RangeError for a text that fits no short string */
  method<N extends MethodName>(channel: number, name: N, args: Arguments<N>): void {
    const form = formOf(name);
    const values = args as unknown as Record<string, unknown>;
    const tables = encodedTables(form, values);
    this.output.reserve(roomOf(form, values, tables));
    const start = this.#begin(FrameType.Method, channel);
    this.output.short(form.classId);
    this.output.short(form.methodId);
    this.#arguments(form, values, tables);
    this.#end(start);
  }

  #arguments(
    form: MethodForm,
    values: Record<string, unknown>,
    tables: readonly Uint8Array[],
  ): void {
    const { output } = this;
    let bits = 0;
    let table = 0;
    const list = form.arguments;
    for (let i = 0; i < list.length; i++) {
      const { name, domain, reserved, bit } = list[i];
      const value = reserved ? undefined : values[name];
      switch (domain) {
        case "bit": {
          if (bit === 0) bits = 0;
          if (value === true) bits |= 1 << bit;
          const next = list[i + 1];
          if (next === undefined || next.domain !== "bit" || next.bit === 0) output.octet(bits);
          break;
        }
        case "octet":
          output.octet(value as number ?? 0);
          break;
        case "short":
          output.short(value as number ?? 0);
          break;
        case "long":
          output.long(value as number ?? 0);
          break;
        case "longlong":
          output.longlong(value as number ?? 0);
          break;
        case "shortstr":
          this.#shortstr(value as string ?? "");
          break;
        case "longstr": {
          const bytes = value as Uint8Array | undefined;
          output.long(bytes?.length ?? 0);
          if (bytes !== undefined) output.copy(bytes, 0, bytes.length);
          break;
        }
        case "table": {
          const bytes = tables[table++];
          output.copy(bytes, 0, bytes.length);
          break;
        }
      }
    }
  }

  // -------------------------------------------------------------------------- methods with content

  /** basic.deliver and the message; by hand, since it is written for every delivery. */
  deliver(
    channel: number,
    consumerTag: string,
    deliveryTag: number,
    redelivered: boolean,
    message: AmqpMessage,
  ): void {
    const { output } = this;
    const { exchange, routingKey } = message;
    output.reserve(
      METHOD_OVERHEAD_BYTES + shortRoom(consumerTag) + 9 + shortRoom(exchange) +
        shortRoom(routingKey) + contentRoom(message),
    );
    const start = this.#begin(FrameType.Method, channel);
    output.short(BASIC);
    output.short(60);
    this.#shortstr(consumerTag);
    output.longlong(deliveryTag);
    output.octet(redelivered ? 1 : 0);
    this.#shortstr(exchange);
    this.#shortstr(routingKey);
    this.#end(start);
    this.#content(channel, message);
  }

  /** basic.get-ok and the message. */
  getOk(
    channel: number,
    deliveryTag: number,
    redelivered: boolean,
    messageCount: number,
    message: AmqpMessage,
  ): void {
    const { exchange, routingKey } = message;
    this.method(channel, "basic.get-ok", {
      deliveryTag,
      redelivered,
      exchange,
      routingKey,
      messageCount,
    });
    this.output.reserve(contentRoom(message));
    this.#content(channel, message);
  }

  /** basic.return and the message. */
  return(channel: number, replyCode: number, replyText: string, message: AmqpMessage): void {
    const { exchange, routingKey } = message;
    this.method(channel, "basic.return", { replyCode, replyText, exchange, routingKey });
    this.output.reserve(contentRoom(message));
    this.#content(channel, message);
  }

  /** Header frame and body frames; `contentRoom` was reserved. */
  #content(channel: number, message: AmqpMessage): void {
    const { output } = this;
    const { content, propertyBytes } = message;
    const size = content.length - propertyBytes;
    const start = this.#begin(FrameType.Header, channel);
    output.short(BASIC);
    output.short(0);
    output.longlong(size);
    output.copy(content, 0, propertyBytes);
    this.#end(start);
    if (size === 0) return;
    const most = this.frameMax - FRAME_OVERHEAD_BYTES;
    if (size <= most && size < SHARED_BODY_BYTES) {
      return this.#body(channel, content, propertyBytes, content.length);
    }
    for (let at = propertyBytes; at < content.length; at += most) {
      const end = Math.min(at + most, content.length);
      if (end - at < SHARED_BODY_BYTES) {
        output.reserve(end - at + FRAME_OVERHEAD_BYTES);
        this.#body(channel, content, at, end);
      } else this.#sharedBody(channel, content.subarray(at, end));
    }
  }

  #body(channel: number, content: Uint8Array, start: number, end: number): void {
    const frame = this.#begin(FrameType.Body, channel);
    this.output.copy(content, start, end);
    this.#end(frame);
  }

  #sharedBody(channel: number, body: Uint8Array): void {
    const { output } = this;
    output.reserve(FRAME_OVERHEAD_BYTES);
    output.octet(FrameType.Body);
    output.short(channel);
    output.long(body.length);
    output.share(body);
    output.reserve(1);
    output.octet(FRAME_END);
  }

  #shortstr(text: string): void {
    const { output } = this;
    const { bytes } = output;
    const at = output.at++;
    const length = writeText(text, bytes, output.at);
    if (length > 255) throw new RangeError(`a text of ${length} bytes fits no short string`);
    bytes[at] = length;
    output.at += length;
  }

  /** Writes a frame header without its size; answers where the frame begins. */
  #begin(type: number, channel: number): number {
    const { output } = this;
    const start = output.at;
    output.octet(type);
    output.short(channel);
    output.at += 4;
    return start;
  }

  #end(start: number): void {
    const { output } = this;
    const { at } = output;
    output.at = start + 3;
    output.long(at - start - 7);
    output.at = at;
    output.octet(FRAME_END);
  }
}

/** Room for header frame and body; a body that is shared or split takes its own. */
function contentRoom(message: AmqpMessage): number {
  const size = bodyBytes(message);
  return FRAME_OVERHEAD_BYTES + HEADER_FIXED_BYTES + message.propertyBytes +
    (size < SHARED_BODY_BYTES ? size + FRAME_OVERHEAD_BYTES : 0);
}

const NO_TABLES: readonly Uint8Array[] = [];

function encodedTables(form: MethodForm, values: Record<string, unknown>): readonly Uint8Array[] {
  let tables = NO_TABLES;
  for (const { name, domain } of form.arguments) {
    if (domain === "table") tables = [...tables, encodeTable(values[name] as FieldTable)];
  }
  return tables;
}

function roomOf(
  form: MethodForm,
  values: Record<string, unknown>,
  tables: readonly Uint8Array[],
): number {
  let room = METHOD_OVERHEAD_BYTES;
  for (const { name, domain, reserved } of form.arguments) {
    if (domain === "shortstr") room += reserved ? 1 : shortRoom(values[name] as string);
    else if (domain === "longstr") {
      room += 4 + (reserved ? 0 : (values[name] as Uint8Array).length);
    } else room += 8;
  }
  for (const table of tables) room += table.length;
  return room;
}
