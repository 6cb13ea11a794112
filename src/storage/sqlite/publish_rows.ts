import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { AmqpRows } from "./amqp_rows.ts";
import type { IngestRows } from "./ingest_rows.ts";
import { RowKind } from "./messages.ts";
import type { Unpacker } from "./packing.ts";
import type { StoredChannel, StoredChannels } from "./stored_channels.ts";

type Value = string | number | bigint | null | Uint8Array;

const RECORD_COLUMNS = "channel, offset, topic, message_id, timestamp, headers, props, payload, " +
  "retain, bridge, client, qos, group_copy, only_for";
const RECORD_VALUES = 14;

/** Records of one INSERT: calling into SQLite once for eight costs a quarter less than eight calls. */
const ROWS_AT_ONCE = 8;

/** Writes the rows of publish entries, taking offsets as it goes. The transaction is the caller's. */
export class PublishRows {
  #insertRecord: StatementSync;
  #insertRecords: StatementSync;
  #updateValue: StatementSync;
  #insertValue: StatementSync;
  #deleteValue: StatementSync;
  #storeDeletion: StatementSync;
  #insertJob: StatementSync;
  #insertHold: StatementSync;
  /** Arguments of records not inserted yet. */
  #pending: Value[] = [];
  /** Set where the AMQP tables are kept in this file. */
  amqp: AmqpRows | undefined;
  /** Set where this file has ingest tables. */
  ingest: IngestRows | undefined;

  constructor(database: DatabaseSync, private readonly channels: StoredChannels) {
    const slots = (count: number) => "(" + new Array(count).fill("?").join(", ") + ")";
    const one = slots(RECORD_VALUES);
    const insert = `INSERT INTO records (${RECORD_COLUMNS}) VALUES `;
    this.#insertRecord = database.prepare(insert + one);
    this.#insertRecords = database.prepare(
      insert + new Array(ROWS_AT_ONCE).fill(one).join(", "),
    );
    const update = "UPDATE latest_values SET offset = ?, message_id = ?, timestamp = ?, " +
      "headers = ?, props = ?, payload = ?, retain = ?, bridge = ?, client = ?, qos = ? " +
      "WHERE channel = ? AND topic = ?";
    this.#updateValue = database.prepare(update);
    this.#storeDeletion = database.prepare(update + " AND length(payload) > 0");
    this.#insertValue = database.prepare(
      "INSERT INTO latest_values (offset, message_id, timestamp, headers, props, payload, " +
        `retain, bridge, client, qos, channel, topic) VALUES ${slots(12)}`,
    );
    this.#deleteValue = database.prepare(
      "DELETE FROM latest_values WHERE channel = ? AND topic = ?",
    );
    this.#insertJob = database.prepare(
      "INSERT INTO queue_items (channel, offset, attempts, first_delivered, last_delivered, " +
        "topic, message_id, timestamp, headers, props, payload, retain, bridge, client, qos) " +
        `VALUES (?, ?, 0, 0, 0, ${new Array(11 - 1).fill("?").join(", ")})`,
    );
    this.#insertHold = database.prepare(
      "INSERT INTO held_publishes (channel, client, packet, held_at, topic, message_id, " +
        `timestamp, headers, props, payload, retain, bridge, qos) VALUES ${slots(13)}`,
    );
  }

  /** Writes the current row of `row`; the offset it took, 0 for none. */
  write(row: Unpacker, kind: number): number {
    if (kind === RowKind.AmqpCopy || kind === RowKind.AmqpDrop) {
      this.amqp!.publish(row, kind);
      return 0;
    }
    if (kind === RowKind.Ingest) {
      this.ingest!.publish(row);
      return 0;
    }
    const channel = this.channels.at(row.tag);
    switch (kind) {
      case RowKind.Append:
        return this.append(channel, row);
      case RowKind.Set:
      case RowKind.Retain:
        return this.set(channel, row, kind === RowKind.Retain);
      case RowKind.Enqueue:
        return this.enqueue(channel, row);
      case RowKind.Hold:
        this.#insertHold.run(
          channel.name,
          row.client ?? "",
          row.extra,
          row.heldAt,
          row.topic,
          row.messageId,
          row.timestamp,
          row.headers,
          row.props,
          row.payload,
          row.retain,
          row.bridge,
          row.qos,
        );
        return 0;
      default:
        throw new Error(`unknown kind of publish row: ${kind}`);
    }
  }

  /** Queues a record for insertion; `flush` comes before the commit. */
  append(channel: StoredChannel, row: Unpacker): number {
    this.channels.touch(channel);
    const offset = channel.next++;
    channel.bytes += row.size;
    this.#pending.push(
      channel.name,
      offset,
      row.topic,
      row.messageId,
      row.timestamp,
      row.headers,
      row.props,
      row.payload,
      row.retain,
      row.bridge,
      row.client,
      row.qos,
      row.groupCopy,
      row.onlyFor,
    );
    if (this.#pending.length === ROWS_AT_ONCE * RECORD_VALUES) {
      const all = this.#pending;
      this.#pending = [];
      this.#insertRecords.run(...all);
    }
    return offset;
  }

  /** A value replaces its topic's; a deletion is stored where there was a value (D13.3, D13.4). */
  set(channel: StoredChannel, row: Unpacker, retained: boolean): number {
    const empty = row.payload.byteLength === 0;
    if (empty && retained) {
      this.channels.touch(channel);
      channel.depth -= Number(this.#deleteValue.run(channel.name, row.topic).changes);
      return 0;
    }
    const values: Value[] = [
      channel.next,
      row.messageId,
      row.timestamp,
      row.headers,
      row.props,
      row.payload,
      row.retain,
      row.bridge,
      row.client,
      row.qos,
      channel.name,
      row.topic,
    ];
    const replace = empty ? this.#storeDeletion : this.#updateValue;
    if (Number(replace.run(...values).changes) === 0) {
      if (empty) return 0;
      this.#insertValue.run(...values);
      channel.depth++;
    }
    this.channels.touch(channel);
    return channel.next++;
  }

  enqueue(channel: StoredChannel, row: Unpacker): number {
    this.channels.touch(channel);
    const offset = channel.next++;
    channel.bytes += row.size;
    channel.depth++;
    this.#insertJob.run(
      channel.name,
      offset,
      row.topic,
      row.messageId,
      row.timestamp,
      row.headers,
      row.props,
      row.payload,
      row.retain,
      row.bridge,
      row.client,
      row.qos,
    );
    return offset;
  }

  /** Inserts what `append` queued. */
  flush(): void {
    const all = this.#pending;
    if (all.length === 0) return;
    this.#pending = [];
    for (let at = 0; at < all.length; at += RECORD_VALUES) {
      this.#insertRecord.run(...all.slice(at, at + RECORD_VALUES));
    }
  }

  /** Forgets what was not inserted, after a failure. */
  drop(): void {
    this.#pending = [];
  }
}
