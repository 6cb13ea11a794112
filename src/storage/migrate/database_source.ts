import type { DatabaseSync, StatementSync } from "node:sqlite";
import { BROADCAST_LOG, type Job, type Position, type StoreKind } from "../contract.ts";
import { sqliteCode } from "../lock.ts";
import type { Offset, StoredRecord } from "../record.ts";
import type { EncodedChannel, Listed } from "../snapshot/encode.ts";
import { STORE_KINDS } from "../snapshot/format.ts";
import { arraysOf, openToLook } from "../sqlite/connection.ts";
import {
  FLAGS_SQL,
  messageColumns,
  type MessageRow,
  packRows,
  RECORD_FLAGS_SQL,
  unpackRecords,
} from "../sqlite/packing.ts";
import { schemaFault, TABLE_NAMES } from "../sqlite/schema.ts";
import { BESIDE_DATABASE, lookAt, refusal, removeIfThere } from "./places.ts";
import { ENTRIES_PER_REPORT } from "./report.ts";

const SQLITE_NOTADB = 26;

/** Rows decoded together, and bytes of payloads among them that end a batch early. */
const BATCH_ROWS = 256;
const BATCH_BYTES = 1024 * 1024;
const PAYLOAD_COLUMN = 7;
const HISTORY_COLUMN = 12;

const U32_MAX = 0xffff_ffff;

/** The table each kind of channel has its entries in. */
const TABLES: Record<StoreKind, string> = {
  append: "records",
  latest: "latest_values",
  queue: "queue_items",
};

export interface SourceChannel {
  readonly name: string;
  readonly kind: StoreKind;
  readonly next: Offset;
  readonly floor: Offset;
  readonly entries: number;
  readonly positions: number;
}

type JobRow = [...MessageRow, attempts: number, first: string, last: string];

/**
 * The database of a stopped provider, read as of one moment and not written: no checkpoint, no sweep of
 * positions, and what SQLite puts beside the file to read it is gone again afterwards (S164).
 */
export class DatabaseSource {
  private constructor(
    private readonly database: DatabaseSync,
    private readonly created: readonly string[],
  ) {}

  /** @throws StorageFailure naming the file when it is not of this broker's version (S89) */
  static open(path: string): DatabaseSource {
    const created = BESIDE_DATABASE.map((suffix) => path + suffix)
      .filter((beside) => lookAt(beside) === undefined);
    let database: DatabaseSync | undefined;
    try {
      database = openToLook(path);
      const fault = schemaFault(database);
      if (fault !== undefined && fault !== "new") throw new Error(fault);
      database.prepare("BEGIN").run();
      return new DatabaseSource(database, created);
    } catch (error) {
      database?.close();
      for (const beside of created) removeIfThere(beside);
      const why = sqliteCode(error) === SQLITE_NOTADB
        ? "is not a SQLite database"
        : (error as Error).message;
      throw refusal(`${path}: ${why}`, error);
    }
  }

  close(): void {
    this.database.close();
    for (const beside of this.created) removeIfThere(beside);
  }

  /** Every channel and the retained store; not the broadcast log. */
  channels(): SourceChannel[] {
    if (this.#count("sqlite_schema") === 0) return [];
    const select = this.database.prepare(
      "SELECT name, kind, next, floor FROM channels WHERE name <> ? ORDER BY name",
    );
    // Past 2^53-1 only one channel is refused, when it is asked for (S45).
    select.setReadBigInts(true);
    return select.all(BROADCAST_LOG).map((row) => {
      const name = row.name as string;
      const kind = row.kind as StoreKind;
      return {
        name,
        kind,
        next: Number(row.next),
        floor: Number(row.floor),
        entries: kind in TABLES ? this.#countOf(TABLES[kind], name) : 0,
        positions: this.#countOf("positions", name),
      };
    });
  }

  /** Channels that have rows and no counters: their offsets are lost. */
  strays(): string[] {
    const strays = new Set<string>();
    if (this.#count("sqlite_schema") === 0) return [];
    for (const table of [...Object.values(TABLES), "positions"]) {
      const rows = this.database.prepare(
        `SELECT DISTINCT channel FROM ${table} WHERE channel NOT IN (SELECT name FROM channels)`,
      ).all();
      for (const { channel } of rows) strays.add(channel as string);
    }
    return [...strays];
  }

  /** What a migration does not carry, and there is something of (S160, S198). */
  leftBehind(): string[] {
    if (this.#count("sqlite_schema") === 0) return [];
    const left: string[] = [];
    const say = (count: number, one: string, several: string) => {
      if (count > 0) left.push(count === 1 ? `one ${one}` : `${count} ${several}`);
    };
    say(this.#count("sessions"), "session", "sessions");
    say(this.#count("share_groups"), "shared group", "shared groups");
    say(
      this.#countOf("records", BROADCAST_LOG),
      "message of the broadcast log",
      "messages of the broadcast log",
    );
    say(this.#count("held_publishes"), "held QoS 2 publish", "held QoS 2 publishes");
    const tables = this.database.prepare(
      "SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%' ORDER BY name",
    ).all().map(({ name }) => name as string).filter((name) => !TABLE_NAMES.includes(name));
    for (const name of tables) {
      say(this.#count(`"${name.replaceAll('"', '""')}"`), `row of ${name}`, `rows of ${name}`);
    }
    return left;
  }

  /**
   * A channel, its entries read as they are walked.
   *
   * @param walked hears of every so many entries
   * @throws Error naming the channel when its numbers contradict each other, also while it is walked
   */
  stored(channel: SourceChannel, walked: (entries: number) => void): EncodedChannel {
    const { name, kind, next, floor } = channel;
    if (!(kind in TABLES)) throw new Error(`channel ${name} is of no known type, ${kind}`);
    if (floor < 1 || floor > next || !Number.isSafeInteger(next)) {
      throw new Error(`channel ${name} has floor ${floor} and next offset ${next}`);
    }
    for (const other of STORE_KINDS) {
      if (other === kind || this.#countOf(TABLES[other], name) === 0) continue;
      throw new Error(`channel ${name} is of type ${kind} and has rows in ${TABLES[other]}`);
    }
    const nothing: Listed<never> = [];
    const entries = listed(channel.entries, () => this.#entries(channel, walked));
    return {
      name,
      kind,
      next,
      floor,
      records: kind === "queue" ? nothing : entries as Listed<StoredRecord>,
      jobs: kind === "queue" ? entries as Listed<Job> : nothing,
      positions: kind === "append" ? this.#positions(channel) : nothing,
      holds: nothing,
    };
  }

  *#entries(
    channel: SourceChannel,
    walked: (entries: number) => void,
  ): Generator<StoredRecord | Job> {
    const { name, next, floor } = channel;
    let last = 0;
    let count = 0;
    for (const batch of batches(this.#rows(channel))) {
      const history = batch as unknown as JobRow[];
      const decoded = decode(name, batch);
      for (let i = 0; i < decoded.length; i++) {
        const record = decoded[i];
        const { offset, message } = record;
        if (offset <= last || offset < floor || offset >= next || message.qos > 2) {
          throw new Error(
            `channel ${name} has an entry at offset ${offset} of QoS ${message.qos}, ` +
              `with floor ${floor} and next offset ${next}`,
          );
        }
        last = offset;
        if (channel.kind !== "queue") yield record;
        else {
          const attempts = history[i][HISTORY_COLUMN] as number;
          yield {
            ...record,
            attempts: u32(attempts, `attempts of job ${offset} of channel ${name}`),
            firstDelivered: BigInt(history[i][HISTORY_COLUMN + 1] as string),
            lastDelivered: BigInt(history[i][HISTORY_COLUMN + 2] as string),
          };
        }
        if (++count % ENTRIES_PER_REPORT === 0) walked(ENTRIES_PER_REPORT);
      }
    }
    walked(count % ENTRIES_PER_REPORT);
  }

  *#rows({ name, kind }: SourceChannel): Iterable<MessageRow> {
    const rows = (sql: string) =>
      arraysOf(this.database, sql).iterate(name) as unknown as Iterable<MessageRow>;
    if (kind === "append") {
      yield* rows(
        `SELECT offset, ${messageColumns(RECORD_FLAGS_SQL, "client", "only_for")} FROM records ` +
          "WHERE channel = ? ORDER BY offset",
      );
    } else if (kind === "queue") {
      yield* rows(
        `SELECT offset, ${messageColumns(FLAGS_SQL)}, attempts, CAST(first_delivered AS TEXT), ` +
          "CAST(last_delivered AS TEXT) FROM queue_items WHERE channel = ? ORDER BY offset",
      );
    } else {
      // Only the topics are sorted: the payloads of a whole channel would go through a temporary file.
      const topics = this.database.prepare(
        "SELECT topic FROM latest_values WHERE channel = ? ORDER BY offset",
      ).iterate(name);
      const value: StatementSync = arraysOf(
        this.database,
        `SELECT offset, ${messageColumns(FLAGS_SQL)} FROM latest_values ` +
          "WHERE channel = ? AND topic = ?",
      );
      for (const { topic } of topics) {
        yield value.get(name, topic as string) as unknown as MessageRow;
      }
    }
  }

  #positions({ name, next }: SourceChannel): Position[] {
    const rows = this.database.prepare(
      "SELECT reader, offset, expiry, CAST(last_seen AS TEXT) AS last_seen FROM positions " +
        "WHERE channel = ? ORDER BY reader",
    ).all(name);
    return rows.map((row) => {
      const reader = row.reader as string;
      const offset = row.offset as Offset;
      if (offset < 1 || offset > next) {
        throw new Error(`channel ${name} has the position of ${reader} at ${offset} of ${next}`);
      }
      return {
        reader,
        offset,
        expiry: u32(row.expiry as number, `expiry of ${reader} in channel ${name}`),
        lastSeen: BigInt(row.last_seen as string),
      };
    });
  }

  #count(table: string): number {
    return this.database.prepare(`SELECT count(*) AS n FROM ${table}`).get()!.n as number;
  }

  #countOf(table: string, channel: string): number {
    return this.database.prepare(`SELECT count(*) AS n FROM ${table} WHERE channel = ?`)
      .get(channel)!.n as number;
  }
}

function listed<T>(length: number, walk: () => Iterator<T>): Listed<T> {
  return { length, [Symbol.iterator]: walk };
}

function* batches(rows: Iterable<MessageRow>): Generator<MessageRow[]> {
  let batch: MessageRow[] = [];
  let bytes = 0;
  for (const row of rows) {
    batch.push(row);
    bytes += row[PAYLOAD_COLUMN].byteLength;
    if (batch.length < BATCH_ROWS && bytes < BATCH_BYTES) continue;
    yield batch;
    batch = [];
    bytes = 0;
  }
  if (batch.length > 0) yield batch;
}

function decode(channel: string, rows: readonly MessageRow[]): StoredRecord[] {
  try {
    return unpackRecords(packRows(rows));
  } catch (error) {
    throw new Error(
      `channel ${channel} has damaged headers or properties between offsets ${rows[0][0]} and ` +
        `${rows[rows.length - 1][0]}: ${(error as Error).message}`,
      { cause: error },
    );
  }
}

function u32(value: number, what: string): number {
  if (Number.isInteger(value) && value >= 0 && value <= U32_MAX) return value;
  throw new Error(`${what} is ${value}, which nothing here ever stores`);
}
