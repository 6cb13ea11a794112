import { sessionReader, type SessionStore, StorageFailure } from "../storage/contract.ts";
import type { AppendChannel } from "./channels/append.ts";
import type { Context } from "./context.ts";
import type { WillCause } from "./counters.ts";
import type { Parts } from "./parts.ts";
import type { SessionRegistry } from "./registry.ts";
import { Remains } from "./remains.ts";
import type { Session } from "./session.ts";
import { type HandedAtEnd, handedAtEnd, type Returning } from "./share/group.ts";
import { Member } from "./share/member.ts";
import type { WindowEntry } from "./window.ts";

const NOTHING_HANDED: HandedAtEnd = { returning: [], dropped: [], delivered: [] };

/** What of an ended session is still to be written, and what it had from shared groups. */
interface Retired {
  readonly session: Session;
  /** Resolves once its Will is stored, or refused. */
  readonly will: Promise<void>;
  readonly groups: readonly string[];
  readonly handed: HandedAtEnd;
}

/** The one way a session ends (D6.10): its Will first, then everything kept for it. */
export class Endings {
  readonly remains: Remains;

  constructor(
    private readonly context: Context,
    private readonly store: SessionStore,
    private readonly registry: SessionRegistry,
    private readonly parts: Parts,
  ) {
    this.remains = new Remains(context);
  }

  /**
   * Ends a session and removes its record. In this turn it stops being anything; resolves when the
   * stores were told, true when all of them took it.
   */
  end(session: Session, cause: WillCause = "session_ended"): Promise<boolean> {
    if (session.ended) return Promise.resolve(true);
    const channels = session.stored ? this.parts.appendChannels : [];
    const retired = this.#retire(session, cause);
    const writes = this.#remainsOf(session, channels);
    if (session.stored) writes.push(() => this.#endRecord(retired));
    else this.#finishGroups(retired, []);
    return this.remains.leave(session.clientId, writes);
  }

  /**
   * Ends a session whose record a new one has replaced already. `channels`: those in which its
   * position goes too. `rows`: returns to groups that were stored beforehand.
   */
  replaced(
    session: Session,
    channels: readonly AppendChannel[],
    rows: readonly Returning[],
  ): Promise<boolean> {
    const retired = this.#retire(session, "session_ended");
    const writes = this.#remainsOf(session, session.stored ? channels : []);
    // Its record is gone, and with it the groups it was the last member of.
    const ended = this.parts.shares.lastOf(session, retired.groups);
    this.#finishGroups(retired, ended, rows);
    return this.remains.leave(session.clientId, writes);
  }

  /** What must happen in one turn: nothing is delivered to it, published for it or owed to it. */
  #retire(session: Session, cause: WillCause): Retired {
    session.ended = true;
    this.registry.release(session);
    session.expiryTimer?.cancel();
    const will = this.parts.wills.publish(session, cause);
    const { groups, inMemory } = this.#leaveGroups(session);
    const handed = session.log === undefined ? NOTHING_HANDED : handedAtEnd(session.log.window);
    this.parts.subscriptions.leaveAll(session);
    for (const channel of this.parts.appendChannels) channel.leave(session);
    session.log?.close();
    for (const [member, entries] of inMemory) member.ended(entries);
    return { session, will, groups, handed };
  }

  /**
   * Out of every group, so that none of them chooses it for what it gives back. That includes what it has
   * on its wire of groups that it left before by UNSUBSCRIBE.
   */
  #leaveGroups(session: Session) {
    const groups: string[] = [];
    for (const filter of session.subscriptions.keys()) {
      const member = this.parts.shares.get(filter)?.member(session);
      if (member === undefined) continue;
      groups.push(filter);
      member.leave();
    }
    const inMemory = new Map<Member, WindowEntry[]>();
    for (const entry of session.window.entries()) {
      if (!(entry.source instanceof Member)) continue;
      const entries = inMemory.get(entry.source);
      if (entries === undefined) inMemory.set(entry.source, [entry]);
      else entries.push(entry);
    }
    return { groups, inMemory };
  }

  #remainsOf(session: Session, channels: readonly AppendChannel[]): (() => Promise<void>)[] {
    const reader = sessionReader(session.clientId);
    const writes = channels.map(({ store }) => async () => {
      await store.dropPosition(reader, "departed");
    });
    return [...writes, ...this.parts.exactlyOnce.sessionEnded(session)];
  }

  // --------------------------------------------------------------------------------- shared groups

  /** The record, the window, the cursors of groups it was the last of, what it gives back (S101). */
  async #endRecord(retired: Retired): Promise<void> {
    const { session, will, groups, handed } = retired;
    const { shares } = this.parts;
    // Published before the record goes (D19.10).
    await will;
    const release = await shares.lock(groups);
    try {
      const end = shares.lastOf(session, groups);
      const returning = handed.returning.filter(({ group }) => !end.includes(group.name));
      const stored = await this.#storeEnd(session.clientId, end, returning);
      this.#finishGroups(retired, end, stored);
    } finally {
      release();
    }
  }

  /** Which returns were stored: all, or none where there was no room for them even in the reserve. */
  async #storeEnd(
    clientId: string,
    end: readonly string[],
    returning: readonly Returning[],
  ): Promise<readonly Returning[]> {
    const returned = returning.filter(({ group }) => group.kept)
      .map(({ group, offset }) => ({ group: group.name, offset }));
    try {
      await this.store.end(clientId, "departed", { end, returned });
      return returning;
    } catch (error) {
      if (!(error instanceof StorageFailure) || error.kind !== "full") throw error;
      if (returned.length === 0) throw error;
      await this.store.end(clientId, "departed", { end, returned: [] });
      return [];
    }
  }

  /** `rows`: what the store has returns of. */
  #finishGroups(
    { session, groups, handed }: Retired,
    ended: readonly string[],
    rows: readonly Returning[] = [],
  ): void {
    const { shares } = this.parts;
    const { counters } = this.context;
    const stored = new Set(rows.map(key));
    for (const returning of handed.returning) {
      const { group, offset, bytes } = returning;
      if (
        group.kept && group.size > 0 && !ended.includes(group.name) && stored.delete(key(returning))
      ) {
        group.giveBack(offset, bytes);
        continue;
      }
      counters.shareDropped(group.size > 0 && group.kept ? "storage_full" : "no_member_left");
      group.finished(offset);
    }
    for (const row of rows) if (stored.has(key(row))) row.group.rowStale(row.offset);
    for (const { group, offset } of handed.dropped) {
      counters.shareDropped("member_ended");
      group.finished(offset);
    }
    for (const { group, offset } of handed.delivered) group.finished(offset);
    session.log?.window.letGo();
    shares.ended(ended);
    for (const name of groups) shares.leave(session, name);
  }
}

function key({ group, offset }: Returning): string {
  return `${offset} ${group.name}`;
}
