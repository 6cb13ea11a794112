import type { Limits } from "../config/configuration.ts";
import type { Clock } from "../platform/clock.ts";
import type { Ids } from "../platform/ids.ts";
import type { Log } from "../platform/log.ts";
import type { Timers } from "../platform/timers.ts";
import type { Counters } from "./counters.ts";
import type { AckDrain } from "./drain.ts";

/** What every part of the broker core is given. */
export interface Context {
  readonly clock: Clock;
  readonly timers: Timers;
  readonly log: Log;
  readonly ids: Ids;
  readonly limits: Limits;
  readonly counters: Counters;
  /** `broker.session.ack_commit_interval`: how long acknowledgements may wait to be written. */
  readonly ackCommitIntervalMs: number;
  readonly drain: AckDrain;
}
