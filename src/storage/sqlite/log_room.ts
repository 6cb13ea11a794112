import type { DatabaseSync, StatementSync } from "node:sqlite";
import { BROADCAST_LOG } from "../contract.ts";
import type { Offset } from "../record.ts";
import { type SizedRow, storedSize } from "./opening.ts";
import type { StoredChannels } from "./stored_channels.ts";

/** Messages looked at for one removal. */
const MESSAGES_PER_REMOVAL = 1000;

/**
 * What the broadcast log gives up when another write finds the file full: its oldest messages, sparing
 * those on a session's wire (S109). Room is freed by the page, so more goes than was asked for.
 */
export class LogRoom {
  #oldest: StatementSync;
  #onWire: StatementSync;

  constructor(database: DatabaseSync, private readonly channels: StoredChannels) {
    this.#oldest = database.prepare(
      "SELECT offset, topic, message_id AS messageId, headers, length(payload) AS payloadBytes " +
        "FROM records WHERE channel = ? ORDER BY offset",
    );
    this.#onWire = database.prepare("SELECT DISTINCT offset FROM session_inflight");
  }

  /** The oldest messages that come to `bytes`, or all there are; empty when the log has none to give. */
  candidates(bytes: number): Offset[] {
    const log = this.channels.named(BROADCAST_LOG);
    if (log === undefined || log.floor === log.next) return [];
    const onWire = new Set(this.#onWire.all().map((row) => row.offset as Offset));
    const offsets: Offset[] = [];
    let found = 0;
    for (const row of this.#oldest.iterate(log.name)) {
      const { offset } = row as unknown as { offset: Offset };
      if (onWire.has(offset)) continue;
      offsets.push(offset);
      found += storedSize(row as unknown as SizedRow);
      if (found >= bytes || offsets.length === MESSAGES_PER_REMOVAL) break;
    }
    return offsets;
  }
}
