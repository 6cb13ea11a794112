import type { Timer } from "../../platform/timers.ts";
import type { Offer } from "../../storage/contract.ts";
import type { ClientLink, Delivery } from "../link.ts";
import { Reason } from "../reason.ts";
import type { Session, Source } from "../session.ts";
import type { WindowEntry } from "../window.ts";

/** A job with a worker: from its offer until an answer, the timeout, or the connection's end. */
export interface Held {
  readonly offer: Offer;
  /** Correlation Data of this delivery, as text; unguessable, one for each attempt (D14.9). */
  readonly deliveryId: string;
  readonly worker: Worker;
  /** Monotonic ms. */
  readonly offeredAt: number;
  /** PUBACK came: the attempt counts and the visibility timeout runs. */
  acknowledged: boolean;
  timeout: Timer | undefined;
  /** Monotonic ms at which the visibility timeout ends; set with `timeout`. */
  until: number;
}

export type WorkerState = "away" | "idle" | "due" | "blocked" | "busy";

/** Somebody in the pool of a queue, whatever protocol it speaks: it holds one job at most. */
export interface Worker {
  /** The pool's. */
  state: WorkerState;
  /** False once it takes no more; it stays known while it holds a job. */
  subscribed: boolean;
  held: Held | undefined;
  /** Bytes of the job that found no room; 0 when none did. */
  needed: number;
  /** What operators know it by. */
  readonly holder: string;
  /** It says when it has received a job, which is when the attempt counts (D14.1). */
  readonly acknowledges: boolean;
  /** It can be offered jobs. */
  readonly live: boolean;
  /** Room for a job; for one of `needed` bytes where such a one did not fit. */
  readonly hasRoom: boolean;
  fits(bytes: number): boolean;
  /** Sends a job there is room for. False: this worker can never be sent it. */
  send(offer: Offer, deliveryId: string, bytes: number): boolean;
  /** It found no room: it calls `roomMade` of its queue when there may be some. */
  waitForRoom(): void;
}

/** What a worker tells its queue. */
export interface WorkerEvents {
  /** The queue's. */
  readonly name: string;
  /** A job as it is sent to an MQTT session. */
  delivery(
    offer: Offer,
    session: Session,
    deliveryId: string,
  ): Delivery;
  /** The session was resumed, or room was made in it. */
  roomMade(worker: Worker): void;
  /** PUBACK of a delivery, a dead one maybe. */
  acknowledged(worker: QueueWorker, entry: WindowEntry): void;
}

/**
 * One session in the worker pool of one queue.
 *
 * ```
 *          join, resume           tick             offer sent
 *    away -------------> idle ------------.  .----------------> busy
 *     ^                   ^               v  |                   |
 *     |                   '--- nothing -- due <---- answer ------'
 *     | connection ended      to offer    ^ |
 *     '---- (any state)       room made --' '--> blocked (no room)
 * ```
 * `due` is served in the same turn (D14.7), `idle` on the tick.
 */
export class QueueWorker implements Source, Worker {
  readonly acknowledges = true;
  state: WorkerState = "away";
  /** False once it unsubscribed; it stays known while it holds a job, which it may still answer. */
  subscribed = true;
  held: Held | undefined;
  needed = 0;
  /** The connection that was told to end: it is offered nothing more. */
  dismissed: ClientLink | undefined;

  constructor(readonly session: Session, private readonly events: WorkerEvents) {}

  /**
   * Somebody to offer jobs to: connected, able to answer, which a 3.1.1 client is not, and allowed to.
   * Whoever is not any more is asked again when the ACL file has been read again.
   */
  get live(): boolean {
    const { link, access } = this.session;
    return this.subscribed && link !== undefined && link !== this.dismissed && link.level === 5 &&
      (access === undefined || access.mayConsume(this.events.name));
  }

  get hasRoom(): boolean {
    return this.session.canSend() && this.session.fits(this.needed);
  }

  get holder(): string {
    return this.session.clientId;
  }

  fits(bytes: number): boolean {
    return this.session.fits(bytes);
  }

  send(offer: Offer, deliveryId: string, bytes: number): boolean {
    const { session, events } = this;
    const delivery = events.delivery(offer, session, deliveryId);
    if (session.send(this, offer.offset, offer.epoch, delivery, bytes) !== undefined) return true;
    // D7.3: the job is not for this client, and it is told so.
    this.dismissed = session.link;
    session.hangUp({
      code: Reason.PacketTooLarge,
      reason:
        `job ${offer.offset} of queue ${events.name} is larger than the Maximum Packet Size ` +
        "of this client",
    });
    return false;
  }

  waitForRoom(): void {
    this.session.wait(this);
  }

  pump(): void {
    this.events.roomMade(this);
  }

  acknowledged(entry: WindowEntry): void {
    this.events.acknowledged(this, entry);
  }

  received(_entry: WindowEntry, proceed: () => void): void {
    proceed();
  }

  /** A packet sent stays sent (MQTT-4.4.0-1); its Delivery ID is dead, so its answer does nothing. */
  resend(_entry: WindowEntry): boolean {
    return true;
  }
}

/** The worker pool of one queue, and whose turn it is. */
export class Workers {
  readonly #bySession = new Map<Session, QueueWorker>();
  /** In the order their turn comes: who became free first, or waits longest (D14.5). */
  readonly #idle = new Set<Worker>();
  readonly #due = new Set<Worker>();

  get(session: Session): QueueWorker | undefined {
    return this.#bySession.get(session);
  }

  /** Sessions. */
  get size(): number {
    return this.#bySession.size;
  }

  get someIdle(): boolean {
    return this.#idle.size > 0;
  }

  get someDue(): boolean {
    return this.#due.size > 0;
  }

  add(worker: QueueWorker): void {
    this.#bySession.set(worker.session, worker);
    worker.session.addSource(worker);
  }

  forget(worker: Worker): void {
    this.put(worker, "away");
    if (!(worker instanceof QueueWorker)) return;
    this.#bySession.delete(worker.session);
    worker.session.removeSource(worker);
  }

  /** Moves `worker` to `state`, behind whoever is in it already. */
  put(worker: Worker, state: WorkerState): void {
    this.#idle.delete(worker);
    this.#due.delete(worker);
    worker.state = state;
    worker.needed = 0;
    if (state === "idle") this.#idle.add(worker);
    else if (state === "due") this.#due.add(worker);
  }

  /** Nothing can be offered now: whoever was due waits for the tick, ahead of nobody. */
  allIdle(): void {
    for (const worker of this.#due) this.put(worker, "idle");
  }

  /**
   * The worker to serve next: the due ones first, then, on a tick, the idle ones. Those found gone or
   * without room are set aside. It keeps its state until it is `put` elsewhere.
   */
  next(ticking: boolean): Worker | undefined {
    for (const worker of this.#due) {
      if (this.#mayServe(worker)) return worker;
    }
    if (!ticking) return undefined;
    for (const worker of this.#idle) {
      if (this.#mayServe(worker)) return worker;
    }
    return undefined;
  }

  #mayServe(worker: Worker): boolean {
    if (!worker.live) this.put(worker, "away");
    else if (!worker.hasRoom) this.block(worker, worker.needed);
    else return true;
    return false;
  }

  /** The worker's window or socket is full: it is due again once `needed` bytes find room. */
  block(worker: Worker, needed: number): void {
    this.put(worker, "blocked");
    worker.needed = needed;
    worker.waitForRoom();
  }
}
