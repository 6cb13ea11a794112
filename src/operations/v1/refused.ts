import type { RefusedClient, RefusedClients } from "../../broker/refusals.ts";
import { FirstFew } from "../../storage/first_few.ts";
import { type HttpResponse, jsonResponse } from "../http/message.ts";
import { MOST_ROWS, timestamp } from "./rows.ts";

/** `refused`: clients that were refused, most often first (05 7.6). */
export function refused(clients: RefusedClients): HttpResponse {
  const most = new FirstFew<RefusedClient>(MOST_ROWS, (a, b) => b.count - a.count);
  for (const client of clients.values()) most.add(client);
  const rows = most.values().map(({ clientId, user, reason, count, lastSeen }) => ({
    client_id: clientId,
    user,
    reason,
    count,
    last_seen: timestamp(lastSeen),
  }));
  return jsonResponse(200, {
    clients: rows,
    returned: rows.length,
    tracked: clients.size,
    beyond: clients.beyond,
  });
}
