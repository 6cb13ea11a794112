/**
 * What the sqlite provider adds to SQLite itself: the same records, in groups of the same size, first
 * through plain `node:sqlite` on one thread and then through `submit` and the writer thread.
 *
 *     deno run -A bench/sqlite.ts [seconds per row]
 *
 * Columns: records a second; microseconds a commit; ratio to the raw cost of a record; processor time
 * of the event loop a record (the rest of the broker lives on what is left); bytes handed to the disk
 * a record, log and file together.
 */
import { DatabaseSync } from "node:sqlite";
import { systemClock } from "../src/platform/clock.ts";
import type { Log } from "../src/platform/log.ts";
import { HeapTimers } from "../src/platform/timers.ts";
import type { AppendStore, PublishEntry, PublishRow } from "../src/storage/contract.ts";
import { type Message, NO_HEADERS, NO_PROPERTIES, recordSize } from "../src/storage/record.ts";
import { SqliteProvider } from "../src/storage/sqlite/provider.ts";
import { createSchema } from "../src/storage/sqlite/schema.ts";
import { runStorageWorker } from "../src/storage/sqlite/worker.ts";
import { isStorageWorker } from "../src/storage/sqlite/worker_name.ts";

const PAYLOAD_BYTES = 128;
const GROUPS = [1, 8, 64, 256];
/** As many publishes as eight connections with a window of 64 keep under way. */
const SATURATED = 512;
/** Kernel clock ticks in /proc/self/task/.../stat. */
const TICK_US = 10_000;

const silent: Log = {
  debug() {},
  info() {},
  warn() {},
  error: (msg, fields) => console.error(msg, fields),
  enabled: () => false,
};

interface Row {
  readonly what: string;
  readonly group: number;
  readonly records: number;
  readonly ms: number;
  readonly commits: number;
  readonly loopUs: number | undefined;
  readonly written: number;
}

const rawUsPerRecord = new Map<number, number>();

function report({ what, group, records, ms, commits, loopUs, written }: Row): void {
  const us = ms * 1000 / records;
  const raw = rawUsPerRecord.get(group);
  if (what === "raw") rawUsPerRecord.set(group, us);
  console.log(
    what.padEnd(12),
    String(group).padStart(6),
    String(Math.round(records / ms * 1000)).padStart(10),
    (ms * 1000 / commits).toFixed(0).padStart(10),
    (raw === undefined || what === "raw" ? "" : (us / raw).toFixed(2)).padStart(8),
    (loopUs === undefined ? "" : (loopUs / records).toFixed(2)).padStart(8),
    String(Math.round(written / records)).padStart(8),
  );
}

function message(i: number): Message {
  return {
    messageId: "0190a7c8-1234-7abc-8def-" + String(i).padStart(12, "0"),
    topic: `plant/line1/sensor${i % 50}/temperature`,
    timestamp: 1_700_000_000_000_000_000n,
    headers: NO_HEADERS,
    properties: NO_PROPERTIES,
    payload: new Uint8Array(PAYLOAD_BYTES).fill(i),
    retain: false,
    bridge: "",
    clientId: `sensor-${i % 50}`,
    qos: 1,
    groupCopy: false,
    onlyFor: "",
  };
}

function bytesWritten(): number {
  return Number(/wchar: (\d+)/.exec(Deno.readTextFileSync("/proc/self/io"))![1]);
}

function loopCpuUs(): number {
  const stat = Deno.readTextFileSync(`/proc/self/task/${Deno.pid}/stat`);
  const fields = stat.slice(stat.lastIndexOf(")") + 2).split(" ");
  return (Number(fields[11]) + Number(fields[12])) * TICK_US;
}

function raw(dir: string, group: number, ms: number): Row {
  const db = new DatabaseSync(`${dir}/raw-${group}.db`);
  for (const text of ["page_size=4096", "journal_mode=WAL", "synchronous=NORMAL"]) {
    db.prepare(`PRAGMA ${text}`).get();
  }
  createSchema(db, "bench", 0n);
  db.prepare("INSERT INTO channels VALUES ('readings', 'append', 1, 1, 0)").run();
  const insert = db.prepare(
    "INSERT INTO records (channel, offset, topic, message_id, timestamp, headers, props, payload, " +
      "retain, bridge, client, qos, group_copy, only_for) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
  );
  const update = db.prepare("UPDATE channels SET next = ?, bytes = ? WHERE name = ?");
  const begin = db.prepare("BEGIN IMMEDIATE");
  const commit = db.prepare("COMMIT");
  const messages = Array.from({ length: 256 }, (_, i) => message(i));
  let next = 1;
  let commits = 0;
  const before = bytesWritten();
  const start = performance.now();
  while (performance.now() - start < ms) {
    begin.run();
    for (let i = 0; i < group; i++) {
      const m = messages[i % 256];
      insert.run(
        "readings",
        next++,
        m.topic,
        m.messageId,
        m.timestamp,
        null,
        null,
        m.payload,
        0,
        null,
        m.clientId,
        1,
        0,
        null,
      );
    }
    update.run(next, next * 200, "readings");
    commit.run();
    commits++;
  }
  const took = performance.now() - start;
  db.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
  const written = bytesWritten() - before;
  db.close();
  return { what: "raw", group, records: next - 1, ms: took, commits, loopUs: undefined, written };
}

async function provider(
  dir: string,
  acknowledge: "committed" | "synced",
  group: number,
  ms: number,
  saturated: boolean,
): Promise<Row> {
  const timers = new HeapTimers(systemClock, (error) => console.error(error));
  const sqlite = new SqliteProvider({
    name: "bench",
    filePath: `${dir}/${acknowledge}-${group}-${saturated}.db`,
    maxBytes: undefined,
    reserveBytes: 0,
    acknowledge,
    publishCommit: { kind: "collecting" },
    readConnections: 2,
    flushIntervalMs: 150,
    clock: systemClock,
    timers,
    log: silent,
    revision: "bench",
    spawn: (name) => new Worker(import.meta.url, { type: "module", name }),
    onFatal: (failure) => console.error(failure.message),
  });
  await sqlite.open([{ channel: "readings", kind: "append" }]);
  const store = sqlite.append("readings");
  const messages = Array.from({ length: 256 }, (_, i) => message(i));
  // The disk and the compilers get warm before anything counts.
  const written = bytesWritten();
  const warm = await load(sqlite, store, messages, group, ms / 4, saturated);
  const before = { cpu: loopCpuUs(), commits: sqlite.statistics().commits };
  const start = performance.now();
  const records = await load(sqlite, store, messages, group, ms, saturated);
  const took = performance.now() - start;
  const loopUs = loopCpuUs() - before.cpu;
  const commits = sqlite.statistics().commits - before.commits;
  await sqlite.close();
  timers.stop();
  const what = saturated ? `${acknowledge}*` : acknowledge;
  const perRecord = (bytesWritten() - written) / (warm + records);
  return { what, group, records, ms: took, commits, loopUs, written: perRecord * records };
}

/** Either rounds of `group` submitted together, or `group` entries always under way. */
function load(
  sqlite: SqliteProvider,
  store: AppendStore,
  messages: readonly Message[],
  group: number,
  ms: number,
  saturated: boolean,
): Promise<number> {
  return new Promise((resolve) => {
    const end = performance.now() + ms;
    let submitted = 0;
    let settled = 0;
    const submit = () => {
      const message = messages[submitted++ % 256];
      const row: PublishRow = { kind: "append", store, message, offset: 0 };
      const entry: PublishEntry = { rows: [row], bytes: recordSize(message), settled: answered };
      sqlite.submit(entry);
    };
    const answered = () => {
      settled++;
      if (performance.now() >= end) {
        if (settled === submitted) resolve(settled);
      } else if (saturated) submit();
      else if (settled === submitted) { for (let i = 0; i < group; i++) submit(); }
    };
    for (let i = 0; i < group; i++) submit();
  });
}

async function main(): Promise<void> {
  const ms = Number(Deno.args[0] ?? 2) * 1000;
  const dir = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "saguin-bench-" });
  try {
    console.log(`${PAYLOAD_BYTES}-byte payloads; * keeps the group under way instead of in rounds`);
    console.log("what          group  records/s  us/commit    x raw  loop us    bytes");
    for (const group of GROUPS) {
      report(raw(dir, group, ms));
      report(await provider(dir, "committed", group, ms, false));
      report(await provider(dir, "synced", group, ms, false));
    }
    rawUsPerRecord.set(SATURATED, rawUsPerRecord.get(256)!);
    report(await provider(dir, "committed", SATURATED, ms, true));
    report(await provider(dir, "synced", SATURATED, ms, true));
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

if (isStorageWorker((self as unknown as { name?: string }).name ?? "")) runStorageWorker();
else await main();
