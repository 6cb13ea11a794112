import type { DatabaseSync, StatementSync } from "node:sqlite";
import { arraysOf } from "./connection.ts";
import { type Offset, recordSize } from "../record.ts";
import type { StoredHold, StoredPosition, Write } from "./messages.ts";
import { RowKind } from "./messages.ts";
import { storedSize } from "./opening.ts";
import type { SizedRow } from "./opening.ts";
import { FLAGS_SQL, messageColumns, type MessageRow, packRows, Unpacker } from "./packing.ts";
import type { PackedRecords } from "./packing.ts";
import { amqpWriteRelieves } from "./amqp_messages.ts";
import type { PublishRows } from "./publish_rows.ts";
import { Refused } from "./refused.ts";
import { SessionWrites } from "./session_writes.ts";
import type { StoredChannel, StoredChannels } from "./stored_channels.ts";

/** Writes that relieve a full provider (S185). */
export function mayUseReserve(write: Write): boolean {
  switch (write.op) {
    case "savePosition":
    case "dropPosition":
    case "abandonHold":
    case "releaseHold":
    case "recordAttempt":
    case "removeJob":
    case "deadLetter":
    case "endSession":
    case "changeWindow":
    case "dropPositions":
    case "dropHolds":
    case "trimIngested":
      return true;
    case "amqp":
      return amqpWriteRelieves(write.write);
    default:
      return false;
  }
}

/** Rows one trim takes in one transaction: a long removal is many, so publishes go between. */
export const TRIM_ROWS = 1000;

/** The statements of every write that is not a publish. The transaction is the caller's. */
export class Writes {
  #updatePosition: StatementSync;
  #insertPosition: StatementSync;
  #deletePosition: StatementSync;
  #selectHold: StatementSync;
  #deleteHold: StatementSync;
  #updateAttempts: StatementSync;
  #selectJobSize: StatementSync;
  #deleteJob: StatementSync;
  #oldestRecords: StatementSync;
  #selectRecordSize: StatementSync;
  #deleteRecordsTo: StatementSync;
  #deleteRecord: StatementSync;
  #lowestRecord: StatementSync;
  #selectValue: StatementSync;
  #deleteValue: StatementSync;
  #sessions: SessionWrites;

  constructor(
    database: DatabaseSync,
    private readonly channels: StoredChannels,
    private readonly rows: PublishRows,
  ) {
    this.#updatePosition = database.prepare(
      "UPDATE positions SET offset = ?, expiry = ?, last_seen = ? WHERE channel = ? AND reader = ?",
    );
    this.#insertPosition = database.prepare(
      "INSERT INTO positions (offset, expiry, last_seen, channel, reader) VALUES (?, ?, ?, ?, ?)",
    );
    this.#deletePosition = database.prepare(
      "DELETE FROM positions WHERE channel = ? AND reader = ?",
    );
    this.#selectHold = arraysOf(
      database,
      `SELECT 0, ${messageColumns(FLAGS_SQL)} FROM held_publishes ` +
        "WHERE channel = ? AND client = ? AND packet = ?",
    );
    this.#deleteHold = database.prepare(
      "DELETE FROM held_publishes WHERE channel = ? AND client = ? AND packet = ?",
    );
    this.#updateAttempts = database.prepare(
      "UPDATE queue_items SET attempts = ?1, last_delivered = ?2, first_delivered = " +
        "CASE WHEN first_delivered = 0 THEN ?2 ELSE first_delivered END " +
        "WHERE channel = ?3 AND offset = ?4",
    );
    const sized =
      "offset, topic, message_id AS messageId, headers, length(payload) AS payloadBytes";
    this.#selectJobSize = database.prepare(
      `SELECT ${sized} FROM queue_items WHERE channel = ? AND offset = ?`,
    );
    this.#deleteJob = database.prepare("DELETE FROM queue_items WHERE channel = ? AND offset = ?");
    this.#oldestRecords = database.prepare(
      `SELECT ${sized}, CAST(timestamp AS TEXT) AS timestamp FROM records ` +
        `WHERE channel = ? ORDER BY offset LIMIT ${TRIM_ROWS + 1}`,
    );
    this.#selectRecordSize = database.prepare(
      `SELECT ${sized} FROM records WHERE channel = ? AND offset = ?`,
    );
    this.#deleteRecordsTo = database.prepare(
      "DELETE FROM records WHERE channel = ? AND offset <= ?",
    );
    this.#deleteRecord = database.prepare("DELETE FROM records WHERE channel = ? AND offset = ?");
    this.#lowestRecord = database.prepare(
      "SELECT offset FROM records WHERE channel = ? ORDER BY offset LIMIT 1",
    );
    this.#selectValue = database.prepare(
      `SELECT ${sized} FROM latest_values WHERE channel = ? AND topic = ?`,
    );
    this.#deleteValue = database.prepare(
      "DELETE FROM latest_values WHERE channel = ? AND topic = ?",
    );
    this.#sessions = new SessionWrites(database, channels, {
      savePosition: (...position) => this.#savePosition(...position),
      dropPosition: (channel, reader) => this.#dropPosition(channel, reader),
    });
  }

  /** @throws Refused when what it reads forbids it, with nothing written */
  run(write: Write): unknown {
    switch (write.op) {
      case "savePosition": {
        const { reader, offset, expiry, lastSeen } = write.position;
        return this.#savePosition(
          this.channels.at(write.store).name,
          reader,
          offset,
          expiry,
          lastSeen,
        );
      }
      case "dropPosition":
        return this.#dropPosition(this.channels.at(write.store).name, write.reader);
      case "abandonHold": {
        const { name } = this.channels.at(write.store);
        return changed(this.#deleteHold.run(name, write.clientId, write.packetId)) === 1;
      }
      case "releaseHold":
        return this.#releaseHold(write);
      case "amqp":
        return this.rows.amqp!.run(write.write);
      case "trimIngested":
        return this.rows.ingest!.trim(write.table, write.before);
      case "recordAttempt": {
        const { name } = this.channels.at(write.store);
        return changed(this.#updateAttempts.run(write.attempts, write.at, name, write.offset)) ===
          1;
      }
      case "removeJob":
        return this.#removeJob(this.channels.at(write.store), write.offset);
      case "deadLetter":
        return this.#deadLetter(write);
      case "trimRecords":
        return this.#trimRecords(write);
      case "removeRecords":
        return this.removeRecords(this.channels.at(write.store), write.offsets);
      case "removeValues":
        return this.#removeValues(this.channels.at(write.store), write.values);
      case "dropPositions":
        return this.#dropPositions(write.rows);
      case "dropHolds":
        return this.#dropHolds(write.rows);
      default:
        return this.#sessions.run(write);
    }
  }

  #savePosition(
    channel: string,
    reader: string,
    offset: Offset,
    expiry: number,
    lastSeen: bigint,
  ): void {
    const updated = this.#updatePosition.run(offset, expiry, lastSeen, channel, reader);
    if (changed(updated) === 0) {
      this.#insertPosition.run(offset, expiry, lastSeen, channel, reader);
    }
  }

  #dropPosition(channel: string, reader: string): boolean {
    return changed(this.#deletePosition.run(channel, reader)) === 1;
  }

  // ------------------------------------------------------------------------------------ holds

  /** The record takes the next offset and the hold goes, or neither (S104). */
  #releaseHold(write: Extract<Write, { op: "releaseHold" }>): PackedRecords | undefined {
    const channel = this.channels.at(write.store);
    const held = this.#selectHold.get(channel.name, write.clientId, write.packetId) as unknown as
      | MessageRow
      | undefined;
    if (held === undefined) return undefined;
    const CLIENT = 10;
    held[CLIENT] = write.clientId;
    const pack = packRows([held]);
    const row = new Unpacker(pack);
    row.next();
    row.tag = channel.index;
    row.size = recordSize(row.message());
    if (write.maxBytes !== undefined && channel.bytes + row.size > write.maxBytes) {
      throw new Refused(`channel "${channel.name}" is at its max_bytes`, "full");
    }
    const kinds = { append: RowKind.Append, latest: RowKind.Set, queue: RowKind.Enqueue };
    pack.offsets[0] = this.rows.write(row, kinds[channel.kind]);
    this.rows.flush();
    if (write.copies !== undefined) {
      const copies = new Unpacker(write.copies);
      while (copies.next()) this.rows.write(copies, copies.kind);
    }
    this.#deleteHold.run(channel.name, write.clientId, write.packetId);
    return pack;
  }

  // ------------------------------------------------------------------------------------- jobs

  #removeJob(channel: StoredChannel, offset: Offset): boolean {
    const job = this.#selectJobSize.get(channel.name, offset) as unknown as SizedRow | undefined;
    if (job === undefined) return false;
    this.#deleteJob.run(channel.name, offset);
    this.channels.touch(channel);
    channel.bytes -= storedSize(job);
    channel.depth--;
    return true;
  }

  /** Out of the queue and into the dead-letter channel, both or neither (S143). */
  #deadLetter(write: Extract<Write, { op: "deadLetter" }>): Offset | undefined {
    if (!this.#removeJob(this.channels.at(write.store), write.offset)) return undefined;
    const row = new Unpacker(write.letter);
    row.next();
    const offset = this.rows.append(this.channels.at(row.tag), row);
    this.rows.flush();
    return offset;
  }

  // ---------------------------------------------------------------------------------- removal

  /**
   * Walks from the oldest and stops at the first that must stay (S191): cost follows what goes. `more`
   * says that the bound on one transaction ended the walk.
   */
  #trimRecords(
    write: Extract<Write, { op: "trimRecords" }>,
  ): { removed: number; freed: number; more: boolean } {
    const channel = this.channels.at(write.store);
    const { before, maxBytes = Infinity } = write;
    let removed = 0;
    let freed = 0;
    let last = 0;
    let more = false;
    type OldRow = SizedRow & { offset: Offset; timestamp: string };
    for (const row of this.#oldestRecords.all(channel.name) as unknown as OldRow[]) {
      const at = BigInt(row.timestamp);
      const tooOld = at !== 0n && at < before;
      if (!tooOld && channel.bytes - freed <= maxBytes) break;
      more = removed === TRIM_ROWS;
      if (more) break;
      removed++;
      freed += storedSize(row);
      last = row.offset;
    }
    if (removed > 0) {
      this.#deleteRecordsTo.run(channel.name, last);
      this.#raiseFloor(channel, freed);
    }
    return { removed, freed, more };
  }

  removeRecords(
    channel: StoredChannel,
    offsets: readonly Offset[],
  ): { removed: number; freed: number } {
    let removed = 0;
    let freed = 0;
    for (const offset of offsets) {
      const row = this.#selectRecordSize.get(channel.name, offset) as unknown as
        | SizedRow
        | undefined;
      if (row === undefined) continue;
      this.#deleteRecord.run(channel.name, offset);
      removed++;
      freed += storedSize(row);
    }
    if (removed > 0) this.#raiseFloor(channel, freed);
    return { removed, freed };
  }

  /** The floor is the lowest offset still held, or `next` when nothing is (S29, S108). */
  #raiseFloor(channel: StoredChannel, freed: number): void {
    const lowest = this.#lowestRecord.get(channel.name)?.offset as Offset | undefined;
    this.channels.touch(channel);
    channel.floor = Math.max(channel.floor, lowest ?? channel.next);
    channel.bytes -= freed;
  }

  #removeValues(
    channel: StoredChannel,
    values: readonly { readonly topic: string; readonly offset: Offset }[],
  ): { removed: number; freed: number } {
    let removed = 0;
    let freed = 0;
    for (const { topic, offset } of values) {
      const row = this.#selectValue.get(channel.name, topic) as unknown as
        | SizedRow & { offset: Offset }
        | undefined;
      if (row?.offset !== offset) continue;
      this.#deleteValue.run(channel.name, topic);
      this.channels.touch(channel);
      channel.depth--;
      removed++;
      freed += storedSize(row);
    }
    return { removed, freed };
  }

  #dropPositions(rows: readonly StoredPosition[]): number {
    let dropped = 0;
    for (const { channel, reader } of rows) {
      dropped += changed(this.#deletePosition.run(channel, reader));
    }
    return dropped;
  }

  #dropHolds(rows: readonly StoredHold[]): number {
    let dropped = 0;
    for (const { channel, clientId, packetId } of rows) {
      dropped += changed(this.#deleteHold.run(channel, clientId, packetId));
    }
    return dropped;
  }
}

function changed(result: { readonly changes: number | bigint }): number {
  return Number(result.changes);
}
