import { providersInUse } from "../broker/broker.ts";
import type { Configuration, ProviderConfiguration } from "../config/configuration.ts";
import type { Clock } from "../platform/clock.ts";
import type { Log } from "../platform/log.ts";
import type { Timers } from "../platform/timers.ts";
import type { Provider } from "../storage/contract.ts";
import { MemoryProvider } from "../storage/memory/provider.ts";
import { FileDirectory } from "../storage/snapshot/directory.ts";
import { SqliteProvider, type SqliteProviderOptions } from "../storage/sqlite/provider.ts";

export interface ProviderSurroundings {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  /** Build revision, for the `meta` row of a new database and for snapshot files. */
  readonly revision: string;
  /** A storage worker under this name. */
  readonly spawn: (name: string) => Worker;
  /** A provider cannot go on: the broker stops with an error (S119). */
  readonly onFatal: (error: Error) => void;
}

/** The providers that something is kept in, not yet opened. The others are inert, and mentioned (S4). */
export function makeProviders(
  configuration: Configuration,
  surroundings: ProviderSurroundings,
): ReadonlyMap<string, Provider> {
  const { maxMessageSize, maxHeaderBytes } = configuration.limits;
  const reserveBytes = maxMessageSize + maxHeaderBytes;
  const used = providersInUse(configuration);
  const providers = new Map<string, Provider>();
  for (const [name, settings] of configuration.storage.providers) {
    if (used.has(name)) {
      const extensions = {
        amqp: configuration.amqp?.storage === name,
        ingest: configuration.ingest?.storage === name ? configuration.ingest.tables : [],
      };
      providers.set(name, make(settings, reserveBytes, extensions, surroundings));
    } else {surroundings.log.info("a storage provider is configured and keeps nothing", {
        provider: name,
      });}
  }
  const inUse = [...configuration.storage.providers.values()].filter(({ name }) => used.has(name));
  sayWhatIsLost(inUse, surroundings.log);
  saySumOfMemory(inUse, surroundings.log);
  return providers;
}

/** A configuration that keeps nothing anywhere is never silent about it (S3). */
function sayWhatIsLost(inUse: readonly ProviderConfiguration[], log: Log): void {
  if (inUse.every((each) => each.type === "memory" && each.snapshotDir === undefined)) {
    log.warn("nothing outlives this process: every provider in use is memory without a snapshot");
  }
}

/** What the bounds of memory providers come to together, to be held against the machine's memory. */
function saySumOfMemory(inUse: readonly ProviderConfiguration[], log: Log): void {
  const memory = inUse.filter(({ type }) => type === "memory");
  const bounds = memory.flatMap(({ maxBytes }) => maxBytes ?? []);
  if (bounds.length === 0) return;
  log.info("memory providers may hold this much together", {
    max_bytes: bounds.reduce((sum, bytes) => sum + bytes),
    providers: memory.length,
    without_bound: memory.length - bounds.length,
  });
}

function make(
  settings: ProviderConfiguration,
  reserveBytes: number,
  extensions: Pick<SqliteProviderOptions, "amqp" | "ingest">,
  surroundings: ProviderSurroundings,
): Provider {
  const { clock, timers, log, revision, spawn, onFatal } = surroundings;
  const { name, maxBytes } = settings;
  if (settings.type === "memory") {
    const { snapshotDir } = settings;
    return new MemoryProvider({
      name,
      maxBytes,
      reserveBytes,
      clock,
      log,
      ...(snapshotDir !== undefined && {
        snapshots: { directory: new FileDirectory(snapshotDir), revision },
      }),
    });
  }
  return new SqliteProvider({
    name,
    filePath: settings.filePath,
    maxBytes,
    reserveBytes,
    acknowledge: settings.acknowledge,
    publishCommit: settings.publishCommit,
    readConnections: settings.readConnections,
    flushIntervalMs: settings.flushIntervalMs,
    clock,
    timers,
    log,
    revision,
    ...extensions,
    spawn,
    onFatal,
  });
}
