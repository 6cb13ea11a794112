import type { Loss, PositionLosses } from "../../broker/losses.ts";
import { FirstFew } from "../../storage/first_few.ts";
import { type HttpResponse, jsonResponse } from "../http/message.ts";
import { MOST_ROWS, timestamp } from "./rows.ts";

/** `position-lost`: readers that retention passed, those that lost most first (05 7.4). */
export function positionLost(losses: PositionLosses): HttpResponse {
  const most = new FirstFew<Loss>(MOST_ROWS, (a, b) => b.recordsMissed - a.recordsMissed);
  for (const loss of losses.values()) most.add(loss);
  const rows = most.values().map((loss) => ({
    reader: loss.reader,
    channel: loss.channel,
    kind: loss.kind,
    reported: loss.reported,
    count: loss.count,
    records_missed: loss.recordsMissed,
    last_position: loss.lastPosition,
    last_floor: loss.lastFloor,
    last_seen: timestamp(loss.lastSeen),
  }));
  return jsonResponse(200, {
    readers: rows,
    returned: rows.length,
    tracked: losses.size,
    beyond: losses.beyond,
  });
}
