/**
 * The launcher's inflate beside the runtime's own: what that one inflates comes out the same, and
 * whatever else is given, it stays within its memory. Compiled with the address sanitizer.
 */
import assert from "node:assert/strict";
import { Buffer } from "node:buffer";
import { constants, deflateRawSync, inflateRawSync } from "node:zlib";
import { output } from "../../../packaging/command.ts";
import { temporaryPlace } from "../../support/broker_process.ts";
import { Random } from "../../support/random.ts";

const HERE = new URL(".", import.meta.url).pathname;
const LAUNCHER = new URL("../../../packaging/launcher/", import.meta.url).pathname;

const INFLATED = 0;
const BAD_STREAM = 1;

interface Result {
  readonly code: number;
  readonly bytes: Uint8Array;
}

/** Inflates every stream in one run of the harness. @throws Error when a sanitizer finds something */
async function inflated(streams: readonly Uint8Array[]): Promise<readonly Result[]> {
  const { directory } = temporaryPlace();
  try {
    const harness = `${directory}/harness`;
    await output("cc", [
      ...["-std=gnu11", "-O1", "-g", "-Wall", "-Wextra", "-Werror"],
      ...["-fsanitize=address,undefined", "-fno-sanitize-recover=all", "-o", harness],
      `${HERE}inflate_harness.c`,
      `${LAUNCHER}inflate.c`,
    ]);
    const length = (stream: Uint8Array) => {
      const bytes = Buffer.alloc(4);
      bytes.writeUInt32LE(stream.length);
      return bytes;
    };
    const input = `${directory}/streams`;
    Deno.writeFileSync(input, Buffer.concat(streams.flatMap((one) => [length(one), one])));
    const { success, stdout, stderr } = await new Deno.Command(harness, {
      args: [input],
      stdout: "piped",
      stderr: "piped",
    }).output();
    assert.ok(success, new TextDecoder().decode(stderr));
    return results(Buffer.from(stdout), streams.length);
  } finally {
    await Deno.remove(directory, { recursive: true });
  }
}

function results(bytes: Buffer, count: number): Result[] {
  const found: Result[] = [];
  for (let at = 0; at < bytes.length;) {
    const length = bytes.readUInt32LE(at + 1);
    found.push({ code: bytes[at], bytes: bytes.subarray(at + 5, at + 5 + length) });
    at += 5 + length;
  }
  assert.equal(found.length, count);
  return found;
}

/** What the runtime makes of a stream; undefined when it refuses it. */
function expected(stream: Uint8Array): Uint8Array | undefined {
  try {
    return inflateRawSync(stream, { maxOutputLength: 8 << 20 });
  } catch (error) {
    if (error instanceof Error) return undefined;
    throw error;
  }
}

/** Texts that repeat near and far, noise, runs, and all lengths around the edges of the buffers. */
function samples(random: Random): Uint8Array[] {
  const noise = (bytes: number) => Uint8Array.from({ length: bytes }, () => random.below(256));
  const few = (bytes: number) => Uint8Array.from({ length: bytes }, () => random.below(3));
  const far = noise(32_768);
  return [
    new Uint8Array(0),
    Uint8Array.of(7),
    new Uint8Array(1 << 20),
    noise(100_000),
    few(300_000),
    Buffer.concat([far, far, far.subarray(1)]),
    Deno.readFileSync(`${LAUNCHER}inflate.c`),
    ...[32_767, 32_768, 32_769, 262_143, 262_144, 262_145, 600_000].map(few),
    ...Array.from({ length: 30 }, () => few(1 + random.below(2_000))),
  ];
}

const OPTIONS = [
  { level: 0 },
  { level: 1 },
  { level: 9 },
  { level: 6, strategy: constants.Z_FIXED },
  { level: 6, strategy: constants.Z_HUFFMAN_ONLY },
  { level: 6, strategy: constants.Z_RLE },
  { level: 9, memLevel: 1 },
];

Deno.test("inflate: what was deflated comes out again, by every strategy", async () => {
  const texts = samples(new Random(8));
  const pairs = texts.flatMap((text) => OPTIONS.map((options) => ({ text, options })));
  const found = await inflated(pairs.map(({ text, options }) => deflateRawSync(text, options)));
  pairs.forEach(({ text, options }, i) => {
    assert.equal(found[i].code, INFLATED, JSON.stringify(options));
    assert.ok(
      Buffer.from(text).equals(found[i].bytes),
      `${text.length} ${JSON.stringify(options)}`,
    );
  });
});

Deno.test("inflate: damaged and cut streams are refused as the runtime refuses them, within bounds", async () => {
  const random = new Random(21);
  const streams: Uint8Array[] = [];
  const texts = samples(random).filter(({ length }) => length > 0 && length < 40_000);
  for (const text of texts) {
    for (const options of OPTIONS) {
      const stream = deflateRawSync(text, options);
      streams.push(stream.subarray(0, random.below(stream.length)));
      for (let i = 0; i < 8; i++) {
        const damaged = Uint8Array.from(stream);
        for (let flips = 1 + random.below(3); flips > 0; flips--) {
          damaged[random.below(damaged.length)] ^= 1 << random.below(8);
        }
        streams.push(damaged);
      }
    }
  }
  for (let i = 0; i < 1_000; i++) {
    streams.push(Uint8Array.from({ length: 1 + random.below(60) }, () => random.below(256)));
  }
  const found = await inflated(streams);
  let refused = 0;
  streams.forEach((stream, i) => {
    const right = expected(stream);
    if (right === undefined) {
      refused++;
      // It takes incomplete codes that nothing uses, which the other one does not.
      if (found[i].code === INFLATED) return;
      assert.equal(found[i].code, BAD_STREAM, Buffer.from(stream).toString("hex"));
    } else {
      assert.equal(found[i].code, INFLATED, Buffer.from(stream).toString("hex"));
      assert.ok(Buffer.from(right).equals(found[i].bytes));
    }
  });
  assert.ok(refused > streams.length / 2, `${refused} of ${streams.length}`);
});
