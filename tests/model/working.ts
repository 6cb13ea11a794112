/** What queues promise (invariants 3 to 6 and 15): one holder, one place, and only an answer resolves. */
import { at, Broken, type Facts, isQueue, type Job, type SessionFacts } from "./facts.ts";
import { QUEUE_RULES } from "./world.ts";

/** An offer as it arrived. */
export interface Offered {
  readonly queue: string;
  readonly offset: number;
  readonly mark: string;
  readonly attempt: number;
  readonly deliveryId: string;
}

/** Ticks of 200 ms and a little: an idle worker and a job that is there meet within this. */
export const MEET_MS = 600;

export class Working {
  /** Every Delivery ID there ever was; a crash brings none of them back. */
  readonly ids = new Map<string, { readonly queue: string; readonly offset: number }>();

  constructor(private readonly slackMs: number) {}

  offered(
    facts: Facts,
    session: SessionFacts,
    connection: number,
    now: number,
    offer: Offered,
  ): void {
    const { queue, offset, attempt, deliveryId } = offer;
    const what = `job ${offset} of ${queue} (${offer.mark})`;
    if (this.ids.has(deliveryId)) {
      throw new Broken("3", `${what} is offered under a Delivery ID that was used before`);
    }
    this.ids.set(deliveryId, { queue, offset });
    const job = this.#job(facts, queue, offset, offer.mark);
    if (job.done === "resolved") {
      throw new Broken("18", `${what} is offered after its ack was answered`);
    }
    if (job.done === "letter") throw new Broken("5", `${what} is offered and is a dead letter too`);
    job.done = "no";
    this.expire(job, now);
    if (job.held !== undefined && !this.#lapsing(job, now)) {
      throw new Broken(
        job.held.disputed ? "3" : "4",
        `${what} is offered to ${session.client} while ${job.held.client} holds it`,
      );
    }
    for (const other of at(facts.jobs, queue, () => new Map<number, Job>()).values()) {
      const { held } = other;
      if (other === job || held === undefined || held.connection !== connection) continue;
      this.expire(other, now);
      if (other.held !== undefined && !this.#lapsing(other, now)) {
        throw new Broken("4", `${session.client} holds job ${other.offset} and is offered ${what}`);
      }
    }
    const { maxAttempts } = QUEUE_RULES[queue];
    if (attempt > maxAttempts) {
      throw new Broken("5", `${what} is offered as attempt ${attempt} of ${maxAttempts}`);
    }
    if (attempt <= job.spent || attempt > job.spentAtMost + 1) {
      throw new Broken(
        job.heldAtStop ? "15" : "6",
        `${what} is offered as attempt ${attempt}; ${job.spent} to ${job.spentAtMost} are spent`,
      );
    }
    job.spent = job.spentAtMost = attempt - 1;
    job.held = {
      client: session.client,
      connection,
      deliveryId,
      attempt,
      pubackAt: undefined,
      disputed: false,
      leaving: false,
    };
  }

  #job(facts: Facts, queue: string, offset: number, mark: string): Job {
    return at(at(facts.jobs, queue, () => new Map<number, Job>()), offset, () => ({
      queue,
      offset,
      mark,
      spent: 0,
      spentAtMost: 0,
      held: undefined,
      done: "no",
      letter: 0,
      availableAt: 0,
      staleAnswer: false,
      heldAtStop: false,
      pubackedOnly: false,
    }));
  }

  /** The visibility timeout passed for certain: nobody holds it. */
  expire(job: Job, now: number): void {
    const { held } = job;
    if (held?.pubackAt === undefined) return;
    const due = held.pubackAt + QUEUE_RULES[job.queue].visibilityMs;
    if (now < due + this.slackMs) return;
    this.#free(job, held.pubackAt);
    job.availableAt = Math.max(job.availableAt, due);
  }

  /** It may have passed, or its holder is on the way out. */
  #lapsing(job: Job, now: number): boolean {
    const { held } = job;
    if (held?.leaving === true) return true;
    return held?.pubackAt !== undefined && this.slackMs > 0 &&
      now >= held.pubackAt + QUEUE_RULES[job.queue].visibilityMs - this.slackMs;
  }

  #free(job: Job, from: number): void {
    job.held = undefined;
    job.availableAt = Math.max(job.availableAt, from + this.#gap(job));
  }

  #gap(job: Job): number {
    return QUEUE_RULES[job.queue].backoffBaseMs * Math.max(1, job.spentAtMost);
  }

  /** A PUBACK for an offer went. */
  puback(facts: Facts, queue: string, offset: number, deliveryId: string, now: number): void {
    const job = facts.jobs.get(queue)?.get(offset);
    if (job?.held?.deliveryId !== deliveryId || job.held.pubackAt !== undefined) return;
    job.held.pubackAt = now;
    job.spentAtMost = job.held.attempt;
    job.pubackedOnly = true;
  }

  /**
   * An answer goes on `connection`. `valid`: it has to take effect, and when it is answered it has.
   * `stale`: it must change nothing.
   */
  answer(
    facts: Facts,
    connection: number,
    deliveryId: string,
    verdict: "ack" | "return",
    now: number,
  ): { readonly job: Job | undefined; readonly valid: boolean } {
    const known = this.ids.get(deliveryId);
    const job = known === undefined ? undefined : facts.jobs.get(known.queue)?.get(known.offset);
    if (job === undefined) return { job, valid: false };
    this.expire(job, now);
    const { held } = job;
    if (held === undefined || held.deliveryId !== deliveryId || held.connection !== connection) {
      job.staleAnswer = true;
      if (held !== undefined) held.disputed = true;
      return { job, valid: false };
    }
    const lapsing = this.#lapsing(job, now);
    job.spentAtMost = held.attempt;
    job.pubackedOnly = false;
    if (verdict === "ack") {
      job.done = "maybe";
      job.held = undefined;
      job.availableAt = now;
    } else this.#free(job, now);
    return { job, valid: !lapsing };
  }

  /** The answer to an answer came: what it said is done. */
  answered(job: Job, verdict: "ack" | "return", attempt: number): void {
    if (verdict === "ack") {
      if (job.done === "letter") {
        throw new Broken(
          "5",
          `job ${job.offset} of ${job.queue} was resolved and is a dead letter`,
        );
      }
      job.done = "resolved";
      job.held = undefined;
    } else job.spent = Math.max(job.spent, attempt);
  }

  /** Everything a client sent was taken in: what was counted at most is counted. */
  settled(facts: Facts): void {
    for (const jobs of facts.jobs.values()) {
      for (const job of jobs.values()) {
        if (job.held?.pubackAt !== undefined) job.spent = Math.max(job.spent, job.held.attempt);
      }
    }
  }

  /** A DISCONNECT goes: what the connection holds is others' before its close is heard of. */
  leaving(facts: Facts, connection: number): void {
    for (const jobs of facts.jobs.values()) {
      for (const { held } of jobs.values()) {
        if (held?.connection === connection) held.leaving = true;
      }
    }
  }

  connectionGone(facts: Facts, connection: number, now: number): void {
    for (const jobs of facts.jobs.values()) {
      for (const job of jobs.values()) {
        if (job.held?.connection === connection) this.#free(job, now);
      }
    }
  }

  /** The broker is gone and back: nobody holds anything (invariant 15). */
  stopped(facts: Facts, now: number): void {
    for (const jobs of facts.jobs.values()) {
      for (const job of jobs.values()) {
        if (job.held !== undefined) job.heldAtStop = true;
        job.held = undefined;
        job.availableAt = now;
      }
    }
  }

  /** A dead letter was seen. */
  letter(
    facts: Facts,
    queue: string,
    offset: number,
    mark: string,
    letter: number,
    attempts: number,
    now: number,
  ): void {
    const what = `job ${offset} of ${queue} (${mark})`;
    const job = this.#job(facts, queue, offset, mark);
    if (job.mark !== mark) throw new Broken("8", `${what} was ${job.mark} when it was offered`);
    if (job.done === "resolved") throw new Broken("5", `${what} was resolved and is a dead letter`);
    if (job.done === "letter") {
      if (job.letter === letter) return;
      throw new Broken("5", `${what} is a dead letter twice: ${job.letter} and ${letter}`);
    }
    this.expire(job, now);
    if (job.held !== undefined && !this.#lapsing(job, now)) {
      throw new Broken("5", `${what} is a dead letter while ${job.held.client} holds it`);
    }
    const { maxAttempts } = QUEUE_RULES[queue];
    if (attempts !== maxAttempts || job.spentAtMost < maxAttempts) {
      throw new Broken(
        "5",
        `${what} is a dead letter after ${attempts} of ${job.spentAtMost} attempts`,
      );
    }
    job.done = "letter";
    job.letter = letter;
    job.held = undefined;
  }

  /** Jobs that are with nobody, for certain, and have been since `since`. */
  waiting(facts: Facts, queue: string, since: number): Job[] {
    return [...facts.jobs.get(queue)?.values() ?? []].filter((job) => {
      this.expire(job, since);
      return job.done === "no" && job.held === undefined && job.availableAt <= since &&
        job.spentAtMost < QUEUE_RULES[queue].maxAttempts;
    });
  }

  /** At the end, after a worker took all there was: every job is somewhere. */
  finish(facts: Facts): void {
    for (const publish of facts.publishes.values()) {
      const queue = publish.topic.split("/")[0];
      if (publish.fate !== "stored" || !isQueue(queue)) continue;
      const jobs = [...facts.jobs.get(queue)?.values() ?? []];
      if (jobs.some(({ mark }) => mark === publish.mark)) continue;
      throw new Broken("18", `${publish.mark} was stored in ${queue} and was never offered`);
    }
    for (const jobs of facts.jobs.values()) {
      for (const job of jobs.values()) {
        if (job.done !== "no") continue;
        const rule = job.pubackedOnly
          ? "6"
          : job.staleAnswer
          ? "3"
          : job.spentAtMost >= QUEUE_RULES[job.queue].maxAttempts
          ? "5"
          : job.heldAtStop
          ? "15"
          : "18";
        throw new Broken(
          rule,
          `job ${job.offset} of ${job.queue} (${job.mark}) is neither resolved, nor offered, ` +
            `nor a dead letter`,
        );
      }
    }
  }
}
