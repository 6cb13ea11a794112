import type { Nanoseconds } from "../platform/clock.ts";
import type {
  AppendStore,
  Backoff,
  Job,
  JobSketch,
  Lease,
  Offer,
  QueueStore,
  RecordStore,
  Urgency,
} from "./contract.ts";
import type { Message, Offset, StoredRecord } from "./record.ts";
import { ReturnedJobs } from "./returned_jobs.ts";

/**
 * The stored half of a queue (S32): what a provider keeps, and nothing about who holds a job. Every
 * call that writes is one transaction and may use the reserve (S142, S143).
 *
 * The floor of a queue stays where it is: jobs leave in any order and nothing reads them by offset,
 * so a resolution is one deletion and writes no counter row (S142, S176).
 */
export interface JobRows extends RecordStore {
  bytes(): number;
  depth(): number;
  setMaxBytes(bytes: number | undefined): void;
  /** Jobs from `from` on, inclusive, ascending: at most `max` and about `maxBytes`, always one if there is one. */
  read(from: Offset, max: number, maxBytes: number): Promise<readonly Job[]>;
  /**
   * Jobs from `from` on, ascending, at most `max`: received before `before` (unset times are never too
   * old, S190; `0n` finds none), or with at least `spentAttempts` attempts made.
   */
  overdue(
    before: Nanoseconds,
    spentAttempts: number,
    from: Offset,
    max: number,
  ): Promise<readonly Job[]>;
  /** As `QueueStore.worst`. */
  worst(max: number): Promise<readonly JobSketch[]>;
  /** Rewrites a job's delivery history. `firstDelivered` is kept where the job has one already. */
  recordAttempt(offset: Offset, attempts: number, at: Nanoseconds): Promise<void>;
  /** Deletes a job; bytes and depth go down with it. */
  remove(offset: Offset): Promise<void>;
  /** Undefined when there is no such job. */
  deadLetter(
    offset: Offset,
    letter: Message,
    into: AppendStore,
  ): Promise<StoredRecord | undefined>;
}

/** Jobs of one read, and their bytes: what offers to come are served from, so kept in memory meanwhile. */
const READ_JOBS = 64;
const READ_BYTES = 64 * 1024;

/** Jobs asked for at once while looking for overdue ones: this many payloads are in memory. */
const OVERDUE_READ_JOBS = 32;

/** A job that no offer may choose: with a worker, spent and waiting for its move, or being moved. */
interface Out {
  readonly epoch: number;
  readonly offeredAt: number;
  state: "delivering" | "leased" | "spent" | "moving";
  attempts: number;
  /** 0n until this delivery was counted, or is to be counted by a move (`spent`). */
  countedAt: Nanoseconds;
  /** Monotonic ms; Infinity until PUBACK (D14.1). */
  deadline: number;
  /** Settles when the running write of this job has ended, however it ended. */
  writing: Promise<void> | undefined;
}

/** What one read found and no offer has looked at yet. */
interface Ahead {
  readonly jobs: readonly Job[];
  /** Place of the next one. */
  at: number;
  /** The next offset to be looked at; nothing between it and that of the next job is stored. */
  from: Offset;
  /** Jobs whose entry ended since the read began: it may be older than that. */
  readonly ended: Set<Offset>;
}

function nothing(): void {}

function moving(epoch: number): Out {
  return {
    epoch,
    offeredAt: 0,
    state: "moving",
    attempts: 0,
    countedAt: 0n,
    deadline: Infinity,
    writing: undefined,
  };
}

/**
 * The volatile half of a queue, the same for both providers: which job is out with which delivery,
 * until when, and which one may be offered next (S20, S21, S140, D14.1 to D14.19). Nothing of it is
 * stored, so a restart finds every job available (S34, D14.28).
 *
 * ```
 *            offer               lease (attempt counted)        resolve
 * available -------> delivering -------------------------> leased ------> gone
 *     ^                  |  resolve -> gone                   |
 *     +---- release -----+------------------------------------+
 *                        +-- release, no attempt left --> spent --deadLetter--> gone
 * ```
 *
 * Operations on one delivery follow each other: one that comes while a write of the same job is under
 * way waits for its outcome and then looks again. A failed write leaves the entry as it was.
 *
 * Does not know workers, Delivery IDs, or expiry at hand-over: the broker does.
 */
export class QueueLeases<Rows extends JobRows = JobRows> implements QueueStore {
  readonly kind = "queue";
  readonly channel: string;

  #out = new Map<Offset, Out>();
  #returned = new ReturnedJobs();
  /** Every job below is out, returned, spent or gone; those from here on were not looked at. */
  #scanFrom: Offset = 0;
  #epoch = 0;
  #maxAttempts = Infinity;
  #backoff: Backoff = { kind: "none" };
  /** The running offer pass and those behind it. */
  #passes: Promise<unknown> = Promise.resolve();
  /** Jobs of `#out` whose deletion is under way: the depth may or may not count them any more. */
  #leaving = 0;
  /** For each read under way or not used up, the jobs whose entry ended meanwhile. */
  #reads = new Set<Set<Offset>>();
  /** Read from `#scanFrom` on: offers follow each other, and a read for each would bound their rate. */
  #ahead: Ahead | undefined;

  constructor(readonly rows: Rows) {
    this.channel = rows.channel;
  }

  next(): Offset {
    return this.rows.next();
  }
  floor(): Offset {
    return this.rows.floor();
  }
  bytes(): number {
    return this.rows.bytes();
  }
  depth(): number {
    return this.rows.depth();
  }
  /** Jobs out with a worker, or spent and not moved yet. */
  out(): number {
    return this.#out.size;
  }
  setMaxBytes(bytes: number | undefined): void {
    this.rows.setMaxBytes(bytes);
  }
  setBackoff(backoff: Backoff): void {
    this.#backoff = backoff;
  }
  setMaxAttempts(attempts: number): void {
    if (attempts > this.#maxAttempts) this.#scanFrom = 0;
    this.#maxAttempts = attempts;
  }
  held(clientId: string, packetId: number): Promise<Message | undefined> {
    return this.rows.held(clientId, packetId);
  }
  releaseHold(
    ...asked: Parameters<QueueStore["releaseHold"]>
  ): Promise<StoredRecord | undefined> {
    return this.rows.releaseHold(...asked);
  }
  abandonHold(clientId: string, packetId: number, urgency: Urgency): Promise<boolean> {
    return this.rows.abandonHold(clientId, packetId, urgency);
  }

  /** One pass at a time: the next one chooses against what this one marked (S20). */
  offer(now: number): Promise<Offer | undefined> {
    const pass = this.#passes.then(() => this.#offerOne(now));
    this.#passes = pass.then(nothing, nothing);
    return pass;
  }

  async #offerOne(now: number): Promise<Offer | undefined> {
    for (;;) {
      const returned = this.#returned.lowestReady(now);
      const known = this.#out.size - this.#leaving + this.#returned.size;
      const everyJobIsKnown = this.rows.depth() <= known;
      if (returned === undefined && everyJobIsKnown) return undefined;
      const below = returned !== undefined && returned.offset < this.#scanFrom;
      const read = below ? await this.#readAt(returned.offset, 1) : await this.#readOn();
      const found = read.jobs.length > read.at;
      const reached = below ? found && read.jobs[0].offset === returned.offset : found;
      // From here to the answer is one turn.
      const offer = this.#chooseOf(read, now);
      if (read !== this.#ahead) this.#reads.delete(read.ended);
      if (offer !== undefined) return offer;
      if (reached) continue;
      if (returned === undefined) return undefined;
      // Its row went without this class, by an outside writer: it is no job any more.
      this.#returned.remove(returned.offset);
    }
  }

  /** What lies from the mark on: of the last read as long as it goes on there. */
  async #readOn(): Promise<Ahead> {
    const ahead = this.#ahead;
    if (ahead !== undefined) {
      if (ahead.from === this.#scanFrom && ahead.at < ahead.jobs.length) return ahead;
      this.#dropAhead();
    }
    return this.#ahead = await this.#readAt(this.#scanFrom, READ_JOBS);
  }

  async #readAt(from: Offset, max: number): Promise<Ahead> {
    const ended = this.#watchEnds();
    try {
      return { jobs: await this.rows.read(from, max, READ_BYTES), at: 0, from, ended };
    } catch (error) {
      this.#reads.delete(ended);
      throw error;
    }
  }

  #dropAhead(): void {
    if (this.#ahead !== undefined) this.#reads.delete(this.#ahead.ended);
    this.#ahead = undefined;
  }

  /** The first of them that may be offered. */
  #chooseOf(read: Ahead, now: number): Offer | undefined {
    while (read.at < read.jobs.length) {
      const job = read.jobs[read.at];
      if (read.ended.has(job.offset)) {
        if (read === this.#ahead) this.#dropAhead();
        return undefined;
      }
      const offer = this.#choose(job, read.from, now);
      read.at++;
      read.from = job.offset + 1;
      if (offer !== undefined) return offer;
    }
    return undefined;
  }

  #watchEnds(): Set<Offset> {
    const ended = new Set<Offset>();
    this.#reads.add(ended);
    return ended;
  }

  /**
   * Marks `job`, of a read that started at `readFrom`, as out unless it is out already, waits for its
   * gap, or has no attempt left.
   */
  #choose(job: Job, readFrom: Offset, now: number): Offer | undefined {
    const { offset } = job;
    // A mark that was lowered below this read stays: what lies between was not looked at.
    if (readFrom <= this.#scanFrom && this.#scanFrom <= offset) this.#scanFrom = offset + 1;
    if (this.#out.has(offset)) return undefined;
    const { attempts } = job;
    if (this.#returned.has(offset)) {
      const ready = this.#returned.lowestReady(now);
      if (ready === undefined || ready.offset !== offset) return undefined;
      this.#returned.remove(offset);
    }
    if (attempts >= this.#maxAttempts) return undefined;
    const epoch = ++this.#epoch;
    this.#out.set(offset, {
      epoch,
      offeredAt: now,
      state: "delivering",
      attempts,
      countedAt: 0n,
      deadline: Infinity,
      writing: undefined,
    });
    return { offset, epoch, message: job.message, attempt: attempts + 1 };
  }

  async lease(lease: Lease, at: Nanoseconds, deadline: number): Promise<boolean> {
    let out = this.#current(lease);
    while (out?.writing !== undefined) {
      await out.writing;
      out = this.#current(lease);
    }
    if (out === undefined || out.state === "spent") return false;
    if (out.state === "leased") return true;
    const leased = out;
    const attempts = out.attempts + 1;
    await this.#write(out, () => this.rows.recordAttempt(lease.offset, attempts, at), () => {
      leased.attempts = attempts;
      leased.countedAt = at;
      leased.deadline = deadline;
      leased.state = "leased";
    });
    return true;
  }

  async resolve(lease: Lease): Promise<boolean> {
    let out = this.#current(lease);
    while (out?.writing !== undefined) {
      await out.writing;
      out = this.#current(lease);
    }
    if (out === undefined || out.state === "spent") return false;
    const { offset } = lease;
    this.#leaving++;
    await this.#write(out, () => this.rows.remove(offset), () => {
      this.#leaving--;
      this.#end(offset);
    }, () => this.#leaving--);
    return true;
  }

  /**
   * `gapFrom` is -Infinity for a delivery that never reached the wire: it is available at once (D14.2).
   * A delivery that spends the last attempt writes nothing here: the move carries it, so that a move
   * that fails leaves the stored attempts as they were (S142, D14.22).
   */
  async release(
    lease: Lease,
    options: { readonly spend: boolean; readonly at: Nanoseconds; readonly gapFrom: number },
  ): Promise<"available" | "spent" | "stale"> {
    let out = this.#current(lease);
    while (out?.writing !== undefined) {
      await out.writing;
      out = this.#current(lease);
    }
    if (out === undefined) return "stale";
    if (out.state === "spent") return "spent";
    const counts = options.spend && out.state === "delivering";
    const attempts = out.attempts + (counts ? 1 : 0);
    if (attempts >= this.#maxAttempts) {
      out.state = "spent";
      out.deadline = Infinity;
      out.attempts = attempts;
      if (counts) out.countedAt = options.at;
      return "spent";
    }
    const { offset } = lease;
    const giveBack = () => {
      this.#end(offset);
      this.#giveBack(offset, options.gapFrom + this.#gap(attempts));
    };
    if (!counts) giveBack();
    else {
      await this.#write(
        out,
        () => this.rows.recordAttempt(offset, attempts, options.at),
        giveBack,
      );
    }
    return "available";
  }

  heldSince(lease: Lease): number | undefined {
    const out = this.#out.get(lease.offset);
    return out?.epoch === lease.epoch ? out.offeredAt : undefined;
  }

  expiredLeases(now: number): readonly Lease[] {
    const expired: Lease[] = [];
    for (const [offset, out] of this.#out) {
      if (out.writing !== undefined || out.deadline > now) continue;
      expired.push({ offset, epoch: out.epoch });
    }
    return expired;
  }

  worst(max: number): Promise<readonly JobSketch[]> {
    return this.rows.worst(max);
  }

  async job(lease: Lease): Promise<Job | undefined> {
    let out = this.#current(lease);
    while (out?.writing !== undefined) {
      await out.writing;
      out = this.#current(lease);
    }
    return out === undefined ? undefined : await this.#stored(lease.offset, out);
  }

  async overdue(before: Nanoseconds, max: number): Promise<readonly Job[]> {
    const found: Job[] = [];
    const pageSize = Math.min(max, OVERDUE_READ_JOBS);
    for (let from = 0; found.length < max;) {
      const ended = this.#watchEnds();
      let jobs: readonly Job[];
      try {
        jobs = await this.rows.overdue(before, this.#maxAttempts, from, pageSize);
      } finally {
        this.#reads.delete(ended);
      }
      for (const job of jobs) {
        // Spent ones are added below, with the attempt that their move still owes.
        if (!this.#out.has(job.offset) && !ended.has(job.offset)) found.push(job);
      }
      if (jobs.length < pageSize) break;
      from = jobs[jobs.length - 1].offset + 1;
    }
    for (const [offset, out] of [...this.#out]) {
      if (out.state !== "spent" || out.writing !== undefined) continue;
      const job = await this.#stored(offset, out);
      if (job !== undefined && this.#out.get(offset) === out) found.push(job);
    }
    found.sort((a, b) => a.offset - b.offset);
    return found.slice(0, max);
  }

  async deadLetter(
    offset: Offset,
    lease: Lease | undefined,
    letter: Message,
    into: AppendStore,
  ): Promise<StoredRecord | undefined> {
    let out = this.#out.get(offset);
    while (out?.writing !== undefined) {
      await out.writing;
      out = this.#out.get(offset);
    }
    if (lease !== undefined ? out?.epoch !== lease.epoch : out && out.state !== "spent") {
      return undefined;
    }
    const nobodys = out === undefined;
    const returned = this.#returned.remove(offset);
    if (out === undefined) {
      out = moving(++this.#epoch);
      this.#out.set(offset, out);
    }
    this.#leaving++;
    return await this.#write(
      out,
      () => this.rows.deadLetter(offset, letter, into),
      () => {
        this.#leaving--;
        this.#end(offset);
      },
      () => {
        this.#leaving--;
        if (!nobodys) return;
        // A pass may have gone over it meanwhile.
        this.#forget(offset);
        if (returned !== undefined) this.#giveBack(offset, returned.readyAt);
      },
    );
  }

  /** The entry of a delivery that is still the current one; a write of it may be under way. */
  #current(lease: Lease): Out | undefined {
    const out = this.#out.get(lease.offset);
    return out?.epoch === lease.epoch ? out : undefined;
  }

  /**
   * Keeps `out` busy from this turn until the write has ended (S21). What changes with it changes in
   * `done` or `failed`, before whoever waits for the write looks again.
   */
  async #write<T>(
    out: Out,
    write: () => Promise<T>,
    done: () => void,
    failed?: () => void,
  ): Promise<T> {
    let ended!: () => void;
    out.writing = new Promise((resolve) => ended = resolve);
    try {
      const result = await write();
      done();
      return result;
    } catch (error) {
      failed?.();
      throw error;
    } finally {
      out.writing = undefined;
      ended();
    }
  }

  async #stored(offset: Offset, out: Out): Promise<Job | undefined> {
    const [job] = await this.rows.read(offset, 1, READ_BYTES);
    if (job === undefined || job.offset !== offset) return undefined;
    if (out.state !== "spent" || job.attempts === out.attempts) return job;
    const { countedAt, attempts } = out;
    const firstDelivered = job.firstDelivered === 0n ? countedAt : job.firstDelivered;
    return { ...job, attempts, firstDelivered, lastDelivered: countedAt };
  }

  #end(offset: Offset): void {
    this.#out.delete(offset);
    for (const ended of this.#reads) ended.add(offset);
  }

  #forget(offset: Offset): void {
    this.#end(offset);
    if (offset < this.#scanFrom) this.#scanFrom = offset;
  }

  #giveBack(offset: Offset, readyAt: number): void {
    const givenUp = this.#returned.add({ offset, readyAt });
    if (givenUp !== undefined) this.#forget(givenUp.offset);
  }

  /** Milliseconds between two deliveries after `attempts` of them (D14.16). */
  #gap(attempts: number): number {
    if (attempts === 0) return 0;
    switch (this.#backoff.kind) {
      case "none":
        return 0;
      case "linear":
        return this.#backoff.baseMs * attempts;
      case "exponential":
        return this.#backoff.baseMs * 2 ** (attempts - 1);
    }
  }
}
