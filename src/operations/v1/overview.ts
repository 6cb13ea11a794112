/**
 * `overview`: the figures of a scrape as one body, for the page and for people. Made at most once a
 * second, for everybody who asks.
 */
import type { Clock } from "../../platform/clock.ts";
import { FirstFew } from "../../storage/first_few.ts";
import { type HttpResponse, jsonResponse } from "../http/message.ts";
import { Pace } from "../pace.ts";
import type {
  ChannelSurvey,
  CountersCopy,
  ProviderSurvey,
  SessionTotals,
  Surveyor,
} from "../survey.ts";
import { MOST_ROWS } from "./rows.ts";

/** A page asks every few seconds, and there may be many. */
const INTERVAL_MS = 1_000;

export interface OverviewSurroundings {
  readonly surveyor: Surveyor;
  readonly brokerId: string;
  readonly version: string;
  readonly clock: Clock;
  /** Monotonic ms. */
  readonly startedAt: number;
  /** What AMQP adds, where it is configured. */
  readonly amqp?: () => object;
}

export class Overview {
  #latest: HttpResponse | undefined;
  #madeAt = -Infinity;
  #making: Promise<HttpResponse> | undefined;

  constructor(private readonly on: OverviewSurroundings) {}

  answer(): Promise<HttpResponse> {
    if (this.#latest !== undefined && this.on.clock.monotonic() - this.#madeAt < INTERVAL_MS) {
      return Promise.resolve(this.#latest);
    }
    this.#making ??= this.#make().finally(() => this.#making = undefined);
    return this.#making;
  }

  async #make(): Promise<HttpResponse> {
    const { surveyor, brokerId, version, clock, startedAt, amqp } = this.on;
    const survey = await surveyor.survey(new Pace(clock));
    const worst = new FirstFew<ChannelSurvey>(MOST_ROWS, inOrder);
    for (const channel of survey.channels) worst.add(channel);
    const channels = worst.values().map(channelRow);
    this.#latest = jsonResponse(200, {
      broker: {
        id: brokerId,
        version,
        uptime_seconds: Math.floor((survey.takenAt - startedAt) / 1_000),
        // For rates: what two bodies differ by, over the time between them.
        taken_at_ms: Math.round(survey.takenAt - startedAt),
      },
      sessions: sessionsBody(survey.sessions),
      totals: totalsBody(survey.counters),
      wills_waiting: survey.willsWaiting,
      retained_messages: survey.retained,
      channels,
      channels_total: survey.channels.length,
      returned: channels.length,
      providers: survey.providers.map(providerRow),
      ...amqp === undefined ? {} : { amqp: amqp() },
    });
    this.#madeAt = survey.takenAt;
    return this.#latest;
  }
}

function sessionsBody(totals: SessionTotals) {
  const { connected, offline, subscriptions, queuedMessages, queuedBytes, held } = totals;
  return {
    connected: connected.v5 + connected.v311,
    connected_v5: connected.v5,
    connected_v311: connected.v311,
    offline,
    subscriptions,
    queued_messages: queuedMessages,
    queued_bytes: queuedBytes,
    qos2_held: held,
  };
}

function sum(counts: ReadonlyMap<string | number, number>): number {
  let total = 0;
  for (const count of counts.values()) total += count;
  return total;
}

/** Since the start. */
function totalsBody(counters: CountersCopy) {
  return {
    connections: counters.connections,
    publishes_received: counters.publishesReceived,
    publishes_refused: sum(counters.publishRefused) + counters.publishRateExceeded,
    broadcasts: counters.broadcastPublished,
    deliveries_sent: counters.delivered,
    deliveries_dropped: counters.deliveriesDropped + sum(counters.sessionDeliveriesDropped) +
      sum(counters.sharesDropped),
    deliveries_expired: counters.deliveriesExpired,
    connections_refused: sum(counters.connectionsRefused),
    subscriptions_refused: sum(counters.subscriptionsRefused),
    bytes_received: counters.bytesReceived,
    bytes_sent: counters.bytesSent,
  };
}

/** What is owed to somebody: records that the reader furthest behind has not had, or jobs. */
function owed(channel: ChannelSurvey): number {
  if (channel.type === "queue") return channel.depth;
  if (channel.type === "latest" || channel.consumers === 0) return 0;
  return channel.next - channel.lowestPosition;
}

/** Readers are losing records. */
function isLosing(channel: ChannelSurvey): boolean {
  return channel.type === "append" && channel.consumers > 0 &&
    channel.floor > channel.lowestPosition;
}

function inOrder(a: ChannelSurvey, b: ChannelSurvey): number {
  return Number(isLosing(b)) - Number(isLosing(a)) || owed(b) - owed(a);
}

function channelRow(channel: ChannelSurvey) {
  const { name, type, filter, provider, published, retentionRemoved } = channel;
  const base = { channel: name, type, filter, provider, published };
  switch (channel.type) {
    case "append":
      return {
        ...base,
        records: channel.next - channel.floor,
        bytes: channel.bytes,
        next_offset: channel.next,
        floor_offset: channel.floor,
        consumers: channel.consumers,
        behind: owed(channel),
        losing: isLosing(channel),
        position_lost: channel.positionsLost,
        retention_removed: retentionRemoved,
        dead_letters: channel.deadLetters,
      };
    case "latest":
      return {
        ...base,
        records: channel.topics,
        superseded: channel.superseded,
        retention_removed: retentionRemoved,
      };
    case "queue":
      return {
        ...base,
        bytes: channel.bytes,
        depth: channel.depth,
        inflight: channel.inFlight,
        workers: channel.workers,
        delivered: channel.delivered,
        acknowledged: channel.acknowledged,
        returned: channel.returned,
        redelivered: channel.redelivered,
        dead_lettered: channel.deadLettered,
        expired: channel.expired,
        expired_waiting: channel.expiredWaiting,
      };
  }
}

function providerRow({ name, type, maxBytes, statistics }: ProviderSurvey) {
  const { bytes, errors, waitingEntries, waitingBytes, file } = statistics;
  return {
    provider: name,
    type,
    bytes,
    max_bytes: maxBytes ?? 0,
    errors,
    waiting: waitingEntries,
    waiting_bytes: waitingBytes,
    ...file === undefined ? {} : {
      commits: sum(new Map(Object.entries(file.publishCommits))),
      committed_records: file.publishRecords,
      unflushed_seconds: Math.round(file.unflushedMs) / 1_000,
      flush_failing: file.flushFailing,
      workers: file.workers,
    },
  };
}
