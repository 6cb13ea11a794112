import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { BROADCAST_LOG, RETAINED, type StoreSpec } from "../../../src/storage/contract.ts";
import { createSchema } from "../../../src/storage/sqlite/schema.ts";
import { appendRow, inTempDir, message, publish, withProvider } from "./support/provider.ts";

const SPECS: StoreSpec[] = [
  { channel: "readings", kind: "append" },
  { channel: BROADCAST_LOG, kind: "append" },
  { channel: RETAINED, kind: "latest" },
];
const SOURCES = new URL("../../../src/", import.meta.url).pathname;

function* sources(directory: string): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(directory)) {
    if (isDirectory) yield* sources(`${directory}${name}/`);
    else if (name.endsWith(".ts")) yield directory + name;
  }
}

function rowsOf(file: string, sql: string): unknown[] {
  const database = new DatabaseSync(file, { readOnly: true });
  try {
    return database.prepare(sql).all().map((row) => Object.values(row));
  } finally {
    database.close();
  }
}

Deno.test("S80 the runtime's own SQLite has what the file needs", () =>
  inTempDir((file) => {
    const database = new DatabaseSync(file);
    const one = (sql: string) => Object.values(database.prepare(sql).get()!)[0];
    assert.equal(one("PRAGMA journal_mode=WAL"), "wal");
    database.prepare("CREATE TABLE t (n INTEGER, b BLOB) STRICT").run();
    const insert = database.prepare("INSERT INTO t VALUES (?, ?)");
    insert.run(2n ** 63n - 1n, null);
    const read = database.prepare("SELECT n FROM t");
    read.setReadBigInts(true);
    assert.equal(read.get()!.n, 2n ** 63n - 1n);
    assert.throws(() => insert.run("text", null), /cannot store TEXT/);
    database.prepare("PRAGMA max_page_count=2").get();
    const code = (error: unknown) => (error as { errcode: number }).errcode;
    assert.throws(() => insert.run(1, new Uint8Array(100_000)), (error) => code(error) === 13);
    database.close();
    return Promise.resolve();
  }));

Deno.test("S87 S88 S152 no statement attaches, compacts, or replaces a row unseen, but for the lock's own", () => {
  const found: string[] = [];
  for (const path of sources(SOURCES)) {
    const code = Deno.readTextFileSync(path).replaceAll(/^\s*(?:\/\/|\*|\/\*).*$/gm, "");
    for (
      const [sql] of code.matchAll(/["`][^"`\n]*\b(?:ATTACH|VACUUM|OR REPLACE)\b[^"`\n]*["`]/g)
    ) {
      found.push(`${path.slice(SOURCES.length)}: ${sql}`);
    }
  }
  assert.deepEqual(found, [
    `storage/lock.ts: "INSERT OR REPLACE INTO holder VALUES (1, ?, datetime('now'))"`,
  ]);
});

Deno.test("S93 S96 tables have their key and no other index, and the log and the retained store are rows of them", () =>
  inTempDir(async (file) => {
    await withProvider(file, SPECS, async ({ provider }) => {
      const log = provider.append(BROADCAST_LOG);
      const retained = provider.latest(RETAINED);
      await publish(provider, appendRow(log, message("t", "logged")));
      await publish(provider, {
        kind: "retain",
        store: retained,
        message: message("t", "kept"),
        offset: 0,
      });
    });
    const indexes = "SELECT count(*) FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL";
    assert.deepEqual(rowsOf(file, indexes), [[0]]);
    assert.deepEqual(
      rowsOf(file, "SELECT name, kind, next FROM channels ORDER BY name"),
      [[BROADCAST_LOG, "append", 2], [RETAINED, "latest", 2], ["readings", "append", 1]],
    );
    assert.deepEqual(rowsOf(file, "SELECT channel FROM records"), [[BROADCAST_LOG]]);
    assert.deepEqual(rowsOf(file, "SELECT channel FROM latest_values"), [[RETAINED]]);
  }));

Deno.test("S179 pages are of 4 KiB in a file made here, and of the file's own size in one made elsewhere", () =>
  inTempDir(async (file) => {
    await withProvider(file, SPECS, () => Promise.resolve());
    assert.deepEqual(rowsOf(file, "PRAGMA page_size"), [[4096]]);
    const other = file + ".other";
    const database = new DatabaseSync(other);
    database.exec("PRAGMA page_size=8192");
    createSchema(database, "elsewhere", 0n);
    database.close();
    await withProvider(other, SPECS, ({ log }) => {
      const [{ fields }] = log.lines.filter(({ msg }) => msg === "storage is bounded");
      assert.equal(fields.page_size, 8192);
      // 1,000,000 bytes are 122 of its pages and a part of one, less 13 for a reserve of 100,000.
      assert.equal(fields.publishes_stop_at, 109 * 8192);
      return Promise.resolve();
    }, { maxBytes: 1_000_000, reserveBytes: 100_000 });
    assert.deepEqual(rowsOf(other, "PRAGMA page_size"), [[8192]]);
  }));

Deno.test("S86 of a database that is open only the log is opened by name, to be flushed", () =>
  inTempDir(async (file) => {
    const opened: string[] = [];
    const { open, openSync } = Deno;
    Deno.open = (path, options) => {
      opened.push(String(path));
      return open(path, options);
    };
    Deno.openSync = (path, options) => {
      opened.push(String(path));
      return openSync(path, options);
    };
    try {
      await withProvider(file, SPECS, async ({ provider }) => {
        for (let i = 0; i < 3; i++) {
          await publish(provider, appendRow(provider.append("readings"), message("t", "x")));
          await new Promise((resolve) => setTimeout(resolve, 40));
        }
        // Another process finds the locks that SQLite holds as long as the file is open.
        const locks = Deno.readTextFileSync("/proc/locks");
        const { ino } = Deno.statSync(file + "-shm");
        assert.match(locks, new RegExp(`POSIX .* \\S+:${ino} `));
      }, { flushIntervalMs: 10 });
    } finally {
      Deno.open = open;
      Deno.openSync = openSync;
    }
    // The lock file is made before it is opened, never while it is.
    assert.deepEqual(opened, [file + ".lock", file + "-wal"]);
  }));
