import type { Nanoseconds } from "../../platform/clock.ts";
import { matches } from "../../topics/filter.ts";
import type { LatestStore, Removed, Scan, StorageFailure, TopicScan } from "../contract.ts";
import {
  type Message,
  type Offset,
  ownedMessage,
  recordSize,
  type StoredRecord,
} from "../record.ts";
import { MemoryStore } from "./memory_store.ts";
import type { ChannelState } from "./state.ts";
import { ENTRIES_A_TURN, nextTurn } from "./turns.ts";

const WILDCARD = /[+#]/;

/** One value per topic, kept in process: `latest` channels and the retained store. */
export class MemoryLatestStore extends MemoryStore implements LatestStore {
  readonly kind = "latest";
  #values = new Map<string, StoredRecord>();

  size(): number {
    return this.#values.size;
  }

  /** A latest store has no bound of its own (S177). */
  refusal(): StorageFailure | undefined {
    return undefined;
  }

  growth(message: Message, bytes: number): number {
    const held = this.#values.get(message.topic);
    if (message.payload.byteLength === 0 && (held === undefined || isDeletion(held))) return 0;
    return bytes - (held === undefined ? 0 : recordSize(held.message));
  }

  put(message: Message): StoredRecord | undefined {
    if (message.payload.byteLength === 0) {
      const held = this.#values.get(message.topic);
      if (held === undefined || isDeletion(held)) return undefined;
    }
    const record = { offset: this.nextOffset++, message: ownedMessage(message) };
    this.#values.set(message.topic, record);
    return record;
  }

  /** Bytes that taking the topic's value out gives back. */
  sizeOf(topic: string): number {
    const held = this.#values.get(topic);
    return held === undefined ? 0 : recordSize(held.message);
  }

  /** Takes a value out altogether, without a stored deletion. The caller gives the bytes back. */
  erase(topic: string): void {
    this.#values.delete(topic);
  }

  get(topic: string): Promise<StoredRecord | undefined> {
    return Promise.resolve(this.#values.get(topic));
  }

  scan(filter: string, from: Offset, deletions: boolean): Scan {
    const wanted = (record: StoredRecord) =>
      record.offset >= from && (deletions || !isDeletion(record));
    if (!WILDCARD.test(filter)) return new ValueScan(this.#one(filter), 1, wanted);
    return new ValueScan(
      this.#values.values(),
      this.#values.size,
      (record) => wanted(record) && matches(filter, record.message.topic),
    );
  }

  topics(outside: readonly string[]): TopicScan {
    const scan = new ValueScan(
      this.#values.values(),
      this.#values.size,
      (record) =>
        !isDeletion(record) && !outside.some((filter) => matches(filter, record.message.topic)),
    );
    return { next: async (max) => (await scan.next(max)).map(({ message }) => message.topic) };
  }

  *#one(topic: string): Generator<StoredRecord> {
    const record = this.#values.get(topic);
    if (record !== undefined) yield record;
  }

  async trim(valuesBefore: Nanoseconds, deletionsBefore: Nanoseconds): Promise<Removed> {
    let removed = 0;
    let freed = 0;
    let looked = 0;
    // Set values go to the end of the map only after they were taken out: this walk ends.
    for (const [topic, record] of this.#values) {
      const { timestamp } = record.message;
      const before = isDeletion(record) ? deletionsBefore : valuesBefore;
      if (timestamp !== 0n && timestamp < before) {
        const bytes = recordSize(record.message);
        this.#values.delete(topic);
        this.count.adjust(-bytes);
        removed++;
        freed += bytes;
      }
      if (++looked % ENTRIES_A_TURN === 0) await nextTurn();
    }
    return { removed, freed };
  }

  removeMany(
    values: readonly { readonly topic: string; readonly offset: Offset }[],
  ): Promise<Removed> {
    let removed = 0;
    let freed = 0;
    for (const { topic, offset } of values) {
      const record = this.#values.get(topic);
      if (record === undefined || record.offset !== offset) continue;
      this.#values.delete(topic);
      removed++;
      freed += recordSize(record.message);
    }
    this.count.adjust(-freed);
    return Promise.resolve({ removed, freed });
  }

  copy(): ChannelState {
    return {
      name: this.channel,
      kind: this.kind,
      next: this.nextOffset,
      floor: this.floorOffset,
      records: [...this.#values.values()],
      jobs: [],
      positions: [],
      holds: this.holds(),
    };
  }

  override restore(state: ChannelState): void {
    super.restore(state);
    for (const { offset, message } of state.records) {
      this.#values.set(message.topic, { offset, message: ownedMessage(message) });
      this.count.adjust(recordSize(message));
    }
  }
}

function isDeletion(record: StoredRecord): boolean {
  return record.message.payload.byteLength === 0;
}

/**
 * Walks the living map in pieces, so nothing is copied but what a page returns. A value that is replaced
 * keeps its place; one that was taken out and set again moves to the end. Looking at as many values as
 * there were at the start passes every one that stayed.
 */
class ValueScan implements Scan {
  #left: number;

  constructor(
    private readonly values: Iterator<StoredRecord>,
    size: number,
    private readonly wanted: (record: StoredRecord) => boolean,
  ) {
    this.#left = size;
  }

  async next(max: number): Promise<readonly StoredRecord[]> {
    const page: StoredRecord[] = [];
    for (let looked = 1; page.length < max && this.#left > 0; looked++) {
      this.#left--;
      const { value, done } = this.values.next();
      if (done === true) {
        this.#left = 0;
        break;
      }
      if (this.wanted(value)) page.push(value);
      if (looked % ENTRIES_A_TURN === 0) await nextTurn();
    }
    return page;
  }
}
