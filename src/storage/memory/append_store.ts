import type { Nanoseconds } from "../../platform/clock.ts";
import {
  type AppendStore,
  type BelowFloor,
  type Position,
  type Removed,
  StorageFailure,
  type Urgency,
  type Window,
} from "../contract.ts";
import { FirstFew } from "../first_few.ts";
import { PackedRecords } from "../snapshot/packed_records.ts";
import { type Message, type Offset, recordSize, type StoredRecord } from "../record.ts";
import type { ByteCount } from "./byte_count.ts";
import { MemoryStore, overBound } from "./memory_store.ts";
import { RecordList } from "./record_list.ts";
import type { ChannelState } from "./state.ts";
import { ENTRIES_A_TURN, nextTurn } from "./turns.ts";

/** A log kept in process: append channels, dead-letter channels and the broadcast log. */
export class MemoryAppendStore extends MemoryStore implements AppendStore {
  readonly kind = "append";
  /** What a snapshot brought; all of `#records` is above it. */
  #packed = PackedRecords.none();
  #records = new RecordList<StoredRecord>();
  #bytes = 0;
  #maxBytes: number | undefined;
  #positions = new Map<string, Position>();

  /** `own` makes a payload independent of the read buffer it came in. */
  constructor(
    channel: string,
    count: ByteCount,
    private readonly own: (message: Message) => Message,
  ) {
    super(channel, count);
  }

  bytes(): number {
    return this.#bytes;
  }

  setMaxBytes(bytes: number | undefined): void {
    this.#maxBytes = bytes;
  }

  refusal(bytes: number, pending: number): StorageFailure | undefined {
    if (this.#maxBytes === undefined || this.#bytes + pending + bytes <= this.#maxBytes) {
      return undefined;
    }
    return overBound(this.channel, this.#maxBytes);
  }

  growth(_message: Message, bytes: number): number {
    return bytes;
  }

  put(message: Message, bytes: number): StoredRecord {
    const record = { offset: this.nextOffset++, message: this.own(message) };
    this.#records.push(record);
    this.#bytes += bytes;
    return record;
  }

  readFrom(offset: Offset, max: number, maxBytes: number): Promise<Window | BelowFloor> {
    const floor = this.floorOffset;
    if (offset < floor) return Promise.resolve({ belowFloor: true, floor });
    const records: StoredRecord[] = [];
    let bytes = 0;
    if (offset < this.nextOffset && max > 0) {
      this.#walk(offset, (record) => {
        bytes += recordSize(record.message);
        if (bytes > maxBytes && records.length > 0) return false;
        records.push(record);
        return records.length < max;
      });
    }
    return Promise.resolve({ belowFloor: false, floor, records });
  }

  async firstAtOrAfter(
    time: Nanoseconds,
  ): Promise<{ readonly offset: Offset; readonly found: boolean }> {
    for (let from = this.floorOffset;;) {
      let found: Offset | undefined;
      let looked = 0;
      const look = (offset: Offset, timestamp: Nanoseconds) => {
        if (timestamp >= time && timestamp !== 0n) found = offset;
        from = offset + 1;
        return found === undefined && ++looked < ENTRIES_A_TURN;
      };
      this.#packed.walkTimes(from, look);
      if (found === undefined && looked < ENTRIES_A_TURN) {
        this.#records.walk(from, ({ offset, message }) => look(offset, message.timestamp));
      }
      if (found !== undefined) return { offset: found, found: true };
      if (looked < ENTRIES_A_TURN) return { offset: this.nextOffset, found: false };
      await nextTurn();
    }
  }

  trim(before: Nanoseconds, maxBytes: number | undefined): Promise<Removed> {
    let removed = 0;
    let freed = 0;
    for (;;) {
      const timestamp = this.#firstTime();
      if (timestamp === undefined) break;
      const tooOld = timestamp !== 0n && timestamp < before;
      const tooMany = maxBytes !== undefined && this.#bytes - freed > maxBytes;
      if (!tooOld && !tooMany) break;
      freed += this.#shift();
      removed++;
    }
    if (removed > 0) this.#gone(freed);
    return Promise.resolve({ removed, freed });
  }

  /** Receipt time of the lowest record. */
  #firstTime(): Nanoseconds | undefined {
    if (this.#packed.length > 0) return this.#packed.firstTime();
    return this.#records.first()?.message.timestamp;
  }

  /** Removes the lowest record. @return its size */
  #shift(): number {
    if (this.#packed.length > 0) return this.#packed.shift();
    return recordSize(this.#records.shift()!.message);
  }

  #walk(from: Offset, visit: (record: StoredRecord) => boolean): void {
    let more = true;
    this.#packed.walk(from, (record) => more = visit(record));
    if (more) this.#records.walk(from, visit);
  }

  removeMany(offsets: readonly Offset[]): Promise<Removed> {
    return Promise.resolve(this.take(offsets));
  }

  take(offsets: readonly Offset[]): Removed {
    let removed = 0;
    let freed = 0;
    const { last } = this.#packed;
    if (last !== undefined && offsets.some((offset) => offset <= last)) this.#unpack();
    for (const offset of offsets) {
      const record = this.#records.remove(offset);
      if (record === undefined) continue;
      removed++;
      freed += recordSize(record.message);
    }
    if (removed > 0) this.#gone(freed);
    return { removed, freed };
  }

  /**
   * The oldest records that `spared` does not name, up to `bytes` of them: what a full provider takes
   * from the broadcast log (S109). Undefined when there are not so many.
   */
  oldest(bytes: number, spared: (offset: Offset) => boolean): readonly Offset[] | undefined {
    const offsets: Offset[] = [];
    let found = 0;
    this.#walk(0, (record) => {
      if (spared(record.offset)) return true;
      offsets.push(record.offset);
      found += recordSize(record.message);
      return found < bytes;
    });
    return found < bytes ? undefined : offsets;
  }

  /** What is packed goes from its front only. */
  #unpack(): void {
    const records = new RecordList<StoredRecord>();
    this.#walk(0, (record) => {
      records.push(record);
      return true;
    });
    this.#packed = PackedRecords.none();
    this.#records = records;
  }

  #gone(freed: number): void {
    this.#bytes -= freed;
    this.floorOffset = this.#packed.first ?? this.#records.first()?.offset ?? this.nextOffset;
    this.count.adjust(-freed);
  }

  lowestPosition(): Offset {
    let lowest = 0;
    for (const { offset } of this.#positions.values()) {
      if (lowest === 0 || offset < lowest) lowest = offset;
    }
    return lowest;
  }

  positionCount(): number {
    return this.#positions.size;
  }

  lowestPositions(max: number): Promise<readonly Position[]> {
    const lowest = new FirstFew<Position>(
      max,
      (a, b) => a.offset - b.offset || (a.reader < b.reader ? -1 : 1),
    );
    for (const position of this.#positions.values()) lowest.add(position);
    return Promise.resolve(lowest.values());
  }

  position(reader: string): Promise<Position | undefined> {
    return Promise.resolve(this.#positions.get(reader));
  }

  savePosition(position: Position, _urgency: Urgency): Promise<void> {
    const { reader, offset } = position;
    if (offset > this.nextOffset) {
      // It may lag, never lead (S38), and no start would load it (S57).
      return Promise.reject(
        new StorageFailure(
          "failed",
          `${reader} would stand at ${offset} in ${this.channel}, past its end ${this.nextOffset}`,
        ),
      );
    }
    this.#positions.set(position.reader, position);
    return Promise.resolve();
  }

  dropPosition(reader: string, _urgency: Urgency): Promise<boolean> {
    return Promise.resolve(this.#positions.delete(reader));
  }

  /** Drops the positions that `ended` names, in this turn. */
  sweepPositions(ended: (position: Position) => boolean): number {
    let dropped = 0;
    for (const [reader, position] of this.#positions) {
      if (!ended(position)) continue;
      this.#positions.delete(reader);
      dropped++;
    }
    return dropped;
  }

  copy(): ChannelState {
    return {
      name: this.channel,
      kind: this.kind,
      next: this.nextOffset,
      floor: this.floorOffset,
      packed: this.#packed.copy(),
      records: this.#records.toArray(),
      jobs: [],
      positions: [...this.#positions.values()],
      holds: this.holds(),
    };
  }

  override restore(state: ChannelState): void {
    super.restore(state);
    this.#packed = state.packed ?? this.#packed;
    let { bytes } = this.#packed;
    for (const { offset, message } of state.records) {
      this.#records.push({ offset, message: this.own(message) });
      bytes += recordSize(message);
    }
    for (const position of state.positions) this.#positions.set(position.reader, position);
    this.#bytes = bytes;
    this.count.adjust(bytes);
  }
}
