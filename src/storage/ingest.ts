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
  readonly value: string | number | bigint;
}

/** A place among the rows of a table, which are read from the newest on. */
export interface IngestPlace {
  /** Epoch ms. */
  readonly receivedAt: number;
  readonly id: number;
}

export interface IngestQuery {
  readonly table: number;
  readonly topic?: string;
  /** Received at or after, and before; epoch ms. */
  readonly from?: number;
  readonly to?: number;
  /** Only what comes behind it. */
  readonly before?: IngestPlace;
  /** On columns of the configuration. */
  readonly conditions: readonly IngestCondition[];
  readonly limit: number;
}

export interface IngestedRow {
  readonly id: number;
  readonly topic: string;
  /** Epoch ms. */
  readonly receivedAt: number;
  readonly messageId: string | null;
  readonly doc: string;
  /** False where another program wrote something else than JSON. */
  readonly isJson: boolean;
}

export interface IngestAnswer {
  /** Newest first. */
  readonly rows: readonly IngestedRow[];
  /**
   * Where the search ended before the table did: at the limit, or at the bound of size or time of an
   * answer. Undefined when there is no more.
   */
  readonly next: IngestPlace | undefined;
}

/** All calls reject with StorageFailure. */
export interface IngestStore {
  readonly tables: readonly IngestTable[];
  /** Deletes some of the rows received before `before` (epoch ms), the oldest; how many, 0 at the end. */
  trim(table: number, before: number): Promise<number>;
  /** One at a time, in pieces, so that nothing else waits for long. */
  query(query: IngestQuery): Promise<IngestAnswer>;
}
