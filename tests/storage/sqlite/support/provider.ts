import { systemClock } from "../../../../src/platform/clock.ts";
import type { Log, LogFields } from "../../../../src/platform/log.ts";
import { HeapTimers } from "../../../../src/platform/timers.ts";
import {
  type AppendStore,
  type Provider,
  type PublishEntry,
  type RecordRow,
  type StorageFailure,
  type StoreSpec,
} from "../../../../src/storage/contract.ts";
import {
  type Message,
  NO_HEADERS,
  NO_PROPERTIES,
  recordSize,
} from "../../../../src/storage/record.ts";
import {
  SqliteProvider,
  type SqliteProviderOptions,
} from "../../../../src/storage/sqlite/provider.ts";

/** Lines a provider logged, for tests that read them. */
export class RecordedLog implements Log {
  lines: { level: string; msg: string; fields: LogFields }[] = [];
  debug(msg: string, fields: LogFields = {}): void {
    this.lines.push({ level: "debug", msg, fields });
  }
  info(msg: string, fields: LogFields = {}): void {
    this.lines.push({ level: "info", msg, fields });
  }
  warn(msg: string, fields: LogFields = {}): void {
    this.lines.push({ level: "warn", msg, fields });
  }
  error(msg: string, fields: LogFields = {}): void {
    this.lines.push({ level: "error", msg, fields });
  }
  enabled(): boolean {
    return true;
  }
}

export function spawnStorageWorker(name: string): Worker {
  return new Worker(new URL("./worker_entry.ts", import.meta.url), { type: "module", name });
}

export interface TestProvider {
  readonly provider: SqliteProvider;
  readonly log: RecordedLog;
  readonly fatal: StorageFailure[];
  /** Closes the provider and stops its timers. */
  stop(): Promise<void>;
}

export function testProvider(
  filePath: string,
  options: Partial<SqliteProviderOptions> = {},
): TestProvider {
  const log = new RecordedLog();
  const fatal: StorageFailure[] = [];
  const timers = new HeapTimers(systemClock, (error) => {
    throw error;
  });
  const provider = new SqliteProvider({
    name: "plant",
    filePath,
    maxBytes: undefined,
    reserveBytes: 0,
    acknowledge: "committed",
    publishCommit: { kind: "collecting" },
    readConnections: 2,
    flushIntervalMs: 150,
    clock: systemClock,
    timers,
    log,
    revision: "0123456789abcdef0123456789abcdef01234567",
    spawn: spawnStorageWorker,
    onFatal: (failure) => fatal.push(failure),
    ...options,
  });
  return {
    provider,
    log,
    fatal,
    async stop() {
      await provider.close();
      timers.stop();
    },
  };
}

/** Runs `use` with a provider on `specs`, closed afterwards whatever happened. */
export async function withProvider(
  filePath: string,
  specs: readonly StoreSpec[],
  use: (opened: TestProvider) => Promise<void>,
  options: Partial<SqliteProviderOptions> = {},
): Promise<void> {
  const opened = testProvider(filePath, options);
  await opened.provider.open(specs);
  try {
    await use(opened);
  } finally {
    await opened.stop();
  }
}

/** Runs `use` with the path of a database that does not exist yet, in a directory of its own. */
export async function inTempDir(
  use: (filePath: string, dir: string) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir({ dir: temporaryDirectory(), prefix: "saguin-sqlite-" });
  try {
    await use(`${dir}/plant.db`, dir);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** On real storage: a temporary directory in memory would measure and prove less. */
function temporaryDirectory(): string {
  return Deno.env.get("SAGUIN_TEST_DIR") ?? "/var/tmp";
}

export function message(
  topic: string,
  payload: string | Uint8Array,
  more: Partial<Message> = {},
): Message {
  return {
    messageId: "0190a7c8-1234-7abc-8def-0123456789ab",
    topic,
    timestamp: 1_700_000_000_000_000_000n,
    headers: NO_HEADERS,
    properties: NO_PROPERTIES,
    payload: typeof payload === "string" ? new TextEncoder().encode(payload) : payload,
    retain: false,
    bridge: "",
    clientId: "sensor-1",
    qos: 1,
    groupCopy: false,
    onlyFor: "",
    ...more,
  };
}

/** Submits rows as one entry; resolves with the failure it was settled with, if any. */
export function publish(
  provider: Pick<Provider, "submit">,
  ...rows: RecordRow[]
): Promise<StorageFailure | undefined> {
  let bytes = 0;
  for (const row of rows) {
    bytes += recordSize(row.kind === "hold" ? row.hold.message : row.message);
  }
  return new Promise((resolve) => {
    const entry: PublishEntry = { rows, bytes, settled: resolve };
    provider.submit(entry);
  });
}

export function appendRow(store: AppendStore, message: Message): RecordRow {
  return { kind: "append", store, message, offset: 0 };
}
