/** Metrics of the AMQP door, there only where it is configured (07 C6). */
import type { Amqp } from "../amqp/amqp.ts";
import type { AmqpQueue } from "../amqp/queues/queue.ts";
import type { Family } from "../operations/metrics/exposition.ts";
import { addSorted, type Scrape, single, type Type } from "../operations/metrics/family.ts";

export function amqpFamilies({ host }: Amqp): readonly Family<Scrape>[] {
  const { counters } = host;
  const figure = (name: string, type: Type, help: string, value: () => number) =>
    single(`saguin_amqp_${name}`, type, help, value);
  // A queue that is stored has its own series; those that come and go with clients share one, whose
  // label is empty (05 10.2).
  const perQueue = (
    name: string,
    type: Type,
    label: string,
    help: string,
    values: readonly (readonly [label: string, value: (queue: AmqpQueue) => number])[],
    ofGone = () => 0,
  ): Family<Scrape> => ({
    name: `saguin_amqp_${name}`,
    type,
    labels: ["queue", label],
    help,
    samples: (_scrape, add) => {
      const queues = [...host.queues.values()];
      const passing = queues.filter(({ stored }) => !stored);
      for (const [label, value] of values) {
        add(passing.reduce((sum, queue) => sum + value(queue), ofGone()), "", label);
      }
      const stored = queues.filter(({ stored }) => stored)
        .sort((a, b) => a.name < b.name ? -1 : 1);
      for (const queue of stored) {
        for (const [label, value] of values) add(value(queue), queue.name, label);
      }
    },
  });
  return [
    figure("connections", "gauge", "AMQP connections that are open.", () => counters.connections),
    figure("channels", "gauge", "AMQP channels that are open.", () => counters.channels),
    perQueue("queue_messages", "gauge", "state", "Messages in an AMQP queue.", [
      ["ready", (queue) => queue.messageCount],
      ["unacked", (queue) => queue.unackedCount],
    ]),
    perQueue(
      "queue_dropped_total",
      "counter",
      "cause",
      "Messages an AMQP queue has lost.",
      [["bound", (queue) => queue.dropped]],
      () => counters.droppedByGone,
    ),
    figure(
      "published_total",
      "counter",
      "AMQP publishes received whole.",
      () => counters.published,
    ),
    figure("confirmed_total", "counter", "AMQP publishes confirmed.", () => counters.confirmed),
    figure("returned_total", "counter", "Mandatory publishes returned.", () => counters.returned),
    {
      name: "saguin_amqp_refused_total",
      type: "counter",
      labels: ["code"],
      help: "Channels and connections closed with an exception, by reply code.",
      samples: (_scrape, add) => {
        addSorted(new Map([...counters.refused.entries()].map(([code, n]) => [`${code}`, n])), add);
      },
    },
    {
      name: "saguin_crossing_skipped_total",
      type: "counter",
      labels: ["direction", "cause"],
      help: "Messages that did not cross between amq.topic and MQTT.",
      samples: (_scrape, add) => {
        for (
          const [direction, skipped] of [
            ["amqp_to_mqtt", counters.skippedToMqtt],
            ["mqtt_to_amqp", counters.skippedFromMqtt],
          ] as const
        ) {
          for (const [cause, count] of [...skipped.entries()].sort()) add(count, direction, cause);
        }
      },
    },
  ];
}
