import type { DatabaseSync, StatementSync } from "node:sqlite";
import {
  BROADCAST_LOG,
  type GroupImage,
  type InFlight,
  sessionReader,
  type SessionRecord,
  type StoredSubscription,
  type StoredWill,
  type WindowChange,
} from "../contract.ts";
import type { Offset } from "../record.ts";
import { decodeBase64, encodeBase64 } from "./base64.ts";
import type { Write } from "./messages.ts";
import { exact } from "./reads.ts";
import type { StoredChannels } from "./stored_channels.ts";
import { Refused } from "./refused.ts";

/** What a session's log cursor is kept with: positions are another part's statements. */
interface Positions {
  savePosition(
    channel: string,
    reader: string,
    offset: Offset,
    expiry: number,
    lastSeen: bigint,
  ): void;
  dropPosition(channel: string, reader: string): boolean;
}

type SessionWrite = Extract<
  Write,
  { op: "beginSession" | "saveSession" | "endSession" | "changeWindow" | "loadSessions" }
>;

/** What `loadSessions` answers with; records and cursors as `SessionStore.load` gives them out. */
export interface LoadedSessions {
  readonly sessions: {
    readonly record: SessionRecord;
    readonly cursor: Offset;
    readonly inFlight: InFlight[];
  }[];
  readonly groups: GroupImage[];
}

/** The statements over sessions, their in-flight tables and the shared groups (S97 to S101). */
export class SessionWrites {
  #select: StatementSync;
  #update: StatementSync;
  #insert: StatementSync;
  #delete: StatementSync;
  #selectWindow: StatementSync;
  #updateInFlight: StatementSync;
  #insertInFlight: StatementSync;
  #deleteInFlight: StatementSync;
  #deleteAllInFlight: StatementSync;
  #packetIsTaken: StatementSync;
  #deliveryIsThere: StatementSync;
  #cursorExpiry: StatementSync;
  #heldByOthers: StatementSync;
  #groupIsThere: StatementSync;
  #insertGroup: StatementSync;
  #updateGroup: StatementSync;
  #deleteGroup: StatementSync;
  #insertReturned: StatementSync;
  #returnedIsThere: StatementSync;
  #deleteReturned: StatementSync;
  #deleteAllReturned: StatementSync;

  constructor(
    private readonly database: DatabaseSync,
    private readonly channels: StoredChannels,
    private readonly positions: Positions,
  ) {
    const prepare = (sql: string) => database.prepare(sql);
    this.#select = prepare("SELECT subscriptions FROM sessions WHERE client = ?");
    // A client that came back with a smaller window still has on its wire what the larger one let out;
    // a table past its window would refuse the next start (S98).
    this.#update = prepare(
      "UPDATE sessions SET expiry = ?, away_since = ?, subscriptions = ?, window = max(?, " +
        "(SELECT count(*) FROM session_inflight WHERE client = sessions.client)), will = ?, " +
        "will_due = ? WHERE client = ?",
    );
    this.#insert = prepare(
      "INSERT INTO sessions (expiry, away_since, subscriptions, window, will, will_due, client) " +
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
    );
    this.#delete = prepare("DELETE FROM sessions WHERE client = ?");
    this.#selectWindow = prepare(
      "SELECT window, (SELECT count(*) FROM session_inflight WHERE client = ?1) AS used " +
        "FROM sessions WHERE client = ?1",
    );
    this.#updateInFlight = prepare(
      "UPDATE session_inflight SET offset = ?, qos = ?, state = ?, share_group = ? " +
        "WHERE client = ? AND packet = ?",
    );
    this.#insertInFlight = prepare(
      "INSERT INTO session_inflight (offset, qos, state, share_group, client, packet) " +
        "VALUES (?, ?, ?, ?, ?, ?)",
    );
    this.#deleteInFlight = prepare(
      "DELETE FROM session_inflight WHERE client = ? AND packet = ? AND offset = ?",
    );
    this.#deleteAllInFlight = prepare("DELETE FROM session_inflight WHERE client = ?");
    this.#packetIsTaken = prepare(
      "SELECT 1 FROM session_inflight WHERE client = ? AND packet = ?",
    );
    this.#deliveryIsThere = prepare(
      "SELECT 1 FROM session_inflight WHERE client = ? AND packet = ? AND offset = ?",
    );
    this.#cursorExpiry = prepare("SELECT expiry FROM sessions WHERE client = ?");
    // Read once for all groups of a session: there may be thousands of either.
    this.#heldByOthers = prepare(
      "SELECT DISTINCT subscription.value ->> 'filter' AS filter " +
        "FROM sessions, json_each(subscriptions) AS subscription WHERE client <> ? " +
        "AND expiry > 0 AND instr(subscriptions, '$share/') > 0 " +
        "AND subscription.value ->> 'filter' IN (SELECT value FROM json_each(?))",
    );
    this.#groupIsThere = prepare("SELECT 1 FROM share_groups WHERE name = ?");
    this.#insertGroup = prepare("INSERT INTO share_groups (name, cursor) VALUES (?, ?)");
    // Members' writes come in any order; a cursor that was further stays there.
    this.#updateGroup = prepare("UPDATE share_groups SET cursor = max(cursor, ?) WHERE name = ?");
    this.#deleteGroup = prepare("DELETE FROM share_groups WHERE name = ?");
    this.#insertReturned = prepare(
      "INSERT INTO share_returned (share_group, offset) VALUES (?, ?)",
    );
    this.#returnedIsThere = prepare(
      "SELECT 1 FROM share_returned WHERE share_group = ? AND offset = ?",
    );
    this.#deleteReturned = prepare(
      "DELETE FROM share_returned WHERE share_group = ? AND offset = ?",
    );
    this.#deleteAllReturned = prepare("DELETE FROM share_returned WHERE share_group = ?");
  }

  run(write: SessionWrite): unknown {
    switch (write.op) {
      case "beginSession":
        return this.#begin(write);
      case "saveSession":
        return this.#save(write);
      case "endSession":
        return this.#end(write);
      case "changeWindow":
        return this.#change(write.change, write.now);
      case "loadSessions":
        return this.#load(write.now);
      default:
        throw new Error(`unknown write ${JSON.stringify(write)}`);
    }
  }

  /** The old session's ending and the new one's record, one write (D6.5). */
  #begin({ record, cursor, groups, now }: Extract<SessionWrite, { op: "beginSession" }>): void {
    const { clientId } = record;
    const old = this.#select.get(clientId);
    this.#deleteAllInFlight.run(clientId);
    if (old === undefined) this.#insert.run(...sessionValues(record));
    else {
      this.#endLastMemberships(clientId, old.subscriptions as string);
      this.#update.run(...sessionValues(record));
    }
    for (const group of groups) this.#found(group);
    this.positions.savePosition(
      BROADCAST_LOG,
      sessionReader(clientId),
      cursor,
      record.expiry,
      now,
    );
  }

  /** Ends the groups whose last durable member a session was. */
  #endLastMemberships(clientId: string, subscriptions: string): void {
    if (!subscriptions.includes("$share/")) return;
    const groups = (JSON.parse(subscriptions) as StoredSubscription[])
      .map(({ filter }) => filter).filter((filter) => filter.startsWith("$share/"));
    const others = this.#heldByOthers.all(clientId, JSON.stringify(groups));
    const kept = new Set(others.map(({ filter }) => filter as string));
    for (const group of groups) if (!kept.has(group)) this.#endGroup(group);
  }

  #save({ record, found, end }: Extract<SessionWrite, { op: "saveSession" }>): void {
    const updated = this.#update.run(...sessionValues(record));
    if (Number(updated.changes) === 0) {
      throw new Refused(`session "${record.clientId}" is not held`);
    }
    for (const group of found) this.#found(group);
    for (const name of end) this.#endGroup(name);
  }

  #end({ clientId, end, returned }: Extract<SessionWrite, { op: "endSession" }>): void {
    this.#delete.run(clientId);
    this.#deleteAllInFlight.run(clientId);
    this.positions.dropPosition(BROADCAST_LOG, sessionReader(clientId));
    for (const { group, offset } of returned) {
      if (this.#returnedIsThere.get(group, offset) === undefined) {
        this.#insertReturned.run(group, offset);
      }
    }
    for (const name of end) this.#endGroup(name);
  }

  /** A group that is there keeps its cursor. */
  #found({ name, cursor, returned }: GroupImage): void {
    if (this.#groupIsThere.get(name) !== undefined) return;
    this.#insertGroup.run(name, cursor);
    for (const offset of returned) this.#insertReturned.run(name, offset);
  }

  #endGroup(name: string): void {
    this.#deleteAllReturned.run(name);
    this.#deleteGroup.run(name);
  }

  #change(change: WindowChange, now: bigint): void {
    const { clientId, put, drop, cursor } = change;
    const groups = change.groups ?? [];
    const taken = change.taken ?? [];
    this.#admit(change);
    for (const { packetId, offset } of drop) this.#deleteInFlight.run(clientId, packetId, offset);
    for (const row of put) {
      const values = [row.offset, row.qos, row.state, row.group || null, clientId, row.packetId];
      if (Number(this.#updateInFlight.run(...values).changes) === 0) {
        this.#insertInFlight.run(...values);
      }
    }
    if (cursor !== undefined) {
      const expiry = this.#cursorExpiry.get(clientId)!.expiry as number;
      this.positions.savePosition(BROADCAST_LOG, sessionReader(clientId), cursor, expiry, now);
    }
    for (const group of groups) this.#updateGroup.run(group.cursor, group.name);
    for (const { group, offset } of taken) this.#deleteReturned.run(group, offset);
  }

  /** Everything that can refuse a change, read before anything is written (S137). */
  #admit({ clientId, put, drop, groups, taken }: WindowChange): void {
    const held = this.#selectWindow.get(clientId) as unknown as
      | { window: number; used: number }
      | undefined;
    if (held === undefined) throw new Refused(`session "${clientId}" is not held`);
    if (put.length > 0 && held.used + put.length > held.window) {
      let used = held.used;
      for (const { packetId, offset } of drop) {
        if (this.#deliveryIsThere.get(clientId, packetId, offset) !== undefined) used--;
      }
      for (const { packetId } of put) {
        if (this.#packetIsTaken.get(clientId, packetId) === undefined) used++;
      }
      if (used > held.window) {
        throw new Refused(`the window of session "${clientId}" is full (${held.window})`);
      }
    }
    for (const { name } of groups ?? []) {
      if (this.#groupIsThere.get(name) === undefined) {
        throw new Refused(`shared group "${name}" has no cursor`);
      }
    }
    for (const { group, offset } of taken ?? []) {
      if (this.#returnedIsThere.get(group, offset) === undefined) {
        throw new Refused(`delivery ${offset} was not returned to shared group "${group}"`);
      }
    }
  }

  // -------------------------------------------------------------------------------- at the start

  /**
   * What is kept of sessions, after what a crash or another provider left half is put right (S42, S65,
   * S97, S98).
   */
  #load(now: bigint): LoadedSessions {
    const log = this.channels.named(BROADCAST_LOG);
    const run = (sql: string, ...values: (string | bigint | number)[]) =>
      this.database.prepare(sql).run(...values);
    const cursors = "SELECT reader FROM positions WHERE channel = ?";
    // A session without a cursor ended before that log was written.
    run(`DELETE FROM sessions WHERE 'mqtt:' || client NOT IN (${cursors})`, BROADCAST_LOG);
    run(
      "DELETE FROM positions WHERE channel = ? AND reader LIKE 'mqtt:%' " +
        "AND substr(reader, 6) NOT IN (SELECT client FROM sessions)",
      BROADCAST_LOG,
    );
    run("DELETE FROM session_inflight WHERE client NOT IN (SELECT client FROM sessions)");
    run("UPDATE sessions SET away_since = ? WHERE away_since = 0", now);
    this.#refuseImpossible(log?.next);
    run(
      "DELETE FROM session_inflight WHERE NOT EXISTS (SELECT 1 FROM records WHERE channel = ?1 " +
        "AND records.offset = session_inflight.offset) OR (share_group IS NULL AND offset < " +
        "(SELECT offset FROM positions WHERE channel = ?1 AND reader = 'mqtt:' || client))",
      BROADCAST_LOG,
    );
    return { sessions: this.#sessions(), groups: this.#groups() };
  }

  #refuseImpossible(logNext: Offset | undefined): void {
    const first = (sql: string, ...values: number[]) => this.database.prepare(sql).get(...values);
    const any = first("SELECT client FROM session_inflight LIMIT 1");
    if (any !== undefined && logNext === undefined) {
      throw new Refused(
        `holds messages in flight for session "${any.client}" and no broadcast log`,
      );
    }
    const ahead = first(
      "SELECT client, offset FROM session_inflight WHERE offset >= ? LIMIT 1",
      logNext ?? 0,
    );
    if (ahead !== undefined) {
      throw new Refused(
        `session "${ahead.client}" has message ${ahead.offset} in flight, which the broadcast log ` +
          `(next ${logNext}) never held`,
      );
    }
    const over = first(
      "SELECT client, window, count(*) AS used FROM session_inflight JOIN sessions USING (client) " +
        "GROUP BY client HAVING used > window LIMIT 1",
    );
    if (over !== undefined) {
      throw new Refused(
        `session "${over.client}" has ${over.used} messages in flight in a window of ${over.window}`,
      );
    }
  }

  #sessions(): LoadedSessions["sessions"] {
    const inFlight = new Map<string, InFlight[]>();
    const rows = this.database.prepare(
      "SELECT client, packet, offset, qos, state, share_group FROM session_inflight " +
        "ORDER BY client, offset, packet",
    );
    for (const row of rows.iterate()) {
      const client = row.client as string;
      let list = inFlight.get(client);
      if (list === undefined) inFlight.set(client, list = []);
      list.push({
        packetId: row.packet as number,
        offset: exact(row.offset),
        qos: row.qos as 1 | 2,
        state: row.state as InFlight["state"],
        group: row.share_group as string | null ?? "",
      });
    }
    const select = this.database.prepare(
      "SELECT client, sessions.expiry AS expiry, away_since, subscriptions, window, will, " +
        "will_due, offset FROM sessions JOIN positions " +
        "ON channel = ? AND reader = 'mqtt:' || client",
    );
    select.setReadBigInts(true);
    const sessions: LoadedSessions["sessions"] = [];
    for (const row of select.iterate(BROADCAST_LOG)) {
      const clientId = row.client as string;
      const record: SessionRecord = {
        clientId,
        expiry: Number(row.expiry),
        awaySince: row.away_since as bigint,
        subscriptions: JSON.parse(row.subscriptions as string),
        will: parseWill(row.will as string | null),
        willDue: row.will_due as bigint,
        window: Number(row.window),
      };
      sessions.push({ record, cursor: exact(row.offset), inFlight: inFlight.get(clientId) ?? [] });
    }
    return sessions;
  }

  #groups(): GroupImage[] {
    const returned = new Map<string, Offset[]>();
    const rows = this.database.prepare(
      "SELECT share_group, offset FROM share_returned ORDER BY share_group, offset",
    );
    for (const row of rows.iterate()) {
      const name = row.share_group as string;
      let list = returned.get(name);
      if (list === undefined) returned.set(name, list = []);
      list.push(exact(row.offset));
    }
    const groups = this.database.prepare("SELECT name, cursor FROM share_groups ORDER BY name");
    return groups.all().map((row) => ({
      name: row.name as string,
      cursor: exact(row.cursor),
      returned: returned.get(row.name as string) ?? [],
    }));
  }
}

function sessionValues(record: SessionRecord): (string | number | bigint | null)[] {
  return [
    record.expiry,
    record.awaySince,
    JSON.stringify(record.subscriptions),
    record.window,
    record.will === undefined ? null : willText(record.will),
    record.willDue,
    record.clientId,
  ];
}

function willText(will: StoredWill): string {
  const { correlationData } = will.properties;
  return JSON.stringify({
    ...will,
    payload: encodeBase64(will.payload),
    properties: correlationData === undefined
      ? will.properties
      : { ...will.properties, correlationData: encodeBase64(correlationData) },
  });
}

function parseWill(text: string | null): StoredWill | undefined {
  if (text === null) return undefined;
  const will = JSON.parse(text);
  const { correlationData } = will.properties;
  return {
    ...will,
    payload: decodeBase64(will.payload),
    properties: correlationData === undefined
      ? will.properties
      : { ...will.properties, correlationData: decodeBase64(correlationData) },
  };
}
