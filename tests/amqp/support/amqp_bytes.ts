/**
 * AMQP 0-9-1 bytes as a client would send them, and a reader of what a server sends. Written apart from
 * the broker's own codec, from the grammar of the standard, so that the two can be held against each
 * other.
 */
const encoder = new TextEncoder();
const decoder = new TextDecoder();

export const HEADER = Uint8Array.of(65, 77, 81, 80, 0, 0, 9, 1);

export function join(
  ...parts: readonly (Uint8Array | readonly number[])[]
): Uint8Array<ArrayBuffer> {
  const all = parts.map((part) => part instanceof Uint8Array ? part : Uint8Array.from(part));
  const joined = new Uint8Array(all.reduce((sum, part) => sum + part.length, 0));
  let at = 0;
  for (const part of all) {
    joined.set(part, at);
    at += part.length;
  }
  return joined;
}

export function u16(value: number): Uint8Array {
  return Uint8Array.of(value >> 8, value);
}

export function u32(value: number): Uint8Array {
  return Uint8Array.of(value >>> 24, value >>> 16, value >>> 8, value);
}

export function u64(value: number): Uint8Array {
  return join(u32(Math.floor(value / 2 ** 32)), u32(value >>> 0));
}

export function short(text: string): Uint8Array {
  const bytes = encoder.encode(text);
  if (bytes.length > 255) throw new RangeError("too long for a short string");
  return join([bytes.length], bytes);
}

export function long(value: string | Uint8Array): Uint8Array {
  const bytes = typeof value === "string" ? encoder.encode(value) : value;
  return join(u32(bytes.length), bytes);
}

/** What a test writes into a table: the type letter is chosen as pika does. */
export type Plain = boolean | number | string | null | Plain[] | { readonly [name: string]: Plain };

export function table(fields: Readonly<Record<string, Plain>> = {}): Uint8Array {
  return long(
    join(...Object.entries(fields).map(([name, value]) => join(short(name), field(value)))),
  );
}

export function field(value: Plain): Uint8Array {
  if (typeof value === "boolean") return Uint8Array.of(0x74, value ? 1 : 0);
  if (typeof value === "number") return join([0x49], u32(value));
  if (typeof value === "string") return join([0x53], long(value));
  if (value === null) return Uint8Array.of(0x56);
  if (Array.isArray(value)) return join([0x41], long(join(...value.map(field))));
  return join([0x46], table(value));
}

export function frame(type: number, channel: number, payload: Uint8Array): Uint8Array<ArrayBuffer> {
  return join([type], u16(channel), u32(payload.length), payload, [0xce]);
}

export function method(
  channel: number,
  classId: number,
  methodId: number,
  ...args: readonly (Uint8Array | readonly number[])[]
): Uint8Array<ArrayBuffer> {
  return frame(1, channel, join(u16(classId), u16(methodId), ...args));
}

function bits(...flags: readonly (boolean | undefined)[]): Uint8Array {
  let octet = 0;
  flags.forEach((flag, i) => octet |= flag ? 1 << i : 0);
  return Uint8Array.of(octet);
}

// ------------------------------------------------------------------------------------ the handshake

export interface StartOk {
  readonly user?: string;
  readonly password?: string;
  readonly mechanism?: string;
  readonly response?: Uint8Array | string;
  readonly properties?: Readonly<Record<string, Plain>>;
}

export const CAPABILITIES = {
  capabilities: {
    authentication_failure_close: true,
    consumer_cancel_notify: true,
    "basic.nack": true,
    "connection.blocked": true,
    publisher_confirms: true,
  },
};

export function startOk(options: StartOk = {}): Uint8Array<ArrayBuffer> {
  const { user = "guest", password = "guest", mechanism = "PLAIN" } = options;
  return method(
    0,
    10,
    11,
    table(options.properties ?? CAPABILITIES),
    short(mechanism),
    long(options.response ?? `\0${user}\0${password}`),
    short("en_US"),
  );
}

export function tuneOk(channelMax = 0, frameMax = 0, heartbeat = 0): Uint8Array<ArrayBuffer> {
  return method(0, 10, 31, u16(channelMax), u32(frameMax), u16(heartbeat));
}

export function open(vhost = "/"): Uint8Array<ArrayBuffer> {
  return method(0, 10, 40, short(vhost), short(""), bits(false));
}

export function close(code = 200, text = "bye"): Uint8Array<ArrayBuffer> {
  return method(0, 10, 50, u16(code), short(text), u16(0), u16(0));
}

export const closeOk: Uint8Array<ArrayBuffer> = method(0, 10, 51);

// ------------------------------------------------------------------------------------- channel work

export function channelOpen(channel: number): Uint8Array<ArrayBuffer> {
  return method(channel, 20, 10, short(""));
}

export function channelClose(channel: number): Uint8Array<ArrayBuffer> {
  return method(channel, 20, 40, u16(200), short(""), u16(0), u16(0));
}

export function channelCloseOk(channel: number): Uint8Array<ArrayBuffer> {
  return method(channel, 20, 41);
}

export function flow(channel: number, active: boolean): Uint8Array<ArrayBuffer> {
  return method(channel, 20, 20, bits(active));
}

export interface ExchangeDeclare {
  readonly passive?: boolean;
  readonly durable?: boolean;
  readonly autoDelete?: boolean;
  readonly internal?: boolean;
  readonly noWait?: boolean;
  readonly args?: Readonly<Record<string, Plain>>;
}

export function exchangeDeclare(
  channel: number,
  exchange: string,
  type: string,
  { passive, durable, autoDelete, internal, noWait, args }: ExchangeDeclare = {},
): Uint8Array<ArrayBuffer> {
  return method(
    channel,
    40,
    10,
    u16(0),
    short(exchange),
    short(type),
    bits(passive, durable, autoDelete, internal, noWait),
    table(args),
  );
}

export function exchangeDelete(
  channel: number,
  exchange: string,
  { ifUnused, noWait }: { ifUnused?: boolean; noWait?: boolean } = {},
): Uint8Array<ArrayBuffer> {
  return method(channel, 40, 20, u16(0), short(exchange), bits(ifUnused, noWait));
}

export interface QueueDeclare {
  readonly passive?: boolean;
  readonly durable?: boolean;
  readonly exclusive?: boolean;
  readonly autoDelete?: boolean;
  readonly noWait?: boolean;
  readonly args?: Readonly<Record<string, Plain>>;
}

export function queueDeclare(
  channel: number,
  queue: string,
  { passive, durable, exclusive, autoDelete, noWait, args }: QueueDeclare = {},
): Uint8Array<ArrayBuffer> {
  return method(
    channel,
    50,
    10,
    u16(0),
    short(queue),
    bits(passive, durable, exclusive, autoDelete, noWait),
    table(args),
  );
}

export function queueBind(
  channel: number,
  queue: string,
  exchange: string,
  routingKey = "",
  { noWait, args }: { noWait?: boolean; args?: Readonly<Record<string, Plain>> } = {},
): Uint8Array<ArrayBuffer> {
  return method(
    channel,
    50,
    20,
    u16(0),
    short(queue),
    short(exchange),
    short(routingKey),
    bits(noWait),
    table(args),
  );
}

export function queueUnbind(
  channel: number,
  queue: string,
  exchange: string,
  routingKey = "",
): Uint8Array<ArrayBuffer> {
  return method(channel, 50, 50, u16(0), short(queue), short(exchange), short(routingKey), table());
}

export function queuePurge(channel: number, queue: string): Uint8Array<ArrayBuffer> {
  return method(channel, 50, 30, u16(0), short(queue), bits(false));
}

export function queueDelete(
  channel: number,
  queue: string,
  { ifUnused, ifEmpty, noWait }: { ifUnused?: boolean; ifEmpty?: boolean; noWait?: boolean } = {},
): Uint8Array<ArrayBuffer> {
  return method(channel, 50, 40, u16(0), short(queue), bits(ifUnused, ifEmpty, noWait));
}

export function qos(
  channel: number,
  prefetchCount: number,
  global = false,
  prefetchSize = 0,
): Uint8Array<ArrayBuffer> {
  return method(channel, 60, 10, u32(prefetchSize), u16(prefetchCount), bits(global));
}

export interface Consume {
  readonly tag?: string;
  readonly noAck?: boolean;
  readonly exclusive?: boolean;
  readonly noWait?: boolean;
  readonly args?: Readonly<Record<string, Plain>>;
}

export function consume(
  channel: number,
  queue: string,
  { tag = "", noAck, exclusive, noWait, args }: Consume = {},
): Uint8Array<ArrayBuffer> {
  return method(
    channel,
    60,
    20,
    u16(0),
    short(queue),
    short(tag),
    bits(false, noAck, exclusive, noWait),
    table(args),
  );
}

export function cancel(channel: number, tag: string, noWait = false): Uint8Array<ArrayBuffer> {
  return method(channel, 60, 30, short(tag), bits(noWait));
}

export function get(channel: number, queue: string, noAck = false): Uint8Array<ArrayBuffer> {
  return method(channel, 60, 70, u16(0), short(queue), bits(noAck));
}

export function ack(channel: number, tag: number, multiple = false): Uint8Array<ArrayBuffer> {
  return method(channel, 60, 80, u64(tag), bits(multiple));
}

export function reject(channel: number, tag: number, requeue: boolean): Uint8Array<ArrayBuffer> {
  return method(channel, 60, 90, u64(tag), bits(requeue));
}

export function nack(
  channel: number,
  tag: number,
  { multiple = false, requeue = true }: { multiple?: boolean; requeue?: boolean } = {},
): Uint8Array<ArrayBuffer> {
  return method(channel, 60, 120, u64(tag), bits(multiple, requeue));
}

export function recover(channel: number, requeue: boolean): Uint8Array<ArrayBuffer> {
  return method(channel, 60, 110, bits(requeue));
}

export function confirmSelect(channel: number, noWait = false): Uint8Array<ArrayBuffer> {
  return method(channel, 85, 10, bits(noWait));
}

// ------------------------------------------------------------------------------------------ content

/** The properties tests use, in the order of the flags. */
export interface Properties {
  readonly contentType?: string;
  readonly headers?: Readonly<Record<string, Plain>>;
  readonly deliveryMode?: number;
  readonly priority?: number;
  readonly correlationId?: string;
  readonly replyTo?: string;
  readonly expiration?: string;
  readonly messageId?: string;
}

/** Flags word and property list. */
export function properties(of: Properties = {}): Uint8Array<ArrayBuffer> {
  let flags = 0;
  const list: Uint8Array[] = [];
  const add = (bit: number, bytes: Uint8Array | undefined) => {
    if (bytes === undefined) return;
    flags |= 1 << bit;
    list.push(bytes);
  };
  const text = (value: string | undefined) => value === undefined ? undefined : short(value);
  const octet = (value: number | undefined) =>
    value === undefined ? undefined : Uint8Array.of(value);
  add(15, text(of.contentType));
  add(13, of.headers === undefined ? undefined : table(of.headers));
  add(12, octet(of.deliveryMode));
  add(11, octet(of.priority));
  add(10, text(of.correlationId));
  add(9, text(of.replyTo));
  add(8, text(of.expiration));
  add(7, text(of.messageId));
  return join(u16(flags), ...list);
}

export const PERSISTENT: Properties = { deliveryMode: 2 };

export interface Publish {
  readonly mandatory?: boolean;
  readonly immediate?: boolean;
  readonly properties?: Properties;
  /** Bytes of one body frame's payload; whole by default. */
  readonly split?: number;
}

export function publishMethod(
  channel: number,
  exchange: string,
  routingKey: string,
  { mandatory, immediate }: Publish = {},
): Uint8Array<ArrayBuffer> {
  return method(
    channel,
    60,
    40,
    u16(0),
    short(exchange),
    short(routingKey),
    bits(mandatory, immediate),
  );
}

export function contentHeader(
  channel: number,
  size: number,
  props: Uint8Array = properties(),
): Uint8Array<ArrayBuffer> {
  return frame(2, channel, join(u16(60), u16(0), u64(size), props));
}

/** basic.publish with its content. */
export function publish(
  channel: number,
  exchange: string,
  routingKey: string,
  body: string | Uint8Array,
  options: Publish = {},
): Uint8Array<ArrayBuffer> {
  const bytes = typeof body === "string" ? encoder.encode(body) : body;
  const parts = [
    publishMethod(channel, exchange, routingKey, options),
    contentHeader(channel, bytes.length, properties(options.properties)),
  ];
  const split = options.split ?? Math.max(1, bytes.length);
  for (let at = 0; at < bytes.length; at += split) {
    parts.push(frame(3, channel, bytes.subarray(at, at + split)));
  }
  return join(...parts);
}

// ---------------------------------------------------------------------------------- server to client

/** A frame as it came. */
export interface Frame {
  readonly type: number;
  readonly channel: number;
  readonly payload: Uint8Array;
}

/** Frames at the start of `bytes`, and how many bytes they took. */
export function splitFrames(bytes: Uint8Array): { frames: Frame[]; taken: number } {
  const frames: Frame[] = [];
  let at = 0;
  while (bytes.length - at >= 7) {
    const view = new DataView(bytes.buffer, bytes.byteOffset + at);
    const size = view.getUint32(3);
    if (bytes.length - at < size + 8) break;
    if (bytes[at + size + 7] !== 0xce) throw new Error("a frame of the server has a bad end");
    frames.push({
      type: bytes[at],
      channel: view.getUint16(1),
      payload: bytes.slice(at + 7, at + 7 + size),
    });
    at += size + 8;
  }
  return { frames, taken: at };
}

/** Reads arguments one after another. */
export class ArgumentReader {
  at = 0;
  constructor(private readonly bytes: Uint8Array) {}

  #view(size: number): DataView {
    const view = new DataView(this.bytes.buffer, this.bytes.byteOffset + this.at, size);
    this.at += size;
    return view;
  }
  octet(): number {
    return this.#view(1).getUint8(0);
  }
  u16(): number {
    return this.#view(2).getUint16(0);
  }
  u32(): number {
    return this.#view(4).getUint32(0);
  }
  u64(): number {
    return Number(this.#view(8).getBigUint64(0));
  }
  raw(length: number): Uint8Array {
    const raw = this.bytes.slice(this.at, this.at + length);
    this.at += length;
    return raw;
  }
  short(): string {
    return decoder.decode(this.raw(this.octet()));
  }
  long(): string {
    return decoder.decode(this.raw(this.u32()));
  }
  rest(): Uint8Array {
    return this.raw(this.bytes.length - this.at);
  }
}

/** What the server says, as far as tests ask. */
export interface ServerMethod {
  readonly name: string;
  readonly channel: number;
  // deno-lint-ignore no-explicit-any
  readonly [argument: string]: any;
}

type Shape = readonly (readonly [
  name: string,
  domain: "u8" | "u16" | "u32" | "u64" | "short" | "long" | "bit" | "table",
])[];

const CLOSE_SHAPE: Shape = [["code", "u16"], ["text", "short"], ["classId", "u16"], [
  "methodId",
  "u16",
]];

const SERVER_METHODS: Readonly<Record<string, readonly [name: string, shape: Shape]>> = {
  "10.10": ["start", [
    ["major", "u8"],
    ["minor", "u8"],
    ["properties", "table"],
    ["mechanisms", "long"],
    ["locales", "long"],
  ]],
  "10.30": ["tune", [["channelMax", "u16"], ["frameMax", "u32"], ["heartbeat", "u16"]]],
  "10.41": ["open-ok", [["reserved", "short"]]],
  "10.50": ["close", CLOSE_SHAPE],
  "10.51": ["close-ok", []],
  "10.60": ["blocked", [["reason", "short"]]],
  "10.61": ["unblocked", []],
  "20.11": ["channel.open-ok", [["reserved", "long"]]],
  "20.21": ["flow-ok", [["active", "bit"]]],
  "20.40": ["channel.close", CLOSE_SHAPE],
  "20.41": ["channel.close-ok", []],
  "40.11": ["exchange.declare-ok", []],
  "40.21": ["exchange.delete-ok", []],
  "50.11": ["queue.declare-ok", [["queue", "short"], ["messages", "u32"], ["consumers", "u32"]]],
  "50.21": ["bind-ok", []],
  "50.31": ["purge-ok", [["messages", "u32"]]],
  "50.41": ["queue.delete-ok", [["messages", "u32"]]],
  "50.51": ["unbind-ok", []],
  "60.11": ["qos-ok", []],
  "60.21": ["consume-ok", [["tag", "short"]]],
  "60.30": ["cancel", [["tag", "short"], ["noWait", "bit"]]],
  "60.31": ["cancel-ok", [["tag", "short"]]],
  "60.50": ["return", [["code", "u16"], ["text", "short"], ["exchange", "short"], [
    "key",
    "short",
  ]]],
  "60.60": ["deliver", [
    ["tag", "short"],
    ["delivery", "u64"],
    ["redelivered", "bit"],
    ["exchange", "short"],
    ["key", "short"],
  ]],
  "60.71": ["get-ok", [
    ["delivery", "u64"],
    ["redelivered", "bit"],
    ["exchange", "short"],
    ["key", "short"],
    ["messages", "u32"],
  ]],
  "60.72": ["get-empty", [["reserved", "short"]]],
  "60.80": ["ack", [["delivery", "u64"], ["multiple", "bit"]]],
  "60.111": ["recover-ok", []],
  "60.120": ["nack", [["delivery", "u64"], ["multiple", "bit"]]],
  "85.11": ["select-ok", []],
};

/** The method in a frame of type 1. @throws Error for one that no server sends, or that is not whole */
export function parseMethod({ channel, payload }: Frame): ServerMethod {
  const reader = new ArgumentReader(payload);
  const id = `${reader.u16()}.${reader.u16()}`;
  const found = SERVER_METHODS[id];
  if (found === undefined) throw new Error(`the server sent method ${id}`);
  const [name, shape] = found;
  const parsed: Record<string, unknown> = { name, channel };
  for (const [argument, domain] of shape) {
    switch (domain) {
      case "u8":
        parsed[argument] = reader.octet();
        break;
      case "u16":
        parsed[argument] = reader.u16();
        break;
      case "u32":
        parsed[argument] = reader.u32();
        break;
      case "u64":
        parsed[argument] = reader.u64();
        break;
      case "short":
        parsed[argument] = reader.short();
        break;
      case "long":
        parsed[argument] = reader.long();
        break;
      case "bit":
        parsed[argument] = reader.octet() !== 0;
        break;
      case "table":
        parsed[argument] = reader.raw(reader.u32());
        break;
    }
  }
  if (name !== "nack" && reader.at !== payload.length) {
    throw new Error(`${name} has bytes left over`);
  }
  return parsed as unknown as ServerMethod;
}
