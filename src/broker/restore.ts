import { NANOSECONDS_PER_MS } from "../platform/clock.ts";
import type { GroupImage, SessionImage, SessionStore } from "../storage/contract.ts";
import { type Offset, recordSize, type StoredRecord } from "../storage/record.ts";
import { matches } from "../topics/filter.ts";
import { inSlices } from "../topics/partition.ts";
import type { Context } from "./context.ts";
import type { SessionDropCause } from "./counters.ts";
import { channelLabels } from "./delivery.ts";
import { LogReader } from "./log_reader.ts";
import { LOG_ENTRY_BYTES } from "./log_window.ts";
import type { Parts } from "./parts.ts";
import type { Session } from "./session.ts";
import type { Sessions } from "./sessions.ts";
import type { ShareGroup } from "./share/group.ts";
import { ENTRY_BYTES, type WindowEntry } from "./window.ts";

const READ_RECORDS = 512;
const READ_BYTES = 4 * 1024 * 1024;

/** A client id that nobody has: what is written under it concerns no session. */
const NO_SESSION = "";

interface Restored {
  readonly session: Session;
  readonly image: SessionImage;
  readonly inFlight: ReadonlyMap<Offset, readonly SessionImage["inFlight"][number][]>;
}

interface RestoredGroup {
  readonly group: ShareGroup;
  readonly image: GroupImage;
  readonly returned: ReadonlySet<Offset>;
}

/** Brings sessions, shared groups and what the log owes them back, once, before a door opens. */
export class Restoration {
  readonly #sessions: Restored[] = [];
  readonly #groups: RestoredGroup[] = [];

  constructor(
    private readonly context: Context,
    private readonly store: SessionStore,
    private readonly sessions: Sessions,
    private readonly parts: Parts,
  ) {}

  async load(): Promise<void> {
    const before = this.context.clock.wall();
    const { sessions, groups } = await this.store.load();
    this.parts.shares.restore(groups);
    // Whoever was connected when the broker was killed is away from this load on (S97).
    for (const image of sessions) this.#restoreSession(image, image.record.awaySince >= before);
    for (const image of groups) {
      const group = this.parts.shares.get(image.name);
      if (group === undefined) continue;
      this.#groups.push({ group, image, returned: new Set(image.returned) });
    }
    await this.#readLog();
  }

  /** `cut`: it was connected, so what it is owed may have been sent and not stored as that. */
  #restoreSession(image: SessionImage, cut: boolean): void {
    const { record } = image;
    const session = this.sessions.registry.make(record.clientId, record.will?.user ?? "");
    session.expiry = record.expiry;
    session.awaySince = record.awaySince;
    session.will = record.will;
    session.willDue = record.willDue;
    session.window.receiveMaximum = record.window;
    session.joined = false;
    session.stored = true;
    const { log } = this.parts;
    session.log = new LogReader(session, log, image.cursor, cut ? log.store.next() : 0);
    this.sessions.registry.hold(session);
    for (const subscription of record.subscriptions) {
      this.parts.subscriptions.restore(session, subscription);
    }
    const inFlight = new Map<Offset, SessionImage["inFlight"][number][]>();
    for (const row of image.inFlight) {
      const rows = inFlight.get(row.offset);
      if (rows === undefined) inFlight.set(row.offset, [row]);
      else rows.push(row);
    }
    this.#sessions.push({ session, image, inFlight });
  }

  // ------------------------------------------------------------------------------------------- log

  /**
   * Counts who is owed what of the broadcast log (D5.19): every session that came back, and every
   * group, is owed what its filters matched when it was published, beyond its cursor; what was on a
   * wire goes again under its packet identifiers.
   */
  async #readLog(): Promise<void> {
    const { log } = this.parts;
    const { store } = log;
    for (let from = store.floor(); from < store.next();) {
      const window = await store.readFrom(from, READ_RECORDS, READ_BYTES);
      if (window.belowFloor) {
        from = window.floor;
        continue;
      }
      if (window.records.length === 0) break;
      for (const record of window.records) {
        log.restore(record.offset, this.#owers(record));
        from = record.offset + 1;
      }
    }
  }

  #owers(record: StoredRecord): number {
    let owers = 0;
    const entry = { offset: record.offset, bytes: recordSize(record.message) };
    const out = new Set<string>();
    for (const restored of this.#sessions) {
      const rows = restored.inFlight.get(record.offset) ?? [];
      for (const row of rows) {
        this.#onWire(restored.session, record, row);
        if (row.group !== "") out.add(row.group);
        owers++;
      }
      if (rows.some(({ group }) => group === "") || !owed(restored, record)) continue;
      restored.session.log!.restore(entry);
      owers++;
    }
    for (const restored of this.#groups) {
      if (!out.has(restored.group.name) && this.#groupOwed(restored, record)) owers++;
    }
    return owers;
  }

  #onWire(session: Session, record: StoredRecord, row: SessionImage["inFlight"][number]): void {
    const { message, offset } = record;
    const { window } = session.log!;
    const entry: WindowEntry = {
      packetId: row.packetId,
      qos: row.qos,
      state: row.state === "received" ? "released" : "sent",
      onWire: false,
      dup: true,
      source: window,
      offset,
      era: 0,
      bytes: recordSize(message) + LOG_ENTRY_BYTES + ENTRY_BYTES,
      order: 0,
      older: undefined,
      newer: undefined,
      delivery: {
        message,
        qos: row.qos,
        retain: false,
        identifiers: [],
        // A channel's record keeps its identity through the log (invariant 8).
        labels: message.groupCopy
          ? channelLabels({ offset: 0, message }, undefined, undefined)
          : [],
        expiry: undefined,
      },
    };
    session.window.add(entry);
    window.restore(entry, row.group === "" ? undefined : this.parts.shares.heir(row.group));
  }

  #groupOwed({ group, image, returned }: RestoredGroup, { offset, message }: StoredRecord) {
    const bytes = recordSize(message);
    const since = this.context.clock.monotonic() - this.#ageMs(message.timestamp);
    if (returned.has(offset)) group.backlog.giveBack(offset, bytes, since);
    else if (
      offset >= image.cursor && message.qos > 0 && message.onlyFor === "" &&
      matches(group.filter, message.topic)
    ) group.backlog.owe({ offset, bytes }, since);
    else return false;
    return true;
  }

  #ageMs(timestamp: bigint): number {
    if (timestamp === 0n) return 0;
    return Math.max(0, Number((this.context.clock.wall() - timestamp) / NANOSECONDS_PER_MS));
  }

  // --------------------------------------------------------------------------------------- settling

  /** Ends what expired while the broker was stopped, or is refused now; arms the clocks of the rest. */
  async settle(): Promise<void> {
    const { departures } = this.sessions;
    const now = this.context.clock.wall();
    for (const { session } of this.#sessions) {
      const awayMs = Math.max(0, Number((now - session.awaySince) / NANOSECONDS_PER_MS));
      const leftMs = session.expiry * 1_000 - awayMs;
      const cause = this.#endCause(session, leftMs);
      if (cause !== undefined) {
        // A Will without a due moment is dropped unannounced (D19.16).
        if (session.willDue === 0n) this.parts.wills.discard(session);
        this.context.counters.sessionsDropped.add(cause);
        await this.sessions.endings.end(session, "start");
        continue;
      }
      this.context.counters.sessionsRestored++;
      departures.armExpiry(session, leftMs);
      if (session.will === undefined || session.willDue === 0n) continue;
      const waitMs = Number((session.willDue - now) / NANOSECONDS_PER_MS);
      if (waitMs > 0) departures.waitWill(session, waitMs);
      else await departures.fireWill(session, "start");
    }
    await this.#endGroups();
  }

  #endCause(session: Session, leftMs: number): SessionDropCause | undefined {
    if (leftMs <= 0) return "expired_while_stopped";
    for (const subscription of session.subscriptions.values()) {
      const refusal = this.parts.subscriptions.refusalNow(session, subscription);
      if (refusal === undefined) continue;
      this.context.log.warn("ended a session that holds a subscription refused now", {
        client: session.clientId,
        filter: subscription.filter,
        reason: refusal.reason,
      });
      return "subscription_refused";
    }
    return undefined;
  }

  /** Groups that no session holds any more (D6.22). */
  async #endGroups(): Promise<void> {
    const { shares } = this.parts;
    const end = shares.memberless();
    if (end.length === 0) return;
    await this.store.end(NO_SESSION, "departed", { end, returned: [] });
    shares.ended(end);
  }
}

/** True when the session is owed the record beyond its wire. */
function owed({ session, image }: Restored, { offset, message }: StoredRecord): boolean {
  if (offset < image.cursor || message.groupCopy) return false;
  if (message.onlyFor !== "") return message.onlyFor === session.clientId;
  if (message.qos === 0) return false;
  return image.record.subscriptions.some((subscription) =>
    subscription.qos > 0 && subscription.logOffset <= offset &&
    !(subscription.noLocal && message.clientId === session.clientId) &&
    matches(subscription.filter, message.topic) && inSlices(subscription.partitions, message.topic)
  );
}
