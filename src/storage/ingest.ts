/**
 * Tables that publishes become rows of (07 section 11): in the provider's file, outside the eleven
 * (S198). Only a sqlite provider has them. What a payload becomes is decided by its writer, off the
 * event loop.
 */
import type { Message } from "./record.ts";

export type ColumnType = "TEXT" | "REAL" | "INTEGER";

/** One table, as the configuration wants it. Names were checked. */
export interface IngestTable {
  readonly name: string;
  /** Dotted keys of the payload that become generated columns, with their types. */
  readonly columns: ReadonlyMap<string, ColumnType>;
  /** Of those, the ones with an index. */
  readonly index: readonly string[];
}

/** The column of a payload key: `pos.lat` is `pos_lat`. */
export function columnName(key: string): string {
  return key.replaceAll(".", "_");
}

/** A publish as a row of a table: a publish row like the others, so one transaction with them (N9). */
export interface IngestRow {
  readonly kind: "ingest";
  readonly store: IngestStore;
  /** Its place among the tables of the store. */
  readonly table: number;
  readonly message: Message;
  /** Stays 0. */
  offset: number;
}

/** A condition on a column of the table; the value is bound, never written into a statement. */
export interface IngestCondition {
  readonly column: string;
  readonly is: "=" | ">=" | "<=" | ">" | "<";
  readonly value: string | number;
}

export interface IngestQuery {
  readonly table: number;
  readonly conditions: readonly IngestCondition[];
  readonly limit: number;
}

export interface IngestedRow {
  readonly id: number;
  readonly topic: string;
  /** Epoch ms. */
  readonly receivedAt: number;
  readonly messageId: string | null;
  /** JSON. */
  readonly doc: string;
}

export interface IngestAnswer {
  /** Newest first. */
  readonly rows: readonly IngestedRow[];
  /** Whether the limit, or the size of an answer, left some out. */
  readonly more: boolean;
}

/** All calls reject with StorageFailure. */
export interface IngestStore {
  readonly tables: readonly IngestTable[];
  /** Deletes the oldest rows received before `before` (epoch ms). True: there may be more. */
  trim(table: number, before: number): Promise<boolean>;
  query(query: IngestQuery): Promise<IngestAnswer>;
}
