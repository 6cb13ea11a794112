import assert from "node:assert/strict";
import { inspect, isDeepStrictEqual } from "node:util";
import { PacketWriter } from "../../../src/mqtt/codec/encode.ts";
import {
  generateConnect,
  type Generated,
  generateDisconnect,
  generatePacket,
  mutate,
} from "../../support/generate_packets.ts";
import { encodeConnect, join, type Level } from "../../support/mqtt_bytes.ts";
import { Random } from "../../support/random.ts";
import {
  type Pair,
  THEY_DO_NOT_ENCODE,
  VALUE_DIFFERENCES,
  type ValueDifference,
  VERDICT_DIFFERENCES,
} from "./differences.ts";
import { peerDecodeClient, peerDecodeServer, peerEncode } from "./peer.ts";
import { decodeAll } from "./support.ts";
import { writeSomething } from "./written_packets.ts";

/** Fixed, so that a listed difference either happens in these packets or is no difference. */
const SEED = 5311;
const PACKETS = 4_000;

const LEVELS: readonly Level[] = [4, 5];

function clientPacket(random: Random, level: Level): Generated {
  const roll = random.fraction();
  if (roll < 0.15) return generateConnect(random, level);
  return roll < 0.25 ? generateDisconnect(random, level) : generatePacket(random, level);
}

/** The chunks of a connection on which `packet` is the last packet. */
function connection(packet: Generated, level: Level, bytes: Uint8Array): Uint8Array[] {
  return packet.packet.type === 1 ? [bytes] : [encodeConnect({ level }), bytes];
}

// ---------------------------------------------------------------------------------- explaining

/** `value` with every list of User Properties in it, at any depth, passed through `apply`. */
function withHeaders(value: unknown, apply: ValueDifference["apply"]): unknown {
  if (Array.isArray(value)) return value.map((each) => withHeaders(each, apply));
  if (typeof value !== "object" || value === null || value instanceof Uint8Array) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, inner]) => [
      key,
      key === "userProperties" ? apply(inner as Pair[]) : withHeaders(inner, apply),
    ]),
  );
}

/**
 * Fails unless `theirs` is `ours`, or what the listed differences make of it; adds those that were needed
 * to `happened`.
 */
function assertSameOrListed(
  ours: unknown,
  theirs: unknown,
  direction: "their encoder" | "their decoder",
  happened: Set<string>,
): void {
  if (isDeepStrictEqual(ours, theirs)) return;
  let explained = ours;
  const used: string[] = [];
  for (const difference of VALUE_DIFFERENCES) {
    if (difference.direction !== direction && difference.direction !== "both") continue;
    const next = withHeaders(explained, (headers) => difference.apply(headers));
    if (!isDeepStrictEqual(next, explained)) used.push(difference.name);
    explained = next;
  }
  assert.deepEqual(theirs, explained, "a difference that is not on the list");
  for (const name of used) happened.add(name);
}

function assertAllHappened(listed: readonly string[], happened: Set<string>): void {
  assert.deepEqual(listed.filter((each) => !happened.has(each)), [], "listed, but never happened");
}

function valueNames(direction: "their encoder" | "their decoder"): string[] {
  return VALUE_DIFFERENCES
    .filter((each) => each.direction === direction || each.direction === "both")
    .map((each) => each.name);
}

// ------------------------------------------------------------------------------------- the tests

Deno.test("what mqtt-packet encodes as a client, the decoder reads", () => {
  const random = new Random(SEED);
  const happened = new Set<string>();
  for (let i = 0; i < PACKETS; i++) {
    const level = random.pick(LEVELS);
    const generated = clientPacket(random, level);
    const bytes = peerEncode(generated.packet, level);
    if (typeof bytes === "string") {
      const listed = THEY_DO_NOT_ENCODE.find((each) => each.says.test(bytes));
      assert.ok(listed, `not encoded, and not on the list: ${bytes} ${inspect(generated.packet)}`);
      happened.add(listed.says.source);
      continue;
    }
    const { packets, fault } = decodeAll(connection(generated, level, bytes));
    assert.equal(fault, undefined, `${fault?.reason} ${inspect(generated.packet, { depth: 6 })}`);
    assertSameOrListed(generated.packet, packets.at(-1), "their encoder", happened);
  }
  assertAllHappened(
    [...valueNames("their encoder"), ...THEY_DO_NOT_ENCODE.map((each) => each.says.source)],
    happened,
  );
});

Deno.test("what the writer encodes as a server, mqtt-packet reads", () => {
  const random = new Random(SEED);
  const happened = new Set<string>();
  for (let i = 0; i < PACKETS / 10; i++) {
    const level = random.pick(LEVELS);
    const writer = new PacketWriter();
    writer.level = level;
    const written = Array.from({ length: 10 }, (_, n) => writeSomething(random, writer, n === 9));
    const pieces: Uint8Array[] = [];
    for (let piece = writer.take(); piece !== undefined; piece = writer.take()) pieces.push(piece);
    const { packets, error } = peerDecodeServer(level, join(...pieces));
    assert.equal(error, undefined, inspect(written, { depth: 6 }));
    assert.equal(packets.length, written.length);
    written.forEach((each, n) => {
      assertSameOrListed(each, packets[n], "their decoder", happened);
    });
  }
  assertAllHappened(valueNames("their decoder"), happened);
});

Deno.test("spoiled packets are refused by both, or the difference is listed", () => {
  const random = new Random(SEED);
  const happened = new Set<string>();
  for (let i = 0; i < 5 * PACKETS; i++) {
    const level = random.pick(LEVELS);
    const generated = clientPacket(random, level);
    const bytes = mutate(random, generated.bytes);
    const chunks = connection(generated, level, bytes);
    const { packets, fault } = decodeAll(chunks);
    const theirs = peerDecodeClient(chunks);
    if ((fault === undefined) === (theirs.error === undefined)) {
      if (fault === undefined) {
        assertSameOrListed(packets, theirs.packets, "their decoder", happened);
      }
      continue;
    }
    const refuses = fault === undefined ? "theirs" : "ours";
    const reason = fault?.reason ?? theirs.error!;
    const listed = VERDICT_DIFFERENCES.find((each) => {
      return each.refuses === refuses && each.says.test(reason);
    });
    assert.ok(
      listed,
      `only ${refuses} refuses, and that is not on the list: ${reason}\n${inspect(bytes)}`,
    );
    happened.add(listed.says.source);
  }
  assertAllHappened(VERDICT_DIFFERENCES.map((each) => each.says.source), happened);
});
