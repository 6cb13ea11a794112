/**
 * The guarantees as a machine that hears what clients send and get, and throws `Broken` when a promise is
 * not kept. It knows nothing of how the broker works: publishes that were answered, deliveries,
 * acknowledgements, accidents, and what may follow from them.
 *
 * | Invariant | Asserted by |
 * |---|---|
 * | 1 | `Reading`: order, nothing stepped over, Session Present 0 below the floor; the runner: answers to seeks |
 * | 3, 4 | `Working.offered`, `Working.finish` |
 * | 5 | `Working.letter`, `Working.offered`, `Working.finish` |
 * | 6 | `Working.finish`, and the attempt of a later offer |
 * | 8, 9 | `Records` |
 * | 15 | `Working.offered`, `Working.finish`, and `idle` |
 * | 17 | `connected`, and whatever a session is owed after somebody else tried its client id |
 * | 18 | everything answered is there after a crash: `connected`, `Records`, `Casting`, `Working`, `finish` |
 */
import { Casting } from "./casting.ts";
import {
  type Ack,
  at,
  Broken,
  channelOf,
  type Consumer,
  type Exchange,
  type Facts,
  isAppend,
  isQueue,
  matches,
  noFacts,
  pinnedQueue,
  type Publish,
  type SessionFacts,
  sharedFilter,
  type Subscription,
} from "./facts.ts";
import { channelsOf, Reading } from "./reading.ts";
import { Records } from "./records.ts";
import { MEET_MS, Working } from "./working.ts";
import { EXPIRY_SLACK_MS, MAX_EXPIRY } from "./world.ts";

/** What a CONNECT asks for, as far as a session keeps it. */
export interface Asked {
  readonly client: string;
  readonly level: 4 | 5;
  readonly clean: boolean;
  readonly expiry: number;
  readonly window: number;
}

/** A delivery of an append channel to a client that is not told offsets. */
export interface Unplaced {
  readonly client: string;
  readonly connection: number;
  readonly channel: string;
  readonly mark: string;
  readonly qos: number;
  unacknowledged(): boolean;
}

export class Model {
  facts: Facts = noFacts();
  /** What a memory provider goes back to. */
  #snapshot: Facts = noFacts();
  readonly records = new Records();
  readonly reading: Reading;
  readonly casting: Casting;
  readonly working: Working;
  #events = 0;

  constructor(private readonly slackMs: number) {
    this.reading = new Reading(slackMs);
    this.casting = new Casting(slackMs);
    this.working = new Working(slackMs);
  }

  session(client: string): SessionFacts | undefined {
    return this.facts.sessions.get(client);
  }

  // ------------------------------------------------------------------------------------ sessions

  /** A CONNECT was answered with success. */
  connected(asked: Asked, present: boolean, connection: number, now: number): void {
    const old = this.session(asked.client);
    const expected = this.#expected(old, asked, now);
    if (present !== expected && expected !== undefined) {
      const who = `Session Present ${present ? 1 : 0} for ${asked.client}`;
      if (present) throw new Broken(this.#passed(old) ? "1" : "17", who);
      throw new Broken(old!.disturbed && !old!.restarted ? "17" : "18", who);
    }
    const away = old?.connection === undefined;
    if (!away) this.connectionGone(asked.client, old!.connection!, now);
    const granted = asked.level === 5
      ? Math.min(asked.expiry, MAX_EXPIRY)
      : asked.clean
      ? 0
      : MAX_EXPIRY;
    const session = present ? old! : this.#fresh(asked, old, away);
    if (!present && !asked.clean && old !== undefined && old.expiry > 0) {
      this.reading.inherited(this.facts, old, session);
    }
    session.level = asked.level;
    session.expiry = granted;
    session.expiryAtLeast = granted;
    session.window = asked.window;
    session.connection = connection;
    session.unsure = false;
    session.viewed.clear();
  }

  /** What Session Present has to be; undefined where either will do. */
  #expected(old: SessionFacts | undefined, asked: Asked, now: number): boolean | undefined {
    if (asked.clean || old === undefined) return false;
    if (old.unsure) return undefined;
    if (old.expiry === 0) return false;
    if (old.connection === undefined) {
      const { expiry, expiryAtLeast, awayAt, awayAtLatest } = old;
      if (now - awayAtLatest > expiry * 1_000 + EXPIRY_SLACK_MS) return false;
      if (now - awayAt > expiryAtLeast * 1_000 - EXPIRY_SLACK_MS) return undefined;
    }
    if (this.#passed(old)) return false;
    for (const [channel, { base }] of old.consumers) {
      if ((this.facts.floors.get(channel) ?? 1) > base) return undefined;
    }
    return true;
  }

  /** The floor passed one of its positions for certain. */
  #passed(session: SessionFacts | undefined): boolean {
    if (session === undefined) return false;
    for (const [channel, { doubtful }] of session.consumers) {
      if (doubtful) continue;
      const floor = this.facts.floors.get(channel) ?? 1;
      if (this.reading.highestPosition(this.facts, session, channel) < floor) return true;
    }
    return false;
  }

  #fresh(asked: Asked, old: SessionFacts | undefined, away: boolean): SessionFacts {
    if (old !== undefined) this.#ended(old, away);
    return this.#begun(asked.client, asked.level, asked.window);
  }

  #begun(client: string, level: 4 | 5, window: number): SessionFacts {
    const session: SessionFacts = {
      client,
      level,
      expiry: 0,
      expiryAtLeast: 0,
      window,
      connection: undefined,
      awayAt: 0,
      awayAtLatest: 0,
      awayKept: false,
      unsure: false,
      subscriptions: new Map(),
      consumers: new Map(),
      owed: new Map(),
      exchanges: new Map(),
      viewed: new Map(),
      blank: false,
      disturbed: false,
      restarted: false,
    };
    this.facts.sessions.set(client, session);
    return session;
  }

  /** `unseen`: while it was away, by its expiry or by now. */
  #ended(session: SessionFacts, unseen = false): void {
    this.facts.sessions.delete(session.client);
    for (const { mark, released } of session.exchanges.values()) {
      const publish = this.facts.publishes.get(mark)!;
      publish.fate = released ? "unsure" : "never";
    }
    this.casting.left(this.facts, session.client, undefined, unseen);
  }

  /**
   * A CONNECT went, and what became of it was not heard: a broker that died may have begun a session
   * where none was.
   */
  unheard(client: string): void {
    const session = this.session(client) ?? this.#begun(client, 5, 0);
    session.unsure = true;
    this.casting.doubted(this.facts, client);
    for (const { mark } of session.exchanges.values()) {
      this.facts.publishes.get(mark)!.fate = "unsure";
    }
    session.exchanges.clear();
  }

  /** Somebody who gets nothing tried the client id. */
  disturbed(client: string): void {
    const session = this.session(client);
    if (session !== undefined) session.disturbed = true;
  }

  connectionGone(client: string, connection: number, now: number): void {
    const session = this.session(client);
    this.working.connectionGone(this.facts, connection, now);
    if (session === undefined || session.connection !== connection) return;
    session.connection = undefined;
    session.awayAt = now;
    session.awayAtLatest = now;
    session.awayKept = false;
    for (const { filter, sure } of session.subscriptions.values()) {
      // Asked for, or taken back, and not answered.
      if (!sure) {
        for (const channel of channelsOf(filter)) this.reading.unheard(session, channel);
      }
    }
    for (const exchange of session.exchanges.values()) exchange.again ||= exchange.released;
    this.reading.connectionGone(session);
    this.casting.connectionGone(this.facts, session);
    if (session.expiry > 0) return;
    this.#ended(session);
    if (session.unsure) this.unheard(client);
  }

  /** The broker closed after a DISCONNECT without a Will. */
  left(client: string, connection: number, now: number, expiry: number | undefined): void {
    const session = this.session(client);
    if (session !== undefined && session.connection === connection) {
      this.reading.left(session);
      this.casting.cleanlyLeft(this.facts, session);
      if (expiry !== undefined && session.expiry > 0) {
        session.expiry = expiry;
        session.expiryAtLeast = expiry;
      }
    }
    this.connectionGone(client, connection, now);
  }

  /** A stop came after a DISCONNECT and before the close that answers it: it was stored, or it was not. */
  leftUnheard(client: string, connection: number, now: number, expiry: number | undefined): void {
    const session = this.session(client);
    if (session?.connection === connection && session.expiry > 0) {
      if (expiry === 0) this.unheard(client);
      else if (expiry !== undefined) {
        session.expiryAtLeast = Math.min(session.expiry, expiry);
        session.expiry = Math.max(session.expiry, expiry);
      }
    }
    this.connectionGone(client, connection, now);
  }

  // -------------------------------------------------------------------------------- subscriptions

  /** A SUBSCRIBE goes; what it asks for, undefined where nothing changes. */
  subscribing(client: string, filter: string, qos: number): Subscription {
    const session = this.session(client)!;
    const before = session.subscriptions.get(filter);
    const from = before?.sure === true ? before.from : new Map<string, number>();
    // Replaced by its like: what it was owed until then it is owed still.
    const like = before?.sure === true && before.qos === qos;
    const since = like ? before.since : this.#event();
    const subscription: Subscription = { filter, qos, since, sure: like, from, before };
    session.subscriptions.set(filter, subscription);
    return subscription;
  }

  subscribed(
    client: string,
    subscription: Subscription,
    handling: number,
    code: number,
    now: number,
  ): void {
    const session = this.session(client);
    if (session === undefined) return;
    const { filter } = subscription;
    const may = session.level === 5 || !filter.startsWith("$");
    if (code >= 0x80) {
      const zero = pinnedQueue(filter) !== undefined && subscription.qos === 0;
      if (may && !zero) throw new Broken("D14.4", `${client} was refused ${filter}: ${code}`);
      this.#withdrawn(session, subscription);
      return;
    }
    if (!may) throw new Broken("D14.4", `${client} was granted ${filter} at level 4`);
    subscription.before = undefined;
    // A publish that another client asked for before the SUBACK may have come before it.
    if (!subscription.sure) subscription.since = this.#event();
    // Unless it was taken back meanwhile.
    if (session.subscriptions.get(filter) === subscription) subscription.sure = true;
    this.reading.subscribed(this.facts, session, subscription, handling, now);
  }

  /** What is refused, or taken back, replaces nothing. */
  #withdrawn(session: SessionFacts, subscription: Subscription): void {
    const { filter, before } = subscription;
    let newest = session.subscriptions.get(filter);
    if (newest === subscription) {
      if (before === undefined) session.subscriptions.delete(filter);
      else session.subscriptions.set(filter, before);
      return;
    }
    for (; newest !== undefined; newest = newest.before) {
      if (newest.before === subscription) newest.before = before;
    }
  }

  /** An UNSUBSCRIBE goes; what it takes back. */
  unsubscribing(client: string, filter: string): Subscription | undefined {
    const session = this.session(client);
    const subscription = session?.subscriptions.get(filter);
    if (session === undefined || subscription === undefined) return undefined;
    this.reading.unsubscribing(session, filter);
    subscription.sure = false;
    subscription.before = undefined;
    subscription.from.clear();
    this.casting.left(this.facts, client, filter);
    return subscription;
  }

  unsubscribed(client: string, taken: Subscription): void {
    const session = this.session(client);
    if (session !== undefined) this.#withdrawn(session, taken);
  }

  // ------------------------------------------------------------------------------------ publishes

  #event(): number {
    return ++this.#events;
  }

  publishing(publish: Omit<Publish, "sentAt" | "askedAt" | "storedAt" | "fate">): void {
    const sentAt = this.#event();
    this.facts.publishes.set(publish.mark, {
      ...publish,
      sentAt,
      askedAt: sentAt,
      storedAt: Infinity,
      fate: publish.qos === 2 ? "held" : "sent",
    });
  }

  exchangeBegun(client: string, packetId: number, mark: string): void {
    this.session(client)!.exchanges.set(packetId, {
      packetId,
      mark,
      recorded: false,
      released: false,
      again: false,
    });
  }

  /** PUBACK. */
  stored(mark: string, code: number): void {
    const publish = this.facts.publishes.get(mark);
    if (publish === undefined) return;
    if (code >= 0x80) {
      publish.fate = "never";
      return;
    }
    publish.fate = "stored";
    publish.storedAt = this.#event();
    this.casting.stored(this.facts, publish, channelOf(publish.topic));
  }

  /** PUBREC. */
  recorded(client: string, packetId: number, code: number): void {
    const session = this.session(client);
    const exchange = session?.exchanges.get(packetId);
    if (exchange === undefined) return;
    if (code >= 0x80) {
      this.facts.publishes.get(exchange.mark)!.fate = exchange.released ? "unsure" : "never";
      session!.exchanges.delete(packetId);
      return;
    }
    exchange.recorded = true;
  }

  releasing(exchange: Exchange): void {
    const publish = this.facts.publishes.get(exchange.mark)!;
    if (!exchange.released) publish.askedAt = this.#event();
    exchange.released = true;
    publish.fate = "freed";
  }

  /** PUBCOMP. */
  completed(client: string, packetId: number, code: number): void {
    const session = this.session(client);
    const exchange = session?.exchanges.get(packetId);
    if (exchange === undefined) return;
    session!.exchanges.delete(packetId);
    if (code !== 0 && !exchange.again) {
      throw new Broken(
        session!.disturbed && !session!.restarted ? "17" : "18",
        `${exchange.mark} of ${client} was held and its PUBREL got ${code}`,
      );
    }
    this.stored(exchange.mark, 0);
  }

  // ------------------------------------------------------------------------- values and dead letters

  /** A dead letter of job `offset`, itself record `letter` of the dead-letter channel. */
  letterSeen(
    queue: string,
    offset: number,
    mark: string,
    id: string,
    letter: number,
    attempts: number,
    now: number,
  ): void {
    const before = this.facts.records.get(queue)?.get(offset);
    if (before?.id !== undefined && before.id !== id) {
      throw new Broken(
        "8",
        `job ${offset} of ${queue} was message ${before.id} and its letter is ${id}`,
      );
    }
    this.working.letter(this.facts, queue, offset, mark, letter, attempts, now);
  }

  latestDelivered(session: SessionFacts, topic: string, offset: number): void {
    const before = session.viewed.get(topic) ?? 0;
    if (offset < before) {
      throw new Broken("D13.12", `${session.client} got ${topic} at ${offset} after ${before}`);
    }
    session.viewed.set(topic, offset);
  }

  // ------------------------------------------------------------------------------ floors and seeks

  /** What a seek to the floor and one to the end were answered. */
  surveyed(channel: string, floor: number, next: number): void {
    const { floors, nexts, records } = this.facts;
    const before = floors.get(channel) ?? 1;
    if (floor < before) {
      throw new Broken("1", `the floor of ${channel} went from ${before} to ${floor}`);
    }
    let highest = (nexts.get(channel) ?? 1) - 1;
    for (const offset of records.get(channel)?.keys() ?? []) highest = Math.max(highest, offset);
    if (next <= highest) {
      throw new Broken("9", `${channel} has had offset ${highest} and goes on at ${next}`);
    }
    if (floor > next) throw new Broken("1", `the floor of ${channel} is ${floor}, its end ${next}`);
    floors.set(channel, floor);
    nexts.set(channel, next);
  }

  // ------------------------------------------------------------------------------------ accidents

  /** Deliveries whose offset nobody knew when they came: a 3.1.1 client is not told. */
  #unplaced: (Unplaced & { readonly consumer: Consumer | undefined })[] = [];

  unplaced(delivery: Unplaced): void {
    const consumer = this.session(delivery.client)?.consumers.get(delivery.channel);
    this.#unplaced.push({ ...delivery, consumer });
  }

  /** The observer has been shown what was stored: what had no place has one now. */
  #place(now: number): void {
    for (
      const { client, connection, consumer, channel, mark, qos, unacknowledged } of this.#unplaced
        .splice(0)
    ) {
      const session = this.session(client);
      const offset = this.records.offsetOf(this.facts, channel, mark);
      if (consumer === undefined) continue;
      if (offset === undefined) {
        // A job that was redriven has several letters alike: it may have been any of them.
        for (const letter of this.records.lettersOf(this.facts, channel, mark)) {
          consumer.had.add(letter);
          at(consumer.acked, letter, (): Ack => ({ state: "maybe", at: now }));
        }
        continue;
      }
      if (session?.connection !== connection) {
        // Gone since, and it had it; what it may have acknowledged nobody could tell then.
        consumer.had.add(offset);
        at(consumer.acked, offset, (): Ack => ({ state: "maybe", at: now }));
        continue;
      }
      consumer.last = Math.max(consumer.last, offset);
      consumer.had.add(offset);
      if (qos > 0 && unacknowledged()) consumer.onWire.add(offset);
      else consumer.acked.set(offset, { state: "maybe", at: now });
    }
  }

  /** Nothing is left to do for the broker at this moment. */
  settled(now: number): void {
    this.#place(now);
    for (const session of this.facts.sessions.values()) {
      if (session.connection === undefined) session.awayKept = true;
      this.reading.settled(this.facts, session, now);
      this.casting.settled(this.facts, session, now);
    }
    this.working.settled(this.facts);
  }

  /** Time has passed since `since`, long enough: no worker stands idle beside a job (15, 7). */
  idle(since: number, now: number, onWire: (client: string) => number): void {
    if (now - since < MEET_MS + this.slackMs) return;
    for (const session of this.facts.sessions.values()) {
      // No worker: a client below MQTT 5 that took over a worker's session.
      if (session.connection === undefined || session.level < 5) continue;
      if (onWire(session.client) >= session.window) continue;
      for (const { filter, sure } of session.subscriptions.values()) {
        const queue = pinnedQueue(filter);
        if (queue === undefined || !sure) continue;
        const jobs = [...this.facts.jobs.get(queue)?.values() ?? []];
        if (jobs.some(({ held }) => held?.connection === session.connection)) continue;
        const [waiting] = this.working.waiting(this.facts, queue, since);
        if (waiting === undefined) continue;
        throw new Broken(
          waiting.heldAtStop || session.restarted ? "15" : waiting.pubackedOnly ? "6" : "7",
          `job ${waiting.offset} of ${queue} (${waiting.mark}) waits and ${session.client} is idle`,
        );
      }
    }
  }

  /** The broker died or stopped. `kept`: all that it had committed is there. */
  stopped(graceful: boolean, kept: boolean, stoppedAt: number, startedAt: number): void {
    if (!graceful && !kept) {
      this.facts = structuredClone(this.#snapshot);
      this.#unplaced = [];
      this.reading.forgotten();
    }
    for (const session of [...this.facts.sessions.values()]) {
      if (session.connection !== undefined) {
        this.connectionGone(session.client, session.connection, stoppedAt);
      }
      // Who was connected when the broker died is away from the start on (S97).
      if (!graceful && !session.awayKept) session.awayAtLatest = startedAt;
      session.awayKept = true;
    }
    this.#stoppedWith(graceful, startedAt);
    this.#snapshot = structuredClone(this.facts);
  }

  #stoppedWith(graceful: boolean, now: number): void {
    this.casting.stopped(this.facts, graceful);
    for (const session of this.facts.sessions.values()) {
      this.reading.stopped(session, graceful);
      session.restarted = true;
      session.disturbed = false;
    }
    this.working.stopped(this.facts, now);
    for (const publish of this.facts.publishes.values()) {
      if (publish.fate === "sent") publish.fate = "unsure";
    }
  }

  // --------------------------------------------------------------------------------------- the end

  finish(): void {
    for (const session of this.facts.sessions.values()) {
      if (session.unsure) continue;
      this.reading.finish(this.facts, session);
      if (session.expiry > 0) this.casting.finish(this.facts, session);
    }
    this.casting.finishGroups(this.facts);
  }

  /** After everything that is left was looked at by somebody new. */
  finishRecords(): void {
    this.working.finish(this.facts);
    for (const publish of this.facts.publishes.values()) {
      const channel = channelOf(publish.topic);
      if (publish.fate !== "stored" || !isAppend(channel)) continue;
      if (this.records.offsetOf(this.facts, channel, publish.mark) !== undefined) continue;
      // What retention took before anybody looked is gone, and may be.
      if ((this.facts.floors.get(channel) ?? 1) > 1) continue;
      throw new Broken("18", `${publish.mark} was stored in ${channel} and is not there`);
    }
    for (const [channel, records] of this.facts.records) {
      if (!channel.endsWith("__dlq") && !isQueue(channel)) {
        this.records.inOrder(this.facts, channel, records);
      }
    }
  }

  /** Whether a plain subscription of the session may bring `topic`. */
  static reaches(session: SessionFacts, topic: string): boolean {
    for (const filter of session.subscriptions.keys()) {
      if (sharedFilter(filter) === undefined && matches(filter, topic)) return true;
    }
    return false;
  }
}
