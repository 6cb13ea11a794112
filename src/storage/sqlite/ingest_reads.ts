import type { DatabaseSync } from "node:sqlite";
import type { IngestAnswer, IngestCondition } from "../ingest.ts";
import { arraysOf } from "./connection.ts";
import { quoted } from "./ingest_names.ts";

/** Documents of one answer, in characters: what a query may cost the heap. */
const MOST_CHARACTERS = 4 * 1024 * 1024;

export interface IngestRead {
  /** Names of table and columns come from the configuration; values are bound. */
  readonly table: string;
  readonly conditions: readonly IngestCondition[];
  readonly limit: number;
}

type Row = [id: number, topic: string, receivedAt: number, messageId: string | null, doc: string];

/** The newest rows that meet every condition, at most `limit` and about `MOST_CHARACTERS`. */
export function readIngested(database: DatabaseSync, read: IngestRead): IngestAnswer {
  const { table, conditions, limit } = read;
  const where = conditions.map(({ column, is }) => `${quoted(column)} ${is} ?`).join(" AND ");
  const statement = arraysOf(
    database,
    `SELECT _id, _topic, _received_at, _message_id, doc FROM ${quoted(table)} ` +
      `${where === "" ? "" : `WHERE ${where} `}ORDER BY _received_at DESC, _id DESC LIMIT ?`,
  );
  const rows: IngestAnswer["rows"][number][] = [];
  let characters = 0;
  const values = conditions.map(({ value }) => value);
  for (const row of statement.iterate(...values, limit + 1) as unknown as Iterable<Row>) {
    const [id, topic, receivedAt, messageId, doc] = row;
    characters += doc.length;
    if (rows.length === limit || rows.length > 0 && characters > MOST_CHARACTERS) {
      return { rows, more: true };
    }
    rows.push({ id, topic, receivedAt, messageId, doc });
  }
  return { rows, more: false };
}
