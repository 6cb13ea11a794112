import type { DatabaseSync, SQLOutputValue, StatementSync } from "node:sqlite";
import { matches } from "../../topics/filter.ts";
import type { JobSketch, Position } from "../contract.ts";
import type { Offset } from "../record.ts";
import type {
  JobsAnswer,
  Read,
  StoredHold,
  StoredPosition,
  TopicsAnswer,
  ValuesAnswer,
  WindowAnswer,
} from "./messages.ts";
import { AmqpReads } from "./amqp_reads.ts";
import { arraysOf } from "./connection.ts";
import { readIngested } from "./ingest_reads.ts";
import {
  FLAGS_SQL,
  messageColumns,
  type MessageRow,
  type PackedRecords,
  packRows,
  RECORD_FLAGS_SQL,
} from "./packing.ts";

/** Rows of one pass over values, matching or not: what one read may take of a read worker's time. */
const VALUES_PER_PASS = 4096;
/** Bytes of matching values one pass answers with. */
const VALUES_PASS_BYTES = 1024 * 1024;
/** Rows of one page of positions or holds. */
const ROWS_PER_PAGE = 1024;

/** Where the payload stands in a row selected for `packRows`. */
const PAYLOAD_COLUMN = 7;

/**
 * Every read a provider makes on a connection, prepared when it opens (S111). Each is one read
 * transaction, so what it answers is one moment (S113).
 */
export class Reads {
  #begin: StatementSync;
  #commit: StatementSync;
  #floor: StatementSync;
  #window: StatementSync;
  #firstAtOrAfter: StatementSync;
  #position: StatementSync;
  #lowestPositions: StatementSync;
  #hold: StatementSync;
  #oldest: StatementSync;
  #value: StatementSync;
  #values: StatementSync;
  #topics: StatementSync;
  #oldValues: StatementSync;
  #jobs: StatementSync;
  #overdueJobs: StatementSync;
  #worstJobs: StatementSync;
  #sessionPositions: StatementSync;
  #holds: StatementSync;
  #amqp: AmqpReads | undefined;

  constructor(
    private readonly database: DatabaseSync,
    private readonly channels: readonly string[],
  ) {
    this.#begin = database.prepare("BEGIN");
    this.#commit = database.prepare("COMMIT");
    this.#floor = database.prepare("SELECT floor FROM channels WHERE name = ?");
    const rows = (sql: string) => arraysOf(database, sql);
    const record = `SELECT offset, ${messageColumns(RECORD_FLAGS_SQL, "client", "only_for")} `;
    this.#window = rows(
      `${record} FROM records WHERE channel = ? AND offset >= ? ORDER BY offset LIMIT ?`,
    );
    this.#firstAtOrAfter = database.prepare(
      "SELECT offset FROM records WHERE channel = ? AND offset >= ? AND offset < ? " +
        "AND timestamp >= ? ORDER BY offset LIMIT 1",
    );
    this.#position = database.prepare(
      "SELECT offset, expiry, last_seen FROM positions WHERE channel = ? AND reader = ?",
    );
    this.#position.setReadBigInts(true);
    this.#lowestPositions = database.prepare(
      "SELECT reader, offset, expiry, last_seen FROM positions WHERE channel = ? " +
        "ORDER BY offset, reader LIMIT ?",
    );
    this.#lowestPositions.setReadBigInts(true);
    this.#hold = rows(
      `SELECT 0, ${messageColumns(FLAGS_SQL)} FROM held_publishes ` +
        "WHERE channel = ? AND client = ? AND packet = ?",
    );
    this.#oldest = database.prepare(
      "SELECT timestamp FROM records WHERE channel = ? ORDER BY offset LIMIT 1",
    );
    this.#oldest.setReadBigInts(true);
    const value = `SELECT offset, ${messageColumns(FLAGS_SQL)} `;
    this.#value = rows(`${value} FROM latest_values WHERE channel = ? AND topic = ?`);
    // What a pass skips is decided before its payload is read.
    this.#values = rows(
      "SELECT topic, offset, length(payload) FROM latest_values " +
        "WHERE channel = ? AND topic > ? AND topic < ? ORDER BY topic LIMIT ?",
    );
    this.#topics = database.prepare(
      "SELECT json_group_array(topic) AS topics FROM (SELECT topic FROM latest_values " +
        "WHERE channel = ? AND topic > ? AND length(payload) > 0 ORDER BY topic LIMIT ?)",
    );
    this.#oldValues = rows(
      "SELECT topic, offset FROM latest_values WHERE channel = ?1 AND topic > ?2 " +
        "AND timestamp > 0 AND timestamp < CASE WHEN length(payload) = 0 THEN ?4 ELSE ?3 END " +
        "ORDER BY topic LIMIT ?5",
    );
    const job = `SELECT offset, ${messageColumns(FLAGS_SQL)}, ` +
      "attempts, CAST(first_delivered AS TEXT), CAST(last_delivered AS TEXT) FROM queue_items ";
    this.#jobs = rows(`${job} WHERE channel = ? AND offset >= ? ORDER BY offset LIMIT ?`);
    this.#overdueJobs = rows(
      `${job} WHERE channel = ? AND offset >= ? AND ` +
        "(timestamp > 0 AND timestamp < ? OR attempts >= ?) ORDER BY offset LIMIT ?",
    );
    this.#worstJobs = database.prepare(
      "SELECT offset, topic, timestamp, attempts, last_delivered FROM queue_items " +
        "WHERE channel = ? ORDER BY attempts DESC, offset LIMIT ?",
    );
    this.#worstJobs.setReadBigInts(true);
    this.#sessionPositions = database.prepare(
      "SELECT channel, reader, offset, expiry, last_seen FROM positions " +
        "WHERE (channel, reader) > (?, ?) AND reader LIKE 'mqtt:%' " +
        "ORDER BY channel, reader LIMIT ?",
    );
    this.#sessionPositions.setReadBigInts(true);
    this.#holds = database.prepare(
      "SELECT channel, client, packet, held_at FROM held_publishes " +
        "WHERE (channel, client, packet) > (?, ?, ?) ORDER BY channel, client, packet LIMIT ?",
    );
    this.#holds.setReadBigInts(true);
  }

  read(read: Read): unknown {
    switch (read.op) {
      case "amqp":
        this.#amqp ??= new AmqpReads(this.database);
        return this.#amqp.read(read.read);
      case "ingested":
        return readIngested(this.database, read.read);
      case "window":
        return this.#inTransaction(() => this.#readWindow(read));
      case "firstAtOrAfter": {
        const { store, from, end, time } = read;
        return this.#firstAtOrAfter.get(this.channels[store], from, end, time)?.offset;
      }
      case "position": {
        const row = this.#position.get(this.channels[read.store], read.reader);
        return row === undefined ? undefined : positionOf({ ...row, reader: read.reader });
      }
      case "lowestPositions":
        return this.#lowestPositions.all(this.channels[read.store], read.max).map(positionOf);
      case "hold":
        return packOne(
          this.#hold.get(this.channels[read.store], read.clientId, read.packetId),
        );
      case "oldest":
        return this.#oldest.get(this.channels[read.store])?.timestamp;
      case "value":
        return packOne(this.#value.get(this.channels[read.store], read.topic));
      case "values":
        return this.#inTransaction(() => this.#readValues(read));
      case "topics":
        return this.#readTopics(read);
      case "oldValues":
        return this.#oldValues.all(
          this.channels[read.store],
          read.after,
          read.valuesBefore,
          read.deletionsBefore,
          ROWS_PER_PAGE,
        );
      case "jobs":
        return this.#packJobs(
          this.#jobs,
          [this.channels[read.store], read.from, read.max],
          read.maxBytes,
        );
      case "overdueJobs":
        return this.#packJobs(this.#overdueJobs, [
          this.channels[read.store],
          read.from,
          read.before,
          read.spentAttempts,
          read.max,
        ], Infinity);
      case "worstJobs":
        return this.#worstJobs.all(this.channels[read.store], read.max).map((row) => ({
          offset: exact(row.offset),
          topic: row.topic,
          storedAt: row.timestamp,
          attempts: Number(row.attempts),
          lastDelivered: row.last_delivered,
        } as JobSketch));
      case "sessionPositions":
        return this.#sessionPositions.all(...read.after, ROWS_PER_PAGE).map((row) => ({
          channel: row.channel,
          ...positionOf(row),
        } as StoredPosition));
      case "holds":
        return this.#holds.all(...read.after, ROWS_PER_PAGE).map((row) => ({
          channel: row.channel,
          clientId: row.client,
          packetId: Number(row.packet),
          heldAt: row.held_at,
        } as StoredHold));
    }
  }

  #inTransaction<T>(run: () => T): T {
    // On the writer a read stands between transactions, never in one.
    this.#begin.run();
    try {
      return run();
    } finally {
      this.#commit.run();
    }
  }

  #readWindow(read: Extract<Read, { op: "window" }>): WindowAnswer {
    const channel = this.channels[read.store];
    const floor = this.#floor.get(channel)!.floor as Offset;
    if (read.from < floor) return { floor };
    const rows = this.#take(
      this.#window.iterate(channel, read.from, read.max) as unknown as Iterable<MessageRow>,
      read.maxBytes,
    );
    return { floor, records: packRows(rows) };
  }

  /** Rows until their payloads pass `maxBytes`; always one if there is one. */
  #take<Row extends MessageRow>(rows: Iterable<Row>, maxBytes: number): Row[] {
    const taken: Row[] = [];
    let bytes = 0;
    for (const row of rows) {
      bytes += row[PAYLOAD_COLUMN].byteLength;
      if (taken.length > 0 && bytes > maxBytes) break;
      taken.push(row);
    }
    return taken;
  }

  #readValues(read: Extract<Read, { op: "values" }>): ValuesAnswer {
    const channel = this.channels[read.store];
    const { start, end } = topicRange(read.filter);
    const after = read.after > start ? read.after : start;
    const found: MessageRow[] = [];
    let bytes = 0;
    let examined = 0;
    let last = "";
    let full = false;
    const candidates = this.#values.iterate(
      channel,
      after,
      end,
      VALUES_PER_PASS,
    ) as unknown as Iterable<[topic: string, offset: Offset, payloadBytes: number]>;
    for (const [topic, offset, payloadBytes] of candidates) {
      const wanted = offset >= read.from && (read.deletions || payloadBytes > 0) &&
        matches(read.filter, topic);
      full = wanted &&
        (found.length === read.max || found.length > 0 && bytes + payloadBytes > VALUES_PASS_BYTES);
      if (full) break;
      examined++;
      last = topic;
      if (!wanted) continue;
      bytes += payloadBytes;
      found.push(this.#value.get(channel, topic) as unknown as MessageRow);
    }
    const more = full || examined === VALUES_PER_PASS;
    return { records: packRows(found), after: more ? last : undefined };
  }

  /** As many topics as fit a page are one value here: a row each costs five times as much. */
  #readTopics({ store, outside, after, max }: Extract<Read, { op: "topics" }>): TopicsAnswer {
    const limit = Math.min(max, VALUES_PER_PASS);
    const found = this.#topics.get(this.channels[store], after, limit) as { topics: string };
    const examined: string[] = JSON.parse(found.topics);
    const topics = examined.filter((topic) => !outside.some((filter) => matches(filter, topic)));
    return { topics, after: examined.length === limit ? examined[limit - 1] : undefined };
  }

  #packJobs(
    statement: StatementSync,
    parameters: (string | number | bigint)[],
    maxBytes: number,
  ): JobsAnswer {
    type JobRow = [...MessageRow, attempts: number, first: string, last: string];
    const rows = this.#take(
      statement.iterate(...parameters) as unknown as Iterable<JobRow>,
      maxBytes,
    );
    const HISTORY = 12;
    return {
      records: packRows(rows),
      attempts: rows.map((row) => row[HISTORY] as number),
      firstDelivered: rows.map((row) => BigInt(row[HISTORY + 1] as string)),
      lastDelivered: rows.map((row) => BigInt(row[HISTORY + 2] as string)),
    };
  }
}

function positionOf(row: Record<string, SQLOutputValue>): Position {
  return {
    reader: row.reader as string,
    offset: exact(row.offset),
    expiry: Number(row.expiry),
    lastSeen: row.last_seen as bigint,
  };
}

function packOne(row: unknown): PackedRecords {
  return packRows(row === undefined ? [] : [row as MessageRow]);
}

/** A stored offset as a Number; one past 2^53-1 is refused, never rounded (S45). */
export function exact(value: unknown): Offset {
  const offset = Number(value);
  if (!Number.isSafeInteger(offset)) throw new Error(`stored offset ${value} is out of range`);
  return offset;
}

/**
 * The topics a filter can match lie strictly between these two, in byte order: those that begin with
 * its levels before the first wildcard.
 */
function topicRange(filter: string): { readonly start: string; readonly end: string | Uint8Array } {
  const wildcard = filter.search(/[+#]/);
  const prefix = wildcard < 0 ? filter : filter.slice(0, wildcard);
  // "a/#" matches "a" too, and a topic without wildcard is its own prefix: begin one character early.
  const stem = wildcard < 0 ? prefix : prefix.replace(/\/$/, "");
  // In SQLite's order every text comes before every blob.
  if (stem === "") return { start: "", end: new Uint8Array() };
  return { start: stem.slice(0, -1), end: stem + "\u{10ffff}" };
}
