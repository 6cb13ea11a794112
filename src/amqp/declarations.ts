import { StorageFailure } from "../storage/contract.ts";
import { DEFAULT_EXCHANGE, type StoredPart, type VirtualHost } from "./virtual_host.ts";
import {
  type Binding,
  Exchange,
  EXCHANGE_TYPES,
  isExchangeType,
  tableIdentity,
} from "./exchanges/exchange.ts";
import type { AmqpQueue } from "./queues/queue.ts";
import { isRefusal, NO_DIRECT_REPLY, type Refusal, refuse, Reply } from "./reply.ts";
import type { MethodOf } from "./wire/methods.ts";
import { DIRECT_REPLY } from "./wire/properties.ts";
import { canonicalTable, encodeTable, type FieldTable, fieldText } from "./wire/table.ts";

/** Random bytes of a name we make: 32 characters of base64url (A34). */
const GENERATED_NAME_BYTES = 24;

const RESERVED_PREFIX = "amq.";

/** What queue.declare-ok tells. */
export interface DeclaredQueue {
  readonly name: string;
  readonly messageCount: number;
  readonly consumerCount: number;
}

/**
 * What clients declare, bind, purge and delete (sections 7 and 8 of the specification), and why they
 * may not. `owner` is the connection that asks. Durable changes are stored before they are answered.
 */
export class Declarations {
  constructor(private readonly host: VirtualHost) {}

  // ---------------------------------------------------------------------------------------- exchanges

  declareExchange(request: MethodOf<"exchange.declare">): Promise<Refusal | undefined> {
    return this.host.inTurn(() => this.#declareExchange(request));
  }

  async #declareExchange(request: MethodOf<"exchange.declare">): Promise<Refusal | undefined> {
    const { host } = this;
    const { exchange: name, type, durable, autoDelete } = request;
    if (name === DEFAULT_EXCHANGE) return defaultExchange();
    const found = host.exchanges.get(name);
    if (request.passive) return found === undefined ? noExchange(host, name) : undefined;
    if (!isExchangeType(type)) {
      return refuse(
        Reply.NotImplemented,
        `exchange type '${type}' is not supported; supported: ${EXCHANGE_TYPES.join(", ")}`,
      );
    }
    if (request.internal) {
      return refuse(Reply.NotImplemented, "internal exchanges are not supported");
    }
    if (request.arguments.has("alternate-exchange")) {
      return refuse(Reply.NotImplemented, "an alternate-exchange is not supported");
    }
    const args = canonicalTable(request.arguments);
    const options = { type, durable, autoDelete, args };
    if (found !== undefined) {
      const place = `exchange '${name}' in vhost '${host.name}'`;
      return inequivalent(place, [
        ["type", type, found.type],
        ["durable", durable, found.durable],
        ["auto_delete", autoDelete, found.autoDelete],
      ]) ?? inequivalentArguments(place, args, found.args);
    }
    if (name.startsWith(RESERVED_PREFIX)) return reservedName("exchange", name);
    const full = this.#noRoom();
    if (full !== undefined) return full;
    if (durable) {
      const stored = { name, type, autoDelete, args: encodeTable(args) };
      const failure = await this.#store([
        () => host.change({ change: "declare-exchange", exchange: stored }),
      ]);
      if (failure !== undefined) return failure;
    }
    host.exchanges.set(name, new Exchange<AmqpQueue>(name, options));
    return undefined;
  }

  deleteExchange(request: MethodOf<"exchange.delete">): Promise<Refusal | undefined> {
    return this.host.inTurn(async () => {
      const { exchange: name, ifUnused } = request;
      if (name === DEFAULT_EXCHANGE) return defaultExchange();
      if (name.startsWith(RESERVED_PREFIX)) return reservedName("exchange", name);
      const exchange = this.host.exchanges.get(name);
      if (exchange === undefined) return undefined;
      if (ifUnused && exchange.bindingCount > 0) {
        return refuse(
          Reply.PreconditionFailed,
          `exchange '${name}' in vhost '${this.host.name}' in use`,
        );
      }
      const stored: StoredPart[] = [];
      this.host.removeExchange(exchange, stored);
      return await this.#store(stored);
    });
  }

  // ------------------------------------------------------------------------------------------- queues

  declareQueue(
    request: MethodOf<"queue.declare">,
    owner: object,
  ): Promise<DeclaredQueue | Refusal> {
    return this.host.inTurn(() => this.#declareQueue(request, owner));
  }

  async #declareQueue(
    request: MethodOf<"queue.declare">,
    owner: object,
  ): Promise<DeclaredQueue | Refusal> {
    const { host } = this;
    const name = request.queue === "" ? this.#generatedName() : request.queue;
    const found = host.source(name);
    if (request.passive) {
      if (found === undefined) return noQueue(host, name);
      const locked = this.#locked(name, owner);
      return locked ?? declared(found);
    }
    const args = queueArguments(request.arguments);
    if (isRefusal(args)) return args;
    if (found !== undefined) return this.#declareAgain(request, name, args, owner);
    if (request.queue.startsWith(RESERVED_PREFIX)) return reservedName("queue", name);
    const full = this.#noRoom();
    if (full !== undefined) return full;
    const { durable, autoDelete, exclusive } = request;
    const options = {
      id: durable && !exclusive ? host.nextQueueId() : 0,
      durable,
      autoDelete,
      args,
      owner: exclusive ? owner : undefined,
    };
    if (options.id !== 0) {
      const queue = { id: options.id, name, autoDelete, args: encodeTable(args) };
      const failure = await this.#store([() => host.change({ change: "declare-queue", queue })]);
      if (failure !== undefined) return failure;
    }
    return declared(host.addQueue(name, options));
  }

  /** The order of checks is A35's. */
  #declareAgain(
    request: MethodOf<"queue.declare">,
    name: string,
    args: FieldTable,
    owner: object,
  ): DeclaredQueue | Refusal {
    const { host } = this;
    const place = `queue '${name}' in vhost '${host.name}'`;
    const queue = host.queues.get(name);
    if (host.jobQueues.has(name) || queue === undefined) {
      const source = host.source(name)!;
      return inequivalent(place, [
        ["exclusive", request.exclusive, false],
        ["durable", request.durable, true],
        ["auto_delete", request.autoDelete, false],
      ]) ?? inequivalentArguments(place, args, new Map()) ?? declared(source);
    }
    if (queue.exclusive !== request.exclusive || queue.exclusive && queue.owner !== owner) {
      return lockedQueue(host, name);
    }
    return inequivalent(place, [
      ["durable", request.durable, queue.durable],
      ["auto_delete", request.autoDelete, queue.autoDelete],
    ]) ?? inequivalentArguments(place, args, queue.args) ?? declared(queue);
  }

  #generatedName(): string {
    const bytes = this.host.ids.token(GENERATED_NAME_BYTES);
    return `amq.gen-${bytes.slice(0, 32)}`;
  }

  deleteQueue(
    request: MethodOf<"queue.delete">,
    owner: object,
  ): Promise<number | Refusal> {
    return this.host.inTurn(async () => {
      const { host } = this;
      const { queue: name } = request;
      if (host.jobQueues.has(name)) return channelQueue(name, "deleted");
      const queue = host.queues.get(name);
      if (queue === undefined) return 0;
      const locked = this.#locked(name, owner);
      if (locked !== undefined) return locked;
      const place = `queue '${name}' in vhost '${host.name}'`;
      if (request.ifUnused && queue.consumerCount > 0) {
        return refuse(Reply.PreconditionFailed, `${place} in use`);
      }
      if (request.ifEmpty && queue.messageCount > 0) {
        return refuse(Reply.PreconditionFailed, `${place} is not empty`);
      }
      const stored: StoredPart[] = [];
      const count = host.removeQueue(queue, stored);
      return await this.#store(stored) ?? count;
    });
  }

  /** Its rows are gone once `removals` has written them, for which the caller waits (T6). */
  purge(name: string, owner: object): Promise<number | Refusal> {
    return this.host.inTurn(() => {
      if (this.host.jobQueues.has(name)) return channelQueue(name, "purged");
      const queue = this.host.queues.get(name);
      if (queue === undefined) return noQueue(this.host, name);
      return this.#locked(name, owner) ?? queue.purge();
    });
  }

  // ----------------------------------------------------------------------------------------- bindings

  bind(
    request: { queue: string; exchange: string; routingKey: string; arguments: FieldTable },
    owner: object,
  ): Promise<Refusal | undefined> {
    return this.host.inTurn(async () => {
      const { host } = this;
      const ends = this.#ends(request, owner);
      if (isRefusal(ends)) return ends;
      const { exchange, queue } = ends;
      const { routingKey } = request;
      const args = canonicalTable(request.arguments);
      if (exchange.find(queue, routingKey, args) !== undefined) return undefined;
      const full = this.#noRoom();
      if (full !== undefined) return full;
      const stored = exchange.durable && queue.stored;
      if (stored) {
        const binding = storedForm(exchange.name, queue, routingKey, args);
        const failure = await this.#store([() => host.change({ change: "bind", binding })]);
        if (failure !== undefined) return failure;
      }
      // Either end may have gone while the binding was stored, and has taken the row with it.
      if (queue.deleted || exchange.deleted) return undefined;
      host.addBinding({ exchange, queue, routingKey, args, stored });
      return undefined;
    });
  }

  unbind(
    request: { queue: string; exchange: string; routingKey: string; arguments: FieldTable },
    owner: object,
  ): Promise<Refusal | undefined> {
    return this.host.inTurn(async () => {
      const { host } = this;
      const ends = this.#ends(request, owner);
      if (isRefusal(ends)) return ends;
      const { exchange, queue } = ends;
      const { routingKey } = request;
      const args = canonicalTable(request.arguments);
      const found: Binding<AmqpQueue> | undefined = exchange.find(queue, routingKey, args);
      if (found === undefined) return undefined;
      const stored: StoredPart[] = [];
      if (found.stored) {
        const binding = storedForm(exchange.name, queue, routingKey, args);
        stored.push(() => host.change({ change: "unbind", binding }));
      }
      host.removeBinding(found, stored);
      return await this.#store(stored);
    });
  }

  #ends(
    { queue: queueName, exchange: exchangeName }: { queue: string; exchange: string },
    owner: object,
  ): { exchange: Exchange<AmqpQueue>; queue: AmqpQueue } | Refusal {
    const { host } = this;
    if (exchangeName === DEFAULT_EXCHANGE) return defaultExchange();
    if (host.jobQueues.has(queueName)) return channelQueue(queueName, "bound");
    const queue = host.queues.get(queueName);
    if (queue === undefined) return noQueue(host, queueName);
    const locked = this.#locked(queueName, owner);
    if (locked !== undefined) return locked;
    const exchange = host.exchanges.get(exchangeName);
    return exchange === undefined ? noExchange(host, exchangeName) : { exchange, queue };
  }

  // ------------------------------------------------------------------------------------------- common

  /** An exclusive queue of another connection (A37). */
  #locked(name: string, owner: object): Refusal | undefined {
    const queue = this.host.queues.get(name);
    if (queue?.owner === undefined || queue.owner === owner) return undefined;
    return lockedQueue(this.host, name);
  }

  /** The source of a consume or a get. */
  source(name: string, owner: object) {
    const source = this.host.source(name);
    if (source === undefined) return noQueue(this.host, name);
    return this.#locked(name, owner) ?? source;
  }

  #noRoom(): Refusal | undefined {
    const { maxObjects } = this.host.settings;
    if (this.host.objectCount < maxObjects) return undefined;
    return refuse(
      Reply.ResourceError,
      `there are as many queues, exchanges and bindings as broker.amqp.max_objects allows ` +
        `(${maxObjects})`,
    );
  }

  async #store(parts: readonly StoredPart[]): Promise<Refusal | undefined> {
    try {
      for (const part of parts) await part();
      return undefined;
    } catch (error) {
      if (!(error instanceof StorageFailure)) throw error;
      const code = error.kind === "full" ? Reply.ResourceError : Reply.InternalError;
      return refuse(code, error.message);
    }
  }
}

function storedForm(exchange: string, queue: AmqpQueue, routingKey: string, args: FieldTable) {
  return { exchange, queue: queue.id, routingKey, args: encodeTable(args) };
}

function declared({ name, messageCount, consumerCount }: DeclaredQueue): DeclaredQueue {
  return { name, messageCount, consumerCount };
}

/**
 * The arguments of a queue as they are kept: what names a feature we lack is refused by name, and
 * `x-queue-type: classic`, which is what every queue is, counts as absent (A22).
 */
function queueArguments(args: FieldTable): FieldTable | Refusal {
  const refusal = unsupportedArgument("queue.declare", args);
  if (refusal !== undefined) return refusal;
  const kept = new Map(args);
  kept.delete("x-queue-type");
  return canonicalTable(kept);
}

/** Why an argument of queue.declare or basic.consume is refused (A22). */
export function unsupportedArgument(method: string, args: FieldTable): Refusal | undefined {
  for (const [name, value] of args) {
    if (!name.startsWith("x-")) continue;
    if (name === "x-queue-type" && fieldText(value) === "classic") continue;
    return refuse(
      Reply.NotImplemented,
      `the argument ${name} (${fieldText(value)}) of ${method} is not supported; ` +
        "supported: x-queue-type classic",
    );
  }
  return undefined;
}

function inequivalent(
  place: string,
  pairs: readonly (readonly [name: string, received: unknown, current: unknown])[],
): Refusal | undefined {
  for (const [name, received, current] of pairs) {
    if (received === current) continue;
    return refuse(
      Reply.PreconditionFailed,
      `inequivalent arg '${name}' for ${place}: received '${received}' but current is '${current}'`,
    );
  }
  return undefined;
}

function inequivalentArguments(
  place: string,
  received: FieldTable,
  current: FieldTable,
): Refusal | undefined {
  if (tableIdentity(received) === tableIdentity(current)) return undefined;
  for (const name of new Set([...received.keys(), ...current.keys()])) {
    const [a, b] = [received.get(name), current.get(name)];
    const same = a !== undefined && b !== undefined &&
      tableIdentity(new Map([[name, a]])) === tableIdentity(new Map([[name, b]]));
    if (!same) return inequivalent(place, [[name, fieldText(a), fieldText(b)]]);
  }
  return refuse(Reply.PreconditionFailed, `inequivalent arguments for ${place}`);
}

function defaultExchange(): Refusal {
  return refuse(
    Reply.AccessRefused,
    "the default exchange takes publishes only; every queue is bound to it by its name",
  );
}

function reservedName(what: string, name: string): Refusal {
  return refuse(
    Reply.AccessRefused,
    `${what} name '${name}' begins with the reserved prefix '${RESERVED_PREFIX}'`,
  );
}

function channelQueue(name: string, what: string): Refusal {
  return refuse(
    Reply.AccessRefused,
    `'${name}' is a queue channel of the broker's configuration, which cannot be ${what}`,
  );
}

function noQueue(host: VirtualHost, name: string): Refusal {
  if (name === DIRECT_REPLY) return NO_DIRECT_REPLY;
  return refuse(Reply.NotFound, `no queue '${name}' in vhost '${host.name}'`);
}

export function noExchange(host: VirtualHost, name: string): Refusal {
  return refuse(Reply.NotFound, `no exchange '${name}' in vhost '${host.name}'`);
}

function lockedQueue(host: VirtualHost, name: string): Refusal {
  return refuse(
    Reply.ResourceLocked,
    `queue '${name}' in vhost '${host.name}' is exclusive to the connection that declared it, ` +
      "or was declared with another exclusive flag",
  );
}
