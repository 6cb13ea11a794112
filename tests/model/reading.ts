/** What readers of append channels are promised (invariants 1 and 18): every record, in order, once. */
import {
  type Ack,
  at,
  Broken,
  type Consumer,
  type Facts,
  isAppend,
  matches,
  type SessionFacts,
  sharedFilter,
  type Subscription,
} from "./facts.ts";

/** `broker.session.ack_commit_interval` and a write, with time to spare: milliseconds. */
const KEPT_AFTER_MS = 400;

/** Something that is wrong unless retention took the record away from under a connected reader. */
interface Suspicion {
  readonly consumer: Consumer;
  readonly channel: string;
  readonly offset: number;
  readonly message: string;
}

/** Channels whose records a plain filter reaches. */
export function channelsOf(filter: string): string[] {
  if (sharedFilter(filter) !== undefined || filter.startsWith("$")) return [];
  const [first, second] = filter.split("/");
  const channel = second === "__dlq" ? `${first}__dlq` : first;
  return isAppend(channel) ? [channel] : [];
}

export class Reading {
  constructor(private readonly slackMs: number) {}

  #suspicions: Suspicion[] = [];

  /** SUBACK granted `filter`: from where on its records are owed. */
  subscribed(
    facts: Facts,
    session: SessionFacts,
    subscription: Subscription,
    handling: number,
    now: number,
  ): void {
    const { filter } = subscription;
    for (const channel of channelsOf(filter)) {
      const floor = facts.floors.get(channel) ?? 1;
      const consumer = session.consumers.get(channel);
      if (consumer === undefined) {
        session.consumers.set(channel, newConsumer(floor, Infinity));
        // Infinity is replaced by the next offset once everything has come to rest.
        subscription.from.set(channel, handling === 2 && session.level === 5 ? Infinity : floor);
        continue;
      }
      if (!subscription.from.has(channel)) {
        subscription.from.set(channel, this.#resumes(session, filter, channel, consumer));
      }
      if (handling === 2 && session.level === 5) this.#fromNow(session, channel, consumer, now);
      consumer.readTo = Infinity;
      consumer.doubtful = false;
    }
  }

  /**
   * A new session in place of one that the floor ended, maybe (D11.18): positions which the floor did not
   * pass go on, from where nobody is told.
   */
  inherited(facts: Facts, old: SessionFacts, session: SessionFacts): void {
    for (const [channel, { had }] of old.consumers) {
      const floor = facts.floors.get(channel) ?? 1;
      if (this.highestPosition(facts, old, channel) < floor) continue;
      session.consumers.set(channel, { ...newConsumer(1, Infinity), had, doubtful: true });
    }
  }

  /** Nobody read for the session: what was not read then is owed now. Else only what is to come. */
  #resumes(session: SessionFacts, filter: string, channel: string, consumer: Consumer): number {
    for (const [other, { from, sure }] of session.subscriptions) {
      const reads = from.has(channel) || mayReach(other, sure, channel);
      if (other !== filter && reads) return Infinity;
    }
    return consumer.readTo;
  }

  /** Retain Handling 2 on a position (D11.6): as a seek to the end. */
  #fromNow(session: SessionFacts, channel: string, consumer: Consumer, now: number): void {
    for (const { from } of session.subscriptions.values()) {
      if (from.has(channel)) from.set(channel, Infinity);
    }
    // The position waited for what was on the wire, and is stored with the new one.
    for (const ack of consumer.acked.values()) if (ack.state === "sure") ack.at = now;
    for (const offset of consumer.onWire) consumer.acked.set(offset, { state: "maybe", at: 0 });
    consumer.onWire.clear();
    consumer.era++;
  }

  delivered(
    facts: Facts,
    session: SessionFacts,
    channel: string,
    offset: number,
    qos: number,
    now: number,
  ): void {
    const consumer = at(session.consumers, channel, () => newConsumer(offset, Infinity));
    const what = `record ${offset} of ${channel} for ${session.client}`;
    if (offset < consumer.base) {
      throw new Broken("1", `${what} lies before ${consumer.base}, where the reader began`);
    }
    if (offset <= consumer.last) {
      throw new Broken("1", `${what} comes after record ${consumer.last}`);
    }
    const ack = consumer.acked.get(offset);
    if (ack?.state === "sure" || ack?.state === "stored") {
      throw new Broken("18", `${what} comes again after its acknowledgement was ${ack.state}`);
    }
    for (const skipped of this.#skipped(facts, session, channel, consumer, offset)) {
      this.#suspicions.push({
        consumer,
        channel,
        offset: skipped,
        message: `record ${skipped} of ${channel} was stepped over for ${session.client}, ` +
          `which got ${offset} after ${consumer.last}`,
      });
    }
    consumer.last = offset;
    consumer.had.add(offset);
    if (qos === 0) consumer.acked.set(offset, { state: "sure", at: now });
    else {
      consumer.acked.delete(offset);
      consumer.onWire.add(offset);
    }
  }

  #skipped(
    facts: Facts,
    session: SessionFacts,
    channel: string,
    consumer: Consumer,
    offset: number,
  ): number[] {
    const skipped: number[] = [];
    for (const record of facts.records.get(channel)?.keys() ?? []) {
      if (record <= consumer.last || record >= offset || consumer.onWire.has(record)) continue;
      if (consumer.acked.has(record) || !this.#owes(facts, session, channel, record)) continue;
      skipped.push(record);
    }
    return skipped;
  }

  /** Whether a filter that has been held long enough matches the record. */
  #owes(facts: Facts, session: SessionFacts, channel: string, offset: number): boolean {
    const seen = facts.records.get(channel)?.get(offset);
    if (seen === undefined) return false;
    const topic = facts.publishes.get(seen.mark)?.topic;
    for (const { filter, from, sure } of session.subscriptions.values()) {
      if (!sure || offset < (from.get(channel) ?? Infinity)) continue;
      if (channel.endsWith("__dlq") || topic !== undefined && matches(filter, topic)) return true;
    }
    return false;
  }

  /** PUBACK or PUBCOMP went for a delivery. */
  acknowledging(session: SessionFacts, channel: string, offset: number, now: number): void {
    const consumer = session.consumers.get(channel);
    if (consumer === undefined || !consumer.onWire.delete(offset)) return;
    // The position waited for it, and is stored with it.
    for (const [above, ack] of consumer.acked) {
      if (above > offset && ack.state === "sure") ack.at = now;
    }
    consumer.acked.set(offset, { state: "sent", at: now });
  }

  /** An UNSUBSCRIBE goes: what came in the last moment it may have read. */
  unsubscribing(session: SessionFacts, filter: string): void {
    for (const channel of channelsOf(filter)) {
      const consumer = session.consumers.get(channel);
      if (consumer !== undefined) consumer.readTo = Infinity;
    }
  }

  /** A seek was answered with `offset`: a new era begins there. */
  sought(session: SessionFacts, channel: string, offset: number): void {
    const consumer = at(session.consumers, channel, () => newConsumer(offset, offset));
    consumer.acked.clear();
    consumer.onWire.clear();
    consumer.had.clear();
    consumer.era++;
    consumer.doubtful = false;
    consumer.last = 0;
    consumer.base = offset;
    const reading = [...session.subscriptions.values()].filter(({ from }) => from.has(channel));
    for (const { from } of reading) from.set(channel, offset);
    consumer.readTo = reading.length > 0 ? Infinity : offset;
  }

  /** A seek or a SUBSCRIBE was not answered: where the reader stands, nobody knows. */
  unheard(session: SessionFacts, channel: string): void {
    const consumer = at(session.consumers, channel, () => newConsumer(1, Infinity));
    for (const offset of [...consumer.onWire, ...consumer.acked.keys()]) {
      consumer.acked.set(offset, { state: "maybe", at: 0 });
    }
    consumer.onWire.clear();
    consumer.doubtful = true;
    consumer.base = 1;
    consumer.readTo = Infinity;
    for (const { from } of session.subscriptions.values()) {
      if (from.has(channel)) from.set(channel, Infinity);
    }
  }

  /** Everything that could move has moved. */
  settled(facts: Facts, session: SessionFacts, now: number): void {
    for (const [channel, consumer] of session.consumers) {
      const next = facts.nexts.get(channel) ?? 1;
      if (consumer.readTo === Infinity) consumer.readTo = next;
      let read = false;
      for (const { filter, from, sure } of session.subscriptions.values()) {
        if (from.get(channel) === Infinity) from.set(channel, next);
        read ||= from.has(channel) || mayReach(filter, sure, channel);
      }
      if (read && session.connection !== undefined) consumer.readTo = next;
      if (session.connection === undefined) continue;
      const lowest = lowestOf(consumer.onWire);
      for (const [offset, ack] of consumer.acked) {
        settle(ack, now - this.slackMs, now, offset < lowest);
      }
    }
  }

  /** A clean DISCONNECT was answered by the close: every acknowledgement before it is kept. */
  left(session: SessionFacts): void {
    for (const { acked, onWire } of session.consumers.values()) {
      const lowest = lowestOf(onWire);
      for (const [offset, ack] of acked) {
        if (ack.state !== "maybe") ack.state = offset < lowest ? "stored" : "sure";
      }
    }
  }

  connectionGone(session: SessionFacts): void {
    for (const [channel, consumer] of session.consumers) {
      // It may have read what came in the last moment.
      if ([...session.subscriptions.values()].some(({ from }) => from.has(channel))) {
        consumer.readTo = Infinity;
      }
      consumer.last = 0;
      for (const ack of consumer.acked.values()) if (ack.state === "sent") ack.state = "maybe";
    }
  }

  /** The broker is gone: from the lowest record not acknowledged on, everything may come again. */
  stopped(session: SessionFacts, graceful: boolean): void {
    for (const consumer of session.consumers.values()) {
      const lowest = lowestOf(consumer.onWire);
      for (const [offset, ack] of consumer.acked) {
        const kept = ack.state === "stored" || (graceful && ack.state === "sure");
        ack.state = kept && offset < lowest ? "stored" : "maybe";
      }
      consumer.onWire.clear();
      consumer.last = 0;
    }
  }

  /** A position that the broker has for certain, and that is not above this; undefined: none. */
  highestPosition(facts: Facts, session: SessionFacts, channel: string): number {
    const consumer = session.consumers.get(channel)!;
    let highest = Math.min(consumer.readTo, lowestOf(consumer.onWire));
    for (const record of facts.records.get(channel)?.keys() ?? []) {
      if (record >= highest || consumer.acked.has(record)) continue;
      if (this.#owes(facts, session, channel, record)) highest = record;
    }
    return highest;
  }

  /** The broker went back to what it had before: its floors say nothing of what is suspected. */
  forgotten(): void {
    this.#suspicions = [];
  }

  /** Floors are known anew: what was stepped over below them is excused. */
  surveyed(facts: Facts): void {
    for (const { consumer, channel, offset, message } of this.#suspicions.splice(0)) {
      // A client that is not told offsets had it, as was found later.
      if (consumer.had.has(offset)) continue;
      if (offset >= (facts.floors.get(channel) ?? 1)) throw new Broken("1", message);
    }
  }

  finish(facts: Facts, session: SessionFacts): void {
    for (const [channel, consumer] of session.consumers) {
      const floor = facts.floors.get(channel) ?? 1;
      for (const offset of facts.records.get(channel)?.keys() ?? []) {
        if (offset < floor || consumer.had.has(offset)) continue;
        if (!this.#owes(facts, session, channel, offset)) continue;
        throw new Broken("1", `${session.client} never got record ${offset} of ${channel}`);
      }
    }
  }
}

/** A filter whose SUBACK never came may be held all the same. */
function mayReach(filter: string, sure: boolean, channel: string): boolean {
  return !sure && channelsOf(filter).includes(channel);
}

function newConsumer(base: number, readTo: number): Consumer {
  return {
    acked: new Map(),
    onWire: new Set(),
    last: 0,
    base,
    readTo,
    had: new Set(),
    doubtful: false,
    era: 0,
  };
}

function lowestOf(offsets: ReadonlySet<number>): number {
  let lowest = Infinity;
  for (const offset of offsets) lowest = Math.min(lowest, offset);
  return lowest;
}

/** The broker has taken in what was sent; after an interval it has stored it, unless `mayWait`. */
export function settle(ack: Ack, storedUntil: number, now: number, stores = true): void {
  if (ack.state === "sent") {
    ack.state = "sure";
    ack.at = now;
  } else if (ack.state === "sure" && stores && storedUntil - ack.at >= KEPT_AFTER_MS) {
    ack.state = "stored";
  }
}
