/**
 * The few bytes a load needs, made once before the clock starts. Section numbers are MQTT 5's; level
 * 4 (3.1.1) is the same without the property lengths.
 */

export type Level = 4 | 5;

const encoder = new TextEncoder();

/** CONNECT with a clean session and keep-alive off. */
export function connectPacket(level: Level, clientId: string): Uint8Array<ArrayBuffer> {
  const id = encoder.encode(clientId);
  const properties = level === 5 ? [0] : [];
  const body = [0, 4, 0x4d, 0x51, 0x54, 0x54, level, 0x02, 0, 0, ...properties];
  body.push(id.length >> 8, id.length & 0xff, ...id);
  return Uint8Array.from([0x10, ...remainingLength(body.length), ...body]);
}

/** A QoS 1 PUBLISH. */
export function publishPacket(
  level: Level,
  topic: string,
  packetId: number,
  payload: Uint8Array,
): Uint8Array<ArrayBuffer> {
  const name = encoder.encode(topic);
  const head = [name.length >> 8, name.length & 0xff, ...name, packetId >> 8, packetId & 0xff];
  if (level === 5) head.push(0);
  const first = [0x32, ...remainingLength(head.length + payload.length)];
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

  constructor(level: Level, topic: string, readonly count: number, payload: Uint8Array) {
    const first = publishPacket(level, topic, 1, payload);
    this.packetBytes = first.length;
    this.#ring = new Uint8Array(2 * count * first.length);
    for (let i = 0; i < 2 * count; i++) {
      this.#ring.set(publishPacket(level, topic, 1 + i % count, payload), i * first.length);
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
