import type { Nanoseconds } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import type { Timer } from "../../platform/timers.ts";
import type { Backoff, Offer, Provider, QueueStore } from "../../storage/contract.ts";
import { type Message, type Offset, recordSize } from "../../storage/record.ts";
import type { Context } from "../context.ts";
import type { Session } from "../session.ts";
import type { WindowEntry } from "../window.ts";
import type { AppendChannel } from "./append.ts";
import { DeadLetterMoves } from "./dead_letter.ts";
import {
  DELIVERY_ID_BYTES,
  deliveryIdOf,
  jobDelivery,
  type Verdict,
  verdictOf,
} from "./queue_delivery.ts";
import { type Held, QueueWorker, type Worker, type WorkerEvents, Workers } from "./queue_worker.ts";

/** How long new jobs and new workers wait, so that those who come together share (D14.7). Fixed. */
const TICK_MS = 200;

/** How long a queue waits after a store that failed. */
const RETRY_MS = 1_000;

export interface QueuePolicy {
  readonly visibilityTimeoutMs: number;
  /** Undefined: a job never expires. */
  readonly jobExpiresAfterMs: number | undefined;
  readonly maxAttempts: number;
  readonly backoff: Backoff;
}

/** Plain counts since the start, rendered when somebody asks. */
export interface QueueStatistics {
  delivered: number;
  acknowledged: number;
  returned: number;
  redelivered: number;
}

/** How a worker came to lose a job it had not resolved. */
type Loss = "return" | "timeout" | "connection";

/**
 * A `queue` channel at work: its jobs, its worker pool, who holds what under which Delivery ID
 * (03 section 14). Which job may be offered next, and which delivery of it is the current one, is the
 * store's business.
 */
export class QueueChannel implements WorkerEvents {
  readonly kind = "queue";
  /** Publishes accepted. */
  published = 0;
  /** Publishes whose RETAIN flag was dropped. */
  retainIgnored = 0;
  readonly statistics: QueueStatistics = {
    delivered: 0,
    acknowledged: 0,
    returned: 0,
    redelivered: 0,
  };
  readonly moves: DeadLetterMoves;
  readonly #workers = new Workers();
  readonly #held = new Map<string, Held>();
  readonly #work = new Set<Promise<void>>();
  #serving = false;
  #tick: Timer | undefined;
  /** Idle workers are served: set by the tick, until the jobs or the workers run out. */
  #ticking = false;
  #tickAt = 0;
  /** Monotonic ms before which a store that failed is not asked again. */
  #restUntil = 0;
  #stopped = false;

  /** `filter`: the queue's, one expansion of it. `deadLetters`: the derived channel. */
  constructor(
    readonly name: string,
    readonly store: QueueStore,
    readonly provider: Provider,
    readonly policy: QueuePolicy,
    filter: string,
    readonly deadLetters: AppendChannel,
    private readonly context: Context,
  ) {
    store.setBackoff(policy.backoff);
    store.setMaxAttempts(policy.maxAttempts);
    this.moves = new DeadLetterMoves(store, deadLetters, { ...policy, filter }, context);
  }

  /** Jobs that are with a worker. */
  get inFlight(): number {
    return this.#held.size;
  }

  /** What is with a worker now. */
  get held(): Iterable<Held> {
    return this.#held.values();
  }

  /** Sessions in the pool, those that are away included. */
  get workers(): number {
    return this.#workers.size;
  }

  // -------------------------------------------------------------------------------------- workers

  /** A job was stored: the tick serves it. */
  recorded(_offset: Offset, _message: Message): void {
    this.#armTick();
  }

  /** The session takes work, from the next tick on. It may be away still. */
  join(session: Session): void {
    let worker = this.#workers.get(session);
    if (worker === undefined) {
      worker = new QueueWorker(session, this);
      this.#workers.add(worker);
    }
    worker.subscribed = true;
    if (worker.state === "away") this.#arrive(worker);
  }

  #arrive(worker: Worker): void {
    if (!worker.live) return;
    if (worker.held !== undefined) return this.#workers.put(worker, "busy");
    this.#workers.put(worker, "idle");
    this.#armTick();
  }

  /** UNSUBSCRIBE or the session's end: no further offer. A job it holds stays with it. */
  leave(session: Session): void {
    const worker = this.#workers.get(session);
    if (worker === undefined) return;
    worker.subscribed = false;
    this.#workers.put(worker, "away");
    if (worker.held === undefined) this.#workers.forget(worker);
  }

  /** The connection of the session ended or was taken over: what it held is returned (D14.19). */
  connectionEnded(session: Session): void {
    const worker = this.#workers.get(session);
    if (worker === undefined) return;
    this.#workers.put(worker, "away");
    worker.dismissed = undefined;
    const { held } = worker;
    if (held === undefined) return;
    this.#endDelivery(held);
    this.#track(this.#giveBack(held, "connection"));
  }

  // ------------------------------------------------------------------ workers of another protocol

  /** Takes its turn with the sessions, from the next tick on. */
  enter(worker: Worker): void {
    this.#arrive(worker);
  }

  /** No further offer. A job it holds stays with it until it is settled. */
  exit(worker: Worker): void {
    worker.subscribed = false;
    this.#workers.put(worker, "away");
  }

  /**
   * One job at once, out of turn, for a worker that is in no pool; undefined when there is none now.
   * @throws StorageFailure
   */
  async lend(worker: Worker): Promise<Held | undefined> {
    while (!this.#stopped) {
      const offer = await this.store.offer(this.context.clock.monotonic());
      if (offer === undefined) return undefined;
      if (!this.moves.isOverdue(offer.message)) {
        const held = this.#hold(offer, worker, this.#newId());
        this.#step("offered a job", held);
        return held;
      }
      if (!await this.moves.moveOffered(offer)) {
        await this.#putBack(offer, this.context.clock.monotonic() + RETRY_MS);
      }
    }
    return undefined;
  }

  /**
   * What became of a job: done, failed, or `untouched`, which counts no attempt. Nothing for one that
   * was taken from its worker meanwhile. Resolves when it is stored.
   */
  settle(held: Held, verdict: Verdict | "untouched"): Promise<void> {
    if (this.#held.get(held.deliveryId) !== held) return Promise.resolve();
    return this.#end(held, verdict);
  }

  roomMade(worker: Worker): void {
    if (worker.state === "away") return this.#arrive(worker);
    if (worker.state !== "blocked") return;
    if (!worker.live) return this.#workers.put(worker, "away");
    if (!worker.hasRoom) return worker.waitForRoom();
    this.#workers.put(worker, "due");
    void this.#serve();
  }

  // --------------------------------------------------------------------------------------- offers

  /** Armed only while there is a worker to serve and a job that is with nobody. */
  #armTick(): void {
    if (this.#tick !== undefined || this.#serving || this.#stopped) return;
    if (!this.#workers.someIdle || this.store.depth() <= this.#held.size) return;
    const rest = this.#restUntil - this.context.clock.monotonic();
    this.#tick = this.context.timers.after(Math.max(TICK_MS, rest), () => {
      this.#tick = undefined;
      this.#ticking = true;
      this.#tickAt = this.context.clock.monotonic();
      void this.#serve();
    });
  }

  /** Offers jobs while there are any and somebody whose turn it is. One run at a time. */
  async #serve(): Promise<void> {
    if (this.#serving || this.#stopped) return;
    this.#serving = true;
    try {
      while (!this.#stopped && this.#workers.next(this.#ticking) !== undefined) {
        const offer = await this.store.offer(this.#readyBefore());
        if (offer === undefined) this.#nothingToOffer();
        else await this.#place(offer);
      }
    } catch (error) {
      this.#rest();
      this.#report("cannot read the jobs of a queue; it is tried again", undefined, error);
    } finally {
      this.#serving = false;
      this.#ticking = false;
      this.#armTick();
    }
  }

  /**
   * A backoff gap ends at a tick (D14.18): what came back since the last one is not for the worker that
   * is served in the turn of its answer, or a failed job would return to it at once.
   */
  #readyBefore(): number {
    return this.#workers.someDue ? this.context.clock.monotonic() - TICK_MS : this.#tickAt;
  }

  #nothingToOffer(): void {
    if (this.#workers.someDue) this.#workers.allIdle();
    else this.#ticking = false;
  }

  /** The store failed: nobody is served before it had a little time. */
  #rest(): void {
    this.#restUntil = this.context.clock.monotonic() + RETRY_MS;
    this.#workers.allIdle();
    this.#ticking = false;
  }

  async #place(offer: Offer): Promise<void> {
    if (this.moves.isOverdue(offer.message)) {
      if (await this.moves.moveOffered(offer)) return;
      this.#rest();
      await this.#putBack(offer, this.#restUntil);
    } else if (!this.#handOver(offer)) await this.#putBack(offer, -Infinity);
  }

  /** What nobody was sent is available as it was (D14.2). */
  async #putBack(offer: Offer, gapFrom: number): Promise<void> {
    await this.store.release(offer, { spend: false, at: 0n, gapFrom });
  }

  /** False: nobody can take it now. */
  #handOver(offer: Offer): boolean {
    const bytes = recordSize(offer.message);
    for (;;) {
      const worker = this.#workers.next(this.#ticking);
      if (worker === undefined) return false;
      if (worker.fits(bytes)) return this.#send(offer, worker, bytes);
      this.#workers.block(worker, bytes);
    }
  }

  #send(offer: Offer, worker: Worker, bytes: number): boolean {
    const deliveryId = this.#newId();
    const held = this.#hold(offer, worker, deliveryId);
    this.#workers.put(worker, "busy");
    if (worker.send(offer, deliveryId, bytes)) {
      this.#step("offered a job", held);
      return true;
    }
    this.#held.delete(deliveryId);
    held.timeout?.cancel();
    worker.held = undefined;
    this.statistics.delivered--;
    this.context.counters.delivered--;
    this.#workers.put(worker, "away");
    return false;
  }

  #newId(): string {
    return this.context.ids.token(DELIVERY_ID_BYTES);
  }

  #hold(offer: Offer, worker: Worker, deliveryId: string): Held {
    const offeredAt = this.context.clock.monotonic();
    const held: Held = {
      offer,
      deliveryId,
      worker,
      offeredAt,
      acknowledged: false,
      timeout: undefined,
      until: 0,
    };
    worker.held = held;
    this.#held.set(deliveryId, held);
    if (!worker.acknowledges) this.#startClock(held);
    this.statistics.delivered++;
    this.context.counters.delivered++;
    return held;
  }

  /** The visibility timeout begins. */
  #startClock(held: Held): void {
    const { clock, timers } = this.context;
    const { visibilityTimeoutMs } = this.policy;
    held.timeout = timers.after(visibilityTimeoutMs, () => this.#timedOut(held));
    held.until = clock.monotonic() + visibilityTimeoutMs;
  }

  delivery(offer: Offer, session: Session, deliveryId: string) {
    return jobDelivery(this.name, offer, session, deliveryId, this.context.clock.wall());
  }

  // ------------------------------------------------------------------------- acknowledgement, answer

  /** PUBACK: the attempt counts and the visibility timeout begins (D14.1, D14.14). */
  acknowledged(worker: QueueWorker, entry: WindowEntry): void {
    const { held } = worker;
    if (held === undefined || held.acknowledged) return;
    if (held.offer.epoch !== entry.era || held.offer.offset !== entry.offset) return;
    held.acknowledged = true;
    this.#startClock(held);
    this.#track(
      this.store.lease(held.offer, this.context.clock.wall(), held.until).then(
        () => this.#step("leased a job", held),
        (error) => this.#report("cannot count an attempt of a job", held.offer.offset, error),
      ),
    );
  }

  #timedOut(held: Held): void {
    const { worker } = held;
    this.#endDelivery(held);
    this.#track(this.#giveBack(held, "timeout"));
    this.#arrive(worker);
  }

  /**
   * A worker's answer (D14.10 to D14.13). Resolves when its outcome is stored; never says what that
   * was, for the worker is not told (D2.4).
   */
  answer(
    session: Session,
    correlationData: Uint8Array | undefined,
    payload: Uint8Array,
  ): Promise<void> {
    const held = this.#held.get(deliveryIdOf(correlationData));
    const verdict = verdictOf(payload);
    if (held === undefined) return this.#ignored(session, "no delivery in progress has this id");
    if (held.worker !== this.#workers.get(session)) {
      return this.#ignored(session, "another session holds the job", held.offer.offset);
    }
    if (verdict === undefined) {
      return this.#ignored(session, "the payload is neither ack nor return", held.offer.offset);
    }
    return this.#end(held, verdict);
  }

  /** The worker is done with a job, and free for the next. */
  #end(held: Held, verdict: Verdict | "untouched"): Promise<void> {
    const { worker } = held;
    this.#endDelivery(held);
    const done = verdict === "ack"
      ? this.#resolve(held)
      : this.#giveBack(held, verdict === "return" ? "return" : "connection");
    this.#track(done);
    if (worker.live) {
      this.#workers.put(worker, "due");
      void this.#serve();
    }
    return done;
  }

  #ignored(session: Session, why: string, offset?: Offset): Promise<void> {
    this.context.log.warn("ignored an answer to a queue", {
      queue: this.name,
      client: session.clientId,
      offset,
      why,
    });
    return Promise.resolve();
  }

  /** The Delivery ID is dead from here on (D14.3), and the worker free. */
  #endDelivery(held: Held): void {
    const { worker } = held;
    this.#held.delete(held.deliveryId);
    held.timeout?.cancel();
    worker.held = undefined;
    if (worker.subscribed) this.#workers.put(worker, "away");
    else this.#workers.forget(worker);
  }

  async #resolve(held: Held): Promise<void> {
    const { offset } = held.offer;
    try {
      if (!await this.store.resolve(held.offer)) return;
      this.statistics.acknowledged++;
      this.#step("a job is done", held);
    } catch (error) {
      this.#report("cannot resolve a job; it is offered again", offset, error);
      await this.#giveBack(held, "return");
    }
  }

  // ------------------------------------------------------------------------------ back to available

  async #giveBack(held: Held, loss: Loss): Promise<void> {
    const { offer } = held;
    const spend = loss !== "connection" || held.acknowledged;
    if (this.moves.isOverdue(offer.message)) {
      const attempt = spend ? offer.attempt : undefined;
      if (await this.moves.moveHeld(offer, "expired", attempt)) return;
    }
    const outcome = await this.#release(held, loss, spend);
    if (outcome === "spent") {
      await this.moves.moveHeld(offer, "attempts_exhausted", undefined);
    } else if (outcome === "available") {
      // A connection that ends returns what it held (D14.19).
      if (loss === "timeout") this.statistics.redelivered++;
      else this.statistics.returned++;
      this.#step("a job came back", held, loss);
      this.#armTick();
    }
  }

  async #release(held: Held, loss: Loss, spend: boolean) {
    const { offer, offeredAt } = held;
    const { clock } = this.context;
    // The gap runs from when the worker last had the job (D14.17).
    const gapFrom = loss === "return" ? clock.monotonic() : offeredAt;
    try {
      return await this.store.release(offer, { spend, at: clock.wall(), gapFrom });
    } catch (error) {
      this.#report("cannot count an attempt of a job that came back", offer.offset, error);
      const later = clock.monotonic() + RETRY_MS;
      return await this.store.release(offer, { spend: false, at: 0n, gapFrom: later });
    }
  }

  /** Dead-letters what is too old at `now` or has no attempt left (D14.25, D14.28). */
  async sweep(now: Nanoseconds): Promise<void> {
    await this.moves.sweep(now);
  }

  // ------------------------------------------------------------------------------------------ stop

  /** No further offer; resolves when what was under way is stored. Jobs held stay in the store. */
  async stop(): Promise<void> {
    this.#stopped = true;
    this.#tick?.cancel();
    this.#tick = undefined;
    await this.settled();
  }

  /** Some answer, acknowledgement or return has no outcome yet. */
  get settling(): boolean {
    return this.#work.size > 0;
  }

  /** Resolves when every answer, acknowledgement and return so far has its outcome. */
  async settled(): Promise<void> {
    while (this.#work.size > 0) await Promise.all(this.#work);
  }

  #track(work: Promise<void>): void {
    const tracked: Promise<void> = work.catch((error) =>
      this.#report("a job could not be settled", undefined, error)
    ).then(() => {
      this.#work.delete(tracked);
    });
    this.#work.add(tracked);
  }

  /** One line a step of a job, for who asks for as much. */
  #step(msg: string, { offer, worker }: Held, why?: Loss): void {
    const { log } = this.context;
    if (!log.enabled("debug")) return;
    const { offset, attempt } = offer;
    log.debug(msg, { queue: this.name, offset, attempt, worker: worker.holder, why });
  }

  #report(msg: string, offset: Offset | undefined, error: unknown): void {
    this.context.counters.storageErrors.add(this.name);
    this.context.log.error(msg, { queue: this.name, offset, error: errorText(error) });
  }
}
