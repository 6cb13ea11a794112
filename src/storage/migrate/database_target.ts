import { dirname } from "node:path/posix";
import type { DatabaseSync, StatementSync } from "node:sqlite";
import { syncDirectory } from "../../platform/files.ts";
import type { StoreKind } from "../contract.ts";
import { createPrivate } from "../lock.ts";
import type { ChannelState } from "../memory/state.ts";
import { type Message, type Offset, recordSize } from "../record.ts";
import { openForWriting, pragma } from "../sqlite/connection.ts";
import { headersText, propertiesText } from "../sqlite/message_text.ts";
import { createSchema, MESSAGE_COLUMNS } from "../sqlite/schema.ts";
import { BESIDE_DATABASE, removeIfThere } from "./places.ts";
import { ENTRIES_PER_REPORT } from "./report.ts";

/** The write-ahead log is copied into the file between transactions once it has so many pages. */
const CHECKPOINT_PAGES = 16_384;

type Value = string | number | bigint | null | Uint8Array;

/** A new database that snapshots are moved into, one transaction a file (S166). */
export class DatabaseTarget {
  #begin: StatementSync;
  #commit: StatementSync;
  #rollback: StatementSync;
  #findChannel: StatementSync;
  #insertChannel: StatementSync;
  #insertRecord: StatementSync;
  #insertValue: StatementSync;
  #insertJob: StatementSync;
  #insertPosition: StatementSync;

  private constructor(private readonly path: string, private readonly database: DatabaseSync) {
    pragma(database, `wal_autocheckpoint=${CHECKPOINT_PAGES}`);
    const insert = (table: string, columns: string) => {
      const slots = columns.split(",").map(() => "?").join(", ");
      return database.prepare(`INSERT INTO ${table} (${columns}) VALUES (${slots})`);
    };
    this.#begin = database.prepare("BEGIN IMMEDIATE");
    this.#commit = database.prepare("COMMIT");
    this.#rollback = database.prepare("ROLLBACK");
    this.#findChannel = database.prepare("SELECT 1 FROM channels WHERE name = ?");
    this.#insertChannel = insert("channels", "name, kind, next, floor, bytes");
    this.#insertRecord = insert(
      "records",
      `channel, offset, topic, ${MESSAGE_COLUMNS}, group_copy, only_for`,
    );
    this.#insertValue = insert("latest_values", `channel, topic, offset, ${MESSAGE_COLUMNS}`);
    this.#insertJob = insert(
      "queue_items",
      `channel, offset, attempts, first_delivered, last_delivered, topic, ${MESSAGE_COLUMNS}`,
    );
    this.#insertPosition = insert("positions", "channel, reader, offset, expiry, last_seen");
  }

  /**
   * @param revision of the build, which the file says it was created by
   * @throws whatever the system or SQLite says; nothing is then there
   */
  static create(path: string, revision: string, now: bigint): DatabaseTarget {
    if (!createPrivate(path)) throw new Error(`${path} was created by somebody else meanwhile`);
    let database: DatabaseSync | undefined;
    try {
      database = openForWriting(path);
      createSchema(database, revision, now);
      return new DatabaseTarget(path, database);
    } catch (error) {
      database?.close();
      removeDatabase(path);
      throw error;
    }
  }

  /**
   * Writes the channels of one snapshot file, all or none.
   * @param written hears of every so many entries
   */
  put(channels: readonly ChannelState[], written: (entries: number) => void): void {
    this.#begin.run();
    try {
      for (const channel of channels) this.#putChannel(channel, written);
      this.#commit.run();
    } catch (error) {
      // A full disk ends the transaction by itself.
      if (this.database.isTransaction) this.#rollback.run();
      throw error;
    }
  }

  #putChannel(channel: ChannelState, written: (entries: number) => void): void {
    const { name, kind, next, floor, records, jobs, positions } = channel;
    if (this.#findChannel.get(name) !== undefined) {
      throw new Error(`channel ${name} has come from another file already`);
    }
    let bytes = 0;
    let count = 0;
    for (const { offset, message } of records) {
      if (kind === "append") bytes += recordSize(message);
      this.#putEntry(kind, name, offset, message);
      if (++count % ENTRIES_PER_REPORT === 0) written(ENTRIES_PER_REPORT);
    }
    for (const { offset, message, attempts, firstDelivered, lastDelivered } of jobs) {
      const history = [name, offset, attempts, firstDelivered, lastDelivered];
      this.#insertJob.run(...history, message.topic, ...columns(message));
      if (++count % ENTRIES_PER_REPORT === 0) written(ENTRIES_PER_REPORT);
    }
    for (const { reader, offset, expiry, lastSeen } of positions) {
      this.#insertPosition.run(name, reader, offset, expiry, lastSeen);
    }
    this.#insertChannel.run(name, kind, next, floor, bytes);
    written(count % ENTRIES_PER_REPORT);
  }

  #putEntry(kind: StoreKind, channel: string, offset: Offset, message: Message): void {
    const { topic } = message;
    if (kind === "latest") this.#insertValue.run(channel, topic, offset, ...columns(message));
    else {
      const { groupCopy, onlyFor } = message;
      const owed = [groupCopy ? 1 : 0, onlyFor || null];
      this.#insertRecord.run(channel, offset, topic, ...columns(message), ...owed);
    }
  }

  /** Makes the file whole by itself and durable, and closes it. */
  finish(): void {
    try {
      pragma(this.database, "wal_checkpoint(TRUNCATE)");
    } finally {
      this.database.close();
    }
    syncDirectory(dirname(this.path));
  }

  /** Closes the file and takes it away: an empty one would stand in the next attempt's way (S165). */
  discard(): void {
    this.database.close();
    removeDatabase(this.path);
  }
}

/** Values of `MESSAGE_COLUMNS`. */
function columns(message: Message): Value[] {
  return [
    message.messageId,
    message.timestamp,
    headersText(message.headers) || null,
    propertiesText(message.properties) || null,
    message.payload,
    message.retain ? 1 : 0,
    message.bridge || null,
    message.clientId || null,
    message.qos,
  ];
}

function removeDatabase(path: string): void {
  for (const suffix of ["", ...BESIDE_DATABASE]) removeIfThere(path + suffix);
}
