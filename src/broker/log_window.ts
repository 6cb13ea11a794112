import { errorText } from "../platform/log.ts";
import type { InFlight, Urgency, WindowChange } from "../storage/contract.ts";
import type { Offset } from "../storage/record.ts";
import type { Flushable } from "./drain.ts";
import type { Delivery } from "./link.ts";
import type { BroadcastLog } from "./log.ts";
import { OWED_BYTES } from "./owed.ts";
import { Reason } from "./reason.ts";
import type { Session } from "./session.ts";
import type { WindowEntry, WindowSource } from "./window.ts";

/** Charged for a log message on the wire beside `ENTRY_BYTES` and its size (02a 13.1). */
export const LOG_ENTRY_BYTES = OWED_BYTES + 192;

/** How long a refused store of identifiers waits before it is tried again. */
const RETRY_MS = 1_000;

/** What a shared group hears of deliveries that it handed to a member. */
export interface HandingGroup {
  readonly name: string;
  /** Its cursor is kept by the session store. */
  readonly kept: boolean;
  /** Its members. */
  readonly size: number;
  /** Where its stored cursor may stand once what `window` was handed is stored. */
  cursorWith(window: LogWindow): Offset;
  /** The hand-over is stored, with the member's window. */
  handOverStored(offset: Offset): void;
  /** Its cursor was stored with them. */
  cursorStored(cursor: Offset): void;
  /** The member acknowledged it, or it is dropped with its member. */
  finished(offset: Offset): void;
  /** The member gave it back, and the store has a row of that. */
  giveBack(offset: Offset, bytes: number): void;
  /** The store has a row of a return that did not happen after all. */
  rowStale(offset: Offset): void;
  /** What the member's subscription asks of a delivery that goes again. */
  options(
    session: Session,
  ): { readonly retainAsPublished: boolean; readonly identifiers: readonly number[] };
}

/** A delivery that leaves for a session's wire. */
export interface Handing {
  readonly offset: Offset;
  /** `recordSize` of the message. */
  readonly bytes: number;
  readonly delivery: Delivery;
  readonly dup: boolean;
  /** Undefined for what the session's own subscriptions are owed. */
  readonly group: HandingGroup | undefined;
  /** It was returned to the group, whose store row goes with the hand-over (S101). */
  readonly returned: boolean;
}

interface Out {
  readonly entry: WindowEntry;
  readonly group: HandingGroup | undefined;
}

/** A PUBREC whose row waits to be stored. */
interface Receipt {
  readonly entry: WindowEntry;
  readonly proceed: () => void;
}

interface HandOver {
  readonly group: HandingGroup;
  readonly offset: Offset;
  readonly returned: boolean;
}

/**
 * What of the log is on one durable session's wire, and the changes of it that wait to be stored
 * (D8.7 to D8.10). Lives with the session, connected or away.
 *
 * A QoS 1 message leaves at once under the identifier its offset gives: a broker that was killed before
 * the identifier was stored uses it again. A QoS 2 message, and one whose identifier is taken, is stored
 * first; what follows it then waits too, so that the order stays.
 */
export class LogWindow implements WindowSource, Flushable {
  readonly #out = new Map<number, Out>();
  /** On the wire, or acknowledged and not yet written: the window of D8.9. */
  #unwritten = 0;
  /** Those of them that are acknowledged and in no write yet. */
  #acknowledged = 0;
  /** Somebody waits for the window not to be full. */
  #wanted = false;
  #flushScheduled = false;
  #put = new Map<number, InFlight>();
  #drop: { packetId: number; offset: Offset }[] = [];
  /** Identifiers whose rows the store has, or may have. */
  readonly #rows = new Set<number>();
  #handOvers: HandOver[] = [];
  /** In the order in which they came, which is that of their PUBRELs (MQTT-4.6.0-4). */
  #receipts: Receipt[] = [];
  #changed = false;
  #writing: Promise<void> | undefined;
  /** Sent once their identifiers are stored, in this order. */
  #storing: WindowEntry[] = [];
  #storingUnderWay = false;
  #closed = false;

  constructor(
    readonly session: Session,
    private readonly log: BroadcastLog,
    /** Lowest offset not acknowledged, as stored. */
    private cursor: Offset,
    /** The lowest offset owed beyond the window; undefined for none. */
    private readonly firstOwed: () => Offset | undefined,
    /** What waited for room or for the order of sending may go on. */
    private readonly roomMade: () => void,
  ) {}

  get label(): string {
    return `${this.session.clientId} on the broadcast log`;
  }

  /** What is on the wire outlives the broker. */
  get #kept(): boolean {
    return this.session.durable && this.session.stored;
  }

  /** No more is sent before acknowledgements are written, so that a crash re-sends no more (D8.9). */
  get full(): boolean {
    return this.#unwritten >= this.session.window.receiveMaximum;
  }

  /** Deliveries wait for their identifiers to be stored: nothing may overtake them. */
  get storing(): boolean {
    return this.#storing.length > 0 || this.#storingUnderWay;
  }

  /** What keeps the window full is written as soon as there is something; `roomMade` follows. */
  makeRoom(): void {
    this.#wanted = true;
    if (this.#acknowledged > 0) this.#flushSoon();
  }

  /** In a turn of its own, with all that the present one brings. */
  #flushSoon(): void {
    if (this.#flushScheduled) return;
    this.#flushScheduled = true;
    queueMicrotask(() => {
      this.#flushScheduled = false;
      this.flush().catch((error) => this.#refused(error));
    });
  }

  // ------------------------------------------------------------------------------------- sending

  /** Sends, or stores first. False: larger than the client takes; nothing happened. */
  hand(handing: Handing): boolean {
    const { session } = this;
    const { offset, delivery, group, returned } = handing;
    const bytes = handing.bytes + LOG_ENTRY_BYTES;
    const known = session.window.idOf(offset);
    const packetId = known ?? session.window.nextId();
    const first = this.#kept && (delivery.qos === 2 || known === undefined || this.storing);
    let entry: WindowEntry | undefined;
    if (first) {
      const { link } = session;
      if (link !== undefined && !link.takes(delivery)) return false;
      entry = session.prepare(this, offset, delivery, bytes, packetId);
      this.#storing.push(entry);
    } else {
      entry = session.send(this, offset, 0, delivery, bytes, packetId, handing.dup);
      if (entry === undefined) return false;
    }
    this.#unwritten++;
    this.#out.set(packetId, { entry, group });
    if (this.#kept) {
      this.#put.set(packetId, row(entry, group, "sent"));
      if (group !== undefined) this.#handOvers.push({ group, offset, returned });
      this.#touch();
    }
    if (first) void this.#storeThenSend();
    return true;
  }

  async #storeThenSend(): Promise<void> {
    if (this.#storingUnderWay) return;
    this.#storingUnderWay = true;
    // What the same turn adds goes with it.
    await Promise.resolve();
    while (this.#storing.length > 0 && !this.#closed) {
      const batch = this.#storing;
      this.#storing = [];
      if (!await this.#stored()) {
        this.#storing.unshift(...batch);
        await new Promise<void>((resolve) => this.log.context.timers.after(RETRY_MS, resolve));
        continue;
      }
      for (const entry of batch) this.#send(entry);
    }
    this.#storingUnderWay = false;
    if (!this.#closed) this.roomMade();
  }

  async #stored(): Promise<boolean> {
    if (!this.#kept) return true;
    try {
      await this.flush();
      return !this.session.frozen;
    } catch (error) {
      this.#refused(error);
      return false;
    }
  }

  #send(entry: WindowEntry): void {
    if (this.#out.get(entry.packetId)?.entry !== entry) return;
    if (this.session.sendStored(entry)) return;
    // A connection that takes less than the one it was prepared for.
    this.session.window.remove(entry);
    this.acknowledged(entry);
    this.log.context.counters.sessionDeliveriesDropped.add("too_large");
  }

  #refused(error: unknown): void {
    this.log.context.counters.storageErrors.add("sessions");
    this.log.context.log.error("cannot store what is on a session's wire; it is tried again", {
      client: this.session.clientId,
      error: errorText(error),
    });
  }

  // ------------------------------------------------------------------------------ acknowledgements

  acknowledged(entry: WindowEntry): void {
    const { packetId, offset } = entry;
    const out = this.#out.get(packetId);
    if (out === undefined) return;
    this.#out.delete(packetId);
    this.#acknowledged++;
    if (this.#kept) {
      this.#put.delete(packetId);
      if (this.#rows.delete(packetId)) this.#drop.push({ packetId, offset });
      this.#touch();
    }
    if (this.#wanted) this.#flushSoon();
    if (out.group === undefined) this.log.settle(offset);
    else out.group.finished(offset);
  }

  /** PUBREL leaves once the PUBREC is stored (D8.10); a refusal ends the connection. */
  received(entry: WindowEntry, proceed: () => void): void {
    if (!this.#kept) return proceed();
    const group = this.#out.get(entry.packetId)?.group;
    this.#put.set(entry.packetId, row(entry, group, "received"));
    this.#touch();
    this.#receipts.push({ entry, proceed });
    // What becomes of it is told to `#receipts`, in whose write it is.
    this.flush().catch(() => {});
  }

  #notReceived(receipts: readonly Receipt[]): void {
    if (receipts.length === 0) return;
    for (const { entry } of receipts) entry.state = "sent";
    this.session.hangUp({
      code: Reason.UnspecifiedError,
      reason: "the PUBREC could not be recorded; the exchange goes on with the session",
    });
  }

  /** Options are those of the moment of sending (D8.11); what may not be read any more is let go. */
  resend(entry: WindowEntry): boolean {
    const { message } = entry.delivery;
    if (entry.state === "sent" && this.session.access?.mayReceive(message.topic) === false) {
      return this.#withdraw(entry);
    }
    const group = this.#out.get(entry.packetId)?.group;
    const grant = group === undefined ? this.session.grant(message) : group.options(this.session);
    const asked = grant !== undefined && grant.retainAsPublished && message.retain;
    entry.delivery = {
      ...entry.delivery,
      retain: message.onlyFor !== "" || asked,
      identifiers: grant?.identifiers ?? [],
    };
    return true;
  }

  /** Of a QoS 2 exchange that began, the identifier is the client's until PUBCOMP. */
  #withdraw(entry: WindowEntry): boolean {
    if (entry.qos === 2) {
      entry.state = "released";
      return true;
    }
    this.acknowledged(entry);
    return false;
  }

  // -------------------------------------------------------------------------------------- storing

  #touch(): void {
    if (!this.#kept) return;
    this.#changed = true;
    this.log.context.drain.add(this);
  }

  /** The cursor is to be written: what it stood at is owed no more. */
  moved(): void {
    this.#touch();
  }

  /** True when changes of the window wait to be written. */
  get dirty(): boolean {
    return this.#changed && this.#kept;
  }

  #cursorNow(): Offset {
    let cursor = this.firstOwed() ?? this.log.end;
    for (const { entry, group } of this.#out.values()) {
      if (group === undefined && entry.offset < cursor) cursor = entry.offset;
    }
    return Math.max(cursor, this.cursor);
  }

  /** Writes what changed, in one transaction (S101). Concurrent calls follow one another. */
  async flush(urgency: Urgency = "connected"): Promise<void> {
    while (this.#writing !== undefined) await this.#writing.catch(() => {});
    if (this.#closed || this.session.frozen) return;
    if (!this.#changed || !this.#kept) {
      this.#unwritten = this.#out.size;
      this.#acknowledged = 0;
      for (const { proceed } of this.#receipts.splice(0)) proceed();
      return this.#written();
    }
    const acknowledged = this.#acknowledged;
    const put = this.#put;
    const drop = this.#drop;
    const handOvers = this.#handOvers;
    const receipts = this.#receipts;
    const cursors = this.#groupCursors();
    const change = this.#change(cursors);
    for (const packetId of put.keys()) this.#rows.add(packetId);
    this.#put = new Map();
    this.#drop = [];
    this.#handOvers = [];
    this.#receipts = [];
    this.#acknowledged = 0;
    this.#changed = false;
    this.#writing = this.log.sessions.change(change, urgency);
    try {
      await this.#writing;
      this.cursor = change.cursor!;
      this.#unwritten -= acknowledged;
      for (const { group, offset } of handOvers) group.handOverStored(offset);
      for (const [group, cursor] of cursors) group.cursorStored(cursor);
      for (const { proceed } of receipts) proceed();
    } catch (error) {
      for (const [packetId, row] of put) {
        if (this.#out.has(packetId) && !this.#put.has(packetId)) this.#put.set(packetId, row);
      }
      this.#drop.unshift(...drop);
      this.#handOvers.unshift(...handOvers);
      this.#acknowledged += acknowledged;
      this.#touch();
      this.#notReceived(receipts);
      throw error;
    } finally {
      this.#writing = undefined;
    }
    this.#written();
  }

  #written(): void {
    if (!this.#wanted || this.full) return;
    this.#wanted = false;
    this.roomMade();
  }

  /** Where the stored cursors of groups may stand with what they handed over. */
  #groupCursors(): Map<HandingGroup, Offset> {
    const cursors = new Map<HandingGroup, Offset>();
    for (const { group } of this.#handOvers) {
      if (group.kept && !cursors.has(group)) cursors.set(group, group.cursorWith(this));
    }
    return cursors;
  }

  #change(cursors: ReadonlyMap<HandingGroup, Offset>): WindowChange {
    return {
      clientId: this.session.clientId,
      put: [...this.#put.values()],
      drop: this.#drop,
      cursor: this.#cursorNow(),
      groups: [...cursors].map(([{ name }, cursor]) => ({ name, cursor })),
      taken: this.#handOvers.filter(({ group, returned }) => returned && group.kept)
        .map(({ group, offset }) => ({ group: group.name, offset })),
    };
  }

  /** The cursor and the window as they are, for a store that lost them and is given them back. */
  image(): { readonly cursor: Offset; readonly inFlight: readonly InFlight[] } {
    const inFlight: InFlight[] = [];
    for (const { entry, group } of this.#out.values()) {
      this.#rows.add(entry.packetId);
      inFlight.push(row(entry, group, entry.state === "received" ? "received" : "sent"));
    }
    return { cursor: this.#cursorNow(), inFlight };
  }

  // --------------------------------------------------------------------------------- start and end

  /** Rows the store may have: what is on the wire, and what is acknowledged and not yet written. */
  get size(): number {
    return Math.max(this.#unwritten, this.#out.size);
  }

  /** At the start: what was on the wire, and is in the session's window again. */
  restore(entry: WindowEntry, group: HandingGroup | undefined): void {
    this.#out.set(entry.packetId, { entry, group });
    this.#rows.add(entry.packetId);
    this.#unwritten++;
  }

  /** What groups handed over and is not finished, for the end of the session (D9.12). */
  handed(): { readonly entry: WindowEntry; readonly group: HandingGroup }[] {
    const handed: { entry: WindowEntry; group: HandingGroup }[] = [];
    for (const { entry, group } of this.#out.values()) {
      if (group !== undefined) handed.push({ entry, group });
    }
    return handed;
  }

  /**
   * The session's end is settled with its groups, and no hand-over to it will be stored any more, which would
   * take the rows of earlier returns with it.
   */
  letGo(): void {
    for (const { group, offset, returned } of this.#handOvers) {
      if (returned) group.rowStale(offset);
    }
    this.#handOvers = [];
  }

  /** The session ended: nothing of the log is owed to it any more. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.log.context.drain.remove(this);
    for (const { entry, group } of this.#out.values()) {
      if (group === undefined) this.log.settle(entry.offset);
    }
    this.#out.clear();
    this.#storing = [];
  }
}

function row(
  entry: WindowEntry,
  group: HandingGroup | undefined,
  state: InFlight["state"],
): InFlight {
  const { packetId, offset, qos } = entry;
  return { packetId, offset, qos, state, group: group?.name ?? "" };
}
