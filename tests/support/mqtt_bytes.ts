/**
 * MQTT as bytes, for tests that speak to the broker over a wire: what a client sends, and what a server
 * answers. Written from the standard and apart from `src/mqtt`, so that a mistake there does not excuse
 * itself here. The encoders check nothing: whatever a test asks for is what goes out.
 */
import {
  data,
  join,
  type Level,
  type MqttProperties,
  packet,
  properties,
  text,
  two,
} from "./mqtt_pieces.ts";

export * from "./mqtt_pieces.ts";
export * from "./mqtt_server_packets.ts";

const utf8 = new TextEncoder();

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
