import {
  sessionReader,
  type SessionStore,
  StorageFailure,
  type StoredSubscription,
} from "../storage/contract.ts";
import type { Headers, Offset, QoS } from "../storage/record.ts";
import { filterFault, intersects, isFault, levels, splitShared } from "../topics/filter.ts";
import { parseDeclaration, type Partitions } from "../topics/partition.ts";
import type { Broadcast } from "./broadcast.ts";
import type { AppendChannel } from "./channels/append.ts";
import type { LatestChannel } from "./channels/latest.ts";
import type { Context } from "./context.ts";
import { unreadProperty } from "./delivery.ts";
import type { BroadcastLog } from "./log.ts";
import { Reason, type ReasonCode, type Refusal } from "./reason.ts";
import { RetainedPass } from "./retained.ts";
import type { Routes } from "./routes.ts";
import type { Session } from "./session.ts";
import type { LatestStore } from "../storage/contract.ts";

export interface FilterRequest {
  readonly filter: string;
  readonly qos: QoS;
  readonly noLocal: boolean;
  readonly retainAsPublished: boolean;
  readonly retainHandling: 0 | 1 | 2;
}

export interface SubscribeRequest {
  readonly filters: readonly FilterRequest[];
  readonly identifier: number | undefined;
  readonly userProperties: Headers | undefined;
}

/** One code for each filter, and the first refusal's sentence. */
export type SubscribeAnswer = (codes: readonly ReasonCode[], reason: string | undefined) => void;

/** User Properties of SUBSCRIBE that the broker reads (D3.14). */
const READ_PROPERTIES = ["saguin-filter", "saguin-deletions"];

const QUEUE_FORM = "$saguin/queue/";
const SEEK_REPLY = /^\$saguin\/consumer\/[^/+#]+\/seek\/reply$/;

/** The SUBSCRIBE as a whole cannot be served: the connection ends (02a section 6). */
export class SubscribeProtocolError extends Error {
  constructor(readonly refusal: Refusal) {
    super(refusal.reason);
  }
}

interface Grantable {
  readonly code: ReasonCode;
  readonly subscription: StoredSubscription;
  readonly request: FilterRequest;
  /** The session did not hold the filter before. */
  readonly fresh: boolean;
}

/** Which filters are granted (02a sections 2, 4, 6), and what each of them begins. */
export class Subscriptions {
  constructor(
    private readonly context: Context,
    private readonly routes: Routes,
    private readonly broadcast: Broadcast,
    private readonly log: BroadcastLog,
    private readonly retained: LatestStore,
    private readonly store: SessionStore,
  ) {}

  // ------------------------------------------------------------------------------------ subscribe

  /**
   * Decides, stores, then in one turn: `answer` writes SUBACK, and what was granted begins (D4.9).
   * @throws SubscribeProtocolError
   */
  async subscribe(
    session: Session,
    request: SubscribeRequest,
    answer: SubscribeAnswer,
  ): Promise<void> {
    const kept = await session.ready;
    if (session.link === undefined || session.ended) return;
    const outcomes = this.#decide(session, request);
    const granted = outcomes.filter((outcome): outcome is Grantable => !("reason" in outcome));
    const positions = await this.#positions(session, granted, kept);
    const refused = await this.#save(session, granted);
    if (session.link === undefined || session.ended) return;
    const codes = outcomes.map((outcome) =>
      "reason" in outcome ? outcome.code : refused?.code ?? outcome.code
    );
    const reason = outcomes.find((outcome): outcome is Refusal => "reason" in outcome)?.reason ??
      refused?.reason;
    for (const code of codes) {
      if (code >= 0x80) this.context.counters.subscriptionsRefused.add(code);
    }
    if (reason !== undefined) {
      this.context.log.warn("refused a subscription", { client: session.clientId, reason });
    }
    answer(codes, reason);
    if (refused === undefined) this.#begin(session, request, granted, positions);
  }

  #decide(session: Session, request: SubscribeRequest): (Grantable | Refusal)[] {
    const packetRefusal = this.#packetRefusal(request.userProperties);
    if ("code" in packetRefusal) return request.filters.map(() => packetRefusal);
    const held = new Set(session.subscriptions.keys());
    return request.filters.map((asked) => {
      const decided = this.#admit(session, asked, packetRefusal.partitions);
      if ("reason" in decided) return decided;
      const fresh = !held.has(asked.filter);
      if (fresh && held.size >= this.context.limits.maxSubscriptions) {
        return {
          code: Reason.QuotaExceeded,
          reason:
            `more filters than limits.max_subscriptions (${this.context.limits.maxSubscriptions})`,
        };
      }
      held.add(asked.filter);
      const subscription: StoredSubscription = {
        filter: asked.filter,
        qos: decided.qos,
        noLocal: asked.noLocal,
        retainAsPublished: asked.retainAsPublished,
        retainHandling: asked.retainHandling,
        identifier: request.identifier,
        partitions: packetRefusal.partitions,
        logOffset: this.log.store.next(),
      };
      return { code: decided.qos as ReasonCode, subscription, request: asked, fresh };
    });
  }

  /** What the User Properties of the packet say for all of its filters (D3.11, D15.3). */
  #packetRefusal(
    userProperties: Headers | undefined,
  ): Refusal | { readonly partitions: Partitions | undefined } {
    const unread = unreadProperty(userProperties, READ_PROPERTIES);
    if (unread !== undefined) {
      return {
        code: Reason.ImplementationSpecificError,
        reason: "a SUBSCRIBE carries a saguin- User Property that is not defined",
      };
    }
    const declared = (userProperties ?? []).filter(([name]) => name === "saguin-filter");
    if (declared.length === 0) return { partitions: undefined };
    const partitions = parseDeclaration(declared.map(([, value]) => value));
    if (isFault(partitions)) {
      return { code: Reason.ImplementationSpecificError, reason: partitions.fault };
    }
    return { partitions };
  }

  #admit(
    session: Session,
    asked: FilterRequest,
    partitions: Partitions | undefined,
  ): Refusal | { readonly qos: QoS } {
    const { filter } = asked;
    if (isSharedForm(filter)) return this.#shared(session, asked);
    if (levels(filter) > this.context.limits.maxTopicLevels) {
      return invalid(
        `the filter has more levels than limits.max_topic_levels (${this.context.limits.maxTopicLevels})`,
      );
    }
    const fault = filterFault(filter);
    if (fault !== undefined) {
      if (session.level === 4) throw new SubscribeProtocolError(invalid(fault));
      return invalid(fault);
    }
    if (filter.startsWith(QUEUE_FORM) || filter === "$saguin/queue") {
      return this.#queueForm(session, asked, partitions);
    }
    if (filter.startsWith("$saguin")) {
      if (SEEK_REPLY.test(filter)) return { qos: asked.qos };
      return notAllowed("nothing is delivered under that topic of $saguin/");
    }
    if (filter === "$SYS" || filter.startsWith("$SYS/")) {
      return notAllowed("there is no $SYS tree");
    }
    const queue = this.routes.insideQueue(filter);
    if (queue !== undefined) {
      return invalid(
        `the filter lies inside queue ${queue.name}; its workers subscribe to ${QUEUE_FORM}${queue.name}`,
      );
    }
    return { qos: asked.qos };
  }

  #shared(session: Session, asked: FilterRequest): Refusal {
    const shared = splitShared(asked.filter);
    if (isFault(shared)) return invalid(shared.fault);
    if (session.level === 5 && asked.noLocal) {
      throw new SubscribeProtocolError({
        code: Reason.ProtocolError,
        reason: "No Local on a shared subscription (MQTT-3.8.3-4)",
      });
    }
    return {
      code: Reason.SharedSubscriptionsNotSupported,
      reason: "shared subscriptions are not available",
    };
  }

  #queueForm(
    session: Session,
    asked: FilterRequest,
    partitions: Partitions | undefined,
  ): Refusal | { readonly qos: QoS } {
    const name = asked.filter.slice(QUEUE_FORM.length);
    const channel = this.routes.channel(name);
    if (channel === undefined || channel.kind !== "queue") {
      return invalid(`${QUEUE_FORM}<queue> names exactly one queue, and ${name} is none`);
    }
    if (session.level === 4) return invalid("a queue is consumed with MQTT 5 only");
    if (asked.noLocal) {
      return invalid(`take No Local off ${asked.filter}: a queue serves whoever is free`);
    }
    if (partitions !== undefined) {
      return {
        code: Reason.ImplementationSpecificError,
        reason: "saguin-filter does not apply to a queue: the broker picks the worker",
      };
    }
    if (asked.qos === 0) {
      return {
        code: Reason.ImplementationSpecificError,
        reason: "a queue is consumed at QoS 1",
      };
    }
    return { qos: 1 };
  }

  /** Stored positions of the channels that the session is about to read for the first time. */
  async #positions(
    session: Session,
    granted: readonly Grantable[],
    kept: ReadonlyMap<AppendChannel, Offset> | undefined,
  ): Promise<Map<AppendChannel, Offset | undefined>> {
    const positions = new Map<AppendChannel, Offset | undefined>();
    for (const { subscription } of granted) {
      for (const channel of this.routes.touched(subscription.filter)) {
        if (channel.kind !== "append" || positions.has(channel)) continue;
        if (channel.consumer(session) !== undefined) continue;
        positions.set(channel, kept?.get(channel) ?? await this.#position(session, channel));
      }
    }
    return positions;
  }

  async #position(session: Session, channel: AppendChannel): Promise<Offset | undefined> {
    if (!session.durable) return undefined;
    const stored = await channel.store.position(sessionReader(session.clientId));
    return stored?.offset;
  }

  async #save(session: Session, granted: readonly Grantable[]): Promise<Refusal | undefined> {
    if (!session.stored || granted.length === 0) return undefined;
    const record = session.record();
    const subscriptions = new Map(record.subscriptions.map((each) => [each.filter, each]));
    for (const { subscription } of granted) subscriptions.set(subscription.filter, subscription);
    try {
      await this.store.save(
        { ...record, subscriptions: [...subscriptions.values()] },
        "answering",
      );
      return undefined;
    } catch (error) {
      if (!(error instanceof StorageFailure)) throw error;
      this.context.counters.storageErrors.add("sessions");
      return {
        code: error.kind === "full" ? Reason.QuotaExceeded : Reason.ImplementationSpecificError,
        reason: error.message,
      };
    }
  }

  /** In the turn of the SUBACK: every filter is recorded before any of them replays (D11.4). */
  #begin(
    session: Session,
    request: SubscribeRequest,
    granted: readonly Grantable[],
    positions: ReadonlyMap<AppendChannel, Offset | undefined>,
  ): void {
    const deletions = (request.userProperties ?? []).some(([name]) => name === "saguin-deletions");
    const passes: string[] = [];
    const latest = new Map<
      LatestChannel,
      { filter: string; statePass: boolean; deletions: boolean }[]
    >();
    for (const { subscription } of granted) this.#record(session, subscription);
    for (const { subscription, request: asked, fresh } of granted) {
      const { filter } = subscription;
      const wanted = asked.retainHandling === 0 || (asked.retainHandling === 1 && fresh);
      if (filter.startsWith(QUEUE_FORM)) {
        const queue = this.routes.channel(filter.slice(QUEUE_FORM.length));
        if (queue?.kind === "queue") queue.join(session);
        continue;
      }
      if (filter.startsWith("$saguin/")) continue;
      if (wanted) passes.push(filter);
      for (const channel of this.routes.touched(filter)) {
        if (channel.kind === "append") {
          this.#joinAppend(session, channel, positions.get(channel), asked.retainHandling === 2);
        } else if (channel.kind === "latest") {
          const requests = latest.get(channel) ?? [];
          requests.push({ filter, statePass: wanted, deletions });
          latest.set(channel, requests);
        }
      }
    }
    for (const [channel, requests] of latest) channel.join(session, requests);
    if (passes.length > 0) new RetainedPass(session, this.retained, passes, this.context);
  }

  #joinAppend(
    session: Session,
    channel: AppendChannel,
    stored: Offset | undefined,
    fromNow: boolean,
  ): void {
    const known = channel.consumer(session);
    const consumer = channel.join(session, stored, fromNow);
    if (known !== undefined && fromNow) consumer.seek(channel.store.next());
    consumer.unpause();
  }

  #record(session: Session, subscription: StoredSubscription): void {
    const { filter } = subscription;
    const plain = !filter.startsWith("$saguin/");
    const several = plain &&
      this.routes.touched(filter).filter(({ kind }) => kind !== "queue").length > 1;
    session.subscribe(subscription, several);
    if (plain) this.broadcast.add(filter, session);
  }

  // ---------------------------------------------------------------------------------- unsubscribe

  /** One code for each filter; a store that cannot forget a filter leaves the client subscribed. */
  async unsubscribe(session: Session, filters: readonly string[]): Promise<ReasonCode[]> {
    const held = filters.filter((filter) => session.subscriptions.has(filter));
    if (session.stored && held.length > 0) {
      const record = session.record();
      const gone = new Set(held);
      try {
        await this.store.save({
          ...record,
          subscriptions: record.subscriptions.filter(({ filter }) => !gone.has(filter)),
        }, "answering");
      } catch (error) {
        if (!(error instanceof StorageFailure)) throw error;
        this.context.counters.storageErrors.add("sessions");
        return filters.map(() => Reason.ImplementationSpecificError);
      }
    }
    return filters.map((filter) =>
      this.#forget(session, filter) ? Reason.Success : Reason.NoSubscriptionExisted
    );
  }

  #forget(session: Session, filter: string): boolean {
    if (!session.unsubscribe(filter)) return false;
    if (filter.startsWith(QUEUE_FORM)) {
      const queue = this.routes.channel(filter.slice(QUEUE_FORM.length));
      if (queue?.kind === "queue") queue.leave(session);
      return true;
    }
    if (filter.startsWith("$saguin/")) return true;
    this.broadcast.remove(filter, session);
    for (const channel of this.routes.touched(filter)) {
      if (channel.kind === "queue" || this.#stillReaches(session, channel)) continue;
      if (channel.kind === "append") channel.consumer(session)?.pause();
      else channel.leave(session);
    }
    return true;
  }

  #stillReaches(session: Session, channel: AppendChannel | LatestChannel): boolean {
    const placement = this.routes.placement(channel.name);
    if (placement === undefined) return false;
    for (const filter of session.subscriptions.keys()) {
      if (placement.filters.some((claim) => intersects(claim, filter))) return true;
    }
    return false;
  }

  // ------------------------------------------------------------------------------ start and ending

  /** A stored filter of a session that came back; nothing is delivered before it connects. */
  restore(session: Session, subscription: StoredSubscription): void {
    this.#record(session, subscription);
  }

  /** The session connected for the first time since the start: it reads what its filters reach. */
  joinAll(session: Session): void {
    for (const { filter } of session.subscriptions.values()) {
      if (filter.startsWith(QUEUE_FORM)) {
        const queue = this.routes.channel(filter.slice(QUEUE_FORM.length));
        if (queue?.kind === "queue") queue.join(session);
        continue;
      }
      if (filter.startsWith("$saguin/")) continue;
      for (const channel of this.routes.touched(filter)) {
        if (channel.kind === "append") this.#joinAppend(session, channel, undefined, false);
        else if (channel.kind === "latest") {
          channel.join(session, [{ filter, statePass: true, deletions: false }]);
        }
      }
    }
  }

  /** The session ended. */
  leaveAll(session: Session): void {
    for (const { filter } of session.subscriptions.values()) {
      if (filter.startsWith(QUEUE_FORM)) {
        const queue = this.routes.channel(filter.slice(QUEUE_FORM.length));
        if (queue?.kind === "queue") queue.leave(session);
      } else if (!filter.startsWith("$saguin/")) {
        this.broadcast.remove(filter, session);
        for (const channel of this.routes.touched(filter)) {
          if (channel.kind === "latest") channel.leave(session);
        }
      }
    }
  }
}

function isSharedForm(filter: string): boolean {
  return filter.length >= 6 && filter.slice(0, 6).toLowerCase() === "$share" &&
    (filter.length === 6 || filter[6] === "/");
}

function invalid(reason: string): Refusal {
  return { code: Reason.TopicFilterInvalid, reason };
}

function notAllowed(reason: string): Refusal {
  return { code: Reason.NotAuthorized, reason };
}
