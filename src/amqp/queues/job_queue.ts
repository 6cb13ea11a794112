import type { AccessControl } from "../../auth/acl/access.ts";
import type { QueueChannel } from "../../broker/channels/queue.ts";
import type { Held, Worker, WorkerState } from "../../broker/channels/queue_worker.ts";
import type { Offer } from "../../storage/contract.ts";
import { utf8Length } from "../../storage/record.ts";
import type { AmqpMessage } from "../message.ts";
import { type Refusal, refuse, Reply } from "../reply.ts";
import { encodeTable, type FieldValue, textField } from "../wire/table.ts";
import { encodeText } from "../wire/text.ts";
import type { QueueItem, Source, Taker } from "./source.ts";

/** A routing key is a short string. */
const LONGEST_SHORT_STRING_BYTES = 255;

/** content-type, headers, delivery-mode, message-id. */
const CONTENT_TYPE = 0x8000;
const HEADERS = 0x2000;
const DELIVERY_MODE = 0x1000;
const MESSAGE_ID = 0x80;

/** One job with an AMQP consumer, from its delivery on. */
class JobItem implements QueueItem {
  readonly durable = true;
  /** Set by the slot that was sent the job. */
  held: Held | undefined;

  constructor(
    readonly source: JobQueue,
    readonly message: AmqpMessage,
    readonly redelivered: boolean,
  ) {}
}

/**
 * A place for one job of one consumer in the worker pool of the channel: a consumer with a prefetch of
 * ten has up to ten of them at work and one that is free.
 */
class Slot implements Worker {
  readonly acknowledges = false;
  state: WorkerState = "away";
  subscribed = true;
  needed = 0;
  #held: Held | undefined;

  constructor(
    private readonly queue: JobQueue,
    readonly taker: Taker,
  ) {}

  get held(): Held | undefined {
    return this.#held;
  }

  set held(held: Held | undefined) {
    this.#held = held;
    this.queue.slotChanged(this);
  }

  get holder(): string {
    return this.taker.user === "" ? "amqp" : `amqp:${this.taker.user}`;
  }

  get live(): boolean {
    return this.subscribed && this.queue.refusal(this.taker.user) === undefined;
  }

  get hasRoom(): boolean {
    return this.taker.hasCapacity;
  }

  /** Room is counted in deliveries. */
  fits(): boolean {
    return true;
  }

  send(offer: Offer): boolean {
    const item = this.queue.item(offer);
    item.held = this.held;
    this.taker.deliver(item);
    this.queue.delivered(this.taker);
    return true;
  }

  /** The channel of the consumer wakes its sources when it has capacity again. */
  waitForRoom(): void {}
}

/** A place for a basic.get, which is in no pool. */
function visitor(holder: string): Worker {
  return {
    acknowledges: false,
    state: "away",
    subscribed: false,
    held: undefined,
    needed: 0,
    holder,
    live: false,
    hasRoom: true,
    fits: () => true,
    send: () => false,
    waitForRoom: () => {},
  };
}

/** The slots of one consumer. */
interface Slots {
  /** At most one, in the end: the next job needs no more. */
  readonly free: Set<Slot>;
  readonly busy: Set<Slot>;
}

/**
 * A `queue` channel as AMQP clients see it: a durable queue of its name. A delivery leases a job, ack
 * resolves it; nack and reject give it back, with requeue as if it had never been out, without requeue
 * with the attempt counted, so that backoff and dead letters of the channel apply. MQTT workers and AMQP
 * consumers take turns in one pool, and a job has one holder.
 */
export class JobQueue implements Source {
  readonly heldExclusively = false;
  readonly deleted = false;
  readonly shared: Refusal;
  readonly #slots = new Map<Taker, Slots>();

  constructor(
    private readonly channel: QueueChannel,
    private readonly host: { schedule(queue: { pump(): void }): void },
    private readonly access: AccessControl,
  ) {
    this.shared = refuse(
      Reply.AccessRefused,
      `'${channel.name}' is a queue channel, whose jobs MQTT workers take too: no consumer can have ` +
        "it exclusively",
    );
  }

  get name(): string {
    return this.channel.name;
  }

  get messageCount(): number {
    return Math.max(0, this.channel.store.depth() - this.channel.inFlight);
  }

  get consumerCount(): number {
    return this.#slots.size + this.channel.workers;
  }

  get settling(): Promise<void> | undefined {
    return this.channel.settling ? this.channel.settled() : undefined;
  }

  refusal(user: string): Refusal | undefined {
    const { access, name } = this;
    if (access.acl === undefined || access.rules(user, "").mayConsume(name)) return undefined;
    return refuse(
      Reply.AccessRefused,
      `user '${user}' may not take jobs of queue channel '${name}'`,
    );
  }

  // ---------------------------------------------------------------------------------------- consumers

  join(taker: Taker): void {
    this.#slots.set(taker, { free: new Set(), busy: new Set() });
    this.#haveFreeSlot(taker);
  }

  leave(taker: Taker): void {
    const slots = this.#slots.get(taker);
    if (slots === undefined) return;
    this.#slots.delete(taker);
    for (const slot of [...slots.free, ...slots.busy]) this.channel.exit(slot);
  }

  wake(): void {
    this.host.schedule(this);
  }

  /** Consumers that had no capacity may have some. */
  pump(): void {
    for (const [taker, { free }] of this.#slots) {
      for (const slot of free) this.channel.roomMade(slot);
      this.#haveFreeSlot(taker);
    }
  }

  /** A slot was given a job, or is done with it. @internal */
  slotChanged(slot: Slot): void {
    const slots = this.#slots.get(slot.taker);
    if (slots === undefined) return;
    if (slot.held !== undefined) {
      slots.free.delete(slot);
      slots.busy.add(slot);
      return;
    }
    slots.busy.delete(slot);
    // The one that has just become free is served first.
    for (const other of slots.free) this.channel.exit(other);
    slots.free.clear();
    slots.free.add(slot);
  }

  /** @internal */
  delivered(taker: Taker): void {
    this.#haveFreeSlot(taker);
  }

  #haveFreeSlot(taker: Taker): void {
    const slots = this.#slots.get(taker);
    if (slots === undefined || slots.free.size > 0 || !taker.hasCapacity) return;
    const slot = new Slot(this, taker);
    slots.free.add(slot);
    this.channel.enter(slot);
  }

  async take(): Promise<QueueItem | undefined> {
    const held = await this.channel.lend(visitor("amqp"));
    if (held === undefined) return undefined;
    const item = this.item(held.offer);
    item.held = held;
    return item;
  }

  // ----------------------------------------------------------------------------------------- settling

  acknowledged(item: QueueItem): void {
    this.#settle(item, "ack");
  }

  discarded(item: QueueItem): void {
    this.#settle(item, "return");
  }

  requeue(items: readonly QueueItem[]): void {
    for (const item of items) this.#settle(item, "untouched");
  }

  #settle(item: QueueItem, verdict: "ack" | "return" | "untouched"): void {
    const { held } = item as JobItem;
    // A job whose visibility timeout has passed is somebody else's: the answer does nothing.
    if (held !== undefined) void this.channel.settle(held, verdict);
  }

  // --------------------------------------------------------------------------------- jobs as messages

  /** A job as a message: its topic as the key, what AMQP has no field for in headers. @internal */
  item({ message, offset, attempt }: Offer): JobItem {
    const { topic, messageId, properties, payload } = message;
    const headers = encodeTable(
      new Map<string, FieldValue>([
        ["saguin-topic", textField(topic)],
        ["saguin-offset", { type: "l", value: BigInt(offset) }],
        ["saguin-attempt", { type: "l", value: BigInt(attempt) }],
      ]),
    );
    const { contentType } = properties;
    const type = contentType === undefined || utf8Length(contentType) > LONGEST_SHORT_STRING_BYTES
      ? undefined
      : encodeText(contentType);
    const id = encodeText(messageId);
    const flags = HEADERS | DELIVERY_MODE | (type === undefined ? 0 : CONTENT_TYPE) |
      (id.length > LONGEST_SHORT_STRING_BYTES ? 0 : MESSAGE_ID);
    const parts: Uint8Array[] = [Uint8Array.of(flags >> 8, flags & 0xff)];
    if (type !== undefined) parts.push(Uint8Array.of(type.length), type);
    parts.push(headers, Uint8Array.of(2));
    if ((flags & MESSAGE_ID) !== 0) parts.push(Uint8Array.of(id.length), id);
    const propertyBytes = parts.reduce((sum, { length }) => sum + length, 0);
    const content = new Uint8Array(propertyBytes + payload.length);
    let at = 0;
    for (const part of [...parts, payload]) {
      content.set(part, at);
      at += part.length;
    }
    const fits = utf8Length(topic) <= LONGEST_SHORT_STRING_BYTES;
    const [exchange, routingKey] = fits
      ? ["amq.topic", topic.replaceAll("/", ".")]
      : ["", this.name];
    return new JobItem(this, { exchange, routingKey, content, propertyBytes }, attempt > 1);
  }
}
