import type { PublishCommit } from "../../config/configuration.ts";
import type { Clock, Nanoseconds } from "../../platform/clock.ts";
import { errorText, type Log } from "../../platform/log.ts";
import type { Timers } from "../../platform/timers.ts";
import {
  type AppendStore,
  BROADCAST_LOG,
  type Hold,
  type LatestStore,
  type Provider,
  type ProviderStatistics,
  type PublishEntry,
  type QueueStore,
  type SessionStore,
  StorageFailure,
  type StoreSpec,
} from "../contract.ts";
import { ProviderLock } from "../lock.ts";
import { QueueLeases } from "../queue_leases.ts";
import { SqliteAppend } from "./append.ts";
import { applyCounters, ChannelState } from "./channel_state.ts";
import { SqliteJobs } from "./jobs.ts";
import { SqliteLatest } from "./latest.ts";
import { FileWatch } from "./file_watch.ts";
import { LogFlusher, type SyncedFile } from "./log_flusher.ts";
import { LogKeeper } from "./log_keeper.ts";
import type {
  Answer,
  Failure,
  KeeperRequest,
  Opened,
  ReaderRequest,
  StoredHold,
  WriterRequest,
} from "./messages.ts";
import { ReadPool } from "./read_pool.ts";
import { SqliteSessions } from "./sessions.ts";
import { recoverHolds, sweepPositions } from "./start_sweeps.ts";
import { sayUnclaimed } from "./unclaimed.ts";
import { workerName, type WorkerRole } from "./worker_name.ts";
import { WorkerLink } from "./worker_link.ts";
import { WriteQueue } from "./write_queue.ts";
import type { AmqpStore } from "../amqp.ts";
import type { IngestStore, IngestTable } from "../ingest.ts";
import { SqliteAmqp } from "./amqp_store.ts";
import { SqliteIngest } from "./ingest_store.ts";

/** A file this close to its bound is full because of it; the page count known here lags a little. */
const PAGES_NEAR_BOUND = 2048;

export interface SqliteProviderOptions {
  readonly name: string;
  /** Absolute path of the database; the lock is beside it. */
  readonly filePath: string;
  /** Bound on the file in bytes; undefined for none. */
  readonly maxBytes: number | undefined;
  /** What publishes leave of it: one largest record (S184). */
  readonly reserveBytes: number;
  readonly acknowledge: "committed" | "synced";
  readonly publishCommit: PublishCommit;
  /** Read workers, 0 to 8. */
  readonly readConnections: number;
  readonly flushIntervalMs: number;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  /** Of the build, written into a file created here (S49, S91). */
  readonly revision: string;
  /** Whether the durable half of AMQP is kept in this file. */
  readonly amqp?: boolean;
  /** The ingest tables of this file. */
  readonly ingest?: readonly IngestTable[];
  /** Starts the program's entry module as a worker of this name (`runStorageWorker`). */
  readonly spawn: (name: string) => Worker;
  /** Opens the write-ahead log for flushing; a disk that fails or forgets is put here. */
  readonly openLog?: (path: string) => SyncedFile;
  /** The writer ended by itself: nothing more can be kept, and the broker stops (S119). */
  readonly onFatal: (failure: StorageFailure) => void;
}

/** Everything that exists only while the file is open. */
interface Open {
  readonly lock: ProviderLock;
  readonly writer: WorkerLink<WriterRequest>;
  readonly writes: WriteQueue;
  readonly reads: ReadPool;
  readonly flusher: LogFlusher;
  readonly watch: FileWatch;
  readonly logKeeper: LogKeeper;
  readonly stores: ReadonlyMap<string, AppendStore | LatestStore | QueueStore>;
  readonly sessions: SqliteSessions;
  readonly amqp: SqliteAmqp | undefined;
  readonly ingest: SqliteIngest | undefined;
}

/**
 * A provider kept in one SQLite file (04-storage.md sections 9 to 16): one thread that writes, some
 * that read, one that copies the log. On the event loop are the queue of what is written next, the
 * counters, and the stores as the broker knows them.
 */
export class SqliteProvider implements Provider {
  readonly kind = "sqlite";
  readonly name: string;
  #open: Open | undefined;
  #pages = 0;
  #pageSize = 0;
  #errors = 0;
  #failing = false;
  #closing: Promise<StorageFailure | undefined> | undefined;
  /** Every worker started, the writer first. */
  #workers: WorkerLink<never>[] = [];
  #keeper: Promise<WorkerLink<KeeperRequest>> | undefined;

  constructor(private readonly options: SqliteProviderOptions) {
    this.name = options.name;
  }

  async open(specs: readonly StoreSpec[]): Promise<void> {
    const { filePath, name } = this.options;
    const lock = ProviderLock.take(filePath + ".lock", name);
    try {
      const publishWaits = new SharedArrayBuffer(4);
      const writer = this.#start<WriterRequest>("writer");
      // It gets ready while the writer opens the file.
      const reader = this.options.readConnections === 0
        ? undefined
        : this.#start<ReaderRequest>("reader");
      const opened = await this.#first<Opened>(writer, {
        ask: "open",
        filePath,
        revision: this.options.revision,
        now: this.options.clock.wall(),
        stores: specs,
        maxBytes: this.options.maxBytes,
        reserveBytes: this.options.reserveBytes,
        publishWaits,
        amqp: this.options.amqp === true,
        ...(this.options.ingest !== undefined && { ingest: this.options.ingest }),
      });
      const channels = specs.map((spec) => spec.channel);
      if (reader !== undefined) await this.#first(reader, { ask: "open", filePath, channels });
      this.#open = this.#assemble(channels, specs, opened, new Int32Array(publishWaits), {
        lock,
        writer,
        reader,
      });
      this.#sayBound(opened);
      sayUnclaimed(opened.unclaimed, name, this.options.log);
    } catch (error) {
      for (const worker of this.#workers) worker.terminate();
      this.#workers = [];
      lock.abandon();
      throw error;
    }
  }

  #start<Request>(role: WorkerRole): WorkerLink<Request> {
    const worker = this.options.spawn(workerName(role, this.name));
    const link = new WorkerLink<Request>(worker, (cause) => this.#died(cause));
    this.#workers.push(link as WorkerLink<never>);
    return link;
  }

  /** Starts a worker beside the writer and opens its connection. */
  async #another<Request extends ReaderRequest | KeeperRequest>(
    role: "reader" | "keeper",
    channels: readonly string[],
  ): Promise<WorkerLink<Request>> {
    const { filePath } = this.options;
    // It would create what it does not find.
    if (this.#open?.watch.missing) throw new Error(`there is no file at ${filePath} any more`);
    const link = this.#start<Request>(role);
    await this.#first(link as WorkerLink<ReaderRequest>, { ask: "open", filePath, channels });
    return link;
  }

  /** Started when it is first needed; where that fails, when it is needed again. */
  async #anotherKeeper(channels: readonly string[]): Promise<WorkerLink<KeeperRequest>> {
    try {
      return await this.#another("keeper", channels);
    } catch (error) {
      this.#keeper = undefined;
      throw error;
    }
  }

  /** The answer of a worker to a request nobody queues for. */
  #first<T>(
    worker: WorkerLink<WriterRequest> | WorkerLink<ReaderRequest> | WorkerLink<KeeperRequest>,
    request: WriterRequest | ReaderRequest | KeeperRequest,
  ): Promise<T> {
    const { filePath } = this.options;
    return new Promise((resolve, reject) => {
      (worker as WorkerLink<unknown>).ask<Answer>(request, [], (answer, death) => {
        if (death !== undefined) {
          reject(
            new StorageFailure("failed", `storage ${filePath}: a worker ended: ${death.message}`),
          );
        } else if ("value" in answer) resolve(answer.value as T);
        else reject(new StorageFailure(answer.failure.kind, answer.failure.text));
      });
    });
  }

  #assemble(
    channels: readonly string[],
    specs: readonly StoreSpec[],
    opened: Opened,
    publishWaits: Int32Array,
    { lock, writer, reader }: Pick<Open, "lock" | "writer"> & {
      readonly reader: WorkerLink<ReaderRequest> | undefined;
    },
  ): Open {
    const { options } = this;
    const { filePath, timers, log, name: provider } = options;
    const states = specs.map(({ channel, kind }, i) => new ChannelState(i, channel, kind));
    applyCounters(states, opened.counters);
    this.#pageSize = opened.pageSize;
    this.#pages = opened.pages;
    const reads = new ReadPool({
      filePath,
      most: options.readConnections,
      reader,
      another: () => this.#another("reader", channels),
      writer,
      notStarted: (error) =>
        log.warn("cannot start another read worker", { provider, error: errorText(error) }),
    });
    const resetLog = (answered: (answer: Answer | undefined) => void) => {
      reads.pause();
      writes.resetLog((answer) => {
        reads.resume();
        answered(answer);
      });
    };
    const watch = new FileWatch({
      provider,
      filePath,
      timers,
      log,
      changed: (failure) => {
        if (failure !== undefined) this.#errors++;
        writes.refuse(failure);
      },
    });
    const flusher = new LogFlusher({
      provider,
      filePath,
      file: watch.guard((options.openLog ?? openLog)(filePath + "-wal")),
      intervalMs: options.flushIntervalMs,
      clock: options.clock,
      timers,
      log,
      recover: async (done) => {
        if (await watch.look() !== undefined) return done(false);
        resetLog((answer) =>
          done(
            answer !== undefined && "value" in answer &&
              (answer.value as { reset: boolean }).reset,
          )
        );
      },
    });
    const logKeeper = new LogKeeper({
      provider,
      pageSize: opened.pageSize,
      clock: options.clock,
      keeper: () => this.#keeper ??= this.#anotherKeeper(channels),
      log,
      resetLog,
    });
    const writes: WriteQueue = new WriteQueue({
      filePath,
      writer,
      states,
      publishCommit: options.publishCommit,
      publishWaits,
      timers,
      committed: () => {
        this.#failing = false;
        flusher.committed();
      },
      failed: (failure) => {
        if (failure.kind === "full") logKeeper.full();
        this.#failed(failure, opened.ceiling);
      },
      answerable: options.acknowledge === "synced"
        ? (then) => flusher.whenFlushed(then)
        : undefined,
      looked: (sizes) => {
        this.#pages = sizes.pages;
        logKeeper.looked(sizes);
      },
      thrown: (error) =>
        log.error("a publisher could not be told what became of its publish", {
          provider,
          error: errorText(error),
        }),
    });
    const parts = { filePath, writes, reads };
    const stores = new Map<string, AppendStore | LatestStore | QueueStore>();
    states.forEach((state, i) => {
      if (state.kind === "append") {
        const store = new SqliteAppend(parts, state);
        for (const [reader, offset] of opened.positions[i]) store.positions.set(reader, offset);
        stores.set(state.channel, store);
      } else if (state.kind === "latest") stores.set(state.channel, new SqliteLatest(parts, state));
      else stores.set(state.channel, new QueueLeases(new SqliteJobs(parts, state)));
    });
    const broadcastLog = stores.get(BROADCAST_LOG) as SqliteAppend | undefined;
    const sessions = new SqliteSessions(writes, options.clock, broadcastLog);
    const amqp = options.amqp === true ? new SqliteAmqp(writes, reads) : undefined;
    const { ingest: tables = [] } = options;
    const ingest = tables.length === 0
      ? undefined
      : new SqliteIngest(tables, writes, reads, options.clock);
    const kept = { stores, sessions, amqp, ingest };
    return { lock, writer, writes, reads, flusher, watch, logKeeper, ...kept };
  }

  /** Counted each time, said once per streak; a provider at its bound is no error. */
  #failed({ kind, text }: Failure, ceiling: Opened["ceiling"]): void {
    const atBound = kind === "full" && ceiling !== undefined &&
      this.#pages + PAGES_NEAR_BOUND >= ceiling.publish;
    if (atBound) return;
    this.#errors++;
    if (this.#failing) return;
    this.#failing = true;
    this.options.log.error("storage cannot be written; what is published to it is refused", {
      provider: this.name,
      error: text,
    });
  }

  /** What `max_bytes` came to in pages (S181). */
  #sayBound({ ceiling, pageSize, pages }: Opened): void {
    if (ceiling === undefined) return;
    this.options.log.info("storage is bounded", {
      provider: this.name,
      path: this.options.filePath,
      publishes_stop_at: ceiling.publish * pageSize,
      reserve: (ceiling.total - ceiling.publish) * pageSize,
      page_size: pageSize,
      bytes: pages * pageSize,
    });
  }

  #died(cause: Error): void {
    const failure = new StorageFailure(
      "failed",
      `storage ${this.options.filePath}: a worker thread ended: ${cause.message}`,
    );
    if (this.#open === undefined) return;
    this.#open.writes.fail(failure);
    this.options.onFatal(failure);
  }

  // ------------------------------------------------------------------------------------- stores

  append(channel: string): AppendStore {
    return this.#store(channel, "append") as AppendStore;
  }
  latest(channel: string): LatestStore {
    return this.#store(channel, "latest") as LatestStore;
  }
  queue(channel: string): QueueStore {
    return this.#store(channel, "queue") as QueueStore;
  }
  sessions(): SessionStore {
    return this.#opened().sessions;
  }

  amqp(): AmqpStore {
    const { amqp } = this.#opened();
    if (amqp === undefined) {
      throw new TypeError(`provider "${this.name}" was made without the AMQP tables`);
    }
    return amqp;
  }

  ingest(): IngestStore {
    const { ingest } = this.#opened();
    if (ingest === undefined) {
      throw new TypeError(`provider "${this.name}" was made without ingest tables`);
    }
    return ingest;
  }

  #store(channel: string, kind: StoreSpec["kind"]): AppendStore | LatestStore | QueueStore {
    const store = this.#opened().stores.get(channel);
    if (store?.kind !== kind) {
      throw new TypeError(
        `provider "${this.name}" was opened without a store ${channel} (${kind})`,
      );
    }
    return store;
  }

  #opened(): Open {
    if (this.#open === undefined) throw new TypeError(`provider "${this.name}" is not open`);
    return this.#open;
  }

  // ----------------------------------------------------------------------------------- publishes

  submit(entry: PublishEntry): void {
    this.#opened().writes.submit(entry);
  }
  get accepting(): boolean {
    return this.#opened().writes.accepting;
  }
  onceAccepting(resume: () => void): void {
    this.#opened().writes.onceAccepting(resume);
  }

  /** Transactions, reads and flushes that failed since the start (`saguin_storage_errors_total`). */
  get errors(): number {
    const open = this.#open;
    return this.#errors + (open?.flusher.failures ?? 0) + (open?.reads.failures ?? 0);
  }

  statistics(): ProviderStatistics {
    const { writes, flusher, watch } = this.#opened();
    return {
      bytes: this.#pages * this.#pageSize,
      errors: this.errors,
      file: {
        publishCommits: { ...writes.publishCommits },
        publishRecords: writes.publishRecords,
        publishMost: writes.publishMost,
        unflushedMs: flusher.unflushedMs,
        flushFailing: flusher.failing || watch.missing,
        workers: this.#workers.length,
      },
      waitingEntries: writes.waitingEntries,
      waitingBytes: writes.waitingBytes,
      commits: writes.commits,
      entries: writes.entries,
    };
  }

  // --------------------------------------------------------------------------------- at the start

  sweepPositions(held: (clientId: string) => boolean, now: Nanoseconds): Promise<number> {
    return sweepPositions(this.#opened(), held, now);
  }

  recoverHolds(
    keep: (channel: string, hold: Omit<Hold, "message">) => boolean,
  ): Promise<{ readonly kept: readonly StoredHold[]; readonly abandoned: number }> {
    return recoverHolds(this.#opened(), keep);
  }

  // --------------------------------------------------------------------------------------- close

  /** @throws StorageFailure when the file was taken away meanwhile: what it kept went with it */
  async close(): Promise<void> {
    const gone = await (this.#closing ??= this.#close());
    if (gone !== undefined) throw gone;
  }

  async abandon(): Promise<void> {
    await (this.#closing ??= this.#close());
  }

  /** In the order of S147; the lock goes last. @return why the file does not hold what was kept */
  async #close(): Promise<StorageFailure | undefined> {
    const open = this.#open;
    if (open === undefined) return undefined;
    const { filePath, log } = this.options;
    const closed = new StorageFailure("failed", `storage ${filePath}: is closed`);
    await open.writes.drain(closed);
    open.logKeeper.close();
    await open.reads.drain(closed);
    open.watch.close();
    try {
      const [, ...beside] = this.#workers;
      for (const worker of beside) {
        await this.#first(worker as WorkerLink<ReaderRequest>, { ask: "close" });
      }
      const whole = await this.#first<boolean>(open.writer, { ask: "close" });
      if (!whole) this.#sayNotWhole("another program reads it");
    } catch (error) {
      // The data is committed either way: the next open replays the log.
      this.#sayNotWhole(errorText(error));
    }
    const gone = await open.watch.lost();
    open.flusher.close();
    for (const worker of this.#workers) worker.terminate();
    open.lock.release();
    if (gone === undefined) log.debug("storage is closed", { provider: this.name, path: filePath });
    return gone;
  }

  #sayNotWhole(why: string): void {
    this.options.log.warn("the log of a storage provider stays beside its file at this stop", {
      provider: this.name,
      path: this.options.filePath,
      error: why,
    });
  }
}

function openLog(path: string): SyncedFile {
  return Deno.openSync(path, { read: true, write: true });
}
