import type { StoredSubscription } from "../../storage/contract.ts";
import {
  type Message,
  NO_HEADERS,
  type Offset,
  type QoS,
  recordSize,
} from "../../storage/record.ts";
import type { Context } from "../context.ts";
import { channelExpiry, channelLabels, isExpired, remainingExpiry } from "../delivery.ts";
import type { Delivery } from "../link.ts";
import type { BroadcastLog, Debt } from "../log.ts";
import type { HandingGroup, LogWindow } from "../log_window.ts";
import type { Owed } from "../owed.ts";
import type { Session } from "../session.ts";
import type { WindowEntry } from "../window.ts";
import { Backlog, type BacklogOwner, type Due } from "./backlog.ts";
import { Member } from "./member.ts";

/** Deliveries handed out in one go before other work has its turn. */
const QUANTUM = 256;

/**
 * One shared group, `$share/<ShareName>/<filter>` (03 section 9): each message goes to one of its
 * members, who take turns in the order of their client ids (02a section 5).
 *
 * As long as a member's session outlives its connection, QoS 1 and 2 messages are owed to the group
 * through the broadcast log (D9.2) and wait there for a member; others are handed out or lost in the
 * turn in which they come.
 */
export class ShareGroup implements Debt, HandingGroup, BacklogOwner {
  /** The session store keeps a cursor of it: set by whoever stored it, cleared by whoever ended it. */
  kept = false;
  readonly #members = new Map<Session, Member>();
  /** By client id. */
  #order: Member[] = [];
  /** Whose turn was last. */
  #last = "";
  #pumping = false;
  readonly backlog: Backlog;

  constructor(
    readonly name: string,
    /** The filter inside. */
    readonly filter: string,
    log: BroadcastLog,
    private readonly context: Context,
    expiresAfterMs: number | undefined,
  ) {
    this.backlog = new Backlog(this, log, context, expiresAfterMs, 0);
  }

  // --------------------------------------------------------------------------------------- members

  get size(): number {
    return this.#members.size;
  }

  member(session: Session): Member | undefined {
    return this.#members.get(session);
  }

  /** The session has the group's filter, or changed its options. */
  join(session: Session, subscription: StoredSubscription): void {
    const known = this.#members.get(session);
    if (known !== undefined) {
      known.subscription = subscription;
      return;
    }
    const member = new Member(this, session, subscription);
    this.#members.set(session, member);
    this.#order.push(member);
    this.#order.sort((a, b) => a.session.clientId < b.session.clientId ? -1 : 1);
    session.addSource(member);
    session.log?.addSource(member);
    if (this.backlog.length > 0) session.wait(member);
  }

  /** The session is a member no more. What it has on its wire stays with it. */
  leave(session: Session): void {
    const member = this.#members.get(session);
    if (member === undefined) return;
    this.#members.delete(session);
    this.#order = this.#order.filter((each) => each !== member);
    session.removeSource(member);
    session.log?.removeSource(member);
  }

  /** True while some member's session outlives its connection. */
  get someKept(): boolean {
    return this.#order.some((member) => member.kept);
  }

  /** A member other than `session` whose session the store keeps. */
  otherKept(session: Session): boolean {
    return this.#order.some((member) => member.session !== session && member.kept);
  }

  carrier(): string | undefined {
    return this.#order.find(({ kept, session }) => kept && !session.frozen && !session.ended)
      ?.session.clientId;
  }

  // ---------------------------------------------------------------------------------------- offers

  /** True when `message` is owed through the log: it may wait for a member (D9.3). */
  holds(message: Message): boolean {
    return this.kept && message.qos > 0 && this.#order.some(({ qos }) => qos > 0);
  }

  /** One more message of the log is owed to the group; what waits already goes first (D9.4). */
  owe(owed: Owed): void {
    this.backlog.owe(owed);
    this.pump();
    // Its last such member left while the message was being stored: whoever could not take it now is lost.
    if (!this.kept) this.backlog.clear();
  }

  /** Hands `message` to a member now or to nobody (D9.3). `ofChannel`: it is a channel's record. */
  offer(message: Message, ofChannel: boolean): void {
    if (isExpired(message, this.context.clock.wall())) return;
    const bytes = recordSize(message);
    const member = this.#choose(message, bytes, ofChannel);
    if (member === undefined) {
      this.context.counters.sessionDeliveriesDropped.add("no_shared_member");
      return;
    }
    this.#sendFromMemory(member, 0, message, bytes, ofChannel);
  }

  /** Hands out what waits, as far as members can take it. */
  pump(): void {
    if (this.#pumping) return;
    this.#pumping = true;
    try {
      for (let handed = 0; handed < QUANTUM; handed++) {
        const due = this.backlog.due();
        if (due === undefined) return;
        const { message, owed } = due;
        const member = this.#choose(message, owed.bytes, message.groupCopy);
        if (member === undefined) {
          if (!this.#isForbidden(message)) return this.#wait();
          this.backlog.forbid();
          continue;
        }
        this.#hand(member, due);
      }
      queueMicrotask(() => this.pump());
    } finally {
      this.#pumping = false;
    }
  }

  /** No member may read it, whoever has room: waiting for one would hold up what follows. */
  #isForbidden(message: Message): boolean {
    return this.#order.length > 0 && !this.#order.some((member) => member.mayReceive(message));
  }

  /** Whoever makes room first goes on. */
  #wait(): void {
    for (const member of this.#order) {
      if (member.session.link !== undefined) member.session.park(member);
    }
  }

  /** The next in turn who can take the message; undefined for nobody. */
  #choose(message: Message, bytes: number, ofChannel: boolean): Member | undefined {
    const order = this.#order;
    let start = 0;
    while (start < order.length && order[start].session.clientId <= this.#last) start++;
    for (let i = 0; i < order.length; i++) {
      const member = order[(start + i) % order.length];
      if (!member.ready || !member.mayReceive(message)) continue;
      if (!this.#fits(member, message, bytes)) continue;
      if (!member.takes(this.#delivery(member, message, ofChannel))) continue;
      this.#last = member.session.clientId;
      return member;
    }
    return undefined;
  }

  #fits(member: Member, message: Message, bytes: number): boolean {
    const { session } = member;
    if (Math.min(member.qos, message.qos) === 0) {
      return session.log === undefined || !session.log.window.storing;
    }
    if (member.kept && session.log!.window.full) {
      session.log!.window.makeRoom();
      return false;
    }
    return session.fits(bytes);
  }

  #delivery(
    member: Member,
    message: Message,
    ofChannel: boolean,
  ): Delivery {
    const expires = message.properties.messageExpiry !== undefined;
    const now = expires ? this.context.clock.wall() : 0n;
    return {
      message,
      qos: Math.min(member.qos, message.qos) as QoS,
      retain: member.subscription.retainAsPublished && message.retain,
      identifiers: member.identifiers,
      // Split among members, an offset tells nobody anything (02a section 5).
      labels: ofChannel ? channelLabels({ offset: 0, message }, undefined, undefined) : NO_HEADERS,
      expiry: !expires
        ? undefined
        : ofChannel
        ? channelExpiry(message, now)
        : remainingExpiry(message, now),
    };
  }

  #hand(member: Member, due: Due): void {
    const { owed: { offset, bytes }, message, returned } = due;
    const delivery = this.#delivery(member, message, message.groupCopy);
    if (delivery.qos === 0 || !member.kept) {
      this.backlog.lentTo(due, delivery.qos === 1);
      this.#sendFromMemory(member, offset, message, bytes, message.groupCopy);
      if (delivery.qos === 0) this.backlog.finished(offset);
      return;
    }
    const { window } = member.session.log!;
    this.backlog.handedTo(window, due);
    window.hand({ offset, bytes, delivery, dup: false, group: this, returned });
    this.context.counters.delivered++;
  }

  #sendFromMemory(
    member: Member,
    offset: Offset,
    message: Message,
    bytes: number,
    ofChannel: boolean,
  ): void {
    const delivery = this.#delivery(member, message, ofChannel);
    const { session } = member;
    if (delivery.qos === 0) session.sendUnacknowledged(delivery);
    else session.send(member, offset, ofChannel ? 1 : 0, delivery, bytes);
    this.context.counters.delivered++;
  }

  // -------------------------------------------------------------------- what members are done with

  cursorWith(window: LogWindow): Offset {
    return this.backlog.cursorWith(window);
  }

  handOverStored(offset: Offset): void {
    this.backlog.handOverStored(offset);
  }

  cursorStored(cursor: Offset): void {
    this.backlog.cursorStored(cursor);
  }

  finished(offset: Offset): void {
    this.backlog.finished(offset);
  }

  giveBack(offset: Offset, bytes: number): void {
    this.backlog.giveBack(offset, bytes);
    this.pump();
  }

  rowStale(offset: Offset): void {
    this.backlog.rowStale(offset);
  }

  /** A message owed to the group found no room in the log (02b section 15). */
  lost(): void {
    this.context.counters.shareDropped("storage_full");
  }

  finishedInMemory(offset: Offset): void {
    if (offset > 0) this.backlog.finished(offset);
  }

  options(session: Session) {
    const member = this.#members.get(session);
    return {
      retainAsPublished: member?.subscription.retainAsPublished ?? false,
      identifiers: member?.identifiers ?? [],
    };
  }

  // ---------------------------------------------------------------------- the end of a member (D9.12)

  /**
   * What an ending session had from the group out of memory goes to others or is counted. Called after
   * `leave`, which may be long ago.
   */
  endedInMemory(entries: readonly WindowEntry[]): void {
    for (const { qos, state, offset, era, delivery: { message } } of entries) {
      if (state === "received" || state === "released") this.finishedInMemory(offset);
      else if (qos === 2 && state === "sent") {
        this.context.counters.shareDropped("member_ended");
        this.finishedInMemory(offset);
      } else if (offset === 0) this.offer(message, era === 1);
      else if (this.kept) this.backlog.lentReturns(offset);
      else {
        this.context.counters.shareDropped("no_member_left");
        this.finishedInMemory(offset);
      }
    }
    this.pump();
  }
}

/** What a member's ending session had of a group and gives back, to be stored with the ending. */
export interface Returning {
  readonly group: HandingGroup;
  readonly offset: Offset;
  readonly bytes: number;
}

/** What a session had from groups in its log window, as its ending sorts it (D9.12). */
export interface HandedAtEnd {
  /** QoS 1 unacknowledged, or queued for no connection: due again. */
  readonly returning: readonly Returning[];
  /** QoS 2 sent without a PUBREC: for no other member (MQTT-4.8.2-5). */
  readonly dropped: readonly Returning[];
  /** QoS 2 with a PUBREC: delivered. */
  readonly delivered: readonly Returning[];
}

export function handedAtEnd(window: LogWindow): HandedAtEnd {
  const returning: Returning[] = [];
  const dropped: Returning[] = [];
  const delivered: Returning[] = [];
  for (const { entry, group } of window.handed()) {
    const { state, qos, offset } = entry;
    const handed = { group, offset, bytes: recordSize(entry.delivery.message) };
    if (state === "storing" || (state === "sent" && qos === 1)) returning.push(handed);
    else if (state === "sent") dropped.push(handed);
    else delivered.push(handed);
  }
  return { returning, dropped, delivered };
}
