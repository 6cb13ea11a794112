import {
  type GroupImage,
  sessionReader,
  type SessionStore,
  StorageFailure,
  type StoredSubscription,
} from "../storage/contract.ts";
import type { Headers, Offset } from "../storage/record.ts";
import { intersects } from "../topics/filter.ts";
import type { Broadcast } from "./broadcast.ts";
import type { AppendChannel } from "./channels/append.ts";
import type { LatestChannel } from "./channels/latest.ts";
import type { QueueChannel } from "./channels/queue.ts";
import type { Context } from "./context.ts";
import { DeclaredSlices } from "./declared_slices.ts";
import {
  FilterAdmission,
  type FilterRequest,
  isPlain,
  isShared,
  QUEUE_FORM,
} from "./filter_admission.ts";
import type { BroadcastLog } from "./log.ts";
import { Reason, type ReasonCode, type Refusal } from "./reason.ts";
import { type RetainedParts, RetainedPass } from "./retained.ts";
import type { Routes } from "./routes.ts";
import type { Session } from "./session.ts";
import { sharedInner, type Shares } from "./share/shares.ts";

export { type FilterRequest, SubscribeProtocolError } from "./filter_admission.ts";

export interface SubscribeRequest {
  readonly filters: readonly FilterRequest[];
  readonly identifier: number | undefined;
  readonly userProperties: Headers | undefined;
}

/** One code for each filter, and the first refusal's sentence. */
export type SubscribeAnswer = (codes: readonly ReasonCode[], reason: string | undefined) => void;

const NO_GRANT: Refusal = {
  code: Reason.NotAuthorized,
  reason: "no grant to read everything that the filter matches",
};

/**
 * Slices that the filters of one session may declare together: ten for each of the most filters there are
 * by default. They are kept with every filter, so one packet could declare millions.
 */
const MOST_SLICES = 100_000;
const TOO_MANY_SLICES: Refusal = {
  code: Reason.QuotaExceeded,
  reason: `more slices than the ${MOST_SLICES} that the filters of a session may declare together`,
};

/**
 * Filters of one SUBSCRIBE that are granted though `limits.max_subscriptions` is lower. One that is written
 * again costs what the first did, and a megabyte has room for 150,000 of them.
 */
const MOST_AT_ONCE = 10_000;

interface Grantable {
  readonly code: ReasonCode;
  readonly subscription: StoredSubscription;
  readonly request: FilterRequest;
  /** The session did not hold the filter before. */
  readonly fresh: boolean;
}

/** Which filters are granted (02a sections 2, 4, 6), and what each of them begins. */
export class Subscriptions {
  readonly #admission: FilterAdmission;
  readonly #slices = new DeclaredSlices();
  readonly #tooMany: Refusal;
  /** Whose last word from here was `#tooMany`, and who has added no filter since (02a 13.6). */
  readonly #full = new WeakSet<Session>();

  constructor(
    private readonly context: Context,
    private readonly routes: Routes,
    private readonly broadcast: Broadcast,
    private readonly log: BroadcastLog,
    private readonly shares: Shares,
    private readonly retained: RetainedParts,
    private readonly store: SessionStore,
  ) {
    this.#admission = new FilterAdmission(routes, context.limits);
    this.#tooMany = {
      code: Reason.QuotaExceeded,
      reason: `more filters than limits.max_subscriptions (${context.limits.maxSubscriptions})`,
    };
  }

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
    if (session.link === undefined || session.ended) return;
    const outcomes = this.#decide(session, request);
    const granted = outcomes.filter((outcome): outcome is Grantable => !("reason" in outcome));
    const positions = await this.#positions(session, granted);
    const founding = await this.#founding(session, granted);
    try {
      const refused = await this.#storeStarts(session, positions) ??
        await this.#save(session, granted, founding.images);
      if (refused === undefined) {
        this.shares.founded(founding.images);
        if (granted.some(({ fresh }) => fresh)) this.#full.delete(session);
      }
      // A connection lost meanwhile hears nothing; what is stored holds all the same.
      if (session.ended) return;
      this.#warn(session, request, outcomes, refused);
      this.#answer(outcomes, refused, answer);
      if (refused === undefined) this.#begin(session, request, granted, positions);
    } finally {
      founding.unlock();
    }
  }

  /** One line a packet: of the first filter that is refused for what was not said already. */
  #warn(
    session: Session,
    { filters }: SubscribeRequest,
    outcomes: readonly (Grantable | Refusal)[],
    refused: Refusal | undefined,
  ): void {
    const refusals = outcomes.map((outcome) => "reason" in outcome ? outcome : refused);
    const at = refusals.findIndex((refusal) =>
      refusal !== undefined && (refusal !== this.#tooMany || !this.#full.has(session))
    );
    const refusal = refusals[at];
    if (refusal === undefined) return;
    if (refusal === this.#tooMany) this.#full.add(session);
    this.context.log.warn("refused a subscription", {
      client: session.clientId,
      filter: filters[at].filter,
      code: refusal.code,
      reason: refusal.reason,
    });
  }

  #answer(
    outcomes: readonly (Grantable | Refusal)[],
    refused: Refusal | undefined,
    answer: SubscribeAnswer,
  ): void {
    const codes = outcomes.map((outcome) =>
      "reason" in outcome ? outcome.code : refused?.code ?? outcome.code
    );
    const reason = outcomes.find((outcome): outcome is Refusal => "reason" in outcome)?.reason ??
      refused?.reason;
    for (const code of codes) {
      if (code >= 0x80) this.context.counters.subscriptionsRefused.add(code);
    }
    answer(codes, reason);
  }

  /** The cursors of groups that a stored session is the first to hold, and nobody else meanwhile. */
  async #founding(
    session: Session,
    granted: readonly Grantable[],
  ): Promise<{ readonly images: readonly GroupImage[]; readonly unlock: () => void }> {
    const names = session.stored
      ? granted.map(({ subscription }) => subscription.filter).filter(isShared)
      : [];
    if (names.length === 0) return { images: [], unlock: () => {} };
    const unlock = await this.shares.lock(names);
    return { images: this.shares.missing(names), unlock };
  }

  #decide(session: Session, request: SubscribeRequest): (Grantable | Refusal)[] {
    const declared = this.#admission.packet(request.userProperties);
    if ("code" in declared) return request.filters.map(() => declared);
    // Of this packet; a client may hold very many, so they are not copied.
    const granted = new Set<string>();
    let held = session.subscriptions.size;
    let { slices } = session;
    const declares = declared.partitions?.indices.length ?? 0;
    const { maxSubscriptions } = this.context.limits;
    const most = Math.max(maxSubscriptions, MOST_AT_ONCE);
    return request.filters.map((asked, place) => {
      const decided = this.#admission.filter(session, asked, declared.partitions);
      if ("reason" in decided) return decided;
      if (session.access?.rules.maySubscribe(sharedInner(asked.filter) ?? asked.filter) === false) {
        return NO_GRANT;
      }
      const before = session.subscriptions.get(asked.filter);
      const again = granted.has(asked.filter);
      const fresh = before === undefined && !again;
      if (place >= most || (fresh && held >= maxSubscriptions)) return this.#tooMany;
      const replaced = again ? declares : before?.partitions?.indices.length ?? 0;
      if (declares > replaced && slices + declares - replaced > MOST_SLICES) {
        return TOO_MANY_SLICES;
      }
      slices += declares - replaced;
      granted.add(asked.filter);
      if (fresh) held++;
      const subscription: StoredSubscription = {
        filter: asked.filter,
        qos: decided.qos,
        noLocal: asked.noLocal,
        retainAsPublished: asked.retainAsPublished,
        retainHandling: asked.retainHandling,
        identifier: request.identifier,
        partitions: declared.partitions,
        logOffset: this.#owedFrom(before),
      };
      return { code: decided.qos as ReasonCode, subscription, request: asked, fresh };
    });
  }

  /**
   * From which message of the log on a subscription counts. One that replaces its like is owed what that
   * was owed: else a restart would forget what is still to come (D8.5).
   */
  #owedFrom(replaced: StoredSubscription | undefined): Offset {
    return replaced !== undefined && replaced.qos > 0 ? replaced.logOffset : this.log.store.next();
  }

  /** Stored positions of the channels that the session is about to read for the first time. */
  async #positions(
    session: Session,
    granted: readonly Grantable[],
  ): Promise<Map<AppendChannel, Offset | undefined>> {
    const positions = new Map<AppendChannel, Offset | undefined>();
    for (const { subscription: { filter } } of granted) {
      if (!isPlain(filter)) continue;
      for (const channel of this.routes.touched(filter)) {
        if (channel.kind !== "append" || positions.has(channel)) continue;
        if (channel.consumer(session) !== undefined) continue;
        positions.set(
          channel,
          session.inherited?.get(channel) ?? await this.#position(session, channel),
        );
      }
    }
    return positions;
  }

  async #position(session: Session, channel: AppendChannel): Promise<Offset | undefined> {
    // One that was resumed for this connection alone has its positions still.
    if (!session.stored) return undefined;
    const stored = await channel.store.position(sessionReader(session.clientId));
    return stored?.offset;
  }

  /**
   * Where a session that outlives its connection begins to read is stored before its SUBACK: otherwise
   * a stop would leave it to what the channel's `start` comes to then, past records it was promised.
   */
  async #storeStarts(
    session: Session,
    positions: Map<AppendChannel, Offset | undefined>,
  ): Promise<Refusal | undefined> {
    if (!session.stored) return undefined;
    const starts = [...positions].filter(([, position]) => position === undefined);
    try {
      await Promise.all(starts.map(([channel]) => {
        const offset = channel.start;
        positions.set(channel, offset);
        return channel.store.savePosition({
          reader: sessionReader(session.clientId),
          offset,
          expiry: session.expiry,
          lastSeen: this.context.clock.wall(),
        }, "answering");
      }));
      return undefined;
    } catch (error) {
      return this.#notStored(error);
    }
  }

  #notStored(error: unknown): Refusal {
    if (!(error instanceof StorageFailure)) throw error;
    this.context.counters.storageErrors.add("sessions");
    return {
      code: error.kind === "full" ? Reason.QuotaExceeded : Reason.ImplementationSpecificError,
      reason: error.message,
    };
  }

  /** The record with what is granted, and the cursors of groups it founds: one write (D9.8). */
  async #save(
    session: Session,
    granted: readonly Grantable[],
    found: readonly GroupImage[],
  ): Promise<Refusal | undefined> {
    if (!session.stored || granted.length === 0) return undefined;
    const record = session.record();
    const subscriptions = new Map(record.subscriptions.map((each) => [each.filter, each]));
    for (const { subscription } of granted) subscriptions.set(subscription.filter, subscription);
    try {
      await this.store.save(
        { ...record, subscriptions: [...subscriptions.values()] },
        "answering",
        { found, end: [] },
      );
      return undefined;
    } catch (error) {
      return this.#notStored(error);
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
      this.#queue(filter)?.join(session);
      if (!isPlain(filter)) continue;
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
    const plain = isPlain(filter);
    const several = plain &&
      this.routes.touched(filter).filter(({ kind }) => kind !== "queue").length > 1;
    session.subscribe(subscription, several);
    if (plain) {
      this.broadcast.add(filter, session);
      this.#declare(session, subscription);
    } else if (isShared(filter)) this.shares.join(session, subscription);
  }

  #declare({ clientId }: Session, { filter, partitions }: StoredSubscription): void {
    if (partitions === undefined) return this.#slices.withdraw(filter, clientId);
    const other = this.#slices.declare(filter, clientId, partitions.count);
    if (other === undefined) return;
    this.context.log.warn(
      "two clients divide the same filter into different numbers of partitions",
      {
        filter,
        client: clientId,
        partitions: partitions.count,
        other,
      },
    );
  }

  // ---------------------------------------------------------------------------------- unsubscribe

  /** One code for each filter; a store that cannot forget a filter leaves the client subscribed. */
  async unsubscribe(session: Session, filters: readonly string[]): Promise<ReasonCode[]> {
    const held = filters.filter((filter) => session.subscriptions.has(filter));
    const shared = session.stored ? held.filter(isShared) : [];
    const unlock = await this.shares.lock(shared);
    try {
      const end = this.shares.lastOf(session, shared);
      if (!await this.#saveWithout(session, new Set(held), end)) {
        return filters.map(() => Reason.ImplementationSpecificError);
      }
      const codes = filters.map((filter) =>
        this.#forget(session, filter) ? Reason.Success : Reason.NoSubscriptionExisted
      );
      this.shares.ended(end);
      return codes;
    } finally {
      unlock();
    }
  }

  /** False: the store could not forget them. */
  async #saveWithout(
    session: Session,
    gone: ReadonlySet<string>,
    end: readonly string[],
  ): Promise<boolean> {
    if (!session.stored || gone.size === 0) return true;
    const record = session.record();
    const subscriptions = record.subscriptions.filter(({ filter }) => !gone.has(filter));
    try {
      await this.store.save({ ...record, subscriptions }, "answering", { found: [], end });
      return true;
    } catch (error) {
      if (!(error instanceof StorageFailure)) throw error;
      this.context.counters.storageErrors.add("sessions");
      return false;
    }
  }

  #forget(session: Session, filter: string): boolean {
    if (!session.unsubscribe(filter)) return false;
    this.#withdraw(session, filter);
    if (!isPlain(filter)) return true;
    for (const channel of this.routes.touched(filter)) {
      if (channel.kind === "queue" || this.#stillReaches(session, channel)) continue;
      if (channel.kind === "append") channel.consumer(session)?.pause();
      else channel.leave(session);
    }
    return true;
  }

  /** Nothing new comes of the filter. */
  #withdraw(session: Session, filter: string): void {
    if (isShared(filter)) this.shares.leave(session, filter);
    else if (isPlain(filter)) {
      this.broadcast.remove(filter, session);
      this.#slices.withdraw(filter, session.clientId);
    } else this.#queue(filter)?.leave(session);
  }

  /** The queue that a pin names. */
  #queue(filter: string): QueueChannel | undefined {
    if (!filter.startsWith(QUEUE_FORM)) return undefined;
    const channel = this.routes.channel(filter.slice(QUEUE_FORM.length));
    return channel?.kind === "queue" ? channel : undefined;
  }

  #stillReaches(session: Session, channel: AppendChannel | LatestChannel): boolean {
    const placement = this.routes.placement(channel.name);
    if (placement === undefined) return false;
    for (const filter of session.subscriptions.keys()) {
      if (isPlain(filter) && placement.filters.some((claim) => intersects(claim, filter))) {
        return true;
      }
    }
    return false;
  }

  // ------------------------------------------------------------------------------ start and ending

  /** A stored filter of a session that came back; nothing is delivered before it connects. */
  restore(session: Session, subscription: StoredSubscription): void {
    this.#record(session, subscription);
  }

  /** Why a stored filter would be refused now (D6.14). */
  refusalNow(session: Session, subscription: StoredSubscription): Refusal | undefined {
    return this.#admission.refusalNow(session, subscription);
  }

  /** The session connected for the first time since the start: it reads what its filters reach. */
  joinAll(session: Session): void {
    for (const { filter } of session.subscriptions.values()) {
      this.#queue(filter)?.join(session);
      if (!isPlain(filter)) continue;
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
    for (const filter of session.subscriptions.keys()) {
      // Its groups hear of it from whoever ends it, with what they get back (D9.12).
      if (isShared(filter)) continue;
      this.#withdraw(session, filter);
      if (!isPlain(filter)) continue;
      for (const channel of this.routes.touched(filter)) {
        if (channel.kind === "latest") channel.leave(session);
      }
    }
  }
}
