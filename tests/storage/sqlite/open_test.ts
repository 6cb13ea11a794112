import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { BROADCAST_LOG, StorageFailure, type StoreSpec } from "../../../src/storage/contract.ts";
import { EMPTY_FILE_PAGES, PAGE_SIZE } from "../../../src/storage/sqlite/schema.ts";
import {
  appendRow,
  inTempDir,
  message,
  publish,
  testProvider,
  withProvider,
} from "./support/provider.ts";

const READINGS: StoreSpec[] = [{ channel: "readings", kind: "append" }];

function names(dir: string): string[] {
  return [...Deno.readDirSync(dir)].map((entry) => entry.name).sort();
}

/** The sentence an open is refused with; `file` stands for the path. */
async function refusal(
  filePath: string,
  specs: readonly StoreSpec[] = READINGS,
  options: Parameters<typeof testProvider>[1] = {},
): Promise<string> {
  const { provider, stop } = testProvider(filePath, options);
  try {
    await provider.open(specs);
  } catch (error) {
    assert.ok(error instanceof StorageFailure, String(error));
    return error.message.replaceAll(filePath, "FILE");
  } finally {
    await stop();
  }
  return "opened";
}

function query(filePath: string, sql: string): Record<string, unknown>[] {
  const database = new DatabaseSync(filePath);
  try {
    return database.prepare(sql).all();
  } finally {
    database.close();
  }
}

Deno.test("S88 S91 a new file has the eleven tables, all STRICT, at user_version 20", () =>
  inTempDir(async (file) => {
    await withProvider(file, [], () => Promise.resolve());
    assert.deepEqual(query(file, "PRAGMA user_version"), [{ __proto__: null, user_version: 20 }]);
    const tables = query(
      file,
      "SELECT name, strict FROM pragma_table_list WHERE schema = 'main' AND name NOT LIKE 'sqlite_%'",
    );
    assert.deepEqual(tables.map((table) => table.name).sort(), [
      "channels",
      "held_publishes",
      "latest_values",
      "meta",
      "positions",
      "queue_items",
      "records",
      "session_inflight",
      "sessions",
      "share_groups",
      "share_returned",
    ]);
    assert.ok(tables.every((table) => table.strict === 1));
    const [meta] = query(file, "SELECT created_by, CAST(created_at AS TEXT) AS at FROM meta");
    assert.equal(meta.created_by, "0123456789abcdef0123456789abcdef01234567");
    assert.ok(BigInt(meta.at as string) > 1_700_000_000_000_000_000n);
  }));

Deno.test("S92 an empty file has the pages that the configuration's check of max_bytes is told", () =>
  inTempDir(async (file) => {
    await withProvider(file, [], () => Promise.resolve());
    assert.equal(Deno.statSync(file).size, EMPTY_FILE_PAGES * PAGE_SIZE);
    assert.equal(query(file, "PRAGMA page_size")[0].page_size, PAGE_SIZE);
  }));

Deno.test("S145 database and lock are their owner's alone", () =>
  inTempDir(async (file) => {
    await withProvider(file, READINGS, () => {
      for (const path of [file, `${file}-wal`, `${file}-shm`, `${file}.lock`]) {
        assert.equal(Deno.statSync(path).mode! & 0o777, 0o600, path);
      }
      return Promise.resolve();
    });
  }));

Deno.test("S146 an empty file that states no version is new", () =>
  inTempDir(async (file) => {
    Deno.writeFileSync(file, new Uint8Array());
    assert.equal(await refusal(file), "opened");
    assert.equal(await refusal(file), "opened");
  }));

Deno.test("S89 another version is refused with its version, its build and its day, and left alone", () =>
  inTempDir(async (file, dir) => {
    await withProvider(file, READINGS, () => Promise.resolve());
    query(file, "PRAGMA user_version=19");
    query(file, "UPDATE meta SET created_at = 1700000000123456789");
    const before = Deno.readFileSync(file);
    Deno.removeSync(`${file}.lock`);
    assert.equal(
      await refusal(file),
      "storage FILE: schema version 19 (created by saguin 0123456789ab at 2023-11-14T22:13:20Z); " +
        "this broker reads version 20",
    );
    assert.deepEqual(Deno.readFileSync(file), before);
    assert.deepEqual(names(dir), ["plant.db"]);
  }));

Deno.test("S89 a file with a log beside it is refused without taking the log in", () =>
  inTempDir(async (file) => {
    const other = new DatabaseSync(file);
    other.exec("PRAGMA journal_mode=WAL; CREATE TABLE notes (a); PRAGMA user_version=7");
    Deno.copyFileSync(file, `${file}.copy`);
    Deno.copyFileSync(`${file}-wal`, `${file}.copy-wal`);
    other.close();
    const before = Deno.readFileSync(`${file}.copy`);
    const log = Deno.readFileSync(`${file}.copy-wal`);
    assert.match(
      await refusal(`${file}.copy`),
      /^storage FILE: schema version 7 \(not created by saguin\); this broker reads version 20$/,
    );
    assert.deepEqual(Deno.readFileSync(`${file}.copy`), before);
    assert.deepEqual(Deno.readFileSync(`${file}.copy-wal`), log);
  }));

Deno.test("S89 tables without a version are refused", () =>
  inTempDir(async (file) => {
    query(file, "CREATE TABLE notes (a)");
    assert.equal(
      await refusal(file),
      "storage FILE: holds tables and states no schema version; this broker reads version 20",
    );
  }));

Deno.test("S89 what is no database is refused by name", () =>
  inTempDir(async (file) => {
    Deno.writeTextFileSync(file, "a diary, not a database. ".repeat(400));
    assert.equal(await refusal(file), "storage FILE: is not a SQLite database");
  }));

Deno.test("S78 a channel stored as another type stops the open and changes nothing", () =>
  inTempDir(async (file) => {
    await withProvider(file, READINGS, () => Promise.resolve());
    assert.equal(
      await refusal(file, [{ channel: "new", kind: "append" }, {
        channel: "readings",
        kind: "queue",
      }]),
      'storage FILE: channel "readings" is stored as type append and configured as queue; ' +
        "give it the stored type, or another name or storage",
    );
    assert.deepEqual(query(file, "SELECT name FROM channels").map((row) => row.name), ["readings"]);
  }));

Deno.test("S180 a bound that leaves publishes no page is refused, and nothing is created", () =>
  inTempDir(async (file, dir) => {
    assert.match(
      await refusal(file, READINGS, { maxBytes: 8000, reserveBytes: 5000 }),
      /^storage FILE: max_bytes of 8000 leaves no page of 4096 bytes beside the reserve of 5000/,
    );
    assert.deepEqual(names(dir), []);
  }));

Deno.test("S181 what the bound came to is said once, in bytes of whole pages", () =>
  inTempDir((file) =>
    withProvider(file, READINGS, ({ log }) => {
      const lines = log.lines.filter((line) => line.msg === "storage is bounded");
      assert.equal(lines.length, 1);
      const { publishes_stop_at, reserve, page_size } = lines[0].fields;
      assert.deepEqual([publishes_stop_at, reserve, page_size], [221 * 4096, 3 * 4096, 4096]);
      return Promise.resolve();
    }, { maxBytes: 921_000, reserveBytes: 10_000 })
  ));

Deno.test("S102 what is kept of channels that are not configured is said once, and left alone", () =>
  inTempDir(async (file) => {
    const before: StoreSpec[] = [
      { channel: BROADCAST_LOG, kind: "append" },
      { channel: "empty", kind: "append" },
      { channel: "lamps", kind: "latest" },
      { channel: "readings", kind: "append" },
      { channel: "repairs", kind: "queue" },
    ];
    const said = "channels are stored here and not configured; what they keep is out of reach";
    await withProvider(file, before, async ({ provider, log }) => {
      const lamps = provider.latest("lamps");
      for (const topic of ["lamp/1", "lamp/2"]) {
        await publish(provider, {
          kind: "set",
          store: lamps,
          message: message(topic, "on"),
          offset: 0,
        });
      }
      await publish(provider, appendRow(provider.append(BROADCAST_LOG), message("t", "logged")));
      await publish(provider, appendRow(provider.append("readings"), message("t", "1")));
      const repairs = provider.queue("repairs");
      await publish(provider, {
        kind: "enqueue",
        store: repairs,
        message: message("t", "job"),
        offset: 0,
      });
      assert.deepEqual(log.lines.filter(({ msg }) => msg === said), []);
    });
    const renamed: StoreSpec[] = [{ channel: "measurements", kind: "append" }];
    for (let start = 1; start <= 2; start++) {
      await withProvider(file, renamed, ({ log }) => {
        const lines = log.lines.filter(({ msg }) => msg === said);
        assert.deepEqual(lines.map(({ level, fields }) => ({ level, ...fields })), [
          {
            level: "info",
            provider: "plant",
            channels: 3,
            names: "lamps,readings,repairs",
            entries: 4,
          },
        ]);
        return Promise.resolve();
      });
    }
  }));

Deno.test("a directory that is not there is one sentence naming it", () =>
  inTempDir(async (file, dir) => {
    const missing = `${dir}/nowhere/plant.db`;
    assert.match(
      await refusal(missing),
      /^storage provider "plant": lock FILE\.lock cannot be made: its directory is not there; make it first$/,
    );
    void file;
    assert.deepEqual(names(dir), []);
  }));

Deno.test("S153 S156 a second open is refused naming provider and lock, and the first goes on", () =>
  inTempDir(async (file) => {
    await withProvider(file, READINGS, async ({ provider }) => {
      assert.equal(
        await refusal(file, READINGS, { name: "second" }),
        'storage provider "second": lock FILE.lock is held by another broker',
      );
      const store = provider.append("readings");
      assert.equal(await publish(provider, appendRow(store, message("t", "a"))), undefined);
      assert.equal(store.next(), 2);
    });
    assert.equal(await refusal(file), "opened");
  }));

Deno.test("S155 S157 what stands in the lock's place and is none is named, and left as it is", () =>
  inTempDir(async (file) => {
    const text = "somebody's notes, longer than the header of a database".repeat(10);
    Deno.writeTextFileSync(file + ".lock", text);
    assert.equal(
      await refusal(file),
      'storage provider "plant": lock FILE.lock is not a lock file; if nothing uses it, remove it',
    );
    assert.equal(Deno.readTextFileSync(file + ".lock"), text);
    Deno.removeSync(file + ".lock");
    assert.equal(await refusal(file), "opened");
  }));

Deno.test("S154 S155 a held lock keeps another process out too, and one left behind keeps nobody out", () =>
  inTempDir(async (file) => {
    const holder = new Deno.Command(Deno.execPath(), {
      args: [
        "eval",
        `import { ProviderLock } from ${
          JSON.stringify(new URL("../../../src/storage/lock.ts", import.meta.url).href)
        };
        ProviderLock.take(Deno.args[0], "other"); console.log("held"); setInterval(() => {}, 1000);`,
        `${file}.lock`,
      ],
      stdout: "piped",
    }).spawn();
    const output = holder.stdout.getReader();
    assert.match(new TextDecoder().decode((await output.read()).value), /held/);
    const attempts = [await refusal(file), await refusal(file)];
    holder.kill("SIGKILL");
    await holder.status;
    await output.cancel();
    const sentence = 'storage provider "plant": lock FILE.lock is held by another broker';
    assert.deepEqual(attempts, [sentence, sentence]);
    assert.equal(await refusal(file), "opened");
  }));

Deno.test("X33 S147 S148 after a clean close the main file alone is the whole database", () =>
  inTempDir(async (file, dir) => {
    await withProvider(file, READINGS, async ({ provider }) => {
      const row = appendRow(provider.append("readings"), message("t", "kept"));
      assert.equal(await publish(provider, row), undefined);
    });
    assert.deepEqual(names(dir), ["plant.db", "plant.db.lock"]);
    Deno.copyFileSync(file, `${dir}/copy.db`);
    await withProvider(`${dir}/copy.db`, READINGS, async ({ provider }) => {
      const answer = await provider.append("readings").readFrom(1, 10, 1000);
      assert.ok(!answer.belowFloor);
      assert.equal(new TextDecoder().decode(answer.records[0].message.payload), "kept");
    });
  }));

Deno.test("S81 the file is kept with a write-ahead log", () =>
  inTempDir((file) =>
    withProvider(file, READINGS, () => {
      assert.equal(query(file, "PRAGMA journal_mode")[0].journal_mode, "wal");
      return Promise.resolve();
    })
  ));
