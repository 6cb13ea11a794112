import { errorText } from "../platform/log.ts";
import type { LatestStore, Scan } from "../storage/contract.ts";
import { NO_HEADERS, recordSize, type StoredRecord } from "../storage/record.ts";
import type { Context } from "./context.ts";
import { isExpired, remainingExpiry } from "./delivery.ts";
import { QUANTUM, type Session, type Source } from "./session.ts";
import type { WindowEntry } from "./window.ts";

const PAGE = 64;

/**
 * The stored values of broadcast topics on their way to one session, after a SUBSCRIBE (D17.5): read
 * page by page as its window takes them, never the whole store at once.
 */
export class RetainedPass implements Source {
  #scans: Scan[];
  #page: readonly StoredRecord[] = [];
  #at = 0;
  #reading = false;
  #onWire = 0;

  constructor(
    private readonly session: Session,
    store: LatestStore,
    filters: readonly string[],
    private readonly context: Context,
  ) {
    this.#scans = filters.map((filter) => store.scan(filter, 0, false));
    session.addSource(this);
    session.wait(this);
  }

  pump(): void {
    for (let sent = 0; sent < QUANTUM && this.#at < this.#page.length; sent++) {
      if (!this.session.canSend()) break;
      if (!this.#hand(this.#page[this.#at])) break;
      this.#at++;
    }
    if (this.#at < this.#page.length) return this.session.wait(this);
    if (this.#scans.length > 0) this.#read();
    else this.#endIfDone();
  }

  /** False: no room in the window. */
  #hand(record: StoredRecord): boolean {
    const { session, context } = this;
    const { message } = record;
    const grant = session.grant(message);
    const now = context.clock.wall();
    if (grant === undefined || isExpired(message, now)) return true;
    const qos = Math.min(grant.qos, message.qos) as 0 | 1 | 2;
    const bytes = recordSize(message);
    if (qos > 0 && !session.fits(bytes)) return false;
    const delivery = {
      message,
      qos,
      retain: true,
      identifiers: grant.identifiers,
      labels: NO_HEADERS,
      expiry: remainingExpiry(message, now),
    };
    const sent = qos === 0
      ? session.sendUnacknowledged({ ...delivery, packetId: 0, dup: false })
      : session.send(this, record.offset, 0, delivery, bytes) !== undefined;
    if (sent && qos > 0) this.#onWire++;
    if (sent) context.counters.delivered++;
    else context.counters.deliveriesDropped++;
    return true;
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
      this.context.counters.storageErrors.add("retained");
      this.context.log.error("cannot read retained values for a subscriber", {
        client: this.session.clientId,
        error: errorText(error),
      });
      this.#endIfDone();
    });
  }

  /** Nothing left to read or to be acknowledged: the session need not know of the pass any more. */
  #endIfDone(): void {
    if (this.#scans.length === 0 && this.#at >= this.#page.length && this.#onWire === 0) {
      this.session.removeSource(this);
    }
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
