import type { DatabaseSync } from "node:sqlite";
import {
  columnIndex,
  columnName,
  documentView,
  quoted,
  timeIndex,
  topicIndex,
} from "../../config/ingest_names.ts";
import { sqliteCode } from "../lock.ts";
import type { IngestTable } from "../ingest.ts";

/**
 * Makes the ingest tables what the configuration says, in one transaction: creates what is missing, and
 * drops the columns and indexes that it made for keys which are not configured any more. What somebody
 * else added to a table stays. Not STRICT, nothing NOT NULL or UNIQUE on a column of a payload: such a
 * row could be refused (N8, N10).
 *
 * @throws Error with the end of a sentence that began with the path, naming the table that stands in the way
 */
export function createIngestTables(database: DatabaseSync, tables: readonly IngestTable[]): void {
  database.prepare("BEGIN IMMEDIATE").run();
  try {
    for (const table of tables) {
      try {
        new TableMaker(database, table).make();
      } catch (error) {
        if (!isMismatch(error)) throw error;
        throw new Error(
          `table "${table.name}" is not what ingest makes of it: ${(error as Error).message}; ` +
            "name another table in ingest.routes, or put this one out of the way",
          { cause: error },
        );
      }
    }
    database.prepare("COMMIT").run();
  } catch (error) {
    if (database.isTransaction) database.prepare("ROLLBACK").run();
    throw error;
  }
}

/** Statements that SQLite calls wrong, and what is found wrong here: the schema, not the file. */
const SQLITE_ERROR = 1;

class Mismatch extends Error {}

function isMismatch(error: unknown): boolean {
  return error instanceof Mismatch || sqliteCode(error) === SQLITE_ERROR;
}

/** In `PRAGMA table_xinfo`: a generated column that is not stored. */
const VIRTUAL = 2;

class TableMaker {
  readonly #name: string;
  /** Definition by column name. */
  readonly #columns: ReadonlyMap<string, string>;
  /** Statement after CREATE INDEX, by index name; those of columns. */
  readonly #indexes: ReadonlyMap<string, string>;

  constructor(private readonly database: DatabaseSync, table: IngestTable) {
    this.#name = table.name;
    this.#columns = new Map(
      [...table.columns].map(([key, type]) => {
        const column = columnName(key);
        return [column, `${quoted(column)} ${type} ${GENERATED}${key}')) VIRTUAL`];
      }),
    );
    this.#indexes = new Map(
      table.index.map((key) => {
        const index = columnIndex(table.name, key);
        return [index, indexOn(table.name, index, columnName(key))];
      }),
    );
  }

  make(): void {
    const { database } = this;
    const name = this.#name;
    const table = quoted(name);
    this.#run(
      `CREATE TABLE IF NOT EXISTS ${table}(_id INTEGER PRIMARY KEY AUTOINCREMENT, ` +
        "_topic TEXT NOT NULL, _received_at INTEGER NOT NULL, _message_id TEXT, " +
        "doc TEXT NOT NULL)",
    );
    // Fails at the start where the table is another than ours, not at the first publish.
    database.prepare(`SELECT _id, _topic, _received_at, _message_id, doc FROM ${table} LIMIT 0`)
      .all();
    this.#index(topicIndex(name), `${quoted(topicIndex(name))} ON ${table}(_topic,_received_at)`);
    this.#index(timeIndex(name), `${quoted(timeIndex(name))} ON ${table}(_received_at)`);
    this.#dropIndexes();
    this.#dropColumns();
    for (const [column, definition] of this.#columns) this.#column(column, definition);
    for (const [index, statement] of this.#indexes) this.#index(index, statement);
    this.#run(
      `CREATE VIEW IF NOT EXISTS ${quoted(documentView(name))} AS SELECT _id, ` +
        `json_set(doc,'$._topic',_topic,'$._received_at',_received_at) AS doc FROM ${table}`,
    );
  }

  #column(name: string, definition: string): void {
    const lower = name.toLowerCase();
    const there = this.#tableColumns().some((column) => column.name.toLowerCase() === lower);
    if (!there) this.#run(`ALTER TABLE ${quoted(this.#name)} ADD COLUMN ${definition}`);
    else if (!this.#tableSql().includes(definition)) {
      throw new Mismatch(`its column ${name} is somebody else's`);
    }
  }

  #index(name: string, statement: string): void {
    this.#run(`CREATE INDEX IF NOT EXISTS ${statement}`);
    const { sql } = this.database.prepare(
      "SELECT sql FROM sqlite_schema WHERE type = 'index' AND name = ? COLLATE NOCASE",
    ).get(name) as { sql: string };
    if (sql !== `CREATE INDEX ${statement}`) {
      throw new Mismatch(`an index ${name} is there that is somebody else's`);
    }
  }

  /** Before the columns: one that an index needs cannot be dropped. */
  #dropIndexes(): void {
    const stale = this.#staleColumns();
    const indexes = this.database.prepare(
      "SELECT name, sql FROM sqlite_schema WHERE type = 'index' AND tbl_name = ? " +
        "AND sql IS NOT NULL",
    ).all(this.#name) as { name: string; sql: string }[];
    for (const { name, sql } of indexes) {
      const column = /\("([^"]+)"\)$/.exec(sql)?.[1];
      if (column === undefined || sql !== `CREATE INDEX ${indexOn(this.#name, name, column)}`) {
        continue;
      }
      if (!name.startsWith(`${this.#name}__`)) continue;
      if (this.#indexes.has(name) && !stale.has(column)) continue;
      this.#run(`DROP INDEX ${quoted(name)}`);
    }
  }

  #dropColumns(): void {
    for (const column of this.#staleColumns()) {
      this.#run(`ALTER TABLE ${quoted(this.#name)} DROP COLUMN ${quoted(column)}`);
    }
  }

  /** Columns made here that are configured no more, or otherwise than they were made. */
  #staleColumns(): Set<string> {
    const sql = this.#tableSql();
    const stale = new Set<string>();
    for (const { name: column, hidden } of this.#tableColumns()) {
      if (hidden !== VIRTUAL) continue;
      const wanted = this.#columns.get(column);
      if (wanted !== undefined && sql.includes(wanted)) continue;
      const ours = ["TEXT", "REAL", "INTEGER"].some((type) =>
        sql.includes(`${quoted(column)} ${type} ${GENERATED}`)
      );
      if (ours) stale.add(column);
    }
    return stale;
  }

  #tableColumns(): { readonly name: string; readonly hidden: number }[] {
    return this.database.prepare(`PRAGMA table_xinfo(${quoted(this.#name)})`)
      .all() as { name: string; hidden: number }[];
  }

  /** As the table was made, whatever the case of its name. */
  #tableSql(): string {
    return (this.database.prepare(
      "SELECT sql FROM sqlite_schema WHERE type = 'table' AND name = ? COLLATE NOCASE",
    ).get(this.#name) as { sql: string }).sql;
  }

  #run(statement: string): void {
    this.database.prepare(statement).run();
  }
}

/** Keys are dotted identifiers, so they are a path as they stand. */
const GENERATED = "GENERATED ALWAYS AS (json_extract(doc,'$.";

function indexOn(table: string, index: string, column: string): string {
  return `${quoted(index)} ON ${quoted(table)}(${quoted(column)})`;
}
