import assert from "node:assert/strict";
import { Decoder, readOpening } from "../../../src/mqtt/codec/decoder.ts";
import type { InboundPacket } from "../../../src/mqtt/packet.ts";
import {
  encodeConnect,
  encodePingreq,
  encodePublish,
  hex,
  join,
  packet,
  text,
} from "../../support/mqtt_bytes.ts";
import { bytesOf, generateStream, present } from "../../support/generate_packets.ts";
import { type Random, seeded } from "../../support/random.ts";
import { decodeAll, faultAfterConnect, LIMITS } from "./support.ts";

function newDecoder(limits = LIMITS): { decoder: Decoder; packets: InboundPacket[] } {
  return { decoder: new Decoder(limits), packets: [] };
}

function pieces(random: Random, bytes: Uint8Array): Uint8Array[] {
  const cuts: Uint8Array[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = random.chance(0.3) ? random.between(1, 4) : random.between(1, 2000);
    cuts.push(bytes.slice(at, at + length));
    at += length;
  }
  return cuts;
}

Deno.test("2.1 a stream decodes alike whole, byte by byte and in random pieces", () => {
  const random = seeded("framing");
  for (let round = 0; round < 60; round++) {
    const stream = generateStream(random, random.pick([4, 5]), 12);
    const bytes = bytesOf(stream);
    const expected = stream.map((each) => each.packet);
    for (
      const chunks of [
        [bytes],
        stream.map((each) => each.bytes),
        Array.from(bytes, (byte) => Uint8Array.of(byte)),
        pieces(random, bytes),
      ]
    ) {
      const { packets, fault } = decodeAll(chunks);
      assert.equal(fault, undefined, fault?.reason);
      assert.deepEqual(packets, expected);
    }
  }
});

Deno.test("2.1 a packet's fault is the same however its bytes come in", () => {
  const bytes = join(encodeConnect(), encodePingreq(), encodePublish({ topic: "a/#" }), [0xff]);
  const whole = decodeAll([bytes]);
  const single = decodeAll(Array.from(bytes, (byte) => Uint8Array.of(byte)));
  assert.equal(whole.packets.length, 2);
  assert.deepEqual(single, whole);
});

Deno.test("the decoder learns its level from the CONNECT", () => {
  for (const level of [4, 5] as const) {
    const { decoder } = newDecoder();
    assert.equal(decoder.level, undefined);
    decoder.decode(encodeConnect({ level }), () => {});
    assert.equal(decoder.level, level);
  }
});

Deno.test("a fault ends the stream: it is given again and nothing more is decoded", () => {
  const { decoder, packets } = newDecoder();
  const keep = (packet: InboundPacket) => {
    packets.push(packet);
  };
  const fault = decoder.decode(join(encodeConnect(), [0x00], encodePingreq()), keep);
  assert.equal(fault?.code, 0x81);
  assert.equal(decoder.decode(encodePingreq(), keep), fault);
  assert.equal(packets.length, 1);
});

Deno.test("[MQTT-1.5.5-1] a Remaining Length has at most four bytes and none too many", () => {
  for (const length of ["ff ff ff ff", "80 80 80 80 01", "80 00", "ff 80 00", "81 80 80 00"]) {
    const bytes = join([0xc0], hex(length));
    assert.equal(faultAfterConnect(5, bytes).code, 0x81, length);
    assert.equal(decodeAll([join([0x10], hex(length))]).fault?.code, 0x81, length);
  }
  const decoded = decodeAll([
    encodeConnect(),
    packet(0x30, text("t"), [0], new Uint8Array(20_000)),
  ]);
  assert.equal(decoded.packets.length, 2);
});

// ---------------------------------------------------------------------------------------- limits

Deno.test("3.2.2.3.6 a packet over the Maximum Packet Size is refused on its header alone", () => {
  const limits = { maximumPacketSize: 1000, maximumConnectSize: 500 };
  const fits = packet(0x30, text("t"), [0], new Uint8Array(1000 - 3 - 4));
  assert.equal(fits.length, 1000);
  assert.equal(decodeAll([encodeConnect(), fits], limits).packets.length, 2);
  const over = packet(0x30, text("t"), [0], new Uint8Array(1000 - 3 - 3));
  const { packets, fault } = decodeAll([encodeConnect(), over.subarray(0, 3)], limits);
  assert.equal(packets.length, 1);
  assert.deepEqual(fault?.answer, { packet: "disconnect", code: 0x95 });
});

Deno.test("02a 13.3 a CONNECT over max_connect_size is refused as soon as its level is read", () => {
  const limits = { maximumPacketSize: 1000, maximumConnectSize: 100 };
  const sized = (level: number, total: number) =>
    packet(0x10, text("MQTT"), [level, 2, 0, 0], new Uint8Array(total - 2 - 10));
  assert.notEqual(decodeAll([sized(5, 100)], limits).fault?.code, 0x95, "100 bytes are allowed");
  for (const split of [9, 101, 1]) {
    const opening = sized(5, 101).subarray(0, 9); // up to the level and no further
    const chunks = split === 1 ? Array.from(opening, (byte) => Uint8Array.of(byte)) : [opening];
    const { fault } = decodeAll(chunks, limits);
    assert.deepEqual(fault?.answer, { packet: "connack", level: 5, code: 0x95 });
  }
  const four = decodeAll([sized(4, 101)], limits).fault;
  assert.equal(four?.code, 0x95);
  assert.equal(four?.answer, undefined);
  const before = decodeAll([sized(5, 101).subarray(0, 8)], limits);
  assert.equal(before.fault, undefined, "without the level there is nothing to say yet");
  const other = decodeAll([packet(0x10, text("HTTP"), new Uint8Array(200))], limits).fault;
  assert.equal(other?.answer, undefined);
});

Deno.test("02a 13.3 max_connect_size holds for the CONNECT only", () => {
  const limits = { maximumPacketSize: 1000, maximumConnectSize: 100 };
  const large = encodePublish({ topic: "t", payload: new Uint8Array(500) });
  assert.equal(decodeAll([encodeConnect(), large], limits).fault, undefined);
});

Deno.test("a packet that is declared but not sent costs no memory", () => {
  const { decoder } = newDecoder();
  decoder.decode(encodeConnect(), () => {});
  const header = hex("30 c0 84 3d"); // 1,000,000 bytes declared
  assert.equal(decoder.decode(join(header, text("t"), [0]), () => {}), undefined);
  assert.ok(decoder.carryBytes <= 64, `${decoder.carryBytes} bytes`);
  for (let sent = 8; sent < 990_000; sent += 10_000) {
    assert.equal(decoder.decode(new Uint8Array(10_000), () => {}), undefined);
    const { carryBytes } = decoder;
    assert.ok(carryBytes >= sent && carryBytes <= Math.min(2 * (sent + 10_000), 1_000_004));
  }
});

Deno.test("a completed packet leaves no carry behind", () => {
  const { decoder, packets } = newDecoder();
  for (
    const byte of join(encodeConnect(), encodePublish({ topic: "t", payload: "p".repeat(500) }))
  ) {
    decoder.decode(Uint8Array.of(byte), (packet) => {
      packets.push(packet);
    });
  }
  assert.equal(packets.length, 2);
  assert.equal(decoder.carryBytes, 0);
});

// ---------------------------------------------------------------------------------- pause, views

Deno.test("a pause holds between packets and goes on where it stopped", () => {
  const stream = generateStream(seeded("pause"), 5, 30);
  const bytes = bytesOf(stream);
  const tail = encodePublish({ topic: "late" });
  const { decoder, packets } = newDecoder();
  const one = (packet: InboundPacket) => {
    packets.push(present(packet));
    return false;
  };
  const cut = bytes.length - 3;
  assert.equal(decoder.decode(bytes.subarray(0, cut), one), undefined);
  let turns = 1;
  while (decoder.paused) {
    assert.equal(packets.length, turns, "one packet a turn");
    assert.throws(() => decoder.decode(tail, one), /paused/);
    decoder.resume(one);
    turns++;
  }
  decoder.decode(bytes.subarray(cut), one);
  assert.ok(decoder.paused);
  // The three bytes may hold the end of one packet and the whole of a short one.
  while (decoder.paused) decoder.resume(one);
  assert.deepEqual(packets, stream.map((each) => each.packet));
});

Deno.test("a fault behind a pause is found on resuming", () => {
  const { decoder } = newDecoder();
  assert.equal(decoder.decode(join(encodeConnect(), [0x00]), () => false), undefined);
  assert.equal(decoder.resume(() => false)?.code, 0x81);
});

Deno.test("holdsInput is true while the chunk's memory is in use and only then", () => {
  const { decoder } = newDecoder();
  decoder.decode(encodeConnect({ will: { topic: "w", payload: "gone" } }), () => {});
  assert.equal(decoder.holdsInput, false, "a CONNECT keeps copies");
  decoder.decode(join(encodePingreq(), encodePublish({ topic: "t" })), () => {});
  assert.equal(decoder.holdsInput, false, "an empty payload is no view");
  decoder.decode(encodePublish({ topic: "t", payload: "p" }), () => {});
  assert.equal(decoder.holdsInput, true, "a payload is a view");
  decoder.decode(encodePingreq(), () => {});
  assert.equal(decoder.holdsInput, false, "the next chunk is another");
  const fragmented = encodePublish({ topic: "t", payload: "payload" });
  decoder.decode(fragmented.subarray(0, 5), () => {});
  assert.equal(decoder.holdsInput, false, "the start of a packet was copied");
  decoder.decode(fragmented.subarray(5), () => {});
  assert.equal(decoder.holdsInput, false, "the payload lies in the carry");
  decoder.decode(join(encodePingreq(), encodePingreq()), () => false);
  assert.equal(decoder.holdsInput, true, "a packet waits behind the pause");
  decoder.resume(() => {});
  assert.equal(decoder.holdsInput, false);
});

Deno.test("a payload is a view of the chunk it came in", () => {
  const bytes = join(encodeConnect(), encodePublish({ topic: "t", payload: "abc" }));
  new Decoder(LIMITS).decode(bytes, (packet) => {
    if (packet.type === 3) assert.equal(packet.payload.buffer, bytes.buffer);
  });
});

Deno.test("a payload that came in pieces is not overwritten by the next packet", () => {
  const first = encodePublish({ topic: "t", payload: "first" });
  const second = encodePublish({ topic: "t", payload: "other" });
  const chunks = Array.from(join(encodeConnect(), first, second), (byte) => Uint8Array.of(byte));
  const { packets } = decodeAll(chunks);
  const payloads = packets.map((p) => p.type === 3 ? new TextDecoder().decode(p.payload) : "");
  assert.deepEqual(payloads, ["", "first", "other"]);
});

Deno.test("an error of the packet handler passes through", () => {
  const { decoder } = newDecoder();
  assert.throws(() =>
    decoder.decode(encodeConnect(), () => {
      throw new TypeError("handler");
    }), TypeError);
});

// --------------------------------------------------------------------------------------- opening

Deno.test("02a 13.3 readOpening finds the level in the first bytes of a CONNECT", () => {
  for (const level of [4, 5] as const) {
    const connect = encodeConnect({ level, clientId: "c".repeat(500) });
    for (let length = 0; length < 10; length++) {
      assert.deepEqual(readOpening(connect.subarray(0, length)), { state: "incomplete" });
    }
    for (const length of [10, 11, connect.length]) {
      assert.deepEqual(readOpening(connect.subarray(0, length)), { state: "level", level });
    }
  }
  assert.deepEqual(readOpening(packet(0x10, text("MQIsdp"), [3])), { state: "level", level: 3 });
});

Deno.test("02a 13.3 readOpening refuses what is no CONNECT", () => {
  for (const bytes of [hex("c000"), hex("11 0a"), hex("10 ffffffff"), hex("474554202f")]) {
    const opening = readOpening(bytes);
    assert.equal(opening.state, "fault");
    assert.equal(opening.state === "fault" && opening.fault.answer, undefined);
  }
  assert.equal(readOpening(packet(0x10, text("HTTP"))).state, "fault");
});
