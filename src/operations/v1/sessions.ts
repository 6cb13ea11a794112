import type { Session } from "../../broker/session.ts";
import { FirstFew } from "../../storage/first_few.ts";
import { type HttpResponse, jsonResponse } from "../http/message.ts";
import { MOST_ROWS } from "./rows.ts";

/** `sessions`: those without a connection first, and of those who is away for longest (05 7.7). */
export function sessions(held: Iterable<Session>): HttpResponse {
  const first = new FirstFew<Session>(MOST_ROWS, inOrder);
  let total = 0;
  let connected = 0;
  for (const session of held) {
    total++;
    if (session.link !== undefined) connected++;
    first.add(session);
  }
  const rows = first.values().map(row);
  return jsonResponse(200, {
    sessions: rows,
    total,
    connected,
    offline: total - connected,
    returned: rows.length,
  });
}

function inOrder(a: Session, b: Session): number {
  const away = (session: Session) => session.link === undefined ? 0 : 1;
  if (away(a) !== away(b)) return away(a) - away(b);
  if (a.awaySince !== b.awaySince) return a.awaySince < b.awaySince ? -1 : 1;
  return a.clientId < b.clientId ? -1 : 1;
}

function row(session: Session) {
  const { clientId, user, level, expiry, subscriptions, lastConnection } = session;
  const slices = [];
  if (session.partitioned > 0) {
    for (const { filter, partitions } of subscriptions.values()) {
      if (partitions !== undefined) slices.push({ filter, ...partitions });
    }
  }
  return {
    client_id: clientId,
    connected: session.link !== undefined,
    user,
    // A store keeps no protocol: of a session that came back and was not seen since, nobody knows it.
    protocol: lastConnection.listener === "" ? 0 : level,
    listener: lastConnection.listener,
    remote: lastConnection.address,
    keepalive: lastConnection.keepAlive,
    expires_after: expiry,
    clean_start: lastConnection.cleanStart,
    subscriptions: subscriptions.size,
    ...slices.length === 0 ? {} : { partitions: slices },
  };
}
