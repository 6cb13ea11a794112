import assert from "node:assert/strict";
import { WebSocketLink } from "../../../src/mqtt/doors/web_socket_link.ts";
import { join } from "../../support/mqtt_bytes.ts";
import { type Random, seeded } from "../../support/random.ts";
import { until } from "../../support/wait.ts";
import { clientFrame, Opcode, parseServerFrame } from "../../support/web_socket_bytes.ts";
import { pieces, Pipe } from "../../doors/pipe.ts";

const NOTHING = new Uint8Array(0);

/** Everything that `link` reads, until its end. */
async function readAll(link: WebSocketLink, bufferBytes = 512): Promise<Uint8Array> {
  const parts: Uint8Array[] = [];
  for (;;) {
    const buffer = new Uint8Array(bufferBytes);
    const count = await link.read(buffer);
    if (count === null) return join(...parts);
    assert.ok(count > 0);
    parts.push(buffer.slice(0, count));
  }
}

/** What a peer that sends exactly `bytes` gets through. */
async function passed(bytes: Uint8Array, piece = bytes.length): Promise<Uint8Array> {
  const pipe = new Pipe();
  const link = new WebSocketLink(pipe, NOTHING);
  pipe.receive(pieces(bytes, piece));
  pipe.end();
  return await readAll(link);
}

/** The code in the close frame that answers `bytes`; nothing else is answered. */
async function closeCode(bytes: Uint8Array): Promise<number> {
  const pipe = new Pipe();
  const link = new WebSocketLink(pipe, NOTHING);
  pipe.receive(bytes);
  assert.deepEqual(await readAll(link), NOTHING);
  await until("the close", () => pipe.closed);
  assert.equal(pipe.written.length, 1);
  const frame = parseServerFrame(pipe.written[0])!;
  assert.deepEqual([frame.opcode, frame.final, frame.payload.length], [Opcode.Close, true, 2]);
  return frame.payload[0] << 8 | frame.payload[1];
}

function bytes(length: number): Uint8Array {
  return Uint8Array.from({ length }, (_, i) => i * 7 & 0xff);
}

Deno.test("the payload of binary messages comes through, of every length form", async () => {
  for (const length of [1, 125, 126, 127, 65_535, 65_536, 200_000]) {
    assert.deepEqual(await passed(clientFrame({ payload: bytes(length) })), bytes(length));
  }
});

Deno.test("packets split and joined across frames, and frames across reads, make one stream", async () => {
  const payload = bytes(1_000);
  const wire = join(
    clientFrame({ payload: payload.slice(0, 3), final: false }),
    clientFrame({ opcode: Opcode.Continuation, final: false }),
    clientFrame({ opcode: Opcode.Ping, payload: bytes(5) }),
    clientFrame({ opcode: Opcode.Continuation, payload: payload.slice(3, 500) }),
    clientFrame({ payload: NOTHING }),
    clientFrame({ opcode: Opcode.Pong }),
    clientFrame({ payload: payload.slice(500), mask: [0xff, 0, 0x80, 1] }),
  );
  for (const piece of [1, 2, 3, 7, 100, wire.length]) {
    assert.deepEqual(await passed(wire, piece), payload);
  }
});

Deno.test("what followed the request's head is read first", async () => {
  const pipe = new Pipe();
  const wire = clientFrame({ payload: bytes(3_000) });
  const link = new WebSocketLink(pipe, wire.slice(0, 1_700));
  pipe.receive(wire.slice(1_700));
  pipe.end();
  assert.deepEqual(await readAll(link), bytes(3_000));
});

Deno.test("what is written leaves as one binary message each", async () => {
  for (const length of [1, 125, 126, 65_535, 65_536]) {
    const pipe = new Pipe();
    await new WebSocketLink(pipe, NOTHING).write(bytes(length));
    assert.equal(pipe.written.length, 1);
    const frame = parseServerFrame(pipe.written[0])!;
    assert.deepEqual([frame.opcode, frame.final], [Opcode.Binary, true]);
    assert.deepEqual(frame.payload, bytes(length));
  }
});

Deno.test("MQTT-6.0.0-1 a text frame closes with 1003", async () => {
  assert.equal(await closeCode(clientFrame({ opcode: Opcode.Text, payload: bytes(3) })), 1003);
  assert.equal(await closeCode(clientFrame({ opcode: Opcode.Text, final: false })), 1003);
});

Deno.test("RFC 6455 every breach of the framing closes with 1002", async () => {
  const long = bytes(126);
  const breaches: [string, Uint8Array][] = [
    ["no mask", clientFrame({ payload: bytes(3), mask: null })],
    ["first reserved bit", clientFrame({ reserved: 4 })],
    ["second reserved bit", clientFrame({ reserved: 2 })],
    ["third reserved bit", clientFrame({ reserved: 1 })],
    ...[3, 4, 5, 6, 7, 11, 12, 13, 14, 15].map((opcode): [string, Uint8Array] => [
      `opcode ${opcode}`,
      clientFrame({ opcode }),
    ]),
    ["a continuation of nothing", clientFrame({ opcode: Opcode.Continuation })],
    ["a message within a message", join(clientFrame({ final: false }), clientFrame())],
    ["a ping in fragments", clientFrame({ opcode: Opcode.Ping, final: false })],
    ["a long ping", clientFrame({ opcode: Opcode.Ping, payload: long })],
    ["a long close", clientFrame({ opcode: Opcode.Close, payload: long })],
    ["16 bits for a length below 126", clientFrame({ payload: bytes(125), lengthBytes: 2 })],
    ["64 bits for a length below 65536", clientFrame({ payload: long, lengthBytes: 8 })],
    ["a length beyond every number", clientFrame({ length: 1n << 53n })],
    ["a length with its top bit set", clientFrame({ length: 1n << 63n })],
  ];
  for (const [breach, wire] of breaches) assert.equal(await closeCode(wire), 1002, breach);
});

Deno.test("RFC 6455 a close is answered with its own code where that is lawful", async () => {
  const close = (...payload: number[]) =>
    clientFrame({ opcode: Opcode.Close, payload: Uint8Array.from(payload) });
  assert.equal(await closeCode(close()), 1000);
  assert.equal(await closeCode(close(0x03, 0xe9)), 1001);
  assert.equal(await closeCode(close(0x0f, 0xa0, 0x62, 0x79, 0x65)), 4000);
  for (const code of [0, 999, 1004, 1005, 1006, 1015, 2999, 5000]) {
    assert.equal(await closeCode(close(code >> 8, code & 0xff)), 1002, `${code}`);
  }
  assert.equal(await closeCode(close(3)), 1002);
});

Deno.test("nothing after a close is read", async () => {
  const pipe = new Pipe();
  const link = new WebSocketLink(pipe, NOTHING);
  pipe.receive(join(clientFrame({ opcode: Opcode.Close }), clientFrame({ payload: bytes(9) })));
  assert.deepEqual(await readAll(link), NOTHING);
  await assert.rejects(link.write(bytes(1)), /closed/);
});

Deno.test("a ping is answered with its payload", async () => {
  const pipe = new Pipe();
  const link = new WebSocketLink(pipe, NOTHING);
  pipe.receive(clientFrame({ opcode: Opcode.Ping, payload: bytes(125) }));
  pipe.end();
  await readAll(link);
  await until("the pong", () => pipe.written.length > 0);
  const frame = parseServerFrame(pipe.written[0])!;
  assert.deepEqual([frame.opcode, frame.payload], [Opcode.Pong, bytes(125)]);
});

Deno.test("pings without end to a peer that reads nothing keep one pong, and no frame cuts another", async () => {
  const pipe = new Pipe();
  const link = new WebSocketLink(pipe, NOTHING);
  let letGo!: () => void;
  pipe.held = new Promise((resolve) => letGo = resolve);
  const writes = [link.write(bytes(10)), link.write(bytes(20))];
  for (let i = 0; i < 1_000; i++) {
    pipe.receive(clientFrame({ opcode: Opcode.Ping, payload: Uint8Array.of(i >> 8, i & 0xff) }));
  }
  pipe.end();
  await readAll(link);
  letGo();
  await Promise.all(writes);
  const frames = pipe.written.map((each) => parseServerFrame(each)!);
  assert.deepEqual(frames.map(({ opcode, payload }) => [opcode, payload.length]), [
    [Opcode.Binary, 10],
    [Opcode.Pong, 2],
    [Opcode.Binary, 20],
  ]);
  assert.deepEqual(frames[1].payload, Uint8Array.of(999 >> 8, 999 & 0xff), "the latest one");
});

Deno.test("close says 1000 and then closes the link below", async () => {
  const pipe = new Pipe();
  const link = new WebSocketLink(pipe, NOTHING);
  const reading = link.read(new Uint8Array(8));
  link.close();
  link.close();
  assert.equal(await reading, null);
  const frame = parseServerFrame(pipe.written[0])!;
  assert.deepEqual([frame.opcode, [...frame.payload]], [Opcode.Close, [0x03, 0xe8]]);
  assert.ok(pipe.closed);
});

Deno.test("close does not wait for a peer that takes nothing", async () => {
  const pipe = new Pipe();
  const link = new WebSocketLink(pipe, NOTHING);
  let letGo!: () => void;
  pipe.held = new Promise((resolve) => letGo = resolve);
  const writing = link.write(bytes(10));
  link.close();
  assert.ok(pipe.closed);
  letGo();
  await assert.rejects(writing);
});

/** One lawful stream of a client: its wire bytes and the payload in them. */
function stream(random: Random): { wire: Uint8Array; payload: Uint8Array } {
  const wire: Uint8Array[] = [];
  const payload: Uint8Array[] = [];
  for (let messages = random.between(1, 8); messages > 0; messages--) {
    const frames = random.between(1, 5);
    for (let i = 0; i < frames; i++) {
      const part = random.bytes(random.pick([0, 1, 2, 5, 125, 126, 300, 70_000]));
      payload.push(part);
      wire.push(clientFrame({
        opcode: i === 0 ? Opcode.Binary : Opcode.Continuation,
        final: i === frames - 1,
        payload: part,
        mask: [...random.bytes(4)],
      }));
      if (random.chance(0.2)) {
        const opcode = random.pick([Opcode.Ping, Opcode.Pong]);
        wire.push(clientFrame({ opcode, payload: random.bytes(random.below(126)) }));
      }
    }
  }
  return { wire: join(...wire), payload: join(...payload) };
}

Deno.test("every lawful stream comes through whole, whatever it is cut into", async () => {
  const random = seeded("web socket streams");
  for (let i = 0; i < 200; i++) {
    const { wire, payload } = stream(random);
    const pipe = new Pipe();
    const link = new WebSocketLink(pipe, NOTHING);
    const piece = wire.length < 5_000 ? random.between(1, 9) : random.pick([64, 512, 65_536]);
    pipe.receive(pieces(wire, piece));
    pipe.end();
    const read = await readAll(link, random.pick([16, 512, 4_096]));
    assert.equal(read.length, payload.length);
    assert.deepEqual(read, payload);
  }
});
