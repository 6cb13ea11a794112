/**
 * The few bytes a load needs, made once before the clock starts. Section numbers are MQTT 5's; level
 * 4 (3.1.1) is the same without the property lengths.
 */

export type Level = 4 | 5;

const encoder = new TextEncoder();

/** What a CONNECT asks for; keep-alive is off. */
export interface ConnectWish {
  readonly level: Level;
  readonly clientId: string;
  /** Seconds for which the session outlives its connection; 3.1.1 knows only whether it does. */
  readonly expiry?: number;
  /** Deliveries out at a time; MQTT 5 only. */
  readonly receiveMaximum?: number;
}

export function connectPacket(wish: ConnectWish): Uint8Array<ArrayBuffer> {
  const { level, clientId, expiry = 0, receiveMaximum } = wish;
  const id = encoder.encode(clientId);
  const flags = expiry === 0 ? 0x02 : 0;
  const body = [0, 4, 0x4d, 0x51, 0x54, 0x54, level, flags, 0, 0];
  if (level === 5) {
    const properties = expiry === 0 ? [] : [0x11, ...fourBytes(expiry)];
    if (receiveMaximum !== undefined) {
      properties.push(0x21, receiveMaximum >> 8, receiveMaximum & 0xff);
    }
    body.push(properties.length, ...properties);
  }
  body.push(id.length >> 8, id.length & 0xff, ...id);
  return Uint8Array.from([0x10, ...remainingLength(body.length), ...body]);
}

function fourBytes(value: number): number[] {
  return [value >>> 24, value >>> 16 & 0xff, value >>> 8 & 0xff, value & 0xff];
}

/** SUBSCRIBE to one filter, under packet identifier 1. */
export function subscribePacket(
  level: Level,
  filter: string,
  qos: number,
): Uint8Array<ArrayBuffer> {
  const name = encoder.encode(filter);
  const body = [0, 1, ...(level === 5 ? [0] : []), name.length >> 8, name.length & 0xff, ...name];
  body.push(qos);
  return Uint8Array.from([0x82, ...remainingLength(body.length), ...body]);
}

/** A PUBLISH; one of QoS 0 has no packet identifier. */
export function publishPacket(
  level: Level,
  topic: string,
  packetId: number,
  payload: Uint8Array,
  qos: 0 | 1 = 1,
): Uint8Array<ArrayBuffer> {
  const name = encoder.encode(topic);
  const head = [name.length >> 8, name.length & 0xff, ...name];
  if (qos !== 0) head.push(packetId >> 8, packetId & 0xff);
  if (level === 5) head.push(0);
  const first = [0x30 | qos << 1, ...remainingLength(head.length + payload.length)];
  const packet = new Uint8Array(first.length + head.length + payload.length);
  packet.set(first);
  packet.set(head, first.length);
  packet.set(payload, first.length + head.length);
  return packet;
}

/** Variable byte integer (1.5.5). */
function remainingLength(length: number): number[] {
  const bytes = [];
  for (;;) {
    const low = length & 0x7f;
    length >>>= 7;
    if (length === 0) return [...bytes, low];
    bytes.push(low | 0x80);
  }
}

/**
 * PUBLISH packets with the identifiers 1 to `count` in a row, and the same row once more behind it:
 * any stretch of up to `count` packets, also across the end, is one piece of memory.
 */
export class PublishRing {
  readonly packetBytes: number;
  readonly #ring: Uint8Array<ArrayBuffer>;
  #next = 0;

  constructor(
    level: Level,
    topic: string,
    readonly count: number,
    payload: Uint8Array,
    qos: 0 | 1 = 1,
  ) {
    const first = publishPacket(level, topic, 1, payload, qos);
    this.packetBytes = first.length;
    this.#ring = new Uint8Array(2 * count * first.length);
    for (let i = 0; i < 2 * count; i++) {
      this.#ring.set(publishPacket(level, topic, 1 + i % count, payload, qos), i * first.length);
    }
  }

  /** The bytes of the next `packets` publishes (at most `count`). A view: write it, don't keep it. */
  take(packets: number): Uint8Array<ArrayBuffer> {
    const from = this.#next;
    this.#next = (from + packets) % this.count;
    return this.#ring.subarray(from * this.packetBytes, (from + packets) * this.packetBytes);
  }
}

/** Counts whole PUBACKs in a stream cut anywhere. */
export class PubackCounter {
  /** Bytes of the packet under way: 0 none, 1 type seen, more: body bytes still to come, plus 1. */
  #state = 0;
  /** Place in the body, to see the reason code. */
  #at = 0;

  /**
   * How many PUBACKs ended in these bytes.
   * @throws Error on any other packet, and on a PUBACK that says no (3.4.2.1: 0x80 and above)
   */
  take(bytes: Uint8Array, length: number): number {
    let ended = 0;
    let i = 0;
    while (i < length) {
      if (this.#state === 0) {
        // The usual case whole: 40 02 id id.
        if (i + 4 <= length && bytes[i] === 0x40 && bytes[i + 1] === 2) {
          i += 4;
          ended++;
          continue;
        }
        if (bytes[i] !== 0x40) throw new Error(`a packet of type ${bytes[i] >> 4}, not a PUBACK`);
        this.#state = 1;
        i++;
      } else if (this.#state === 1) {
        this.#state = bytes[i++] + 1;
        this.#at = 0;
        if (this.#state > 0x80) throw new Error("a PUBACK of more than 127 bytes");
      } else {
        if (this.#at === 2 && bytes[i] >= 0x80) {
          throw new Error(`a PUBACK with reason code 0x${bytes[i].toString(16)}`);
        }
        this.#at++;
        i++;
        if (--this.#state === 1) {
          this.#state = 0;
          ended++;
        }
      }
    }
    return ended;
  }
}
