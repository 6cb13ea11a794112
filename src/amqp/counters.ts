import { LabelledCounter } from "../broker/counters.ts";
import type { ReplyCode } from "./reply.ts";

/** Why a message that the other protocol could have had did not cross (B5). */
export type SkipCause = "reserved_topic" | "key_too_long" | "no_topic" | "refused";

/** Plain counters of the AMQP door, rendered when somebody asks (C6). */
export class AmqpCounters {
  connections = 0;
  channels = 0;
  published = 0;
  confirmed = 0;
  returned = 0;
  /** What the bound of queues has cost that were not stored and are gone. */
  droppedByGone = 0;
  readonly refused = new LabelledCounter<ReplyCode>();
  readonly skippedToMqtt = new LabelledCounter<SkipCause>();
  readonly skippedFromMqtt = new LabelledCounter<SkipCause>();
}
