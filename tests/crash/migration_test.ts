/** Migrations by the executable: between brokers that run, and killed half-way (Z1, Z2). */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { NO_HEADERS, NO_PROPERTIES } from "../../src/storage/record.ts";
import {
  BrokerProcess,
  configurationText,
  executable,
  type Place,
  runToEnd,
  temporaryPlace,
} from "../support/broker_process.ts";
import { until } from "../support/wait.ts";
import { contents, readSnapshots, writeSnapshots } from "../storage/migrate/support.ts";
import { CHANNELS, checkChannels, checkSessions, live, said } from "./household.ts";

type Kind = "memory" | "sqlite";

function configuration(kind: Kind, at?: string): (place: Place) => string {
  return (place) =>
    configurationText({ ...place, database: at ?? place.database }, {
      provider: kind,
      channels: CHANNELS,
      ...(kind === "memory" && { snapshotDir: at ?? `${place.directory}/snapshots` }),
    });
}

async function withPlace(use: (place: Place) => Promise<void>): Promise<void> {
  const place = temporaryPlace();
  try {
    await use(place);
  } finally {
    // A broker that ran there has removed it.
    if (sizeOf(place.directory) >= 0) await Deno.remove(place.directory, { recursive: true });
  }
}

/** Runs a migration to its end, which has to be a good one. */
async function migrated(flag: string, from: string, into: string): Promise<void> {
  const { code, stderr } = await runToEnd([flag, from, into]);
  assert.equal(code, 0, stderr);
}

for (const kind of ["memory", "sqlite"] as const) {
  Deno.test(`S160 S167 what a broker on ${kind} kept goes on in the other provider, and back again`, () =>
    withPlace(async (place) => {
      const [there, back] = kind === "memory"
        ? ["--snapshots-to-sqlite", "--sqlite-to-snapshots"]
        : ["--sqlite-to-snapshots", "--snapshots-to-sqlite"];
      const other = kind === "memory" ? "sqlite" : "memory";
      Deno.mkdirSync(`${place.directory}/snapshots`);
      const source = kind === "memory" ? `${place.directory}/snapshots` : place.database;
      const [moved, returned] = [`${place.directory}/moved`, `${place.directory}/returned`];
      await using broker = await BrokerProcess.start(configuration(kind), place);
      await live(broker.port);
      // The broker has to be stopped.
      const running = await runToEnd([there, source, moved]);
      assert.equal(running.code, 1);
      assert.match(running.stderr, /^saguin: \S+: lock \S+ is held by another broker\n$/);
      await broker.stop();
      await migrated(there, source, moved);
      await migrated(back, moved, returned);
      for (const [at, how] of [[moved, other], [returned, kind]] as const) {
        broker.configure(configuration(how, at));
        const from = broker.lines.length;
        await broker.startAgain();
        await checkChannels(broker.port);
        assert.deepEqual(said(broker, from), []);
        await broker.stop();
      }
      // The source has stayed what it was, sessions included.
      broker.configure(configuration(kind));
      await broker.startAgain();
      await checkSessions(broker.port);
      await checkChannels(broker.port);
    }));
}

const CHANNELS_TO_KILL = 4;
const RECORDS = 60_000;

/** Some seconds' worth of migration. */
async function fill(path: string): Promise<void> {
  const message = {
    messageId: "0190a7c8-1234-7abc-8def-0123456789ab",
    topic: "site/area/device",
    timestamp: 1_700_000_000_000_000_000n,
    headers: NO_HEADERS,
    properties: NO_PROPERTIES,
    payload: new Uint8Array(100).fill(1),
    retain: false,
    bridge: "",
    clientId: "c",
    qos: 1,
    groupCopy: false,
    onlyFor: "",
  } as const;
  const records = Array.from({ length: RECORDS }, (_, i) => ({ offset: i + 1, message }));
  const channels = Array.from({ length: CHANNELS_TO_KILL }, (_, i) => ({
    name: `c${i}`,
    kind: "append" as const,
    next: RECORDS + 1,
    floor: 1,
    records,
    jobs: [],
    positions: [],
    holds: [],
  }));
  await writeSnapshots(path, { channels, sessions: [], groups: [] });
}

/** Starts a migration and kills it once `reached`. */
async function killedMigration(args: string[], reached: () => boolean): Promise<void> {
  const child = new Deno.Command(executable(), { args, stdout: "null", stderr: "null" }).spawn();
  await until("the migration to get under way", reached, 30_000, 1);
  child.kill("SIGKILL");
  assert.equal((await child.status).signal, "SIGKILL");
}

function sizeOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return -1;
    throw error;
  }
}

Deno.test("Z1 a migration killed half-way leaves its source whole, and has to be cleared away first", () =>
  withPlace(async ({ directory }) => {
    const [from, database, back] = [`${directory}/from`, `${directory}/a.db`, `${directory}/back`];
    await fill(from);
    const source = contents(from);
    const there = ["--snapshots-to-sqlite", from, database];
    await killedMigration(there, () => sizeOf(`${database}-wal`) > 3_000_000);
    // The lock that was taken is an ordinary file now.
    const left = contents(from);
    assert.equal(left.delete("saguin.lock"), true);
    left.delete("saguin.lock-journal");
    assert.deepEqual(left, source);
    const refused = await runToEnd(there);
    assert.equal(refused.code, 1);
    assert.equal(
      refused.stderr,
      `saguin: ${database} exists; name a database that does not, or remove it\n`,
    );
    // What a kill leaves is whole files of channels.
    const partial = new DatabaseSync(database);
    const counts = partial.prepare("SELECT count(*) AS n FROM records GROUP BY channel").all();
    partial.close();
    assert.ok(counts.length < CHANNELS_TO_KILL, "the kill came too late");
    for (const { n } of counts) assert.equal(n, RECORDS);
    for (const suffix of ["", "-wal", "-shm"]) {
      if (sizeOf(database + suffix) >= 0) Deno.removeSync(database + suffix);
    }
    await migrated("--snapshots-to-sqlite", from, database);

    const bytes = Deno.readFileSync(database);
    const out = ["--sqlite-to-snapshots", database, back];
    await killedMigration(out, () => sizeOf(`${back}/saguin.manifest`) >= 0);
    assert.deepEqual(Deno.readFileSync(database), bytes);
    const again = await runToEnd(out);
    assert.equal(again.code, 1);
    assert.match(
      again.stderr,
      /^saguin: \S+ holds \S+; name a directory without snapshots, or remove them\n$/,
    );
    await Deno.remove(back, { recursive: true });
    await migrated("--sqlite-to-snapshots", database, back);
    const [one, other] = [readSnapshots(from), readSnapshots(back)];
    assert.deepEqual(other.get("c0"), one.get("c0"));
    assert.deepEqual([...other.keys()].sort(), [...one.keys()].sort());
  }));

Deno.test("Z2 S157 a directory copied after a kill starts elsewhere, lock files and all", () =>
  withPlace(async (place) => {
    const kept = `${place.directory}/kept`;
    Deno.mkdirSync(kept);
    const both = (at: string): (place: Place) => string => (place) =>
      configurationText({ ...place, database: `${at}/broker.db` }, {
        channels: CHANNELS.replace("type: latest", "type: latest\n  storage: ram"),
      }).replace(
        "      store:\n",
        `      ram: {type: memory, snapshot_dir: ${at}}\n      store:\n`,
      );
    await using broker = await BrokerProcess.start(both(kept), place);
    await live(broker.port);
    await broker.stop();
    await broker.startAgain();
    await broker.kill();
    const copy = `${place.directory}/copy`;
    Deno.mkdirSync(copy);
    for (const { name } of Deno.readDirSync(kept)) {
      Deno.copyFileSync(`${kept}/${name}`, `${copy}/${name}`);
    }
    const names = [...Deno.readDirSync(copy)].map(({ name }) => name);
    assert.ok(names.includes("saguin.lock") && names.includes("broker.db.lock"), names.join(" "));
    broker.configure(both(copy));
    await broker.startAgain();
    await checkSessions(broker.port);
    await checkChannels(broker.port);
  }));
