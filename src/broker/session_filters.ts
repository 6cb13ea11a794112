import type { StoredSubscription } from "../storage/contract.ts";
import type { QoS } from "../storage/record.ts";
import { matches } from "../topics/filter.ts";
import { inSlices } from "../topics/partition.ts";
import { SubscriptionTree } from "../topics/tree.ts";

/** What a session's subscriptions say of one topic: one copy, whatever number of them match (D4.6). */
export interface Grant {
  readonly qos: QoS;
  readonly retainAsPublished: boolean;
  readonly identifiers: readonly number[];
  /** A matching filter reaches more than one channel, so offsets need their channel's name (D4.4). */
  readonly several: boolean;
}

/** What is granted of one topic. The same object twice unless a matching filter says No Local. */
export interface TopicGrants {
  /** For messages of other clients. */
  readonly others: Grant | undefined;
  /** For the session's own: only what lacks No Local (D10.5). */
  readonly own: Grant | undefined;
}

/** One for all, so that deliveries that are alike are seen to be. */
const NO_IDENTIFIERS: readonly number[] = [];

/** Topics whose grant is remembered; publishers repeat topics. */
const CACHED_TOPICS = 1_024;

/**
 * The same of a session that is away: it is asked about every broadcast, and there may be very many such
 * sessions.
 */
const CACHED_WHILE_AWAY = 16;

/** Filters up to which a topic is held against each of them. */
const SCANNED_FILTERS = 32;

/** The filters one session holds, and what they grant together. */
export class SessionFilters {
  readonly subscriptions = new Map<string, StoredSubscription>();
  /** Those of them with a declared slice. */
  partitioned = 0;
  /** The slices that they declare, over all of them. */
  slices = 0;
  /** Moves with every change: a read begun before it is read again (S19). */
  version = 0;
  /** Made when there is something to keep: many sessions only publish. */
  #several: Set<string> | undefined;
  #grants: Map<string, TopicGrants> | undefined;
  /** Once they are many; shared filters and names of queues are in it and match no topic. */
  #tree: SubscriptionTree<string, string> | undefined;

  /** `deniesExactlyOnce`: whether the ACL file leaves the client QoS 1 at most. */
  constructor(private readonly deniesExactlyOnce: () => boolean) {}

  /** `several`: the filter reaches more than one channel. */
  add(subscription: StoredSubscription, several: boolean): void {
    const { filter } = subscription;
    this.#forgetSlice(filter);
    if (subscription.partitions !== undefined) {
      this.partitioned++;
      this.slices += subscription.partitions.indices.length;
    }
    this.subscriptions.set(filter, subscription);
    if (several) (this.#several ??= new Set()).add(filter);
    this.#tree?.add(filter, filter, filter);
    if (this.#tree === undefined && this.subscriptions.size > SCANNED_FILTERS) this.#plant();
    this.changed();
  }

  #plant(): void {
    this.#tree = new SubscriptionTree();
    for (const filter of this.subscriptions.keys()) this.#tree.add(filter, filter, filter);
  }

  /** False: it was not held. */
  remove(filter: string): boolean {
    this.#forgetSlice(filter);
    if (!this.subscriptions.delete(filter)) return false;
    this.#several?.delete(filter);
    this.#tree?.remove(filter, filter);
    this.changed();
    return true;
  }

  #forgetSlice(filter: string): void {
    const partitions = this.subscriptions.get(filter)?.partitions;
    if (partitions === undefined) return;
    this.partitioned--;
    this.slices -= partitions.indices.length;
  }

  /** What was granted is no longer to be relied on. */
  changed(): void {
    this.version++;
    this.#grants?.clear();
  }

  /** Gives the memory back that answers were kept in. */
  forget(): void {
    this.#grants = undefined;
  }

  /** What the filters grant of messages of `topic`. `away`: the session has no connection. */
  grants(topic: string, away: boolean): TopicGrants {
    const known = this.#grants ??= new Map();
    let grants = known.get(topic);
    if (grants === undefined) {
      if (known.size >= (away ? CACHED_WHILE_AWAY : CACHED_TOPICS)) known.clear();
      const matching = this.#matching(topic);
      const others = this.#combine(matching, false);
      const alike = matching.every(({ noLocal }) => !noLocal);
      grants = { others, own: alike ? others : this.#combine(matching, true) };
      known.set(topic, grants);
    }
    return grants;
  }

  /** Subscriptions whose filter and slice `topic` is in. */
  #matching(topic: string): StoredSubscription[] {
    const matching: StoredSubscription[] = [];
    const take = (subscription: StoredSubscription) => {
      if (inSlices(subscription.partitions, topic)) matching.push(subscription);
    };
    if (this.#tree !== undefined) {
      this.#tree.match(topic, (filter) => take(this.subscriptions.get(filter)!));
    } else {
      for (const subscription of this.subscriptions.values()) {
        if (matches(subscription.filter, topic)) take(subscription);
      }
    }
    return matching;
  }

  #combine(matching: readonly StoredSubscription[], own: boolean): Grant | undefined {
    let qos: QoS | undefined;
    let retainAsPublished = false;
    let several = false;
    const identifiers: number[] = [];
    for (const subscription of matching) {
      if (own && subscription.noLocal) continue;
      if (qos === undefined || subscription.qos > qos) qos = subscription.qos;
      if (subscription.retainAsPublished) retainAsPublished = true;
      if (subscription.identifier !== undefined) identifiers.push(subscription.identifier);
      if (this.#several?.has(subscription.filter)) several = true;
    }
    if (qos === 2 && this.deniesExactlyOnce()) qos = 1;
    if (qos === undefined) return undefined;
    return {
      qos,
      retainAsPublished,
      identifiers: identifiers.length === 0 ? NO_IDENTIFIERS : identifiers,
      several,
    };
  }
}
