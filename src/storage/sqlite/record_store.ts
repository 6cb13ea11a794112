import {
  type ExtensionRow,
  type Hold,
  type RecordStore,
  StorageFailure,
  type Urgency,
} from "../contract.ts";
import { type Message, type Offset, type StoredRecord } from "../record.ts";
import type { ChannelState } from "./channel_state.ts";
import { packExtensionRows } from "./extension_packing.ts";
import { type PackedRecords, unpackRecords } from "./packing.ts";
import type { StateHolder } from "./publish_group.ts";
import type { ReadPool } from "./read_pool.ts";
import type { WriteQueue } from "./write_queue.ts";

/** What every store of a sqlite provider works with. */
export interface StoreParts {
  readonly filePath: string;
  readonly writes: WriteQueue;
  readonly reads: ReadPool;
}

/** What the three kinds of store have in common: counters, and the holds (S103, S104). */
export abstract class SqliteRecordStore implements RecordStore, StateHolder {
  constructor(protected readonly parts: StoreParts, readonly state: ChannelState) {}

  get channel(): string {
    return this.state.channel;
  }
  next(): Offset {
    return this.state.next;
  }
  floor(): Offset {
    return this.state.floor;
  }
  bytes(): number {
    return this.state.bytes;
  }
  setMaxBytes(bytes: number | undefined): void {
    this.state.maxBytes = bytes;
  }

  async held(clientId: string, packetId: number): Promise<Message | undefined> {
    const { index: store } = this.state;
    const found = await this.parts.reads.read<PackedRecords>({
      op: "hold",
      store,
      clientId,
      packetId,
    });
    const message = this.unpack(found)[0]?.message;
    return message === undefined ? undefined : { ...message, clientId };
  }

  async releaseHold(
    clientId: string,
    packetId: number,
    copies: readonly ExtensionRow[] = [],
    stored?: (record: StoredRecord) => void,
  ): Promise<StoredRecord | undefined> {
    const { index: store, maxBytes } = this.state;
    let record: StoredRecord | undefined;
    await this.parts.writes.write<PackedRecords | undefined>(
      "release",
      { op: "releaseHold", store, clientId, packetId, maxBytes, copies: packExtensionRows(copies) },
      clientId,
      (released) => {
        if (released === undefined) return;
        record = this.unpack(released)[0];
        stored?.(record);
      },
    );
    return record;
  }

  abandonHold(clientId: string, packetId: number, urgency: Urgency): Promise<boolean> {
    return this.parts.writes.write(
      urgency,
      { op: "abandonHold", store: this.state.index, clientId, packetId },
      clientId,
    );
  }

  /**
   * Records of a worker's answer, in memory of their own.
   * @throws StorageFailure naming the file when what is stored is no record
   */
  protected unpack(pack: PackedRecords): StoredRecord[] {
    try {
      return unpackRecords(pack);
    } catch (error) {
      throw new StorageFailure(
        "failed",
        `storage ${this.parts.filePath}: a record of channel "${this.channel}" is damaged`,
        { cause: error },
      );
    }
  }
}

/** A hold as `recoverHolds` tells it: without the message it holds. */
export type HoldKey = Omit<Hold, "message">;
