import { type Message, ownedMessage } from "../storage/record.ts";
import { SubscriptionTree } from "../topics/tree.ts";
import type { Debt } from "./log.ts";
import type { Session } from "./session.ts";

/** Topics whose subscribers are remembered between two changes of any subscription... */
const CACHED_TOPICS = 8_192;
/** ... and the subscribers of all of them together: eight bytes each. */
const CACHED_SUBSCRIBERS = 500_000;

const NOBODY: readonly Session[] = [];
const NO_DEBTS: readonly Debt[] = [];

/** Who gets one broadcast, and how; decided when it is published (D8.1, D8.5). */
export interface Audience {
  /** Owed it through the log: durable, granted QoS 1 or 2. */
  readonly debts: readonly Debt[];
  /** Everybody else: from memory. */
  readonly live: readonly Session[];
}

/**
 * Live fan-out of what no channel claims (D8.1): who is subscribed when it is published. Durable
 * sessions are owed it through the log, everybody else gets it from memory.
 */
export class Broadcast {
  readonly #tree = new SubscriptionTree<Session, Session>();
  readonly #subscribers = new Map<string, readonly Session[]>();
  #remembered = 0;

  add(filter: string, subscriber: Session): void {
    this.#tree.add(filter, subscriber, subscriber);
    this.#forget();
  }

  remove(filter: string, subscriber: Session): void {
    this.#tree.remove(filter, subscriber);
    this.#forget();
  }

  #forget(): void {
    this.#subscribers.clear();
    this.#remembered = 0;
  }

  /** Sessions with a filter that `topic` matches, each once. */
  subscribers(topic: string): readonly Session[] {
    let subscribers = this.#subscribers.get(topic);
    if (subscribers === undefined) {
      const found = new Set<Session>();
      if (!this.#tree.isEmpty) this.#tree.match(topic, (subscriber) => found.add(subscriber));
      subscribers = found.size === 0 ? NOBODY : [...found];
      this.#remembered += subscribers.length;
      if (this.#subscribers.size >= CACHED_TOPICS || this.#remembered > CACHED_SUBSCRIBERS) {
        this.#forget();
        this.#remembered = subscribers.length;
      }
      this.#subscribers.set(topic, subscribers);
    }
    return subscribers;
  }

  /** Who of `subscribers` is owed `message` through the log, and who gets it live. */
  audience(message: Message, subscribers: readonly Session[]): Audience {
    if (message.qos === 0) return { debts: NO_DEBTS, live: subscribers };
    let debts: Debt[] | undefined;
    let live: Session[] | undefined;
    for (let i = 0; i < subscribers.length; i++) {
      const session = subscribers[i];
      const { log } = session;
      if (log !== undefined && (session.grant(message)?.qos ?? 0) > 0) {
        live ??= subscribers.slice(0, i);
        (debts ??= []).push(log);
      } else live?.push(session);
    }
    return debts === undefined ? { debts: NO_DEBTS, live: subscribers } : { debts, live: live! };
  }

  /** Hands `message` to everybody it is not owed to through the log. */
  deliver(message: Message, live: readonly Session[]): void {
    if (live.length === 0) return;
    const owned = ownedMessage(message);
    for (const session of live) {
      const grant = session.grant(owned);
      if (grant === undefined) continue;
      session.live.offer(owned, grant, Math.min(grant.qos, owned.qos) as 0 | 1 | 2);
    }
  }
}
