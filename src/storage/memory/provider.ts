import type { Clock, Nanoseconds } from "../../platform/clock.ts";
import { errorText, type Log } from "../../platform/log.ts";
import {
  type AppendStore,
  BROADCAST_LOG,
  type Hold,
  type LatestStore,
  type Provider,
  type ProviderStatistics,
  type PublishEntry,
  type QueueStore,
  type RecordRow,
  type SessionStore,
  StorageFailure,
  type StoreSpec,
} from "../contract.ts";
import { ownedMessage, recordSize } from "../record.ts";
import { QueueLeases } from "../queue_leases.ts";
import { readerEnded } from "../readers.ts";
import { SnapshotKeeper, type SnapshotSettings } from "../snapshot/keeper.ts";
import { MemoryAppendStore } from "./append_store.ts";
import { ByteCount } from "./byte_count.ts";
import { MemoryJobRows } from "./job_rows.ts";
import { MemoryLatestStore } from "./latest_store.ts";
import type { MemoryStore } from "./memory_store.ts";
import { PayloadSlabs } from "./payload_slabs.ts";
import { MemorySessionStore } from "./session_store.ts";
import type { ChannelState, ProviderState } from "./state.ts";

export interface MemoryProviderOptions {
  readonly name: string;
  /** Undefined: no bound. */
  readonly maxBytes: number | undefined;
  /** One largest record (S184). */
  readonly reserveBytes: number;
  readonly clock: Clock;
  readonly log: Log;
  /** Undefined: nothing outlives the process. */
  readonly snapshots?: SnapshotSettings;
}

/**
 * A provider that keeps everything in process (S2): a write is done when the call returns. With snapshots, a
 * graceful stop writes it to a directory and a start reads it from there; a crash loses what came since.
 */
export class MemoryProvider implements Provider {
  readonly kind = "memory";
  readonly name: string;
  readonly accepting = true;

  #count: ByteCount;
  #appends = new Map<string, MemoryAppendStore>();
  #latests = new Map<string, MemoryLatestStore>();
  #queues = new Map<string, QueueLeases<MemoryJobRows>>();
  #sessions: MemorySessionStore;
  #entries = 0;
  #snapshots: SnapshotKeeper | undefined;
  /** Holds that the snapshots had lost, until they are counted. */
  #abandonedHolds = 0;

  constructor(private readonly options: MemoryProviderOptions) {
    this.name = options.name;
    const { maxBytes, reserveBytes } = options;
    this.#count = new ByteCount(maxBytes, reserveBytes, (bytes) => this.#takeFromLog(bytes));
    this.#sessions = new MemorySessionStore(
      this.#count,
      options.clock,
      () => this.#appends.get(BROADCAST_LOG)?.next() ?? 0,
    );
  }

  async open(stores: readonly StoreSpec[]): Promise<void> {
    for (const { channel, kind } of stores) {
      switch (kind) {
        case "append":
          this.#appends.set(channel, this.#newAppend(channel));
          break;
        case "latest":
          this.#latests.set(channel, new MemoryLatestStore(channel, this.#count));
          break;
        case "queue": {
          const rows = new MemoryJobRows(channel, this.#count);
          this.#queues.set(channel, new QueueLeases(rows));
          break;
        }
      }
    }
    const { snapshots, clock, log } = this.options;
    if (snapshots !== undefined) {
      const keeper = new SnapshotKeeper(this.name, snapshots, clock, log);
      const loaded = await keeper.open(stores, (state) => this.#restore(state));
      this.#sessions.restore(loaded.sessions, loaded.groups);
      this.#abandonedHolds = loaded.abandonedHolds;
      this.#snapshots = keeper;
    }
    this.#sayBound();
  }

  #restore(state: ChannelState): void {
    const { name, kind } = state;
    if (kind === "append") this.#appends.get(name)?.restore(state);
    else if (kind === "latest") this.#latests.get(name)?.restore(state);
    else this.#queues.get(name)?.rows.restore(state);
  }

  /** Where publishes stop (S181), and whether a snapshot brought more than that (S79). */
  #sayBound(): void {
    const { maxBytes, reserveBytes, log } = this.options;
    if (maxBytes === undefined) return;
    const { used } = this.#count;
    const fields = {
      provider: this.name,
      publishes_stop_at: maxBytes - reserveBytes,
      reserve: reserveBytes,
      bytes: used,
    };
    log.info("a memory provider is bounded", fields);
    if (used <= maxBytes - reserveBytes) return;
    log.warn("a memory provider holds more than its bound: publishes wait for room", {
      ...fields,
      session_bytes: this.#sessions.bytes(),
    });
  }

  #newAppend(channel: string): MemoryAppendStore {
    // The log loses records from its middle, and one of them would keep a whole slab.
    if (channel === BROADCAST_LOG) return new MemoryAppendStore(channel, this.#count, ownedMessage);
    const slabs = new PayloadSlabs();
    return new MemoryAppendStore(channel, this.#count, (message) => slabs.own(message));
  }

  append(channel: string): AppendStore {
    return opened(this.#appends.get(channel), channel, this.name);
  }

  latest(channel: string): LatestStore {
    return opened(this.#latests.get(channel), channel, this.name);
  }

  queue(channel: string): QueueStore {
    return opened(this.#queues.get(channel), channel, this.name);
  }

  sessions(): SessionStore {
    return this.#sessions;
  }

  /** AMQP keeps nothing here: a `durable` queue would not be one (C3). */
  amqp(): never {
    throw new TypeError(`provider ${this.name} is a memory provider, which has no AMQP tables`);
  }

  /** As with AMQP (C3). */
  ingest(): never {
    throw new TypeError(`provider ${this.name} is a memory provider, which has no ingest tables`);
  }

  /** Settles `entry` before it returns. */
  submit(entry: PublishEntry): void {
    // `amqp` and `ingest` hand no store out, so no row of one comes here.
    const rows = entry.rows as readonly RecordRow[];
    const failure = this.#refusal(rows);
    if (failure === undefined) {
      for (const row of rows) this.#apply(row);
      this.#entries++;
    }
    try {
      entry.settled(failure);
    } catch (error) {
      this.options.log.error("a publisher could not be told what became of its publish", {
        provider: this.name,
        error: errorText(error),
      });
    }
  }

  /** Charges the whole entry, or says why it may not be stored. An entry has one value of a topic at most. */
  #refusal(rows: readonly RecordRow[]): StorageFailure | undefined {
    let growth = 0;
    for (let i = 0; i < rows.length; i++) {
      const row = rows[i];
      if (row.kind === "hold") {
        const { clientId, packetId, message } = row.hold;
        const store = this.#storeOf(row);
        if (store.hasHold(clientId, packetId)) {
          return new StorageFailure("failed", `packet ${packetId} of ${clientId} is held already`);
        }
        // It counts in no channel, but a channel that is full takes no hold.
        const bytes = recordSize(message);
        const refusal = store.refusal(bytes, pendingIn(rows, i));
        if (refusal !== undefined) return refusal;
        growth += bytes;
        continue;
      }
      const store = this.#storeOf(row);
      const { message } = row;
      if (row.kind === "retain" && message.payload.byteLength === 0) {
        growth -= this.#latestOf(row).sizeOf(message.topic);
        continue;
      }
      const bytes = recordSize(message);
      const refusal = store.refusal(bytes, pendingIn(rows, i));
      if (refusal !== undefined) return refusal;
      growth += store.growth(message, bytes);
    }
    if (this.#count.charge(growth)) return undefined;
    return new StorageFailure("full", `storage provider ${this.name} is full`);
  }

  #apply(row: RecordRow): void {
    if (row.kind === "hold") {
      this.#storeOf(row).putHold(row.hold);
      return;
    }
    const { message } = row;
    if (row.kind === "retain" && message.payload.byteLength === 0) {
      this.#latestOf(row).erase(message.topic);
      return;
    }
    row.offset = this.#storeOf(row).put(message, recordSize(message))?.offset ?? 0;
  }

  #storeOf(row: RecordRow): MemoryStore {
    return (row.store instanceof QueueLeases
      ? row.store.rows
      : row.store) as unknown as MemoryStore;
  }

  #latestOf(row: RecordRow): MemoryLatestStore {
    return row.store as unknown as MemoryLatestStore;
  }

  onceAccepting(resume: () => void): void {
    queueMicrotask(resume);
  }

  /** Takes the oldest messages that are on nobody's wire from the broadcast log (S109). */
  #takeFromLog(bytes: number): boolean {
    const log = this.#appends.get(BROADCAST_LOG);
    const offsets = log?.oldest(bytes, (offset) => this.#sessions.isOnWire(offset));
    if (log === undefined || offsets === undefined) return false;
    log.take(offsets);
    return true;
  }

  sweepPositions(held: (clientId: string) => boolean, now: Nanoseconds): Promise<number> {
    let dropped = 0;
    for (const store of this.#appends.values()) {
      dropped += store.sweepPositions((position) => readerEnded(position, held, now));
    }
    return Promise.resolve(dropped);
  }

  recoverHolds(
    keep: (channel: string, hold: Omit<Hold, "message">) => boolean,
  ): Promise<{
    readonly kept: readonly (Omit<Hold, "message"> & { readonly channel: string })[];
    readonly abandoned: number;
  }> {
    const kept: (Omit<Hold, "message"> & { readonly channel: string })[] = [];
    let abandoned = this.#abandonedHolds;
    this.#abandonedHolds = 0;
    for (const store of this.#stores()) {
      const { channel } = store;
      for (const { clientId, packetId, heldAt } of store.holds()) {
        const hold = { clientId, packetId, heldAt };
        if (keep(channel, hold)) kept.push({ ...hold, channel });
        else if (store.dropHold(clientId, packetId)) abandoned++;
      }
    }
    return Promise.resolve({ kept, abandoned });
  }

  *#stores(): Generator<MemoryStore> {
    yield* this.#appends.values();
    yield* this.#latests.values();
    for (const queue of this.#queues.values()) yield queue.rows;
  }

  /** A copy of everything kept, in one turn (S24). */
  copy(): ProviderState {
    const channels = [];
    for (const store of this.#stores()) channels.push(store.copy());
    return { channels, ...this.#sessions.copy() };
  }

  statistics(): ProviderStatistics {
    return {
      bytes: this.#count.used,
      errors: 0,
      file: undefined,
      waitingEntries: 0,
      waitingBytes: 0,
      commits: this.#entries,
      entries: this.#entries,
    };
  }

  /** Writes the snapshots, if there are any. @throws StorageFailure when one did not land (S71) */
  async close(): Promise<void> {
    const keeper = this.#snapshots;
    this.#snapshots = undefined;
    await keeper?.close(this.copy());
  }

  abandon(): Promise<void> {
    this.#snapshots?.abandon();
    this.#snapshots = undefined;
    return Promise.resolve();
  }
}

/** Bytes that earlier rows of one entry put into the store of row `at`. */
function pendingIn(rows: readonly RecordRow[], at: number): number {
  let bytes = 0;
  for (let i = 0; i < at; i++) {
    const row = rows[i];
    if (row.kind !== "hold" && row.store === rows[at].store) bytes += recordSize(row.message);
  }
  return bytes;
}

function opened<T>(store: T | undefined, channel: string, provider: string): T {
  if (store === undefined) throw new Error(`${channel} was not opened in provider ${provider}`);
  return store;
}
