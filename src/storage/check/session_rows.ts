import type { DatabaseSync, SQLInputValue } from "node:sqlite";
import { BROADCAST_LOG } from "../contract.ts";
import type { Offset } from "../record.ts";
import { type CheckReport, Findings } from "./report.ts";

const WINDOW_MAX = 65_535;

/**
 * The tables of sessions and shared groups against each other and the broadcast log (S42, S97 to S101).
 *
 * @param next of the log; undefined when this database has none
 * @return how many sessions there are
 */
export function checkSessionRows(
  database: DatabaseSync,
  next: Offset | undefined,
  report: CheckReport,
): number {
  const sessions = new Findings(report, "sessions");
  const groups = new Findings(report, "shared groups");
  const each = (sql: string, found: (row: Record<string, unknown>) => void) => {
    const values: SQLInputValue[] = sql.includes("?1") ? [BROADCAST_LOG] : [];
    for (const row of database.prepare(sql).iterate(...values)) found(row);
  };
  let count = 0;
  each(
    "SELECT client, window, json_valid(subscriptions) AS readable, " +
      "will IS NULL OR json_valid(will) AS readableWill FROM sessions",
    ({ client, window, readable, readableWill }) => {
      count++;
      if (!readable) sessions.add("have damaged subscriptions", `${client}`);
      if (!readableWill) sessions.add("have a damaged Will", `${client}`);
      if ((window as number) < 1 || (window as number) > WINDOW_MAX) {
        sessions.add("have an impossible window", `${client}, ${window}`);
      }
    },
  );
  each(
    "SELECT client FROM sessions WHERE NOT EXISTS (SELECT 1 FROM positions " +
      "WHERE channel = ?1 AND reader = 'mqtt:' || client)",
    ({ client }) => sessions.add("have no cursor in the broadcast log", `${client}`),
  );
  each(
    "SELECT reader FROM positions WHERE channel = ?1 AND reader LIKE 'mqtt:%' " +
      "AND substr(reader, 6) NOT IN (SELECT client FROM sessions)",
    ({ reader }) => sessions.add("have left a cursor in the broadcast log", `${reader}`),
  );
  each(
    "SELECT client, packet FROM session_inflight " +
      "WHERE client NOT IN (SELECT client FROM sessions)",
    ({ client, packet }) => sessions.add("have left messages in flight", `${packet} of ${client}`),
  );
  each(
    "SELECT client, window, count(*) AS used FROM session_inflight JOIN sessions USING (client) " +
      "GROUP BY client HAVING used > window",
    ({ client, window, used }) =>
      sessions.add("have more in flight than their window", `${client}, ${used} of ${window}`),
  );
  each(
    "SELECT client, packet, session_inflight.offset AS offset, qos, state, share_group, " +
      "positions.offset AS cursor, EXISTS (SELECT 1 FROM records WHERE channel = ?1 " +
      "AND records.offset = session_inflight.offset) AS held FROM session_inflight " +
      "LEFT JOIN positions ON channel = ?1 AND reader = 'mqtt:' || client",
    (row) => checkInFlight(row as unknown as InFlightRow, next, sessions),
  );
  each(
    "SELECT client, offset FROM session_inflight GROUP BY client, offset HAVING count(*) > 1",
    ({ client, offset }) =>
      sessions.add("have a message in flight twice", `${offset} of ${client}`),
  );
  each("SELECT name, cursor FROM share_groups", ({ name, cursor }) => {
    if ((cursor as number) < 1 || (cursor as number) > (next ?? 1)) {
      groups.add("have a cursor past the broadcast log", `${name} at ${cursor}`);
    }
  });
  each(
    "SELECT name FROM share_groups WHERE NOT EXISTS (SELECT 1 FROM sessions, " +
      "json_each(CASE WHEN json_valid(subscriptions) THEN subscriptions ELSE '[]' END) AS member " +
      "WHERE member.value ->> 'filter' = share_groups.name)",
    ({ name }) => groups.add("have no member", `${name}`),
  );
  each(
    "SELECT share_group, offset FROM share_returned",
    ({ share_group, offset }) => {
      if ((offset as number) < 1 || (offset as number) >= (next ?? 1)) {
        groups.add("were returned what never was in the log", `${offset} to ${share_group}`);
      }
    },
  );
  each(
    "SELECT share_group, offset FROM share_returned " +
      "WHERE share_group NOT IN (SELECT name FROM share_groups)",
    ({ share_group, offset }) =>
      groups.add("that are gone were returned messages", `${offset} to ${share_group}`),
  );
  sessions.end();
  groups.end();
  return count;
}

interface InFlightRow {
  readonly client: string;
  readonly packet: number;
  readonly offset: Offset;
  readonly qos: number;
  readonly state: string;
  readonly share_group: string | null;
  readonly cursor: Offset | null;
  readonly held: 0 | 1;
}

function checkInFlight(row: InFlightRow, next: Offset | undefined, sessions: Findings): void {
  const { client, packet, offset, qos, state, cursor } = row;
  const which = `packet ${packet} of ${client}, offset ${offset}`;
  if (packet < 1 || packet > 65_535 || (qos !== 1 && qos !== 2)) {
    sessions.add("have an impossible message in flight", `${which}, QoS ${qos}`);
  }
  if (state !== "sent" && state !== "received") {
    sessions.add("have a message in flight in no known state", `${which}, ${state}`);
  }
  if (next === undefined || offset >= next) {
    sessions.add(
      "have in flight what the log never held",
      `${which}, log's next ${next ?? "none"}`,
    );
  } else if (row.held === 0) {
    sessions.add("have in flight what the log no longer holds", which);
  }
  // What a group handed over is behind the group's cursor, not the session's.
  if (cursor !== null && row.share_group === null && offset < cursor) {
    sessions.add("have in flight what they acknowledged", `${which}, cursor ${cursor}`);
  }
}
