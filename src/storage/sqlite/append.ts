import type { Nanoseconds } from "../../platform/clock.ts";
import {
  type AppendStore,
  type BelowFloor,
  type Position,
  type Removed,
  type Urgency,
  type Window,
} from "../contract.ts";
import type { Offset } from "../record.ts";
import type { WindowAnswer } from "./messages.ts";
import { SqliteRecordStore } from "./record_store.ts";

/** Offsets one removal takes in one transaction. */
const OFFSETS_PER_REMOVAL = 500;

/** Offsets one read of a search by time looks at, so that other reads come between. */
const OFFSETS_PER_SEARCH = 20_000;

const MQTT = "mqtt:";

/** An append channel, a dead-letter channel or the broadcast log in a sqlite file. */
export class SqliteAppend extends SqliteRecordStore implements AppendStore {
  readonly kind = "append";

  /** Every stored position, so that the lowest is known without a read (S8). */
  readonly positions = new Map<string, Offset>();

  async readFrom(offset: Offset, max: number, maxBytes: number): Promise<Window | BelowFloor> {
    const { state } = this;
    // Refused from what is committed: a consumer at the end costs no read.
    if (offset < state.floor) return { belowFloor: true, floor: state.floor };
    if (offset >= state.next) return { belowFloor: false, floor: state.floor, records: [] };
    const { floor, records } = await this.parts.reads.read<WindowAnswer>({
      op: "window",
      store: state.index,
      from: offset,
      max,
      maxBytes,
    });
    if (records === undefined) return { belowFloor: true, floor };
    return { belowFloor: false, floor, records: this.unpack(records) };
  }

  async firstAtOrAfter(
    time: Nanoseconds,
  ): Promise<{ readonly offset: Offset; readonly found: boolean }> {
    const { state } = this;
    for (let from = state.floor; from < state.next; from += OFFSETS_PER_SEARCH) {
      const offset = await this.parts.reads.read<Offset | undefined>({
        op: "firstAtOrAfter",
        store: state.index,
        time,
        from,
        end: from + OFFSETS_PER_SEARCH,
      });
      if (offset !== undefined) return { offset, found: true };
    }
    return { offset: state.next, found: false };
  }

  async trim(before: Nanoseconds, maxBytes: number | undefined): Promise<Removed> {
    let removed = 0;
    let freed = 0;
    if (!await this.#hasSomethingToTrim(before, maxBytes)) return { removed, freed };
    for (let more = true; more;) {
      const trimmed = await this.parts.writes.write<Removed & { readonly more: boolean }>(
        "maintenance",
        { op: "trimRecords", store: this.state.index, before, maxBytes },
      );
      removed += trimmed.removed;
      freed += trimmed.freed;
      more = trimmed.more;
    }
    return { removed, freed };
  }

  /** A channel under its bound reads nothing; an age is one read of the oldest (S194, S195). */
  async #hasSomethingToTrim(
    before: Nanoseconds,
    maxBytes: number | undefined,
  ): Promise<boolean> {
    const { floor, next, bytes, index: store } = this.state;
    if (floor === next) return false;
    if (maxBytes !== undefined && bytes > maxBytes) return true;
    if (before === 0n) return false;
    const oldest = await this.parts.reads.read<Nanoseconds | undefined>({ op: "oldest", store });
    return oldest !== undefined && oldest !== 0n && oldest < before;
  }

  async removeMany(offsets: readonly Offset[]): Promise<Removed> {
    let removed = 0;
    let freed = 0;
    for (let at = 0; at < offsets.length; at += OFFSETS_PER_REMOVAL) {
      const part = offsets.slice(at, at + OFFSETS_PER_REMOVAL);
      const went = await this.parts.writes.write<Removed>(
        "maintenance",
        { op: "removeRecords", store: this.state.index, offsets: part },
      );
      removed += went.removed;
      freed += went.freed;
    }
    return { removed, freed };
  }

  lowestPosition(): Offset {
    let lowest = 0;
    for (const offset of this.positions.values()) {
      if (lowest === 0 || offset < lowest) lowest = offset;
    }
    return lowest;
  }

  positionCount(): number {
    return this.positions.size;
  }

  lowestPositions(max: number): Promise<readonly Position[]> {
    return this.parts.reads.read({ op: "lowestPositions", store: this.state.index, max });
  }

  position(reader: string): Promise<Position | undefined> {
    return this.parts.reads.read({ op: "position", store: this.state.index, reader });
  }

  async savePosition(position: Position, urgency: Urgency): Promise<void> {
    const { reader, offset } = position;
    await this.parts.writes.write(
      urgency,
      { op: "savePosition", store: this.state.index, position },
      clientOf(reader),
    );
    this.positions.set(reader, offset);
  }

  async dropPosition(reader: string, urgency: Urgency): Promise<boolean> {
    const dropped = await this.parts.writes.write<boolean>(
      urgency,
      { op: "dropPosition", store: this.state.index, reader },
      clientOf(reader),
    );
    this.positions.delete(reader);
    return dropped;
  }
}

/** The client a reader is a session of; undefined for any other reader (S37). */
function clientOf(reader: string): string | undefined {
  return reader.startsWith(MQTT) ? reader.slice(MQTT.length) : undefined;
}
