/**
 * What the broker asks of a storage provider, and nothing about how it is kept (04-storage.md
 * section 2). Two implementations: `memory/` and `sqlite/`; one conformance script drives both.
 *
 * The rule of every call that keeps something: when it has answered, the thing is kept as well as the
 * provider promises. Counters (`next`, `floor`, `bytes`, `depth`) are fields on the event loop: they
 * neither wait nor fail, start from what is stored, and move only in the turn that handles a commit's
 * reply (S8, S15).
 */
import type { Nanoseconds } from "../platform/clock.ts";
import type { AmqpRow, AmqpStore } from "./amqp.ts";
import type { IngestRow, IngestStore } from "./ingest.ts";
import type { Message, Offset, QoS, StoredRecord } from "./record.ts";

// ---------------------------------------------------------------------------------------- failures

/** Why a store could not keep or read: `full` becomes `0x97`, `failed` becomes `0x83`. */
export type FailureKind = "full" | "failed";

/** The one exception of this room. */
export class StorageFailure extends Error {
  constructor(readonly kind: FailureKind, message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "StorageFailure";
  }
}

/** A read that starts below the floor: not an empty answer (S9, invariant 1). */
export interface BelowFloor {
  readonly belowFloor: true;
  readonly floor: Offset;
}

/** A stretch of records in ascending offset order, with the floor of the same snapshot (S113). */
export interface Window {
  readonly belowFloor: false;
  readonly floor: Offset;
  readonly records: readonly StoredRecord[];
}

// ---------------------------------------------------------------------------- the publish path

/**
 * One row of a publish entry. `offset` is 0 until the entry is settled without a failure, then the
 * offset the record took (0 stays for rows that take none).
 *
 * - `append`: a record at the log's next offset
 * - `set`: a current value, replacing the topic's; an empty payload stores a deletion with its own
 *   offset if the topic has a value, and nothing otherwise (D13.3, D13.4)
 * - `retain`: as `set` for the retained store; an empty payload removes the row outright
 * - `enqueue`: a job
 * - `hold`: a QoS 2 publish from PUBREC to PUBREL, without an offset (S103)
 * - `amqp-copy`, `amqp-drop`: what the publish changes in AMQP queues (`amqp.ts`), without an offset
 * - `ingest`: a row of a table of its own (`ingest.ts`), without an offset
 */
export type PublishRow = RecordRow | ExtensionRow;

/** Rows of tables outside the eleven (S198); they count against no channel and take no offset. */
export type ExtensionRow = AmqpRow | IngestRow;

export type RecordRow =
  | {
    readonly kind: "append";
    readonly store: AppendStore;
    readonly message: Message;
    offset: Offset;
  }
  | { readonly kind: "set"; readonly store: LatestStore; readonly message: Message; offset: Offset }
  | {
    readonly kind: "retain";
    readonly store: LatestStore;
    readonly message: Message;
    offset: Offset;
  }
  | {
    readonly kind: "enqueue";
    readonly store: QueueStore;
    readonly message: Message;
    offset: Offset;
  }
  | { readonly kind: "hold"; readonly store: HoldStore; readonly hold: Hold; offset: Offset };

/**
 * What one publish writes into one provider: all of its rows or none, in one transaction. Entries
 * submitted while a commit runs share the next one (S120, S121).
 */
export interface PublishEntry {
  readonly rows: readonly PublishRow[];
  /** Bytes of the entry (`recordSize` summed), for the provider's bound on what is waiting. */
  readonly bytes: number;
  /**
   * Sessions that its settlement has work with, about; undefined for few. More than can be served at once
   * are served in several turns.
   */
  readonly reach?: number;
  /**
   * Called once: without a failure after the commit, with one if nothing of this entry was kept.
   * Entries of one provider are settled in commit order, all of one commit in one turn unless they reach
   * very many. The memory provider calls it before `submit` returns.
   */
  settled(failure: StorageFailure | undefined): void;
}

// ------------------------------------------------------------------------------------ the stores

/** A durable reader's cursor in one append channel (S36): `mqtt:<client id>` or `bridge:<rule>`. */
export interface Position {
  readonly reader: string;
  /** Lowest offset not acknowledged. */
  readonly offset: Offset;
  /** Session expiry in seconds, after the cap; 0 for a bridge. */
  readonly expiry: number;
  readonly lastSeen: Nanoseconds;
}

/** The name under which a session's positions are stored (S37). */
export function sessionReader(clientId: string): string {
  return "mqtt:" + clientId;
}

/**
 * Who waits for a session write (S132): `answering` a packet that is pending on the store,
 * `departed` sessions that are gone, `connected` ones that go on meanwhile.
 */
export type Urgency = "answering" | "departed" | "connected";

/** An inbound QoS 2 publish that was answered PUBREC and not yet released. */
export interface Hold {
  readonly clientId: string;
  readonly packetId: number;
  readonly heldAt: Nanoseconds;
  readonly message: Message;
}

/** The held publishes of one store; every store has them (S103). */
export interface HoldStore {
  /** What is held, read without releasing it; undefined when nothing is. */
  held(clientId: string, packetId: number): Promise<Message | undefined>;
  /**
   * Ends a held exchange by writing its record at the next offset, one relief transaction (S104).
   * Undefined when nothing is held under that identifier any more. `copies`: rows of the same provider
   * that are written in the same transaction. `stored` hears of the record in the turn of the answer,
   * before anybody hears of what was stored after it, and does not throw: whoever is told by the promise
   * alone may be told of a later record first.
   * @throws StorageFailure; the hold is then still there
   */
  releaseHold(
    clientId: string,
    packetId: number,
    copies?: readonly ExtensionRow[],
    stored?: (record: StoredRecord) => void,
  ): Promise<StoredRecord | undefined>;
  /** Drops a hold. False when there was none: the other side of the race won (D5.8). */
  abandonHold(clientId: string, packetId: number, urgency: Urgency): Promise<boolean>;
}

export interface RecordStore extends HoldStore {
  /** The channel's name, or a reserved one (`$saguin/broadcast`, `$saguin/retained`). */
  readonly channel: string;
  /** The offset the next record takes. */
  next(): Offset;
  /** The lowest offset that can still be read; 1 means nothing was ever removed. */
  floor(): Offset;
}

export interface Removed {
  readonly removed: number;
  /** Bytes given back. */
  readonly freed: number;
}

export interface AppendStore extends RecordStore {
  readonly kind: "append";
  /** Sum of `recordSize` over what is held. */
  bytes(): number;
  /** `undefined` removes the bound; a record that would pass it is refused `full` alone (S125). */
  setMaxBytes(bytes: number | undefined): void;
  /**
   * Up to `max` records and about `maxBytes` (always one if there is one) from `offset` on, inclusive.
   * At `next()` the window is empty.
   */
  readFrom(offset: Offset, max: number, maxBytes: number): Promise<Window | BelowFloor>;
  /** Lowest offset whose time is at or after `time`, looking at every record (S11). */
  firstAtOrAfter(time: Nanoseconds): Promise<{ readonly offset: Offset; readonly found: boolean }>;
  /** Removes from the oldest: older than `before` (0n: none) or over `maxBytes`, floor moved with it. */
  trim(before: Nanoseconds, maxBytes: number | undefined): Promise<Removed>;
  /** Removes these offsets, wherever they stand; the floor becomes the lowest kept (S108). */
  removeMany(offsets: readonly Offset[]): Promise<Removed>;
  /** Lowest stored position; 0 when there is none. */
  lowestPosition(): Offset;
  /** Readers with a stored position. */
  positionCount(): number;
  /** The stored positions, lowest offset first, then by reader: at most `max`. */
  lowestPositions(max: number): Promise<readonly Position[]>;
  position(reader: string): Promise<Position | undefined>;
  savePosition(position: Position, urgency: Urgency): Promise<void>;
  /** True when there was one. */
  dropPosition(reader: string, urgency: Urgency): Promise<boolean>;
}

/** Pages through the values of a latest store. Values set meanwhile may or may not appear. */
export interface Scan {
  /** The next values, ascending by topic in the store's own order; empty at the end. */
  next(max: number): Promise<readonly StoredRecord[]>;
}

/** Pages through topics; as `Scan`, without what is kept under them. */
export interface TopicScan {
  /** The next topics; empty at the end. */
  next(max: number): Promise<readonly string[]>;
}

export interface LatestStore extends RecordStore {
  readonly kind: "latest";
  /** Topics with a value or a stored deletion. */
  size(): number;
  /** The value, a stored deletion (empty payload) included. */
  get(topic: string): Promise<StoredRecord | undefined>;
  /**
   * Values whose topic `filter` matches, at or above `from`; stored deletions only when asked for.
   */
  scan(filter: string, from: Offset, deletions: boolean): Scan;
  /** Topics with a value, stored deletions aside, that none of the filters matches. */
  topics(outside: readonly string[]): TopicScan;
  /** Removes values older than `valuesBefore`, deletions older than `deletionsBefore` (0n: none). */
  trim(valuesBefore: Nanoseconds, deletionsBefore: Nanoseconds): Promise<Removed>;
  /** Removes these values if they still carry the offset given. */
  removeMany(values: readonly { topic: string; offset: Offset }[]): Promise<Removed>;
}

export type Backoff =
  | { readonly kind: "none" }
  | { readonly kind: "linear" | "exponential"; readonly baseMs: number };

/** A job handed to a worker: the volatile half of a queue record (S140). */
export interface Lease {
  readonly offset: Offset;
  /** Compared for equality only (S35); every return to available makes the old one dead. */
  readonly epoch: number;
}

export interface Offer extends Lease {
  readonly message: Message;
  /** Which delivery this is, from 1. */
  readonly attempt: number;
}

/** A job as it is stored, with its history, for a dead letter. */
export interface Job extends StoredRecord {
  readonly attempts: number;
  /** 0n: never handed over. */
  readonly firstDelivered: Nanoseconds;
  readonly lastDelivered: Nanoseconds;
}

/** A job as an operator sees it, without its payload. */
export interface JobSketch {
  readonly offset: Offset;
  readonly topic: string;
  /** Its receipt time. */
  readonly storedAt: Nanoseconds;
  /** Deliveries that were counted. */
  readonly attempts: number;
  /** 0n: never handed over. */
  readonly lastDelivered: Nanoseconds;
}

/**
 * ```
 * available --offer--> delivering --lease--> leased --resolve--> gone
 *     ^                    |                   |
 *     +---- release -------+-------------------+
 * ```
 * `lease` counts the attempt (the worker's PUBACK); an answer before it counts it too (D14.14).
 * Deadlines and gaps run on the monotonic clock and are not stored: after a restart every job is
 * available at once (invariant 15).
 */
export interface QueueStore extends RecordStore {
  readonly kind: "queue";
  bytes(): number;
  /** Unresolved jobs, those out with a worker included. */
  depth(): number;
  setMaxBytes(bytes: number | undefined): void;
  setBackoff(backoff: Backoff): void;
  setMaxAttempts(attempts: number): void;
  /**
   * The lowest job that is available now (monotonic ms), marked as out from this turn on; undefined
   * when there is none. Spent jobs are never offered: `spent` lists them.
   */
  offer(now: number): Promise<Offer | undefined>;
  /** Counts the attempt and starts the visibility deadline. False: the lease is no longer current. */
  lease(lease: Lease, at: Nanoseconds, deadline: number): Promise<boolean>;
  /** Deletes the job. False: the lease is no longer current, or its write is under way. */
  resolve(lease: Lease): Promise<boolean>;
  /**
   * Back to available. `spend` counts the attempt first if this delivery has not counted yet (a
   * `return`). The backoff gap runs from `gapFrom` (monotonic ms).
   * `spent` means no attempt is left: the job stays out until `deadLetter` or `putBack`.
   */
  release(
    lease: Lease,
    options: { readonly spend: boolean; readonly at: Nanoseconds; readonly gapFrom: number },
  ): Promise<"available" | "spent" | "stale">;
  /** Monotonic ms at which this delivery was offered; undefined when the lease is not current. */
  heldSince(lease: Lease): number | undefined;
  /** Leases whose deadline passed. Never touches a disk. */
  expiredLeases(now: number): readonly Lease[];
  /**
   * Unresolved jobs, most attempts first, then lowest offset: at most `max`. Looks at every job and
   * reads no payload; nothing is offered by it.
   */
  worst(max: number): Promise<readonly JobSketch[]>;
  /** The stored job of a current lease. */
  job(lease: Lease): Promise<Job | undefined>;
  /** Jobs not out with a worker: receipt time before `before`, or with no attempt left. At most `max`. */
  overdue(before: Nanoseconds, max: number): Promise<readonly Job[]>;
  /**
   * Moves a job to its dead-letter channel as `letter`, both halves or neither, into the reserve
   * (S143). Undefined when the job is gone or out with a worker under another lease.
   */
  deadLetter(
    offset: Offset,
    lease: Lease | undefined,
    letter: Message,
    into: AppendStore,
  ): Promise<StoredRecord | undefined>;
}

// -------------------------------------------------------------------------------------- sessions

/** One granted filter with its options (S97). */
export interface StoredSubscription {
  readonly filter: string;
  readonly qos: QoS;
  readonly noLocal: boolean;
  readonly retainAsPublished: boolean;
  readonly retainHandling: 0 | 1 | 2;
  readonly identifier?: number;
  /** Declared slices (D15.1). */
  readonly partitions?: { readonly count: number; readonly indices: readonly number[] };
  /** Next offset of the broadcast log when the subscription was made. */
  readonly logOffset: Offset;
}

export interface StoredWill {
  readonly topic: string;
  readonly payload: Uint8Array;
  readonly qos: QoS;
  readonly retain: boolean;
  /** Seconds. */
  readonly delay: number;
  readonly properties: Message["properties"];
  readonly headers: Message["headers"];
  /** The authenticated name; empty for none. */
  readonly user: string;
}

/** What is kept of a session that outlives its connection. */
export interface SessionRecord {
  readonly clientId: string;
  /** Granted expiry in seconds. */
  readonly expiry: number;
  /** 0n while connected. */
  readonly awaySince: Nanoseconds;
  readonly subscriptions: readonly StoredSubscription[];
  readonly will: StoredWill | undefined;
  /** When a waiting Will fires; 0n when none waits. */
  readonly willDue: Nanoseconds;
  /** The Receive Maximum the in-flight table is written under. */
  readonly window: number;
}

/** A log message on a session's wire (S98). */
export interface InFlight {
  readonly packetId: number;
  readonly offset: Offset;
  readonly qos: 1 | 2;
  /** `sent` awaits PUBACK or PUBREC; `received` has PUBREC and owes PUBREL. */
  readonly state: "sent" | "received";
  /** The shared group that handed it over; empty for none. */
  readonly group: string;
}

export interface SessionImage {
  readonly record: SessionRecord;
  /** Log cursor: lowest unacknowledged log offset. */
  readonly cursor: Offset;
  readonly inFlight: readonly InFlight[];
}

export interface GroupImage {
  readonly name: string;
  readonly cursor: Offset;
  readonly returned: readonly Offset[];
}

/** A change of one session's window; everything in one transaction (S101). */
export interface WindowChange {
  readonly clientId: string;
  /** Rows added, or replaced under their packet id. */
  readonly put: readonly InFlight[];
  /** Rows removed, matched on packet id and offset. */
  readonly drop: readonly { readonly packetId: number; readonly offset: Offset }[];
  /** The session's log cursor afterwards; undefined leaves it. */
  readonly cursor?: Offset;
  /** Group cursors moved by a hand-over. */
  readonly groups?: readonly { readonly name: string; readonly cursor: Offset }[];
  /** Returned deliveries taken by this hand-over. */
  readonly taken?: readonly { readonly group: string; readonly offset: Offset }[];
}

/** The sessions of the provider named by `broker.session.storage`. */
export interface SessionStore {
  /** Every session and group as stored, with S65 and S98 applied. Once, after `open`. */
  load(): Promise<{
    readonly sessions: readonly SessionImage[];
    readonly groups: readonly GroupImage[];
  }>;
  /**
   * Stores a session as new: whatever is kept under its id (record, window, log cursor, groups it was
   * the last member of) goes in the same write (D6.5, D6.11). `groups` are cursors it founds.
   */
  begin(
    record: SessionRecord,
    cursor: Offset,
    urgency: Urgency,
    groups?: readonly GroupImage[],
  ): Promise<void>;
  /** Rewrites the record of a held session; the window and cursor stay. */
  save(
    record: SessionRecord,
    urgency: Urgency,
    groups?: { readonly found: readonly GroupImage[]; readonly end: readonly string[] },
  ): Promise<void>;
  /** Record, window, cursor and the groups named, all in one transaction. */
  end(
    clientId: string,
    urgency: Urgency,
    groups?: {
      readonly end: readonly string[];
      readonly returned: readonly { readonly group: string; readonly offset: Offset }[];
    },
  ): Promise<void>;
  /** Applies a change of a window. Acknowledgements may use the reserve (S185). */
  change(change: WindowChange, urgency: Urgency): Promise<void>;
  /**
   * A packet of this client waits for the store: its queued writes are answering from now on, until
   * `unmark` (S132, S133). Calls nest.
   */
  mark(clientId: string): void;
  unmark(clientId: string): void;
}

// -------------------------------------------------------------------------------------- providers

/** The reserved `channel` values (S96). */
export const BROADCAST_LOG = "$saguin/broadcast";
export const RETAINED = "$saguin/retained";

export type StoreKind = "append" | "latest" | "queue";

/** One store a provider is opened with: a channel, a dead-letter channel, the log, the retained store. */
export interface StoreSpec {
  readonly channel: string;
  readonly kind: StoreKind;
}

/** What closed a publish transaction (05 section 9, 61). */
export type ClosedBy = "records" | "interval" | "commit" | "unbatched";

/** What only a file has. */
export interface FileStatistics {
  /** Publish transactions since the start by what closed them, and the publish entries in them. */
  readonly publishCommits: Readonly<Record<ClosedBy, number>>;
  readonly publishRecords: number;
  /** Most entries that one publish transaction takes; 0 where each has its own. */
  readonly publishMost: number;
  /** Milliseconds for which the oldest transaction that is not on the disk has waited; 0 for none. */
  readonly unflushedMs: number;
  /** The latest flush failed. */
  readonly flushFailing: boolean;
  /** Worker threads of the provider. */
  readonly workers: number;
}

export interface ProviderStatistics {
  /** Bytes charged (memory) or of the file (sqlite). */
  readonly bytes: number;
  /** Calls that failed since the start: transactions, reads and flushes; not a provider at its bound. */
  readonly errors: number;
  /** Undefined for a memory provider. */
  readonly file: FileStatistics | undefined;
  /** Publish entries submitted and not yet settled, and their bytes. */
  readonly waitingEntries: number;
  readonly waitingBytes: number;
  /** Transactions committed since the start, and the publish entries in them. */
  readonly commits: number;
  readonly entries: number;
}

/** A named place where channels are kept. One object per configured provider in use. */
export interface Provider {
  readonly name: string;
  readonly kind: "memory" | "sqlite";
  /**
   * Takes the lock, opens or creates what is stored, loads the counters of `stores`.
   * @throws StorageFailure with one sentence naming what and where; nothing is then held or created
   *   that was not there
   */
  open(stores: readonly StoreSpec[]): Promise<void>;
  /** The stores of `open`, by channel name: always the same object (S12). */
  append(channel: string): AppendStore;
  latest(channel: string): LatestStore;
  queue(channel: string): QueueStore;
  /** The session store; asked for only of the session provider. */
  sessions(): SessionStore;
  /** The durable half of AMQP; asked for only of a sqlite provider that was made with it. */
  amqp(): AmqpStore;
  /** The ingest tables; asked for only of a sqlite provider that was made with them. */
  ingest(): IngestStore;
  /** Queues a publish entry. Never throws; the entry hears the outcome. */
  submit(entry: PublishEntry): void;
  /**
   * True while the entries waiting are under the provider's bound; past it, connections with a
   * publish waiting on this provider are not read.
   */
  readonly accepting: boolean;
  /** Runs once when `accepting` turns true again. */
  onceAccepting(resume: () => void): void;
  /** Drops the positions of ended sessions (S40): those `held` denies and whose expiry passed. */
  sweepPositions(held: (clientId: string) => boolean, now: Nanoseconds): Promise<number>;
  /**
   * The holds found at the start, whether or not their channel is configured; those `keep` refuses, and
   * those of channels not configured, are deleted and counted abandoned.
   */
  recoverHolds(
    keep: (channel: string, hold: Omit<Hold, "message">) => boolean,
  ): Promise<{
    readonly kept: readonly (Omit<Hold, "message"> & { readonly channel: string })[];
    readonly abandoned: number;
  }>;
  statistics(): ProviderStatistics;
  /** Settles what is queued, checkpoints or snapshots, releases the lock last (S147). */
  close(): Promise<void>;
  /** Ends a start that is refused after `open`: no snapshot is written over the one it read. */
  abandon(): Promise<void>;
}
