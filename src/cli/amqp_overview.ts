/** The part of the overview that AMQP has, there only where it is configured. */
import type { Amqp } from "../amqp/amqp.ts";
import type { AmqpQueue } from "../amqp/queues/queue.ts";
import { MOST_ROWS } from "../operations/v1/rows.ts";
import { FirstFew } from "../storage/first_few.ts";

/** Connections, and the queues in which most messages are, a hundred at most (05 section 6). */
export function amqpOverview({ host }: Amqp) {
  const { counters, queues } = host;
  const fullest = new FirstFew<AmqpQueue>(MOST_ROWS, (a, b) => held(b) - held(a));
  for (const queue of queues.values()) fullest.add(queue);
  const rows = fullest.values().map((queue) => ({
    queue: queue.name,
    stored: queue.stored,
    ready: queue.messageCount,
    unacked: queue.unackedCount,
    consumers: queue.consumerCount,
    dropped: queue.dropped,
  }));
  return {
    connections: counters.connections,
    channels: counters.channels,
    published: counters.published,
    queues: rows,
    queues_total: queues.size,
    returned: rows.length,
  };
}

function held(queue: AmqpQueue): number {
  return queue.messageCount + queue.unackedCount;
}
