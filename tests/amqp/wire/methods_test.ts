/** The table of methods: both directions of it against each other, and against bytes made by hand. */
import assert from "node:assert/strict";
import { CAMPAIGN } from "../../support/campaign.ts";
import { AmqpMessageBuilder } from "../support/messages.ts";
import { WireFault } from "../../../src/amqp/wire/fault.ts";
import { FrameWriter } from "../../../src/amqp/wire/frame_writer.ts";
import { type Method, METHODS, readMethod } from "../../../src/amqp/wire/methods.ts";
import { readProperties } from "../../../src/amqp/wire/properties.ts";
import { Reader } from "../../../src/amqp/wire/reader.ts";
import { encodeTable, type FieldTable, type FieldValue } from "../../../src/amqp/wire/table.ts";
import { canonicalTable, readTable } from "../../../src/amqp/wire/table.ts";
import { type Random, seeded } from "../../support/random.ts";
import * as amqp from "../support/amqp_bytes.ts";

function readerOf(bytes: Uint8Array): Reader {
  const reader = new Reader();
  reader.begin(bytes, 0, bytes.length);
  return reader;
}

/** The method in a whole frame. */
function decode(frame: Uint8Array): Method {
  return readMethod(readerOf(frame.subarray(7, -1)));
}

function written(write: (writer: FrameWriter) => void, writer = new FrameWriter()): Uint8Array {
  write(writer);
  const parts: Uint8Array[] = [];
  for (let piece = writer.output.take(); piece; piece = writer.output.take()) {
    parts.push(piece.slice());
    writer.output.release();
  }
  return amqp.join(...parts);
}

function text(random: Random, most: number): string {
  const letters = ["a", "Z", ".", "#", "é", "€", "𝄞", "\0", " "];
  let made = "";
  for (let i = random.below(most); i > 0; i--) made += random.pick(letters);
  return made;
}

function value(random: Random, depth: number): FieldValue {
  const type = random.pick(depth > 3 ? [..."tbBsuIilLfdDSxTV"] : [..."tbBsuIilLfdDSxTVAF"]);
  switch (type) {
    case "t":
      return { type, value: random.chance(0.5) };
    case "b":
      return { type, value: random.between(-128, 127) };
    case "B":
      return { type, value: random.below(256) };
    case "s":
      return { type, value: random.between(-32_768, 32_767) };
    case "u":
      return { type, value: random.below(65_536) };
    case "I":
      return { type, value: random.uint32() | 0 };
    case "i":
      return { type, value: random.uint32() };
    case "l":
      return {
        type,
        value: BigInt.asIntN(64, BigInt(random.uint32()) << 32n | BigInt(random.uint32())),
      };
    case "L":
    case "T":
      return { type, value: BigInt(random.uint32()) << 32n | BigInt(random.uint32()) };
    case "f":
      return { type, value: Math.fround(random.fraction()) };
    case "d":
      return { type, value: random.fraction() };
    case "D":
      return { type, scale: random.below(256), value: random.uint32() | 0 };
    case "S":
    case "x":
      return { type, value: random.bytes(random.below(300)) };
    case "A":
      return {
        type,
        value: Array.from({ length: random.below(4) }, () => value(random, depth + 1)),
      };
    case "F":
      return { type, value: fields(random, depth + 1) };
    default:
      return { type: "V" };
  }
}

function fields(random: Random, depth = 1): FieldTable {
  const made = new Map<string, FieldValue>();
  for (let i = random.below(5); i > 0; i--) made.set(text(random, 20), value(random, depth));
  return made;
}

Deno.test("every method of the table is decoded as it was encoded", () => {
  const random = seeded("amqp methods");
  for (let round = 0; round < 40; round++) {
    for (const [name, form] of METHODS) {
      const args: Record<string, unknown> = {};
      for (const { name: argument, domain, reserved } of form.arguments) {
        if (reserved) continue;
        args[argument] = {
          bit: () => random.chance(0.5),
          octet: () => random.below(256),
          short: () => random.below(65_536),
          long: () => random.uint32(),
          longlong: () => random.below(2 ** 53),
          shortstr: () => text(random, 60),
          longstr: () => random.bytes(random.below(500)),
          table: () => fields(random),
        }[domain]();
      }
      const channel = random.below(65_536);
      const bytes = written((writer) => writer.method(channel, name, args as never));
      const { frames, taken } = amqp.splitFrames(bytes);
      assert.equal(taken, bytes.length, name);
      assert.equal(frames.length, 1, name);
      assert.equal(frames[0].channel, channel, name);
      assert.deepEqual(readMethod(readerOf(frames[0].payload)), { method: name, ...args }, name);
    }
  }
});

Deno.test("A1 the methods of clients, made by hand, are read as they are meant", () => {
  assert.deepEqual(
    decode(
      amqp.exchangeDeclare(3, "x", "topic", { durable: true, internal: true, args: { a: 1 } }),
    ),
    {
      method: "exchange.declare",
      exchange: "x",
      type: "topic",
      passive: false,
      durable: true,
      autoDelete: false,
      internal: true,
      noWait: false,
      arguments: new Map([["a", { type: "I", value: 1 }]]),
    },
  );
  assert.deepEqual(decode(amqp.queueUnbind(1, "q", "x", "k")), {
    method: "queue.unbind",
    queue: "q",
    exchange: "x",
    routingKey: "k",
    arguments: new Map(),
  });
  assert.deepEqual(decode(amqp.consume(1, "q", { tag: "c", noAck: true, noWait: true })), {
    method: "basic.consume",
    queue: "q",
    consumerTag: "c",
    noLocal: false,
    noAck: true,
    exclusive: false,
    noWait: true,
    arguments: new Map(),
  });
  assert.deepEqual(decode(amqp.nack(1, 2 ** 40 + 5, { multiple: true, requeue: false })), {
    method: "basic.nack",
    deliveryTag: 2 ** 40 + 5,
    multiple: true,
    requeue: false,
  });
  assert.deepEqual(decode(amqp.tuneOk(7, 131_072, 60)), {
    method: "connection.tune-ok",
    channelMax: 7,
    frameMax: 131_072,
    heartbeat: 60,
  });
});

Deno.test("what the server writes is what a client reads", () => {
  const message = new AmqpMessageBuilder("ex", "key.é").properties({
    contentType: "text/plain",
    deliveryMode: 2,
  })
    .body("hello").build();
  const bytes = written((writer) => {
    writer.method(0, "connection.tune", { channelMax: 2047, frameMax: 131_072, heartbeat: 60 });
    writer.method(2, "queue.declare-ok", { queue: "q", messageCount: 3, consumerCount: 1 });
    writer.method(2, "basic.nack", { deliveryTag: 9, multiple: true, requeue: false });
    writer.deliver(2, "tag", 2 ** 33 + 1, true, message);
    writer.getOk(2, 4, false, 17, message);
    writer.return(2, 312, "NO_ROUTE", message);
    writer.heartbeat();
  });
  const { frames } = amqp.splitFrames(bytes);
  const names = frames.map((frame) => frame.type === 1 ? amqp.parseMethod(frame).name : frame.type);
  assert.deepEqual(names, [
    "tune",
    "queue.declare-ok",
    "nack",
    ...["deliver", 2, 3],
    ...["get-ok", 2, 3],
    ...["return", 2, 3],
    8,
  ]);
  assert.deepEqual(amqp.parseMethod(frames[3]), {
    name: "deliver",
    channel: 2,
    tag: "tag",
    delivery: 2 ** 33 + 1,
    redelivered: true,
    exchange: "ex",
    key: "key.é",
  });
  assert.equal(amqp.parseMethod(frames[6]).messages, 17);
  const header = amqp.contentHeader(
    2,
    5,
    amqp.properties({ contentType: "text/plain", deliveryMode: 2 }),
  );
  assert.deepEqual(frames[4].payload, header.slice(7, -1));
  assert.equal(new TextDecoder().decode(frames[5].payload), "hello");
});

Deno.test("A3, A6 a body is cut at the agreed frame size, an empty one has no body frame", () => {
  for (
    const [size, frameMax] of [[0, 4096], [1, 4096], [4088, 4096], [4089, 4096], [100_000, 4096], [
      300_000,
      131_072,
    ], [40_000, 131_072]]
  ) {
    const body = new Uint8Array(size).map((_, i) => i * 7);
    const message = new AmqpMessageBuilder("", "k").body(body).build();
    const writer = new FrameWriter();
    writer.frameMax = frameMax;
    const { frames, taken } = amqp.splitFrames(
      written((w) => w.deliver(1, "c", 1, false, message), writer),
    );
    const bodies = frames.filter(({ type }) => type === 3);
    assert.equal(bodies.length, Math.ceil(size / (frameMax - 8)));
    assert.deepEqual(amqp.join(...bodies.map(({ payload }) => payload)), body);
    assert.ok(taken > size);
  }
});

Deno.test("501 for arguments that end early or late, and for text that is not UTF-8", () => {
  const code = (bytes: Uint8Array) => {
    try {
      decode(bytes);
    } catch (error) {
      assert.ok(error instanceof WireFault, String(error));
      return error.code;
    }
    throw new Error("accepted");
  };
  const whole = amqp.queueDeclare(1, "queue", {});
  assert.equal(code(amqp.frame(1, 1, whole.slice(7, -3))), 502, "inside the table");
  assert.equal(code(amqp.frame(1, 1, whole.slice(7, 14))), 501);
  assert.equal(code(amqp.frame(1, 1, amqp.join(whole.slice(7, -1), [0]))), 501);
  assert.equal(code(amqp.method(1, 60, 70, amqp.u16(0), [2, 0xc3, 0x28], [0])), 501);
  assert.equal(code(amqp.method(1, 99, 1)), 503);
  assert.equal(code(amqp.method(1, 60, 99)), 503);
});

Deno.test("502 for tables of unknown types, lengths past the end, and nesting without end", () => {
  const read = (bytes: Uint8Array) => {
    try {
      readTable(readerOf(bytes));
    } catch (error) {
      assert.ok(error instanceof WireFault, String(error));
      return error.code;
    }
    return undefined;
  };
  assert.equal(read(amqp.long(amqp.join(amqp.short("a"), [0x7a, 0]))), 502);
  assert.equal(read(amqp.long(amqp.join(amqp.short("a"), [0x53], amqp.u32(9)))), 502);
  assert.equal(read(amqp.u32(5)), 502);
  let nested = amqp.table();
  for (let i = 0; i < 63; i++) nested = amqp.long(amqp.join(amqp.short("a"), [0x46], nested));
  assert.equal(read(nested), undefined);
  nested = amqp.long(amqp.join(amqp.short("a"), [0x46], nested));
  assert.equal(read(nested), 502);
});

Deno.test("A2 every field type is decoded and encoded back byte for byte", () => {
  const random = seeded("amqp tables");
  for (let round = 0; round < 500; round++) {
    const made = fields(random);
    const bytes = encodeTable(made);
    const reader = readerOf(bytes);
    assert.deepEqual(readTable(reader), made);
    assert.equal(reader.at, bytes.length);
  }
});

Deno.test("A30 tables are compared without regard to order and to the width of integers", () => {
  const same = (a: FieldTable, b: FieldTable) =>
    String(encodeTable(canonicalTable(a))) === String(encodeTable(canonicalTable(b)));
  const one: FieldTable = new Map<string, FieldValue>([
    ["a", { type: "I", value: 1 }],
    ["b", { type: "t", value: true }],
  ]);
  const other: FieldTable = new Map<string, FieldValue>([
    ["b", { type: "t", value: true }],
    ["a", { type: "l", value: 1n }],
  ]);
  assert.ok(same(one, other));
  assert.ok(!same(one, new Map<string, FieldValue>([...other, ["a", { type: "I", value: 2 }]])));
  assert.ok(!same(one, new Map<string, FieldValue>([...other, ["a", { type: "d", value: 1 }]])));
});

Deno.test("A4, A5 properties are walked to their end, and only delivery-mode 2 is persistent", () => {
  const notes = (of: amqp.Properties) => readProperties(readerOf(amqp.properties(of)));
  assert.deepEqual(notes({}), { persistent: false, expiration: false, directReply: false });
  assert.deepEqual(
    notes({
      contentType: "a",
      headers: { x: [1, { y: null }] },
      deliveryMode: 2,
      priority: 3,
      messageId: "m",
    }),
    { persistent: true, expiration: false, directReply: false },
  );
  assert.equal(notes({ deliveryMode: 1 }).persistent, false);
  assert.equal(notes({ expiration: "100" }).expiration, true);
  assert.equal(notes({ replyTo: "amq.rabbitmq.reply-to" }).directReply, true);
  assert.equal(notes({ replyTo: "mine" }).directReply, false);
  const code = (bytes: Uint8Array) => {
    try {
      readProperties(readerOf(bytes));
    } catch (error) {
      assert.ok(error instanceof WireFault, String(error));
      return error.code;
    }
    return undefined;
  };
  assert.equal(code(amqp.u16(1)), 502, "the continuation bit");
  assert.equal(code(amqp.u16(0x8000)), 502, "a string that is not there");
  assert.equal(code(amqp.join(amqp.u16(0), [1])), 502, "a byte left over");
  assert.equal(code(amqp.join(amqp.u16(0x2000), amqp.u32(4), [1, 0x61, 0x7a, 0])), 502);
});

Deno.test("spoiled methods and properties end in a fault or a value, and never in another error", () => {
  const random = seeded("amqp methods spoiled");
  const samples = [
    amqp.startOk(),
    amqp.queueDeclare(1, "q", { args: { a: 1, b: [1, "x", { c: null }] } }),
    amqp.queueBind(1, "q", "x", "k"),
    amqp.publishMethod(1, "x", "k"),
    amqp.consume(1, "q"),
    amqp.qos(1, 5),
  ].map((frame) => frame.slice(7, -1));
  for (let round = 0; round < 5_000 * CAMPAIGN; round++) {
    const bytes = random.pick(samples).slice();
    for (let hits = random.between(1, 5); hits > 0; hits--) {
      bytes[random.below(bytes.length)] = random.below(256);
    }
    const reader = readerOf(bytes.subarray(0, random.below(bytes.length) + 1));
    try {
      if (random.chance(0.5)) readMethod(reader);
      else readProperties(reader);
    } catch (error) {
      assert.ok(error instanceof WireFault, String(error));
    }
  }
});
