/** Reading what a server sends, for tests: strict, and apart from the codec in `src`. */
import { type Form, FORMS, type Level, type MqttProperties, type Pair } from "./mqtt_pieces.ts";

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
