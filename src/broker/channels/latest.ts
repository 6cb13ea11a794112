import { fromMilliseconds, type Nanoseconds } from "../../platform/clock.ts";
import type { LatestStore, Provider } from "../../storage/contract.ts";
import {
  type Message,
  type Offset,
  ownedMessage,
  type StoredRecord,
} from "../../storage/record.ts";
import { SubscriptionTree } from "../../topics/tree.ts";
import type { Context } from "../context.ts";
import { FEW_READERS, SENT_AT_ONCE } from "../reach.ts";
import type { Session } from "../session.ts";
import { Arrivals } from "./arrivals.ts";
import { LatestView, type ViewRequest } from "./latest_view.ts";

/** Topics whose viewers are remembered between two changes of any subscription. */
const CACHED_TOPICS = 8_192;

/** A change that took no offset stands this far behind the newest one. */
const BETWEEN_OFFSETS = 0.5;

export interface LatestPolicy {
  /** Age at which a value ceases to exist (D13.7); undefined: never. */
  readonly retentionPeriodMs: number | undefined;
  /** The same for stored deletions (D13.6). */
  readonly deletionRetentionPeriodMs: number | undefined;
}

/** A `latest` channel at work: its values, and the sessions that look at them. */
export class LatestChannel {
  readonly kind = "latest";
  /** Publishes accepted. */
  published = 0;
  /** Waiting values that a newer one replaced. */
  superseded = 0;
  /** Values and deletions that retention removed. */
  retentionRemoved = 0;
  readonly arrivals: Arrivals;
  readonly #views = new Map<Session, LatestView>();
  readonly #filters = new SubscriptionTree<LatestView, LatestView>();
  readonly #viewers = new Map<string, readonly LatestView[]>();

  /** The provider that keeps `store` is open. */
  constructor(
    readonly name: string,
    readonly store: LatestStore,
    readonly provider: Provider,
    readonly policy: LatestPolicy,
    private readonly context: Context,
  ) {
    this.arrivals = new Arrivals(store.next());
  }

  // -------------------------------------------------------------------------------------- changes

  /**
   * A committed change; an empty payload is a stored deletion. Every offset of the store is reported
   * once, in about the order of commits: one that comes after a newer change of its topic is let go.
   */
  recorded(offset: Offset, message: Message): void {
    const { log } = this.context;
    if (message.payload.byteLength === 0 && log.enabled("debug")) {
      log.debug("deleted a value", { channel: this.name, topic: message.topic, offset });
    }
    if (this.arrivals.report(offset, message.topic)) this.#changed(offset, message, offset);
  }

  /** An empty publish to a topic without a value: nothing was stored, and it is delivered (D13.2). */
  deletedNothing(message: Message): void {
    this.#changed(0, message, this.arrivals.end - 1 + BETWEEN_OFFSETS);
  }

  #changed(offset: Offset, message: Message, order: number): void {
    if (this.#views.size === 0) return;
    const viewers = this.#viewersOf(message.topic);
    if (viewers.length === 0) return;
    const record: StoredRecord = { offset, message: ownedMessage(message) };
    for (const view of viewers) view.changed(record, order);
  }

  /** What a change of `topic` costs when it is reported (`PublishEntry.reach`). */
  reach(topic: string): number {
    return this.#views.size < FEW_READERS ? 0 : SENT_AT_ONCE * this.#viewersOf(topic).length;
  }

  #viewersOf(topic: string): readonly LatestView[] {
    let viewers = this.#viewers.get(topic);
    if (viewers === undefined) {
      const found = new Set<LatestView>();
      this.#filters.match(topic, (view) => found.add(view));
      viewers = [...found];
      if (this.#viewers.size >= CACHED_TOPICS) this.#viewers.clear();
      this.#viewers.set(topic, viewers);
    }
    return viewers;
  }

  // -------------------------------------------------------------------------------------- viewers

  view(session: Session): LatestView | undefined {
    return this.#views.get(session);
  }

  get views(): ReadonlyMap<Session, LatestView> {
    return this.#views;
  }

  /**
   * The session looks at the channel through these filters too. They are recorded with the session,
   * and their SUBACK is written. A session that is away is served when it comes back.
   */
  join(session: Session, requests: readonly ViewRequest[]): LatestView {
    let view = this.#views.get(session);
    if (view === undefined) {
      view = new LatestView(this, session, this.context);
      this.#views.set(session, view);
      session.addSource(view);
    }
    this.#forgetUnsubscribed(view, session);
    for (const { filter } of requests) {
      view.filters.add(filter);
      this.#filters.add(filter, view, view);
    }
    this.#viewers.clear();
    view.join(requests);
    return view;
  }

  /** A filter that was unsubscribed grants nothing; here it is only room that it takes. */
  #forgetUnsubscribed(view: LatestView, session: Session): void {
    for (const filter of view.filters) {
      if (session.subscriptions.has(filter)) continue;
      view.filters.delete(filter);
      this.#filters.remove(filter, view);
    }
  }

  /** The session ended, or its last filter here went: its mark goes too. */
  leave(session: Session): void {
    const view = this.#views.get(session);
    if (view === undefined) return;
    this.#views.delete(session);
    session.removeSource(view);
    for (const filter of view.filters) this.#filters.remove(filter, view);
    this.#viewers.clear();
    view.close();
  }

  // ------------------------------------------------------------------------------------ retention

  /** True when retention no longer lets the value, or the deletion, exist. */
  isPast(message: Message): boolean {
    const { retentionPeriodMs, deletionRetentionPeriodMs } = this.policy;
    const periodMs = message.payload.byteLength === 0
      ? deletionRetentionPeriodMs
      : retentionPeriodMs;
    if (periodMs === undefined || message.timestamp === 0n) return false;
    return message.timestamp < cutoff(this.context.clock.wall(), periodMs);
  }

  /**
   * Removes what is past retention (S196).
   * @throws StorageFailure; the next sweep tries again
   */
  async sweep(now: Nanoseconds): Promise<void> {
    const { retentionPeriodMs, deletionRetentionPeriodMs } = this.policy;
    if (retentionPeriodMs === undefined && deletionRetentionPeriodMs === undefined) return;
    const { removed, freed } = await this.store.trim(
      cutoff(now, retentionPeriodMs),
      cutoff(now, deletionRetentionPeriodMs),
    );
    if (removed === 0) return;
    this.retentionRemoved += removed;
    this.context.log.info("retention removed values of a channel", {
      channel: this.name,
      removed,
      bytes: freed,
    });
  }
}

/** What is older than this is past its period; 0n for no period. */
function cutoff(now: Nanoseconds, periodMs: number | undefined): Nanoseconds {
  if (periodMs === undefined) return 0n;
  const before = now - fromMilliseconds(periodMs);
  return before > 0n ? before : 0n;
}
