import { type Message, NO_HEADERS, recordSize } from "../storage/record.ts";
import type { Context } from "./context.ts";
import { isExpired, remainingExpiry } from "./delivery.ts";
import { type Grant, QUANTUM, type Session, type Source } from "./session.ts";
import { shedAtOnce, shedForRoom } from "./shed.ts";
import { ENTRY_BYTES, type WindowEntry } from "./window.ts";

/** A broadcast that waits in memory for room. */
interface Waiting {
  readonly message: Message;
  readonly grant: Grant;
  readonly qos: 0 | 1 | 2;
  /** The session's filters when `grant` was asked. */
  readonly filterVersion: number;
  readonly bytes: number;
}

/**
 * Broadcast deliveries that live in memory only (D8.1): QoS 0 to anybody, and everything to a session
 * that ends with its connection. Bounded by `limits.session_queue_bytes` (D8.2, D8.14).
 */
export class LiveQueue implements Source {
  #waiting: Waiting[] = [];
  #head = 0;
  #bytes = 0;

  constructor(private readonly session: Session, private readonly context: Context) {
    session.addSource(this);
  }

  /** Deliveries waiting for room. */
  get length(): number {
    return this.#waiting.length - this.#head;
  }

  /** Delivers now, or keeps for later, or drops and counts. */
  offer(message: Message, grant: Grant, qos: 0 | 1 | 2): void {
    const { session, context } = this;
    if (session.link === undefined || !session.mayRead(message.topic, undefined)) return;
    const bytes = recordSize(message);
    if (this.length === 0 && session.canSend() && (qos === 0 || session.fits(bytes))) {
      this.#send(message, grant, qos, bytes);
      return;
    }
    const charged = bytes + ENTRY_BYTES;
    const outbound = session.link.buffered + this.#bytes + charged;
    if (qos === 0 && outbound > session.queueBytes / 2) {
      return shedAtOnce(session, message.topic, context);
    }
    this.#waiting.push({ message, grant, qos, filterVersion: session.filterVersion, bytes });
    this.#charge(charged);
    while (session.overfull && this.length > 1) {
      const { qos, message } = this.#take();
      if (qos === 0) shedAtOnce(session, message.topic, context);
      else shedForRoom(session, context);
    }
    session.wait(this);
  }

  #charge(bytes: number): void {
    this.#bytes += bytes;
    this.session.waitingBytes += bytes;
  }

  #take(): Waiting {
    const waiting = this.#waiting[this.#head++];
    this.#charge(-(waiting.bytes + ENTRY_BYTES));
    if (this.#head > 1_024 || this.#head === this.#waiting.length) {
      this.#waiting = this.#waiting.slice(this.#head);
      this.#head = 0;
    }
    return waiting;
  }

  #send(message: Message, grant: Grant, qos: 0 | 1 | 2, bytes: number): void {
    const { session, context } = this;
    const hasExpiry = message.properties.messageExpiry !== undefined;
    const now = hasExpiry ? context.clock.wall() : 0n;
    if (hasExpiry && isExpired(message, now)) {
      context.counters.deliveriesExpired++;
      return;
    }
    const delivery = {
      message,
      qos,
      retain: grant.retainAsPublished && message.retain,
      identifiers: grant.identifiers,
      labels: NO_HEADERS,
      expiry: hasExpiry ? remainingExpiry(message, now) : undefined,
    };
    // D7.2: a broadcast larger than this subscriber takes is dropped for it alone.
    const sent = qos === 0
      ? session.sendUnacknowledged(delivery)
      : session.send(this, 0, 0, delivery, bytes) !== undefined;
    if (sent) context.counters.delivered++;
    else context.counters.sessionDeliveriesDropped.add("too_large");
  }

  pump(): void {
    for (let sent = 0; sent < QUANTUM && this.length > 0; sent++) {
      const next = this.#waiting[this.#head];
      if (!this.session.canSend()) break;
      if (next.qos !== 0 && !this.session.fits(next.bytes)) break;
      this.#take();
      this.#sendWaiting(next);
    }
    if (this.length > 0) this.session.wait(this);
  }

  /** Nothing is delivered that was unsubscribed from, or withdrawn, meanwhile (06 section 9, 02b 7.5). */
  #sendWaiting({ message, grant, qos, filterVersion, bytes }: Waiting): void {
    if (filterVersion === this.session.filterVersion) return this.#send(message, grant, qos, bytes);
    const now = this.session.grant(message);
    if (now === undefined || !this.session.mayRead(message.topic, undefined)) return;
    this.#send(message, now, Math.min(now.qos, qos) as 0 | 1 | 2, bytes);
  }

  /** The connection went: what waited was for it. */
  clear(): void {
    this.#charge(-this.#bytes);
    this.#waiting = [];
    this.#head = 0;
  }

  acknowledged(_entry: WindowEntry): void {}

  received(_entry: WindowEntry, proceed: () => void): void {
    proceed();
  }

  resend(_entry: WindowEntry): boolean {
    return true;
  }
}
