import { type Message, ownedMessage } from "../storage/record.ts";
import { SubscriptionTree } from "../topics/tree.ts";
import type { Debt } from "./log.ts";
import type { Grant, Session } from "./session.ts";

/** Topics whose subscribers are remembered between two changes of any subscription... */
const CACHED_TOPICS = 8_192;
/** ... and those who get their messages, of all of them together: eight bytes each. */
const CACHED_SUBSCRIBERS = 500_000;

const NOBODY: readonly Session[] = [];
const NO_DEBTS: readonly Debt[] = [];

/**
 * Who gets one broadcast, and how; decided when it is published (D8.1, D8.5). All messages of a topic share
 * it as long as nobody's subscriptions change: there may be thousands in it.
 */
export interface Audience {
  /** Owed it through the log: durable, granted QoS 1 or 2. */
  readonly debts: readonly Debt[];
  /** Everybody else: from memory. */
  readonly live: readonly Session[];
}

interface RememberedAudience extends Audience {
  /** Client ids whose own messages have another audience: No Local. */
  apart?: ReadonlySet<string>;
}

/** `granted`: what a subscriber's filters grant it of the message. */
function divide(
  subscribers: readonly Session[],
  granted: (session: Session) => Grant | undefined,
): RememberedAudience {
  let debts: Debt[] | undefined;
  let live: Session[] | undefined;
  for (let i = 0; i < subscribers.length; i++) {
    const session = subscribers[i];
    const { log } = session;
    if (log !== undefined && (granted(session)?.qos ?? 0) > 0) {
      live ??= subscribers.slice(0, i);
      (debts ??= []).push(log);
    } else live?.push(session);
  }
  return debts === undefined ? { debts: NO_DEBTS, live: subscribers } : { debts, live: live! };
}

/**
 * Live fan-out of what no channel claims (D8.1): who is subscribed when it is published. Durable
 * sessions are owed it through the log, everybody else gets it from memory.
 */
export class Broadcast {
  readonly #tree = new SubscriptionTree<Session, Session>();
  readonly #subscribers = new Map<string, readonly Session[]>();
  /** Of messages that are owed at all, to topics in `#subscribers`. */
  readonly #audiences = new Map<string, RememberedAudience>();
  /** Sessions in both of them. */
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
    this.#audiences.clear();
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

  /** Who of the `subscribers` of its topic is owed `message` through the log, and who gets it live. */
  audience(message: Message, subscribers: readonly Session[]): Audience {
    if (message.qos === 0) return { debts: NO_DEBTS, live: subscribers };
    const { topic, clientId } = message;
    let known = this.#audiences.get(topic);
    if (known === undefined) {
      const apart = new Set<string>();
      known = divide(subscribers, (session) => {
        const { own, others } = session.grants(topic);
        if (own !== others) apart.add(session.clientId);
        return others;
      });
      if (apart.size > 0) known.apart = apart;
      this.#rememberAudience(topic, known);
    }
    return known.apart?.has(clientId) === true
      ? divide(subscribers, (session) => session.grant(message))
      : known;
  }

  #rememberAudience(topic: string, audience: RememberedAudience): void {
    if (audience.debts.length > 0) {
      this.#remembered += audience.debts.length + audience.live.length;
      if (this.#remembered > CACHED_SUBSCRIBERS) return this.#forget();
    }
    this.#audiences.set(topic, audience);
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
