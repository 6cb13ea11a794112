import type { Ids } from "../platform/ids.ts";
import { errorText, type Log } from "../platform/log.ts";
import type { Timers } from "../platform/timers.ts";
import type { AmqpChange, AmqpStore } from "../storage/amqp.ts";
import type { Provider } from "../storage/contract.ts";
import { Alarm } from "./alarm.ts";
import { AmqpCounters } from "./counters.ts";
import { type Binding, Exchange } from "./exchanges/exchange.ts";
import { AmqpQueue, type QueueHost, type QueueOptions } from "./queues/queue.ts";
import { Removals } from "./queues/removals.ts";
import { Residence } from "./queues/residence.ts";
import type { Source } from "./queues/source.ts";
import { EMPTY_TABLE } from "./wire/table.ts";

export const DEFAULT_EXCHANGE = "";
export const CROSSING_EXCHANGE = "amq.topic";

/** Pre-declared, durable, not stored (A26); the default exchange is none of them. */
const PREDECLARED = [
  ["amq.direct", "direct"],
  ["amq.fanout", "fanout"],
  [CROSSING_EXCHANGE, "topic"],
] as const;

export interface HostSettings {
  /** `broker.amqp.vhost`. */
  readonly name: string;
  readonly maxReady: number;
  readonly maxReadyBytes: number;
  readonly maxObjects: number;
  /** `broker.session.ack_commit_interval`. */
  readonly ackCommitIntervalMs: number;
}

export interface HostSurroundings {
  readonly provider: Provider;
  readonly timers: Timers;
  readonly log: Log;
  readonly ids: Ids;
}

/** What the memory has forgotten and the store has to: run in order, in the turn of object changes. */
export type StoredPart = () => Promise<void>;

/**
 * The one virtual host: its exchanges, queues and bindings, as they are in memory. What may be declared
 * and how it is answered is `declarations.ts`; how a message gets in is `publishing.ts`.
 */
export class VirtualHost implements QueueHost {
  readonly name: string;
  readonly maxReady: number;
  readonly maxReadyBytes: number;
  readonly provider: Provider;
  readonly store: AmqpStore;
  readonly timers: Timers;
  readonly log: Log;
  readonly ids: Ids;
  readonly removals: Removals;
  readonly residence = new Residence();
  readonly alarm: Alarm;
  readonly counters = new AmqpCounters();
  readonly exchanges = new Map<string, Exchange<AmqpQueue>>();
  readonly queues = new Map<string, AmqpQueue>();
  /** `queue` channels of the broker under their names; they take the place of an AMQP queue. */
  readonly jobQueues = new Map<string, Source>();
  /** What a queue is bound to. */
  readonly #bound = new Map<AmqpQueue, Set<Exchange<AmqpQueue>>>();
  /** The exclusive queues of each connection. */
  readonly #owned = new Map<object, Set<AmqpQueue>>();
  #bindingCount = 0;
  #seq = 0;
  #queueId = 0;
  #turn: Promise<unknown> = Promise.resolve();
  #due = new Set<{ pump(): void }>();

  constructor(readonly settings: HostSettings, surroundings: HostSurroundings) {
    this.name = settings.name;
    this.maxReady = settings.maxReady;
    this.maxReadyBytes = settings.maxReadyBytes;
    this.provider = surroundings.provider;
    this.store = surroundings.provider.amqp();
    this.timers = surroundings.timers;
    this.log = surroundings.log;
    this.ids = surroundings.ids;
    this.alarm = new Alarm(this.store, this.timers, this.log);
    this.removals = new Removals(
      this.store,
      settings.ackCommitIntervalMs,
      this.timers,
      this.log,
      () => this.alarm.roomMade(),
    );
    for (const [name, type] of PREDECLARED) {
      this.exchanges.set(
        name,
        new Exchange(name, { type, durable: true, autoDelete: false, args: EMPTY_TABLE }),
      );
    }
  }

  /** Queues, exchanges and bindings, against `broker.amqp.max_objects`. */
  get objectCount(): number {
    return this.queues.size + this.exchanges.size - PREDECLARED.length + this.#bindingCount;
  }

  /** What is read from under this name. */
  source(name: string): Source | undefined {
    return this.jobQueues.get(name) ?? this.queues.get(name);
  }

  /** The position of the next message in whatever queue (T8). */
  nextSeq(): number {
    return ++this.#seq;
  }

  nextQueueId(): number {
    return ++this.#queueId;
  }

  /** Where counting goes on after what was found in the store. */
  countFrom(seq: number, queueId: number): void {
    this.#seq = seq;
    this.#queueId = queueId;
  }

  // ------------------------------------------------------------------------------- turns of the loop

  schedule(queue: { pump(): void }): void {
    this.#due.add(queue);
    if (this.#due.size > 1) return;
    queueMicrotask(() => {
      const due = this.#due;
      this.#due = new Set();
      for (const each of due) each.pump();
    });
  }

  /**
   * Runs changes of objects one after another, since some of them wait for the store (T3). One that
   * needs no waiting runs at once when nobody waits.
   */
  inTurn<T>(change: () => T | Promise<T>): Promise<T> {
    const turn = this.#turn.then(change);
    this.#turn = turn.then(nothing, nothing);
    return turn;
  }

  /** Resolves when every change so far has ended. */
  changed(): Promise<unknown> {
    return this.#turn;
  }

  change(change: AmqpChange): Promise<void> {
    return this.store.change(change);
  }

  // ------------------------------------------------------------------------------------------ objects

  addQueue(name: string, options: QueueOptions): AmqpQueue {
    const queue = new AmqpQueue(name, options, this);
    this.queues.set(name, queue);
    const { owner } = options;
    if (owner !== undefined) {
      const owned = this.#owned.get(owner);
      if (owned === undefined) this.#owned.set(owner, new Set([queue]));
      else owned.add(queue);
    }
    return queue;
  }

  addBinding(binding: Binding<AmqpQueue>): void {
    const { exchange, queue } = binding;
    exchange.bind(binding);
    this.#bindingCount++;
    let bound = this.#bound.get(queue);
    if (bound === undefined) this.#bound.set(queue, bound = new Set());
    bound.add(exchange);
  }

  /** Removes a binding, and with it an auto-delete exchange that has no other (A29). */
  removeBinding(binding: Binding<AmqpQueue>, stored: StoredPart[]): void {
    const { exchange, queue } = binding;
    exchange.unbind(binding);
    this.#bindingCount--;
    for (const _ of exchange.bindingsOf(queue)) return this.#maybeUnused(exchange, stored);
    const bound = this.#bound.get(queue);
    bound?.delete(exchange);
    if (bound?.size === 0) this.#bound.delete(queue);
    this.#maybeUnused(exchange, stored);
  }

  #maybeUnused(exchange: Exchange<AmqpQueue>, stored: StoredPart[]): void {
    if (!exchange.autoDelete || exchange.bindingCount > 0 || exchange.deleted) return;
    this.removeExchange(exchange, stored);
  }

  removeExchange(exchange: Exchange<AmqpQueue>, stored: StoredPart[]): void {
    exchange.deleted = true;
    this.exchanges.delete(exchange.name);
    for (const binding of [...exchange.bindings()]) this.removeBinding(binding, stored);
    if (!exchange.durable) return;
    const { name } = exchange;
    stored.push(() => this.change({ change: "delete-exchange", name }));
  }

  /** Removes a queue with its bindings and messages (A39); answers how many were ready. */
  removeQueue(queue: AmqpQueue, stored: StoredPart[]): number {
    if (this.queues.get(queue.name) !== queue) return 0;
    this.queues.delete(queue.name);
    if (queue.owner !== undefined) this.#owned.get(queue.owner)?.delete(queue);
    const count = queue.delete();
    for (const exchange of [...this.#bound.get(queue) ?? []]) {
      for (const binding of [...exchange.bindingsOf(queue)]) this.removeBinding(binding, stored);
    }
    if (queue.stored) stored.push(() => this.#deleteStored(queue.id));
    else this.counters.droppedByGone += queue.dropped;
    return count;
  }

  /** A long queue goes in many transactions, so that publishes go between. */
  async #deleteStored(id: number): Promise<void> {
    while (await this.store.clear(id));
    await this.change({ change: "delete-queue", id });
  }

  unused(queue: AmqpQueue): void {
    const stored: StoredPart[] = [];
    this.removeQueue(queue, stored);
    this.runLater(stored);
  }

  /** Stores what nobody waits for: the end of auto-delete and of exclusive queues. */
  runLater(stored: readonly StoredPart[]): void {
    for (const part of stored) {
      this.inTurn(part).catch((error) =>
        this.log.error("cannot delete an AMQP object in its store; it returns at the next start", {
          error: errorText(error),
        })
      );
    }
  }

  /** The exclusive queues of a connection that ended (A37). */
  removeQueuesOf(owner: object): void {
    const stored: StoredPart[] = [];
    for (const queue of this.#owned.get(owner) ?? []) this.removeQueue(queue, stored);
    this.#owned.delete(owner);
    this.runLater(stored);
  }

  /**
   * Resolves once the first `mark` removals are stored, and whatever was settled in queue channels;
   * undefined when all is. @throws StorageFailure
   */
  settledUpTo(mark: number): Promise<void> | undefined {
    let waits = this.removals.gone(mark);
    for (const { settling } of this.jobQueues.values()) {
      if (settling !== undefined) waits = waits === undefined ? settling : both(waits, settling);
    }
    return waits;
  }

  /** Resolves once everything settled by now is stored. @throws StorageFailure */
  async everythingSettled(): Promise<void> {
    await this.settledUpTo(this.removals.added);
  }

  /** Stores what is settled. Every connection is gone. */
  async stop(): Promise<void> {
    this.alarm.stop();
    await this.changed();
    await this.everythingSettled();
  }
}

function nothing(): void {}

async function both(one: Promise<void>, other: Promise<void>): Promise<void> {
  await one;
  await other;
}
