import assert from "node:assert/strict";
import { openFile } from "../../../src/storage/snapshot/file_header.ts";
import { ForgetfulDirectory } from "./forgetful_directory.ts";
import { live, shown, World } from "./world.ts";

const FILES = [
  "%24saguin%2Fretained.snapshot",
  "audit.snapshot",
  "events.snapshot",
  "jobs.snapshot",
  "saguin.broadcast",
  "saguin.sessions",
  "state.snapshot",
];
const CHANNELS_WITH_HOLDS = ["events.snapshot", "saguin.broadcast"];

type Cut = "killed" | "power cut" | "power cut, names kept";

function cut(directory: ForgetfulDirectory, how: Cut): void {
  if (how === "killed") directory.killed();
  else directory.powerCut(how === "power cut, names kept");
}

async function inDirectory(test: (path: string) => Promise<void>): Promise<void> {
  const path = await Deno.makeTempDir({ prefix: "saguin-snapshot-" });
  try {
    await test(path);
  } finally {
    await Deno.remove(path, { recursive: true });
  }
}

/** Moments at which the files say they were written; 0n: the file is not there. */
function moments(directory: ForgetfulDirectory, files: readonly string[]): Map<string, bigint> {
  return new Map(files.map((file) => {
    const bytes = directory.get(file);
    return [file, bytes === undefined ? 0n : openFile(bytes, undefined).header.writtenAt];
  }));
}

/**
 * Two runs; the second dies in its stop at call `dies`. What the third run finds is checked against what
 * the files on the disk say of themselves. False when the stop was over before that call.
 */
async function dieInStop(path: string, dies: number, how: Cut): Promise<boolean> {
  const world = new World();
  const directory = new ForgetfulDirectory(path);
  const first = await world.start(directory);
  await live(first, "a");
  const before = await shown(first);
  await world.stop(first);
  const firstStop = world.now;
  directory.trace.length = 0;

  const second = await world.start(directory);
  await live(second, "b");
  const acknowledged = { packetId: 1, offset: 1 };
  const change = { clientId: "c-a", put: [], drop: [acknowledged], cursor: 2 };
  await second.sessions().change(change, "connected");
  const after = await shown(second);
  directory.diesAt = dies;
  const died = await world.stop(second).then(() => false, () => true);
  const calls = directory.trace.length;
  cut(directory, how);
  if (!died) assert.ok(calls <= dies);

  const written = moments(directory, FILES);
  const manifest = moments(directory, ["saguin.manifest"]).get("saguin.manifest");
  const third = await world.start(directory);
  const found = await shown(third);
  let heldBefore = 0;
  for (const file of FILES) {
    const isNew = written.get(file) !== firstStop;
    let expected = (isNew ? after : before).get(file);
    // Old sessions beside a new log: what the new log says is acknowledged stays so (Y7).
    if (file === "saguin.sessions" && !isNew && written.get("saguin.broadcast") !== firstStop) {
      assert.equal(expected, "c-a@1[1]");
      expected = "c-a@2[]";
    }
    assert.equal(found.get(file), expected, `${file}, ${how} at ${dies}`);
    if (!isNew && CHANNELS_WITH_HOLDS.includes(file)) heldBefore++;
  }
  const stale = manifest === firstStop
    ? []
    : FILES.filter((file) => written.get(file) === firstStop);
  const warnings = world.said();
  for (const file of stale) {
    assert.ok(
      warnings.some((line) =>
        line.includes(`/${file}`) && line.includes("older than the last stop")
      ),
      `${file} is not warned of, ${how} at ${dies}`,
    );
  }
  assert.equal(
    warnings.filter((line) => line.includes("older than the last stop: what came")).length,
    stale.length,
  );
  const { kept, abandoned } = await third.recoverHolds(() => true);
  assert.equal(abandoned, manifest === firstStop ? 0 : heldBefore);
  const newHolds = CHANNELS_WITH_HOLDS.length - heldBefore;
  assert.equal(kept.length, manifest === firstStop ? 2 : 2 * newHolds, `${how} at ${dies}`);
  assert.deepEqual(directory.names().filter((name) => name.endsWith(".tmp")), []);
  await world.stop(third);
  return died;
}

for (const how of ["killed", "power cut", "power cut, names kept"] as const) {
  Deno.test(`Y1 to Y7 a stop ${how} at any call leaves every file whole, old or new`, () =>
    inDirectory(async (path) => {
      let dies = 0;
      while (await dieInStop(path, dies, how)) dies++;
      assert.ok(dies > 40, `only ${dies} calls`);
    }));
}

Deno.test("Y1 S68 a run that never stops leaves what the last graceful stop left", () =>
  inDirectory(async (path) => {
    const world = new World();
    const directory = new ForgetfulDirectory(path);
    const first = await world.start(directory);
    await live(first, "a");
    const before = await shown(first);
    await world.stop(first);
    const second = await world.start(directory.clone());
    await live(second, "b");
    await world.stop(second);
    const third = await world.start(directory);
    assert.deepEqual(await shown(third), before);
    assert.deepEqual(world.said(), []);
    assert.equal(third.append("events").next(), 2);
    await world.stop(third);
  }));

Deno.test("Y9 the first stop ever, dead after its manifest: what it lists is warned of as lost", () =>
  inDirectory(async (path) => {
    const world = new World();
    const directory = new ForgetfulDirectory(path);
    const first = await world.start(directory);
    await live(first, "a");
    directory.diesAt = 6;
    await assert.rejects(world.stop(first));
    directory.powerCut(false);
    assert.deepEqual(directory.names(), ["saguin.manifest"]);
    const second = await world.start(directory);
    const lost = world.said();
    assert.equal(lost.length, FILES.length);
    for (const file of FILES) assert.ok(lost.some((line) => line.includes(`/${file}`)), file);
    for (const line of lost) assert.ok(line.includes("missing"), line);
    assert.equal(second.append("events").next(), 1);
    assert.equal((await second.recoverHolds(() => true)).abandoned, 0);
    await world.stop(second);
  }));

Deno.test("Y10 S71 S72 writes that fail are all reported, and their predecessors stay", () =>
  inDirectory(async (path) => {
    const world = new World();
    const directory = new ForgetfulDirectory(path);
    const first = await world.start(directory);
    await live(first, "a");
    const before = await shown(first);
    await world.stop(first);
    const second = await world.start(directory);
    await live(second, "b");
    const after = await shown(second);
    directory.failing.set("write events.tmp", "No space left on device");
    directory.failing.set("sync jobs.tmp", "Input/output error");
    directory.failing.set("rename state.snapshot", "Permission denied");
    await assert.rejects(world.stop(second), /3 snapshot files .* were not written: .*snapshot/);
    const said = world.said();
    assert.equal(said.length, 3);
    assert.match(
      said.join("\n"),
      /events\.snapshot channels=events error="No space left on device"/,
    );
    assert.match(
      said.join("\n"),
      /jobs\.snapshot channels=.*jobs__dlq.* error="Input\/output error"/,
    );
    assert.match(said.join("\n"), /state\.snapshot channels=state error="Permission denied"/);
    directory.killed();
    assert.deepEqual(directory.names().filter((name) => name.endsWith(".tmp")), []);
    const third = await world.start(directory);
    const found = await shown(third);
    for (const file of FILES) {
      const old = ["events.snapshot", "jobs.snapshot", "state.snapshot"].includes(file);
      assert.equal(found.get(file), (old ? before : after).get(file), file);
    }
    assert.equal(
      world.said().filter((line) => line.includes("what came after it is lost")).length,
      3,
    );
    await world.stop(third);
  }));

Deno.test("S63 Y8 where the log cannot be written the sessions are not, and the start goes on", () =>
  inDirectory(async (path) => {
    const world = new World();
    const directory = new ForgetfulDirectory(path);
    const first = await world.start(directory);
    await live(first, "a");
    const before = await shown(first);
    await world.stop(first);
    const second = await world.start(directory);
    await live(second, "b");
    directory.trace.length = 0;
    directory.failing.set("sync saguin.broadcast.tmp", "Input/output error");
    await assert.rejects(world.stop(second), /1 snapshot files/);
    assert.ok(!directory.trace.some((point) => point.includes("saguin.sessions")));
    directory.killed();
    const third = await world.start(directory);
    const found = await shown(third);
    assert.equal(found.get("saguin.sessions"), before.get("saguin.sessions"));
    assert.equal(found.get("saguin.broadcast"), before.get("saguin.broadcast"));
    await world.stop(third);
  }));

Deno.test("S71 a manifest that cannot be written is reported, and everything else is written", () =>
  inDirectory(async (path) => {
    const world = new World();
    const directory = new ForgetfulDirectory(path);
    const first = await world.start(directory);
    await live(first, "a");
    await world.stop(first);
    const second = await world.start(directory);
    await live(second, "b");
    const after = await shown(second);
    directory.failing.set("rename saguin.manifest", "Input/output error");
    await assert.rejects(world.stop(second), /saguin\.manifest/);
    directory.killed();
    const third = await world.start(directory);
    assert.deepEqual(await shown(third), after);
    const newer = world.said().filter((line) => line.includes("newer than the manifest"));
    assert.equal(newer.length, FILES.length);
    assert.equal((await third.recoverHolds(() => true)).kept.length, 4);
    await world.stop(third);
  }));

Deno.test("Y11 S50 S63 S69 S70 a stop writes in its order, four files at a time", () =>
  inDirectory(async (path) => {
    const world = new World();
    const directory = new ForgetfulDirectory(path);
    const first = await world.start(directory);
    await live(first, "a");
    const before = await shown(first);
    await world.stop(first);
    const { trace } = directory;
    assert.deepEqual(trace.slice(0, 6), [
      "create saguin.manifest.tmp",
      "write saguin.manifest.tmp",
      "write saguin.manifest.tmp",
      "sync saguin.manifest.tmp",
      "rename saguin.manifest",
      "sync directory",
    ]);
    for (const file of FILES) {
      const stem = file.replace(".snapshot", "") + ".tmp";
      const synced = trace.indexOf(`sync ${stem}`);
      const renamed = trace.indexOf(`rename ${file}`);
      assert.ok(synced > 5 && synced < renamed, file);
      assert.ok(trace.indexOf("sync directory", renamed) > renamed, file);
    }
    const logDurable = trace.indexOf("sync directory", trace.indexOf("rename saguin.broadcast"));
    assert.ok(logDurable < trace.indexOf("create saguin.sessions.tmp"));
    assert.equal(directory.mostOpen, 4);
    const stamps = new Set(moments(directory, [...FILES, "saguin.manifest"]).values());
    assert.deepEqual([...stamps], [world.now]);
    const second = await world.start(directory);
    assert.deepEqual(await shown(second), before);
    assert.deepEqual(world.said(), []);
    assert.equal((await second.queue("jobs").offer(0))?.attempt, 1);
    await world.stop(second);
  }));

Deno.test("S50 a clock that went back does not make a stop look older than the one before", () =>
  inDirectory(async (path) => {
    const world = new World();
    const directory = new ForgetfulDirectory(path);
    const first = await world.start(directory);
    await live(first, "a");
    await world.stop(first);
    const firstStop = world.now;
    const second = await world.start(directory);
    world.now -= 86_400_000_000_000n;
    await second.close();
    assert.equal(moments(directory, ["events.snapshot"]).get("events.snapshot"), firstStop + 1n);
  }));

Deno.test("S67 Y14 a channel that was away for one stop comes back without its holds", () =>
  inDirectory(async (path) => {
    const world = new World();
    const directory = new ForgetfulDirectory(path);
    const first = await world.start(directory);
    await live(first, "a");
    const before = await shown(first);
    await world.stop(first);
    const second = await world.start(directory, [{ channel: "audit", kind: "append" }]);
    assert.deepEqual(world.said(), []);
    await world.stop(second);
    const third = await world.start(directory);
    const found = await shown(third);
    assert.equal(found.get("events.snapshot"), before.get("events.snapshot"));
    assert.match(world.said().join("\n"), /older than the last stop.*events\.snapshot/);
    const { kept, abandoned } = await third.recoverHolds(() => true);
    assert.deepEqual([kept.length, abandoned], [0, 2]);
    assert.equal((await third.recoverHolds(() => true)).abandoned, 0);
    await world.stop(third);
  }));
