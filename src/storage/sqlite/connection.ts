import { DatabaseSync, type StatementSync } from "node:sqlite";
import { errorText } from "../../platform/log.ts";
import { sqliteCode } from "../lock.ts";
import type { Failure } from "./messages.ts";
import { PAGE_SIZE } from "./schema.ts";

/** How long a statement waits for an outside program that holds the write lock (S81). */
export const BUSY_TIMEOUT_MS = 5000;

/**
 * The log file is cut to this many bytes after it started again from its beginning; below it, its
 * blocks are written over, which costs a flush half of what new blocks cost.
 */
const LOG_KEPT_BYTES = 64 * 1024 * 1024;

const SQLITE_FULL = 13;

/** Codes that say the transaction could not be written, whoever was in it (S125, S138). */
const CANNOT_WRITE = new Set([5, 6, 7, 8, 10, 11, SQLITE_FULL, 14, 26]);

/** Whether an error is the file's and not that of the row that met it. */
export function cannotWrite(error: unknown): boolean {
  const code = sqliteCode(error);
  return code !== undefined && CANNOT_WRITE.has(code);
}

export function isFull(error: unknown): boolean {
  return sqliteCode(error) === SQLITE_FULL;
}

/** A failed statement as the sentence a client or an operator reads. */
export function failureOf(error: unknown, filePath: string): Failure {
  const full = isFull(error);
  const text = errorText(error);
  return {
    kind: full ? "full" : "failed",
    text: full ? `storage ${filePath}: no room left` : `storage ${filePath}: ${text}`,
  };
}

/** Opens the one connection that writes (S110). The file exists; the log mode is set with the rest. */
export function openForWriting(filePath: string): DatabaseSync {
  const database = new DatabaseSync(filePath, { timeout: BUSY_TIMEOUT_MS });
  try {
    pragma(database, `page_size=${PAGE_SIZE}`);
    const mode = pragma(database, "journal_mode=WAL").journal_mode;
    if (mode !== "wal") throw new Error(`this filesystem admits no write-ahead log (${mode})`);
    pragma(database, "synchronous=NORMAL");
    pragma(database, "foreign_keys=1");
    // The keeper copies, the writer resets in a turn of its own: no commit waits for either.
    pragma(database, "wal_autocheckpoint=0");
    pragma(database, `journal_size_limit=${LOG_KEPT_BYTES}`);
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Opens a connection that reads; one per read worker (S112). */
export function openForReading(filePath: string): DatabaseSync {
  const database = new DatabaseSync(filePath, { timeout: BUSY_TIMEOUT_MS });
  pragma(database, "query_only=1");
  return database;
}

/**
 * Opens a file that somebody else may be using, or that has to stay as it is, to read it. Where a log lies
 * beside it the last one out would copy it in: there the connection may write nothing at all. Where none
 * does, SQLite takes away at the close what it put beside the file.
 */
export function openToLook(filePath: string): DatabaseSync {
  const readOnly = sizeOf(filePath + "-wal") > 0;
  const database = new DatabaseSync(filePath, { readOnly, timeout: BUSY_TIMEOUT_MS });
  try {
    pragma(database, "query_only=1");
    return database;
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Bytes of a file; 0 when there is none. */
export function sizeOf(path: string): number {
  try {
    return Deno.statSync(path).size;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return 0;
    throw error;
  }
}

/** Opens the keeper's connection, which copies the log into the file and writes nothing else. */
export function openForKeeping(filePath: string): DatabaseSync {
  const database = new DatabaseSync(filePath, { timeout: BUSY_TIMEOUT_MS });
  pragma(database, "synchronous=NORMAL");
  pragma(database, "wal_autocheckpoint=0");
  return database;
}

/** A statement whose rows are arrays: the cheapest form, for rows that are packed at once. */
export function arraysOf(database: DatabaseSync, sql: string): StatementSync {
  const statement = database.prepare(sql);
  // In this runtime, and not yet in its types.
  (statement as StatementSync & { setReturnArrays(on: boolean): void }).setReturnArrays(true);
  return statement;
}

/** Runs a pragma; its row, or an empty one. Prepared, since only then do errors carry their code. */
export function pragma(database: DatabaseSync, text: string): Record<string, unknown> {
  return database.prepare(`PRAGMA ${text}`).get() ?? {};
}

/**
 * Transactions of the write connection, and the page ceiling that moves inside them (S186). The
 * pragma is the connection's and outlives a rollback: both ends of a transaction put it back.
 */
export class Transactions {
  #begin: StatementSync;
  #commit: StatementSync;
  #rollback: StatementSync;
  #raise: StatementSync | undefined;
  #lower: StatementSync | undefined;
  #raised = false;

  constructor(
    private readonly database: DatabaseSync,
    ceiling: { readonly publish: number; readonly total: number } | undefined,
  ) {
    this.#begin = database.prepare("BEGIN IMMEDIATE");
    this.#commit = database.prepare("COMMIT");
    this.#rollback = database.prepare("ROLLBACK");
    if (ceiling !== undefined) {
      this.#raise = database.prepare(`PRAGMA max_page_count=${ceiling.total}`);
      this.#lower = database.prepare(`PRAGMA max_page_count=${ceiling.publish}`);
      this.#lower.get();
    }
  }

  begin(): void {
    this.#begin.run();
  }

  commit(): void {
    this.useReserve(false);
    this.#commit.run();
  }

  /** Ends a failed transaction, where SQLite has not done so already. */
  rollback(): void {
    if (this.database.isTransaction) this.#rollback.run();
    this.useReserve(false);
  }

  /** Whether what runs next in this transaction may grow the file into the reserve. */
  useReserve(may: boolean): void {
    if (may === this.#raised) return;
    this.#raised = may;
    (may ? this.#raise : this.#lower)?.get();
  }
}
