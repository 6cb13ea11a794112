import type { AmqpMessage } from "../message.ts";
import type { Refusal } from "../reply.ts";

/**
 * Where consumers and basic.get take messages from: an AMQP queue, or a `queue` channel of the broker.
 * What was taken comes back by exactly one of `acknowledged`, `discarded` and `requeue`.
 */
export interface Source {
  readonly name: string;
  /** Ready messages (A36). */
  readonly messageCount: number;
  readonly consumerCount: number;
  /** A consumer holds it exclusively (A48). */
  readonly heldExclusively: boolean;
  /** Why this login may not take messages from it; undefined when it may. */
  refusal(user: string): Refusal | undefined;
  /** Why no consumer can have it to itself; undefined when one can. */
  readonly shared: Refusal | undefined;
  /** Resolves once what was settled here is stored; undefined when it is, or `Removals` knows. */
  readonly settling: Promise<void> | undefined;
  /** No further delivery to or from it. */
  readonly deleted: boolean;
  join(taker: Taker): void;
  leave(taker: Taker): void;
  /** Somebody who had no capacity may have some now. */
  wake(): void;
  /** The next message for a basic.get, out from then on; undefined when none is ready. */
  take(): QueueItem | undefined | Promise<QueueItem | undefined>;
  acknowledged(item: QueueItem): void;
  /** Refused for good: nack or reject without requeue. */
  discarded(item: QueueItem): void;
  /** Back into the queue, where they were (A55). In ascending order of their delivery. */
  requeue(items: readonly QueueItem[]): void;
}

/** One message in one queue, while it is out. */
export interface QueueItem {
  readonly source: Source;
  /** There when it is delivered, and no longer than that has to be. */
  readonly message: AmqpMessage | undefined;
  readonly redelivered: boolean;
  /** Settling it changes the store. */
  readonly durable: boolean;
}

/** A consumer as a source sees it. */
export interface Taker {
  /** Its login, for operators; empty for none. */
  readonly user: string;
  readonly exclusive: boolean;
  /** Whether one more delivery may be made now (A50, A18). */
  readonly hasCapacity: boolean;
  /** The item is on its way; it comes back through its source. */
  deliver(item: QueueItem): void;
  /** The source is gone (A41). */
  sourceGone(): void;
}
