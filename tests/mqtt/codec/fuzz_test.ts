import assert from "node:assert/strict";
import { Decoder } from "../../../src/mqtt/codec/decoder.ts";
import { MalformedPacket } from "../../../src/mqtt/codec/fault.ts";
import type { InboundPacket } from "../../../src/mqtt/packet.ts";
import { bytesOf, generateStream, mutate } from "../../support/generate_packets.ts";
import { type Random, seeded } from "../../support/random.ts";
import { CAMPAIGN } from "../../support/campaign.ts";

const STREAMS = 10_000 * CAMPAIGN;
const LIMITS = { maximumPacketSize: 8192, maximumConnectSize: 2048 };
/** The level of an oversize CONNECT stands at most this far into it. */
const LONGEST_OPENING = 14;

const CODES = new Set([0x81, 0x82, 0x84, 0x90, 0x94, 0x95]);

interface Run {
  readonly packets: InboundPacket[];
  readonly fault: MalformedPacket | undefined;
}

/** Decodes `bytes` in random pieces, with random pauses, and checks the bounds after each piece. */
function runInPieces(random: Random, bytes: Uint8Array): Run {
  const decoder = new Decoder(LIMITS);
  const packets: InboundPacket[] = [];
  const pauses = random.chance(0.3);
  const take = (packet: InboundPacket) => {
    packets.push(packet);
    return !(pauses && random.chance(0.3));
  };
  let fault: MalformedPacket | undefined;
  for (let at = 0; at < bytes.length && fault === undefined;) {
    const piece = bytes.slice(at, at + random.pick([1, 2, 7, 100, 5000]));
    at += piece.length;
    fault = decoder.decode(piece, take);
    while (decoder.paused && fault === undefined) fault = decoder.resume(take);
    const most = Math.max(
      64,
      Math.min(2 * at, LIMITS.maximumPacketSize),
      decoder.level === undefined ? LONGEST_OPENING : 0,
    );
    assert.ok(decoder.carryBytes <= most, `${decoder.carryBytes} bytes kept of ${at}`);
  }
  if (fault !== undefined) {
    assert.equal(decoder.carryBytes, 0);
    assert.equal(decoder.decode(bytes, take), fault);
  }
  return { packets, fault };
}

function runWhole(bytes: Uint8Array): Run {
  const packets: InboundPacket[] = [];
  const fault = new Decoder(LIMITS).decode(bytes.slice(), (packet) => {
    packets.push(packet);
  });
  return { packets, fault };
}

Deno.test("10,000 spoiled streams: no error but MalformedPacket, no memory beyond the bound", () => {
  const random = seeded("fuzz");
  let faults = 0;
  for (let i = 0; i < STREAMS; i++) {
    const stream = generateStream(random, random.pick([4, 5]), random.below(6));
    const bytes = mutate(random, bytesOf(stream));
    const show = () => Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
    let whole: Run;
    let pieces: Run;
    try {
      whole = runWhole(bytes);
      pieces = runInPieces(random, bytes);
    } catch (error) {
      throw new Error(`stream ${i}: ${show()}`, { cause: error });
    }
    assert.deepEqual(pieces, whole, `stream ${i}, whole or in pieces: ${show()}`);
    const { fault } = whole;
    if (fault === undefined) continue;
    faults++;
    assert.ok(fault instanceof MalformedPacket);
    assert.ok(CODES.has(fault.code), `code 0x${fault.code.toString(16)}: ${show()}`);
    assert.ok(fault.reason.length > 0);
    assert.equal(fault.inConnect, whole.packets.length === 0);
  }
  assert.ok(faults > STREAMS / 4, `only ${faults} of ${STREAMS} streams had a fault`);
});

Deno.test("1,000 streams of nothing but chance are faults or wait for more", () => {
  const random = seeded("noise");
  for (let i = 0; i < 1_000; i++) {
    const bytes = random.bytes(random.between(1, 300));
    // Half of them look like a CONNECT at first, or they would all end at their first byte.
    if (random.chance(0.5)) bytes[0] = 0x10;
    if (random.chance(0.5)) {
      bytes.set([0x10, 0x7f, 0, 4, 0x4d, 0x51, 0x54, 0x54, 5].slice(0, bytes.length));
    }
    const whole = runWhole(bytes);
    assert.deepEqual(runInPieces(random, bytes), whole);
  }
});
