import type { ReasonCode } from "./reason.ts";

/** Counts by a label whose values the broker chooses, never a client. */
export class LabelledCounter<Label extends string | number> {
  readonly #counts = new Map<Label, number>();

  add(label: Label, by = 1): void {
    this.#counts.set(label, (this.#counts.get(label) ?? 0) + by);
  }

  get(label: Label): number {
    return this.#counts.get(label) ?? 0;
  }

  entries(): IterableIterator<[Label, number]> {
    return this.#counts.entries();
  }
}

/** Why a delivery that a session was owed never reached it. */
export type DropCause =
  | "session_queue_full"
  | "storage_full"
  | "expired"
  | "no_shared_member"
  | "member_ended"
  | "backlog_full";

/** Plain counters in objects, rendered when somebody asks; nothing but an increment on a hot path. */
export class Counters {
  published = 0;
  delivered = 0;
  /** QoS 0 deliveries a slow subscriber did not take. */
  deliveriesDropped = 0;
  readonly publishRefused = new LabelledCounter<ReasonCode>();
  readonly subscriptionsRefused = new LabelledCounter<ReasonCode>();
  readonly connectionsRefused = new LabelledCounter<string>();
  readonly sessionDeliveriesDropped = new LabelledCounter<DropCause>();
  readonly storageErrors = new LabelledCounter<string>();
  sessionsDropped = 0;
  queueRetainIgnored = 0;
  qos2Abandoned = 0;
  willsPublished = 0;
  positionsOvertaken = 0;
}
