import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { IngestTable } from "../ingest.ts";
import { documentOf } from "./ingest_document.ts";
import { quoted } from "../../config/ingest_names.ts";
import type { Unpacker } from "./packing.ts";

/** Rows one trim takes in one transaction. */
const TRIM_ROWS = 1000;

const NANOSECONDS_PER_MS = 1_000_000n;

/** Every write to the ingest tables. The transaction is the caller's. */
export class IngestRows {
  readonly #inserts: readonly StatementSync[];
  readonly #trims: readonly StatementSync[];
  readonly #isValid: (json: string) => boolean;

  constructor(database: DatabaseSync, tables: readonly IngestTable[]) {
    this.#inserts = tables.map(({ name }) =>
      database.prepare(
        `INSERT INTO ${quoted(name)} (_topic, _received_at, _message_id, doc) VALUES (?, ?, ?, ?)`,
      )
    );
    this.#trims = tables.map(({ name }) =>
      database.prepare(
        `DELETE FROM ${quoted(name)} WHERE _id IN (SELECT _id FROM ${quoted(name)} ` +
          `WHERE _received_at < ? ORDER BY _received_at LIMIT ${TRIM_ROWS})`,
      )
    );
    const isValid = database.prepare("SELECT json_valid(?) AS valid");
    this.#isValid = (json) => isValid.get(json)!.valid === 1;
  }

  /** Writes a row of a publish entry. */
  publish(row: Unpacker): void {
    this.#inserts[row.tag].run(
      row.topic,
      row.timestamp / NANOSECONDS_PER_MS,
      row.messageId === "" ? null : row.messageId,
      documentOf(row.payload, this.#isValid),
    );
  }

  /** Deletes the oldest rows received before `before`, at most `TRIM_ROWS`; how many. */
  trim(table: number, before: number): number {
    return Number(this.#trims[table].run(before).changes);
  }
}
