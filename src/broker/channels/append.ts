import {
  type AppendStore,
  type Provider,
  sessionReader,
  type Urgency,
} from "../../storage/contract.ts";
import {
  type Message,
  NO_HEADERS,
  type Offset,
  recordSize,
  type StoredRecord,
} from "../../storage/record.ts";
import type { Context } from "../context.ts";
import type { Flushable } from "../drain.ts";
import { channelExpiry, channelLabels } from "../delivery.ts";
import type { Delivery } from "../link.ts";
import { FEW_READERS, SENT_AT_ONCE } from "../reach.ts";
import { Reason } from "../reason.ts";
import { type Grant, QUANTUM, type Session, type Source } from "../session.ts";
import type { WindowEntry } from "../window.ts";
import { Tail } from "./tail.ts";

/** One read of a consumer that is behind: records and bytes. */
const READ_RECORDS = 256;
const READ_BYTES = 1024 * 1024;

/** How long a consumer waits before it reads again after a store that failed. */
const READ_RETRY_MS = 1_000;

/** Deliveries a consumer may have on the wire before `limits.session_queue_bytes` stops it. */
export interface AppendPolicy {
  readonly start: "floor" | "tail";
}

/** An `append` channel at work: its log, the newest records in hand, and who reads it. */
export class AppendChannel {
  readonly kind = "append";
  /** Publishes accepted; dead letters are none. */
  published = 0;
  /** Records that retention removed. */
  retentionRemoved = 0;
  /** Times that retention passed a reader's position. */
  positionsLost = 0;
  readonly tail = new Tail();
  readonly #consumers = new Map<Session, AppendConsumer>();
  #end: Offset;
  /** What was delivered last: whoever is owed the same record alike shares it. */
  #last: { readonly delivery: Delivery; readonly labels: Labels } | undefined;

  /** `subscribers`: sessions with a filter that a topic matches. */
  constructor(
    readonly name: string,
    readonly store: AppendStore,
    readonly provider: Provider,
    readonly policy: AppendPolicy,
    private readonly context: Context,
    private readonly subscribers: (topic: string) => readonly Session[],
  ) {
    this.#end = store.next();
  }

  /** The offset after the newest record that consumers were told of. */
  get end(): Offset {
    return this.#end;
  }

  /**
   * A committed record: caught-up consumers whose filters it matches get it from hand (S118); it is nothing
   * to the others, however many they are. One that is told before a record stored earlier sends everybody to
   * the store for both, and when the other is told it is known already: the order of delivery is that of
   * storage, whatever the order of telling (invariant 1).
   */
  recorded(offset: Offset, message: Message): void {
    if (offset < this.#end) return;
    if (offset > this.#end) {
      for (const consumer of this.#consumers.values()) consumer.sendBack();
      this.#end = offset + 1;
      return;
    }
    this.#end = offset + 1;
    if (this.#consumers.size === 0) return;
    const record = this.tail.push(offset, message);
    const bytes = recordSize(record.message);
    for (const session of this.subscribers(message.topic)) {
      this.#consumers.get(session)?.recorded(record, bytes);
    }
  }

  /** What a record of `topic` costs when it is reported (`PublishEntry.reach`). */
  reach(topic: string): number {
    if (this.#consumers.size < FEW_READERS) return 0;
    return SENT_AT_ONCE * this.subscribers(topic).length;
  }

  /** Retention removed records: no position of a reader that follows may be stored below the floor. */
  trimmed(): void {
    const floor = this.store.floor();
    for (const consumer of this.#consumers.values()) consumer.trimmed(floor);
  }

  /** The delivery of `record`; made once for all who are owed it alike in a row. */
  delivery(record: StoredRecord, grant: Grant, qos: 0 | 1 | 2, level: 4 | 5): Delivery {
    const { message } = record;
    const labels = level === 4 ? "none" : grant.several ? "with channel" : "plain";
    const retain = grant.retainAsPublished && message.retain;
    const last = this.#last;
    if (last !== undefined && last.labels === labels) {
      const { delivery } = last;
      const alike = delivery.message === message && delivery.qos === qos &&
        delivery.retain === retain && delivery.identifiers === grant.identifiers;
      if (alike) return delivery;
    }
    const expires = level === 5 && message.properties.messageExpiry !== undefined;
    const delivery: Delivery = {
      message,
      qos,
      retain,
      identifiers: grant.identifiers,
      labels: labels === "none"
        ? NO_HEADERS
        : channelLabels(record, grant.several ? this.name : undefined, undefined),
      expiry: expires ? channelExpiry(message, this.context.clock.wall()) : undefined,
    };
    // What is left of an expiry is another at every look.
    this.#last = expires ? undefined : { delivery, labels };
    return delivery;
  }

  /** Retention passed the position of a session that reads here. */
  passed(
    session: Session,
    kind: "consumer" | "session",
    position: Offset,
    floor: Offset,
  ): void {
    const { counters, clock, limits } = this.context;
    this.positionsLost++;
    counters.positionLosses.add({
      reader: sessionReader(session.clientId),
      channel: this.name,
      kind,
      // A session that comes back is told by Session Present; a connected one cannot be.
      reported: kind === "session",
      position,
      floor,
      at: clock.wall(),
    }, limits.maxTopicLength);
  }

  /** Where a reader without a position begins now (D11.3). */
  get start(): Offset {
    return this.policy.start === "tail" ? this.store.next() : this.store.floor();
  }

  consumer(session: Session): AppendConsumer | undefined {
    return this.#consumers.get(session);
  }

  get consumers(): ReadonlyMap<Session, AppendConsumer> {
    return this.#consumers;
  }

  /**
   * The session begins to read here, or goes on if it did. `fromNow`: Retain Handling 2 (D11.6).
   * `stored` is the position found for it, if any.
   */
  join(session: Session, stored: Offset | undefined, fromNow: boolean): AppendConsumer {
    let consumer = this.#consumers.get(session);
    if (consumer === undefined) {
      consumer = new AppendConsumer(
        this,
        session,
        fromNow ? this.store.next() : stored ?? this.start,
        stored ?? 0,
        this.context,
      );
      this.#consumers.set(session, consumer);
      session.addSource(consumer);
      if (fromNow) consumer.touch();
    }
    return consumer;
  }

  /** The session ended, or its last filter here went and it holds no position. */
  leave(session: Session): void {
    const consumer = this.#consumers.get(session);
    if (consumer === undefined) return;
    consumer.close();
    session.removeSource(consumer);
    this.#consumers.delete(session);
    if (this.#consumers.size > 0) return;
    this.tail.clear();
    this.#last = undefined;
  }
}

/** Which labels of the broker's own a delivery carries. */
type Labels = "none" | "plain" | "with channel";

/**
 * One session's reading of one append channel. Two cursors (D11.16): `#next`, the lowest offset not
 * handed over, and `position`, the lowest not acknowledged, which is what is stored.
 *
 * A consumer that has everything follows: it stands at the channel's end without being told of records
 * that its filters do not match. What it stepped over that way is stored with its next acknowledgement,
 * when its connection ends, or when retention comes near (`trimmed`): one that was killed before reads
 * the same records again and steps over them again.
 */
export class AppendConsumer implements Source, Flushable {
  readonly neverSkips = true;
  /** Where it stands while it does not follow. */
  #at: Offset;
  #following = false;
  #era = 0;
  #reading = false;
  #closed = false;
  #paused = false;
  /** What is on the wire in this era, in offset order. */
  #oldest: WindowEntry | undefined;
  #newest: WindowEntry | undefined;
  /** Records read and not yet handed over. */
  #batch: readonly StoredRecord[] = [];
  #batchAt = 0;
  #savedPosition: Offset;
  #dirty = false;
  #saving: Promise<void> | undefined;
  /** The record that the client may not read, and is held at; said once. */
  #heldAt: Offset = 0;

  constructor(
    readonly channel: AppendChannel,
    readonly session: Session,
    start: Offset,
    saved: Offset,
    private readonly context: Context,
  ) {
    this.#at = start;
    this.#savedPosition = saved;
  }

  /** Lowest offset not acknowledged (D11.12). */
  get position(): Offset {
    return this.#oldest?.offset ?? this.#next;
  }

  /** Lowest offset not handed over. */
  get #next(): Offset {
    return this.#following ? this.channel.end : this.#at;
  }

  set #next(offset: Offset) {
    this.#following = false;
    this.#at = offset;
  }

  /** Nothing is left that it was not told of: it stands at the end until it is told otherwise. */
  #follow(): void {
    if (this.#at < this.channel.end || this.#paused || this.session.link === undefined) return;
    this.#following = this.#at === this.channel.end;
    if (this.#batch.length > 0) this.#dropBatch();
  }

  /** It stands where the end is now. */
  #standStill(): void {
    this.#at = this.#next;
    this.#following = false;
  }

  /** True when a changed position waits to be written. */
  get dirty(): boolean {
    return this.#dirty && this.session.durable;
  }

  get label(): string {
    return `${this.session.clientId} on ${this.channel.name}`;
  }

  /** The position is to be written. */
  touch(): void {
    this.#dirty = true;
    if (this.session.durable) this.context.drain.add(this);
  }

  // ----------------------------------------------------------------------------------- delivering

  /**
   * A record that its filters match was committed, `bytes` its `recordSize`; taken only by a consumer
   * that stands exactly there (S18).
   */
  recorded(record: StoredRecord, bytes: number): void {
    if (this.#paused || this.#reading) return;
    if (this.#following) this.#next = record.offset;
    else if (record.offset < this.#at) return;
    if (record.offset !== this.#at || !this.session.canSend() || !this.#hand(record, bytes)) {
      return this.session.wait(this);
    }
    this.#follow();
  }

  /** Something was committed that it will not be handed: it reads on where it stands. */
  sendBack(): void {
    if (this.#paused) return;
    this.#standStill();
    this.session.wait(this);
  }

  /** Retention removed what is below `floor`. */
  trimmed(floor: Offset): void {
    if (this.#following && this.#savedPosition < floor) this.touch();
  }

  /**
   * No filter of the session reaches the channel any more: the position stays where it is, for it
   * belongs to the session, not to a subscription (06 section 9).
   */
  pause(): void {
    this.#standStill();
    this.#paused = true;
  }

  /** A filter reaches the channel again. */
  unpause(): void {
    this.#paused = false;
    this.session.wait(this);
  }

  pump(): void {
    if (this.#paused) return;
    for (let sent = 0; sent < QUANTUM; sent++) {
      if (this.#closed || this.#reading || !this.session.canSend()) break;
      const record = this.#inHand();
      if (record === undefined) {
        if (this.#next < this.channel.end) this.#read();
        else this.#follow();
        return;
      }
      if (!this.#hand(record, recordSize(record.message))) break;
    }
    if (!this.#closed && !this.#reading && this.#next < this.channel.end) this.session.wait(this);
  }

  #inHand(): StoredRecord | undefined {
    while (this.#batchAt < this.#batch.length) {
      const record = this.#batch[this.#batchAt];
      if (record.offset >= this.#next) return record;
      this.#batchAt++;
    }
    if (this.#batch.length > 0) this.#dropBatch();
    return this.channel.tail.at(this.#next);
  }

  #dropBatch(): void {
    this.#batch = [];
    this.#batchAt = 0;
  }

  /** Sessions that are away hold no records: there may be any number of them. */
  detached(): void {
    this.#dropBatch();
    this.#standStill();
    if (this.position !== this.#savedPosition) this.#dirty = true;
  }

  /** Hands `record` over, or steps over it. False: no room, it stays next. */
  #hand(record: StoredRecord, bytes: number): boolean {
    const grant = this.session.grant(record.message);
    if (grant === undefined) {
      this.#stepTo(record.offset + 1);
      return true;
    }
    if (!this.session.mayRead(record.message.topic, this.channel.name)) return this.#hold(record);
    const qos = Math.min(grant.qos, record.message.qos) as 0 | 1 | 2;
    if (qos === 0 ? !this.session.resent() : !this.session.fits(bytes)) return false;
    const delivery = this.channel.delivery(record, grant, qos, this.session.level);
    if (qos === 0) {
      if (!this.session.sendUnacknowledged(delivery)) {
        return this.#tooLarge(record);
      }
      this.#stepTo(record.offset + 1);
    } else {
      const entry = this.session.send(this, record.offset, this.#era, delivery, bytes);
      if (entry === undefined) return this.#tooLarge(record);
      this.#sent(entry);
      this.#next = record.offset + 1;
    }
    this.context.counters.delivered++;
    return true;
  }

  /** Never moved past what it may not read: it goes on here once that is granted (02b 7.5.6). */
  #hold({ offset, message }: StoredRecord): boolean {
    this.session.park(this);
    if (this.#heldAt !== offset) {
      this.#heldAt = offset;
      this.context.log.warn("held a consumer at a record that it may not read", {
        channel: this.channel.name,
        client: this.session.clientId,
        topic: message.topic,
        offset,
      });
    }
    return false;
  }

  /** D7.1: never skipped, so the client is told and the position stays. */
  #tooLarge(record: StoredRecord): boolean {
    this.session.hangUp({
      code: Reason.PacketTooLarge,
      reason:
        `record ${record.offset} of channel ${this.channel.name} is larger than the Maximum Packet Size of this client`,
    });
    return false;
  }

  #stepTo(offset: Offset): void {
    this.#next = offset;
    this.touch();
  }

  // -------------------------------------------------------------------------------------- reading

  /** Reads the next window; what was noted before must still hold after, or it is read again (S19). */
  #read(): void {
    this.#reading = true;
    const { session, channel } = this;
    const from = this.#next;
    const era = this.#era;
    channel.store.readFrom(from, READ_RECORDS, READ_BYTES).then((window) => {
      this.#reading = false;
      if (this.#closed || session.link === undefined) return;
      if (this.#next !== from || this.#era !== era) return session.wake(this);
      if (this.#paused) return;
      if (window.belowFloor) {
        this.#overtaken(window.floor);
      } else {
        this.#batch = window.records;
        this.#batchAt = 0;
        // A reserved or damaged stretch that holds nothing must not be read for ever.
        if (window.records.length === 0 && from < channel.end) {
          if (from < window.floor) this.#overtaken(window.floor);
          else {return this.#retryLater(
              "a channel read came back empty below its next offset",
              from,
            );}
        }
      }
      session.wake(this);
    }, (error) => {
      this.#reading = false;
      this.context.counters.storageErrors.add(channel.name);
      this.#retryLater("cannot read a channel for a consumer", from, error);
    });
  }

  #retryLater(msg: string, offset: Offset, error?: unknown): void {
    this.context.log.error(msg, {
      channel: this.channel.name,
      client: this.session.clientId,
      offset,
      error: error instanceof Error ? error.message : undefined,
    });
    this.context.timers.after(READ_RETRY_MS, () => {
      if (!this.#closed) this.session.wake(this);
    });
  }

  /** Retention passed a consumer that is connected: it goes on at the floor, and that is said (D11.19). */
  #overtaken(floor: Offset): void {
    const lost = floor - this.#next;
    this.channel.passed(this.session, "consumer", this.#next, floor);
    this.context.log.warn("retention removed records a connected consumer had not been sent", {
      channel: this.channel.name,
      client: this.session.clientId,
      lost,
      floor,
    });
    this.#stepTo(floor);
  }

  // ------------------------------------------------------------------------------ acknowledgements

  acknowledged(entry: WindowEntry): void {
    if (entry.era !== this.#era) return;
    const { older, newer } = entry;
    // What was given back for a second sending is not among them any more.
    if (older === undefined && this.#oldest !== entry) return;
    if (older === undefined) this.#oldest = newer;
    else older.newer = newer;
    if (newer === undefined) this.#newest = older;
    else newer.older = older;
    entry.older = undefined;
    entry.newer = undefined;
    this.touch();
  }

  #sent(entry: WindowEntry): void {
    entry.older = this.#newest;
    if (this.#newest === undefined) this.#oldest = entry;
    else this.#newest.newer = entry;
    this.#newest = entry;
  }

  /** Nothing from `offset` on is on the wire any more, as far as the position goes. */
  #forget(offset: Offset): void {
    while (this.#newest !== undefined && this.#newest.offset >= offset) {
      const entry: WindowEntry = this.#newest;
      this.#newest = entry.older;
      entry.older = undefined;
      entry.newer = undefined;
    }
    if (this.#newest === undefined) this.#oldest = undefined;
    else this.#newest.newer = undefined;
  }

  received(_entry: WindowEntry, proceed: () => void): void {
    proceed();
  }

  resend(entry: WindowEntry): boolean {
    if (entry.era !== this.#era || entry.offset >= this.#next) return false;
    const { topic } = entry.delivery.message;
    if (entry.state !== "sent" || this.session.mayRead(topic, this.channel.name)) return true;
    this.#stepBack(entry.offset);
    return false;
  }

  /** From `offset` on everything is delivered anew, once the record there may be read. */
  #stepBack(offset: Offset): void {
    this.#next = offset;
    this.#forget(offset);
    this.#dropBatch();
  }

  /** Moves the reader to `offset`; what is on the wire belongs to a closed era now (D12.13). */
  seek(offset: Offset): void {
    this.#era++;
    this.#forget(0);
    this.#dropBatch();
    this.session.dropUnsent(this);
    this.#stepTo(offset);
    this.session.wake(this);
  }

  /**
   * As `seek`, with the position stored first (D12.14). `moved` runs in the turn in which the reader
   * moves, before anything is delivered from its new place. Rejects with the reader where it was.
   */
  async seekStored(offset: Offset, moved: () => void): Promise<void> {
    while (this.#saving !== undefined) await this.#saving.catch(() => {});
    await this.#save(offset, "answering");
    if (this.#closed) return;
    moved();
    this.seek(offset);
  }

  // ------------------------------------------------------------------------------------ positions

  /** Writes the position if it moved. Never ahead of what is acknowledged; one write at a time (S39). */
  async flush(urgency: Urgency): Promise<void> {
    while (this.#saving !== undefined) await this.#saving.catch(() => {});
    const position = this.position;
    const { durable, frozen } = this.session;
    if (!this.#dirty || this.#closed || !durable || frozen) return;
    this.#dirty = false;
    if (position === this.#savedPosition) return;
    try {
      await this.#save(position, urgency);
    } catch (error) {
      this.#dirty = true;
      throw error;
    }
  }

  #save(offset: Offset, urgency: Urgency): Promise<void> {
    const saving = this.channel.store.savePosition({
      reader: sessionReader(this.session.clientId),
      offset,
      expiry: this.session.expiry,
      lastSeen: this.context.clock.wall(),
    }, urgency).then(() => {
      this.#savedPosition = offset;
    }).finally(() => this.#saving = undefined);
    this.#saving = saving;
    return saving;
  }

  close(): void {
    this.#closed = true;
    this.context.drain.remove(this);
    this.#dropBatch();
    this.#forget(0);
  }
}
