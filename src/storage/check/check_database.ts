import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { DEAD_LETTER_SUFFIX } from "../../topics/deadletter.ts";
import { BROADCAST_LOG, RETAINED, type StoreKind } from "../contract.ts";
import { sqliteCode } from "../lock.ts";
import type { Offset } from "../record.ts";
import { openToLook } from "../sqlite/connection.ts";
import { parseHeaders, parseProperties } from "../sqlite/message_text.ts";
import { type SizedRow, storedSize } from "../sqlite/opening.ts";
import { schemaFault, TABLE_NAMES } from "../sqlite/schema.ts";
import { type CheckedChannel, letterOf, OffsetCheck } from "./entries.ts";
import { checkIngestTables } from "./ingest_tables.ts";
import { type Checked, type CheckReport, Findings } from "./report.ts";
import { checkSessionRows } from "./session_rows.ts";

const SQLITE_NOTADB = 26;
/** Faults of the file itself that are listed. */
const MOST_PAGE_FAULTS = 20;
const ENTRIES_PER_REPORT = 10_000;

/** The table each kind of channel has its entries in. */
const TABLES: Record<StoreKind, string> = {
  append: "records",
  latest: "latest_values",
  queue: "queue_items",
};

/**
 * Holds everything a database says against everything else it says, as of one moment. Reads only; a broker
 * may be running on the file, and a copy does as well.
 *
 * @throws Error when there is no file that can be opened
 */
export function checkDatabase(path: string, report: CheckReport): Checked {
  const database = openToLook(path);
  try {
    return new DatabaseCheck(database, path, report).run();
  } catch (error) {
    const code = sqliteCode(error);
    if (code === undefined) throw error;
    const says = code === SQLITE_NOTADB
      ? "is not a SQLite database"
      : `cannot be read to its end: ${(error as Error).message}`;
    report.finding(`${path} ${says}`);
    return { channels: 0, entries: 0, sessions: 0 };
  } finally {
    database.close();
  }
}

class DatabaseCheck {
  #entries = 0;

  constructor(
    private readonly database: DatabaseSync,
    private readonly path: string,
    private readonly report: CheckReport,
  ) {}

  run(): Checked {
    const fault = schemaFault(this.database);
    const none = { channels: 0, entries: 0, sessions: 0 };
    if (fault === "new") return none;
    if (fault !== undefined) {
      this.report.finding(`${this.path}: ${fault}`);
      return none;
    }
    this.database.prepare("BEGIN").run();
    this.#checkPages();
    const channels = this.#channels();
    for (const channel of channels) this.#checkChannel(channel);
    for (const table of [...Object.values(TABLES), "positions", "held_publishes"]) {
      this.#checkOwners(table);
    }
    this.#checkDeadLetters(channels);
    this.#entries += checkIngestTables(this.database, this.report);
    const log = channels.find(({ name }) => name === BROADCAST_LOG);
    this.report.progress("sessions");
    const sessions = checkSessionRows(this.database, log?.next, this.report);
    return { channels: channels.length, entries: this.#entries, sessions };
  }

  #all(sql: string, ...values: SQLInputValue[]): Record<string, unknown>[] {
    return this.database.prepare(sql).all(...values);
  }

  #checkPages(): void {
    this.report.progress("pages");
    const findings = new Findings(this.report, "the file");
    for (const row of this.#all(`PRAGMA integrity_check(${MOST_PAGE_FAULTS})`)) {
      const says = Object.values(row)[0] as string;
      if (says !== "ok") findings.add("is damaged", says);
    }
    for (const { table, rowid, parent } of this.#all("PRAGMA foreign_key_check")) {
      findings.add("has a row without its owner", `${table} ${rowid}, none in ${parent}`);
    }
    const tables = this.#all("SELECT name FROM sqlite_schema WHERE type = 'table'")
      .map(({ name }) => name as string);
    for (const name of TABLE_NAMES) if (!tables.includes(name)) findings.add("lacks a table", name);
    findings.end();
  }

  #channels(): CheckedChannel[] {
    const select = this.database.prepare(
      "SELECT name, kind, next, floor FROM channels ORDER BY name",
    );
    select.setReadBigInts(true);
    const channels: CheckedChannel[] = [];
    for (const row of select.all()) {
      const name = row.name as string;
      const kind = row.kind as StoreKind;
      const findings = new Findings(this.report, `channel ${name}`);
      if (!(kind in TABLES)) findings.add("is of no known type", kind);
      else if ((row.next as bigint) > Number.MAX_SAFE_INTEGER) {
        findings.add("has an offset out of range", `${row.next}`);
      } else channels.push({ name, kind, next: Number(row.next), floor: Number(row.floor) });
    }
    return channels;
  }

  #checkChannel(channel: CheckedChannel): void {
    const { name, kind } = channel;
    const findings = new Findings(this.report, `channel ${name}`);
    const offsets = new OffsetCheck(channel, findings);
    let bytes = 0;
    for (const row of this.#rows(channel)) {
      offsets.see(row.offset);
      if (++this.#entries % ENTRIES_PER_REPORT === 0) {
        this.report.progress(`channel ${name}, ${this.#entries} entries so far`);
      }
      try {
        bytes += storedSize(row);
        parseProperties(row.props ?? "");
      } catch (error) {
        if (!(error instanceof SyntaxError)) throw error;
        findings.add("has damaged headers or properties", `at offset ${row.offset}`);
      }
      if (row.qos < 0 || row.qos > 2) findings.add("has a QoS that is none", `${row.qos}`);
      if (kind === "queue") checkHistory(row, findings);
      if (name === RETAINED && row.payloadBytes === 0) {
        findings.add("holds a value that says nothing", `of topic ${row.topic}`);
      }
    }
    offsets.end();
    const stored = this.#all("SELECT bytes FROM channels WHERE name = ?", name)[0].bytes as number;
    const counted = kind === "append" ? bytes : 0;
    if (stored !== counted) findings.add("counts its bytes wrongly", `${stored}, not ${counted}`);
    for (const [other, table] of Object.entries(TABLES)) {
      if (other === kind || this.#count(table, name) === 0) continue;
      findings.add(`is of type ${kind} and has rows elsewhere`, table);
    }
    this.#checkPositions(channel, findings);
    findings.end();
  }

  /** In the order of offsets; payloads are not read. */
  *#rows({ name, kind }: CheckedChannel): Iterable<EntryRow> {
    const history = kind === "queue"
      ? ", attempts, first_delivered > 0 AS first, last_delivered > 0 AS last"
      : "";
    yield* this.database.prepare(
      "SELECT offset, topic, message_id AS messageId, headers, props, qos, " +
        `length(payload) AS payloadBytes${history} FROM ${TABLES[kind]} WHERE channel = ? ` +
        "ORDER BY offset",
    ).iterate(name) as unknown as Iterable<EntryRow>;
  }

  #count(table: string, channel: string): number {
    return this.#all(`SELECT count(*) AS n FROM ${table} WHERE channel = ?`, channel)[0]
      .n as number;
  }

  #checkPositions({ name, kind, next }: CheckedChannel, findings: Findings): void {
    const rows = this.#all("SELECT reader, offset, expiry FROM positions WHERE channel = ?", name);
    if (kind !== "append" && rows.length > 0) {
      findings.add(`is of type ${kind} and has positions`, `${rows.length}`);
    }
    for (const { reader, offset, expiry } of rows as unknown as PositionRow[]) {
      if (offset < 1 || offset > next) {
        findings.add(`has positions past its end ${next}`, `${reader} at ${offset}`);
      }
      if (!/^(mqtt|bridge):/.test(reader)) findings.add("has a reader of no scheme", reader);
      if (expiry < 0) findings.add("has a position with an impossible expiry", reader);
    }
  }

  /** Rows of channels without counters: their offsets are lost. */
  #checkOwners(table: string): void {
    const findings = new Findings(this.report, `table ${table}`);
    const rows = this.#all(
      `SELECT channel, count(*) AS n FROM ${table} WHERE channel NOT IN (SELECT name FROM channels) ` +
        "GROUP BY channel",
    );
    for (const { channel, n } of rows) {
      findings.add("has rows of a channel without counters", `${n} of ${channel}`);
    }
    findings.end();
  }

  /** A job is in its queue or among its dead letters, never in both (S143). */
  #checkDeadLetters(channels: readonly CheckedChannel[]): void {
    const job = this.database.prepare("SELECT 1 FROM queue_items WHERE channel = ? AND offset = ?");
    for (const { name, kind, next } of channels) {
      if (kind !== "queue") continue;
      const findings = new Findings(this.report, `channel ${name}${DEAD_LETTER_SUFFIX}`);
      const letters = this.database.prepare(
        "SELECT offset, headers FROM records WHERE channel = ? AND headers LIKE '%saguin-dlq-offset%'",
      ).iterate(name + DEAD_LETTER_SUFFIX) as unknown as Iterable<LetterRow>;
      for (const { offset, headers } of letters) {
        const of = letterOf(parseHeaders(headers));
        if (of === undefined) continue;
        if (of >= next) findings.add("has letters of jobs that never were", `${offset} of ${of}`);
        else if (job.get(name, of) !== undefined) {
          findings.add("has letters of jobs that are still queued", `${offset} of ${of}`);
        }
      }
      findings.end();
    }
  }
}

interface EntryRow extends SizedRow {
  readonly offset: Offset;
  readonly props: string | null;
  readonly qos: number;
  /** Of jobs. */
  readonly attempts: number;
  readonly first: 0 | 1;
  readonly last: 0 | 1;
}

interface PositionRow {
  readonly reader: string;
  readonly offset: Offset;
  readonly expiry: number;
}

interface LetterRow {
  readonly offset: Offset;
  readonly headers: string;
}

/** A job that was delivered says when, and one that was not does not. */
function checkHistory({ offset, attempts, first, last }: EntryRow, findings: Findings): void {
  const delivered = attempts > 0 ? 1 : 0;
  if (attempts >= 0 && first === delivered && last === delivered) return;
  findings.add("has jobs with an impossible history", `offset ${offset}, attempts ${attempts}`);
}
