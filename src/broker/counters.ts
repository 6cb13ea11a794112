import { PositionLosses } from "./losses.ts";
import { RefusedClients } from "./refusals.ts";
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
  | "no_shared_member"
  | "packet_ids_exhausted"
  | "too_large";

/** Why a delivery on a shared group's list never reached a member. */
export type ShareDropCause =
  | "backlog_full"
  | "no_member_left"
  | "expired"
  | "storage_full"
  | "member_ended"
  | "not_authorized";

/** What made a Will be published. */
export type WillCause = "immediate" | "delayed" | "session_ended" | "start";

/** Why a session that was to be kept was not. */
export type SessionDropCause = "storage_full" | "expired_while_stopped" | "subscription_refused";

/** Plain counters in objects, rendered when somebody asks; nothing but an increment on a hot path. */
export class Counters {
  /** CONNACKs that accepted. */
  connections = 0;
  /** CONNECTs of MQTT 5 that asked for a longer session than `limits.max_session_expiry`. */
  sessionExpiryShortened = 0;
  /** Sessions brought back at the start and kept. */
  sessionsRestored = 0;
  /** Bytes of MQTT packets, in and out. */
  bytesReceived = 0;
  bytesSent = 0;
  /** PUBLISH packets of clients, refused ones included. */
  publishesReceived = 0;
  /** Broadcasts accepted; what goes into a channel is counted by the channel. */
  broadcastPublished = 0;
  /** Those of them that no subscription matched. */
  broadcastUnmatched = 0;
  delivered = 0;
  /** QoS 0 deliveries a slow subscriber did not take. */
  deliveriesDropped = 0;
  /** Deliveries given up before they were sent because their Message Expiry Interval was over. */
  deliveriesExpired = 0;
  /** By `refusalName`. */
  readonly publishRefused = new LabelledCounter<string>();
  /** Publishes over `publish_rate` or `publish_bytes`; not among `publishRefused`. */
  publishRateExceeded = 0;
  readonly subscriptionsRefused = new LabelledCounter<ReasonCode>();
  /** By `refusalName`. */
  readonly connectionsRefused = new LabelledCounter<string>();
  readonly refusedClients = new RefusedClients();
  readonly sessionDeliveriesDropped = new LabelledCounter<DropCause>();
  /** Deliveries placed on lists of shared groups, handed to members from there, and dropped there. */
  sharesHeld = 0;
  sharesDrained = 0;
  readonly sharesDropped = new LabelledCounter<ShareDropCause>();
  /**
   * A delivery that was handed out comes back to a group's list, or one finds no room on it, and is
   * dropped at once: in and out, so that what groups hold stays what the counters leave (05 section 11).
   */
  shareDropped(cause: ShareDropCause): void {
    this.sharesHeld++;
    this.sharesDropped.add(cause);
  }

  readonly storageErrors = new LabelledCounter<string>();
  readonly sessionsDropped = new LabelledCounter<SessionDropCause>();
  qos2Abandoned = 0;
  readonly willsPublished = new LabelledCounter<WillCause>();
  /** Wills withdrawn by a client that came back within its delay. */
  willsCancelled = 0;
  readonly positionLosses = new PositionLosses();
}
