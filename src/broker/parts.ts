import type { AppendChannel } from "./channels/append.ts";
import type { QueueChannel } from "./channels/queue.ts";
import type { ExactlyOnce } from "./exactly_once.ts";
import type { BroadcastLog } from "./log.ts";
import type { Shares } from "./share/shares.ts";
import type { Subscriptions } from "./subscribe.ts";
import type { Wills } from "./wills.ts";

/** The parts of the broker that the beginning and ending of a session touches. */
export interface Parts {
  readonly appendChannels: readonly AppendChannel[];
  readonly queueChannels: readonly QueueChannel[];
  readonly log: BroadcastLog;
  readonly wills: Wills;
  readonly exactlyOnce: ExactlyOnce;
  readonly subscriptions: Subscriptions;
  readonly shares: Shares;
}
