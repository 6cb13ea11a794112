import type {
  FailureKind,
  GroupImage,
  Hold,
  InFlight,
  Position,
  SessionRecord,
  StoreSpec,
  WindowChange,
} from "../contract.ts";
import type { IngestTable } from "../ingest.ts";
import type { Offset } from "../record.ts";
import type { Nanoseconds } from "../../platform/clock.ts";
import type { AmqpRead, AmqpWrite } from "./amqp_messages.ts";
import type { IngestRead } from "./ingest_reads.ts";
import type { Unclaimed } from "./unclaimed.ts";
import type { Pack, PackedRecords } from "./packing.ts";

/**
 * What the event loop and the worker threads of one sqlite provider say to each other. A worker
 * answers its messages in the order it got them, one answer each, so nothing carries a number.
 */

/** Kinds of publish rows, the `kind` of a packed row; `tag` is the store, `extra` a packet id. */
export const RowKind = {
  Append: 0,
  Set: 1,
  Retain: 2,
  Enqueue: 3,
  Hold: 4,
  AmqpCopy: 5,
  AmqpDrop: 6,
  Ingest: 7,
} as const;

/** In `kind` of a packed row, beside one of `RowKind`: the first row of an entry. */
export const FIRST_OF_ENTRY = 8;

export interface OpenWriter {
  readonly ask: "open";
  readonly filePath: string;
  readonly revision: string;
  readonly now: Nanoseconds;
  readonly stores: readonly StoreSpec[];
  /** Bytes; undefined for no bound. */
  readonly maxBytes: number | undefined;
  readonly reserveBytes: number;
  /** One Int32: not 0 while a publish waits, so that a session transaction gives way (S130). */
  readonly publishWaits: SharedArrayBuffer;
  /** Whether the AMQP tables are kept in this file. */
  readonly amqp?: boolean;
  /** The ingest tables of this file; none or undefined: it has none. */
  readonly ingest?: readonly IngestTable[];
}

export interface OpenReader {
  readonly ask: "open";
  readonly filePath: string;
  readonly channels: readonly string[];
}

/** A group of publish entries; all in one transaction. */
export interface PublishGroup {
  readonly ask: "publish";
  readonly pack: Pack;
}

/** Writes with an answer each, in one transaction that gives way where `yields` (S128, S130, S138). */
export interface WriteGroup {
  readonly ask: "write";
  readonly writes: readonly Write[];
  readonly yields: boolean;
}

export type Write =
  | { readonly op: "savePosition"; readonly store: number; readonly position: Position }
  | { readonly op: "dropPosition"; readonly store: number; readonly reader: string }
  | {
    readonly op: "abandonHold";
    readonly store: number;
    readonly clientId: string;
    readonly packetId: number;
  }
  | {
    readonly op: "releaseHold";
    readonly store: number;
    readonly clientId: string;
    readonly packetId: number;
    readonly maxBytes: number | undefined;
    /** Rows of tables outside the eleven; undefined for none. */
    readonly copies?: Pack;
  }
  | {
    readonly op: "recordAttempt";
    readonly store: number;
    readonly offset: Offset;
    readonly attempts: number;
    readonly at: Nanoseconds;
  }
  | { readonly op: "removeJob"; readonly store: number; readonly offset: Offset }
  | {
    readonly op: "deadLetter";
    readonly store: number;
    readonly offset: Offset;
    /** One row: `tag` is the dead-letter channel, `size` its record size. */
    readonly letter: Pack;
  }
  | {
    readonly op: "trimRecords";
    readonly store: number;
    readonly before: Nanoseconds;
    readonly maxBytes: number | undefined;
  }
  | { readonly op: "removeRecords"; readonly store: number; readonly offsets: readonly Offset[] }
  | {
    readonly op: "removeValues";
    readonly store: number;
    readonly values: readonly { readonly topic: string; readonly offset: Offset }[];
  }
  | {
    readonly op: "beginSession";
    readonly record: SessionRecord;
    readonly cursor: Offset;
    readonly groups: readonly GroupImage[];
    readonly now: Nanoseconds;
  }
  | {
    readonly op: "saveSession";
    readonly record: SessionRecord;
    readonly found: readonly GroupImage[];
    readonly end: readonly string[];
  }
  | {
    readonly op: "endSession";
    readonly clientId: string;
    readonly end: readonly string[];
    readonly returned: readonly { readonly group: string; readonly offset: Offset }[];
  }
  | { readonly op: "changeWindow"; readonly change: WindowChange; readonly now: Nanoseconds }
  | { readonly op: "loadSessions"; readonly now: Nanoseconds }
  | {
    readonly op: "dropPositions";
    readonly rows: readonly StoredPosition[];
  }
  | { readonly op: "dropHolds"; readonly rows: readonly StoredHold[] }
  | { readonly op: "amqp"; readonly write: AmqpWrite }
  | { readonly op: "trimIngested"; readonly table: number; readonly before: number };

export interface StoredPosition extends Position {
  readonly channel: string;
}

export interface StoredHold extends Omit<Hold, "message"> {
  readonly channel: string;
}

export interface StoredInFlight extends InFlight {
  readonly clientId: string;
}

/** Reads, of a read worker or of the writer (`read_connections: 0`). */
export type Read =
  | {
    readonly op: "window";
    readonly store: number;
    readonly from: Offset;
    readonly max: number;
    readonly maxBytes: number;
  }
  | {
    readonly op: "firstAtOrAfter";
    readonly store: number;
    readonly time: Nanoseconds;
    /** Looks from here, below `end`. */
    readonly from: Offset;
    readonly end: Offset;
  }
  | { readonly op: "position"; readonly store: number; readonly reader: string }
  | { readonly op: "lowestPositions"; readonly store: number; readonly max: number }
  | {
    readonly op: "hold";
    readonly store: number;
    readonly clientId: string;
    readonly packetId: number;
  }
  | { readonly op: "oldest"; readonly store: number }
  | { readonly op: "value"; readonly store: number; readonly topic: string }
  | {
    readonly op: "values";
    readonly store: number;
    readonly filter: string;
    readonly from: Offset;
    readonly deletions: boolean;
    /** The last topic examined; empty at the start. */
    readonly after: string;
    readonly max: number;
  }
  | {
    /** Topics of values that none of the filters `outside` matches. */
    readonly op: "topics";
    readonly store: number;
    readonly outside: readonly string[];
    /** The last topic examined; empty at the start. */
    readonly after: string;
    readonly max: number;
  }
  | {
    /** Values older than `valuesBefore`, stored deletions older than `deletionsBefore`. */
    readonly op: "oldValues";
    readonly store: number;
    readonly valuesBefore: Nanoseconds;
    readonly deletionsBefore: Nanoseconds;
    readonly after: string;
  }
  | {
    readonly op: "jobs";
    readonly store: number;
    readonly from: Offset;
    readonly max: number;
    readonly maxBytes: number;
  }
  | {
    readonly op: "overdueJobs";
    readonly store: number;
    readonly before: Nanoseconds;
    readonly spentAttempts: number;
    readonly from: Offset;
    readonly max: number;
  }
  | { readonly op: "worstJobs"; readonly store: number; readonly max: number }
  | { readonly op: "sessionPositions"; readonly after: readonly [channel: string, reader: string] }
  | {
    readonly op: "holds";
    readonly after: readonly [channel: string, clientId: string, packetId: number];
  }
  | { readonly op: "amqp"; readonly read: AmqpRead }
  | { readonly op: "ingested"; readonly read: IngestRead };

export interface ReadRequest {
  readonly ask: "read";
  readonly read: Read;
}

export type WindowAnswer = { readonly floor: Offset; readonly records?: PackedRecords };

export interface ValuesAnswer {
  readonly records: PackedRecords;
  /** The last topic examined; undefined when that was the end. */
  readonly after: string | undefined;
}

export interface TopicsAnswer {
  readonly topics: readonly string[];
  /** The last topic examined; undefined when that was the end. */
  readonly after: string | undefined;
}

export interface JobsAnswer {
  readonly records: PackedRecords;
  readonly attempts: readonly number[];
  readonly firstDelivered: readonly Nanoseconds[];
  readonly lastDelivered: readonly Nanoseconds[];
}

/** Copies what it can of the log into the file without holding anybody up (PASSIVE). */
export interface Checkpoint {
  readonly ask: "checkpoint";
}

/** The writer's turn to start the log again from its beginning, once everything in it is copied. */
export interface ResetLog {
  readonly ask: "resetLog";
}

export interface Close {
  readonly ask: "close";
}

export type WriterRequest =
  | OpenWriter
  | PublishGroup
  | WriteGroup
  | ReadRequest
  | ResetLog
  | Close;
export type ReaderRequest = OpenReader | ReadRequest | Close;
export type KeeperRequest = OpenReader | Checkpoint | Close;

// ------------------------------------------------------------------------------------- answers

export interface Failure {
  readonly kind: FailureKind;
  readonly text: string;
  /** A decision of the write itself (S137): nothing is wrong with the file. */
  readonly decided?: true;
}

/**
 * Absolute counters of the stores a transaction changed, five numbers each:
 * store, next, floor, bytes, depth.
 */
export type Counters = readonly number[];
export const COUNTERS = 5;

export interface Opened {
  /** One for each store of the request, in its order. */
  readonly counters: Counters;
  /** Per append store, its positions. */
  readonly positions: readonly (readonly (readonly [reader: string, offset: Offset])[])[];
  readonly unclaimed: readonly Unclaimed[];
  readonly pageSize: number;
  readonly pages: number;
  /** Pages at which publishes stop, and pages in all; undefined without a bound. */
  readonly ceiling: { readonly publish: number; readonly total: number } | undefined;
}

/** What the file and its log came to, looked at now and then. */
export interface Sizes {
  readonly pages: number;
  /** Frames in the log, copied or not. */
  readonly logFrames: number;
}

export interface PublishAnswer {
  /** Offset of each row, 0 where it took none. Absent after a failure. */
  readonly offsets?: Float64Array;
  readonly counters: Counters;
  readonly failure?: Failure;
  /** Failures of single entries, by the place of their first row, when the group ran one by one. */
  readonly failures?: ReadonlyMap<number, Failure>;
  readonly sizes?: Sizes;
}

export type Outcome = { readonly value: unknown } | { readonly failure: Failure };

export interface WriteAnswer {
  /** Of the first writes; the rest gave way and did not run. */
  readonly outcomes: readonly Outcome[];
  readonly counters: Counters;
  readonly sizes?: Sizes;
}

/** The answer of everything else. */
export type Answer = Outcome;
