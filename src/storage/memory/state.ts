import type { GroupImage, Hold, Job, Position, SessionImage, StoreKind } from "../contract.ts";
import type { PackedRecords } from "../snapshot/packed_records.ts";
import type { Offset, StoredRecord } from "../record.ts";

/**
 * One store of a memory provider as plain values: what a snapshot writes and what a start restores.
 * Records, jobs and holds are immutable, so the lists refer to them (S24). Fields that the kind does not
 * have are empty.
 */
export interface ChannelState {
  readonly name: string;
  readonly kind: StoreKind;
  readonly next: Offset;
  readonly floor: Offset;
  /** `append`: records below those of `records`, as a snapshot has them. */
  readonly packed?: PackedRecords;
  /** `append`: ascending by offset. `latest`: stored deletions included; ascending when restored. */
  readonly records: readonly StoredRecord[];
  /** `queue`: ascending by offset. */
  readonly jobs: readonly Job[];
  /** `append`. The sessions' cursors of the broadcast log are in their images. */
  readonly positions: readonly Position[];
  readonly holds: readonly Hold[];
}

/** Everything a memory provider keeps, copied in one turn. */
export interface ProviderState {
  readonly channels: readonly ChannelState[];
  readonly sessions: readonly SessionImage[];
  readonly groups: readonly GroupImage[];
}
