/** What the storage benches share: providers, messages, plain SQLite and plain files to hold them against. */
import { DatabaseSync } from "node:sqlite";
import { systemClock } from "../../src/platform/clock.ts";
import { randomIds } from "../../src/platform/ids.ts";
import { LogfmtLog } from "../../src/platform/log.ts";
import { HeapTimers } from "../../src/platform/timers.ts";
import type { StoreSpec } from "../../src/storage/contract.ts";
import { MemoryProvider } from "../../src/storage/memory/provider.ts";
import { type Message, NO_HEADERS, NO_PROPERTIES, recordSize } from "../../src/storage/record.ts";
import { FileDirectory } from "../../src/storage/snapshot/directory.ts";
import { SqliteProvider } from "../../src/storage/sqlite/provider.ts";
import { createSchema } from "../../src/storage/sqlite/schema.ts";

export const PAYLOAD_BYTES = 128;
const RECORDS_PER_FILL = 1_000;

export const log = new LogfmtLog("bench", "error", systemClock, (line) => console.error(line));
const ids = randomIds();

/** How much of everything is measured. */
export interface Scale {
  /** Seconds instead of minutes: to see that everything runs. */
  readonly smoke: boolean;
  readonly rounds: number;
  /** Of one round of one row. */
  readonly ms: number;
  /** On real storage; emptied again. */
  readonly directory: string;
}

/** A line of the table of targets. `kept` is undefined where there is only a figure to show. */
export interface Target {
  readonly what: string;
  readonly measured: string;
  readonly promised: string;
  readonly kept: boolean | undefined;
}

export function atMost(what: string, measured: number, most: number, unit = ""): Target {
  const measuredText = (measured < 10 ? measured.toFixed(2) : measured.toFixed(0)) + unit;
  return {
    what,
    measured: measuredText,
    promised: `at most ${most}${unit}`,
    kept: measured <= most,
  };
}

export function message(i: number, payloadBytes = PAYLOAD_BYTES): Message {
  return {
    messageId: ids.messageId(),
    topic: `plant/line1/sensor${i % 50}/temperature`,
    timestamp: systemClock.wall(),
    headers: NO_HEADERS,
    properties: NO_PROPERTIES,
    payload: new Uint8Array(payloadBytes).fill(i),
    retain: false,
    bridge: "",
    clientId: `sensor-${i % 50}`,
    qos: 1,
    groupCopy: false,
    onlyFor: "",
  };
}

/** Milliseconds as they are read: 0.012, 3.4, 1,234. */
export function ms(value: number): string {
  if (value < 1) return value.toFixed(3);
  return value < 10 ? value.toFixed(1) : Math.round(value).toLocaleString("en");
}

export async function openMemory(
  specs: readonly StoreSpec[],
  snapshotDir?: string,
): Promise<MemoryProvider> {
  const provider = new MemoryProvider({
    name: "bench",
    maxBytes: undefined,
    reserveBytes: 0,
    clock: systemClock,
    log,
    ...(snapshotDir !== undefined && {
      snapshots: { directory: new FileDirectory(snapshotDir), revision: "bench" },
    }),
  });
  await provider.open(specs);
  return provider;
}

export interface OpenSqlite {
  readonly provider: SqliteProvider;
  /** Requests that went to any of its threads so far. */
  requests(): number;
  close(): Promise<void>;
}

export async function openSqlite(
  filePath: string,
  specs: readonly StoreSpec[],
  acknowledge: "committed" | "synced" = "committed",
): Promise<OpenSqlite> {
  let requests = 0;
  const timers = new HeapTimers(systemClock, (error) => console.error(error));
  const provider = new SqliteProvider({
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
    log,
    revision: "bench",
    spawn: (name) => {
      const url = new URL("worker.ts", import.meta.url);
      const worker = new Worker(url, { type: "module", name });
      const post = worker.postMessage.bind(worker) as (...args: unknown[]) => void;
      worker.postMessage = (...args: unknown[]) => {
        requests++;
        post(...args);
      };
      return worker;
    },
    onFatal: (failure) => console.error(failure.message),
  });
  await provider.open(specs);
  const close = async () => {
    await provider.close();
    timers.stop();
  };
  return { provider, requests: () => requests, close };
}

export function fill(provider: MemoryProvider, channel: string, records: number): void {
  const store = provider.append(channel);
  const settled = () => {};
  for (let i = 0; i < records; i++) {
    const row = { kind: "append" as const, store, message: message(i), offset: 0 };
    provider.submit({ rows: [row], bytes: PAYLOAD_BYTES, settled });
  }
}

/** A database of this program's schema, written by hand: what a plain user of SQLite would do. */
export class PlainDatabase {
  readonly #database: DatabaseSync;
  readonly #insert;
  readonly #update;
  readonly #begin;
  readonly #commit;
  #next = 1;
  #bytes = 0;

  constructor(path: string, synchronous: "NORMAL" | "FULL") {
    const database = this.#database = new DatabaseSync(path);
    for (const text of ["page_size=4096", "journal_mode=WAL", `synchronous=${synchronous}`]) {
      database.prepare(`PRAGMA ${text}`).get();
    }
    createSchema(database, "bench", 0n);
    database.prepare("INSERT INTO channels VALUES ('readings', 'append', 1, 1, 0)").run();
    this.#insert = database.prepare(
      "INSERT INTO records (channel, offset, topic, message_id, timestamp, headers, props, payload, " +
        "retain, bridge, client, qos, group_copy, only_for) " +
        "VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
    );
    this.#update = database.prepare("UPDATE channels SET next = ?, bytes = ? WHERE name = ?");
    this.#begin = database.prepare("BEGIN IMMEDIATE");
    this.#commit = database.prepare("COMMIT");
  }

  /** One transaction: these records and the channel's row. */
  append(messages: readonly Message[], count: number): void {
    this.#begin.run();
    for (let i = 0; i < count; i++) {
      const m = messages[i % messages.length];
      this.#bytes += recordSize(m);
      this.#insert.run(
        "readings",
        this.#next++,
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
    this.#update.run(this.#next, this.#bytes, "readings");
    this.#commit.run();
  }

  fill(records: number): void {
    const messages = Array.from({ length: RECORDS_PER_FILL }, (_, i) => message(i));
    for (let left = records; left > 0; left -= RECORDS_PER_FILL) {
      this.append(messages, Math.min(left, RECORDS_PER_FILL));
    }
  }

  close(): void {
    this.#database.prepare("PRAGMA wal_checkpoint(TRUNCATE)").get();
    this.#database.close();
  }
}

/** Writes and syncs so many bytes as plainly as can be. @return milliseconds */
export async function plainWrite(path: string, bytes: number): Promise<number> {
  const piece = new Uint8Array(Math.min(bytes, 512 * 1024)).fill(7);
  const begun = performance.now();
  const file = await Deno.open(path, { write: true, create: true, truncate: true });
  for (let left = bytes; left > 0;) left -= await file.write(piece.subarray(0, left));
  await file.sync();
  file.close();
  return performance.now() - begun;
}

/** Runs with a directory of its own, which is gone afterwards. */
export async function within<T>(parent: string, run: (path: string) => Promise<T>): Promise<T> {
  const path = await Deno.makeTempDir({ dir: parent });
  try {
    return await run(path);
  } finally {
    await Deno.remove(path, { recursive: true });
  }
}
