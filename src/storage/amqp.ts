/**
 * What the AMQP door asks of the provider that keeps its durable half (07-amqp-ingest.md T1 to T8):
 * exchanges, queues, bindings, and the copies of persistent messages in durable queues. They are tables
 * of their own in the provider's file, outside the eleven (S198); only a sqlite provider has them.
 */
import type { Urgency } from "./contract.ts";

/** A message in one durable queue: a publish row like the others, so one transaction with them. */
export interface AmqpCopyRow {
  readonly kind: "amqp-copy";
  readonly store: AmqpStore;
  /** The queue's number. A queue that is gone by then takes nothing, and the rest is kept (A46). */
  readonly queue: number;
  /** Position in the database: ascending in order of routing, never reused. */
  readonly seq: number;
  readonly exchange: string;
  readonly routingKey: string;
  /** Property flags and list, then the body; opaque. */
  readonly content: Uint8Array;
  /** Where the body begins in `content`. */
  readonly propertyBytes: number;
  /** Stays 0. */
  offset: number;
}

/** The oldest message of a full queue goes, with the publish that pushes it out, and is counted (A42). */
export interface AmqpDropRow {
  readonly kind: "amqp-drop";
  readonly store: AmqpStore;
  readonly queue: number;
  readonly seq: number;
  /** Stays 0. */
  offset: number;
}

export type AmqpRow = AmqpCopyRow | AmqpDropRow;

export interface StoredExchange {
  readonly name: string;
  readonly type: string;
  readonly autoDelete: boolean;
  /** An encoded field table, as are all `args`. */
  readonly args: Uint8Array;
}

export interface StoredAmqpQueue {
  readonly id: number;
  readonly name: string;
  readonly autoDelete: boolean;
  readonly args: Uint8Array;
  /** Messages its bound has cost since it was declared. */
  readonly dropped: number;
}

export interface StoredBinding {
  readonly exchange: string;
  readonly queue: number;
  readonly routingKey: string;
  readonly args: Uint8Array;
}

export interface StoredAmqpObjects {
  readonly exchanges: readonly StoredExchange[];
  readonly queues: readonly StoredAmqpQueue[];
  readonly bindings: readonly StoredBinding[];
  /** The highest position in use; 0 when there is none. */
  readonly lastSeq: number;
  /** Messages without a queue, which were deleted (A59). */
  readonly orphans: number;
}

/** Messages as recovery sees them: three numbers each, queue, position, bytes of the body. */
export type StoredMessageIndex = Float64Array;
export const INDEX_NUMBERS = 3;

export interface AmqpPosition {
  readonly queue: number;
  readonly seq: number;
}

export interface StoredAmqpMessage {
  readonly seq: number;
  readonly exchange: string;
  readonly routingKey: string;
  readonly content: Uint8Array;
  readonly propertyBytes: number;
}

/** A change of what was declared; each is a transaction before its reply. */
export type AmqpChange =
  | { readonly change: "declare-exchange"; readonly exchange: StoredExchange }
  /** Its bindings go with it. */
  | { readonly change: "delete-exchange"; readonly name: string }
  /** A row of that name with another number is left over from a delete that failed, and goes. */
  | { readonly change: "declare-queue"; readonly queue: Omit<StoredAmqpQueue, "dropped"> }
  /** Its bindings and what is left of its messages go with it. */
  | { readonly change: "delete-queue"; readonly id: number }
  | { readonly change: "bind"; readonly binding: StoredBinding }
  | { readonly change: "unbind"; readonly binding: StoredBinding };

/** Messages that are settled: `queues[i]` and `seqs[i]` name one. */
export interface AmqpRemoval {
  readonly queues: readonly number[];
  readonly seqs: readonly number[];
  /** True: they count as dropped by the bound of their queue. */
  readonly dropped: boolean;
}

/** Most messages of one removal: what one write may cost the others of its transaction. */
export const MESSAGES_PER_REMOVAL = 1000;

/** All calls reject with StorageFailure. */
export interface AmqpStore {
  /** Everything that was declared. Once, after `open`. */
  load(): Promise<StoredAmqpObjects>;
  /** Stored messages behind `after`, ascending by queue and then by position, at most `max`. */
  index(after: AmqpPosition, max: number): Promise<StoredMessageIndex>;
  change(change: AmqpChange): Promise<void>;
  /** Deletes up to `MESSAGES_PER_REMOVAL` messages; may use the reserve. */
  remove(removal: AmqpRemoval, urgency: Urgency): Promise<void>;
  /** Deletes up to `MESSAGES_PER_REMOVAL` messages of a queue that is gone. True: there may be more. */
  clear(queue: number): Promise<boolean>;
  /** Messages of a queue from position `from` on: at most `max` and about `maxBytes`, at least one. */
  read(
    queue: number,
    from: number,
    max: number,
    maxBytes: number,
  ): Promise<readonly StoredAmqpMessage[]>;
  /** Writes and deletes `bytes` bytes without the reserve: resolves when publishes can be stored again. */
  probe(bytes: number): Promise<void>;
}
