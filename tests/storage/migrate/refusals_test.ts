/** What a migration refuses, what it reports and goes on after, and what it leaves as it was. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { ProviderLock } from "../../../src/storage/lock.ts";
import { snapshotsToSqlite } from "../../../src/storage/migrate/snapshots_to_sqlite.ts";
import { sqliteToSnapshots } from "../../../src/storage/migrate/sqlite_to_snapshots.ts";
import { Dice } from "../conformance/random_steps.ts";
import { flipped } from "../snapshot/world.ts";
import { appendRow, message, publish, testProvider } from "../sqlite/support/provider.ts";
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

const MOVES = { snapshotsToSqlite, sqliteToSnapshots };

/** Why a migration is refused; the directory of the test is then as it was. */
async function refusal(
  move: keyof typeof MOVES,
  path: string,
  from: string,
  into: string,
): Promise<string> {
  const before = everythingBelow(path);
  const report = new RecordedReport();
  let says = "it was not refused";
  try {
    await MOVES[move](`${path}/${from}`, `${path}/${into}`, STAMP, report);
  } catch (error) {
    assert.equal((error as Error).name, "StorageFailure", (error as Error).stack);
    says = (error as Error).message.replaceAll(`${path}/`, "");
  }
  assert.deepEqual(everythingBelow(path), before);
  assert.deepEqual(report.failures, []);
  return says;
}

function everythingBelow(path: string): Map<string, Uint8Array> {
  const found = new Map<string, Uint8Array>();
  for (const { name, isDirectory } of Deno.readDirSync(path)) {
    if (!isDirectory) continue;
    found.set(`${name}/`, new Uint8Array());
    for (const [file, bytes] of contents(`${path}/${name}`)) found.set(`${name}/${file}`, bytes);
  }
  for (const [file, bytes] of contents(path)) found.set(file, bytes);
  return found;
}

/** `snapshots` and `full.db` with the same things in them. */
async function bothForms(path: string): Promise<void> {
  await writeSnapshots(`${path}/snapshots`, drawState(new Dice(2)));
  await snapshotsToSqlite(`${path}/snapshots`, `${path}/full.db`, STAMP, new RecordedReport());
}

Deno.test("S162 a destination that is there is refused, whatever it is", () =>
  inDirectory(async (path) => {
    await bothForms(path);
    await Deno.mkdir(`${path}/other`);
    Deno.writeTextFileSync(`${path}/plain`, "");
    Deno.writeTextFileSync(`${path}/lost.db-wal`, "");
    const toDatabase = (into: string) => refusal("snapshotsToSqlite", path, "snapshots", into);
    const exists = "exists; name a database that does not, or remove it";
    assert.equal(await toDatabase("full.db"), `full.db ${exists}`);
    assert.equal(await toDatabase("plain"), `plain ${exists}`);
    assert.equal(await toDatabase("other"), `other ${exists}`);
    assert.equal(await toDatabase("lost.db"), `lost.db-wal ${exists}`);
    assert.equal(
      await toDatabase("no/where.db"),
      `no/where.db cannot be created: there is no directory no`,
    );

    const toSnapshots = (into: string) => refusal("sqliteToSnapshots", path, "full.db", into);
    const free = "name a directory without snapshots, or remove them";
    for (
      const name of ["a.snapshot", "saguin.manifest", "saguin.broadcast", "saguin.sessions"]
    ) {
      Deno.writeTextFileSync(`${path}/other/${name}`, "");
      assert.equal(
        await toSnapshots("other"),
        `${path}/other holds ${name}; ${free}`.replace(`${path}/`, ""),
      );
      Deno.removeSync(`${path}/other/${name}`);
    }
    assert.equal(await toSnapshots("plain"), "plain exists and is no directory; name another one");
    assert.equal(
      await toSnapshots("no/where"),
      `no/where cannot be created: there is no directory no`,
    );
    // What is neither snapshot nor manifest does not stand in the way.
    Deno.writeTextFileSync(`${path}/other/notes.txt`, "mine");
    Deno.writeTextFileSync(`${path}/other/saguin.lock`, "");
    const report = new RecordedReport();
    await sqliteToSnapshots(`${path}/full.db`, `${path}/other`, STAMP, report);
    assert.deepEqual(readSnapshots(`${path}/other`), movable(drawState(new Dice(2))));
  }));

Deno.test("a source that is not there, or is something else, is refused", () =>
  inDirectory(async (path) => {
    await bothForms(path);
    const snapshots = (from: string) => refusal("snapshotsToSqlite", path, from, "new.db");
    assert.equal(await snapshots("gone"), "gone is not there; name the directory of snapshots");
    assert.equal(
      await snapshots("full.db"),
      "full.db is no directory; name the directory of snapshots",
    );
    const database = (from: string) => refusal("sqliteToSnapshots", path, from, "new");
    assert.equal(await database("gone.db"), "gone.db is not there; name the database file");
    assert.equal(await database("snapshots"), "snapshots is no file; name the database file");
    Deno.writeTextFileSync(`${path}/text`, "x".repeat(8192));
    assert.equal(await database("text"), "text: is not a SQLite database");
  }));

Deno.test("S89 a database of another version is refused with its version and its build", () =>
  inDirectory(async (path) => {
    const file = new DatabaseSync(`${path}/old.db`);
    file.exec(`CREATE TABLE meta (created_by TEXT, created_at INTEGER); PRAGMA user_version = 5;
      INSERT INTO meta VALUES ('0123456789abcdef', 1767225600000000000)`);
    file.close();
    const foreign = new DatabaseSync(`${path}/foreign.db`);
    foreign.exec("CREATE TABLE t (x)");
    foreign.close();
    const refused = (from: string) => refusal("sqliteToSnapshots", path, from, "new");
    assert.equal(
      await refused("old.db"),
      "old.db: schema version 5 (created by saguin 0123456789ab at 2026-01-01T00:00:00Z); " +
        "this broker reads version 20",
    );
    assert.equal(
      await refused("foreign.db"),
      "foreign.db: holds tables and states no schema version; this broker reads version 20",
    );
  }));

Deno.test("S163 a provider that a broker holds is refused on either side, naming the lock", () =>
  inDirectory(async (path) => {
    await bothForms(path);
    await Deno.mkdir(`${path}/served`);
    const held = async (lock: string, attempt: () => Promise<string>) => {
      const lockOf = ProviderLock.take(`${path}/${lock}`, "main");
      try {
        return await attempt();
      } finally {
        lockOf.release();
      }
    };
    const toDatabase = () => refusal("snapshotsToSqlite", path, "snapshots", "new.db");
    const toSnapshots = (into: string) => refusal("sqliteToSnapshots", path, "full.db", into);
    const says = (what: string, lock: string) => `${what}: lock ${lock} is held by another broker`;
    assert.equal(
      await held("snapshots/saguin.lock", toDatabase),
      says("snapshots", "snapshots/saguin.lock"),
    );
    assert.equal(await held("new.db.lock", toDatabase), says("new.db", "new.db.lock"));
    assert.equal(
      await held("full.db.lock", () => toSnapshots("new")),
      says("full.db", "full.db.lock"),
    );
    // A memory provider that has not stopped yet has no snapshot, and writes over what comes meanwhile.
    assert.equal(
      await held("served/saguin.lock", () => toSnapshots("served")),
      says("served", "served/saguin.lock"),
    );
  }));

Deno.test("S165 where there is nothing to move nothing is created", () =>
  inDirectory(async (path) => {
    await Deno.mkdir(`${path}/empty`);
    await Deno.mkdir(`${path}/target`);
    const never = { name: "events", kind: "append", next: 1, floor: 1 } as const;
    const unused = { ...never, records: [], jobs: [], positions: [], holds: [] };
    await writeSnapshots(`${path}/unused`, { channels: [unused], sessions: [], groups: [] });
    const created = testProvider(`${path}/unused.db`);
    await created.provider.open([
      { channel: "jobs", kind: "queue" },
      { channel: "jobs__dlq", kind: "append" },
    ]);
    await created.stop();
    Deno.writeTextFileSync(`${path}/empty.db`, "");
    const before = everythingBelow(path);
    const nothing = { moved: 0, failed: 0 };
    for (const from of ["empty", "unused"]) {
      const report = new RecordedReport();
      const outcome = await snapshotsToSqlite(`${path}/${from}`, `${path}/new.db`, STAMP, report);
      assert.deepEqual([outcome, report.files, report.notes], [nothing, [], []]);
    }
    for (const from of ["empty.db", "unused.db"]) {
      for (const into of ["new", "target"]) {
        const report = new RecordedReport();
        const outcome = await sqliteToSnapshots(
          `${path}/${from}`,
          `${path}/${into}`,
          STAMP,
          report,
        );
        assert.deepEqual([outcome, report.files, report.notes], [nothing, [], []]);
      }
    }
    assert.deepEqual(everythingBelow(path), before);
  }));

Deno.test("S166 a snapshot file that cannot be moved is reported, and the others are moved", () =>
  inDirectory(async (path) => {
    const from = `${path}/snapshots`;
    const state = drawState(new Dice(4));
    await writeSnapshots(from, state);
    const damaged = Deno.readFileSync(`${from}/state.snapshot`);
    Deno.writeFileSync(`${from}/state.snapshot`, flipped(damaged, damaged.length >> 1));
    Deno.copyFileSync(`${from}/events.snapshot`, `${from}/copy of events.snapshot`);
    Deno.writeTextFileSync(`${from}/notes.snapshot`, "not one");
    Deno.copyFileSync(`${from}/saguin.manifest`, `${from}/manifest.snapshot`);
    Deno.writeTextFileSync(`${from}/jobs.tmp`, "half");
    const before = contents(from);
    const report = new RecordedReport();
    const outcome = await snapshotsToSqlite(from, `${path}/new.db`, STAMP, report);
    assert.deepEqual(report.failures, [
      `${from}/copy of events.snapshot holds events, which belongs to a file of another name`,
      `${from}/manifest.snapshot holds a manifest where channels should be`,
      `${from}/notes.snapshot is damaged: it has 7 bytes, and a snapshot has 49 at least`,
      `${from}/state.snapshot is damaged: its checksum does not match its contents`,
    ]);
    assert.equal(outcome.failed, 4);
    assert.equal(outcome.moved, state.channels.length - 3);
    assert.deepEqual(contents(from), before);
    const names = rowsOf(`${path}/new.db`).channels.map((row) => (row as { name: string }).name);
    assert.ok(names.includes("events") && names.includes("jobs__dlq") && !names.includes("state"));
  }));

Deno.test("S165 where every file fails nothing is created either", () =>
  inDirectory(async (path) => {
    await writeSnapshots(`${path}/snapshots`, drawState(new Dice(4)));
    for (const name of contents(`${path}/snapshots`).keys()) {
      if (name.endsWith(".snapshot")) Deno.writeTextFileSync(`${path}/snapshots/${name}`, "gone");
    }
    const report = new RecordedReport();
    const outcome = await snapshotsToSqlite(`${path}/snapshots`, `${path}/new.db`, STAMP, report);
    assert.equal(outcome.moved, 0);
    assert.equal(outcome.failed, report.failures.length);
    assert.deepEqual([...contents(path).keys()], []);
  }));

Deno.test("S166 a queue and its dead letters arrive together or not at all", () =>
  inDirectory(async (path) => {
    const state = drawState(new Dice(8), 3);
    const channels = state.channels.filter(({ name }) => name.startsWith("jobs"));
    const letters = channels.find(({ name }) => name === "jobs__dlq")!;
    const first = { ...state.channels[0], name: "a", kind: "append" as const };
    await writeSnapshots(`${path}/from`, { ...state, channels: [first, ...channels] });
    // The dead letters are a file of their own too, which comes after: their name is taken by then.
    await writeSnapshots(`${path}/alone`, { ...state, channels: [letters] });
    Deno.renameSync(`${path}/alone/jobs__dlq.snapshot`, `${path}/from/jobs__dlq.snapshot`);
    const report = new RecordedReport();
    await snapshotsToSqlite(`${path}/from`, `${path}/new.db`, STAMP, report);
    assert.deepEqual(report.failures, [
      `${path}/from/jobs__dlq.snapshot is not moved: channel jobs__dlq has come from another ` +
      "file already",
    ]);
    assert.deepEqual(report.files.map((file) => file.split(" ")[0]), [
      "a.snapshot",
      "jobs.snapshot",
    ]);
    assert.equal(rowsOf(`${path}/new.db`).channels.length, 3);
  }));

Deno.test("S77 what the last stop did not write is said, and what is there is moved", () =>
  inDirectory(async (path) => {
    const from = `${path}/snapshots`;
    const state = drawState(new Dice(6));
    await writeSnapshots(from, state);
    const old = Deno.readFileSync(`${from}/events.snapshot`);
    await writeSnapshots(from, state, STAMP.now + 60_000_000_000n);
    Deno.writeFileSync(`${from}/events.snapshot`, old);
    Deno.removeSync(`${from}/state.snapshot`);
    const report = new RecordedReport();
    const outcome = await snapshotsToSqlite(from, `${path}/new.db`, STAMP, report);
    assert.equal(outcome.failed, 0);
    assert.ok(report.notes.includes(
      `${from}/events.snapshot is of 2026-01-01T00:00:00.000Z, before the last stop at ` +
        "2026-01-01T00:01:00.000Z: what came after it is not in it",
    ));
    assert.ok(report.notes.includes(
      `${from}/state.snapshot is missing: channels state cannot be moved`,
    ));
    Deno.removeSync(`${from}/saguin.manifest`);
    const other = new RecordedReport();
    await snapshotsToSqlite(from, `${path}/other.db`, STAMP, other);
    assert.ok(other.notes.includes(
      `${from}/saguin.manifest is missing; whether the files are of one stop is not known`,
    ));
  }));

Deno.test("S166 a channel of a database that contradicts itself is reported, and the others are moved", () =>
  inDirectory(async (path) => {
    await writeSnapshots(`${path}/snapshots`, drawState(new Dice(9)));
    const from = `${path}/full.db`;
    await snapshotsToSqlite(`${path}/snapshots`, from, STAMP, new RecordedReport());
    const file = new DatabaseSync(from);
    const payload = "x'00', 0, NULL, NULL, 1";
    file.exec(`
      INSERT INTO channels VALUES ('past', 'append', 3, 1, 0), ('below', 'append', 9, 5, 0),
        ('floor', 'append', 3, 4, 0), ('kind', 'heap', 2, 1, 0), ('table', 'latest', 2, 1, 0),
        ('json', 'append', 3, 1, 0), ('reader', 'append', 3, 1, 0), ('huge', 'append', ${
      2n ** 60n
    }, 1, 0), ('spent', 'queue', 2, 1, 0),
        ('${".".repeat(100)}', 'append', 2, 1, 0);
      INSERT INTO records (channel, offset, topic, message_id, timestamp, headers, payload, retain,
        bridge, client, qos, group_copy) VALUES
        ('past', 3, 't', 'i', 0, NULL, ${payload}, 0),
        ('below', 4, 't', 'i', 0, NULL, ${payload}, 0),
        ('table', 1, 't', 'i', 0, NULL, ${payload}, 0),
        ('json', 1, 't', 'i', 0, '[', ${payload}, 0),
        ('stray', 1, 't', 'i', 0, NULL, ${payload}, 0);
      INSERT INTO positions VALUES ('reader', 'mqtt:a', 4, 0, 0);
      INSERT INTO queue_items (channel, offset, attempts, first_delivered, last_delivered, topic,
        message_id, timestamp, payload, retain, qos) VALUES
        ('spent', 1, -1, 0, 0, 't', 'i', 0, x'', 0, 0);
    `);
    file.close();
    const report = new RecordedReport();
    const outcome = await sqliteToSnapshots(from, `${path}/new`, STAMP, report);
    const failed = report.failures.map((text) => text.replaceAll(`${path}/`, "")).sort();
    const notWritten = (name: string, why: string) =>
      `new/${name}.snapshot is not written: channel ${why}`;
    assert.deepEqual(failed, [
      "channel " + ".".repeat(100) +
      " has a snapshot file name of 309 bytes, and 255 fit; it is not moved",
      "full.db: channel stray has rows and no counters; it is not moved",
      notWritten(
        "below",
        "below has an entry at offset 4 of QoS 1, with floor 5 and next offset 9",
      ),
      notWritten("floor", "floor has floor 4 and next offset 3"),
      notWritten("huge", `huge has floor 1 and next offset ${2 ** 60}`),
      notWritten(
        "json",
        "json has damaged headers or properties between offsets 1 and 1: Unexpected end of JSON input",
      ),
      notWritten("kind", "kind is of no known type, heap"),
      notWritten("past", "past has an entry at offset 3 of QoS 1, with floor 1 and next offset 3"),
      notWritten("reader", "reader has the position of mqtt:a at 4 of 3"),
      "new/spent.snapshot is not written: attempts of job 1 of channel spent is -1, which nothing here ever stores",
      notWritten("table", "table is of type latest and has rows in records"),
    ]);
    assert.equal(outcome.failed, failed.length);
    const moved = readSnapshots(`${path}/new`);
    assert.deepEqual(moved, movable(drawState(new Dice(9))));
    assert.deepEqual(
      [...contents(`${path}/new`).keys()].filter((name) => name.endsWith(".tmp")),
      [],
    );
  }));

Deno.test("S164 a database with a log beside it is read with it, and neither is changed", () =>
  inDirectory(async (path) => {
    const opened = testProvider(`${path}/live.db`);
    await opened.provider.open([{ channel: "events", kind: "append" }]);
    const store = opened.provider.append("events");
    for (let i = 1; i <= 20; i++) {
      await publish(opened.provider, appendRow(store, message("t", `p${i}`)));
    }
    await Deno.mkdir(`${path}/copy`);
    for (const suffix of ["", "-wal"]) {
      Deno.copyFileSync(`${path}/live.db${suffix}`, `${path}/copy/live.db${suffix}`);
    }
    await opened.stop();
    const before = contents(`${path}/copy`);
    assert.ok(before.get("live.db-wal")!.length > 0);
    const report = new RecordedReport();
    await sqliteToSnapshots(`${path}/copy/live.db`, `${path}/new`, STAMP, report);
    assert.deepEqual(report.failures, []);
    assert.deepEqual(contents(`${path}/copy`), before);
    assert.equal(readSnapshots(`${path}/new`).get("events")!.records.length, 20);
  }));
