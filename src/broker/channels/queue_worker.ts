import type { Timer } from "../../platform/timers.ts";
import type { Offer } from "../../storage/contract.ts";
import type { ClientLink } from "../link.ts";
import type { Session, Source } from "../session.ts";
import type { WindowEntry } from "../window.ts";

/** A job with a worker: from its offer until an answer, the timeout, or the connection's end. */
export interface Held {
  readonly offer: Offer;
  /** Correlation Data of this delivery, as text; unguessable, one for each attempt (D14.9). */
  readonly deliveryId: string;
  readonly worker: QueueWorker;
  /** Monotonic ms. */
  readonly offeredAt: number;
  /** PUBACK came: the attempt counts and the visibility timeout runs. */
  acknowledged: boolean;
  timeout: Timer | undefined;
  /** Monotonic ms at which the visibility timeout ends; set with `timeout`. */
  until: number;
}

/** What a worker tells its queue. */
export interface WorkerEvents {
  /** The queue's. */
  readonly name: string;
  /** The session was resumed, or room was made in it. */
  roomMade(worker: QueueWorker): void;
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
export class QueueWorker implements Source {
  state: "away" | "idle" | "due" | "blocked" | "busy" = "away";
  /** False once it unsubscribed; it stays known while it holds a job, which it may still answer. */
  subscribed = true;
  held: Held | undefined;
  /** Bytes of the job that found no room; 0 when none did. */
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

  /** Room for a job; for one of `needed` bytes where such a one did not fit. */
  get hasRoom(): boolean {
    return this.session.canSend() && this.session.fits(this.needed);
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
  readonly #idle = new Set<QueueWorker>();
  readonly #due = new Set<QueueWorker>();

  get(session: Session): QueueWorker | undefined {
    return this.#bySession.get(session);
  }

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

  forget(worker: QueueWorker): void {
    this.put(worker, "away");
    this.#bySession.delete(worker.session);
    worker.session.removeSource(worker);
  }

  /** Moves `worker` to `state`, behind whoever is in it already. */
  put(worker: QueueWorker, state: QueueWorker["state"]): void {
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
  next(ticking: boolean): QueueWorker | undefined {
    for (const worker of this.#due) {
      if (this.#mayServe(worker)) return worker;
    }
    if (!ticking) return undefined;
    for (const worker of this.#idle) {
      if (this.#mayServe(worker)) return worker;
    }
    return undefined;
  }

  #mayServe(worker: QueueWorker): boolean {
    if (!worker.live) this.put(worker, "away");
    else if (!worker.hasRoom) this.block(worker, worker.needed);
    else return true;
    return false;
  }

  /** The worker's window or socket is full: it is due again once `needed` bytes find room. */
  block(worker: QueueWorker, needed: number): void {
    this.put(worker, "blocked");
    worker.needed = needed;
    worker.session.wait(worker);
  }
}
