/**
 * Everything a scrape and the page show, copied out of the broker at one time. Numbers only: formatting
 * comes after, and nothing here waits for a disk.
 */
import type { Broker } from "../broker/broker.ts";
import type { Counters } from "../broker/counters.ts";
import type { Channel, Routes } from "../broker/routes.ts";
import type { Session } from "../broker/session.ts";
import type { Channel as Settings, Configuration } from "../config/configuration.ts";
import type { ProviderStatistics } from "../storage/contract.ts";
import type { Pace } from "./pace.ts";

/** What is summed over sessions; all of it in one turn, so that its parts agree. */
export interface SessionTotals {
  readonly connected: { readonly v311: number; readonly v5: number };
  readonly offline: number;
  readonly subscriptions: number;
  readonly queuedMessages: number;
  readonly queuedBytes: number;
  /** Exactly-once publishes that were answered PUBREC and are not released. */
  readonly held: number;
}

interface ChannelBase {
  readonly name: string;
  readonly filter: string;
  readonly provider: string;
  readonly published: number;
  readonly retentionRemoved: number;
}

export interface AppendSurvey extends ChannelBase {
  readonly type: "append";
  /** Derived from a queue. */
  readonly deadLetters: boolean;
  readonly next: number;
  readonly floor: number;
  readonly bytes: number;
  /** Readers with a stored position, and the lowest of their positions; 0 for none. */
  readonly consumers: number;
  readonly lowestPosition: number;
  readonly positionsLost: number;
}

export interface LatestSurvey extends ChannelBase {
  readonly type: "latest";
  readonly topics: number;
  readonly superseded: number;
}

export interface QueueSurvey extends ChannelBase {
  readonly type: "queue";
  readonly bytes: number;
  readonly depth: number;
  readonly inFlight: number;
  readonly workers: number;
  readonly delivered: number;
  readonly acknowledged: number;
  readonly returned: number;
  readonly redelivered: number;
  readonly deadLettered: number;
  readonly expired: number;
  /** Of the expired, those that were with no worker. */
  readonly expiredWaiting: number;
  readonly retainIgnored: number;
}

export type ChannelSurvey = AppendSurvey | LatestSurvey | QueueSurvey;

export interface ProviderSurvey {
  readonly name: string;
  readonly type: "memory" | "sqlite";
  /** Undefined for no bound. */
  readonly maxBytes: number | undefined;
  readonly statistics: ProviderStatistics;
}

export interface Survey {
  /** Monotonic ms. */
  readonly takenAt: number;
  readonly sessions: SessionTotals;
  /** By channel: sessions that declared a slice of a filter that reaches it. */
  readonly partitioned: ReadonlyMap<string, number>;
  readonly counters: CountersCopy;
  readonly willsWaiting: number;
  readonly retained: number;
  /** In ascending order of their names. */
  readonly channels: readonly ChannelSurvey[];
  readonly providers: readonly ProviderSurvey[];
}

/** The numbers of `Counters` at one moment. */
export type CountersCopy = ReturnType<typeof copyCounters>;

/** Makes surveys of one broker. */
export class Surveyor {
  readonly #channels: readonly { readonly channel: Channel; readonly settings: Settings }[];

  constructor(private readonly broker: Broker, private readonly configuration: Configuration) {
    const settings = new Map(configuration.channels.map((each) => [each.name, each]));
    this.#channels = broker.channels
      .map((channel) => ({ channel, settings: settings.get(channel.name)! }))
      .sort((a, b) => a.channel.name < b.channel.name ? -1 : 1);
  }

  async survey(pace: Pace): Promise<Survey> {
    const { broker } = this;
    const takenAt = broker.context.clock.monotonic();
    const counters = copyCounters(broker.context.counters);
    const slicing: Session[] = [];
    const sessions = totals(broker.sessions.values(), slicing);
    const { willsWaiting } = broker;
    const retained = broker.publisher.destinations.retained.size();
    const channels: ChannelSurvey[] = [];
    for (const { channel, settings } of this.#channels) {
      await pace.breathe();
      channels.push(surveyChannel(channel, settings));
    }
    return {
      takenAt,
      sessions,
      partitioned: await this.#partitioned(slicing, pace),
      counters,
      willsWaiting,
      retained,
      channels,
      providers: this.providers(),
    };
  }

  async #partitioned(
    slicing: readonly Session[],
    pace: Pace,
  ): Promise<ReadonlyMap<string, number>> {
    const counts = new Map<string, number>();
    const reached = new Map<string, readonly string[]>();
    for (const session of slicing) {
      await pace.breathe();
      for (const channel of reachedBySlices(session, this.broker.routes, reached)) {
        counts.set(channel, (counts.get(channel) ?? 0) + 1);
      }
    }
    return counts;
  }

  /** In ascending order of their names. */
  providers(): ProviderSurvey[] {
    const { providers } = this.configuration.storage;
    return [...this.broker.providers.values()]
      .map((provider): ProviderSurvey => ({
        name: provider.name,
        type: provider.kind,
        maxBytes: providers.get(provider.name)?.maxBytes,
        statistics: provider.statistics(),
      }))
      .sort((a, b) => a.name < b.name ? -1 : 1);
  }
}

function copyCounters(counters: Counters) {
  return {
    connections: counters.connections,
    sessionExpiryShortened: counters.sessionExpiryShortened,
    sessionsRestored: counters.sessionsRestored,
    sessionsDropped: new Map(counters.sessionsDropped.entries()),
    willsPublished: new Map(counters.willsPublished.entries()),
    willsCancelled: counters.willsCancelled,
    qos2Abandoned: counters.qos2Abandoned,
    bytesReceived: counters.bytesReceived,
    bytesSent: counters.bytesSent,
    publishesReceived: counters.publishesReceived,
    broadcastPublished: counters.broadcastPublished,
    broadcastUnmatched: counters.broadcastUnmatched,
    delivered: counters.delivered,
    deliveriesDropped: counters.deliveriesDropped,
    deliveriesExpired: counters.deliveriesExpired,
    connectionsRefused: new Map(counters.connectionsRefused.entries()),
    publishRefused: new Map(counters.publishRefused.entries()),
    publishRateExceeded: counters.publishRateExceeded,
    subscriptionsRefused: new Map(counters.subscriptionsRefused.entries()),
    sessionDeliveriesDropped: new Map(counters.sessionDeliveriesDropped.entries()),
    sharesHeld: counters.sharesHeld,
    sharesDrained: counters.sharesDrained,
    sharesDropped: new Map(counters.sharesDropped.entries()),
  };
}

/** Also puts those with declared slices into `slicing`. */
function totals(sessions: Iterable<Session>, slicing: Session[]): SessionTotals {
  let v5 = 0;
  let v311 = 0;
  let offline = 0;
  let subscriptions = 0;
  let queuedMessages = 0;
  let queuedBytes = 0;
  let held = 0;
  for (const session of sessions) {
    if (session.link === undefined) offline++;
    else if (session.level === 5) v5++;
    else v311++;
    subscriptions += session.subscriptions.size;
    queuedMessages += session.window.size + session.live.length + (session.log?.length ?? 0);
    queuedBytes += session.window.bytes + session.waitingBytes;
    if (session.exchanges !== undefined) {
      for (const { state } of session.exchanges.held.values()) if (state !== "holding") held++;
    }
    if (session.partitioned > 0) slicing.push(session);
  }
  return {
    connected: { v311, v5 },
    offline,
    subscriptions,
    queuedMessages,
    queuedBytes,
    held,
  };
}

/** Channels that a filter with a declared slice reaches, each once. */
function reachedBySlices(
  session: Session,
  routes: Routes,
  reached: Map<string, readonly string[]>,
): Set<string> {
  const channels = new Set<string>();
  for (const { filter, partitions } of session.subscriptions.values()) {
    if (partitions === undefined) continue;
    let names = reached.get(filter);
    if (names === undefined) {
      names = routes.touched(filter).map(({ name }) => name);
      reached.set(filter, names);
    }
    for (const name of names) channels.add(name);
  }
  return channels;
}

function surveyChannel(channel: Channel, settings: Settings): ChannelSurvey {
  const { name, published } = channel;
  const base = { name, published, filter: settings.filter, provider: settings.storage };
  switch (channel.kind) {
    case "append": {
      const { store, retentionRemoved, positionsLost } = channel;
      return {
        ...base,
        type: "append",
        retentionRemoved,
        positionsLost,
        deadLetters: settings.type === "append" && settings.deadLetterOf !== undefined,
        next: store.next(),
        floor: store.floor(),
        bytes: store.bytes(),
        consumers: store.positionCount(),
        lowestPosition: store.lowestPosition(),
      };
    }
    case "latest": {
      const { store, retentionRemoved, superseded } = channel;
      return { ...base, type: "latest", retentionRemoved, superseded, topics: store.size() };
    }
    case "queue": {
      const { store, statistics, moves, inFlight, workers, retainIgnored } = channel;
      return {
        ...base,
        type: "queue",
        retentionRemoved: 0,
        ...statistics,
        bytes: store.bytes(),
        depth: store.depth(),
        inFlight,
        workers,
        deadLettered: moves.moved,
        expired: moves.expired,
        expiredWaiting: moves.expiredWaiting,
        retainIgnored,
      };
    }
  }
}
