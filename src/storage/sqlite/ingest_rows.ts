import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { IngestTable } from "../ingest.ts";
import { documentOf, textDocument } from "./ingest_document.ts";
import { quoted } from "../../config/ingest_names.ts";
import type { Unpacker } from "./packing.ts";

/** Rows one trim takes in one transaction. */
const TRIM_ROWS = 1000;

const NANOSECONDS_PER_MS = 1_000_000n;

/** Every write to the ingest tables. The transaction is the caller's. */
export class IngestRows {
  readonly #inserts: readonly StatementSync[];
  /** The same for a document that SQLite has to take for JSON. */
  readonly #jsonInserts: readonly StatementSync[];
  readonly #trims: readonly StatementSync[];

  constructor(database: DatabaseSync, tables: readonly IngestTable[]) {
    const insert = ({ name }: IngestTable) =>
      `INSERT INTO ${quoted(name)} (_topic, _received_at, _message_id, doc) SELECT ?1, ?2, ?3, ?4`;
    this.#inserts = tables.map((table) => database.prepare(insert(table)));
    this.#jsonInserts = tables.map((table) =>
      database.prepare(`${insert(table)} WHERE json_valid(?4)`)
    );
    this.#trims = tables.map(({ name }) =>
      database.prepare(
        `DELETE FROM ${quoted(name)} WHERE _id IN (SELECT _id FROM ${quoted(name)} ` +
          `WHERE _received_at < ? ORDER BY _received_at LIMIT ${TRIM_ROWS})`,
      )
    );
  }

  /** Writes a row of a publish entry. */
  publish(row: Pick<Unpacker, "tag" | "topic" | "timestamp" | "messageId" | "payload">): void {
    const { tag, topic, timestamp, messageId, payload } = row;
    const receivedAt = timestamp / NANOSECONDS_PER_MS;
    const id = messageId === "" ? null : messageId;
    const { doc, text } = documentOf(payload);
    if (text === undefined) this.#inserts[tag].run(topic, receivedAt, id, doc);
    else if (Number(this.#jsonInserts[tag].run(topic, receivedAt, id, doc).changes) === 0) {
      this.#inserts[tag].run(topic, receivedAt, id, textDocument(text));
    }
  }

  /** Deletes the oldest rows received before `before`, at most `TRIM_ROWS`; how many. */
  trim(table: number, before: number): number {
    return Number(this.#trims[table].run(before).changes);
  }
}
