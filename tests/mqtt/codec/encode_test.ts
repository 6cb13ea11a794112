import assert from "node:assert/strict";
import { SHARED_PAYLOAD_BYTES } from "../../../src/mqtt/codec/output.ts";
import { PacketWriter } from "../../../src/mqtt/codec/encode.ts";
import { PAGE_BYTES, PagePool } from "../../../src/mqtt/codec/pages.ts";
import type { Message } from "../../../src/storage/record.ts";
import { hex, join, type Level, parseServerPackets } from "../../support/mqtt_bytes.ts";
import { generateDelivery, put, type Sent } from "../../support/generate_deliveries.ts";
import { seeded } from "../../support/random.ts";

function writerAt(level: Level, maximumPacketSize?: number): PacketWriter {
  const writer = new PacketWriter(new PagePool());
  writer.level = level;
  if (maximumPacketSize !== undefined) writer.maximumPacketSize = maximumPacketSize;
  return writer;
}

/** Everything that was written, in one piece. */
function takeAll(writer: PacketWriter): Uint8Array {
  const pieces: Uint8Array[] = [];
  for (;;) {
    const piece = writer.take();
    if (piece === undefined) return join(...pieces);
    pieces.push(piece.slice());
    writer.release();
  }
}

function parsed(writer: PacketWriter) {
  return parseServerPackets(takeAll(writer), writer.level);
}

function delivery(message: Partial<Message>, rest: Partial<Sent> = {}): Sent {
  return {
    message: {
      messageId: "id",
      topic: "t",
      timestamp: 1n,
      headers: [],
      properties: {},
      payload: new Uint8Array(0),
      retain: false,
      bridge: "",
      clientId: "",
      qos: 0,
      groupCopy: false,
      onlyFor: "",
      ...message,
    },
    qos: 0,
    retain: false,
    dup: false,
    packetId: 0,
    identifiers: [],
    labels: [],
    expiry: undefined,
    ...rest,
  };
}

// ---------------------------------------------------------------------------------------- CONNACK

Deno.test("3.2 a CONNACK carries what it was given", () => {
  const writer = writerAt(5);
  const properties = {
    sessionExpiry: 0xffffffff,
    maximumQoS: 1,
    retainAvailable: 1,
    maximumPacketSize: 1 << 20,
    assignedClientId: "größe",
    topicAliasMaximum: 16,
    reasonString: "welcome",
    userProperties: [["a", "1"], ["a", "2"]],
    sharedSubscriptionAvailable: 0,
    serverKeepAlive: 65535,
  } as const;
  assert.ok(writer.connack({ sessionPresent: true, reasonCode: 0, ...properties }));
  assert.deepEqual(parsed(writer), [
    { type: "connack", sessionPresent: true, reasonCode: 0, properties },
  ]);
});

Deno.test("3.2 a CONNACK of MQTT 3.1.1 is four bytes, whatever else is known", () => {
  const writer = writerAt(4);
  writer.connack({ sessionPresent: true, reasonCode: 0, topicAliasMaximum: 16, reasonString: "x" });
  writer.connack({ sessionPresent: true, reasonCode: 4 });
  assert.deepEqual(takeAll(writer), hex("20 02 01 00  20 02 00 04"));
});

Deno.test("[MQTT-3.2.2-6] a refusing CONNACK has no Session Present", () => {
  const writer = writerAt(5);
  writer.connack({ sessionPresent: true, reasonCode: 0x87 });
  assert.deepEqual(takeAll(writer), hex("20 03 00 87 00"));
});

// ---------------------------------------------------------------------------------------- PUBLISH

const FULL: Sent = delivery({
  topic: "a/größe",
  payload: hex("00 ff"),
  headers: [["k", "publisher"], ["k", "again"]],
  properties: {
    contentType: "c",
    responseTopic: "answers",
    correlationData: hex("01"),
    payloadFormat: 1,
    messageExpiry: 99,
  },
}, {
  qos: 2,
  dup: true,
  retain: true,
  packetId: 65535,
  identifiers: [1, 268435455],
  labels: [["saguin-id", "x"], ["k", "broker"]],
  expiry: 7,
});

Deno.test("3.3 a PUBLISH has the labels ahead of the publisher's User Properties", () => {
  const writer = writerAt(5);
  assert.ok(put(writer, FULL));
  assert.deepEqual(parsed(writer), [{
    type: "publish",
    dup: true,
    qos: 2,
    retain: true,
    topic: "a/größe",
    packetId: 65535,
    payload: hex("00 ff"),
    properties: {
      payloadFormat: 1,
      messageExpiry: 7,
      contentType: "c",
      responseTopic: "answers",
      correlationData: hex("01"),
      subscriptionIdentifiers: [1, 268435455],
      userProperties: [["saguin-id", "x"], ["k", "broker"], ["k", "publisher"], ["k", "again"]],
    },
  }]);
});

Deno.test("D14.8 a queue offer's reply stands for the publisher's Response Topic", () => {
  const writer = writerAt(5);
  put(writer, { ...FULL, reply: { responseTopic: "$saguin/r", correlationData: hex("beef") } });
  const [publish] = parsed(writer);
  assert.ok(publish.type === "publish");
  assert.equal(publish.properties.responseTopic, "$saguin/r");
  assert.deepEqual(publish.properties.correlationData, hex("beef"));
});

Deno.test("3.3 a PUBLISH sends a Message Expiry Interval only when the delivery has one", () => {
  const writer = writerAt(5);
  put(writer, { ...FULL, expiry: undefined });
  put(writer, { ...FULL, expiry: 0 });
  const [none, zero] = parsed(writer);
  assert.ok(none.type === "publish" && zero.type === "publish");
  assert.equal("messageExpiry" in none.properties, false);
  assert.equal(zero.properties.messageExpiry, 0);
});

Deno.test("3.1.1 3.3 a PUBLISH of MQTT 3.1.1 is topic, packet identifier and payload", () => {
  const writer = writerAt(4);
  put(writer, { ...FULL, qos: 1, dup: false, retain: false });
  put(writer, delivery({ payload: hex("2a") }));
  assert.deepEqual(
    takeAll(writer),
    join(hex("32 0f 0009"), new TextEncoder().encode("a/größe"), hex("ffff 00ff 3004 0001 74 2a")),
  );
});

Deno.test("3.3 generated deliveries come back whole, in one write, and publishSize is exact", () => {
  const random = seeded("encode");
  for (let round = 0; round < 200; round++) {
    const level = random.pick([4, 5] as const);
    const writer = writerAt(level);
    const expected = [];
    let size = 0;
    for (let i = 0; i < 10; i++) {
      const { delivery, packet } = generateDelivery(random, level);
      size += writer.publishSize(delivery);
      assert.ok(put(writer, delivery));
      assert.equal(writer.length, size);
      expected.push(packet);
    }
    assert.deepEqual(parsed(writer), expected);
    assert.equal(writer.length, 0);
  }
});

Deno.test("1.5.4 strings on both sides of the ASCII fast path keep their bytes", () => {
  const texts = [
    "",
    "a",
    "é",
    "aé",
    "éa",
    "\ufeff",
    "𝄞",
    "a𝄞",
    "\uffff",
    "\u07ff\u0800",
    "x".repeat(300),
  ];
  for (const text of [...texts, "é".repeat(32767), "x".repeat(65535), "温".repeat(21845)]) {
    const writer = writerAt(5);
    assert.ok(put(writer, delivery({ headers: [[text, text]] })));
    const [publish] = parsed(writer);
    assert.ok(publish.type === "publish");
    assert.deepEqual(publish.properties.userProperties, [[text, text]]);
  }
});

Deno.test("1.5.4 a lone surrogate leaves as U+FFFD and the packet stays whole", () => {
  const writer = writerAt(5);
  const cut = ["\ud83c", "a\ud83c", "\udf21", "\ud83c\ud83c\udf21", "\ud83cx"];
  for (const value of cut) put(writer, delivery({ headers: [["k", value]] }));
  const values = parsed(writer).map((p) =>
    p.type === "publish" && p.properties.userProperties?.[0][1]
  );
  assert.deepEqual(values, cut.map((value) => value.toWellFormed()));
});

Deno.test("1.5.4 a string that no length can express is a RangeError with nothing written", () => {
  const writer = writerAt(5);
  const long = "é".repeat(32768);
  assert.throws(() => put(writer, delivery({ topic: long })), RangeError);
  assert.throws(() => put(writer, delivery({ headers: [["k", long]] })), RangeError);
  const correlationData = new Uint8Array(65536);
  assert.throws(() => put(writer, delivery({ properties: { correlationData } })), RangeError);
  assert.equal(writer.length, 0);
});

Deno.test("[MQTT-3.1.2-24] a PUBLISH over the client's Maximum Packet Size is not written", () => {
  for (const level of [4, 5] as const) {
    const size = writerAt(level).publishSize(FULL);
    const exact = writerAt(level, size);
    assert.ok(put(exact, FULL));
    assert.equal(exact.length, size);
    const small = writerAt(level, size - 1);
    assert.equal(put(small, FULL), false);
    assert.equal(small.length, 0);
  }
});

// ------------------------------------------------------------------------------ acknowledgements

const ACKNOWLEDGE = [
  { name: "puback", first: "40" },
  { name: "pubrec", first: "50" },
  { name: "pubrel", first: "62" },
  { name: "pubcomp", first: "70" },
] as const;

for (const { name, first } of ACKNOWLEDGE) {
  Deno.test(`3.4 to 3.7 ${name} is as short as its level and code allow`, () => {
    for (const level of [4, 5] as const) {
      const writer = writerAt(level);
      writer[name](258);
      assert.deepEqual(takeAll(writer), hex(`${first} 02 0102`));
    }
    const five = writerAt(5);
    five[name](258, 0x92);
    assert.deepEqual(takeAll(five), hex(`${first} 03 0102 92`));
    const four = writerAt(4);
    four[name](258, 0x92, { reasonString: "x" });
    assert.deepEqual(takeAll(four), hex(`${first} 02 0102`));
  });

  Deno.test(`3.4 to 3.7 ${name} carries a Reason String and User Properties`, () => {
    const writer = writerAt(5);
    const properties = { reasonString: "full", userProperties: [["a", "b"], ["a", "c"]] } as const;
    writer[name](1, 0x97, properties);
    writer[name](2, 0, { reasonString: "fine" });
    assert.deepEqual(parsed(writer), [
      { type: name, packetId: 1, reasonCode: 0x97, properties },
      { type: name, packetId: 2, reasonCode: 0, properties: { reasonString: "fine" } },
    ]);
  });
}

Deno.test("3.9 3.11 SUBACK and UNSUBACK carry a code a filter, at MQTT 5", () => {
  const writer = writerAt(5);
  writer.suback(1, [0, 1, 2, 0x87, 0x8f]);
  writer.suback(2, [0x97], { reasonString: "r", userProperties: [["a", "b"]] });
  writer.unsuback(3, [0, 0x11, 0x83]);
  writer.unsuback(4, [0x83], { reasonString: "r" });
  assert.deepEqual(parsed(writer), [
    { type: "suback", packetId: 1, reasonCodes: [0, 1, 2, 0x87, 0x8f], properties: {} },
    {
      type: "suback",
      packetId: 2,
      reasonCodes: [0x97],
      properties: { reasonString: "r", userProperties: [["a", "b"]] },
    },
    { type: "unsuback", packetId: 3, reasonCodes: [0, 0x11, 0x83], properties: {} },
    { type: "unsuback", packetId: 4, reasonCodes: [0x83], properties: { reasonString: "r" } },
  ]);
});

Deno.test("3.1.1 3.9 at level 4 every SUBACK refusal is 0x80 and UNSUBACK has no code", () => {
  const writer = writerAt(4);
  writer.suback(1, [0, 1, 2, 0x87, 0x8f], { reasonString: "r" });
  writer.unsuback(2, [0, 0x11], { reasonString: "r" });
  assert.deepEqual(takeAll(writer), hex("90 07 0001 00 01 02 80 80  b0 02 0002"));
});

Deno.test("3.13 3.14 PINGRESP and DISCONNECT", () => {
  const writer = writerAt(5);
  writer.pingresp();
  writer.disconnect(0);
  writer.disconnect(0x8e);
  writer.disconnect(0x8b, { reasonString: "by" });
  assert.deepEqual(takeAll(writer), hex("d000 e000 e0018e e0078b051f00026279"));
  const four = writerAt(4);
  four.pingresp();
  assert.equal(four.disconnect(0x8e), false);
  assert.deepEqual(takeAll(four), hex("d000"));
});

// ------------------------------------------------------------------ what a client did not want

Deno.test("[MQTT-3.4.2-2] explanations that do not fit the client's Maximum Packet Size stay out", () => {
  // PUBACK: 2 header, 3 body, 1 property length; Reason String 3 + 4, User Property 5 + 2.
  const explanation = { reasonString: "full", userProperties: [["a", "b"]] } as const;
  const expected: [number, object | undefined][] = [
    [20, explanation],
    [19, { reasonString: "full" }],
    [13, { reasonString: "full" }],
    [12, {}],
    [5, {}],
    [4, undefined],
  ];
  for (const [limit, properties] of expected) {
    const writer = writerAt(5, limit);
    const written = writer.puback(1, 0x97, explanation);
    assert.equal(written, properties !== undefined, `limit ${limit}`);
    const packets = parsed(writer);
    assert.deepEqual(
      packets,
      written ? [{ type: "puback", packetId: 1, reasonCode: 0x97, properties }] : [],
      `limit ${limit}`,
    );
  }
});

Deno.test("1.5.4 a Reason String that no length can express stays out", () => {
  const writer = writerAt(5);
  writer.disconnect(0x90, { reasonString: "é".repeat(32768) });
  assert.deepEqual(takeAll(writer), hex("e0 01 90"));
});

Deno.test("3.1.2.11.4 User Properties that fit go out where the Reason String does not", () => {
  const writer = writerAt(5, 14);
  writer.puback(1, 0x97, { reasonString: "a longer one", userProperties: [["a", "b"]] });
  assert.deepEqual(parsed(writer), [
    { type: "puback", packetId: 1, reasonCode: 0x97, properties: { userProperties: [["a", "b"]] } },
  ]);
});

Deno.test("3.1.2.11.4 no packet of any kind is larger than the limit", () => {
  const explanation = {
    reasonString: "r".repeat(20),
    userProperties: [["k", "v".repeat(9)]],
  } as const;
  for (let limit = 1; limit < 80; limit++) {
    const writer = writerAt(5, limit);
    const calls = [
      () => writer.connack({ sessionPresent: false, reasonCode: 0x87, ...explanation }),
      () => writer.connack({ sessionPresent: false, reasonCode: 0, assignedClientId: "abcdef" }),
      () => writer.puback(1, 0x80, explanation),
      () => writer.suback(1, [0x80, 0x80], explanation),
      () => writer.unsuback(1, [0x80], explanation),
      () => writer.disconnect(0x80, explanation),
      () => writer.pingresp(),
    ];
    for (const call of calls) {
      const written = call();
      const { length } = writer;
      assert.ok(written ? length > 0 && length <= limit : length === 0, `${length} of ${limit}`);
      assert.equal(parsed(writer).length, written ? 1 : 0);
    }
  }
});

Deno.test("[MQTT-3.1.2-29] Request Problem Information 0 withholds Reason Strings and User Properties", () => {
  const writer = writerAt(5);
  writer.problemInformation = false;
  const explanation = { reasonString: "r", userProperties: [["a", "b"]] } as const;
  writer.puback(1, 0x87, explanation);
  writer.suback(1, [0x87], explanation);
  writer.unsuback(1, [0x87], explanation);
  writer.disconnect(0x87, explanation);
  writer.connack({ sessionPresent: false, reasonCode: 0x87, ...explanation });
  put(writer, delivery({ headers: [["a", "b"]] }, { labels: [["c", "d"]] }));
  const packets = parsed(writer);
  const publish = packets.pop();
  for (const packet of packets) assert.deepEqual("properties" in packet && packet.properties, {});
  assert.ok(publish?.type === "publish");
  assert.deepEqual(publish.properties.userProperties, [["c", "d"], ["a", "b"]]);
});

// ------------------------------------------------------------------------------ the output itself

Deno.test("many packets leave in one piece, and what was taken is not touched until release", () => {
  const writer = writerAt(5);
  for (let id = 1; id <= 1000; id++) writer.puback(id);
  assert.equal(writer.length, 4000);
  const taken = writer.take()!;
  assert.equal(taken.length, 4000);
  assert.equal(writer.length, 0);
  const before = taken.slice();
  for (let id = 1; id <= 1000; id++) writer.pubrec(id);
  assert.deepEqual(taken, before);
  const next = writer.take()!;
  assert.notEqual(next.buffer, taken.buffer);
  assert.equal(writer.take(), undefined);
});

Deno.test("a released page is used again, an unreleased one never", () => {
  const pages = new PagePool();
  const writer = new PacketWriter(pages);
  writer.puback(1);
  const first = writer.take()!;
  writer.release();
  writer.puback(2);
  const second = writer.take()!;
  assert.equal(second.buffer, first.buffer);
  writer.puback(3);
  const third = writer.take()!; // without release of the second
  assert.notEqual(third.buffer, second.buffer);
  writer.release();
  writer.release();
  const pooled = [pages.take().buffer, pages.take().buffer];
  assert.equal(pooled.includes(second.buffer), false);
  assert.notEqual(pooled[0], pooled[1], "one page went into the pool twice");
});

Deno.test("a page in flight stays out of the pool, whatever is written and released meanwhile", () => {
  const pages = new PagePool();
  const writer = new PacketWriter(pages);
  writer.puback(1);
  const inFlight = writer.take()!;
  for (let i = 0; i < PAGE_BYTES; i++) writer.puback(2); // more than a page: the output grows
  put(writer, delivery({ payload: new Uint8Array(SHARED_PAYLOAD_BYTES) }));
  for (let piece = writer.take(); piece !== undefined; piece = writer.take()) {
    if (piece.length === SHARED_PAYLOAD_BYTES) writer.release();
  }
  const pooled = Array.from({ length: 4 }, () => pages.take());
  assert.equal(pooled.some((page) => page.buffer === inFlight.buffer), false);
  assert.ok(pooled.every((page) => page.length === PAGE_BYTES));
});

Deno.test("only whole pages go back into the pool", () => {
  const pages = new PagePool();
  const writer = new PacketWriter(pages);
  for (let i = 0; i < PAGE_BYTES; i++) writer.puback(1);
  assert.ok(writer.take()!.length > PAGE_BYTES);
  writer.release();
  for (let i = 0; i < 3; i++) assert.equal(pages.take().length, PAGE_BYTES);
});

Deno.test("output grows past a page and keeps every byte", () => {
  const writer = writerAt(5);
  const payload = new Uint8Array(SHARED_PAYLOAD_BYTES - 1).fill(7);
  for (let i = 0; i < 20; i++) put(writer, delivery({ payload, topic: `t/${i}` }));
  const packets = parsed(writer);
  assert.equal(packets.length, 20);
  packets.forEach((packet, i) => {
    assert.ok(packet.type === "publish");
    assert.equal(packet.topic, `t/${i}`);
    assert.deepEqual(packet.payload, payload);
  });
});

Deno.test("a large payload is sent from where it lies, in its place among the others", () => {
  const writer = writerAt(5);
  const payload = new Uint8Array(SHARED_PAYLOAD_BYTES).fill(9);
  writer.puback(1);
  put(writer, delivery({ payload, topic: "large" }));
  writer.puback(2);
  const size = writer.length;
  const pieces = [writer.take()!, writer.take()!, writer.take()!];
  assert.equal(writer.take(), undefined);
  assert.equal(pieces[1], payload);
  assert.equal(pieces.reduce((sum, piece) => sum + piece.length, 0), size);
  const types = parseServerPackets(join(...pieces)).map((packet) => packet.type);
  assert.deepEqual(types, ["puback", "publish", "puback"]);
});

Deno.test("release never puts a shared payload into the pool, even one of a page's size", () => {
  const pages = new PagePool();
  const writer = new PacketWriter(pages);
  const payload = new Uint8Array(4 * PAGE_BYTES);
  put(writer, delivery({ payload }));
  for (let piece = writer.take(); piece !== undefined; piece = writer.take()) writer.release();
  for (let i = 0; i < 3; i++) assert.notEqual(pages.take().buffer, payload.buffer);
});
