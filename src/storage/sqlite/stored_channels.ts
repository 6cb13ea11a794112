import type { DatabaseSync, StatementSync } from "node:sqlite";
import type { StoreKind, StoreSpec } from "../contract.ts";
import { FIRST_OFFSET, type Offset } from "../record.ts";

/**
 * The writer's counters of one store: what the running transaction has made of them, and what was
 * committed before it.
 */
export class StoredChannel {
  next: Offset;
  floor: Offset;
  /** Sum of record sizes; of a latest store always 0 (S177). */
  bytes: number;
  /** Jobs of a queue; topics of a latest store. */
  depth = 0;
  committed: { next: Offset; floor: Offset; bytes: number; depth: number };
  changed = false;

  constructor(
    readonly index: number,
    readonly name: string,
    readonly kind: StoreKind,
    row: { next: Offset; floor: Offset; bytes: number },
  ) {
    this.next = row.next;
    this.floor = row.floor;
    this.bytes = row.bytes;
    this.committed = { ...row, depth: 0 };
  }
}

/**
 * The counter rows of the stores a provider was opened with. Offsets are assigned here and nowhere
 * else, and whatever changes a counter does it inside its own transaction (S16, S17).
 */
export class StoredChannels {
  #channels: StoredChannel[] = [];
  #changed: StoredChannel[] = [];
  #update: StatementSync;

  constructor(database: DatabaseSync) {
    this.#update = database.prepare(
      "UPDATE channels SET next = ?, floor = ?, bytes = ? WHERE name = ?",
    );
  }

  /**
   * Reads, or inside the caller's transaction creates, the row of each store.
   * @throws Error when a stored channel is of another type (S78)
   */
  load(database: DatabaseSync, stores: readonly StoreSpec[]): void {
    const select = database.prepare("SELECT kind, next, floor, bytes FROM channels WHERE name = ?");
    const insert = database.prepare("INSERT INTO channels VALUES (?, ?, 1, 1, 0)");
    for (const { channel, kind } of stores) {
      const row = select.get(channel) as
        | { kind: string; next: number; floor: number; bytes: number }
        | undefined;
      if (row === undefined) insert.run(channel, kind);
      else if (row.kind !== kind) {
        throw new Error(
          `channel "${channel}" is stored as type ${row.kind} and configured as ${kind}; ` +
            `give it the stored type, or another name or storage`,
        );
      }
      const counters = row ?? { next: FIRST_OFFSET, floor: FIRST_OFFSET, bytes: 0 };
      this.#channels.push(new StoredChannel(this.#channels.length, channel, kind, counters));
    }
  }

  at(index: number): StoredChannel {
    return this.#channels[index];
  }

  all(): readonly StoredChannel[] {
    return this.#channels;
  }

  named(name: string): StoredChannel | undefined {
    return this.#channels.find((channel) => channel.name === name);
  }

  /** Says that the running transaction changes this store's counters. */
  touch(channel: StoredChannel): void {
    if (channel.changed) return;
    channel.changed = true;
    this.#changed.push(channel);
  }

  /** Writes each changed row once: the last statements before a commit (S124). */
  write(): void {
    for (const channel of this.#changed) {
      const { next, floor, bytes, committed } = channel;
      const rowBytes = channel.kind === "queue" ? 0 : bytes;
      const rowHad = channel.kind === "queue" ? 0 : committed.bytes;
      if (next === committed.next && floor === committed.floor && rowBytes === rowHad) continue;
      this.#update.run(next, floor, rowBytes, channel.name);
    }
  }

  /** After a commit: what was changed is now what was committed. Adds the stores to `touched`. */
  keep(touched: Set<StoredChannel>): void {
    for (const channel of this.#changed) {
      const { committed } = channel;
      committed.next = channel.next;
      committed.floor = channel.floor;
      committed.bytes = channel.bytes;
      committed.depth = channel.depth;
      channel.changed = false;
      touched.add(channel);
    }
    this.#changed.length = 0;
  }

  /** After a rollback: every offset taken is given back (S16). */
  revert(): void {
    for (const channel of this.#changed) {
      const { committed } = channel;
      channel.next = committed.next;
      channel.floor = committed.floor;
      channel.bytes = committed.bytes;
      channel.depth = committed.depth;
      channel.changed = false;
    }
    this.#changed.length = 0;
  }
}

/** Counters as an answer carries them. */
export function countersOf(channels: Iterable<StoredChannel>): number[] {
  const counters: number[] = [];
  for (const { index, committed } of channels) {
    counters.push(index, committed.next, committed.floor, committed.bytes, committed.depth);
  }
  return counters;
}
