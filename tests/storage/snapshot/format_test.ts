import { encodeChannels } from "../../../src/storage/snapshot/encode.ts";
import assert from "node:assert/strict";
import { ByteReader } from "../../../src/storage/snapshot/byte_reader.ts";
import { ByteWriter } from "../../../src/storage/snapshot/byte_writer.ts";
import { crc32c } from "../../../src/storage/snapshot/crc32c.ts";
import {
  decodeChannels,
  decodeManifest,
  decodeSessions,
} from "../../../src/storage/snapshot/decode.ts";
import { headerBytes, openFile } from "../../../src/storage/snapshot/file_header.ts";
import {
  channelFile,
  channelsFiles,
  isTemporaryFile,
  temporaryFile,
} from "../../../src/storage/snapshot/file_names.ts";
import { FileKind, SnapshotFault } from "../../../src/storage/snapshot/format.ts";
import { Dice } from "../conformance/random_steps.ts";

const encoder = new TextEncoder();

Deno.test("S48 the checksum is CRC32C", () => {
  assert.equal(crc32c(encoder.encode("123456789")), 0xe3069283);
  assert.equal(crc32c(new Uint8Array(0)), 0);
  assert.equal(crc32c(new Uint8Array(32)), 0x8a9136aa);
  assert.equal(crc32c(new Uint8Array(32).fill(0xff)), 0x62a8ab43);
});

Deno.test("S48 a checksum taken in pieces is that of the whole", () => {
  const dice = new Dice(7);
  const bytes = Uint8Array.from({ length: 1_000 }, () => dice.roll(256));
  const bitwise = (bytes: Uint8Array) => {
    let crc = 0xffffffff;
    for (const byte of bytes) {
      crc ^= byte;
      for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0x82f63b78 : crc >>> 1;
    }
    return ~crc >>> 0;
  };
  assert.equal(crc32c(bytes), bitwise(bytes));
  for (let i = 0; i < 50; i++) {
    const at = dice.roll(1_001);
    assert.equal(crc32c(bytes.subarray(at), crc32c(bytes.subarray(0, at))), bitwise(bytes));
  }
});

Deno.test("S47 the header stands where every version has it", () => {
  const header = headerBytes({
    kind: FileKind.Manifest,
    writer: "0123456789abcdef0123456789abcdef",
    writtenAt: 1_767_225_600_000_000_001n,
  });
  assert.equal(header.byteLength, 45);
  const view = new DataView(header.buffer);
  assert.equal(new TextDecoder().decode(header.subarray(0, 8)), "SAGUSNAP");
  assert.equal(view.getUint32(8, true), 21);
  assert.equal(header[12], 2);
  assert.equal(new TextDecoder().decode(header.subarray(13, 37)), "0123456789abcdef01234567");
  assert.equal(view.getBigInt64(37, true), 1_767_225_600_000_000_001n);
  const short = headerBytes({ kind: FileKind.Channels, writer: "dev", writtenAt: 0n });
  assert.deepEqual([...short.subarray(13, 18)], [100, 101, 118, 0, 0]);
});

function file(kind: number, body: number[], version = 21, writer = "abc"): Uint8Array {
  const bytes = new Uint8Array(45 + body.length + 4);
  bytes.set(headerBytes({ kind, writer, writtenAt: 1_767_225_600_000_000_000n }));
  const view = new DataView(bytes.buffer);
  view.setUint32(8, version, true);
  bytes.set(body, 45);
  return sealed(bytes);
}

/** With the checksum that its bytes have. */
function sealed(bytes: Uint8Array): Uint8Array {
  const end = bytes.byteLength - 4;
  new DataView(bytes.buffer).setUint32(end, crc32c(bytes.subarray(0, end)), true);
  return bytes;
}

function fault(read: () => unknown): string {
  try {
    read();
  } catch (error) {
    assert.ok(error instanceof SnapshotFault, `${error}`);
    return error.message;
  }
  return "no fault";
}

Deno.test("S51 S53 a file is refused by the first thing that is wrong with it", () => {
  const open = (bytes: Uint8Array) => fault(() => openFile(bytes, FileKind.Channels));
  const good = file(FileKind.Channels, [0, 0, 0, 0]);
  assert.equal(open(good), "no fault");
  assert.match(open(good.subarray(0, 48)), /is damaged: it has 48 bytes/);
  assert.match(open(new Uint8Array(60)), /is no snapshot/);
  for (let at = 8; at < good.byteLength; at++) {
    const bytes = good.slice();
    bytes[at] ^= 1;
    assert.match(open(bytes), /checksum does not match/, `byte ${at}`);
  }
  assert.match(open(good.subarray(0, 50)), /checksum does not match/);
  assert.equal(
    open(file(FileKind.Channels, [], 20, "deadbeef")),
    "is in format 20, written by saguin deadbeef at 2026-01-01T00:00:00.000Z; this broker reads " +
      "format 21: drain the provider with the build that wrote it",
  );
  assert.match(open(file(FileKind.Manifest, [], 22)), /is in format 22/);
  assert.match(open(file(FileKind.Manifest, [])), /holds a manifest where channels should be/);
  assert.match(open(file(FileKind.Sessions, [])), /holds sessions where channels should be/);
  assert.match(open(file(9, [])), /is of an unknown kind, 9/);
});

Deno.test("S54 nothing is made of a count or a length before it is held against what is left", () => {
  const lie = [0xff, 0xff, 0xff, 0xff];
  assert.match(fault(() => decodeChannels(Uint8Array.from(lie))), /announces 4294967295 items/);
  const reader = () => new ByteReader(Uint8Array.from([...lie, 1, 2, 3]));
  assert.match(fault(() => reader().bytes()), /4294967295 bytes are announced where 3 are left/);
  assert.match(fault(() => reader().text()), /4294967295 bytes are announced/);
  assert.match(fault(() => reader().list(1, () => 0)), /announces 4294967295 items/);
  const three = new ByteReader(Uint8Array.from([3, 0, 0, 0, 1, 2, 3]));
  assert.deepEqual(three.list(1, () => three.u8()), [1, 2, 3]);
  assert.match(fault(() => three.u8()), /1 bytes are announced where 0 are left/);
});

Deno.test("S53 nothing may follow what was read", () => {
  const two = [0, 0, 0, 0, 0, 0, 0, 0];
  assert.match(fault(() => decodeChannels(Uint8Array.from([0, 0, 0, 0, 7]))), /1 bytes follow/);
  assert.match(fault(() => decodeManifest(Uint8Array.from([0, 0, 0, 0, 7]))), /1 bytes follow/);
  assert.match(fault(() => decodeSessions(Uint8Array.from([...two, 7]))), /1 bytes follow/);
  assert.equal(fault(() => decodeSessions(Uint8Array.from(two))), "no fault");
});

Deno.test("S45 S55 S44 primitives come back, and values no writer makes are refused", () => {
  const writer = new ByteWriter();
  writer.offset(Number.MAX_SAFE_INTEGER);
  writer.time(-1n);
  writer.time(1_789_012_345_678_901_234n);
  writer.text("");
  writer.text("\u{feff}a\u{e9}\u{1f600}");
  writer.text("x".repeat(100_000));
  writer.bytes(new Uint8Array([1, 0, 255]));
  writer.bool(true);
  writer.u16(65_535);
  const reader = new ByteReader(writer.written());
  assert.equal(reader.offset(), Number.MAX_SAFE_INTEGER);
  assert.equal(reader.time(), -1n);
  assert.equal(reader.time(), 1_789_012_345_678_901_234n);
  assert.equal(reader.text(), "");
  assert.equal(reader.text(), "\u{feff}a\u{e9}\u{1f600}");
  assert.equal(reader.text(), "x".repeat(100_000));
  assert.deepEqual([...reader.bytes()], [1, 0, 255]);
  assert.equal(reader.bool(), true);
  assert.equal(reader.u16(), 65_535);
  reader.end();
  const of = (bytes: number[]) => new ByteReader(Uint8Array.from(bytes));
  assert.match(fault(() => of([0, 0, 0, 0, 0, 0, 32, 0]).offset()), /above 2\^53-1/);
  assert.match(fault(() => of([2]).bool()), /2 stands where 0 or 1 does/);
  assert.match(fault(() => of([3]).oneOf(3)), /3 stands where a number below 3 does/);
  assert.match(fault(() => of([2, 0, 0, 0, 0xc3, 0x28]).text()), /is not UTF-8/);
  assert.match(fault(() => of([1]).end()), /1 bytes follow its contents/);
});

Deno.test("S60 every channel has a file of its own, whatever its name is", () => {
  assert.equal(channelFile("events"), "events.snapshot");
  assert.equal(channelFile("a.b"), "a%2Eb.snapshot");
  assert.equal(channelFile(".."), "%2E%2E.snapshot");
  assert.equal(channelFile("50%"), "50%25.snapshot");
  assert.equal(channelFile("\u{e9}/"), "%C3%A9%2F.snapshot");
  assert.equal(channelFile("$saguin/retained"), "%24saguin%2Fretained.snapshot");
  assert.equal(channelFile("A_b-9"), "A_b-9.snapshot");
});

Deno.test("S59 a temporary file is told from what is kept", () => {
  for (const file of ["events.snapshot", "a%2Eb.snapshot", "saguin.manifest", "saguin.sessions"]) {
    assert.equal(isTemporaryFile(temporaryFile(file)), true, file);
    assert.ok(temporaryFile(file).length <= Math.max(file.length, 20));
    assert.equal(isTemporaryFile(file), false, file);
  }
  for (const name of ["notes.tmp.txt", "a b.tmp", "..tmp", ".tmp", "saguin.lock.tmp"]) {
    assert.equal(isTemporaryFile(name), false, name);
  }
});

Deno.test("S58 S59 a queue shares a file with its dead letters, and nothing else does", () => {
  const files = channelsFiles([
    { channel: "jobs__dlq", kind: "append" },
    { channel: "jobs", kind: "queue" },
    { channel: "logs__dlq", kind: "append" },
    { channel: "logs", kind: "append" },
    { channel: "$saguin/broadcast", kind: "append" },
    { channel: "$saguin/retained", kind: "latest" },
  ]);
  assert.deepEqual(files.map(({ file, stores }) => [file, ...stores.map((s) => s.channel)]), [
    ["%24saguin%2Fretained.snapshot", "$saguin/retained"],
    ["jobs.snapshot", "jobs", "jobs__dlq"],
    ["logs.snapshot", "logs"],
    ["logs__dlq.snapshot", "logs__dlq"],
    ["saguin.broadcast", "$saguin/broadcast"],
  ]);
});

Deno.test("S56 a channels file has its fields in this order and of these widths", () => {
  const out = new ByteWriter();
  const body = {
    messageId: "id",
    topic: "t",
    timestamp: 2n,
    headers: [["n", "v"]] as const,
    properties: { contentType: "c", payloadFormat: 1 as const, messageExpiry: 7 },
    payload: Uint8Array.of(9),
    retain: true,
    bridge: "b",
    clientId: "k",
    qos: 2 as const,
    groupCopy: false,
    onlyFor: "o",
  };
  const position = { reader: "r", offset: 3, expiry: 4, lastSeen: 5n };
  const hold = { clientId: "h", packetId: 0x0102, heldAt: 6n, message: body };
  const state = { name: "e", kind: "append", next: 8, floor: 1, jobs: [] } as const;
  const records = [{ offset: 1, message: body }];
  for (
    const _ of encodeChannels(out, [{ ...state, records, positions: [position], holds: [hold] }])
  ) assert.fail("nothing here fills a buffer");
  const u64 = (value: number) => [value, 0, 0, 0, 0, 0, 0, 0];
  const u32 = (value: number) => [value, 0, 0, 0];
  const text = (value: string) => [...u32(value.length), ...new TextEncoder().encode(value)];
  const message = [
    ...text("id"),
    ...text("t"),
    ...u64(2),
    ...[...u32(1), ...text("n"), ...text("v")],
    ...[...u32(1), 9],
    ...[1, ...text("c")],
    0,
    0,
    ...[1, 1],
    ...[1, ...u32(7)],
    1,
    ...text("b"),
    ...text("k"),
    2,
    0,
    ...text("o"),
  ];
  assert.deepEqual([...out.written()], [
    ...u32(1),
    ...text("e"),
    0,
    ...u64(8),
    ...u64(1),
    ...[...u32(1), ...u64(1), ...message],
    ...[...u32(1), ...text("r"), ...u64(3), ...u32(4), ...u64(5)],
    ...[...u32(1), ...text("h"), 2, 1, ...u64(6), ...message],
  ]);
});
