/** What crosses a migration, both ways (04-storage.md section 17). */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { BROADCAST_LOG, type Provider, RETAINED } from "../../../src/storage/contract.ts";
import { snapshotsToSqlite } from "../../../src/storage/migrate/snapshots_to_sqlite.ts";
import { sqliteToSnapshots } from "../../../src/storage/migrate/sqlite_to_snapshots.ts";
import { FileDirectory } from "../../../src/storage/snapshot/directory.ts";
import { type Deliveries, Dice, draw, everything } from "../conformance/random_steps.ts";
import { STORES } from "../conformance/subject.ts";
import { World } from "../snapshot/world.ts";
import { testProvider } from "../sqlite/support/provider.ts";
import {
  contents,
  drawState,
  inDirectory,
  movable,
  readSnapshots,
  RecordedReport,
  rowsOf,
  STAMP,
  writeSnapshots,
} from "./support.ts";

const SEEDS = 25;

for (let seed = 1; seed <= SEEDS; seed++) {
  Deno.test(`S160 snapshots come back from a database as they went in, seed ${seed}`, () =>
    inDirectory(async (path) => {
      const [from, database, back] = [`${path}/from`, `${path}/a.db`, `${path}/back`];
      const state = drawState(new Dice(seed));
      await writeSnapshots(from, state);
      const source = contents(from);
      const report = new RecordedReport();
      const into = await snapshotsToSqlite(from, database, STAMP, report);
      assert.deepEqual(report.failures, []);
      assert.equal(into.failed, 0);
      assert.deepEqual(contents(from), source);
      const moved = contents(path);
      assert.deepEqual([...moved.keys()], ["a.db"]);

      const out = await sqliteToSnapshots(database, back, STAMP, report);
      assert.deepEqual(report.failures, []);
      assert.equal(out.failed, 0);
      assert.equal(out.moved, into.moved);
      assert.deepEqual(contents(path), moved);
      assert.deepEqual(readSnapshots(back), movable(state));
    }));
}

const STEPS = 250;

for (let seed = 1; seed <= 6; seed++) {
  Deno.test(`S160 a database comes back from snapshots as it went in, seed ${seed}`, () =>
    inDirectory(async (path) => {
      const [from, directory, back] = [`${path}/from.db`, `${path}/snapshots`, `${path}/back.db`];
      const opened = testProvider(from);
      await opened.provider.open(STORES);
      const dice = new Dice(seed);
      const deliveries: Deliveries = { leases: [] };
      for (let i = 0; i < STEPS; i++) await draw(dice)[1](opened.provider, deliveries);
      await opened.stop();
      const report = new RecordedReport();
      await sqliteToSnapshots(from, directory, STAMP, report);
      await snapshotsToSqlite(directory, back, STAMP, report);
      assert.deepEqual(report.failures, []);

      const before = rowsOf(from);
      const notLog = ({ channel, name }: Record<string, unknown>) =>
        channel !== BROADCAST_LOG && name !== BROADCAST_LOG;
      const expected: Record<string, unknown[]> = {};
      for (const [table, rows] of Object.entries(before)) {
        const carried = ["channels", "records", "latest_values", "queue_items", "positions"];
        expected[table] = carried.includes(table)
          ? (rows as Record<string, unknown>[]).filter(notLog)
          : [];
      }
      assert.ok(expected.records.length > 0 && expected.queue_items.length > 0);
      assert.deepEqual(rowsOf(back), expected);
    }));
}

Deno.test("S160 a provider opens what was moved and goes on, both ways", () =>
  inDirectory(async (path) => {
    const [from, database, back] = [`${path}/from`, `${path}/a.db`, `${path}/back`];
    await Deno.mkdir(from);
    const world = new World();
    const memory = await world.start(new FileDirectory(from));
    const dice = new Dice(11);
    const deliveries: Deliveries = { leases: [] };
    for (let i = 0; i < STEPS; i++) await draw(dice)[1](memory, deliveries);
    await world.stop(memory);
    const first = await world.start(new FileDirectory(from));
    const expected = await channelsOf(first);
    await first.abandon();

    const report = new RecordedReport();
    await snapshotsToSqlite(from, database, STAMP, report);
    await sqliteToSnapshots(database, back, STAMP, report);
    assert.deepEqual(report.failures, []);
    const sqlite = testProvider(database);
    await sqlite.provider.open(STORES);
    assert.equal(await channelsOf(sqlite.provider), expected);
    await sqlite.stop();
    const again = await world.start(new FileDirectory(back));
    assert.deepEqual(world.said(), []);
    assert.equal(await channelsOf(again), expected);
    await again.abandon();
  }));

/** Everything but the broadcast log. */
async function channelsOf(provider: Provider): Promise<string> {
  const lines = (await everything(provider)).split("\n");
  return lines.filter((line) => !line.startsWith(BROADCAST_LOG)).join("\n");
}

Deno.test("S160 sessions, groups, the log and holds stay behind, and the retained store does not", () =>
  inDirectory(async (path) => {
    const [from, database, back] = [`${path}/from`, `${path}/a.db`, `${path}/back`];
    const state = drawState(new Dice(3));
    const holds = state.channels.map((channel) => ({
      ...channel,
      holds: [{ clientId: "c", packetId: 1, heldAt: 1n, message: entry(state) }],
    }));
    await writeSnapshots(from, { ...state, channels: holds });
    const report = new RecordedReport();
    await snapshotsToSqlite(from, database, STAMP, report);
    const files = state.channels.length - ["jobs__dlq", BROADCAST_LOG].length;
    const held = report.notes.filter((note) => note.endsWith("held QoS 2 publishes stay behind"));
    assert.equal(held.length, files);
    assert.match(report.notes.at(-1)!, /saguin\.sessions stays behind: sessions, shared groups/);
    const rows = rowsOf(database);
    for (const table of ["held_publishes", "sessions", "session_inflight", "share_groups"]) {
      assert.deepEqual(rows[table], [], table);
    }
    const names = (rows.channels as { name: string }[]).map(({ name }) => name);
    assert.ok(names.includes(RETAINED) && !names.includes(BROADCAST_LOG));

    const file = new DatabaseSync(database);
    file.exec(`
      CREATE TABLE amqp_queue (id INTEGER); INSERT INTO amqp_queue VALUES (1);
      INSERT INTO sessions VALUES ('a', 0, 0, '[]', 10, NULL, 0);
      INSERT INTO share_groups VALUES ('$share/g/a', 1), ('$share/g/b', 1);
      INSERT INTO channels VALUES ('${BROADCAST_LOG}', 'append', 2, 1, 0);
      INSERT INTO records VALUES ('${BROADCAST_LOG}', 1, 't', 'i', 0, NULL, NULL, x'', 0, NULL, NULL, 0, 0, NULL);
      INSERT INTO held_publishes VALUES ('events', 'c', 1, 0, 't', 'i', 0, NULL, NULL, x'', 0, NULL, 0);
    `);
    file.close();
    const other = new RecordedReport();
    await sqliteToSnapshots(database, back, STAMP, other);
    assert.deepEqual(other.notes, [
      `${database}: one session, 2 shared groups, one message of the broadcast log, ` +
      "one held QoS 2 publish, one row of amqp_queue stay behind",
    ]);
    assert.ok(!contents(back).has("saguin.broadcast") && !contents(back).has("saguin.sessions"));
    for (const [, channel] of readSnapshots(back)) assert.deepEqual(channel.holds, []);
  }));

function entry(state: ReturnType<typeof drawState>) {
  return state.channels.flatMap(({ records }) => records)[0].message;
}

Deno.test("S164 positions that a start would drop are carried", () =>
  inDirectory(async (path) => {
    const [from, database] = [`${path}/from`, `${path}/a.db`];
    const ended = { reader: "mqtt:gone", offset: 1, expiry: 0, lastSeen: 1n };
    const state = drawState(new Dice(5));
    const channels = state.channels.map((channel) =>
      channel.name === "events" ? { ...channel, positions: [ended] } : channel
    );
    await writeSnapshots(from, { ...state, channels });
    await snapshotsToSqlite(from, database, STAMP, new RecordedReport());
    assert.deepEqual(
      rowsOf(database).positions.filter((row) => (row as { channel: string }).channel === "events"),
      [{ channel: "events", reader: "mqtt:gone", offset: 1n, expiry: 0n, last_seen: 1n }],
    );
  }));
