import type { Log } from "../../platform/log.ts";
import type { Timer, Timers } from "../../platform/timers.ts";
import { StorageFailure } from "../contract.ts";
import type { SyncedFile } from "./log_flusher.ts";

/** Between two looks while nothing is flushed; every flush looks too. */
const LOOK_EVERY_MS = 1000;

export interface FileWatchOptions {
  readonly provider: string;
  /** Of the database, opened; its log is beside it. */
  readonly filePath: string;
  readonly timers: Timers;
  readonly log: Log;
  /** Hears why nothing that is written can be kept; undefined when it can again. */
  changed(failure: StorageFailure | undefined): void;
}

/**
 * Whether the database and its log are still the files at their paths. What was deleted, moved away or
 * replaced under a running broker goes on taking commits, and all of them are gone with the process: a
 * promise that cannot be kept. Asks for names only; no descriptor of the database is opened (S86).
 */
export class FileWatch {
  readonly #opened: readonly { readonly path: string; readonly identity: string }[];
  #failure: StorageFailure | undefined;
  #timer: Timer | undefined;
  #closed = false;

  /** Notes which files are open. Both are there: the writer has just opened them. */
  constructor(private readonly options: FileWatchOptions) {
    const { filePath } = options;
    this.#opened = [filePath, filePath + "-wal"].map((path) => ({
      path,
      identity: identityOf(Deno.statSync(path)),
    }));
    this.#arm();
  }

  /** What the latest look found: nothing that is written is kept. */
  get missing(): boolean {
    return this.#failure !== undefined;
  }

  /** Why what was committed until now is not kept; undefined when it is. */
  async look(): Promise<StorageFailure | undefined> {
    let missing: string | undefined;
    for (const { path, identity } of this.#opened) {
      missing ??= await whyNot(path, identity);
    }
    if (!this.#closed) this.#found(missing);
    return this.#failure;
  }

  /** A flush of `file` that fails where the file flushed is not the one at the path. */
  guard(file: SyncedFile): SyncedFile {
    return {
      syncData: async () => {
        await file.syncData();
        const failure = await this.look();
        if (failure !== undefined) throw failure;
      },
      close: () => file.close(),
    };
  }

  /** Whatever is found from now on is nobody's news: SQLite itself takes the log away at its close. */
  close(): void {
    this.#closed = true;
    this.#timer?.cancel();
  }

  /** After the close: why the database, which has taken its log in, does not hold what was kept. */
  async lost(): Promise<StorageFailure | undefined> {
    const [{ path, identity }] = this.#opened;
    const missing = await whyNot(path, identity);
    return missing === undefined ? undefined : this.#failureOf(missing);
  }

  #arm(): void {
    this.#timer = this.options.timers.after(LOOK_EVERY_MS, () => {
      this.look().then(() => {
        if (!this.#closed) this.#arm();
      });
    });
  }

  /** Said once for each time that it is so. */
  #found(missing: string | undefined): void {
    if ((missing === undefined) === (this.#failure === undefined)) return;
    const { provider, filePath, log, changed } = this.options;
    if (missing === undefined) {
      this.#failure = undefined;
      log.error("the file of a storage provider is back: publishes are stored again", {
        provider,
        path: filePath,
      });
    } else {
      this.#failure = this.#failureOf(missing);
      log.error(
        "the file of a storage provider was taken away; what is published to it is refused",
        {
          provider,
          path: filePath,
          error: missing,
        },
      );
    }
    changed(this.#failure);
  }

  #failureOf(missing: string): StorageFailure {
    return new StorageFailure("failed", `storage ${this.options.filePath}: ${missing}`);
  }
}

function identityOf({ dev, ino }: Deno.FileInfo): string {
  return `${dev}:${ino}`;
}

/** The end of a sentence when `path` is not the file that was opened. */
async function whyNot(path: string, identity: string): Promise<string | undefined> {
  try {
    if (identityOf(await Deno.stat(path)) === identity) return undefined;
    return `another file stands at ${path} than the one that is open`;
  } catch (error) {
    if (
      error instanceof Deno.errors.NotFound || error instanceof Deno.errors.NotADirectory
    ) return `there is no file at ${path} any more`;
    // A path that cannot be asked about says nothing of the file, which is open.
    return undefined;
  }
}
