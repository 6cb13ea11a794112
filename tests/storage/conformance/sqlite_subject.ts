import { systemClock } from "../../../src/platform/clock.ts";
import { LogfmtLog } from "../../../src/platform/log.ts";
import { HeapTimers } from "../../../src/platform/timers.ts";
import { SqliteProvider } from "../../../src/storage/sqlite/provider.ts";
import { type Bound, type Opened, STORES, type Subject } from "./subject.ts";

function discard(): void {}

function thrown(error: unknown): void {
  throw error;
}

const ENTRY = new URL("./worker_entry.ts", import.meta.url).href;

async function openSqlite(readConnections: number, bound?: Bound): Promise<Opened> {
  const directory = await Deno.makeTempDir({ prefix: "saguin-conformance-" });
  const timers = new HeapTimers(systemClock, thrown);
  const make = () =>
    new SqliteProvider({
      name: "main",
      filePath: `${directory}/main.db`,
      maxBytes: bound?.maxBytes,
      reserveBytes: bound?.reserveBytes ?? 0,
      acknowledge: "committed",
      publishCommit: { kind: "collecting" },
      readConnections,
      flushIntervalMs: 150,
      clock: systemClock,
      timers,
      log: new LogfmtLog("broker", "error", systemClock, discard),
      revision: "0123456789abcdef",
      spawn: (name) => new Worker(ENTRY, { type: "module", name }),
      onFatal: thrown,
    });
  const opened: Opened = {
    provider: make(),
    async restart() {
      await opened.provider.close();
      opened.provider = make();
      await opened.provider.open(STORES);
    },
    async [Symbol.asyncDispose]() {
      await opened.provider.close();
      timers.stop();
      await Deno.remove(directory, { recursive: true });
    },
  };
  await opened.provider.open(STORES);
  return opened;
}

function sqlite(name: string, readConnections: number): Subject {
  return {
    name,
    open: (bound) => openSqlite(readConnections, bound),
    bound: { maxBytes: 1024 * 1024, reserveBytes: 128 * 1024 },
  };
}

export const sqliteWithReaders = sqlite("sqlite", 1);
export const sqliteWithoutReaders = sqlite("sqlite, read_connections 0", 0);
