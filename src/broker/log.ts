import { errorText } from "../platform/log.ts";
import type { AppendStore, InFlight, SessionStore, WindowChange } from "../storage/contract.ts";
import { type Message, NO_HEADERS, type Offset, recordSize } from "../storage/record.ts";
import { Tail } from "./channels/tail.ts";
import type { Context } from "./context.ts";
import { isExpired, remainingExpiry } from "./delivery.ts";
import type { Flushable } from "./drain.ts";
import { Reason } from "./reason.ts";
import { QUANTUM, type Session, type Source } from "./session.ts";
import type { WindowEntry } from "./window.ts";

/** Log messages released in one removal at the latest when so many wait (S108). */
const RELEASE_BATCH = 500;

const READ_RECORDS = 256;
const READ_BYTES = 1024 * 1024;
const RETRY_MS = 1_000;

/** Charged for an owed message that waits in the log (02a 13.1). */
const OWED_BYTES = 80;

/**
 * The broadcast log: one record for each message that durable sessions are owed, however many they are
 * (D8.5). Keeps count of who still owes what, and removes what nobody does (D8.13).
 */
export class BroadcastLog {
  readonly tail = new Tail();
  readonly #owers = new Map<Offset, number>();
  #released: Offset[] = [];
  #releaseArmed = false;

  constructor(
    readonly store: AppendStore,
    readonly sessions: SessionStore,
    readonly context: Context,
  ) {}

  /** A committed log record: kept in hand, and owed by each of `readers`. */
  recorded(offset: Offset, message: Message, readers: readonly LogReader[]): void {
    this.tail.push(offset, message);
    const bytes = recordSize(message);
    if (readers.length === 0) return this.#release(offset);
    this.#owers.set(offset, readers.length);
    for (const reader of readers) reader.owe(offset, bytes);
  }

  /** At the start: `offset` is owed by `owers` sessions (D5.19). */
  restore(offset: Offset, owers: number): void {
    if (owers === 0) this.#release(offset);
    else this.#owers.set(offset, owers);
  }

  /** One session less owes `offset`. */
  settle(offset: Offset): void {
    const owers = this.#owers.get(offset);
    if (owers === undefined) return;
    if (owers > 1) this.#owers.set(offset, owers - 1);
    else {
      this.#owers.delete(offset);
      this.#release(offset);
    }
  }

  #release(offset: Offset): void {
    this.#released.push(offset);
    if (this.#released.length >= RELEASE_BATCH) void this.flush();
    else if (!this.#releaseArmed) {
      this.#releaseArmed = true;
      this.context.timers.after(this.context.ackCommitIntervalMs, () => {
        this.#releaseArmed = false;
        void this.flush();
      });
    }
  }

  /** Removes what nobody owes any more. A refused removal is tried again with the next one. */
  async flush(): Promise<void> {
    if (this.#released.length === 0) return;
    const offsets = this.#released.sort((a, b) => a - b);
    this.#released = [];
    try {
      await this.store.removeMany(offsets);
    } catch (error) {
      this.context.counters.storageErrors.add(this.store.channel);
      this.context.log.error("cannot remove delivered messages from the broadcast log", {
        messages: offsets.length,
        error: errorText(error),
      });
      this.#released.push(...offsets);
      if (!this.#releaseArmed) {
        this.#releaseArmed = true;
        this.context.timers.after(RETRY_MS, () => {
          this.#releaseArmed = false;
          void this.flush();
        });
      }
    }
  }
}

interface Owed {
  readonly offset: Offset;
  readonly bytes: number;
}

/**
 * A durable session's reading of the broadcast log: what it is owed beyond its window, in order, and
 * the changes of its window that wait to be stored. Lives with the session, connected or away.
 */
export class LogReader implements Source, Flushable {
  #owed: Owed[] = [];
  #head = 0;
  #bytes = 0;
  #reading = false;
  #closed = false;
  /** On the wire, or acknowledged and not yet written: the window of D8.9. */
  #unwritten = 0;
  #put = new Map<number, InFlight>();
  #drop: { packetId: number; offset: Offset }[] = [];
  #changed = false;
  #writing: Promise<void> | undefined;
  readonly #onWire = new Map<Offset, WindowEntry>();

  constructor(
    readonly session: Session,
    private readonly log: BroadcastLog,
    /** Lowest offset not acknowledged. */
    private cursor: Offset,
  ) {
    session.addSource(this);
  }

  get #context(): Context {
    return this.log.context;
  }

  /** Messages owed and not on the wire. */
  get length(): number {
    return this.#owed.length - this.#head;
  }

  /** One more message is owed. Past the session's bound the oldest ones go (D8.14). */
  owe(offset: Offset, bytes: number): void {
    this.#owed.push({ offset, bytes });
    this.#bytes += bytes + OWED_BYTES;
    const { session } = this;
    while (this.#bytes + session.window.bytes > session.queueBytes && this.length > 1) {
      this.#let(this.#take(), "session_queue_full");
    }
    if (session.link !== undefined) session.wait(this);
  }

  #take(): Owed {
    const owed = this.#owed[this.#head++];
    this.#bytes -= owed.bytes + OWED_BYTES;
    if (this.#head > 1_024 || this.#head === this.#owed.length) {
      this.#owed = this.#owed.slice(this.#head);
      this.#head = 0;
    }
    return owed;
  }

  /** Lets an owed message go as if it were acknowledged. */
  #let(owed: Owed, cause: "session_queue_full" | "expired" | undefined): void {
    if (cause !== undefined) this.#context.counters.sessionDeliveriesDropped.add(cause);
    this.#touch();
    this.log.settle(owed.offset);
  }

  // ----------------------------------------------------------------------------------- delivering

  pump(): void {
    const { session } = this;
    for (let sent = 0; sent < QUANTUM && this.length > 0; sent++) {
      if (this.#closed || this.#reading || !session.canSend()) break;
      const owed = this.#owed[this.#head];
      if (this.#unwritten >= session.window.receiveMaximum || !session.fits(owed.bytes)) {
        this.#context.timers.after(0, () => void this.flush());
        break;
      }
      const record = this.log.tail.at(owed.offset);
      if (record === undefined) return this.#read(owed.offset);
      this.#take();
      this.#hand(owed, record.message);
    }
    if (this.length > 0 && !this.#reading) session.wait(this);
  }

  #hand(owed: Owed, message: Message): void {
    const { session } = this;
    const grant = session.grant(message);
    if (grant === undefined) return this.#let(owed, undefined);
    const now = message.properties.messageExpiry === undefined ? 0n : this.#context.clock.wall();
    if (now !== 0n && isExpired(message, now)) return this.#let(owed, "expired");
    const qos = Math.min(grant.qos, message.qos) as 0 | 1 | 2;
    const delivery = {
      message,
      qos,
      retain: grant.retainAsPublished && message.retain,
      identifiers: grant.identifiers,
      labels: NO_HEADERS,
      expiry: now === 0n ? undefined : remainingExpiry(message, now),
    };
    if (qos === 0) {
      session.sendUnacknowledged({ ...delivery, packetId: 0, dup: false });
      return this.#let(owed, undefined);
    }
    const packetId = session.window.nextId();
    const row: InFlight = { packetId, offset: owed.offset, qos, state: "sent", group: "" };
    this.#put.set(packetId, row);
    this.#touch();
    const entry = session.send(this, owed.offset, 0, delivery, owed.bytes, packetId);
    if (entry === undefined) {
      // D7.2: dropped for this subscriber only.
      this.#put.delete(packetId);
      this.#context.counters.deliveriesDropped++;
      return this.#let(owed, undefined);
    }
    this.#unwritten++;
    this.#onWire.set(owed.offset, entry);
    this.#context.counters.delivered++;
  }

  #read(from: Offset): void {
    this.#reading = true;
    this.log.store.readFrom(from, READ_RECORDS, READ_BYTES).then((window) => {
      this.#reading = false;
      if (this.#closed) return;
      const records = window.belowFloor ? [] : window.records;
      let at = 0;
      while (this.length > 0 && at <= records.length) {
        const owed = this.#owed[this.#head];
        while (at < records.length && records[at].offset < owed.offset) at++;
        if (at === records.length) break;
        if (records[at].offset > owed.offset) {
          this.#let(this.#take(), undefined);
          continue;
        }
        if (
          !this.session.canSend() || this.#unwritten >= this.session.window.receiveMaximum ||
          !this.session.fits(owed.bytes)
        ) break;
        this.#take();
        this.#hand(owed, records[at].message);
      }
      // What is owed but no longer in the log was taken from it for room (D8.15).
      if (records.length === 0 && this.length > 0 && this.#owed[this.#head].offset === from) {
        this.#context.counters.sessionDeliveriesDropped.add("storage_full");
        this.#let(this.#take(), undefined);
      }
      if (this.length > 0) this.session.wait(this);
    }, (error) => {
      this.#reading = false;
      this.#context.counters.storageErrors.add(this.log.store.channel);
      this.#context.log.error("cannot read the broadcast log for a session", {
        client: this.session.clientId,
        error: errorText(error),
      });
      this.#context.timers.after(RETRY_MS, () => {
        if (!this.#closed) this.session.wake(this);
      });
    });
  }

  // ------------------------------------------------------------------------------ acknowledgements

  acknowledged(entry: WindowEntry): void {
    this.#onWire.delete(entry.offset);
    if (!this.#put.delete(entry.packetId)) {
      this.#drop.push({ packetId: entry.packetId, offset: entry.offset });
    }
    this.#touch();
    this.log.settle(entry.offset);
  }

  /** PUBREL leaves once the PUBREC is stored (D8.10); a refusal ends the connection. */
  received(entry: WindowEntry, proceed: () => void): void {
    this.#put.set(entry.packetId, {
      packetId: entry.packetId,
      offset: entry.offset,
      qos: 2,
      state: "received",
      group: "",
    });
    this.#touch();
    this.flush().then(proceed, () => {
      entry.state = "sent";
      this.session.hangUp({
        code: Reason.UnspecifiedError,
        reason: "the PUBREC could not be recorded; the exchange goes on with the session",
      });
    });
  }

  /** Options are those of the moment of sending (D8.11). */
  resend(entry: WindowEntry): boolean {
    const { message } = entry.delivery;
    const grant = this.session.grant(message);
    entry.delivery = {
      ...entry.delivery,
      retain: grant !== undefined && grant.retainAsPublished && message.retain,
      identifiers: grant?.identifiers ?? [],
    };
    return true;
  }

  /** The cursor and the window as they are, for a store that lost them. */
  image(): { readonly cursor: Offset; readonly inFlight: readonly InFlight[] } {
    const inFlight: InFlight[] = [];
    for (const [offset, { packetId, qos, state }] of this.#onWire) {
      inFlight.push({
        packetId,
        offset,
        qos,
        state: state === "sent" ? "sent" : "received",
        group: "",
      });
    }
    return { cursor: this.#cursorNow(), inFlight };
  }

  #touch(): void {
    this.#changed = true;
    if (this.session.durable) this.#context.drain.add(this);
  }

  get label(): string {
    return `${this.session.clientId} on the broadcast log`;
  }

  /** True when changes of the window wait to be written. */
  get dirty(): boolean {
    return this.#changed && this.session.durable;
  }

  #cursorNow(): Offset {
    let cursor = this.length > 0 ? this.#owed[this.#head].offset : this.log.store.next();
    for (const offset of this.#onWire.keys()) if (offset < cursor) cursor = offset;
    return Math.max(cursor, this.cursor);
  }

  /** Writes what changed, in one transaction (S101). Concurrent calls follow one another. */
  async flush(urgency: "answering" | "departed" | "connected" = "connected"): Promise<void> {
    while (this.#writing !== undefined) await this.#writing.catch(() => {});
    if (!this.#changed || this.#closed || !this.session.durable || this.session.frozen) {
      this.#unwritten = this.#onWire.size;
      return;
    }
    const put = this.#put;
    const drop = this.#drop;
    const cursor = this.#cursorNow();
    this.#put = new Map();
    this.#drop = [];
    this.#changed = false;
    const change: WindowChange = {
      clientId: this.session.clientId,
      put: [...put.values()],
      drop,
      cursor,
    };
    this.#writing = this.log.sessions.change(change, urgency);
    try {
      await this.#writing;
      this.cursor = cursor;
      this.#unwritten = this.#onWire.size;
    } catch (error) {
      for (const [packetId, row] of put) if (!this.#put.has(packetId)) this.#put.set(packetId, row);
      this.#drop.unshift(...drop);
      this.#changed = true;
      throw error;
    } finally {
      this.#writing = undefined;
    }
    if (this.length > 0) this.session.wait(this);
  }

  // --------------------------------------------------------------------------------- start and end

  /** At the start: what is owed beyond the window, and what was on the wire. */
  restore(
    owed: readonly { offset: Offset; bytes: number }[],
    onWire: readonly WindowEntry[],
  ): void {
    for (const { offset, bytes } of owed) {
      this.#owed.push({ offset, bytes });
      this.#bytes += bytes + OWED_BYTES;
    }
    for (const entry of onWire) {
      this.#onWire.set(entry.offset, entry);
      this.#unwritten++;
    }
  }

  /** The session ended: nothing of the log is owed to it any more. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#context.drain.remove(this);
    while (this.length > 0) this.log.settle(this.#take().offset);
    for (const offset of this.#onWire.keys()) this.log.settle(offset);
    this.#onWire.clear();
    this.session.removeSource(this);
  }
}
