import type { Channel } from "../../broker/routes.ts";
import type { AppendChannel } from "../../broker/channels/append.ts";
import { type HttpResponse, jsonResponse } from "../http/message.ts";
import { MOST_ROWS, timestamp } from "./rows.ts";

/** `consumers`: every append channel with its stored positions, the furthest behind first (05 7.3). */
export async function consumers(channels: readonly Channel[]): Promise<HttpResponse> {
  const rows = [];
  for (const channel of channels) {
    if (channel.kind === "append") rows.push(await ofChannel(channel));
  }
  rows.sort((a, b) => a.channel < b.channel ? -1 : 1);
  return jsonResponse(200, { channels: rows });
}

async function ofChannel({ name, store }: AppendChannel) {
  // Nothing is read of a channel that nobody has a position in.
  const stored = store.positionCount() === 0 ? [] : await store.lowestPositions(MOST_ROWS);
  const next = store.next();
  return {
    channel: name,
    next_offset: next,
    consumers: store.positionCount(),
    returned: stored.length,
    positions: stored.map(({ reader, offset, lastSeen }) => ({
      reader,
      offset,
      behind: next - offset,
      last_seen: timestamp(lastSeen),
    })),
  };
}
