import type { Nanoseconds } from "../../platform/clock.ts";
import { BROADCAST_LOG, type Hold } from "../contract.ts";
import { readerEnded } from "../readers.ts";
import { SqliteAppend } from "./append.ts";
import type { StoredHold, StoredPosition } from "./messages.ts";
import type { ReadPool } from "./read_pool.ts";
import type { WriteQueue } from "./write_queue.ts";

/** Rows of positions or holds one transaction drops. */
const ROWS_PER_DROP = 500;

/** The parts of an open provider that a start looks through. */
export interface Swept {
  readonly reads: ReadPool;
  readonly writes: WriteQueue;
  readonly stores: ReadonlyMap<string, unknown>;
}

/** Drops the positions of ended sessions, page by page (S40). @return how many */
export async function sweepPositions(
  { reads, writes, stores }: Swept,
  held: (clientId: string) => boolean,
  now: Nanoseconds,
): Promise<number> {
  let dropped = 0;
  let after: readonly [string, string] = ["", ""];
  for (;;) {
    const page = await reads.read<StoredPosition[]>({ op: "sessionPositions", after });
    if (page.length === 0) return dropped;
    const last = page[page.length - 1];
    after = [last.channel, last.reader];
    // The cursors on the log live and go with their session (S42).
    const ended = page.filter((row) =>
      row.channel !== BROADCAST_LOG && readerEnded(row, held, now)
    );
    for (let at = 0; at < ended.length; at += ROWS_PER_DROP) {
      const rows = ended.slice(at, at + ROWS_PER_DROP);
      dropped += await writes.write<number>("maintenance", { op: "dropPositions", rows });
    }
    for (const { channel, reader } of ended) {
      const store = stores.get(channel);
      if (store instanceof SqliteAppend) store.positions.delete(reader);
    }
  }
}

/** The holds there are; those of channels not kept here, and those `keep` refuses, go (S105, S106). */
export async function recoverHolds(
  { reads, writes, stores }: Swept,
  keep: (channel: string, hold: Omit<Hold, "message">) => boolean,
): Promise<{ readonly kept: readonly StoredHold[]; readonly abandoned: number }> {
  const kept: StoredHold[] = [];
  let abandoned = 0;
  let after: readonly [string, string, number] = ["", "", 0];
  for (;;) {
    const page = await reads.read<StoredHold[]>({ op: "holds", after });
    if (page.length === 0) return { kept, abandoned };
    const last = page[page.length - 1];
    after = [last.channel, last.clientId, last.packetId];
    const gone: StoredHold[] = [];
    for (const hold of page) {
      if (stores.has(hold.channel) && keep(hold.channel, hold)) kept.push(hold);
      else gone.push(hold);
    }
    for (let at = 0; at < gone.length; at += ROWS_PER_DROP) {
      const rows = gone.slice(at, at + ROWS_PER_DROP);
      abandoned += await writes.write<number>("maintenance", { op: "dropHolds", rows });
    }
  }
}
