import {
  type ExtensionRow,
  type Hold,
  type RecordStore,
  StorageFailure,
  type Urgency,
} from "../contract.ts";
import {
  type Message,
  type Offset,
  ownedMessage,
  recordSize,
  type StoredRecord,
} from "../record.ts";
import type { ByteCount } from "./byte_count.ts";
import type { ChannelState } from "./state.ts";

/**
 * What every store of a memory provider has: the two counters and the held publishes. Whatever changes
 * is changed in one turn; the promises are there because the contract's other implementation waits.
 */
export abstract class MemoryStore implements RecordStore {
  protected nextOffset: Offset = 1;
  protected floorOffset: Offset = 1;
  #holds = new Map<string, Hold>();

  constructor(readonly channel: string, readonly count: ByteCount) {}

  next(): Offset {
    return this.nextOffset;
  }

  floor(): Offset {
    return this.floorOffset;
  }

  /** Why a record of `bytes` more than `pending` may not be stored here, whatever the provider says. */
  abstract refusal(bytes: number, pending: number): StorageFailure | undefined;

  /** Bytes the store grows by when `message` is put. */
  abstract growth(message: Message, bytes: number): number;

  /**
   * Stores a message of this room's own (`ownedMessage`) at the next offset. The bytes were charged by the
   * caller. Undefined when there is nothing to store: a deletion of a topic without a value.
   */
  abstract put(message: Message, bytes: number): StoredRecord | undefined;

  hasHold(clientId: string, packetId: number): boolean {
    return this.#holds.has(holdKey(clientId, packetId));
  }

  putHold(hold: Hold): void {
    this.#holds.set(holdKey(hold.clientId, hold.packetId), {
      ...hold,
      message: ownedMessage(hold.message),
    });
  }

  holds(): readonly Hold[] {
    return [...this.#holds.values()];
  }

  held(clientId: string, packetId: number): Promise<Message | undefined> {
    return Promise.resolve(this.#holds.get(holdKey(clientId, packetId))?.message);
  }

  /** No `copies`: rows that are no records are nothing a memory provider keeps. */
  releaseHold(
    clientId: string,
    packetId: number,
    _copies?: readonly ExtensionRow[],
    stored?: (record: StoredRecord) => void,
  ): Promise<StoredRecord | undefined> {
    const key = holdKey(clientId, packetId);
    const hold = this.#holds.get(key);
    if (hold === undefined) return Promise.resolve(undefined);
    const { message } = hold;
    const bytes = recordSize(message);
    const refusal = this.refusal(bytes, 0);
    if (refusal !== undefined) return Promise.reject(refusal);
    this.#holds.delete(key);
    this.count.adjust(this.growth(message, bytes) - bytes);
    // A deletion with nothing to delete ends the exchange all the same, without an offset.
    const record = this.put(message, bytes) ?? { offset: 0, message };
    stored?.(record);
    return Promise.resolve(record);
  }

  abandonHold(clientId: string, packetId: number, _urgency: Urgency): Promise<boolean> {
    return Promise.resolve(this.dropHold(clientId, packetId));
  }

  dropHold(clientId: string, packetId: number): boolean {
    const key = holdKey(clientId, packetId);
    const hold = this.#holds.get(key);
    if (hold === undefined) return false;
    this.#holds.delete(key);
    this.count.adjust(-recordSize(hold.message));
    return true;
  }

  /** A copy of everything, in this turn (S24). */
  abstract copy(): ChannelState;

  /**
   * Takes what a snapshot held, before anything else was stored; its payloads are views of the file's bytes.
   * Charged without asking (S79).
   */
  restore(state: ChannelState): void {
    this.nextOffset = state.next;
    this.floorOffset = state.floor;
    for (const hold of state.holds) {
      this.putHold(hold);
      this.count.adjust(recordSize(hold.message));
    }
  }
}

function holdKey(clientId: string, packetId: number): string {
  return packetId + ":" + clientId;
}

/** The refusal of a channel that is at its own `max_bytes` (S125). */
export function overBound(channel: string, bound: number): StorageFailure {
  return new StorageFailure("full", `channel ${channel} is at its max_bytes of ${bound}`);
}
