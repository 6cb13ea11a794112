import { errorText } from "../platform/log.ts";
import type { LatestStore, Provider, PublishRow, Scan } from "../storage/contract.ts";
import { type Message, NO_HEADERS, recordSize, type StoredRecord } from "../storage/record.ts";
import type { Context } from "./context.ts";
import { isExpired, remainingExpiry } from "./delivery.ts";
import type { BroadcastLog } from "./log.ts";
import { QUANTUM, type Session, type Source } from "./session.ts";
import type { WindowEntry } from "./window.ts";

const PAGE = 64;

/** Part of `limits.session_queue_bytes` that copies of one page may take, so that none is shed. */
const COPIED_SHARE = 1 / 4;

/** Where retained values are kept, and the log that durable sessions get them through. */
export interface RetainedParts {
  readonly store: LatestStore;
  readonly log: BroadcastLog;
  /** The provider of the log. */
  readonly logProvider: Provider;
}

/**
 * The stored values of broadcast topics on their way to one session, after a SUBSCRIBE (D17.5): read
 * page by page as its window takes them, never the whole store at once. What a durable session is owed
 * at QoS 1 and 2 goes through the log, as copies for it alone (D17.9).
 */
export class RetainedPass implements Source {
  #scans: Scan[];
  #page: readonly StoredRecord[] = [];
  #at = 0;
  #reading = false;
  /** Copies of this page are being written to the log. */
  #copying = false;
  #onWire = 0;
  #ended = false;

  constructor(
    private readonly session: Session,
    private readonly parts: RetainedParts,
    filters: readonly string[],
    private readonly context: Context,
  ) {
    this.#scans = filters.map((filter) => parts.store.scan(filter, 0, false));
    session.addSource(this);
    session.log?.addSource(this);
    session.wait(this);
  }

  pump(): void {
    if (this.#copying || this.#ended) return;
    const copies = new Copies(this.session.queueBytes * COPIED_SHARE);
    for (let sent = 0; sent < QUANTUM && this.#at < this.#page.length; sent++) {
      if (!this.session.canSend()) break;
      if (!this.#hand(this.#page[this.#at], copies)) break;
      this.#at++;
    }
    if (copies.messages.length > 0) return this.#copy(copies.messages);
    if (this.#at < this.#page.length) return this.session.wait(this);
    if (this.#scans.length > 0) this.#read();
    else this.#endIfDone();
  }

  /** Hands a value over, or puts it among `copies`. False: no room, it stays next. */
  #hand(record: StoredRecord, copies: Copies): boolean {
    const { session, context } = this;
    const { message } = record;
    const grant = session.grant(message);
    const now = context.clock.wall();
    if (grant === undefined || isExpired(message, now)) return true;
    if (!session.mayRead(message.topic, undefined)) return true;
    const qos = Math.min(grant.qos, message.qos) as 0 | 1 | 2;
    const bytes = recordSize(message);
    if (qos > 0 && session.log !== undefined && session.durable) {
      // The log sends them as the window lets: no more of them wait there than one page.
      if (session.log.length > 0) {
        session.park(this);
        return false;
      }
      return copies.add({ ...message, onlyFor: session.clientId }, bytes);
    }
    if (qos > 0 && !session.fits(bytes)) return false;
    this.#send(record, {
      message,
      qos,
      retain: true,
      identifiers: grant.identifiers,
      labels: NO_HEADERS,
      expiry: remainingExpiry(message, now),
    }, bytes);
    return true;
  }

  #send(
    record: StoredRecord,
    delivery: Parameters<Session["send"]>[3],
    bytes: number,
  ): void {
    const { session, context } = this;
    const sent = delivery.qos === 0
      ? session.sendUnacknowledged(delivery)
      : session.send(this, record.offset, 0, delivery, bytes) !== undefined;
    if (sent && delivery.qos > 0) this.#onWire++;
    if (sent) context.counters.delivered++;
    else context.counters.sessionDeliveriesDropped.add("too_large");
  }

  /** One entry for all: they are owed to this session together. */
  #copy(copies: readonly Message[]): void {
    this.#copying = true;
    const { log, logProvider } = this.parts;
    const rows = copies.map((message): PublishRow & { message: Message } => ({
      kind: "append",
      store: log.store,
      message,
      offset: 0,
    }));
    let bytes = 0;
    for (const message of copies) bytes += recordSize(message);
    logProvider.submit({
      rows,
      bytes,
      settled: (failure) => {
        this.#copying = false;
        const reader = this.session.log;
        if (failure === undefined) {
          const debts = reader === undefined || this.session.ended ? [] : [reader];
          for (const { offset, message } of rows) log.recorded(offset, message, debts);
        } else if (failure.kind === "full" && reader !== undefined) {
          for (const _ of rows) log.noRoom([reader]);
        } else this.#failed(failure);
        this.session.wait(this);
      },
    });
  }

  #read(): void {
    if (this.#reading) return;
    this.#reading = true;
    this.#scans[0].next(PAGE).then((page) => {
      this.#reading = false;
      if (page.length === 0) this.#scans.shift();
      this.#page = page;
      this.#at = 0;
      this.session.wake(this);
      if (this.#scans.length === 0) this.#endIfDone();
    }, (error) => {
      this.#reading = false;
      this.#scans = [];
      this.#failed(error);
      this.#endIfDone();
    });
  }

  #failed(error: unknown): void {
    this.context.counters.storageErrors.add("retained");
    this.context.log.error("cannot serve retained values to a subscriber", {
      client: this.session.clientId,
      error: errorText(error),
    });
  }

  /** Nothing left to read or to be acknowledged: the session need not know of the pass any more. */
  #endIfDone(): void {
    if (this.#scans.length > 0 || this.#at < this.#page.length) return;
    if (this.#onWire > 0 || this.#copying || this.#ended) return;
    this.#ended = true;
    this.session.removeSource(this);
    this.session.log?.removeSource(this);
  }

  acknowledged(_entry: WindowEntry): void {
    this.#onWire--;
    this.#endIfDone();
  }

  received(_entry: WindowEntry, proceed: () => void): void {
    proceed();
  }

  resend(_entry: WindowEntry): boolean {
    return true;
  }
}

/** Values that go to the log in one entry. */
class Copies {
  readonly messages: Message[] = [];
  #bytes = 0;

  constructor(private readonly maximumBytes: number) {}

  /** False: enough for now. One is always taken. */
  add(message: Message, bytes: number): boolean {
    if (this.messages.length > 0 && this.#bytes + bytes > this.maximumBytes) return false;
    this.messages.push(message);
    this.#bytes += bytes;
    return true;
  }
}
