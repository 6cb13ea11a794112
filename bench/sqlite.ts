/**
 * What the sqlite provider adds to SQLite itself: the same records, in groups of the same size, first
 * through plain `node:sqlite` on one thread and then through `submit` and the writer thread. Each
 * figure is the median of alternating rounds.
 *
 *     deno run -A bench/sqlite.ts [rounds] [seconds a round]
 *
 * x raw: cost of a record against the raw one; loop us: processor time of the event loop a record (the
 * rest of the broker lives on what is left); p50, p99: milliseconds from `submit` to `settled`; log MiB:
 * how far the write-ahead log grew; bytes: handed to the disk a record, log and file together.
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
import { median, table, whole } from "./support/measure.ts";

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

/** One round of one row. */
interface Round {
  /** Microseconds a record. */
  readonly us: number;
  readonly usPerCommit: number;
  readonly loopUs: number;
  readonly p50: number;
  readonly p99: number;
  readonly logMiB: number;
  readonly bytes: number;
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

function percentile(sorted: Float64Array, part: number): number {
  return sorted.length === 0 ? 0 : sorted[Math.floor(sorted.length * part)];
}

function sizeOf(path: string): number {
  return Deno.statSync(path).size / (1024 * 1024);
}

function raw(dir: string, group: number, ms: number): Round {
  const file = `${dir}/raw-${group}-${performance.now()}.db`;
  const db = new DatabaseSync(file);
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
  const records = next - 1;
  db.close();
  Deno.removeSync(file);
  const us = took * 1000 / records;
  const usPerCommit = took * 1000 / commits;
  return { us, usPerCommit, loopUs: 0, p50: 0, p99: 0, logMiB: 0, bytes: written / records };
}

interface Load {
  readonly acknowledge: "committed" | "synced";
  /** Entries submitted together, or always under way. */
  readonly group: number;
  readonly saturated: boolean;
}

async function provider(
  dir: string,
  { acknowledge, group, saturated }: Load,
  ms: number,
): Promise<Round> {
  const timers = new HeapTimers(systemClock, (error) => console.error(error));
  const filePath = `${dir}/provider-${performance.now()}.db`;
  const sqlite = new SqliteProvider({
    name: "bench",
    filePath,
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
  const written = bytesWritten();
  // The disk and the compilers get warm before anything counts.
  const warm = await load(sqlite, store, messages, group, ms / 4, saturated);
  const cpu = loopCpuUs();
  const { commits } = sqlite.statistics();
  const start = performance.now();
  const waited = await load(sqlite, store, messages, group, ms, saturated);
  const us = (performance.now() - start) * 1000;
  const loopUs = loopCpuUs() - cpu;
  const committed = sqlite.statistics().commits - commits;
  const logMiB = sizeOf(filePath + "-wal");
  await sqlite.close();
  timers.stop();
  Deno.removeSync(filePath);
  const records = waited.length;
  const bytes = (bytesWritten() - written) / (warm.length + records);
  const sorted = waited.sort();
  return {
    us: us / records,
    usPerCommit: us / committed,
    loopUs: loopUs / records,
    p50: percentile(sorted, 0.5),
    p99: percentile(sorted, 0.99),
    logMiB,
    bytes,
  };
}

/**
 * Either rounds of `group` submitted together, or `group` entries always under way. Answers the
 * milliseconds from `submit` to `settled` of each.
 */
function load(
  sqlite: SqliteProvider,
  store: AppendStore,
  messages: readonly Message[],
  group: number,
  ms: number,
  saturated: boolean,
): Promise<Float64Array> {
  return new Promise((resolve) => {
    const end = performance.now() + ms;
    const waited: number[] = [];
    let submitted = 0;
    const submit = () => {
      const message = messages[submitted++ % 256];
      const row: PublishRow = { kind: "append", store, message, offset: 0 };
      const at = performance.now();
      const entry: PublishEntry = {
        rows: [row],
        bytes: recordSize(message),
        settled(failure) {
          if (failure !== undefined) throw failure;
          const now = performance.now();
          waited.push(now - at);
          if (now >= end) {
            if (waited.length === submitted) resolve(Float64Array.from(waited));
          } else if (saturated) submit();
          else if (waited.length === submitted) { for (let i = 0; i < group; i++) submit(); }
        },
      };
      sqlite.submit(entry);
    };
    for (let i = 0; i < group; i++) submit();
  });
}

function line(what: string, group: number, rounds: readonly Round[], raw: number): string[] {
  const of = (figure: (round: Round) => number) => median(rounds.map(figure));
  const us = of((round) => round.us);
  const isRaw = what === "raw";
  const own = (text: string) => isRaw ? "" : text;
  return [
    what,
    String(group),
    whole(1e6 / us),
    whole(of((round) => round.usPerCommit)),
    own((us / raw).toFixed(2)),
    own(of((round) => round.loopUs).toFixed(2)),
    own(of((round) => round.p50).toFixed(2)),
    own(of((round) => round.p99).toFixed(2)),
    own(Math.max(...rounds.map((round) => round.logMiB)).toFixed(0)),
    whole(of((round) => round.bytes)),
  ];
}

async function main(): Promise<void> {
  const rounds = Number(Deno.args[0] ?? 3);
  const ms = Number(Deno.args[1] ?? 1) * 1000;
  const dir = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "saguin-bench-" });
  const rows: string[][] = [];
  try {
    for (const group of [...GROUPS, SATURATED]) {
      const saturated = group === SATURATED;
      const raws: Round[] = [];
      const committed: Round[] = [];
      const synced: Round[] = [];
      for (let round = 0; round < rounds; round++) {
        raws.push(raw(dir, Math.min(group, 256), ms));
        committed.push(await provider(dir, { acknowledge: "committed", group, saturated }, ms));
        synced.push(await provider(dir, { acknowledge: "synced", group, saturated }, ms));
      }
      const usOfRaw = median(raws.map((round) => round.us));
      const mark = saturated ? "*" : "";
      if (!saturated) rows.push(line("raw", group, raws, usOfRaw));
      rows.push(line("committed" + mark, group, committed, usOfRaw));
      rows.push(line("synced" + mark, group, synced, usOfRaw));
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
  const heads = [
    "",
    "group",
    "records/s",
    "us/commit",
    "x raw",
    "loop us",
    "p50",
    "p99",
    "log MiB",
    "bytes",
  ];
  console.log(`${PAYLOAD_BYTES}-byte payloads; * always under way instead of in rounds`);
  console.log(table(heads, rows));
}

if (isStorageWorker((self as unknown as { name?: string }).name ?? "")) runStorageWorker();
else await main();
