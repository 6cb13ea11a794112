import type { Nanoseconds } from "../../platform/clock.ts";
import type { StoreKind } from "../contract.ts";
import { FIRST_OFFSET, type Offset } from "../record.ts";

/** A channel that was moved, and how much of it there was. */
export interface MovedChannel {
  readonly name: string;
  readonly kind: StoreKind;
  /** Records, values or jobs. */
  readonly entries: number;
  readonly positions: number;
}

export interface MigrationStamp {
  /** Of this build, which what is created says it was created by. */
  readonly revision: string;
  readonly now: Nanoseconds;
}

/** Who hears how a migration goes on. Sentences name what they are about and end without a full stop. */
export interface MigrationReport {
  /** Everything of one snapshot file has arrived. */
  moved(file: string, channels: readonly MovedChannel[]): void;
  /** Something did not arrive; the rest goes on (S166). */
  failed(sentence: string): void;
  /** What stays behind, and what the source itself has lost. */
  note(sentence: string): void;
  /** What is under way; called often. */
  progress(text: string): void;
}

/** What became of a migration that was not refused outright. */
export interface MigrationOutcome {
  /** Snapshot files whose channels arrived. */
  readonly moved: number;
  readonly failed: number;
}

/** A channel that never held anything: a start without it is the same (S165). */
export function isUnused(channel: {
  readonly next: Offset;
  readonly entries: number;
  readonly positions: number;
}): boolean {
  return channel.next === FIRST_OFFSET && channel.entries === 0 && channel.positions === 0;
}

/** Entries between two reports of progress. */
export const ENTRIES_PER_REPORT = 1000;
