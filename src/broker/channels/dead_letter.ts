import { fromMilliseconds, type Nanoseconds, toMilliseconds } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import type { Job, Lease, QueueStore } from "../../storage/contract.ts";
import type { Message, Offset } from "../../storage/record.ts";
import { deadLetterTopic } from "../../topics/deadletter.ts";
import type { Context } from "../context.ts";
import type { AppendChannel } from "./append.ts";

export type DeadLetterReason = "attempts_exhausted" | "expired";

/** Jobs moved at once by a sweep: their payloads are in memory together. */
const SWEEP_JOBS = 32;

/** How long a move that failed waits for its next try. */
const RETRY_MS = 1_000;

/** Where a job comes from and how it ended, for the headers of its letter. */
export interface Ended {
  readonly queue: string;
  /** The queue's filter, one expansion of it. */
  readonly filter: string;
  readonly reason: DeadLetterReason;
  readonly at: Nanoseconds;
}

/**
 * The dead letter of a job (D14.23, D14.24): same message, same receipt time, one topic level more, and
 * after the publisher's User Properties those of the broker.
 */
export function deadLetter(job: Job, { queue, filter, reason, at }: Ended): Message {
  const headers: [string, string][] = [
    ["saguin-dlq-channel", queue],
    ["saguin-dlq-offset", String(job.offset)],
    ["saguin-dlq-attempts", String(job.attempts)],
    ["saguin-dlq-reason", reason],
    ["saguin-dlq-at", rfc3339(at)],
  ];
  if (job.firstDelivered !== 0n) {
    headers.push(["saguin-dlq-first", rfc3339(job.firstDelivered)]);
    headers.push(["saguin-dlq-last", rfc3339(job.lastDelivered)]);
  }
  return {
    ...job.message,
    topic: deadLetterTopic(filter, job.message.topic),
    headers: [...job.message.headers, ...headers],
  };
}

/** UTC with exactly three digits of a second: what the oldest parsers accept (06 section 6). */
function rfc3339(at: Nanoseconds): string {
  return new Date(toMilliseconds(at)).toISOString();
}

/** `job` as it is once this delivery has counted, where its store has not counted it (D14.14). */
export function withAttempt(job: Job, attempt: number, at: Nanoseconds): Job {
  if (job.attempts >= attempt) return job;
  const firstDelivered = job.firstDelivered === 0n ? at : job.firstDelivered;
  return { ...job, attempts: attempt, firstDelivered, lastDelivered: at };
}

/** What a queue's moves are made of. */
export interface DeadLetterPolicy {
  readonly filter: string;
  /** Undefined: a job never expires. */
  readonly jobExpiresAfterMs: number | undefined;
  readonly maxAttempts: number;
}

/** Moves jobs of one queue to its dead-letter channel, whole or not at all (D14.22). */
export class DeadLetterMoves {
  /** Jobs moved, and those of them that had expired. */
  moved = 0;
  expired = 0;
  /** Of the expired, those that were with nobody: no delivery ended in them (05 section 11). */
  expiredWaiting = 0;
  #sweep: Promise<number> | undefined;
  #retrying = false;

  constructor(
    private readonly store: QueueStore,
    private readonly into: AppendChannel,
    private readonly policy: DeadLetterPolicy,
    private readonly context: Context,
  ) {}

  /** The moment before which a job must have been received to be too old; 0n when none ever is. */
  #cutoff(now: Nanoseconds): Nanoseconds {
    const { jobExpiresAfterMs } = this.policy;
    return jobExpiresAfterMs === undefined ? 0n : now - fromMilliseconds(jobExpiresAfterMs);
  }

  /** A job without a receipt time is never too old (D14.25). */
  isOverdue({ timestamp }: Message): boolean {
    if (this.policy.jobExpiresAfterMs === undefined || timestamp === 0n) return false;
    return timestamp < this.#cutoff(this.context.clock.wall());
  }

  /**
   * Moves the job that is out under `lease`. `attempt`: the delivery to count if the store has not
   * counted it. False: the job stays as it was, and is tried again.
   */
  async moveHeld(
    lease: Lease,
    reason: DeadLetterReason,
    attempt: number | undefined,
  ): Promise<boolean> {
    try {
      const job = await this.store.job(lease);
      if (job === undefined) return false;
      const at = this.context.clock.wall();
      const counted = attempt === undefined ? job : withAttempt(job, attempt, at);
      return await this.#move(counted, lease, reason);
    } catch (error) {
      this.#failed(lease.offset, error);
      return false;
    }
  }

  /** Moves a job that is too old to be offered; nobody has had it under `lease`. False as above. */
  async moveOffered(lease: Lease): Promise<boolean> {
    const moved = await this.moveHeld(lease, "expired", undefined);
    if (moved) this.expiredWaiting++;
    return moved;
  }

  async #move(job: Job, lease: Lease | undefined, reason: DeadLetterReason): Promise<boolean> {
    const letter = deadLetter(job, {
      queue: this.store.channel,
      filter: this.policy.filter,
      reason,
      at: this.context.clock.wall(),
    });
    const record = await this.store.deadLetter(job.offset, lease, letter, this.into.store);
    if (record === undefined) return false;
    this.moved++;
    if (reason === "expired") this.expired++;
    this.into.recorded(record.offset, record.message);
    this.context.log.warn("moved a job to its dead-letter channel", {
      queue: this.store.channel,
      offset: job.offset,
      attempts: job.attempts,
      reason,
      letter: record.offset,
    });
    return true;
  }

  #failed(offset: Offset | undefined, error: unknown): void {
    this.context.counters.storageErrors.add(this.store.channel);
    this.context.log.error("cannot move jobs to a dead-letter channel; it is tried again", {
      queue: this.store.channel,
      offset,
      error: errorText(error),
    });
    this.#retrySoon();
  }

  /** Arms a sweep a little later: something that should have moved has not. */
  #retrySoon(): void {
    if (this.#retrying) return;
    this.#retrying = true;
    this.context.timers.after(RETRY_MS, () => {
      this.#retrying = false;
      void this.sweep(this.context.clock.wall());
    });
  }

  /**
   * Moves what is too old at `now` or has no attempt left, those with a worker excepted. Resolves with
   * how many went; one sweep at a time, a second call gets the outcome of the first.
   */
  sweep(now: Nanoseconds): Promise<number> {
    this.#sweep ??= this.#moveOverdue(now).finally(() => this.#sweep = undefined);
    return this.#sweep;
  }

  async #moveOverdue(now: Nanoseconds): Promise<number> {
    const cutoff = this.#cutoff(now);
    let total = 0;
    try {
      for (;;) {
        const jobs = await this.store.overdue(cutoff, SWEEP_JOBS);
        const outcomes = await Promise.allSettled(
          jobs.map(async (job) => {
            const spent = job.attempts >= this.policy.maxAttempts;
            const reason = spent ? "attempts_exhausted" : "expired";
            const moved = await this.#move(job, undefined, reason);
            if (moved && !spent) this.expiredWaiting++;
            return moved;
          }),
        );
        let moved = 0;
        for (const outcome of outcomes) {
          if (outcome.status === "rejected") throw outcome.reason;
          if (outcome.value) moved++;
        }
        total += moved;
        // A page of which nothing went was taken by workers meanwhile.
        if (jobs.length < SWEEP_JOBS || moved === 0) return total;
      }
    } catch (error) {
      this.#failed(undefined, error);
      return total;
    }
  }
}
