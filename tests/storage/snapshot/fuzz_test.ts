import assert from "node:assert/strict";
import { ByteWriter } from "../../../src/storage/snapshot/byte_writer.ts";
import { crc32c } from "../../../src/storage/snapshot/crc32c.ts";
import {
  decodeChannels,
  decodeManifest,
  decodeSessions,
} from "../../../src/storage/snapshot/decode.ts";
import { encodeChannels } from "../../../src/storage/snapshot/encode.ts";
import { openFile } from "../../../src/storage/snapshot/file_header.ts";
import { FileKind, SnapshotFault } from "../../../src/storage/snapshot/format.ts";
import { message } from "../conformance/subject.ts";
import { Dice } from "../conformance/random_steps.ts";
import { ForgetfulDirectory } from "./forgetful_directory.ts";
import { live, World } from "./world.ts";

const SPOILED_A_FILE = 1_500;
const LARGE_PAYLOAD_BYTES = 64 * 1024;

const DECODERS = {
  [FileKind.Channels]: decodeChannels,
  [FileKind.Manifest]: decodeManifest,
  [FileKind.Sessions]: decodeSessions,
};

function spoil(dice: Dice, whole: Uint8Array): Uint8Array {
  let bytes = whole.slice();
  for (let i = 1 + dice.roll(3); i > 0; i--) {
    const at = 45 + dice.roll(Math.max(1, bytes.byteLength - 49));
    switch (dice.roll(4)) {
      case 0:
        bytes[at] ^= 1 << dice.roll(8);
        break;
      case 1: {
        const cut = 49 + dice.roll(bytes.byteLength - 48);
        bytes = bytes.slice(0, Math.min(cut, bytes.byteLength));
        break;
      }
      case 2:
        // A length or a count that lies.
        if (at + 8 < bytes.byteLength) {
          new DataView(bytes.buffer).setUint32(
            at,
            dice.one([0xffffffff, 0x7fffffff, 1 << 20]),
            true,
          );
        }
        break;
      default: {
        const longer = new Uint8Array(bytes.byteLength + 1 + dice.roll(20));
        longer.set(bytes);
        bytes = longer;
      }
    }
  }
  // With a checksum that holds, so that what is behind it is reached.
  const end = bytes.byteLength - 4;
  new DataView(bytes.buffer).setUint32(end, crc32c(bytes.subarray(0, end)), true);
  return bytes;
}

/** What the walk over packed records accepts, refuses and says is what the decoder does. */
function sameEitherWay(body: Uint8Array): void {
  const outcome = (packed: boolean) => {
    try {
      return decodeChannels(body, () => packed).map(({ packed, records, ...rest }) => {
        const all = [...records];
        packed?.walk(0, (record) => all.push(record) > 0);
        return { ...rest, records: all };
      });
    } catch (error) {
      return (error as Error).message;
    }
  };
  assert.deepEqual(outcome(true), outcome(false));
}

/** How often a lie is told before what was taken counts as its doing. */
const LOOKS = 3;

Deno.test("S54 no lie of a snapshot makes its reader take more memory than twice the file", () => {
  const payload = new Uint8Array(LARGE_PAYLOAD_BYTES);
  const out = new ByteWriter();
  const records = Array.from({ length: 4 }, (_, i) => ({
    offset: i + 1,
    message: message("t", "", { payload, headers: [["name", "value"]] }),
  }));
  const state = { name: "events", kind: "append", next: 5, floor: 1, records } as const;
  for (const _ of encodeChannels(out, [{ ...state, jobs: [], positions: [], holds: [] }]));
  const whole = out.written().slice();
  const used = () => {
    const { heapUsed, external } = Deno.memoryUsage();
    return heapUsed + external;
  };
  let faults = 0;
  for (const packed of [false, true]) {
    // Every length and count of the file stands in these.
    for (const start of [0, whole.byteLength - 200]) {
      for (let at = start; at < start + 180; at++) {
        for (const lie of [0xffffffff, 0x7fffffff, 0x10000000, whole.byteLength * 3]) {
          const body = whole.slice();
          new DataView(body.buffer).setUint32(at, lie, true);
          // The heap grows by what the runtime compiles, too, but not every time; a lie does it again.
          let taken = Infinity;
          for (let look = 0; look < LOOKS && taken > 2 * body.byteLength; look++) {
            const before = used();
            try {
              decodeChannels(body, () => packed);
            } catch (error) {
              assert.ok(error instanceof SnapshotFault, `byte ${at}: ${error}`);
              faults++;
            }
            taken = used() - before;
          }
          assert.ok(taken <= 2 * body.byteLength, `byte ${at}: ${taken} bytes were taken`);
        }
      }
    }
  }
  assert.ok(faults > 100, `only ${faults} faults`);
});

Deno.test("S46 S54 spoiled snapshots are named faults or whole, never anything else", async () => {
  const path = await Deno.makeTempDir({ prefix: "saguin-snapshot-" });
  try {
    const world = new World();
    const directory = new ForgetfulDirectory(path);
    const provider = await world.start(directory);
    for (const run of ["a", "b", "c"]) await live(provider, run);
    await world.stop(provider);
    for (const name of directory.names()) {
      const whole = directory.get(name)!;
      let faults = 0;
      for (let seed = 1; seed <= SPOILED_A_FILE; seed++) {
        const bytes = spoil(new Dice(seed), whole);
        try {
          const { header, body } = openFile(bytes, undefined);
          if (header.kind === FileKind.Channels) sameEitherWay(body);
          DECODERS[header.kind](body);
        } catch (error) {
          assert.ok(error instanceof SnapshotFault, `${name}, seed ${seed}: ${error}`);
          faults++;
        }
      }
      assert.ok(faults > SPOILED_A_FILE / 4, `${name}: only ${faults} faults`);
    }
  } finally {
    await Deno.remove(path, { recursive: true });
  }
});
