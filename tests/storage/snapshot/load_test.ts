import assert from "node:assert/strict";
import { BROADCAST_LOG, type StoreSpec } from "../../../src/storage/contract.ts";
import { ByteWriter } from "../../../src/storage/snapshot/byte_writer.ts";
import { crc32c } from "../../../src/storage/snapshot/crc32c.ts";
import { encodeChannels, encodeSessions } from "../../../src/storage/snapshot/encode.ts";
import { headerBytes } from "../../../src/storage/snapshot/file_header.ts";
import { FileKind } from "../../../src/storage/snapshot/format.ts";
import type { ChannelState } from "../../../src/storage/memory/state.ts";
import { FileDirectory } from "../../../src/storage/snapshot/directory.ts";
import type { InFlight, Position, SessionImage } from "../../../src/storage/contract.ts";
import { Dice } from "../conformance/random_steps.ts";
import { appended, message, STORES, submit } from "../conformance/subject.ts";
import { ForgetfulDirectory } from "./forgetful_directory.ts";
import { flipped, live, session, shown, START, World } from "./world.ts";

interface Stage {
  readonly world: World;
  readonly directory: ForgetfulDirectory;
  readonly path: string;
}

/** A directory as a graceful stop of a provider with one of everything left it. */
async function stopped(test: (stage: Stage) => Promise<void>): Promise<void> {
  const path = await Deno.makeTempDir({ prefix: "saguin-snapshot-" });
  try {
    const world = new World();
    const directory = new ForgetfulDirectory(path);
    const provider = await world.start(directory);
    assert.deepEqual(world.said(), [], "a first start has nothing to say");
    await live(provider, "a");
    await world.stop(provider);
    await test({ world, directory, path });
  } finally {
    await Deno.remove(path, { recursive: true });
  }
}

/** Why a start is refused. Nothing of it is left: the next start takes the lock. */
async function refusal(
  { world, directory }: Stage,
  stores: readonly StoreSpec[] = STORES,
): Promise<string> {
  const before = directory.names().map((name) => [name, directory.get(name)]);
  try {
    await world.stop(await world.start(directory, stores));
  } catch (error) {
    assert.deepEqual(directory.names().map((name) => [name, directory.get(name)]), before);
    return (error as Error).message;
  }
  return "it started";
}

/** A whole file around a body. */
function file(kind: FileKind, encode: (out: ByteWriter) => Generator<void>): Uint8Array {
  const out = new ByteWriter();
  out.raw(headerBytes({ kind, writer: "abc", writtenAt: START + 60_000_000_000n }));
  for (const _ of encode(out));
  out.u32(crc32c(out.written()));
  return out.written().slice();
}

function channel(fields: Partial<ChannelState>): ChannelState {
  return {
    name: "events",
    kind: "append",
    next: 10,
    floor: 1,
    records: [],
    jobs: [],
    positions: [],
    holds: [],
    ...fields,
  };
}

function channels(...states: ChannelState[]): Uint8Array {
  return file(FileKind.Channels, (out) => encodeChannels(out, states));
}

function records(...offsets: number[]) {
  return offsets.map((offset) => ({ offset, message: message("t", "x") }));
}

for (
  const name of [
    "events.snapshot",
    "jobs.snapshot",
    "%24saguin%2Fretained.snapshot",
    "saguin.broadcast",
    "saguin.sessions",
  ]
) {
  Deno.test(`S52 S76 Y12 a byte flipped or a cut anywhere in ${name} refuses the start and names it`, () =>
    stopped(async (stage) => {
      const { directory, path } = stage;
      const whole = directory.get(name)!;
      const dice = new Dice(name.length);
      for (let i = 0; i < 12; i++) {
        directory.put(name, flipped(whole, dice.roll(whole.byteLength)));
        assert.ok(
          (await refusal(stage)).startsWith(
            `storage provider "main": snapshot ${path}/${name} is `,
          ),
        );
        directory.put(name, whole.slice(0, dice.roll(whole.byteLength)));
        assert.match(await refusal(stage), /is damaged|is no snapshot/);
      }
      directory.put(name, whole);
      assert.equal(await refusal(stage), "it started");
    }));

  Deno.test(`S53 Y13 another format of ${name} refuses the start with its build and ours`, () =>
    stopped(async (stage) => {
      const { directory } = stage;
      const other = directory.get(name)!.slice(0, -4);
      new DataView(other.buffer).setUint32(8, 20, true);
      const out = new ByteWriter();
      out.raw(other);
      out.u32(crc32c(other));
      directory.put(name, out.written().slice());
      const said = await refusal(stage);
      assert.ok(
        said.includes(`/${name} is in format 20, written by saguin 0123456789abcdef01234567`),
      );
      assert.ok(said.includes("at 2026-01-01T00:01:00.000Z; this broker reads format 21"), said);
    }));
}

Deno.test("S77 Y12 a manifest that is damaged, absent or of another format is a warning", () =>
  stopped(async (stage) => {
    const { world, directory } = stage;
    const whole = directory.get("saguin.manifest")!;
    const says = async (expected: RegExp) => {
      const provider = await world.start(directory);
      const said = world.said();
      assert.equal(said.length, 1, said.join("\n"));
      assert.match(said[0], /the manifest of the last stop cannot be read/);
      assert.match(said[0], expected);
      // The newest file stands in for its moment (S67): all are of one stop, and their holds are kept.
      const { kept, abandoned } = await provider.recoverHolds(() => true);
      assert.deepEqual([kept.length, abandoned], [2, 0]);
      await provider.close();
      directory.delete("saguin.manifest");
    };
    directory.put("saguin.manifest", flipped(whole, 50));
    await says(/checksum/);
    await says(/there is none beside the snapshots/);
    directory.put("saguin.manifest", directory.get("events.snapshot")!);
    await says(/holds channels where a manifest should be/);
  }));

Deno.test("S67 without a manifest the newest file says which holds are stale", () =>
  stopped(async ({ world, directory }) => {
    const old = directory.get("events.snapshot")!.slice();
    const provider = await world.start(directory);
    await world.stop(provider);
    directory.put("events.snapshot", old);
    directory.delete("saguin.manifest");
    const again = await world.start(directory);
    const { kept, abandoned } = await again.recoverHolds(() => true);
    assert.deepEqual(kept.map(({ channel }) => channel), [BROADCAST_LOG]);
    assert.equal(abandoned, 1);
    await world.stop(again);
  }));

Deno.test("S62 S77 files that are missing are warned of, and those of no channel are not", () =>
  stopped(async ({ world, directory }) => {
    directory.delete("events.snapshot");
    directory.put("notes.snapshot", new Uint8Array(100));
    directory.put("notes.txt", new Uint8Array(3));
    const provider = await world.start(directory);
    const said = world.said();
    assert.equal(said.length, 1, said.join("\n"));
    assert.match(said[0], /file of the last stop is missing.*events\.snapshot channels=events/);
    assert.equal(provider.append("events").next(), 1);
    assert.equal(provider.append("audit").next(), 2);
    await world.stop(provider);
    assert.ok(directory.names().includes("notes.snapshot"));
  }));

Deno.test("S64 Y8 sessions without their log refuse the start, a log without sessions does not", () =>
  stopped(async (stage) => {
    const { world, directory } = stage;
    const log = directory.get("saguin.broadcast")!;
    directory.delete("saguin.broadcast");
    assert.match(
      await refusal(stage),
      /saguin\.sessions has lost its log: there is no saguin\.broadcast/,
    );
    directory.put("saguin.broadcast", log);
    directory.delete("saguin.sessions");
    const provider = await world.start(directory);
    assert.match(world.said().join("\n"), /file of the last stop is missing.*saguin\.sessions/);
    assert.equal((await provider.sessions().load()).sessions.length, 0);
    assert.equal(provider.append(BROADCAST_LOG).next(), 2);
    await world.stop(provider);
  }));

Deno.test("S78 a channel that is configured as another type refuses the start", () =>
  stopped(async (stage) => {
    const as = (channel: string, kind: StoreSpec["kind"]) => refusal(stage, [{ channel, kind }]);
    assert.match(
      await as("events", "latest"),
      /events\.snapshot holds channel events as append, and it is configured as latest/,
    );
    assert.match(await as("state", "queue"), /holds channel state as latest/);
    assert.match(await as("jobs", "append"), /holds channel jobs as queue/);
  }));

Deno.test("S76 a file under another channel's name refuses the start", () =>
  stopped(async (stage) => {
    const { directory } = stage;
    directory.put("events.snapshot", directory.get("audit.snapshot")!);
    assert.match(await refusal(stage), /events\.snapshot holds audit, not events/);
    directory.put("events.snapshot", channels());
    assert.match(await refusal(stage), /events\.snapshot holds no channel, not events/);
  }));

Deno.test("S57 what contradicts itself refuses the start, whatever its checksum says", () =>
  stopped(async (stage) => {
    const { directory } = stage;
    const says = async (fields: Partial<ChannelState>) => {
      const name = fields.name ?? "events";
      const before = directory.get(`${name}.snapshot`)!;
      directory.put(`${name}.snapshot`, channels(channel(fields)));
      const said = await refusal(stage);
      directory.put(`${name}.snapshot`, before);
      return said.replace(/^.* contradicts itself: channel \w+ /, "");
    };
    const at = (reader: string, offset: number): Position => ({
      reader,
      offset,
      expiry: 0,
      lastSeen: 0n,
    });
    const job = (offset: number) => ({
      ...records(offset)[0],
      attempts: 0,
      firstDelivered: 0n,
      lastDelivered: 0n,
    });
    assert.equal(await says({ records: records(3, 2) }), "has offset 2 after 3");
    assert.equal(await says({ records: records(3, 3) }), "has offset 3 after 3");
    assert.equal(await says({ floor: 4, records: records(3) }), "has offset 3 below its floor 4");
    assert.equal(
      await says({ records: records(10) }),
      "has offset 10 at or past its next offset 10",
    );
    assert.equal(await says({ next: 3, floor: 4 }), "has floor 4 and next offset 3");
    assert.equal(await says({ next: 1, floor: 0 }), "has floor 0 and next offset 1");
    assert.equal(
      await says({ positions: [at("bridge:up", 11)] }),
      "has the position of bridge:up at 11, past its end 10",
    );
    assert.equal(await says({ positions: [at("x", 1), at("x", 2)] }), "has two positions of x");
    assert.equal(
      await says({ name: "state", kind: "latest", records: records(1, 2) }),
      "has two values of topic t",
    );
    assert.equal(
      await says({ name: "jobs", kind: "queue", jobs: [job(2), job(1)] }),
      "has offset 1 after 2",
    );
    const hold = { clientId: "c", packetId: 1, heldAt: 0n, message: message("t", "x") };
    assert.equal(await says({ holds: [hold, hold] }), "holds packet 1 of c twice");
    // Below the floor, and at the end, a position is legal.
    assert.equal(
      await says({ floor: 5, records: records(5, 9), positions: [at("a", 1), at("b", 10)] }),
      "it started",
    );
  }));

Deno.test("S65 sessions are held against the log beside them", () =>
  stopped(async (stage) => {
    const { world, directory } = stage;
    const sent = (packetId: number, offset: number, group = ""): InFlight => ({
      packetId,
      offset,
      qos: 1,
      state: "sent",
      group,
    });
    const put = (cursors: [string, number][], images: SessionImage[]) => {
      const positions = cursors.map(([clientId, offset]) => ({
        reader: `mqtt:${clientId}`,
        offset,
        expiry: 1,
        lastSeen: 0n,
      }));
      const log = channel({ name: BROADCAST_LOG, floor: 2, records: records(2, 4, 5), positions });
      directory.put("saguin.broadcast", channels(log));
      directory.put(
        "saguin.sessions",
        file(FileKind.Sessions, (out) => encodeSessions(out, images, [])),
      );
    };
    const image = (clientId: string, inFlight: InFlight[], window = 10): SessionImage => ({
      record: session(clientId, { window }),
      cursor: 0,
      inFlight,
    });
    put([["a", 4], ["gone", 3]], [
      image("a", [sent(1, 2), sent(2, 2, "g"), sent(3, 3, "g"), sent(4, 4), sent(5, 6)]),
      image("b", []),
    ]);
    const provider = await world.start(directory);
    const { sessions } = await provider.sessions().load();
    assert.deepEqual(
      sessions.map(({ record, cursor, inFlight }) => [record.clientId, cursor, inFlight]),
      [["a", 4, [sent(2, 2, "g"), sent(4, 4)]]],
    );
    await world.stop(provider);

    put([["a", 4]], [image("a", [sent(1, 10)])]);
    assert.match(
      await refusal(stage),
      /does not belong to its log: session a has message 10 in flight/,
    );
    put([["a", 4]], [image("a", [sent(1, 4), sent(2, 5)], 1)]);
    assert.match(await refusal(stage), /session a has 2 messages in flight in a window of 1/);
    put([["a", 4]], [image("a", [sent(1, 4), sent(1, 5)])]);
    assert.match(await refusal(stage), /session a has two packets 1/);
    put([["a", 4]], [image("a", []), image("a", [])]);
    assert.match(await refusal(stage), /two sessions of a/);
    put([["a", 4]], [image("a", [{ ...sent(1, 4), qos: 0 as 1 }])]);
    assert.match(await refusal(stage), /is damaged: a message in flight has QoS 0/);
  }));

Deno.test("S79 a snapshot over the bound loads whole, is charged, and is reported", () =>
  stopped(async ({ world, directory }) => {
    const bound = { maxBytes: 100, reserveBytes: 20 };
    const before = await world.start(directory);
    const { bytes } = before.statistics();
    await world.stop(before);
    const provider = await world.start(directory, STORES, bound);
    assert.equal(provider.statistics().bytes, bytes);
    assert.match(world.said().join("\n"), /holds more than its bound.*publishes_stop_at=80/);
    assert.match(world.said().join("\n"), /session_bytes=3503/);
    const full = [appended(provider.append("events"), message("t", "x"))];
    assert.equal(await submit(provider, full), "full");
    await provider.sessions().save(session("c-a", { expiry: 1 }), "answering");
    assert.equal((await provider.append("events").releaseHold("c1", 97))?.offset, 2);
    await world.stop(provider);
  }));

Deno.test("S61 a file name that does not fit, and a directory that is not there, refuse the start", () =>
  stopped(async (stage) => {
    const long = "\u{e9}".repeat(42);
    assert.match(
      await refusal(stage, [{ channel: long, kind: "append" }]),
      /has a snapshot file name of 261 bytes, and 255 fit/,
    );
    const missing = new FileDirectory(`${stage.path}/nowhere`);
    await assert.rejects(
      stage.world.start(missing),
      /snapshot_dir .*\/nowhere cannot be read, create it/,
    );
    await assert.rejects(Deno.stat(`${stage.path}/nowhere`), Deno.errors.NotFound);
  }));

Deno.test("two channels that one file would serve are refused by name", () =>
  stopped(async (stage) => {
    const stores: StoreSpec[] = [
      { channel: "Jobs", kind: "append" },
      { channel: "jobs", kind: "append" },
    ];
    stage.directory.delete("jobs.snapshot");
    assert.equal(await refusal(stage, stores), "it started");
    stage.directory.ignoresCase = () => Promise.resolve(true);
    assert.match(
      await refusal(stage, stores),
      /channels Jobs and jobs differ in letter case alone/,
    );
  }));

Deno.test("S153 S156 a second broker on the directory is refused before it reads anything", async () => {
  const path = await Deno.makeTempDir({ prefix: "saguin-snapshot-" });
  try {
    const world = new World();
    const first = await world.start(new FileDirectory(path));
    await assert.rejects(
      new World().start(new FileDirectory(path)),
      /storage provider "main": lock .*\/saguin\.lock is held by another broker/,
    );
    await live(first, "a");
    const before = await shown(first);
    await world.stop(first);
    await Deno.writeTextFile(`${path}/events.tmp`, "half");
    await Deno.writeTextFile(`${path}/notes.tmp.txt`, "mine");
    const second = await world.start(new FileDirectory(path));
    assert.deepEqual(await shown(second), before);
    assert.deepEqual(world.said(), []);
    await assert.rejects(Deno.stat(`${path}/events.tmp`), Deno.errors.NotFound);
    await Deno.stat(`${path}/notes.tmp.txt`);
    await world.stop(second);
    for await (const { name } of Deno.readDir(path)) {
      if (name === "notes.tmp.txt") continue;
      assert.equal((await Deno.stat(`${path}/${name}`)).mode! & 0o777, 0o600, name);
    }
  } finally {
    await Deno.remove(path, { recursive: true });
  }
});
