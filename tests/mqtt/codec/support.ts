import assert from "node:assert/strict";
import { Decoder } from "../../../src/mqtt/codec/decoder.ts";
import type { MalformedPacket } from "../../../src/mqtt/codec/fault.ts";
import type { InboundPacket } from "../../../src/mqtt/packet.ts";
import { encodeConnect, type Level } from "../../support/mqtt_bytes.ts";
import { present } from "../../support/generate_packets.ts";

export const LIMITS = { maximumPacketSize: 1 << 20, maximumConnectSize: 100 * 1024 };

/** What a decoder made of a whole connection. */
export interface Outcome {
  /** Without undefined keys. */
  readonly packets: InboundPacket[];
  readonly fault: MalformedPacket | undefined;
}

/** Decodes `chunks` one after another with a fresh decoder; stops at a fault. */
export function decodeAll(chunks: Iterable<Uint8Array>, limits = LIMITS): Outcome {
  const decoder = new Decoder(limits);
  const packets: InboundPacket[] = [];
  for (const chunk of chunks) {
    const fault = decoder.decode(chunk, (packet) => {
      packets.push(present(packet));
    });
    if (fault !== undefined) return { packets, fault };
  }
  return { packets, fault: undefined };
}

/** The one packet that follows a CONNECT of that level. */
export function decodeOne(level: Level, bytes: Uint8Array): InboundPacket {
  const { packets, fault } = decodeAll([encodeConnect({ level }), bytes]);
  assert.equal(fault, undefined, fault?.reason);
  assert.equal(packets.length, 2);
  return packets[1];
}

/** The CONNECT alone. */
export function decodeConnect(bytes: Uint8Array): InboundPacket {
  const { packets, fault } = decodeAll([bytes]);
  assert.equal(fault, undefined, fault?.reason);
  assert.equal(packets.length, 1);
  return packets[0];
}

/** The fault of bytes that follow a CONNECT of that level. */
export function faultAfterConnect(level: Level, bytes: Uint8Array): MalformedPacket {
  const { packets, fault } = decodeAll([encodeConnect({ level }), bytes]);
  assert.ok(fault !== undefined, `no fault, but ${JSON.stringify(packets[1])}`);
  assert.equal(packets.length, 1, "the faulty packet was handed out");
  assert.equal(fault.inConnect, false);
  assert.equal(fault.level, level);
  return fault;
}

/** The fault of a connection's first bytes. */
export function faultInConnect(bytes: Uint8Array): MalformedPacket {
  const { packets, fault } = decodeAll([bytes]);
  assert.ok(fault !== undefined, `no fault, but ${JSON.stringify(packets[0])}`);
  assert.equal(packets.length, 0, "the faulty packet was handed out");
  assert.equal(fault.inConnect, true);
  return fault;
}
