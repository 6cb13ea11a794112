import type { ExtensionRow, Provider } from "../storage/contract.ts";
import type { Message } from "../storage/record.ts";

/**
 * What one publish writes beside the record, the log entry and the retained value it is: copies in AMQP
 * queues, rows of ingest tables. They share its fate: all of it is kept, or nothing is (07 P1).
 */
export interface Copies {
  readonly provider: Provider;
  /** Empty when nothing of them has to be stored. */
  readonly rows: readonly ExtensionRow[];
  readonly bytes: number;
  /** The publish is accepted and stored: they may be delivered. Before the publisher is answered. */
  accepted(): void;
  /** It is refused. `written`: their rows were stored all the same, by a provider of their own. */
  refused(written: boolean): void;
}

export const NO_COPIES: readonly Copies[] = Object.freeze([]);

/** Where a publish came in. */
export type Origin = "mqtt" | "amqp";

/** Whoever takes copies of what clients publish. */
export interface Copying {
  /** Of a publish that was admitted and is no job; undefined when it is not for them. */
  copies(message: Message, origin: Origin): Copies | undefined;
}
