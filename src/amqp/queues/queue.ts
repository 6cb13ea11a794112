import { Fifo } from "../../platform/fifo.ts";
import { type Log } from "../../platform/log.ts";
import type { Timers } from "../../platform/timers.ts";
import type { AmqpStore, StoredAmqpMessage } from "../../storage/amqp.ts";
import { type AmqpMessage, bodyBytes } from "../message.ts";
import type { FieldTable } from "../wire/table.ts";
import { ReadyEntries } from "./ready_entries.ts";
import type { Removals } from "./removals.ts";
import type { Residence } from "./residence.ts";
import { Ring } from "./ring.ts";
import type { QueueItem, Source, Taker } from "./source.ts";

/** Messages and bytes of one read of stored messages. */
const READ_MESSAGES = 128;
const READ_BYTES = 512 * 1024;

/** How long a queue waits after a read that failed. */
const RETRY_MS = 1_000;

/**
 * ```
 * pending --stored--> ready --deliver--> out --ack, discard--> gone
 *    |                 ^ |                |
 *    |                 | '----------------|--- pushed out ---> leaving --stored--> gone
 *    |                 '---- requeue -----'                       | not stored
 *    '--- pushed out ---> leaving                                 '-> where it was
 * ```
 */
export type EntryState = "pending" | "ready" | "out" | "leaving" | "gone";

/** One message in one queue. */
export class QueueEntry implements QueueItem {
  redelivered = false;
  state: EntryState = "pending";
  /** Its publish is stored, or needed no storing. */
  settled = false;

  constructor(
    readonly source: AmqpQueue,
    readonly seq: number,
    /** Undefined while the store alone has it. */
    public message: AmqpMessage | undefined,
    readonly bytes: number,
    /** A row of the store goes with it. */
    readonly durable: boolean,
  ) {}
}

export interface QueueOptions {
  /** Its number in the store; 0 for a queue that is not stored. */
  readonly id: number;
  readonly durable: boolean;
  readonly autoDelete: boolean;
  /** In canonical form. */
  readonly args: FieldTable;
  /** The connection it belongs to; undefined for a queue of everybody's. */
  readonly owner: object | undefined;
}

/** What every queue of a virtual host works with. */
export interface QueueHost {
  /** `broker.amqp.max_ready` and `max_ready_bytes` (A42). */
  readonly maxReady: number;
  readonly maxReadyBytes: number;
  readonly store: AmqpStore;
  readonly removals: Removals;
  readonly residence: Residence;
  readonly timers: Timers;
  readonly log: Log;
  /** Runs `queue.pump` soon, in a turn of its own. */
  schedule(queue: { pump(): void }): void;
  /** The last consumer of an auto-delete queue went. */
  unused(queue: AmqpQueue): void;
}

/**
 * An AMQP queue: messages in order, consumers in turn (section 8 of the specification). Knows neither
 * exchanges nor sockets, and writes nothing but removals; a publish writes its copies itself.
 */
export class AmqpQueue implements Source, QueueOptions {
  readonly id: number;
  readonly durable: boolean;
  readonly autoDelete: boolean;
  readonly args: FieldTable;
  readonly owner: object | undefined;
  deleted = false;
  /** Messages its bound has cost. */
  dropped = 0;
  readonly #ready = new ReadyEntries<QueueEntry>();
  readonly #pending = new Fifo<QueueEntry>();
  #pendingCount = 0;
  #pendingBytes = 0;
  /** Bytes of its messages in memory, whatever their state. */
  #residentBytes = 0;
  readonly #ring = new Ring();
  #loading = false;
  #outCount = 0;

  constructor(readonly name: string, options: QueueOptions, private readonly host: QueueHost) {
    this.id = options.id;
    this.durable = options.durable;
    this.autoDelete = options.autoDelete;
    this.args = options.args;
    this.owner = options.owner;
  }

  get exclusive(): boolean {
    return this.owner !== undefined;
  }

  /** Copies of persistent messages in it are stored (A43). */
  get stored(): boolean {
    return this.id !== 0;
  }

  get messageCount(): number {
    return this.#ready.count;
  }

  /** Deliveries that are out. */
  get unackedCount(): number {
    return this.#outCount;
  }

  get consumerCount(): number {
    return this.#ring.size;
  }

  readonly shared = undefined;
  readonly settling = undefined;

  /** Whoever comes in may consume. */
  refusal(): undefined {}

  get heldExclusively(): boolean {
    return this.#ring.heldExclusively;
  }

  // -------------------------------------------------------------------------------------- arrival

  /**
   * Takes a place for a message that is being published. What it pushes out (A42) goes to `pushedOut`,
   * oldest first, and is neither ready nor gone until `enqueue` or `withdraw`.
   */
  admit(message: AmqpMessage, seq: number, durable: boolean, pushedOut: QueueEntry[]): QueueEntry {
    const entry = new QueueEntry(this, seq, message, bodyBytes(message), durable);
    this.#pending.push(entry);
    this.#pendingCount++;
    this.#pendingBytes += entry.bytes;
    this.#resides(entry.bytes);
    const { maxReady, maxReadyBytes } = this.host;
    for (;;) {
      const count = this.#ready.count + this.#pendingCount;
      const bytes = this.#ready.bytes + this.#pendingBytes;
      if (count <= maxReady && bytes <= maxReadyBytes) return entry;
      const oldest = this.#oldest();
      // A message alone above the bound stays.
      if (oldest === entry) return entry;
      if (oldest.state === "ready") this.#ready.shift();
      else this.#notPending(oldest);
      oldest.state = "leaving";
      pushedOut.push(oldest);
    }
  }

  #oldest(): QueueEntry {
    while (this.#pending.peek()!.state !== "pending") this.#pending.shift();
    const pending = this.#pending.peek()!;
    const ready = this.#ready.first();
    return ready !== undefined && ready.seq < pending.seq ? ready : pending;
  }

  #notPending(entry: QueueEntry): void {
    this.#pendingCount--;
    this.#pendingBytes -= entry.bytes;
    if (this.#pending.peek() === entry) this.#pending.shift();
    else if (this.#pendingCount === 0) this.#pending.clear();
  }

  /** The entry's publish is stored: it may be delivered (T5). */
  enqueue(entry: QueueEntry): void {
    entry.settled = true;
    if (entry.state !== "pending") return;
    this.#notPending(entry);
    if (this.deleted) return this.#forget(entry);
    this.#makeReady(entry);
    if (this.#mayBeReadAgain(entry) && !this.#ring.someCapacity()) this.#evict(entry);
  }

  #mayBeReadAgain(entry: QueueEntry): boolean {
    return entry.durable && this.host.residence.isFull(this.#residentBytes);
  }

  #makeReady(entry: QueueEntry): void {
    entry.state = "ready";
    this.#ready.push(entry);
    this.wake();
  }

  /** The entry's row goes. */
  remove(entry: QueueEntry): void {
    if (entry.durable && !this.deleted) this.host.removals.add(this.id, entry.seq);
  }

  /** The entry's publish was not stored. */
  withdraw(entry: QueueEntry): void {
    if (entry.state === "pending") this.#notPending(entry);
    this.#forget(entry);
  }

  /** The publish that pushed the entry out is stored, its row is gone with it. */
  left(entry: QueueEntry): void {
    if (entry.state !== "leaving") return;
    this.dropped++;
    this.#forget(entry);
  }

  /** The publish that pushed the entry out was not stored: it is where it was. */
  stays(entry: QueueEntry): void {
    if (entry.state !== "leaving") return;
    if (this.deleted) return this.#forget(entry);
    if (entry.settled) return this.#makeReady(entry);
    entry.state = "pending";
    this.#pending.push(entry);
    this.#pendingCount++;
    this.#pendingBytes += entry.bytes;
  }

  /** A message found in the store; what it holds is read when its turn comes. */
  restore(seq: number, bytes: number): void {
    const entry = new QueueEntry(this, seq, undefined, bytes, true);
    entry.settled = true;
    entry.redelivered = true;
    entry.state = "ready";
    this.#ready.push(entry);
  }

  /** Takes out the oldest of what was restored beyond the bound (A42); answers their positions. */
  trimRestored(): number[] {
    const { maxReady, maxReadyBytes } = this.host;
    const gone: number[] = [];
    while (
      this.#ready.count > maxReady ||
      this.#ready.count > 1 && this.#ready.bytes > maxReadyBytes
    ) {
      const entry = this.#ready.shift()!;
      entry.state = "gone";
      gone.push(entry.seq);
      this.dropped++;
    }
    return gone;
  }

  // ------------------------------------------------------------------------------------- delivery

  join(taker: Taker): void {
    this.#ring.add(taker);
    this.wake();
  }

  leave(taker: Taker): void {
    if (!this.#ring.remove(taker)) return;
    if (this.#ring.size === 0 && this.autoDelete && !this.deleted) this.host.unused(this);
    else this.wake();
  }

  wake(): void {
    if (this.#ring.size > 0 && this.#ready.count > 0) this.host.schedule(this);
  }

  /** Delivers what there is to whoever's turn it is (A49). Finishes in this turn. */
  pump(): void {
    while (!this.deleted) {
      const entry = this.#ready.first();
      if (entry === undefined) return;
      const taker = this.#ring.next();
      if (taker === undefined) return;
      if (entry.message === undefined) return void this.#load();
      this.#ready.shift();
      this.#goOut(entry);
      taker.deliver(entry);
      if (entry.state === "out" && this.#mayBeReadAgain(entry)) this.#evict(entry);
    }
  }

  #goOut(entry: QueueEntry): void {
    entry.state = "out";
    this.#outCount++;
  }

  take(): QueueEntry | undefined | Promise<QueueEntry | undefined> {
    const entry = this.#ready.first();
    if (entry === undefined) return undefined;
    if (entry.message === undefined) return this.#load().then(() => this.take());
    this.#ready.shift();
    this.#goOut(entry);
    return entry;
  }

  // ------------------------------------------------------------------------------------- settling

  acknowledged(item: QueueItem): void {
    const entry = item as QueueEntry;
    if (entry.state !== "out") return;
    this.#outCount--;
    this.#forget(entry);
    this.remove(entry);
  }

  discarded(item: QueueItem): void {
    this.acknowledged(item);
  }

  requeue(items: readonly QueueItem[]): void {
    const entries = (items as readonly QueueEntry[]).filter(({ state }) => state === "out");
    this.#outCount -= entries.length;
    if (this.deleted) {
      for (const entry of entries) this.#forget(entry);
      return;
    }
    for (const entry of entries) {
      entry.state = "ready";
      entry.redelivered = true;
    }
    this.#ready.merge(entries.sort((a, b) => a.seq - b.seq));
    this.wake();
  }

  /** Takes out every ready message, rows too (A40); answers how many. */
  purge(): number {
    const entries = this.#ready.clear();
    for (const entry of entries) {
      this.#forget(entry);
      this.remove(entry);
    }
    return entries.length;
  }

  /**
   * The queue is gone, from this turn on; its rows are the caller's business. Answers how many messages
   * were ready.
   */
  delete(): number {
    this.deleted = true;
    const entries = this.#ready.clear();
    for (const entry of entries) this.#forget(entry);
    for (const taker of this.#ring.clear()) taker.sourceGone();
    return entries.length;
  }

  // ---------------------------------------------------------------------------- what memory holds

  #resides(bytes: number): void {
    this.#residentBytes += bytes;
    this.host.residence.bytes += bytes;
  }

  #forget(entry: QueueEntry): void {
    entry.state = "gone";
    this.#evict(entry);
  }

  #evict(entry: QueueEntry): void {
    if (entry.message === undefined) return;
    entry.message = undefined;
    this.#resides(-entry.bytes);
  }

  #load(): Promise<void> {
    if (this.#loading) return this.#loaded;
    this.#loading = true;
    return this.#loaded = this.#read().finally(() => {
      this.#loading = false;
      this.wake();
    });
  }

  #loaded: Promise<void> = Promise.resolve();

  /** Reads the first messages that the store alone has. */
  async #read(): Promise<void> {
    const first = this.#ready.first();
    if (first === undefined || first.message !== undefined) return;
    let messages: readonly StoredAmqpMessage[];
    try {
      messages = await this.host.store.read(this.id, first.seq, READ_MESSAGES, READ_BYTES);
    } catch (error) {
      this.host.log.error("cannot read messages of an AMQP queue; it is tried again", {
        queue: this.name,
        error: error instanceof Error ? error.message : String(error),
      });
      await new Promise<void>((resolve) => this.host.timers.after(RETRY_MS, resolve));
      return;
    }
    this.#place(messages);
    if (first.state === "ready" && this.#ready.first() === first && first.message === undefined) {
      // Somebody else took its row out of the file.
      this.#ready.shift();
      this.#forget(first);
      this.host.log.error("a message of an AMQP queue is missing in its store", {
        queue: this.name,
        position: first.seq,
      });
    }
  }

  #place(messages: readonly StoredAmqpMessage[]): void {
    let at = 0;
    this.#ready.walk((entry) => {
      while (at < messages.length && messages[at].seq < entry.seq) at++;
      if (at === messages.length) return false;
      const found = messages[at];
      if (found.seq === entry.seq && entry.message === undefined) {
        const { exchange, routingKey, content, propertyBytes } = found;
        entry.message = { exchange, routingKey, content, propertyBytes };
        this.#resides(entry.bytes);
      }
      return true;
    });
  }
}
