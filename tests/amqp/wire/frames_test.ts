/** Frames off the wire: whole, in pieces, many at once, and what is no frame. */
import assert from "node:assert/strict";
import { CAMPAIGN } from "../../support/campaign.ts";
import { WireFault } from "../../../src/amqp/wire/fault.ts";
import { FrameDecoder, WrongProtocol } from "../../../src/amqp/wire/frames.ts";
import { type Random, seeded } from "../../support/random.ts";
import { frame, HEADER, join, u16, u32 } from "../support/amqp_bytes.ts";

interface Seen {
  readonly type: number;
  readonly channel: number;
  readonly payload: string;
}

class Recorder {
  readonly seen: Seen[] = [];
  greetings = 0;
  /** Frames after which to pause. */
  pauseEvery = Infinity;
  greeted(): boolean {
    this.greetings++;
    return true;
  }
  frame(type: number, channel: number, bytes: Uint8Array, start: number, end: number): boolean {
    this.seen.push({ type, channel, payload: String(bytes.subarray(start, end)) });
    return this.seen.length % this.pauseEvery !== 0;
  }
}

function fault(bytes: Uint8Array): WireFault {
  try {
    new FrameDecoder(new Recorder()).decode(join(HEADER, bytes));
  } catch (error) {
    assert.ok(error instanceof WireFault, String(error));
    return error;
  }
  throw new Error("the bytes were accepted");
}

function someFrames(random: Random, count: number): { bytes: Uint8Array; seen: Seen[] } {
  const parts: Uint8Array[] = [];
  const seen: Seen[] = [];
  for (let i = 0; i < count; i++) {
    const type = random.pick([1, 2, 3, 8]);
    const channel = random.below(65_536);
    const payload = random.bytes(random.chance(0.1) ? random.below(8_000) : random.below(40));
    parts.push(frame(type, channel, payload));
    seen.push({ type, channel, payload: String(payload) });
  }
  return { bytes: join(...parts), seen };
}

Deno.test("A8 frames that arrive one byte at a time, or many in one read, are the same frames", () => {
  const random = seeded("amqp frames");
  const { bytes, seen } = someFrames(random, 40);
  const all = join(HEADER, bytes);
  const whole = new Recorder();
  new FrameDecoder(whole).decode(all);
  assert.deepEqual(whole.seen, seen);
  const bytewise = new Recorder();
  const slow = new FrameDecoder(bytewise);
  for (let i = 0; i < all.length; i++) slow.decode(all.subarray(i, i + 1));
  assert.deepEqual(bytewise.seen, seen);
  assert.equal(bytewise.greetings, 1);
  for (let round = 0; round < 50; round++) {
    const pieces = new Recorder();
    const decoder = new FrameDecoder(pieces);
    for (let at = 0; at < all.length;) {
      const next = Math.min(all.length, at + 1 + random.below(300));
      decoder.decode(all.subarray(at, next));
      at = next;
    }
    assert.deepEqual(pieces.seen, seen);
  }
});

Deno.test("a paused decoder hands over nothing until it is resumed, and loses nothing", () => {
  const random = seeded("amqp frames paused");
  const { bytes, seen } = someFrames(random, 30);
  const sink = new Recorder();
  sink.pauseEvery = 3;
  const decoder = new FrameDecoder(sink);
  decoder.decode(join(HEADER, bytes));
  assert.ok(decoder.paused);
  assert.equal(sink.seen.length, 3);
  assert.throws(() => decoder.decode(HEADER), /paused/);
  while (decoder.paused) decoder.resume();
  assert.deepEqual(sink.seen, seen);
});

Deno.test("a first byte that no AMQP 0-9-1 header has ends the exchange at once", () => {
  for (
    const text of ["GET / HTTP/1.1\r\n", "\x10\x00", "AMQP\x01\x01\x00\x0a", "AMQP\x00\x01\x00\x00"]
  ) {
    const decoder = new FrameDecoder(new Recorder());
    assert.throws(() => decoder.decode(new TextEncoder().encode(text)), WrongProtocol);
  }
});

Deno.test("501 for an unknown frame type, an oversized frame and a bad end octet", () => {
  assert.equal(fault(Uint8Array.of(4)).code, 501);
  assert.match(fault(Uint8Array.of(4)).detail, /frame type 4/);
  const large = join([1], u16(1), u32(8_193));
  assert.equal(fault(large).code, 501);
  assert.match(fault(large).detail, /8193/);
  const bad = frame(1, 1, Uint8Array.of(1, 2, 3));
  bad[bad.length - 1] = 0xcd;
  assert.equal(fault(bad).code, 501);
  assert.match(fault(bad).detail, /0xcd/);
});

Deno.test("A6 the size of a frame is judged before anything is kept of it", () => {
  const decoder = new FrameDecoder(new Recorder());
  decoder.decode(HEADER);
  assert.throws(() => decoder.decode(join([3], u16(1), u32(0xffff_ffff))), WireFault);
  const tuned = new FrameDecoder(new Recorder());
  tuned.maximumPayload = 131_072;
  tuned.decode(HEADER);
  tuned.decode(join([3], u16(1), u32(131_072), new Uint8Array(100)));
  assert.ok(tuned.carryBytes <= 256, `${tuned.carryBytes} bytes for 107`);
  // The strict limit is eight bytes less: those are tolerated, a ninth is not.
  const strict = new FrameDecoder(new Recorder());
  strict.maximumPayload = 4096;
  strict.decode(join(HEADER, frame(3, 1, new Uint8Array(4096))));
  assert.throws(() => strict.decode(frame(3, 1, new Uint8Array(4097))), WireFault);
});

Deno.test("spoiled streams end in a fault or wait for more, and never in another error", () => {
  const random = seeded("amqp frames spoiled");
  for (let round = 0; round < 2_000 * CAMPAIGN; round++) {
    const { bytes } = someFrames(random, 6);
    const all = join(HEADER, bytes);
    for (let hits = random.below(6); hits > 0; hits--) {
      all[random.below(all.length)] = random.below(256);
    }
    const decoder = new FrameDecoder(new Recorder());
    try {
      for (let at = 0; at < all.length;) {
        const next = Math.min(all.length, at + 1 + random.below(500));
        decoder.decode(all.subarray(at, next));
        at = next;
      }
    } catch (error) {
      assert.ok(error instanceof WireFault || error instanceof WrongProtocol, String(error));
    }
    assert.ok(decoder.carryBytes <= 8_200);
  }
});
