import type { Message, Offset } from "../storage/record.ts";
import { NO_HEADERS } from "../storage/record.ts";
import type { Context } from "./context.ts";
import type { DropCause } from "./counters.ts";
import { isExpired, remainingExpiry } from "./delivery.ts";
import type { Delivery } from "./link.ts";
import type { BroadcastLog, Debt } from "./log.ts";
import { LogPages } from "./log_pages.ts";
import { LogWindow } from "./log_window.ts";
import { charged, type Owed, OwedList } from "./owed.ts";
import { QUANTUM, type Session, type Source } from "./session.ts";
import { shedForRoom } from "./shed.ts";
import type { WindowEntry } from "./window.ts";

/** What the sources of a session that read the log wait for. */
type Outcome = "handed" | "blocked" | "later";

/**
 * What a durable session is owed of the broadcast log beyond its window, in order (D8.5). Lives with
 * the session, connected or away. What shared groups hand to the session goes through its `window` too.
 */
export class LogReader implements Source, Debt {
  readonly window: LogWindow;
  readonly #owed = new OwedList();
  readonly #pages: LogPages;
  /** Other sources that send through `window` and wait for it. */
  readonly #others = new Set<Source>();
  #closed = false;

  constructor(
    readonly session: Session,
    private readonly log: BroadcastLog,
    cursor: Offset,
    /** Sent before the broker was killed, maybe: goes with DUP (MQTT-3.3.1-1). */
    private readonly maybeSentBelow: Offset = 0,
  ) {
    this.#pages = new LogPages(log, session.clientId, () => session.wake(this));
    this.window = new LogWindow(
      session,
      log,
      cursor,
      () => this.#owed.firstOffset,
      () => this.#roomMade(),
    );
    session.addSource(this);
  }

  get #context(): Context {
    return this.log.context;
  }

  /** Messages owed and not on the wire. */
  get length(): number {
    return this.#owed.length;
  }

  /**
   * One more message is owed. Past the session's bound the oldest ones go (D8.14). Nothing is owed to a
   * session that ended while the message was being stored.
   */
  owe(owed: Owed): void {
    if (this.#closed) return this.log.settle(owed.offset);
    const { session } = this;
    this.#owed.push(owed);
    session.waitingBytes += charged(owed);
    while (session.overfull && this.length > 1) {
      shedForRoom(session, this.#context);
      this.#let(this.#take(), undefined);
    }
    if (session.link !== undefined) session.wait(this);
  }

  lost(): void {
    this.#context.counters.sessionDeliveriesDropped.add("storage_full");
  }

  #take(): Owed {
    const owed = this.#owed.shift();
    this.session.waitingBytes -= charged(owed);
    return owed;
  }

  /** Lets an owed message go as if it were acknowledged. */
  #let(owed: Owed, cause: DropCause | undefined): void {
    if (cause !== undefined) this.#context.counters.sessionDeliveriesDropped.add(cause);
    this.log.settle(owed.offset);
    this.window.moved();
  }

  // ----------------------------------------------------------------------------------- delivering

  pump(): void {
    const { session } = this;
    for (let sent = 0; sent < QUANTUM; sent++) {
      const owed = this.#owed.first;
      if (this.#closed) return;
      if (owed === undefined) return this.#wakeOthers();
      if (!session.canSend()) break;
      const outcome = this.#step(owed);
      if (outcome === "later") return;
      if (outcome === "blocked") break;
    }
    if (this.length > 0) session.wait(this);
    else this.#wakeOthers();
  }

  /** `later`: something else will wake the reader. */
  #step(owed: Owed): Outcome {
    if (this.window.full) {
      this.window.makeRoom();
      return "later";
    }
    const message = this.#pages.at(owed.offset);
    if (message === undefined) return "later";
    if (message === "gone") {
      // D8.15: the log gave it away for room.
      this.#let(this.#take(), "storage_full");
      return "handed";
    }
    return this.#hand(owed, message);
  }

  #hand(owed: Owed, message: Message): Outcome {
    const { session } = this;
    const grant = session.mayRead(message.topic, undefined) ? session.grant(message) : undefined;
    const now = message.properties.messageExpiry === undefined ? 0n : this.#context.clock.wall();
    if (grant === undefined || (now !== 0n && isExpired(message, now))) {
      if (grant !== undefined) this.#context.counters.deliveriesExpired++;
      this.#let(this.#take(), undefined);
      return "handed";
    }
    const qos = Math.min(grant.qos, message.qos) as 0 | 1 | 2;
    const delivery = {
      message,
      qos,
      retain: message.onlyFor !== "" || (grant.retainAsPublished && message.retain),
      identifiers: grant.identifiers,
      labels: NO_HEADERS,
      expiry: now === 0n ? undefined : remainingExpiry(message, now),
    };
    if (qos === 0) return this.#handUnacknowledged(owed, delivery);
    if (!session.fits(owed.bytes)) return "blocked";
    const { offset, bytes } = this.#take();
    const dup = offset < this.maybeSentBelow;
    if (this.window.hand({ offset, bytes, delivery, dup, group: undefined, returned: false })) {
      this.#context.counters.delivered++;
    } else {
      // D7.2: dropped for this subscriber only.
      this.#let(owed, "too_large");
    }
    return "handed";
  }

  #handUnacknowledged(
    owed: Owed,
    delivery: Delivery,
  ): Outcome {
    // Nothing overtakes what waits for its identifier to be stored.
    if (this.window.storing) return "later";
    const sent = this.session.sendUnacknowledged(delivery);
    if (sent) this.#context.counters.delivered++;
    this.#take();
    this.#let(owed, sent ? undefined : "too_large");
    return "handed";
  }

  /** `source` sends through `window` too, and is woken with the reader. */
  addSource(source: Source): void {
    this.#others.add(source);
  }

  removeSource(source: Source): void {
    this.#others.delete(source);
  }

  #roomMade(): void {
    if (this.#closed) return;
    if (this.length > 0) this.session.wait(this);
    this.#wakeOthers();
  }

  #wakeOthers(): void {
    for (const source of this.#others) this.session.wait(source);
  }

  detached(): void {
    this.#pages.clear();
  }

  // ---------------------------------------------------------------- the window, as a source of it

  acknowledged(entry: WindowEntry): void {
    this.window.acknowledged(entry);
  }

  received(entry: WindowEntry, proceed: () => void): void {
    this.window.received(entry, proceed);
  }

  resend(entry: WindowEntry): boolean {
    return this.window.resend(entry);
  }

  // --------------------------------------------------------------------------------- start and end

  /** At the start: owed beyond the window. In order; the bound is not asked again until one is added. */
  restore(owed: Owed): void {
    this.#owed.push(owed);
    this.session.waitingBytes += charged(owed);
  }

  /** The session ended: nothing of the log is owed to it any more. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    while (this.length > 0) this.log.settle(this.#take().offset);
    this.#pages.close();
    this.window.close();
    this.session.removeSource(this);
  }
}
