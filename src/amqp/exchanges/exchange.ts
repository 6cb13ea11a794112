import { encodeTable, type FieldTable } from "../wire/table.ts";
import { bytesText } from "../wire/text.ts";
import { TopicKeys } from "./topic_keys.ts";

export const EXCHANGE_TYPES = ["direct", "fanout", "topic"] as const;
export type ExchangeType = typeof EXCHANGE_TYPES[number];

export function isExchangeType(type: string): type is ExchangeType {
  return (EXCHANGE_TYPES as readonly string[]).includes(type);
}

/**
 * What an exchange remembers of where keys lead, since publishers repeat them: keys, and queues under all
 * of them together, one for each key that leads nowhere.
 */
const CACHED_PLACES = 16_384;

export interface ExchangeOptions {
  readonly type: ExchangeType;
  readonly durable: boolean;
  readonly autoDelete: boolean;
  /** In canonical form, as all arguments here. */
  readonly args: FieldTable;
}

/** A queue bound to an exchange. Identified by all four of its parts (A30). */
export interface Binding<Queue> {
  readonly exchange: Exchange<Queue>;
  readonly queue: Queue;
  readonly routingKey: string;
  readonly args: FieldTable;
  /** It is kept in the store: both ends are durable. */
  readonly stored: boolean;
}

/** An exchange: which queues a message of a key enters, each once (A31). Keeps no message. */
export class Exchange<Queue> implements ExchangeOptions {
  readonly type: ExchangeType;
  readonly durable: boolean;
  readonly autoDelete: boolean;
  readonly args: FieldTable;
  deleted = false;
  readonly #bindings = new Map<Queue, Map<string, Binding<Queue>>>();
  #bindingCount = 0;
  readonly #topics: TopicKeys<Queue> | undefined;
  /** By routing key, how often each queue is bound under it; of a direct exchange. */
  readonly #keys = new Map<string, Map<Queue, number>>();
  #routes = new Map<string, readonly Queue[]>();
  /** Places taken in `#routes`. */
  #cached = 0;

  constructor(readonly name: string, options: ExchangeOptions) {
    this.type = options.type;
    this.durable = options.durable;
    this.autoDelete = options.autoDelete;
    this.args = options.args;
    if (options.type === "topic") this.#topics = new TopicKeys();
  }

  get bindingCount(): number {
    return this.#bindingCount;
  }

  find(queue: Queue, routingKey: string, args: FieldTable): Binding<Queue> | undefined {
    return this.#bindings.get(queue)?.get(identity(routingKey, args));
  }

  bindingsOf(queue: Queue): Iterable<Binding<Queue>> {
    return this.#bindings.get(queue)?.values() ?? [];
  }

  *bindings(): Iterable<Binding<Queue>> {
    for (const of of this.#bindings.values()) yield* of.values();
  }

  /** The caller found no such binding. */
  bind(binding: Binding<Queue>): void {
    const { queue, routingKey, args } = binding;
    let of = this.#bindings.get(queue);
    if (of === undefined) this.#bindings.set(queue, of = new Map());
    of.set(identity(routingKey, args), binding);
    this.#bindingCount++;
    this.#forgetRoutes();
    if (this.#topics !== undefined) this.#topics.add(routingKey, queue);
    else if (this.type === "direct") {
      let queues = this.#keys.get(routingKey);
      if (queues === undefined) this.#keys.set(routingKey, queues = new Map());
      queues.set(queue, (queues.get(queue) ?? 0) + 1);
    }
  }

  unbind(binding: Binding<Queue>): void {
    const { queue, routingKey, args } = binding;
    const of = this.#bindings.get(queue);
    if (!of?.delete(identity(routingKey, args))) return;
    if (of.size === 0) this.#bindings.delete(queue);
    this.#bindingCount--;
    this.#forgetRoutes();
    if (this.#topics !== undefined) this.#topics.remove(routingKey, queue);
    else if (this.type === "direct") {
      const queues = this.#keys.get(routingKey)!;
      const count = queues.get(queue)!;
      if (count > 1) queues.set(queue, count - 1);
      else if (queues.delete(queue) && queues.size === 0) this.#keys.delete(routingKey);
    }
  }

  /** The queues a message of this key enters. The list is shared: it is not to be changed. */
  route(routingKey: string): readonly Queue[] {
    // Every key is the same to a fanout exchange.
    const key = this.type === "fanout" ? "" : routingKey;
    let queues = this.#routes.get(key);
    if (queues === undefined) {
      queues = this.#resolve(key);
      this.#cached += Math.max(1, queues.length);
      if (this.#cached > CACHED_PLACES) {
        this.#forgetRoutes();
        this.#cached = Math.max(1, queues.length);
      }
      this.#routes.set(key, queues);
    }
    return queues;
  }

  #forgetRoutes(): void {
    if (this.#routes.size > 0) this.#routes = new Map();
    this.#cached = 0;
  }

  #resolve(routingKey: string): readonly Queue[] {
    switch (this.type) {
      case "direct":
        return [...this.#keys.get(routingKey)?.keys() ?? []];
      case "fanout":
        return [...this.#bindings.keys()];
      case "topic": {
        const queues = new Set<Queue>();
        this.#topics!.match(routingKey, (queue) => queues.add(queue));
        return [...queues];
      }
    }
  }
}

/** A text that is equal for equal routing key and arguments. */
function identity(routingKey: string, args: FieldTable): string {
  return `${routingKey.length}:${routingKey}${args.size === 0 ? "" : tableIdentity(args)}`;
}

/** A text that is equal for equal canonical tables. */
export function tableIdentity(args: FieldTable): string {
  const bytes = encodeTable(args);
  return bytesText(bytes, 0, bytes.length);
}
