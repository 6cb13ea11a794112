/**
 * `ingest/<table>`: rows of an ingest table, the newest first (07 N12). No SQL comes in: a request names
 * columns of the configuration and values, and the values are bound.
 */
import { columnName } from "../../config/ingest_names.ts";
import { StorageFailure } from "../../storage/contract.ts";
import type {
  ColumnType,
  IngestAnswer,
  IngestCondition,
  IngestedRow,
  IngestPlace,
  IngestQuery,
  IngestStore,
  IngestTable,
} from "../../storage/ingest.ts";
import { type HttpResponse, textResponse } from "../http/message.ts";

const ROWS = 100;
const MOST_ROWS = 1_000;

/** Conditions on columns in one request. */
const MOST_CONDITIONS = 32;

/** Requests that may wait for the one that is answered. */
const MOST_WAITING = 8;

const COMPARISONS: ReadonlyMap<string, IngestCondition["is"]> = new Map([
  ["eq", "="],
  ["gte", ">="],
  ["gt", ">"],
  ["lte", "<="],
  ["lt", "<"],
]);

type Reading = { readonly query: IngestQuery } | { readonly fault: string };

export class IngestRoute {
  #waiting = 0;

  /** @param store undefined where no ingest is configured: there is no table then */
  constructor(private readonly store: IngestStore | undefined) {}

  async answer(name: string, parameters: URLSearchParams): Promise<HttpResponse> {
    const { store } = this;
    const table = store?.tables.findIndex((each) => each.name === name) ?? -1;
    if (store === undefined || table < 0) {
      return textResponse(404, "there is no such ingest table\n");
    }
    const reading = readQuery(table, store.tables[table], parameters);
    if ("fault" in reading) return textResponse(400, `${reading.fault}\n`);
    if (this.#waiting > MOST_WAITING) {
      return textResponse(503, "too many queries wait already; ask again\n", [[
        "Retry-After",
        "1",
      ]]);
    }
    this.#waiting++;
    try {
      return bodyOf(name, await store.query(reading.query));
    } catch (error) {
      if (!(error instanceof StorageFailure)) throw error;
      return textResponse(503, `the table cannot be read: ${error.message}\n`);
    } finally {
      this.#waiting--;
    }
  }
}

// -------------------------------------------------------------------------------- what is asked for

function readQuery(table: number, { columns }: IngestTable, parameters: URLSearchParams): Reading {
  const types = new Map([...columns].map(([key, type]) => [columnName(key), type]));
  const query: { -readonly [K in keyof IngestQuery]: IngestQuery[K] } = {
    table,
    conditions: [],
    limit: ROWS,
  };
  const conditions: IngestCondition[] = [];
  const seen = new Set<string>();
  for (const [name, value] of parameters) {
    if (seen.has(name)) return { fault: `${name} is written twice` };
    seen.add(name);
    switch (name) {
      case "topic":
        if (/[+#]/.test(value)) return { fault: "topic is one topic; wildcards do not go here" };
        query.topic = value;
        break;
      case "from":
      case "to": {
        const ms = momentOf(value);
        if (ms === undefined) {
          return { fault: `${name} is no moment; write 2026-01-02T03:04:05Z, or epoch ms` };
        }
        query[name] = ms;
        break;
      }
      case "before": {
        const place = placeOf(value);
        if (place === undefined) return { fault: "before is not what an answer's next was" };
        query.before = place;
        break;
      }
      case "limit":
        if (!/^[1-9]\d{0,3}$/.test(value) || Number(value) > MOST_ROWS) {
          return { fault: `limit is no whole number from 1 to ${MOST_ROWS}` };
        }
        query.limit = Number(value);
        break;
      default: {
        const read = conditionsOf(name, value, types);
        if (typeof read === "string") return { fault: read };
        conditions.push(...read);
      }
    }
  }
  if (conditions.length > MOST_CONDITIONS) {
    return { fault: `more than ${MOST_CONDITIONS} conditions on columns` };
  }
  bound(conditions, types);
  return { query: { ...query, conditions } };
}

/** `value.gte=25`, or `value=25`; a fault as a sentence. */
function conditionsOf(
  name: string,
  text: string,
  types: ReadonlyMap<string, ColumnType>,
): IngestCondition[] | string {
  const dot = name.indexOf(".");
  const column = dot < 0 ? name : name.slice(0, dot);
  const type = types.get(column);
  if (type === undefined) {
    const columns = types.size === 0 ? "none" : [...types.keys()].join(", ");
    return "there is no such parameter; write topic, from, to, before, limit, or one of the " +
      `table's columns (${columns}), with .gte, .gt, .lte or .lt behind it`;
  }
  const is = COMPARISONS.get(dot < 0 ? "eq" : name.slice(dot + 1));
  if (is === undefined) return `${column} is compared with .eq, .gte, .gt, .lte or .lt`;
  if (type === "TEXT") return [{ column, is, value: text }];
  const value = numberOf(text);
  return value === undefined ? `${column} is compared with a number` : [{ column, is, value }];
}

/** A column of numbers may hold text, which to SQLite is more than any number: it is left out. */
function bound(conditions: IngestCondition[], types: ReadonlyMap<string, ColumnType>): void {
  const open = new Set<string>();
  for (const { column, is } of conditions) {
    if (types.get(column) !== "TEXT" && (is === ">" || is === ">=")) open.add(column);
  }
  for (const column of open) conditions.push({ column, is: "<", value: "" });
}

/** Whole numbers keep their digits as far as SQLite does. */
function numberOf(text: string): number | bigint | undefined {
  if (!/^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text)) return undefined;
  const value = Number(text);
  if (!/^[+-]?\d+$/.test(text) || Number.isSafeInteger(value)) return value;
  const whole = BigInt(text.replace(/^\+/, ""));
  return BigInt.asIntN(64, whole) === whole ? whole : value;
}

/** Epoch ms of a parameter. */
function momentOf(text: string): number | undefined {
  if (/^\d{1,15}$/.test(text)) return Number(text);
  if (!/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)$/.test(text)) return undefined;
  const ms = Date.parse(text);
  return Number.isNaN(ms) ? undefined : ms;
}

function placeOf(text: string): IngestPlace | undefined {
  const [, receivedAt, id] = /^(-?\d{1,15})\.(\d{1,15})$/.exec(text) ?? [];
  return id === undefined ? undefined : { receivedAt: Number(receivedAt), id: Number(id) };
}

// --------------------------------------------------------------------------------------- the answer

/** Documents stand there as they are stored: parsing them would round what JSON does not (N7). */
function bodyOf(table: string, { rows, next }: IngestAnswer): HttpResponse {
  const list = rows.map(rowOf).join(",");
  const where = next === undefined ? null : `${next.receivedAt}.${next.id}`;
  const text = `{"table":${JSON.stringify(table)},"rows":[${list}],"returned":${rows.length},` +
    `"next":${JSON.stringify(where)}}`;
  return {
    status: 200,
    contentType: "application/json",
    body: new TextEncoder().encode(text),
  };
}

function rowOf({ id, topic, receivedAt, messageId, doc, isJson }: IngestedRow): string {
  const head = JSON.stringify({
    id,
    topic,
    received_at: momentText(receivedAt),
    message_id: messageId,
  });
  return `${head.slice(0, -1)},"doc":${isJson ? doc : JSON.stringify(doc)}}`;
}

/** With milliseconds, since that is what a row has. A number where no date says it. */
function momentText(ms: number): string | number {
  const date = new Date(ms);
  return Number.isNaN(date.getTime()) ? ms : date.toISOString();
}
