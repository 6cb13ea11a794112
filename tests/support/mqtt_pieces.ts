/** The pieces MQTT packets are made of, for tests: integers, strings, properties, the fixed header. */

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

export type Form = "1" | "2" | "4" | "v*" | "s" | "b" | "ss*";

/** Identifier and form of every property (table 2-4); `*` may repeat. */
export const FORMS: Record<keyof MqttProperties, [id: number, form: Form]> = {
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
