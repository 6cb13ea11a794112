import { type Message, ownedMessage } from "../storage/record.ts";
import { SubscriptionTree } from "../topics/tree.ts";
import type { LogReader } from "./log.ts";
import type { Session } from "./session.ts";

/** Topics whose subscribers are remembered between two changes of any subscription. */
const CACHED_TOPICS = 8_192;

/** Who gets one broadcast, and how. */
export interface Audience {
  readonly subscribers: readonly Session[];
}

const NOBODY: Audience = { subscribers: [] };

/**
 * Live fan-out of what no channel claims (D8.1): who is subscribed when it is published. Durable
 * sessions are owed it through the log, everybody else gets it from memory.
 */
export class Broadcast {
  readonly #tree = new SubscriptionTree<Session, Session>();
  #audiences = new Map<string, Audience>();

  add(filter: string, subscriber: Session): void {
    this.#tree.add(filter, subscriber, subscriber);
    this.#audiences.clear();
  }

  remove(filter: string, subscriber: Session): void {
    this.#tree.remove(filter, subscriber);
    this.#audiences.clear();
  }

  audience(topic: string): Audience {
    let audience = this.#audiences.get(topic);
    if (audience === undefined) {
      const subscribers = new Set<Session>();
      if (!this.#tree.isEmpty) this.#tree.match(topic, (subscriber) => subscribers.add(subscriber));
      audience = subscribers.size === 0 ? NOBODY : { subscribers: [...subscribers] };
      if (this.#audiences.size >= CACHED_TOPICS) this.#audiences.clear();
      this.#audiences.set(topic, audience);
    }
    return audience;
  }

  /** The readers that are owed `message` through the log: durable, granted QoS 1 or 2 (D8.5). */
  owed(message: Message, audience: Audience): LogReader[] {
    if (message.qos === 0) return [];
    const readers: LogReader[] = [];
    for (const session of audience.subscribers) {
      const { log } = session;
      if (log === undefined) continue;
      const grant = session.grant(message);
      if (grant !== undefined && grant.qos > 0) readers.push(log);
    }
    return readers;
  }

  /** Hands `message` to everybody it is not owed to through the log. */
  deliver(message: Message, audience: Audience): void {
    if (audience.subscribers.length === 0) return;
    const owned = ownedMessage(message);
    for (const session of audience.subscribers) {
      const grant = session.grant(owned);
      if (grant === undefined) continue;
      const qos = Math.min(grant.qos, owned.qos) as 0 | 1 | 2;
      if (qos > 0 && session.log !== undefined) continue;
      session.live.offer(owned, grant, qos, false);
    }
  }
}
