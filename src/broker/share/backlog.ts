import type { Timer } from "../../platform/timers.ts";
import type { Urgency } from "../../storage/contract.ts";
import type { Message, Offset } from "../../storage/record.ts";
import type { Context } from "../context.ts";
import type { ShareDropCause } from "../counters.ts";
import { isExpired } from "../delivery.ts";
import type { Flushable } from "../drain.ts";
import type { BroadcastLog } from "../log.ts";
import { LogPages } from "../log_pages.ts";
import type { LogWindow } from "../log_window.ts";
import { type Owed, OwedList } from "../owed.ts";

/** A client id that nobody has: what is written under it concerns no session. */
const NO_SESSION = "";

/** What the backlog asks of its group. */
export interface BacklogOwner {
  readonly name: string;
  readonly kept: boolean;
  /** A client id whose session the store holds, under which a group's write travels. */
  carrier(): string | undefined;
  /** Something may be handed out now. */
  pump(): void;
}

/** The first message that is due, with what is needed to hand it over. */
export interface Due {
  readonly owed: Owed;
  readonly message: Message;
  /** It was returned, and the store has a row of it. */
  readonly returned: boolean;
}

/**
 * What a shared group is owed of the broadcast log and no member has: what members gave back, then what
 * follows the group's cursor (D9.2, D9.12). Knows too what is out with members and not stored as
 * handed over, since the stored cursor stays below that.
 */
export class Backlog implements Flushable {
  readonly #owed = new OwedList();
  readonly #returned = new OwedList();
  /** Offsets whose return the store has a row of. */
  readonly #rows = new Set<Offset>();
  /** Handed to members whose sessions are stored; the hand-over is in no committed write yet. */
  readonly #handed = new Map<Offset, LogWindow>();
  /** With members that end with their connection, unacknowledged, at QoS 1: theirs to give back. */
  readonly #lent = new Map<Offset, Owed>();
  /** Rows of returns that are to go. */
  #taken: Offset[] = [];
  #since = new Map<Offset, number>();
  #dirty = false;
  #writing: Promise<void> | undefined;
  #timer: Timer | undefined;
  readonly #pages: LogPages;

  constructor(
    private readonly owner: BacklogOwner,
    private readonly log: BroadcastLog,
    private readonly context: Context,
    /** `broker.share.expires_after`; undefined for none. */
    private readonly expiresAfterMs: number | undefined,
    /** Where the stored cursor stands. */
    private cursor: Offset,
  ) {
    this.#pages = new LogPages(log, owner.name, () => owner.pump());
  }

  get label(): string {
    return `the shared group ${this.owner.name}`;
  }

  get length(): number {
    return this.#owed.length + this.#returned.length;
  }

  get bytes(): number {
    return this.#owed.bytes + this.#returned.bytes;
  }

  /** Offsets whose return the store has a row of. */
  get rows(): readonly Offset[] {
    return [...this.#rows];
  }

  // ----------------------------------------------------------------------------------------- adding

  /** One more message follows the cursor. Past the bound the oldest ones go. */
  owe(owed: Owed, since = this.context.clock.monotonic()): void {
    this.#owed.push(owed);
    this.#note(owed.offset, since);
  }

  /** A member gave it back; the store has a row of that. */
  giveBack(offset: Offset, bytes: number, since = this.context.clock.monotonic()): void {
    // The cursor waits no longer for the hand-over, which no write will tell of.
    if (this.#handed.delete(offset)) this.#touch();
    this.#returned.insert({ offset, bytes });
    this.#rows.add(offset);
    this.#note(offset, since);
  }

  /** The store has a row that nothing belongs to, unless the message was given back again. */
  rowStale(offset: Offset): void {
    if (this.#rows.has(offset)) return;
    this.#taken.push(offset);
    this.#touch();
  }

  #note(offset: Offset, since: number): void {
    this.context.counters.sharesHeld++;
    if (this.expiresAfterMs !== undefined) {
      this.#since.set(offset, since);
      this.#armExpiry();
    }
    const { sessionQueueBytes } = this.context.limits;
    while (this.bytes > sessionQueueBytes && this.length > 1) this.#drop("backlog_full");
  }

  // ----------------------------------------------------------------------------------------- taking

  /**
   * The first message that is due; undefined when there is none or it is being read, in which case the
   * owner is pumped once it is there.
   */
  due(): Due | undefined {
    for (;;) {
      const owed = this.#first;
      if (owed === undefined) return undefined;
      const message = this.#pages.at(owed.offset);
      if (message === undefined) return undefined;
      const cause = message === "gone"
        ? "storage_full"
        : isExpired(message, this.context.clock.wall()) || this.#isOld(owed.offset)
        ? "expired"
        : undefined;
      if (cause === undefined) {
        return { owed, message: message as Message, returned: this.#rows.has(owed.offset) };
      }
      this.#drop(cause);
    }
  }

  get #first(): Owed | undefined {
    return this.#returned.first ?? this.#owed.first;
  }

  #shift(): Owed {
    const owed = this.#returned.length > 0 ? this.#returned.shift() : this.#owed.shift();
    this.#since.delete(owed.offset);
    return owed;
  }

  #isOld(offset: Offset): boolean {
    const since = this.#since.get(offset);
    return since !== undefined &&
      this.context.clock.monotonic() - since >= this.expiresAfterMs!;
  }

  /** The message that is due is not for any member's eyes. */
  forbid(): void {
    this.#drop("not_authorized");
  }

  /** Gives the first up: nobody is owed it through this group any more. */
  #drop(cause: ShareDropCause): void {
    const { offset } = this.#shift();
    this.context.counters.sharesDropped.add(cause);
    this.#forgetRow(offset);
    this.log.settle(offset);
    this.#touch();
  }

  #forgetRow(offset: Offset): void {
    if (this.#rows.delete(offset)) this.#taken.push(offset);
  }

  /** The due message was handed to a member whose session stores that, the returned row included. */
  handedTo(window: LogWindow, due: Due): void {
    this.#shift();
    this.#rows.delete(due.owed.offset);
    if (!due.returned) this.#handed.set(due.owed.offset, window);
    this.context.counters.sharesDrained++;
  }

  /** As `handedTo`, to a member that ends with its connection (D9.14). `keeps`: QoS 1. */
  lentTo(due: Due, keeps: boolean): void {
    this.#shift();
    const { owed } = due;
    if (keeps) this.#lent.set(owed.offset, owed);
    else this.#forgetRow(owed.offset);
    this.context.counters.sharesDrained++;
    this.#touch();
  }

  /** The hand-over is stored with its member's session. */
  handOverStored(offset: Offset): void {
    this.#handed.delete(offset);
  }

  /**
   * A member's session was stored with `cursor` of the group. Members that are stored at once each stay below
   * what the others were handed, so none of them may have written where it stands now.
   */
  cursorStored(cursor: Offset): void {
    this.cursor = Math.max(this.cursor, cursor);
    if (this.cursorWith(undefined) > this.cursor) this.#touch();
  }

  /** Nobody has the message any more: it was acknowledged, or dropped with its member. */
  finished(offset: Offset): void {
    if (this.#lent.delete(offset) || this.#handed.delete(offset)) this.#touch();
    this.#forgetRow(offset);
    this.log.settle(offset);
  }

  /** A member that ended with its connection had it at QoS 1: it is due again, first of all. */
  lentReturns(offset: Offset): void {
    const owed = this.#lent.get(offset);
    if (owed === undefined) return;
    this.#lent.delete(offset);
    this.#returned.insert(owed);
    this.#note(offset, this.context.clock.monotonic());
    this.#touch();
  }

  // --------------------------------------------------------------------------------------- storing

  #touch(): void {
    if (!this.owner.kept) return;
    this.#dirty = true;
    this.context.drain.add(this);
  }

  get dirty(): boolean {
    return this.#dirty && this.owner.kept;
  }

  /**
   * Where the stored cursor may stand once `window` has stored what it was handed: below everything
   * that no row tells of.
   */
  cursorWith(window: LogWindow | undefined): Offset {
    let cursor = this.#owed.firstOffset ?? this.log.end;
    for (const [offset, holder] of this.#handed) {
      if (holder !== window && offset < cursor) cursor = offset;
    }
    for (const offset of this.#lent.keys()) {
      if (!this.#rows.has(offset) && offset < cursor) cursor = offset;
    }
    for (const { offset } of this.#returned.values()) {
      if (!this.#rows.has(offset) && offset < cursor) cursor = offset;
    }
    return Math.max(cursor, this.cursor);
  }

  /**
   * Writes what members without a stored session were handed: a row for what they may have to give
   * back, then the cursor past it.
   */
  async flush(urgency: Urgency): Promise<void> {
    while (this.#writing !== undefined) await this.#writing.catch(() => {});
    if (!this.dirty) return;
    this.#dirty = false;
    this.#writing = this.#write(urgency);
    try {
      await this.#writing;
    } catch (error) {
      this.#touch();
      throw error;
    } finally {
      this.#writing = undefined;
    }
  }

  async #write(urgency: Urgency): Promise<void> {
    const { owner } = this;
    const rowless = [...this.#lent.keys(), ...this.#returned.values().map(({ offset }) => offset)]
      .filter((offset) => !this.#rows.has(offset));
    if (rowless.length > 0) {
      const returned = rowless.map((offset) => ({ group: owner.name, offset }));
      await this.log.sessions.end(NO_SESSION, urgency, { end: [], returned });
      for (const offset of rowless) {
        if (this.#lent.has(offset) || this.#isReturned(offset)) this.#rows.add(offset);
        else this.#taken.push(offset);
      }
    }
    const carrier = owner.carrier();
    if (carrier === undefined || !owner.kept) return;
    const taken = this.#taken;
    this.#taken = [];
    const cursor = this.cursorWith(undefined);
    try {
      await this.log.sessions.change({
        clientId: carrier,
        put: [],
        drop: [],
        groups: [{ name: owner.name, cursor }],
        taken: taken.map((offset) => ({ group: owner.name, offset })),
      }, urgency);
      this.cursor = cursor;
    } catch (error) {
      this.#taken.unshift(...taken);
      throw error;
    }
  }

  #isReturned(offset: Offset): boolean {
    return this.#returned.values().some((owed) => owed.offset === offset);
  }

  // --------------------------------------------------------------------------------------- expiring

  /** Looks at the oldest when its time is up; the others have theirs later. */
  #armExpiry(): void {
    if (this.#timer !== undefined || this.expiresAfterMs === undefined) return;
    const first = this.#first;
    if (first === undefined) return;
    const since = this.#since.get(first.offset) ?? this.context.clock.monotonic();
    const leftMs = since + this.expiresAfterMs - this.context.clock.monotonic();
    this.#timer = this.context.timers.after(leftMs, () => {
      this.#timer = undefined;
      for (let old = this.#first; old !== undefined && this.#isOld(old.offset); old = this.#first) {
        this.#drop("expired");
      }
      this.#armExpiry();
    });
  }

  // --------------------------------------------------------------------------------- start and end

  /** No member is left whose session outlives its connection: what waits is lost (D9.6). */
  clear(): void {
    while (this.length > 0) {
      const { offset } = this.#shift();
      this.context.counters.sharesDropped.add("no_member_left");
      this.log.settle(offset);
    }
    this.#rows.clear();
    this.#taken = [];
    this.#handed.clear();
    this.#dirty = false;
    this.context.drain.remove(this);
    this.#timer?.cancel();
    this.#timer = undefined;
    this.#pages.clear();
  }

  /** A cursor was stored anew. */
  begin(cursor: Offset): void {
    this.cursor = cursor;
  }
}
