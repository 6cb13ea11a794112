import type { Clock } from "../../platform/clock.ts";
import {
  type GroupImage,
  type InFlight,
  type SessionImage,
  type SessionRecord,
  type SessionStore,
  StorageFailure,
  type Urgency,
  type WindowChange,
} from "../contract.ts";
import type { Offset } from "../record.ts";
import type { ByteCount } from "./byte_count.ts";
import { sessionCharge } from "./session_charge.ts";

interface Session {
  record: SessionRecord;
  bytes: number;
  cursor: Offset;
  /** By packet id, in the order they were put. */
  readonly inFlight: Map<number, InFlight>;
}

interface Group {
  cursor: Offset;
  readonly returned: Set<Offset>;
}

/**
 * Sessions and shared groups kept in process. Each write is one turn: whatever can refuse it is looked
 * at before anything changes (S101). A shared group is named by its filter, `$share` included.
 */
export class MemorySessionStore implements SessionStore {
  #sessions = new Map<string, Session>();
  #groups = new Map<string, Group>();
  /** Held subscriptions of each filter that may be a group's. */
  #members = new Map<string, number>();
  /** How many windows a log message is in: taken from the log for room only when in none (S109). */
  #onWire = new Map<Offset, number>();

  /** `logNext` is the next offset of the broadcast log: nothing points past it, or no start would load it. */
  constructor(
    private readonly count: ByteCount,
    private readonly clock: Clock,
    private readonly logNext: () => Offset,
  ) {}

  isOnWire(offset: Offset): boolean {
    return this.#onWire.has(offset);
  }

  /** What the sessions are charged in all. */
  bytes(): number {
    let bytes = 0;
    for (const session of this.#sessions.values()) bytes += session.bytes;
    return bytes;
  }

  load(): Promise<{
    readonly sessions: readonly SessionImage[];
    readonly groups: readonly GroupImage[];
  }> {
    const { sessions, groups } = this.copy();
    const now = this.clock.wall();
    // Whoever was connected when the last run ended is away from now on (S97).
    const away = sessions.map((image) =>
      image.record.awaySince === 0n
        ? { ...image, record: { ...image.record, awaySince: now } }
        : image
    );
    return Promise.resolve({ sessions: away, groups });
  }

  begin(
    record: SessionRecord,
    cursor: Offset,
    _urgency: Urgency,
    groups: readonly GroupImage[] = [],
  ): Promise<void> {
    if (cursor > this.logNext()) return aheadOfLog(record.clientId, cursor);
    const bytes = sessionCharge(record);
    const old = this.#sessions.get(record.clientId);
    const refusal = this.#charge(bytes - (old?.bytes ?? 0));
    if (refusal !== undefined) return refusal;
    if (old !== undefined) {
      this.#forget(old);
      this.#endGroupsLeftBy(old.record);
    }
    this.#keep({ record, bytes, cursor, inFlight: new Map() });
    for (const group of groups) this.#found(group);
    return Promise.resolve();
  }

  save(
    record: SessionRecord,
    _urgency: Urgency,
    groups?: { readonly found: readonly GroupImage[]; readonly end: readonly string[] },
  ): Promise<void> {
    const session = this.#sessions.get(record.clientId);
    if (session === undefined) return notHeld(record.clientId);
    const bytes = sessionCharge(record);
    const refusal = this.#charge(bytes - session.bytes);
    if (refusal !== undefined) return refusal;
    this.#countMembers(session.record, -1);
    // A client that came back with a smaller window still has on its wire what the larger one let out.
    const used = session.inFlight.size;
    session.record = record.window < used ? { ...record, window: used } : record;
    session.bytes = bytes;
    this.#countMembers(record, 1);
    for (const name of groups?.end ?? []) this.#groups.delete(name);
    for (const group of groups?.found ?? []) this.#found(group);
    return Promise.resolve();
  }

  end(
    clientId: string,
    _urgency: Urgency,
    groups?: {
      readonly end: readonly string[];
      readonly returned: readonly { readonly group: string; readonly offset: Offset }[];
    },
  ): Promise<void> {
    const session = this.#sessions.get(clientId);
    if (session !== undefined) {
      this.#forget(session);
      this.count.adjust(-session.bytes);
    }
    for (const { group, offset } of groups?.returned ?? []) {
      this.#groups.get(group)?.returned.add(offset);
    }
    for (const name of groups?.end ?? []) this.#groups.delete(name);
    return Promise.resolve();
  }

  change(change: WindowChange, _urgency: Urgency): Promise<void> {
    const session = this.#sessions.get(change.clientId);
    if (session === undefined) return notHeld(change.clientId);
    for (const { name } of change.groups ?? []) {
      if (!this.#groups.has(name)) return refused(`the shared group ${name} is not kept`);
    }
    const next = this.logNext();
    if (change.cursor !== undefined && change.cursor > next) {
      return aheadOfLog(change.clientId, change.cursor);
    }
    for (const { offset } of change.put) {
      if (offset >= next) return aheadOfLog(change.clientId, offset);
    }
    const dropped = change.drop.filter(({ packetId, offset }) =>
      session.inFlight.get(packetId)?.offset === offset
    );
    const freed = new Set(dropped.map(({ packetId }) => packetId));
    const added = change.put.filter(({ packetId }) =>
      !session.inFlight.has(packetId) || freed.has(packetId)
    );
    if (
      added.length > 0 &&
      session.inFlight.size - freed.size + added.length > session.record.window
    ) {
      return refused(`the window of session ${change.clientId} is full`);
    }
    for (const { packetId, offset } of dropped) {
      session.inFlight.delete(packetId);
      this.#offWire(offset);
    }
    for (const entry of change.put) {
      const replaced = session.inFlight.get(entry.packetId);
      if (replaced !== undefined) this.#offWire(replaced.offset);
      session.inFlight.set(entry.packetId, entry);
      this.#toWire(entry.offset);
    }
    if (change.cursor !== undefined) session.cursor = change.cursor;
    for (const { name, cursor } of change.groups ?? []) {
      const group = this.#groups.get(name)!;
      // Members' writes come in any order; a cursor that was further stays there.
      group.cursor = Math.max(group.cursor, cursor);
    }
    for (const { group, offset } of change.taken ?? []) {
      this.#groups.get(group)?.returned.delete(offset);
    }
    return Promise.resolve();
  }

  /** Nothing waits here, so nothing has to be moved ahead. */
  mark(_clientId: string): void {}
  unmark(_clientId: string): void {}

  /** A copy of everything, in this turn (S24). */
  copy(): { readonly sessions: readonly SessionImage[]; readonly groups: readonly GroupImage[] } {
    const sessions: SessionImage[] = [];
    for (const { record, cursor, inFlight } of this.#sessions.values()) {
      sessions.push({ record, cursor, inFlight: [...inFlight.values()] });
    }
    const groups: GroupImage[] = [];
    for (const [name, { cursor, returned }] of this.#groups) {
      groups.push({ name, cursor, returned: [...returned] });
    }
    return { sessions, groups };
  }

  /** Takes what a snapshot held; before anything else was stored. Charged without asking (S79). */
  restore(sessions: readonly SessionImage[], groups: readonly GroupImage[]): void {
    for (const { record, cursor, inFlight } of sessions) {
      const bytes = sessionCharge(record);
      const byId = new Map<number, InFlight>();
      for (const entry of inFlight) {
        byId.set(entry.packetId, entry);
        this.#toWire(entry.offset);
      }
      this.#keep({ record, bytes, cursor, inFlight: byId });
      this.count.adjust(bytes);
    }
    for (const group of groups) this.#found(group);
  }

  #charge(bytes: number): Promise<void> | undefined {
    if (this.count.charge(bytes)) return undefined;
    return Promise.reject(new StorageFailure("full", "the session provider is full"));
  }

  #keep(session: Session): void {
    this.#sessions.set(session.record.clientId, session);
    this.#countMembers(session.record, 1);
  }

  #forget(session: Session): void {
    this.#sessions.delete(session.record.clientId);
    this.#countMembers(session.record, -1);
    for (const { offset } of session.inFlight.values()) this.#offWire(offset);
  }

  #found(group: GroupImage): void {
    this.#groups.set(group.name, { cursor: group.cursor, returned: new Set(group.returned) });
  }

  /** Of each group, the sessions that outlive their connections: they alone hold it (D9.2). */
  #countMembers(record: SessionRecord, by: 1 | -1): void {
    if (record.expiry === 0) return;
    for (const { filter } of record.subscriptions) {
      if (!filter.startsWith("$share/")) continue;
      const members = (this.#members.get(filter) ?? 0) + by;
      if (members > 0) this.#members.set(filter, members);
      else this.#members.delete(filter);
    }
  }

  #endGroupsLeftBy(record: SessionRecord): void {
    for (const { filter } of record.subscriptions) {
      if (filter.startsWith("$share/") && !this.#members.has(filter)) this.#groups.delete(filter);
    }
  }

  #toWire(offset: Offset): void {
    this.#onWire.set(offset, (this.#onWire.get(offset) ?? 0) + 1);
  }

  #offWire(offset: Offset): void {
    const windows = this.#onWire.get(offset) ?? 0;
    if (windows > 1) this.#onWire.set(offset, windows - 1);
    else this.#onWire.delete(offset);
  }
}

function notHeld(clientId: string): Promise<never> {
  return refused(`the session of ${clientId} is not kept`);
}

function aheadOfLog(clientId: string, offset: Offset): Promise<never> {
  return refused(`session ${clientId} would point at ${offset}, which the broadcast log never had`);
}

function refused(message: string): Promise<never> {
  return Promise.reject(new StorageFailure("failed", message));
}
