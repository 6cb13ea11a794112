/** A memory provider's snapshots, by the executable and real signals (04-storage.md section 22, Y rows). */
import assert from "node:assert/strict";
import { openFile } from "../../src/storage/snapshot/file_header.ts";
import { FileKind } from "../../src/storage/snapshot/format.ts";
import { crc32c } from "../../src/storage/snapshot/crc32c.ts";
import { decodeChannels } from "../../src/storage/snapshot/decode.ts";
import {
  BrokerProcess,
  configurationText,
  type Parts,
  type Place,
  temporaryPlace,
} from "../support/broker_process.ts";
import { seeded } from "../support/random.ts";
import { sleep } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";
import { check } from "../storage/check/support.ts";
import { CHANNELS, checkChannels, checkSessions, live, publishAll, said } from "./household.ts";

function snapshots(place: Place): string {
  return `${place.directory}/snapshots`;
}

function memory(parts: Parts = {}): (place: Place) => string {
  return (place) =>
    configurationText(place, {
      provider: "memory",
      snapshotDir: snapshots(place),
      channels: CHANNELS,
      ...parts,
    });
}

async function started(parts: Parts = {}): Promise<BrokerProcess> {
  const place = temporaryPlace();
  Deno.mkdirSync(snapshots(place));
  return await BrokerProcess.start(memory(parts), place);
}

/** Every file but the lock, by length and checksum. With its trailer every whole snapshot has the same checksum. */
function contents(path: string): Map<string, string> {
  const files = [...Deno.readDirSync(path)].map(({ name }) => name).sort()
    .filter((name) => !name.startsWith("saguin.lock"));
  return new Map(files.map((name) => {
    const bytes = Deno.readFileSync(`${path}/${name}`);
    return [name, `${bytes.length} ${crc32c(bytes.subarray(0, -4))}`];
  }));
}

Deno.test("Y11 S2 S5 a graceful stop keeps channels, retained values, sessions and what they are owed", async () => {
  await using broker = await started();
  await live(broker.port);
  for (let stop = 0; stop < 2; stop++) {
    assert.deepEqual(await broker.stop(), { code: 0, signal: null });
    await broker.startAgain();
  }
  await checkSessions(broker.port);
  await checkChannels(broker.port);
  assert.deepEqual(said(broker), []);
});

Deno.test("Y1 kill -9 returns to the last snapshot, and what came since is gone", async () => {
  await using broker = await started();
  await live(broker.port);
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
  const kept = contents(snapshots(broker.place));
  await broker.startAgain();
  await publishAll(broker.port, [
    { topic: "events/a", payload: "lost" },
    { topic: "state/replaced", payload: "lost" },
    { topic: "news/1", payload: "lost" },
    { topic: "jobs/9", payload: "lost" },
  ]);
  await broker.kill();
  assert.deepEqual(contents(snapshots(broker.place)), kept);
  await broker.startAgain();
  await checkSessions(broker.port);
  await checkChannels(broker.port);
  assert.deepEqual(said(broker), []);
});

const ROUNDS = 8;
const MANY = 40;
const PER_CHANNEL = 20;
const FILLING = "x".repeat(2_000);

Deno.test("Y15 Y3 Y4 Y5 SIGKILL while a stop writes leaves every channel whole, old or new, and says which", async () => {
  const random = seeded("snapshots");
  const names = Array.from({ length: MANY }, (_, i) => `c${i}`);
  const channels = names.map((name) => `${name}:\n  type: append`).join("\n");
  await using broker = await started({ channels });
  const directory = snapshots(broker.place);
  let mixed = 0;
  const kept = new Map(names.map((name) => [name, 0]));
  assert.deepEqual((await broker.stop()).code, 0);
  let stopMs = 0;
  for (let round = 0; round < ROUNDS; round++) {
    let from = broker.lines.length;
    await broker.startAgain();
    assert.deepEqual(said(broker, from), [], "after a stop that ended");
    const messages = names.flatMap((name) =>
      Array.from({ length: PER_CHANNEL }, () => ({ topic: `${name}/t`, payload: FILLING }))
    );
    for (let at = 0; at < messages.length; at += 500) {
      await publishAll(broker.port, messages.slice(at, at + 500));
    }
    const began = performance.now();
    broker.signal("SIGTERM");
    // The first stop goes to its end, and says how long one takes.
    if (round > 0) await sleep(stopMs * (0.2 + 0.8 * random.fraction()));
    if (round > 0) await broker.kill();
    await broker.ended;
    if (round === 0) stopMs = performance.now() - began;

    const old = new Set<string>();
    for (const name of names) {
      const bytes = Deno.readFileSync(`${directory}/${name}.snapshot`);
      const [state] = decodeChannels(openFile(bytes, FileKind.Channels).body);
      const before = kept.get(name)!;
      const now = state.records.length;
      assert.ok(now === before || now === before + PER_CHANNEL, `${name}: ${now} after ${before}`);
      if (now === before) old.add(name);
      kept.set(name, now);
    }
    if (round === 0) assert.equal(old.size, 0);
    assert.deepEqual((await check(directory)).findings, []);
    if (old.size > 0 && old.size < MANY) mixed++;

    from = broker.lines.length;
    await broker.startAgain();
    const manifest = openFile(
      Deno.readFileSync(`${directory}/saguin.manifest`),
      FileKind.Manifest,
    ).header.writtenAt;
    const warned = said(broker, from);
    for (const name of names) {
      const bytes = Deno.readFileSync(`${directory}/${name}.snapshot`);
      const stale = openFile(bytes, FileKind.Channels).header.writtenAt < manifest;
      const line = warned.find((line) => line.includes(`/${name}.snapshot`));
      assert.equal(line?.includes("older than the last stop") ?? false, stale, `${name}: ${line}`);
    }
    assert.deepEqual(
      [...Deno.readDirSync(directory)].filter(({ name }) => name.endsWith(".tmp")),
      [],
    );
    using reader = await WireClient.connected(broker.port, { clientId: "reader" });
    const name = random.pick(names);
    await reader.subscribe({ subscriptions: [{ filter: `${name}/#`, qos: 0 }] });
    await reader.expectSuback(1, [0]);
    for (let i = 0; i < kept.get(name)!; i++) await reader.expectPublish(`${name}/t`);
    await reader.expectSilence(20);
    assert.deepEqual((await broker.stop()).code, 0);
  }
  console.log(`snapshots: ${mixed} of ${ROUNDS - 1} kills left old and new files`);
  assert.ok(mixed > 0, "no kill came while the files were being written");
});

Deno.test("Y12 S76 a damaged file refuses the start by name, and nothing is changed", async () => {
  await using broker = await started();
  await live(broker.port);
  await broker.stop();
  const directory = snapshots(broker.place);
  const file = `${directory}/events.snapshot`;
  const bytes = Deno.readFileSync(file);
  bytes[bytes.length >> 1] ^= 1;
  Deno.writeFileSync(file, bytes);
  const before = contents(directory);
  const from = broker.lines.length;
  broker.launch();
  assert.deepEqual(await broker.ended, { code: 1, signal: null });
  const [line, ...more] = broker.lines.slice(from);
  assert.equal(
    line,
    `saguin: storage provider "store": snapshot ${file} is damaged: its checksum does not match ` +
      "its contents",
  );
  assert.deepEqual(more, []);
  assert.deepEqual(contents(directory), before);
  bytes[bytes.length >> 1] ^= 1;
  Deno.writeFileSync(file, bytes);
  await broker.startAgain();
  await checkSessions(broker.port);
});

Deno.test("a start that another provider refuses writes no snapshot over the one it read", async () => {
  const place = temporaryPlace();
  Deno.mkdirSync(snapshots(place));
  await using broker = await BrokerProcess.start(memory(), place);
  await live(broker.port);
  await broker.stop();
  const before = contents(snapshots(place));
  // Providers open in the order of the file: the other one's turn comes when this one is open.
  const [channels, other] = [
    CHANNELS.replace("type: latest", "type: latest\n  storage: other"),
    `      other: {type: sqlite, file_path: ${place.directory}/no/where.db}`,
  ];
  broker.configure((place) =>
    memory({ channels })(place).replace("channels:\n", `${other}\nchannels:\n`)
  );
  const from = broker.lines.length;
  broker.launch();
  assert.equal((await broker.ended).code, 1);
  assert.match(broker.lines.slice(from).join("\n"), /no\/where\.db/);
  assert.deepEqual(contents(snapshots(place)), before);
  broker.configure(memory());
  await broker.startAgain();
  await checkSessions(broker.port);
});

Deno.test("Y10 S71 a file that cannot be written is reported by the stop, which fails, and the rest is kept", async () => {
  await using broker = await started();
  await live(broker.port);
  await broker.stop();
  await broker.startAgain();
  await publishAll(broker.port, [
    { topic: "events/a", payload: "lost" },
    { topic: "state/replaced", payload: "kept" },
  ]);
  const directory = snapshots(broker.place);
  // Root may write anywhere; a directory in the file's place stops root too.
  Deno.mkdirSync(`${directory}/events.tmp`);
  const from = broker.lines.length;
  assert.deepEqual(await broker.stop(), { code: 1, signal: null });
  const [error, summary, ...more] = said(broker, from);
  assert.match(
    error,
    /msg="a snapshot was not written: the one before it is kept".* file=\S+\/events\.snapshot channels=events error=/,
  );
  assert.match(summary, /did not close cleanly.* 1 snapshot files in .*: events\.snapshot/);
  assert.deepEqual(more, []);
  Deno.removeSync(`${directory}/events.tmp`);
  const again = broker.lines.length;
  await broker.startAgain();
  const [stale, holds, ...others] = said(broker, again);
  assert.match(stale, /older than the last stop.*events\.snapshot/);
  assert.match(holds, /held publishes .* are abandoned.*holds=1/);
  assert.deepEqual(others, []);
  using viewer = await WireClient.connected(broker.port, { clientId: "viewer" });
  await viewer.subscribe({ subscriptions: [{ filter: "state/#", qos: 0 }] });
  await viewer.expectSuback(1, [0]);
  await viewer.expectPublish("state/replaced", "kept");
});

Deno.test("S153 a second broker on the directory is refused naming provider and lock", async () => {
  await using broker = await started();
  const other = temporaryPlace();
  await using second = await BrokerProcess.start(
    (place) => configurationText(place, { provider: "memory" }),
    other,
  );
  await second.stop();
  second.configure((place) =>
    configurationText(place, { provider: "memory", snapshotDir: snapshots(broker.place) })
  );
  const from = second.lines.length;
  second.launch();
  assert.equal((await second.ended).code, 1);
  assert.deepEqual(second.lines.slice(from), [
    `saguin: storage provider "store": lock ${snapshots(broker.place)}/saguin.lock is held by ` +
    "another broker",
  ]);
  await live(broker.port);
});
