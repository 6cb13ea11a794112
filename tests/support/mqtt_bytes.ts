/**
 * MQTT as bytes, for tests that speak to the broker over a wire: what a client sends, and what a server
 * answers. Written from the standard and apart from `src/mqtt`, so that a mistake there does not excuse
 * itself here. The encoders check nothing: whatever a test asks for is what goes out.
 */

export type Level = 4 | 5;
export type Pair = readonly [name: string, value: string];
export type Piece = Uint8Array | readonly number[];

/** Every property by name. Numbers and strings as the standard has them. */
export interface MqttProperties {
  payloadFormat?: number;
  messageExpiry?: number;
  contentType?: string;
  responseTopic?: string;
  correlationData?: Uint8Array;
  subscriptionIdentifiers?: readonly number[];
  sessionExpiry?: number;
  assignedClientId?: string;
  serverKeepAlive?: number;
  authenticationMethod?: string;
  authenticationData?: Uint8Array;
  requestProblemInformation?: number;
  willDelay?: number;
  requestResponseInformation?: number;
  responseInformation?: string;
  serverReference?: string;
  reasonString?: string;
  receiveMaximum?: number;
  topicAliasMaximum?: number;
  topicAlias?: number;
  maximumQoS?: number;
  retainAvailable?: number;
  userProperties?: readonly Pair[];
  maximumPacketSize?: number;
  wildcardSubscriptionAvailable?: number;
  subscriptionIdentifierAvailable?: number;
  sharedSubscriptionAvailable?: number;
}

type Form = "1" | "2" | "4" | "v*" | "s" | "b" | "ss*";

const FORMS: Record<keyof MqttProperties, [id: number, form: Form]> = {
  payloadFormat: [0x01, "1"],
  messageExpiry: [0x02, "4"],
  contentType: [0x03, "s"],
  responseTopic: [0x08, "s"],
  correlationData: [0x09, "b"],
  subscriptionIdentifiers: [0x0b, "v*"],
  sessionExpiry: [0x11, "4"],
  assignedClientId: [0x12, "s"],
  serverKeepAlive: [0x13, "2"],
  authenticationMethod: [0x15, "s"],
  authenticationData: [0x16, "b"],
  requestProblemInformation: [0x17, "1"],
  willDelay: [0x18, "4"],
  requestResponseInformation: [0x19, "1"],
  responseInformation: [0x1a, "s"],
  serverReference: [0x1c, "s"],
  reasonString: [0x1f, "s"],
  receiveMaximum: [0x21, "2"],
  topicAliasMaximum: [0x22, "2"],
  topicAlias: [0x23, "2"],
  maximumQoS: [0x24, "1"],
  retainAvailable: [0x25, "1"],
  userProperties: [0x26, "ss*"],
  maximumPacketSize: [0x27, "4"],
  wildcardSubscriptionAvailable: [0x28, "1"],
  subscriptionIdentifierAvailable: [0x29, "1"],
  sharedSubscriptionAvailable: [0x2a, "1"],
};

// -------------------------------------------------------------------------------------- pieces

const utf8 = new TextEncoder();

export function join(...pieces: Piece[]): Uint8Array<ArrayBuffer> {
  const whole = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
  let at = 0;
  for (const piece of pieces) {
    whole.set(piece, at);
    at += piece.length;
  }
  return whole;
}

/** `"10 02 ff"` as bytes; blanks mean nothing. */
export function hex(text: string): Uint8Array<ArrayBuffer> {
  const digits = text.replace(/\s+/g, "");
  if (!/^([0-9a-fA-F]{2})*$/.test(digits)) throw new Error(`hex: "${text}" is not whole bytes`);
  return Uint8Array.from({ length: digits.length / 2 }, (_, i) => {
    return Number.parseInt(digits.slice(2 * i, 2 * i + 2), 16);
  });
}

export function two(value: number): number[] {
  return [Math.floor(value / 256) % 256, value % 256];
}

export function four(value: number): number[] {
  return [...two(Math.floor(value / 65536)), ...two(value % 65536)];
}

/** Variable Byte Integer. */
export function variable(value: number): number[] {
  const digits: number[] = [];
  do {
    digits.push(value % 128);
    value = Math.floor(value / 128);
  } while (value > 0);
  return digits.map((digit, i) => i < digits.length - 1 ? digit + 128 : digit);
}

/** Binary Data; also a string that is deliberately no UTF-8. */
export function data(bytes: Piece): Uint8Array {
  return join(two(bytes.length), bytes);
}

export function text(value: string): Uint8Array {
  return data(utf8.encode(value));
}

/** One property as bytes, identifier included. */
export function property(name: keyof MqttProperties, value: unknown): Uint8Array {
  const [id, form] = FORMS[name];
  switch (form) {
    case "1":
      return join([id, value as number]);
    case "2":
      return join([id], two(value as number));
    case "4":
      return join([id], four(value as number));
    case "s":
      return join([id], text(value as string));
    case "b":
      return join([id], data(value as Uint8Array));
    case "v*":
      return join(...(value as number[]).map((each) => join([id], variable(each))));
    case "ss*":
      return join(...(value as Pair[]).map(([n, v]) => join([id], text(n), text(v))));
  }
}

/** A property section, its length included; keys that are undefined stay out. */
export function properties(values: MqttProperties = {}): Uint8Array {
  const entries = Object.entries(values) as [keyof MqttProperties, unknown][];
  return section(
    ...entries.filter(([, value]) => value !== undefined).map(([name, value]) => {
      return property(name, value);
    }),
  );
}

/** A property section of raw pieces, its length included. */
export function section(...pieces: Piece[]): Uint8Array {
  const all = join(...pieces);
  return join(variable(all.length), all);
}

/** A packet: first byte, Remaining Length, body. */
export function packet(first: number, ...body: Piece[]): Uint8Array<ArrayBuffer> {
  const all = join(...body);
  return join([first], variable(all.length), all);
}

function asBytes(value: string | Uint8Array): Uint8Array {
  return typeof value === "string" ? utf8.encode(value) : value;
}

function onlyFive(level: Level | undefined, values: MqttProperties | undefined): Uint8Array {
  return level === 4 ? new Uint8Array(0) : properties(values);
}

// ------------------------------------------------------------------------- what a client sends

export interface ConnectOptions {
  /** 5 when absent, as everywhere below. */
  level?: Level;
  clientId?: string;
  cleanStart?: boolean;
  keepAlive?: number;
  userName?: string;
  password?: string | Uint8Array;
  properties?: MqttProperties;
  will?: {
    topic: string;
    payload: string | Uint8Array;
    qos?: number;
    retain?: boolean;
    properties?: MqttProperties;
  };
}

export function encodeConnect(options: ConnectOptions = {}): Uint8Array<ArrayBuffer> {
  const { level = 5, clientId = "", cleanStart = true, keepAlive = 0, will } = options;
  const flags = (cleanStart ? 2 : 0) +
    (will === undefined ? 0 : 4 + 8 * (will.qos ?? 0) + (will.retain ? 32 : 0)) +
    (options.password === undefined ? 0 : 64) + (options.userName === undefined ? 0 : 128);
  return packet(
    0x10,
    text("MQTT"),
    [level, flags],
    two(keepAlive),
    onlyFive(level, options.properties),
    text(clientId),
    ...(will === undefined
      ? []
      : [onlyFive(level, will.properties), text(will.topic), data(asBytes(will.payload))]),
    options.userName === undefined ? [] : text(options.userName),
    options.password === undefined ? [] : data(asBytes(options.password)),
  );
}

export interface PublishOptions {
  level?: Level;
  topic: string;
  payload?: string | Uint8Array;
  qos?: number;
  retain?: boolean;
  dup?: boolean;
  /** 1 when absent; not sent at QoS 0. */
  packetId?: number;
  properties?: MqttProperties;
}

export function encodePublish(options: PublishOptions): Uint8Array<ArrayBuffer> {
  const { qos = 0, packetId = 1 } = options;
  return packet(
    0x30 + (options.dup ? 8 : 0) + 2 * qos + (options.retain ? 1 : 0),
    text(options.topic),
    qos > 0 ? two(packetId) : [],
    onlyFive(options.level, options.properties),
    asBytes(options.payload ?? ""),
  );
}

export interface AcknowledgementOptions {
  packetId: number;
  reasonCode?: number;
  properties?: MqttProperties;
}

/** The shortest form that says what was asked: the code and the properties only when given. */
function acknowledgement(first: number, options: AcknowledgementOptions): Uint8Array<ArrayBuffer> {
  const { packetId, reasonCode, properties: values } = options;
  return packet(
    first,
    two(packetId),
    reasonCode === undefined && values === undefined ? [] : [reasonCode ?? 0],
    values === undefined ? [] : properties(values),
  );
}

export function encodePuback(options: AcknowledgementOptions): Uint8Array<ArrayBuffer> {
  return acknowledgement(0x40, options);
}

export function encodePubrec(options: AcknowledgementOptions): Uint8Array<ArrayBuffer> {
  return acknowledgement(0x50, options);
}

export function encodePubrel(options: AcknowledgementOptions): Uint8Array<ArrayBuffer> {
  return acknowledgement(0x62, options);
}

export function encodePubcomp(options: AcknowledgementOptions): Uint8Array<ArrayBuffer> {
  return acknowledgement(0x70, options);
}

export interface SubscribeOptions {
  level?: Level;
  packetId?: number;
  subscriptions: readonly {
    filter: string;
    qos?: number;
    noLocal?: boolean;
    retainAsPublished?: boolean;
    retainHandling?: number;
  }[];
  properties?: MqttProperties;
}

export function encodeSubscribe(options: SubscribeOptions): Uint8Array<ArrayBuffer> {
  return packet(
    0x82,
    two(options.packetId ?? 1),
    onlyFive(options.level, options.properties),
    ...options.subscriptions.map((each) => {
      const bits = (each.qos ?? 0) + (each.noLocal ? 4 : 0) + (each.retainAsPublished ? 8 : 0) +
        16 * (each.retainHandling ?? 0);
      return join(text(each.filter), [bits]);
    }),
  );
}

export interface UnsubscribeOptions {
  level?: Level;
  packetId?: number;
  filters: readonly string[];
  properties?: MqttProperties;
}

export function encodeUnsubscribe(options: UnsubscribeOptions): Uint8Array<ArrayBuffer> {
  return packet(
    0xa2,
    two(options.packetId ?? 1),
    onlyFive(options.level, options.properties),
    ...options.filters.map(text),
  );
}

export function encodePingreq(): Uint8Array<ArrayBuffer> {
  return packet(0xc0);
}

export interface ReasonOptions {
  reasonCode?: number;
  properties?: MqttProperties;
}

/** With no options the two bytes that both levels know. */
export function encodeDisconnect(options: ReasonOptions = {}): Uint8Array<ArrayBuffer> {
  return reasoned(0xe0, options);
}

export function encodeAuth(options: ReasonOptions = {}): Uint8Array<ArrayBuffer> {
  return reasoned(0xf0, options);
}

function reasoned(first: number, options: ReasonOptions): Uint8Array<ArrayBuffer> {
  const { reasonCode, properties: values } = options;
  return packet(
    first,
    reasonCode === undefined && values === undefined ? [] : [reasonCode ?? 0],
    values === undefined ? [] : properties(values),
  );
}

// ---------------------------------------------------------------------- what a server answers

interface ServerAcknowledgement {
  packetId: number;
  reasonCode: number;
  properties: MqttProperties;
}

export type ServerPacket =
  | {
    type: "connack";
    sessionPresent: boolean;
    reasonCode: number;
    properties: MqttProperties;
  }
  | {
    type: "publish";
    dup: boolean;
    qos: number;
    retain: boolean;
    topic: string;
    packetId: number;
    payload: Uint8Array;
    properties: MqttProperties;
  }
  | ({ type: "puback" } & ServerAcknowledgement)
  | ({ type: "pubrec" } & ServerAcknowledgement)
  | ({ type: "pubrel" } & ServerAcknowledgement)
  | ({ type: "pubcomp" } & ServerAcknowledgement)
  | { type: "suback"; packetId: number; reasonCodes: number[]; properties: MqttProperties }
  | { type: "unsuback"; packetId: number; reasonCodes: number[]; properties: MqttProperties }
  | { type: "pingresp" }
  | { type: "disconnect"; reasonCode: number; properties: MqttProperties };

const NAMES = new Map(
  (Object.entries(FORMS) as [keyof MqttProperties, [number, Form]][]).map(
    ([name, [id, form]]) => [id, { name, form }],
  ),
);

/** Takes fields off the front of a packet; every misfit is an Error. */
class Fields {
  #left: Uint8Array;
  constructor(bytes: Uint8Array) {
    this.#left = bytes;
  }

  get empty(): boolean {
    return this.#left.length === 0;
  }

  take(count: number): Uint8Array {
    if (count > this.#left.length) {
      throw new Error(`server packet: ${count} bytes wanted, ${this.#left.length} left`);
    }
    const taken = this.#left.slice(0, count);
    this.#left = this.#left.subarray(count);
    return taken;
  }

  number(bytes: number): number {
    return this.take(bytes).reduce((value, byte) => value * 256 + byte, 0);
  }

  variable(): number {
    let value = 0;
    for (let factor = 1; factor <= 128 ** 3; factor *= 128) {
      const byte = this.number(1);
      value += (byte % 128) * factor;
      if (byte < 128) {
        if (byte === 0 && factor > 1) throw new Error("server packet: a length in too many bytes");
        return value;
      }
    }
    throw new Error("server packet: a length of more than four bytes");
  }

  data(): Uint8Array {
    return this.take(this.number(2));
  }

  text(): string {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(this.data());
  }

  rest(): Uint8Array {
    return this.take(this.#left.length);
  }

  end(): void {
    if (!this.empty) throw new Error(`server packet: ${this.#left.length} bytes too many`);
  }

  properties(): MqttProperties {
    const inner = new Fields(this.take(this.variable()));
    const found: Record<string, unknown> = {};
    while (!inner.empty) {
      const id = inner.variable();
      const row = NAMES.get(id);
      if (row === undefined) throw new Error(`server packet: property ${id} does not exist`);
      const { name, form } = row;
      if (form === "v*") {
        found[name] = [...(found[name] as number[] | undefined ?? []), inner.variable()];
      } else if (form === "ss*") {
        const pair: Pair = [inner.text(), inner.text()];
        found[name] = [...(found[name] as Pair[] | undefined ?? []), pair];
      } else {
        if (name in found) throw new Error(`server packet: ${name} twice`);
        found[name] = form === "s"
          ? inner.text()
          : form === "b"
          ? inner.data()
          : inner.number(Number(form));
      }
    }
    return found;
  }
}

/**
 * The first packet in `bytes` and how many bytes it takes, or undefined when it is not complete yet.
 * Properties that were not sent are absent. Throws when a server may not send such bytes.
 */
export function parseServerPacket(
  bytes: Uint8Array,
  level: Level = 5,
): { packet: ServerPacket; size: number } | undefined {
  let digits = 1;
  while (digits < bytes.length && bytes[digits] >= 128) digits++;
  if (digits >= bytes.length && digits < 5) return undefined;
  const length = new Fields(bytes.slice(1, digits + 1)).variable();
  const size = 1 + digits + length;
  if (bytes.length < size) return undefined;
  const fields = new Fields(bytes.subarray(1 + digits, size));
  const parsed = parseBody(bytes[0], fields, level);
  fields.end();
  return { packet: parsed, size };
}

/** Every packet in `bytes`, which must end with one. */
export function parseServerPackets(bytes: Uint8Array, level: Level = 5): ServerPacket[] {
  const packets: ServerPacket[] = [];
  let at = 0;
  while (at < bytes.length) {
    const next = parseServerPacket(bytes.subarray(at), level);
    if (next === undefined) throw new Error(`server packets: the last one is cut short at ${at}`);
    packets.push(next.packet);
    at += next.size;
  }
  return packets;
}

function parseBody(first: number, fields: Fields, level: Level): ServerPacket {
  const five = level === 5;
  if (first >> 4 === 3) return parsePublish(first, fields, five);
  switch (first) {
    case 0x20: {
      const flags = fields.number(1);
      if (flags > 1) throw new Error("server packet: reserved CONNACK flags");
      const reasonCode = fields.number(1);
      return {
        type: "connack",
        sessionPresent: flags === 1,
        reasonCode,
        properties: five ? fields.properties() : {},
      };
    }
    case 0x40:
      return { type: "puback", ...parseAcknowledgement(fields, five) };
    case 0x50:
      return { type: "pubrec", ...parseAcknowledgement(fields, five) };
    case 0x62:
      return { type: "pubrel", ...parseAcknowledgement(fields, five) };
    case 0x70:
      return { type: "pubcomp", ...parseAcknowledgement(fields, five) };
    case 0x90:
      return { type: "suback", ...parseCodes(fields, five) };
    case 0xb0:
      return { type: "unsuback", ...parseCodes(fields, five) };
    case 0xd0:
      return { type: "pingresp" };
    case 0xe0: {
      if (!five) throw new Error("server packet: a DISCONNECT at level 4");
      const reasonCode = fields.empty ? 0 : fields.number(1);
      return {
        type: "disconnect",
        reasonCode,
        properties: fields.empty ? {} : fields.properties(),
      };
    }
    default:
      throw new Error(`server packet: first byte 0x${first.toString(16)}`);
  }
}

function parsePublish(first: number, fields: Fields, five: boolean): ServerPacket {
  const qos = (first >> 1) & 3;
  if (qos === 3) throw new Error("server packet: PUBLISH with QoS 3");
  const topic = fields.text();
  const packetId = qos > 0 ? fields.number(2) : 0;
  if (qos > 0 && packetId === 0) throw new Error("server packet: packet identifier 0");
  return {
    type: "publish",
    dup: (first & 8) !== 0,
    qos,
    retain: (first & 1) !== 0,
    topic,
    packetId,
    properties: five ? fields.properties() : {},
    payload: fields.rest(),
  };
}

function parseAcknowledgement(fields: Fields, five: boolean): ServerAcknowledgement {
  const packetId = fields.number(2);
  const reasonCode = five && !fields.empty ? fields.number(1) : 0;
  return {
    packetId,
    reasonCode,
    properties: five && !fields.empty ? fields.properties() : {},
  };
}

function parseCodes(
  fields: Fields,
  five: boolean,
): { packetId: number; reasonCodes: number[]; properties: MqttProperties } {
  const packetId = fields.number(2);
  const values = five ? fields.properties() : {};
  return { packetId, properties: values, reasonCodes: [...fields.rest()] };
}
