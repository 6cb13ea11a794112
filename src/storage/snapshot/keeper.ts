import type { Clock, Nanoseconds } from "../../platform/clock.ts";
import { errorText, type Log } from "../../platform/log.ts";
import { StorageFailure, type StoreSpec } from "../contract.ts";
import { ProviderLock } from "../lock.ts";
import type { ChannelState, ProviderState } from "../memory/state.ts";
import type { SnapshotDirectory } from "./directory.ts";
import { LOCK_FILE } from "./file_names.ts";
import { type LoadedSnapshot, SnapshotLoader } from "./load.ts";
import { saveSnapshot } from "./save.ts";

export interface SnapshotSettings {
  readonly directory: SnapshotDirectory;
  /** Build revision, stamped into every file (S49). */
  readonly revision: string;
}

/**
 * A memory provider's `snapshot_dir` for the life of the provider: its lock, what a start reads and what
 * the one graceful stop writes (S68). Nothing is written in between.
 */
export class SnapshotKeeper {
  #lock: ProviderLock | undefined;
  #lastStop: Nanoseconds = 0n;

  constructor(
    private readonly provider: string,
    private readonly settings: SnapshotSettings,
    private readonly clock: Clock,
    private readonly log: Log,
  ) {}

  /** Takes the lock before anything else (S156), then reads what there is. @throws StorageFailure */
  async open(
    stores: readonly StoreSpec[],
    restore: (state: ChannelState) => void,
  ): Promise<LoadedSnapshot> {
    const { directory } = this.settings;
    try {
      await directory.list();
    } catch (error) {
      throw new StorageFailure(
        "failed",
        `storage provider "${this.provider}": snapshot_dir ${directory.path} cannot be read, ` +
          `create it or give access to it: ${errorText(error)}`,
        { cause: error },
      );
    }
    const lock = ProviderLock.take(`${directory.path}/${LOCK_FILE}`, this.provider);
    try {
      const loader = new SnapshotLoader(this.provider, directory, this.log);
      const loaded = await loader.load(stores, restore);
      this.#lastStop = loaded.lastStop;
      this.#lock = lock;
      return loaded;
    } catch (error) {
      lock.abandon();
      throw error;
    }
  }

  /** Gives the lock back and leaves the directory as it was found. */
  abandon(): void {
    this.#lock?.abandon();
    this.#lock = undefined;
  }

  /**
   * Writes `state` and gives the lock back last.
   * @throws StorageFailure when a file did not land; each was logged (S71)
   */
  async close(state: ProviderState): Promise<void> {
    const lock = this.#lock;
    if (lock === undefined) return;
    this.#lock = undefined;
    const { directory, revision } = this.settings;
    // A clock that went back must not make this stop look older than the one before it.
    const now = this.clock.wall();
    const writtenAt = now > this.#lastStop ? now : this.#lastStop + 1n;
    const begun = this.clock.monotonic();
    try {
      const failures = await saveSnapshot(directory, state, { writtenAt, revision });
      for (const { file, channels, error } of failures) {
        this.log.error("a snapshot was not written: the one before it is kept", {
          provider: this.provider,
          file: `${directory.path}/${file}`,
          ...(channels.length > 0 && { channels: channels.join(",") }),
          error,
        });
      }
      if (failures.length > 0) {
        const files = failures.map(({ file }) => file).slice(0, MOST_FILES_NAMED).join(", ");
        throw new StorageFailure(
          "failed",
          `storage provider "${this.provider}": ${failures.length} snapshot files in ` +
            `${directory.path} were not written: ${files}`,
        );
      }
      this.log.info("a memory provider is written to its snapshots", {
        provider: this.provider,
        directory: directory.path,
        milliseconds: Math.round(this.clock.monotonic() - begun),
      });
    } finally {
      lock.release();
    }
  }
}

/** Files named in the one sentence of a failed stop; the log has a line for each. */
const MOST_FILES_NAMED = 8;
