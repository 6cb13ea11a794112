/** Channels of every type: metrics 37 to 56 of the catalogue. */
import type { AppendSurvey, ChannelSurvey, LatestSurvey, QueueSurvey } from "../survey.ts";
import type { Family } from "./exposition.ts";
import type { Scrape, Type } from "./family.ts";

function perChannel<C extends ChannelSurvey>(
  name: string,
  type: Type,
  help: string,
  has: (channel: ChannelSurvey) => channel is C,
  value: (channel: C, scrape: Scrape) => number | undefined,
): Family<Scrape> {
  return {
    name,
    type,
    labels: ["channel"],
    help,
    samples: (scrape, add) => {
      for (const channel of scrape.survey.channels) {
        const figure = has(channel) ? value(channel, scrape) : undefined;
        if (figure !== undefined) add(figure, channel.name);
      }
    },
  };
}

const isAny = (_channel: ChannelSurvey): _channel is ChannelSurvey => true;
const isAppend = (channel: ChannelSurvey): channel is AppendSurvey => channel.type === "append";
const isLatest = (channel: ChannelSurvey): channel is LatestSurvey => channel.type === "latest";
const isQueue = (channel: ChannelSurvey): channel is QueueSurvey => channel.type === "queue";
const isCounted = (channel: ChannelSurvey): channel is AppendSurvey | LatestSurvey =>
  channel.type !== "queue";
const isSized = (channel: ChannelSurvey): channel is AppendSurvey | QueueSurvey =>
  channel.type !== "latest";

export const CHANNEL_FAMILIES: readonly Family<Scrape>[] = [
  {
    name: "saguin_channel_info",
    type: "gauge",
    labels: ["channel", "filter", "type", "provider"],
    help: "Constant 1 describing a channel.",
    samples: ({ survey }, add) => {
      for (const { name, filter, type, provider } of survey.channels) {
        add(1, name, filter, type, provider);
      }
    },
  },
  perChannel(
    "saguin_channel_records",
    "gauge",
    "Records a channel holds.",
    isCounted,
    (channel) => channel.type === "append" ? channel.next - channel.floor : channel.topics,
  ),
  perChannel(
    "saguin_channel_bytes",
    "gauge",
    "Bytes a channel holds.",
    isSized,
    ({ bytes }) => bytes,
  ),
  perChannel(
    "saguin_channel_next_offset",
    "gauge",
    "Offset the next record will take.",
    isAppend,
    ({ next }) => next,
  ),
  perChannel(
    "saguin_channel_floor_offset",
    "gauge",
    "Lowest offset still readable.",
    isAppend,
    ({ floor }) => floor,
  ),
  perChannel(
    "saguin_channel_retention_removed_total",
    "counter",
    "Records removed by retention.",
    isAny,
    ({ retentionRemoved }) => retentionRemoved,
  ),
  perChannel(
    "saguin_channel_consumer_position_min",
    "gauge",
    "Lowest stored consumer position.",
    isAppend,
    ({ consumers, lowestPosition }) => consumers === 0 ? undefined : lowestPosition,
  ),
  perChannel(
    "saguin_channel_consumers",
    "gauge",
    "Durable consumers with a stored position.",
    isAppend,
    ({ consumers }) => consumers,
  ),
  perChannel(
    "saguin_channel_partitioned_consumers",
    "gauge",
    "Subscribers that declared a partition slice.",
    isAny,
    ({ name }, { survey }) => survey.partitioned.get(name) ?? 0,
  ),
  perChannel(
    "saguin_channel_position_lost_total",
    "counter",
    "Times retention passed a stored position.",
    isAny,
    (channel) => channel.type === "append" ? channel.positionsLost : 0,
  ),
  perChannel(
    "saguin_latest_superseded_total",
    "counter",
    "Waiting values replaced by a newer one before sending.",
    isLatest,
    ({ superseded }) => superseded,
  ),
];

function perQueue(
  name: string,
  type: Type,
  help: string,
  value: (queue: QueueSurvey) => number,
): Family<Scrape> {
  return perChannel(name, type, help, isQueue, value);
}

export const QUEUE_FAMILIES: readonly Family<Scrape>[] = [
  perQueue("saguin_queue_depth", "gauge", "Unresolved jobs.", ({ depth }) => depth),
  perQueue(
    "saguin_queue_inflight",
    "gauge",
    "Jobs out with a worker.",
    ({ inFlight }) => inFlight,
  ),
  perQueue(
    "saguin_queue_delivered_total",
    "counter",
    "Jobs handed to a worker.",
    ({ delivered }) => delivered,
  ),
  perQueue(
    "saguin_queue_acknowledged_total",
    "counter",
    "Jobs resolved by a worker.",
    ({ acknowledged }) => acknowledged,
  ),
  perQueue(
    "saguin_queue_returned_total",
    "counter",
    "Jobs handed back by a worker.",
    ({ returned }) => returned,
  ),
  perQueue(
    "saguin_queue_redelivered_total",
    "counter",
    "Jobs taken back on visibility timeout.",
    ({ redelivered }) => redelivered,
  ),
  perQueue(
    "saguin_queue_dead_lettered_total",
    "counter",
    "Jobs moved to the dead-letter channel.",
    ({ deadLettered }) => deadLettered,
  ),
  perQueue(
    "saguin_queue_expired_total",
    "counter",
    "Jobs that aged out unresolved.",
    ({ expired }) => expired,
  ),
  perQueue(
    "saguin_queue_retain_ignored_total",
    "counter",
    "Retained publishes taken as ordinary jobs.",
    ({ retainIgnored }) => retainIgnored,
  ),
];
