import type { DatabaseSync } from "node:sqlite";
import { quoted, timeIndex, topicIndex } from "../../config/ingest_names.ts";
import type { IngestCondition, IngestedRow, IngestPlace, IngestQuery } from "../ingest.ts";
import { arraysOf } from "./connection.ts";

/** So many rows of a column's index are looked at, and sorted, in one piece. */
const MOST_INDEXED = 2_000;

/** One piece of a query. Names of table, columns and indexes come from the configuration. */
export interface IngestRead extends Omit<IngestQuery, "table"> {
  readonly table: string;
  /** Indexes of columns, by column: tried at the first piece, empty for the others. */
  readonly indexes: ReadonlyMap<string, string>;
  /** Rows to look at, newest first. */
  readonly scan: number;
  /** Characters of documents that there is room for; one document always fits. */
  readonly room: number;
}

export interface IngestPiece {
  readonly rows: readonly IngestedRow[];
  /** Where to go on; undefined at the end of the table. */
  readonly next: IngestPlace | undefined;
  /** It ended at `limit` or for want of `room`. */
  readonly full: boolean;
}

type Value = string | number | bigint;

type Row = [
  id: number,
  topic: string,
  receivedAt: number,
  messageId: string | null,
  doc: string,
  isJson: 0 | 1,
];

/** What stands after WHERE, with its values in order. */
class Where {
  readonly #texts: string[] = [];
  readonly values: Value[] = [];

  add(text: string, ...values: Value[]): this {
    this.#texts.push(text);
    this.values.push(...values);
    return this;
  }

  conditions(conditions: readonly IngestCondition[]): this {
    for (const { column, is, value } of conditions) this.add(`${quoted(column)} ${is} ?`, value);
    return this;
  }

  toString(): string {
    return this.#texts.length === 0 ? "" : `WHERE ${this.#texts.join(" AND ")}`;
  }
}

/**
 * Reads one piece of what a query asks for. Where the index of a column leaves few rows, it leads, and the
 * piece is the whole; otherwise the rows are gone through by time, `scan` of them. Either way the piece
 * costs what those rows cost, whatever is asked for.
 */
export function readIngested(database: DatabaseSync, read: IngestRead): IngestPiece {
  const { table, conditions } = read;
  for (const [column, index] of read.indexes) {
    const own = conditions.filter((condition) => condition.column === column);
    if (own.length === 0) continue;
    const where = new Where().conditions(own);
    const { n } = database.prepare(
      `SELECT count(*) AS n FROM (SELECT 1 FROM ${quoted(table)} INDEXED BY ${quoted(index)} ` +
        `${where} LIMIT ${MOST_INDEXED + 1})`,
    ).get(...where.values) as { n: number };
    if (n > MOST_INDEXED) continue;
    return take(database, read, index, within(read).conditions(conditions), undefined);
  }
  const index = read.topic === undefined ? timeIndex(table) : topicIndex(table);
  const range = within(read);
  const last = arraysOf(
    database,
    `SELECT _received_at, _id FROM ${quoted(table)} INDEXED BY ${quoted(index)} ${range} ` +
      "ORDER BY _received_at DESC, _id DESC LIMIT 1 OFFSET ?",
  ).get(...range.values, read.scan - 1) as unknown as [number, number] | undefined;
  let end: IngestPlace | undefined;
  if (last !== undefined) {
    const [receivedAt, id] = last;
    end = { receivedAt, id };
    range.add("_received_at >= ?", receivedAt);
    range.add("(_received_at > ? OR _id >= ?)", receivedAt, id);
  }
  return take(database, read, index, range.conditions(conditions), end);
}

/** The rows that a query is about, whatever their columns hold. */
function within({ topic, from, to, before }: IngestRead): Where {
  const where = new Where();
  if (topic !== undefined) where.add("_topic = ?", topic);
  if (from !== undefined) where.add("_received_at >= ?", from);
  if (to !== undefined) where.add("_received_at < ?", to);
  if (before !== undefined) {
    where.add("_received_at <= ?", before.receivedAt);
    where.add("(_received_at < ? OR _id < ?)", before.receivedAt, before.id);
  }
  return where;
}

/** @param end where the rows end that the piece looks at; undefined at the end of the table */
function take(
  database: DatabaseSync,
  { table, limit, room }: IngestRead,
  index: string,
  where: Where,
  end: IngestPlace | undefined,
): IngestPiece {
  const statement = arraysOf(
    database,
    "SELECT _id, _topic, _received_at, _message_id, doc, json_valid(doc) " +
      `FROM ${quoted(table)} INDEXED BY ${quoted(index)} ${where} ` +
      "ORDER BY _received_at DESC, _id DESC LIMIT ?",
  );
  const rows: IngestedRow[] = [];
  let characters = 0;
  for (const row of statement.iterate(...where.values, limit + 1) as unknown as Iterable<Row>) {
    const [id, topic, receivedAt, messageId, doc, isJson] = row;
    characters += doc.length;
    if (rows.length === limit || characters > room && rows.length > 0) {
      const { receivedAt, id } = rows.at(-1)!;
      return { rows, next: { receivedAt, id }, full: true };
    }
    rows.push({ id, topic, receivedAt, messageId, doc, isJson: isJson === 1 });
  }
  return { rows, next: end, full: false };
}
