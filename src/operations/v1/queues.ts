import type { QueueChannel } from "../../broker/channels/queue.ts";
import type { Held } from "../../broker/channels/queue_worker.ts";
import { type Clock, fromMilliseconds } from "../../platform/clock.ts";
import type { JobSketch } from "../../storage/contract.ts";
import { type HttpResponse, jsonResponse } from "../http/message.ts";
import { MOST_ROWS, timestamp } from "./rows.ts";

/** `queues/<channel>`: unresolved jobs, most attempts first, then the oldest (05 7.5, 16). */
export async function queue(channel: QueueChannel, clock: Clock): Promise<HttpResponse> {
  const jobs = await channel.store.worst(MOST_ROWS);
  const held = new Map<number, Held>();
  for (const each of channel.held) held.set(each.offer.offset, each);
  return jsonResponse(200, {
    channel: channel.name,
    unresolved: channel.store.depth(),
    returned: jobs.length,
    records: jobs.map((job) => row(job, held.get(job.offset), clock)),
  });
}

function row(job: JobSketch, held: Held | undefined, clock: Clock) {
  const { offset, topic, attempts, storedAt, lastDelivered } = job;
  return {
    offset,
    topic,
    attempts,
    ...whereabouts(held, clock),
    first_seen: timestamp(storedAt),
    last_seen: timestamp(lastDelivered === 0n ? storedAt : lastDelivered),
  };
}

function whereabouts(held: Held | undefined, clock: Clock) {
  if (held === undefined) return { state: "waiting" };
  // Sent, and no PUBACK yet: the visibility timeout has not begun.
  if (!held.acknowledged) return { state: "delivering" };
  const left = fromMilliseconds(held.until - clock.monotonic());
  return {
    state: "leased",
    holder: held.worker.holder,
    lease_until: timestamp(clock.wall() + left),
  };
}
