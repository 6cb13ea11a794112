import { AccessControl } from "../auth/acl/access.ts";
import { PublishBudgets } from "../auth/publish_rates.ts";
import type { Configuration } from "../config/configuration.ts";
import {
  BROADCAST_LOG,
  type LatestStore,
  type Provider,
  RETAINED,
  StorageFailure,
  type StoreSpec,
} from "../storage/contract.ts";
import { Broadcast } from "./broadcast.ts";
import { settleClaims } from "./claims.ts";
import { AppendChannel } from "./channels/append.ts";
import { LatestChannel } from "./channels/latest.ts";
import { QueueChannel } from "./channels/queue.ts";
import { permit } from "./connect_access.ts";
import type { Context } from "./context.ts";
import { ControlTopics } from "./control.ts";
import { VERBS } from "./control/request.ts";
import { ExactlyOnce, type HoldPlace } from "./exactly_once.ts";
import type { ClientLink } from "./link.ts";
import { BroadcastLog } from "./log.ts";
import { Publisher, type PublishRequest } from "./publish.ts";
import { Reason, type ReasonCode, type Refusal, refusalName } from "./reason.ts";
import type { Parts } from "./parts.ts";
import { Restoration } from "./restore.ts";
import { type Channel, type Placement, Routes } from "./routes.ts";
import type { Session } from "./session.ts";
import {
  type Claim,
  type ConnectRequest,
  type Departure,
  type PassedOver,
  Sessions,
} from "./sessions.ts";
import { Shares } from "./share/shares.ts";
import { type SubscribeAnswer, type SubscribeRequest, Subscriptions } from "./subscribe.ts";
import { Sweeps } from "./sweeps.ts";
import { Wills } from "./wills.ts";

/**
 * The broker core: what front doors talk to. It knows sessions, channels and stores, and no socket.
 * Made from a configuration and its providers; `open` before the first door, `close` after the last.
 */
export class Broker {
  readonly routes: Routes;
  readonly publisher: Publisher;
  readonly exactlyOnce: ExactlyOnce;
  readonly sessions: Sessions;
  readonly shares: Shares;
  readonly budgets: PublishBudgets;
  readonly #subscriptions: Subscriptions;
  readonly #control: ControlTopics;
  readonly #log: BroadcastLog;
  readonly #sweeps: Sweeps;
  readonly #wills: Wills;
  readonly #parts: Parts;
  readonly #providers: ReadonlyMap<string, Provider>;
  readonly #sessionProvider: Provider;
  readonly #retained: LatestStore;
  readonly #channels: readonly Channel[];

  private constructor(
    readonly context: Context,
    configuration: Configuration,
    providers: ReadonlyMap<string, Provider>,
    readonly access: AccessControl,
  ) {
    const provider = (name: string): Provider => providers.get(name)!;
    this.#providers = providers;
    this.#sessionProvider = provider(configuration.session.storage);
    const broadcast = new Broadcast();
    const placements = placeChannels(configuration, provider, context, broadcast);
    this.#channels = placements.map(({ channel }) => channel);
    this.routes = new Routes(placements, context.limits);
    const sessionStore = this.#sessionProvider.sessions();
    this.#log = new BroadcastLog(
      this.#sessionProvider.append(BROADCAST_LOG),
      sessionStore,
      context,
    );
    const retainedProvider = provider(configuration.retained.storage);
    const retained = retainedProvider.latest(RETAINED);
    this.#retained = retained;
    const homes = new Map<string, Provider>([
      [BROADCAST_LOG, this.#sessionProvider],
      [RETAINED, retainedProvider],
    ]);
    const shares = new Shares(this.#log, context, configuration.share.expiresAfterMs);
    this.shares = shares;
    this.publisher = new Publisher(context, {
      routes: this.routes,
      broadcast,
      log: this.#log,
      shares,
      retained,
      providerOf: (store) => homes.get(store.channel)!,
    });
    this.budgets = new PublishBudgets(context.clock, context.timers);
    this.#wills = new Wills(context, this.publisher, access);
    this.exactlyOnce = new ExactlyOnce(
      context,
      this.publisher,
      configuration.qos2,
      this.#logPlace,
      (clientId, writes) => void this.sessions.endings.remains.leave(clientId, writes),
    );
    this.#subscriptions = new Subscriptions(
      context,
      this.routes,
      broadcast,
      this.#log,
      shares,
      { store: retained, log: this.#log, logProvider: this.#sessionProvider },
      sessionStore,
    );
    this.#parts = {
      appendChannels: this.#channels.filter((channel) => channel.kind === "append"),
      queueChannels: this.#channels.filter((channel) => channel.kind === "queue"),
      log: this.#log,
      wills: this.#wills,
      exactlyOnce: this.exactlyOnce,
      subscriptions: this.#subscriptions,
      shares,
    };
    this.sessions = new Sessions(context, sessionStore, this.#parts);
    this.#control = new ControlTopics(
      context,
      this.routes,
      configuration.channels,
      (clientId) => this.hangUp(clientId),
      ({ access }, channel) => access?.rules.verbs(channel.name) ?? VERBS[channel.kind],
      ({ access }) => access?.rules.mayDisconnect ?? true,
    );
    access.onReplaced(() => {
      for (const session of this.sessions.values()) session.permissionsChanged();
    });
    this.#sweeps = new Sweeps(context, configuration, this.#channels, retained);
  }

  /** Messages of the broadcast log that somebody is owed. */
  get logLength(): number {
    return this.#log.owed;
  }

  get #logPlace(): HoldPlace {
    return { store: this.#log.store, provider: this.#sessionProvider, channel: undefined };
  }

  /**
   * Opens every provider and brings back what it keeps. `access`: what an ACL file grants; without it,
   * everybody may do everything. `join`: whoever takes part in publishing brings back what it keeps, before
   * the first Will; the providers are open.
   * @throws StorageFailure; every provider opened before it is closed again
   */
  static async open(
    context: Context,
    configuration: Configuration,
    providers: ReadonlyMap<string, Provider>,
    access = new AccessControl(configuration, undefined),
    join: (broker: Broker) => Promise<void> | void = () => {},
  ): Promise<Broker> {
    const opened: Provider[] = [];
    try {
      for (const [name, provider] of providers) {
        await provider.open(storesOf(configuration, name));
        opened.push(provider);
      }
      const broker = new Broker(context, configuration, providers, access);
      await join(broker);
      await broker.#restore();
      return broker;
    } catch (error) {
      for (const provider of opened) await provider.abandon();
      throw error;
    }
  }

  async #restore(): Promise<void> {
    await settleClaims(this.context, this.routes, this.#retained);
    const restoration = new Restoration(
      this.context,
      this.#sessionProvider.sessions(),
      this.sessions,
      this.#parts,
    );
    await restoration.load();
    await this.#restoreHolds();
    await restoration.settle();
    const now = this.context.clock.wall();
    const held = (clientId: string) => this.sessions.get(clientId) !== undefined;
    for (const provider of this.#providers.values()) await provider.sweepPositions(held, now);
    await this.#sweeps.start();
  }

  /** Holds come back with their sessions; the others are dropped and counted (D5.16 to D5.20). */
  async #restoreHolds(): Promise<void> {
    for (const provider of this.#providers.values()) {
      const { kept, abandoned } = await provider.recoverHolds((_channel, { clientId }) =>
        this.sessions.get(clientId) !== undefined
      );
      this.context.counters.qos2Abandoned += abandoned;
      for (const { channel, clientId, packetId, heldAt } of kept) {
        const session = this.sessions.get(clientId);
        const place = this.#holdPlace(channel);
        if (session === undefined || place === undefined) continue;
        this.exactlyOnce.restore(session, packetId, place, heldAt);
      }
    }
  }

  #holdPlace(name: string): HoldPlace | undefined {
    if (name === BROADCAST_LOG) return this.#logPlace;
    const channel = this.routes.channel(name);
    return channel === undefined
      ? undefined
      : { store: channel.store, provider: channel.provider, channel };
  }

  // ------------------------------------------------------------------------- what doors ask for

  /** What the permissions make of a CONNECT whose user is known: it goes to `connect` next. */
  permit(request: ConnectRequest): ConnectRequest | Refusal {
    return permit(request, this.access, this.routes, this.context.log);
  }

  /** Serves a CONNECT whose own checks passed: a claim, or why it is refused. */
  async connect(request: ConnectRequest): Promise<Claim | PassedOver | Refusal> {
    if (request.will !== undefined) {
      const refusal = this.#wills.refusal(request.will, request.access?.rules);
      if (refusal !== undefined) return refusal;
    }
    return await this.sessions.claim(request);
  }

  disconnected(session: Session, link: ClientLink, how: Departure): Promise<void> {
    return this.sessions.disconnected(session, link, how);
  }

  /** `answer` is called once, in the turn in which the SUBACK is due. */
  async subscribe(
    session: Session,
    request: SubscribeRequest,
    answer: SubscribeAnswer,
  ): Promise<void> {
    await this.#changing(session, () => this.#subscriptions.subscribe(session, request, answer));
  }

  unsubscribe(session: Session, filters: readonly string[]): Promise<ReasonCode[]> {
    return this.#changing(session, () => this.#subscriptions.unsubscribe(session, filters));
  }

  /** A request to a control topic; replies have left when it resolves. */
  request(
    session: Session,
    link: ClientLink,
    publish: PublishRequest,
  ): Promise<Refusal | undefined> {
    const route = this.routes.route(publish.topic);
    if (route.kind !== "control") throw new Error("not a control topic");
    return this.#answering(
      session,
      () => this.#control.handle(session, link, route.request, publish),
    );
  }

  /** While a packet of the client waits for the store, its writes are answering ones (S132). */
  async #answering<T>(session: Session, work: () => Promise<T>): Promise<T> {
    const store = this.#sessionProvider.sessions();
    store.mark(session.clientId);
    try {
      return await work();
    } finally {
      store.unmark(session.clientId);
    }
  }

  /** As `#answering`, for what changes the session's record: in turn with a takeover of it. */
  #changing<T>(session: Session, work: () => Promise<T>): Promise<T> {
    return this.#answering(session, () => this.sessions.inTurn(session.clientId, work));
  }

  /** Ends a client's connection, not its session. False when it is not connected. */
  hangUp(clientId: string, ending: { code: ReasonCode; reason: string } = HUNG_UP): boolean {
    const link = this.sessions.get(clientId)?.link;
    link?.end(ending);
    return link !== undefined;
  }

  // ------------------------------------------------------------------------ what operations asks for

  /** Every channel, in no order that means anything. */
  get channels(): readonly Channel[] {
    return this.#channels;
  }

  /** By name; those that something is kept in. */
  get providers(): ReadonlyMap<string, Provider> {
    return this.#providers;
  }

  get willsWaiting(): number {
    return this.#wills.waiting;
  }

  /**
   * Resolves once every publish that was there before has been taken into the pipeline: the turn of
   * the event loop is the one place that all of them pass, and nothing holds it across a disk.
   */
  publishTurn(): Promise<void> {
    return new Promise((resolve) => setTimeout(resolve, 0));
  }

  /** Counts and lists a connection that was refused at its CONNECT, or ended for a refusal. */
  refusedConnection(clientId: string, user: string, refusal: Omit<Refusal, "reason">): void {
    if (NO_REFUSALS.has(refusal.code)) return;
    const { counters, clock, limits } = this.context;
    const name = refusalName(refusal);
    counters.connectionsRefused.add(name);
    counters.refusedClients.add(clientId, user, name, clock.wall(), limits.maxTopicLength);
  }

  /** Tells every connected client, and stores every session. Doors have stopped accepting. */
  async stopSessions(): Promise<void> {
    this.#sweeps.stop();
    await this.#stopQueues();
    await this.sessions.departures.stop();
    // What the ending connections gave back is written before the providers close.
    await this.#stopQueues();
  }

  async #stopQueues(): Promise<void> {
    for (const channel of this.#channels) if (channel.kind === "queue") await channel.stop();
  }

  /**
   * Stores what is still owed and closes the providers. Every connection is gone.
   * @return false when a provider did not keep everything, which was logged
   */
  async close(): Promise<boolean> {
    let whole = true;
    await this.context.drain.flush("departed");
    await this.#log.flush();
    for (const [name, provider] of this.#providers) {
      try {
        await provider.close();
      } catch (error) {
        if (!(error instanceof StorageFailure)) throw error;
        this.context.log.error("a storage provider did not close cleanly", {
          provider: name,
          error: error.message,
        });
        whole = false;
      }
    }
    return whole;
  }
}

/** Endings that refuse nothing that the client did (05 section 16). */
const NO_REFUSALS: ReadonlySet<ReasonCode> = new Set([
  Reason.ServerShuttingDown,
  Reason.KeepAliveTimeout,
  Reason.SessionTakenOver,
  Reason.AdministrativeAction,
]);

const HUNG_UP = { code: 0x98 as ReasonCode, reason: "hung up by an administrator" };

/** Every channel of the configuration as an object at work on its store. */
function placeChannels(
  configuration: Configuration,
  provider: (name: string) => Provider,
  context: Context,
  broadcast: Broadcast,
): Placement[] {
  const subscribers = (topic: string) => broadcast.subscribers(topic);
  const appends = new Map<string, AppendChannel>();
  const placements: Placement[] = [];
  for (const channel of configuration.channels) {
    if (channel.type !== "append") continue;
    const home = provider(channel.storage);
    const store = home.append(channel.name);
    store.setMaxBytes(channel.maxBytes);
    const made = new AppendChannel(channel.name, store, home, channel, context, subscribers);
    appends.set(channel.name, made);
    placements.push({
      channel: made,
      filters: channel.filters,
      deadLetter: channel.deadLetterOf !== undefined,
    });
  }
  for (const channel of configuration.channels) {
    const home = provider(channel.storage);
    if (channel.type === "latest") {
      const made = new LatestChannel(
        channel.name,
        home.latest(channel.name),
        home,
        channel,
        context,
      );
      placements.push({ channel: made, filters: channel.filters, deadLetter: false });
    } else if (channel.type === "queue") {
      const store = home.queue(channel.name);
      store.setMaxBytes(channel.maxBytes);
      const letters = appends.get(channel.deadLetter)!;
      const [filter] = channel.filters;
      const made = new QueueChannel(
        channel.name,
        store,
        home,
        channel,
        filter,
        letters,
        context,
      );
      placements.push({ channel: made, filters: channel.filters, deadLetter: false });
    }
  }
  return placements;
}

/** What provider `name` is opened with. */
function storesOf(configuration: Configuration, name: string): StoreSpec[] {
  const stores: StoreSpec[] = configuration.channels
    .filter((channel) => channel.storage === name)
    .map((channel) => ({ channel: channel.name, kind: channel.type }));
  if (configuration.session.storage === name) {
    stores.push({ channel: BROADCAST_LOG, kind: "append" });
  }
  if (configuration.retained.storage === name) stores.push({ channel: RETAINED, kind: "latest" });
  return stores;
}

/** Names of the providers that something is kept in; the others are inert (S4). */
export function providersInUse(configuration: Configuration): Set<string> {
  return new Set([
    ...configuration.channels.map(({ storage }) => storage),
    configuration.session.storage,
    configuration.retained.storage,
    ...configuration.amqp === undefined ? [] : [configuration.amqp.storage],
    ...configuration.ingest === undefined ? [] : [configuration.ingest.storage],
  ]);
}
