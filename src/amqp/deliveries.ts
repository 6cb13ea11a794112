import type { AmqpMessage } from "./message.ts";
import type { QueueItem, Source, Taker } from "./queues/source.ts";
import { type Refusal, refuse, Reply } from "./reply.ts";

/** Consumers of one connection, all of its channels together: more than any pool of workers has. */
export const MOST_CONSUMERS = 10_000;

/** What the channel does for its deliveries. */
export interface DeliveryLink {
  /** How many consumers its connection has; kept by the deliveries of its channels. */
  readonly consumers: { count: number };
  /** The login; empty for none. */
  readonly user: string;
  /** The socket has more to take than it should (A18), or nothing is delivered any more. */
  readonly congested: boolean;
  deliver(
    consumerTag: string,
    deliveryTag: number,
    redelivered: boolean,
    message: AmqpMessage,
  ): void;
  /** A delivery that needs no acknowledgement: settled once it is written (A57). */
  settleWhenWritten(item: QueueItem): void;
  /** A source of a consumer is gone (A41). */
  cancelled(consumerTag: string): void;
}

interface Unacked {
  readonly item: QueueItem;
  /** Undefined for a basic.get. */
  readonly consumer: Consumer | undefined;
}

/** A consumer on its channel (A47). */
export class Consumer implements Taker {
  unacked = 0;
  active = true;

  constructor(
    readonly tag: string,
    readonly source: Source,
    readonly noAck: boolean,
    readonly exclusive: boolean,
    /** Most unacknowledged deliveries of its own; 0 for no limit. */
    readonly limit: number,
    private readonly deliveries: Deliveries,
  ) {}

  get user(): string {
    return this.deliveries.user;
  }

  get hasCapacity(): boolean {
    const { deliveries, limit } = this;
    if (deliveries.congested) return false;
    return this.noAck || (limit === 0 || this.unacked < limit) && deliveries.consumersHaveRoom;
  }

  deliver(item: QueueItem): void {
    this.deliveries.deliver(this, item);
  }

  sourceGone(): void {
    this.deliveries.sourceGone(this);
  }
}

/** Everything one channel was given and has not settled, and its consumers (sections 9.2 and 9.3). */
export class Deliveries {
  /** Delivery tags: per channel, from 1, never reused (A52). */
  #tag = 0;
  readonly #unacked = new Map<number, Unacked>();
  /** Of those, how many went to consumers. */
  #consumed = 0;
  readonly #consumers = new Map<string, Consumer>();
  /** basic.qos: of consumers made from now on, and of all consumers together. */
  #consumerLimit = 0;
  #sharedLimit = 0;

  constructor(private readonly link: DeliveryLink, private readonly maxUnacked: number) {}

  get user(): string {
    return this.link.user;
  }

  get congested(): boolean {
    return this.link.congested;
  }

  get consumersHaveRoom(): boolean {
    return this.#unacked.size < this.maxUnacked &&
      (this.#sharedLimit === 0 || this.#consumed < this.#sharedLimit);
  }

  get unackedCount(): number {
    return this.#unacked.size;
  }

  // ---------------------------------------------------------------------------------------- consumers

  consumer(tag: string): Consumer | undefined {
    return this.#consumers.get(tag);
  }

  /** Why there cannot be one more consumer. */
  get consumeRefusal(): Refusal | undefined {
    if (this.link.consumers.count < MOST_CONSUMERS) return undefined;
    return refuse(
      Reply.ResourceError,
      `this connection has ${MOST_CONSUMERS} consumers, and that is the most it can have`,
    );
  }

  /** The caller joins it to its source once consume-ok is written. */
  consume(tag: string, source: Source, noAck: boolean, exclusive: boolean): Consumer {
    const consumer = new Consumer(tag, source, noAck, exclusive, this.#consumerLimit, this);
    this.#consumers.set(tag, consumer);
    this.link.consumers.count++;
    return consumer;
  }

  /** Its deliveries stay out (A47). */
  cancel(tag: string): void {
    const consumer = this.#consumers.get(tag);
    if (consumer === undefined) return;
    this.#gone(consumer);
    consumer.source.leave(consumer);
  }

  sourceGone(consumer: Consumer): void {
    if (!consumer.active) return;
    this.#gone(consumer);
    this.link.cancelled(consumer.tag);
  }

  #gone(consumer: Consumer): void {
    this.#consumers.delete(consumer.tag);
    this.link.consumers.count--;
    consumer.active = false;
  }

  qos(prefetchCount: number, global: boolean): void {
    if (!global) {
      this.#consumerLimit = prefetchCount;
      return;
    }
    this.#sharedLimit = prefetchCount;
    this.wakeAll();
  }

  /** Every consumer may have capacity now. */
  wakeAll(): void {
    for (const { source } of this.#consumers.values()) source.wake();
  }

  // ----------------------------------------------------------------------------------------- delivery

  deliver(consumer: Consumer, item: QueueItem): void {
    const tag = ++this.#tag;
    if (!consumer.noAck) {
      this.#unacked.set(tag, { item, consumer });
      consumer.unacked++;
      this.#consumed++;
    }
    this.link.deliver(consumer.tag, tag, item.redelivered, item.message!);
    if (consumer.noAck) this.#settleUnasked(item);
  }

  #settleUnasked(item: QueueItem): void {
    if (item.durable) this.link.settleWhenWritten(item);
    else item.source.acknowledged(item);
  }

  /** Why a basic.get may not be answered (A50). */
  getRefusal(noAck: boolean): Refusal | undefined {
    if (noAck || this.#unacked.size < this.maxUnacked) return undefined;
    return refuse(
      Reply.PreconditionFailed,
      `${this.maxUnacked} deliveries of this channel are not acknowledged, as many as ` +
        "broker.amqp.max_unacked allows",
    );
  }

  /** The tag of a message for a basic.get; `written` writes it. */
  got(item: QueueItem, noAck: boolean, written: (deliveryTag: number) => void): void {
    const tag = ++this.#tag;
    if (!noAck) this.#unacked.set(tag, { item, consumer: undefined });
    written(tag);
    if (noAck) this.#settleUnasked(item);
  }

  // ----------------------------------------------------------------------------------------- settling

  acknowledge(tag: number, multiple: boolean): Refusal | undefined {
    const wasFull = !this.consumersHaveRoom;
    if (!multiple) {
      const unacked = this.#unacked.get(tag);
      if (unacked === undefined) return unknownTag(tag);
      this.#release(tag, unacked);
      unacked.item.source.acknowledged(unacked.item);
    } else {
      const tags = this.#upTo(tag);
      if (tags === undefined) return unknownTag(tag);
      for (const each of tags) {
        const unacked = this.#unacked.get(each)!;
        this.#release(each, unacked);
        unacked.item.source.acknowledged(unacked.item);
      }
    }
    if (wasFull) this.wakeAll();
    return undefined;
  }

  /** nack and reject (A54). */
  refuse(tag: number, multiple: boolean, requeue: boolean): Refusal | undefined {
    const tags = multiple ? this.#upTo(tag) : this.#unacked.has(tag) ? [tag] : undefined;
    if (tags === undefined) return unknownTag(tag);
    const wasFull = !this.consumersHaveRoom;
    this.#giveBack(tags, requeue);
    if (wasFull) this.wakeAll();
    return undefined;
  }

  /** Everything unacknowledged goes back (A54). */
  recover(): void {
    const wasFull = !this.consumersHaveRoom;
    this.#giveBack([...this.#unacked.keys()], true);
    if (wasFull) this.wakeAll();
  }

  /** The outstanding tags up to `tag`, all of them for 0; undefined when `tag` is none of them. */
  #upTo(tag: number): number[] | undefined {
    if (tag !== 0 && !this.#unacked.has(tag)) return undefined;
    const tags: number[] = [];
    for (const each of this.#unacked.keys()) {
      if (tag !== 0 && each > tag) break;
      tags.push(each);
    }
    return tags;
  }

  #release(tag: number, { consumer }: Unacked): void {
    this.#unacked.delete(tag);
    if (consumer === undefined) return;
    this.#consumed--;
    consumer.unacked--;
    if (consumer.active) consumer.source.wake();
  }

  #giveBack(tags: readonly number[], requeue: boolean): void {
    const bySource = new Map<Source, QueueItem[]>();
    for (const tag of tags) {
      const unacked = this.#unacked.get(tag)!;
      const { item } = unacked;
      this.#release(tag, unacked);
      if (!requeue) {
        item.source.discarded(item);
        continue;
      }
      const items = bySource.get(item.source);
      if (items === undefined) bySource.set(item.source, [item]);
      else items.push(item);
    }
    for (const [source, items] of bySource) source.requeue(items);
  }

  /** The channel ends, in whatever way: consumers leave, what is out goes back (A47). */
  end(): void {
    const consumers = [...this.#consumers.values()];
    for (const consumer of consumers) this.#gone(consumer);
    this.#giveBack([...this.#unacked.keys()], true);
    for (const consumer of consumers) consumer.source.leave(consumer);
  }
}

function unknownTag(tag: number): Refusal {
  return refuse(Reply.PreconditionFailed, `unknown delivery tag ${tag}`);
}
