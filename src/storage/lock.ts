import { DatabaseSync } from "node:sqlite";
import { errorText } from "../platform/log.ts";
import { StorageFailure } from "./contract.ts";

const SQLITE_BUSY = 5;
const SQLITE_FULL = 13;
const SQLITE_NOTADB = 26;

/**
 * One broker at a time on what a provider keeps (S153 to S158): a small SQLite database beside it,
 * held by an exclusive lock that the kernel gives back when the process ends, however it ends.
 *
 * Does not keep other programs from reading or writing the provider's own file.
 */
export class ProviderLock {
  #database: DatabaseSync | undefined;

  private constructor(
    readonly path: string,
    database: DatabaseSync,
    private readonly created: boolean,
  ) {
    this.#database = database;
  }

  /**
   * Claims `path` for the provider called `provider`, before anything of the provider is touched.
   * Blocks for one small write, so it is called before the listeners are open.
   *
   * @throws StorageFailure naming the provider and the lock, when another broker holds it or it cannot
   *   be written; a lock file that was not there is then not there either
   */
  static take(path: string, provider: string): ProviderLock {
    return ProviderLock.takeFor(path, `storage provider "${provider}"`);
  }

  /** As `take`, for what has a place and no name: `guarded` begins the sentence of a refusal. */
  static takeFor(path: string, guarded: string): ProviderLock {
    const refused = (why: string, cause?: unknown) =>
      new StorageFailure("failed", `${guarded}: lock ${path} ${why}`, { cause });
    let created = false;
    let database: DatabaseSync | undefined;
    try {
      created = createPrivate(path);
      const inode = Deno.statSync(path).ino;
      database = new DatabaseSync(path);
      claim(database);
      // Whoever holds a file that is no longer at this path holds nothing (a refused start takes its
      // own lock file away again).
      if (inodeAt(path) !== inode) {
        throw refused("was replaced while it was being taken; start again");
      }
      return new ProviderLock(path, database, created);
    } catch (error) {
      database?.close();
      if (error instanceof StorageFailure) throw error;
      const code = sqliteCode(error);
      if (code === SQLITE_BUSY) throw refused("is held by another broker", error);
      if (created) Deno.removeSync(path);
      if (code === SQLITE_NOTADB) {
        throw refused("is not a lock file; if nothing uses it, remove it", error);
      }
      if (error instanceof Deno.errors.NotFound) {
        throw refused("cannot be made: its directory is not there; make it first", error);
      }
      throw refused(`cannot be taken: ${errorText(error)}`, error);
    }
  }

  /** Gives the lock back. The file stays: the next start finds an ordinary file (S157). */
  release(): void {
    this.#database?.close();
    this.#database = undefined;
  }

  /** Gives the lock of a start that was refused back, and takes away the file that start created. */
  abandon(): void {
    if (this.created && this.#database !== undefined) Deno.removeSync(this.path);
    this.release();
  }
}

/**
 * The write is unconditional: a conditional one writes nothing on an existing file, takes a shared
 * lock only, and two brokers would both start (S155). Where the disk has no room for it, the exclusive
 * transaction itself stays open instead: a broker that a full disk brought down must be able to start
 * on it, for only a running one can remove anything.
 */
function claim(database: DatabaseSync): void {
  database.prepare("PRAGMA locking_mode=EXCLUSIVE").all();
  database.prepare("BEGIN EXCLUSIVE").run();
  try {
    database.prepare(
      "CREATE TABLE IF NOT EXISTS holder (id INTEGER PRIMARY KEY, pid INTEGER, since TEXT) STRICT",
    ).run();
    database.prepare("INSERT OR REPLACE INTO holder VALUES (1, ?, datetime('now'))").run(Deno.pid);
    database.prepare("COMMIT").run();
  } catch (error) {
    if (sqliteCode(error) !== SQLITE_FULL) throw error;
    // SQLite has ended the transaction that found no room.
    database.prepare("BEGIN EXCLUSIVE").run();
  }
}

/**
 * Creates an empty file that only its owner may read (S145) and closes it before SQLite opens it.
 * False when there is one already; that one is not opened (S86).
 */
export function createPrivate(path: string): boolean {
  try {
    Deno.openSync(path, { createNew: true, write: true, mode: 0o600 }).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.AlreadyExists) return false;
    throw error;
  }
}

function inodeAt(path: string): number | null | undefined {
  try {
    return Deno.statSync(path).ino;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}

/** The primary result code of a SQLite error; undefined for any other one. */
export function sqliteCode(error: unknown): number | undefined {
  const code = (error as { errcode?: unknown } | undefined)?.errcode;
  return typeof code === "number" ? code & 0xff : undefined;
}
