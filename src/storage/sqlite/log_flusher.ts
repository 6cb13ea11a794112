import { errorText, type Log } from "../../platform/log.ts";
import type { Clock } from "../../platform/clock.ts";
import type { Timer, Timers } from "../../platform/timers.ts";
import { StorageFailure } from "../contract.ts";

/** The part of an open file the flusher uses. */
export interface SyncedFile {
  syncData(): Promise<void>;
  close(): void;
}

export interface LogFlusherOptions {
  readonly provider: string;
  readonly filePath: string;
  /** Opened once, of the `-wal`, and kept open (S86). */
  readonly file: SyncedFile;
  /** Milliseconds between flushes while something commits (S83). */
  readonly intervalMs: number;
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  /**
   * Copies the log into the file and syncs that instead: after a failed flush the blocks that were
   * not written may be lost whatever a later flush of the same file says. Calls back with success.
   */
  recover(done: (recovered: boolean) => void): void;
}

/**
 * Flushes a provider's write-ahead log to the disk: every interval in which something was committed,
 * and at once for those who answer only what is on the disk (`acknowledge: synced`). The flush runs on
 * the runtime's own threads, so neither the loop nor the writer waits for it.
 */
export class LogFlusher {
  #committed = 0;
  #flushed = 0;
  #running = false;
  #timer: Timer | undefined;
  #waiting: { readonly commit: number; then(failure: StorageFailure | undefined): void }[] = [];
  #failing = false;
  /** Monotonic ms since when something committed has not been on the disk; undefined when all is. */
  #unflushedSince: number | undefined;
  /** The same for what a running flush does not cover. */
  #newerSince: number | undefined;
  #closed = false;

  /** Flushes that failed since the start (`saguin_storage_errors_total`). */
  failures = 0;

  constructor(private readonly options: LogFlusherOptions) {}

  /** A transaction has committed. */
  committed(): void {
    this.#committed++;
    const now = this.options.clock.monotonic();
    this.#unflushedSince ??= now;
    if (this.#running) this.#newerSince ??= now;
    this.#arm();
  }

  /** Calls back once every commit so far is on the disk, in the order of the calls. */
  whenFlushed(then: (failure: StorageFailure | undefined) => void): void {
    if (this.#flushed >= this.#committed && !this.#failing) return then(undefined);
    this.#waiting.push({ commit: this.#committed, then });
    this.#flush();
  }

  /** Milliseconds for which the oldest commit that is not on the disk has waited; 0 for none. */
  get unflushedMs(): number {
    if (this.#unflushedSince === undefined) return 0;
    return this.options.clock.monotonic() - this.#unflushedSince;
  }

  /** The latest flush failed. */
  get failing(): boolean {
    return this.#failing;
  }

  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
    this.options.file.close();
  }

  #arm(): void {
    if (this.#timer !== undefined || this.#closed) return;
    this.#timer = this.options.timers.after(this.options.intervalMs, () => {
      this.#timer = undefined;
      this.#flush();
    });
  }

  /** Notes which commit it covers before it starts (S27). */
  #flush(): void {
    if (this.#running || this.#closed || this.#flushed >= this.#committed) return;
    this.#running = true;
    const commit = this.#committed;
    if (this.#failing) {
      this.options.recover((recovered) => this.#ended(commit, recovered ? undefined : NOT_YET));
      return;
    }
    this.options.file.syncData().then(
      () => this.#ended(commit, undefined),
      (error) => this.#ended(commit, error),
    );
  }

  #ended(commit: number, error: unknown): void {
    this.#running = false;
    const newerSince = this.#newerSince;
    this.#newerSince = undefined;
    if (this.#closed) return;
    if (error === undefined) {
      this.#flushed = commit;
      this.#failing = false;
      this.#unflushedSince = newerSince;
    } else this.#failed(error);
    const failure = error === undefined || error instanceof StorageFailure
      ? error
      : new StorageFailure(
        "failed",
        `storage ${this.options.filePath}: cannot be flushed to the disk: ${errorText(error)}`,
      );
    // Those that joined while this flush ran are covered by the next one.
    const all = this.#waiting;
    const rest = all.findIndex((waiting) => waiting.commit > commit);
    this.#waiting = rest < 0 ? [] : all.splice(rest);
    for (const { then } of all) then(failure);
    if (this.#flushed < this.#committed) {
      if (this.#waiting.length > 0 && error === undefined) this.#flush();
      else this.#arm();
    }
  }

  /** Counted each time, said once per streak (S85). */
  #failed(error: unknown): void {
    this.failures++;
    if (this.#failing) return;
    this.#failing = true;
    // That there is no file to flush to was said by whoever found it.
    if (error instanceof StorageFailure) return;
    this.options.log.error(
      "cannot flush storage to the disk; what was committed may not survive a power cut",
      {
        provider: this.options.provider,
        path: this.options.filePath + "-wal",
        error: errorText(error),
      },
    );
  }
}

const NOT_YET = new Error("the log could not be copied into the file");
