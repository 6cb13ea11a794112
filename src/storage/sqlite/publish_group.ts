import { type PublishEntry, type PublishRow, type RecordRow, StorageFailure } from "../contract.ts";
import { QueueLeases } from "../queue_leases.ts";
import { type Message, recordSize } from "../record.ts";
import type { ChannelState } from "./channel_state.ts";
import { packExtensionRow } from "./extension_packing.ts";
import { FIRST_OF_ENTRY, type PublishAnswer, RowKind } from "./messages.ts";
import { goesOn, type Hearing, type Turn } from "./outcomes.ts";
import { type Pack, Packer } from "./packing.ts";

/** A store of this provider as its publish rows name it. */
export interface StateHolder {
  readonly state: ChannelState;
}

interface Decision {
  readonly answer: PublishAnswer | undefined;
  readonly failure: StorageFailure | undefined;
  readonly heard: (entry: PublishEntry) => void;
  readonly thrown: (error: unknown) => void;
}

/**
 * Publish entries on their way through one transaction. Formed in one turn, when the writer is free;
 * a record that would pass its channel's bound is turned away here and its neighbours go on (S125).
 */
export class PublishGroup implements Hearing {
  #entries: PublishEntry[] = [];
  /** By place in `#entries`. */
  #refused: Map<number, StorageFailure> | undefined;
  /** Store and size of each record that counts against a bound until the answer. */
  #forming: { state: ChannelState; size: number }[] = [];
  #decision: Decision | undefined;
  /** Entries that heard of it, and the rows of those that were written. */
  #told = 0;
  #row = 0;

  constructor(private readonly packer: Packer) {}

  /** Entries of the group. */
  get length(): number {
    return this.#entries.length;
  }

  /** Entries that were turned away. */
  get refused(): number {
    return this.#refused?.size ?? 0;
  }

  /** Rows to be written; 0 when every entry was turned away. */
  get rows(): number {
    return this.packer.rows;
  }

  add(entry: PublishEntry): void {
    const { rows } = entry;
    const refusal = rows.length === 1 ? this.#addRow(rows[0]) : this.#addRows(rows);
    if (refusal !== undefined) {
      this.#refused ??= new Map();
      this.#refused.set(this.#entries.length, refusal);
    }
    this.#entries.push(entry);
  }

  pack(): Pack {
    return this.packer.finish();
  }

  #addRow(row: PublishRow): StorageFailure | undefined {
    if (!isRecord(row)) {
      packExtensionRow(this.packer, row, FIRST_OF_ENTRY);
      return undefined;
    }
    const state = stateOf(row);
    const message = messageOf(row);
    const size = recordSize(message);
    if (bounded(row, state) && !this.#charge(row, state, size)) return atBound(state);
    this.#pack(row, state, message, size, FIRST_OF_ENTRY);
    return undefined;
  }

  /** All rows of an entry or none: what one of them is refused for, the others give back. */
  #addRows(rows: readonly PublishRow[]): StorageFailure | undefined {
    const before = this.#forming.length;
    for (const row of rows) {
      if (!isRecord(row)) continue;
      const state = stateOf(row);
      if (!bounded(row, state)) continue;
      if (this.#charge(row, state, recordSize(messageOf(row)))) continue;
      for (const { state, size } of this.#forming.splice(before)) state.formingBytes -= size;
      return atBound(state);
    }
    rows.forEach((row, i) => {
      const first = i === 0 ? FIRST_OF_ENTRY : 0;
      if (!isRecord(row)) return packExtensionRow(this.packer, row, first);
      const message = messageOf(row);
      this.#pack(row, stateOf(row), message, recordSize(message), first);
    });
    return undefined;
  }

  /** False when the channel has no room. A hold only asks: it is counted by the provider (D5.2). */
  #charge(row: RecordRow, state: ChannelState, size: number): boolean {
    if (!state.hasRoomFor(size)) return false;
    if (row.kind === "hold") return true;
    state.formingBytes += size;
    this.#forming.push({ state, size });
    return true;
  }

  #pack(
    row: RecordRow,
    state: ChannelState,
    message: Message,
    size: number,
    first: number,
  ): void {
    if (row.kind === "hold") {
      const { packetId, heldAt } = row.hold;
      this.packer.add(message, RowKind.Hold | first, state.index, packetId, size, heldAt);
    } else {
      this.packer.add(message, KINDS[row.kind] | first, state.index, 0, size, 0n);
    }
  }

  /** What became of it, which is told by `tell`. `heard`: an entry waits no longer, and hears of it next. */
  decided(
    answer: PublishAnswer | undefined,
    failure: StorageFailure | undefined,
    heard: (entry: PublishEntry) => void,
    thrown: (error: unknown) => void,
  ): this {
    this.#decision = { answer, failure, heard, thrown };
    return this;
  }

  /**
   * Hands the answer out: offsets into the rows, and `settled` in the order of submission. The counters were
   * applied before (S15). A `settled` that throws is reported; the others are settled all the same.
   */
  tell(turn: Turn): boolean {
    const { answer, failure, heard, thrown } = this.#decision!;
    const offsets = answer?.offsets;
    const failures = answer?.failures;
    while (this.#told < this.#entries.length) {
      const entry = this.#entries[this.#told];
      let outcome = this.#refused?.get(this.#told);
      if (outcome === undefined) {
        const single = entry.rows.length === 0 ? undefined : failures?.get(this.#row);
        outcome = single === undefined ? failure : new StorageFailure(single.kind, single.text);
        for (const published of entry.rows) {
          if (offsets !== undefined) published.offset = offsets[this.#row];
          this.#row++;
        }
      }
      this.#told++;
      heard(entry);
      try {
        entry.settled(outcome);
      } catch (error) {
        thrown(error);
      }
      if (!goesOn(turn, entry)) return this.#told === this.#entries.length;
    }
    return true;
  }

  /** The group is answered: its records count in the channels' own counters now, or not at all. */
  discharge(): void {
    for (const { state, size } of this.#forming) state.formingBytes -= size;
    this.#forming.length = 0;
  }
}

const KINDS = {
  append: RowKind.Append,
  set: RowKind.Set,
  retain: RowKind.Retain,
  enqueue: RowKind.Enqueue,
} as const;

/** Rows of tables outside the eleven count against no channel and take no offset. */
function isRecord(row: PublishRow): row is RecordRow {
  return row.kind !== "amqp-copy" && row.kind !== "amqp-drop" && row.kind !== "ingest";
}

function messageOf(row: RecordRow): Message {
  if (row.kind !== "hold") return row.message;
  const { message, clientId } = row.hold;
  return message.clientId === clientId ? message : { ...message, clientId };
}

function stateOf(row: RecordRow): ChannelState {
  const { store } = row;
  if (store instanceof QueueLeases) return (store.rows as unknown as StateHolder).state;
  return (store as unknown as StateHolder).state;
}

/** Whether a row is asked for its channel's bound at all; `latest` has none (S177). */
function bounded(row: RecordRow, state: ChannelState): boolean {
  return state.maxBytes !== undefined && row.kind !== "set" && row.kind !== "retain";
}

function atBound({ channel }: ChannelState): StorageFailure {
  return new StorageFailure("full", `channel "${channel}" is at its max_bytes`);
}
