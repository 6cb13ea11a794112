import type { Channel } from "./channel.ts";
import { unsupportedArgument } from "./declarations.ts";
import type { QueueItem, Source } from "./queues/source.ts";
import { isRefusal, type Refusal, refuse, Reply } from "./reply.ts";
import type { Method, MethodName, MethodOf } from "./wire/methods.ts";

/** Random bytes of a consumer tag we make. */
const GENERATED_TAG_BYTES = 16;

/**
 * Methods of a channel other than basic.publish, each in its turn. A reply leaves only after what the
 * channel settled before is stored (T6); an exception replaces it, also where none was asked for (A23).
 */
export class ChannelMethods {
  /** The queue an empty name means (A25). */
  #lastQueue = "";

  constructor(private readonly channel: Channel) {}

  run(method: Method): void | Promise<void> {
    const { channel } = this;
    switch (method.method) {
      case "basic.ack":
        return this.acknowledge(method);
      case "basic.nack":
        return this.#refuse(method.method, method.deliveryTag, method.multiple, method.requeue);
      case "basic.reject":
        return this.#refuse(method.method, method.deliveryTag, false, method.requeue);
      case "basic.get":
        return this.#get(method);
      case "basic.consume":
        return this.#consume(method);
      case "basic.cancel":
        channel.deliveries.cancel(method.consumerTag);
        return this.#reply(method, () => {
          if (!method.noWait) channel.write("basic.cancel-ok", { consumerTag: method.consumerTag });
        });
      case "basic.cancel-ok":
        // The answer of clients that answer our basic.cancel though it asks for none.
        return;
      case "basic.qos":
        return this.#qos(method);
      case "basic.recover":
      case "basic.recover-async":
        return this.#recover(method);
      case "confirm.select":
        return this.#reply(method, () => {
          channel.selectConfirms();
          if (!method.noWait) channel.write("confirm.select-ok", {});
        });
      case "channel.flow":
        return this.#flow(method);
      case "channel.close":
        return channel.leave();
      case "channel.open":
        return this.#fail(method, refuse(Reply.ChannelError, "the channel is open already"));
      case "exchange.declare":
      case "exchange.delete":
      case "queue.bind":
      case "queue.unbind":
        return this.#declaration(method);
      case "queue.declare":
        return this.#declareQueue(method);
      case "queue.purge":
      case "queue.delete":
        return this.#counted(method);
      case "exchange.bind":
      case "exchange.unbind":
        return this.#unsupported(method, "exchange-to-exchange bindings", "queue.bind");
      case "tx.select":
      case "tx.commit":
      case "tx.rollback":
        return this.#unsupported(method, "transactions", "publisher confirms (confirm.select)");
      default:
        return this.#fail(
          method,
          refuse(Reply.CommandInvalid, `${method.method} is not a method of clients on a channel`),
        );
    }
  }

  #fail({ method }: { method: MethodName }, refusal: Refusal): void {
    this.channel.fail(refusal, method);
  }

  #unsupported(method: { method: MethodName }, feature: string, instead: string): void {
    const detail = `${method.method}: ${feature} are not supported; supported: ${instead}`;
    this.#fail(method, refuse(Reply.NotImplemented, detail));
  }

  /** Writes a reply, or the exception in its place, once what was settled before is stored (T6). */
  #reply(method: { method: MethodName }, write: () => void): void | Promise<void> {
    const settled = this.channel.settledStored;
    if (settled === undefined) return this.#write(write);
    return settled.then(() => this.#write(write), (error) =>
      this.#fail(
        method,
        refuse(Reply.InternalError, `settled messages could not be stored: ${error.message}`),
      ));
  }

  #write(write: () => void): void {
    if (this.channel.link.open) write();
  }

  async #answer<T>(
    method: { method: MethodName },
    outcome: Promise<T | Refusal>,
    write: (result: T) => void,
  ): Promise<void> {
    const result = await outcome;
    if (isRefusal(result)) this.#fail(method, result);
    else await this.#reply(method, () => write(result));
  }

  /** The queue a method means, or that there is none (A25). */
  #queueName(queue: string): string | Refusal {
    if (queue !== "") return queue;
    if (this.#lastQueue !== "") return this.#lastQueue;
    return refuse(Reply.NotFound, "no queue was declared on this channel that an empty name means");
  }

  // ----------------------------------------------------------------------------------------- settling

  acknowledge({ method, deliveryTag, multiple }: MethodOf<"basic.ack">): void {
    const { channel } = this;
    const refusal = channel.deliveries.acknowledge(deliveryTag, multiple);
    channel.settledSome();
    if (refusal !== undefined) channel.fail(refusal, method);
  }

  #refuse(method: MethodName, tag: number, multiple: boolean, requeue: boolean): void {
    const { channel } = this;
    const refusal = channel.deliveries.refuse(tag, multiple, requeue);
    channel.settledSome();
    if (refusal !== undefined) channel.fail(refusal, method);
  }

  #recover(
    method: MethodOf<"basic.recover"> | MethodOf<"basic.recover-async">,
  ): void | Promise<void> {
    const { channel } = this;
    if (!method.requeue) {
      return this.#fail(
        method,
        refuse(
          Reply.NotImplemented,
          `${method.method} without requeue is not supported; supported: with requeue`,
        ),
      );
    }
    channel.deliveries.recover();
    if (method.method === "basic.recover-async") return;
    return this.#reply(method, () => channel.write("basic.recover-ok", {}));
  }

  // ---------------------------------------------------------------------------------------- consuming

  #source(queue: string): Source | Refusal {
    const name = this.#queueName(queue);
    if (isRefusal(name)) return name;
    const { declarations, user } = this.channel.link;
    const source = declarations.source(name, this.channel.link);
    return isRefusal(source) ? source : source.refusal(user) ?? source;
  }

  #consume(method: MethodOf<"basic.consume">): void | Promise<void> {
    const { channel } = this;
    const { noAck, exclusive, noWait } = method;
    const { deliveries } = channel;
    const source = this.#source(method.queue);
    if (isRefusal(source)) return this.#fail(method, source);
    if (exclusive && source.shared !== undefined) return this.#fail(method, source.shared);
    const unsupported = unsupportedArgument(method.method, method.arguments);
    if (unsupported !== undefined) return this.#fail(method, unsupported);
    const consumerTag = method.consumerTag === ""
      ? `amq.ctag-${channel.link.host.ids.token(GENERATED_TAG_BYTES)}`
      : method.consumerTag;
    if (deliveries.consumer(consumerTag) !== undefined) {
      const detail = `the consumer tag '${consumerTag}' is in use on this channel`;
      return this.#fail(method, refuse(Reply.NotAllowed, detail));
    }
    const refusal = this.#exclusion(source, exclusive) ?? deliveries.consumeRefusal;
    if (refusal !== undefined) return this.#fail(method, refusal);
    const consumer = deliveries.consume(consumerTag, source, noAck, exclusive);
    return this.#reply(method, () => {
      // Whoever else asked while this waited for what was settled before may have been first.
      const late = this.#exclusion(source, exclusive);
      if (late !== undefined) return this.#fail(method, late);
      if (!noWait) channel.write("basic.consume-ok", { consumerTag });
      if (source.deleted) deliveries.sourceGone(consumer);
      else if (consumer.active) source.join(consumer);
    });
  }

  /** Why a consumer of it would not be alone, or leave another alone (A48). */
  #exclusion(source: Source, exclusive: boolean): Refusal | undefined {
    if (!source.heldExclusively && !(exclusive && source.consumerCount > 0)) return undefined;
    return refuse(
      Reply.AccessRefused,
      `queue '${source.name}' in vhost '${this.channel.link.host.name}' ` +
        "has consumers, and one of them wants it exclusively",
    );
  }

  #get(method: MethodOf<"basic.get">): void | Promise<void> {
    const { canDeliver, link: { outbound } } = this.channel;
    if (!canDeliver) return;
    // Who asks for more than it reads waits, as its consumers would (A18).
    const room = outbound.untilRoom();
    if (room !== undefined) return room.then(() => this.#get(method));
    const source = this.#source(method.queue);
    if (isRefusal(source)) return this.#fail(method, source);
    const refusal = this.channel.deliveries.getRefusal(method.noAck);
    if (refusal !== undefined) return this.#fail(method, refusal);
    const item = source.take();
    if (item instanceof Promise) return item.then((taken) => this.#got(method, source, taken));
    return this.#got(method, source, item);
  }

  #got(
    method: MethodOf<"basic.get">,
    source: Source,
    item: QueueItem | undefined,
  ): void | Promise<void> {
    const { channel } = this;
    if (item === undefined) {
      return this.#reply(method, () => channel.write("basic.get-empty", {}));
    }
    const settled = channel.settledStored;
    if (settled === undefined) return this.#deliverGot(method, source, item);
    return settled.then(() => this.#deliverGot(method, source, item), (error) => {
      source.requeue([item]);
      const detail = `settled messages could not be stored: ${error.message}`;
      this.#fail(method, refuse(Reply.InternalError, detail));
    });
  }

  #deliverGot(method: MethodOf<"basic.get">, source: Source, item: QueueItem): void {
    const { channel } = this;
    const { message, redelivered } = item;
    if (!channel.canDeliver || message === undefined) return source.requeue([item]);
    channel.deliveries.got(item, method.noAck, (tag) => {
      const { outbound } = channel.link;
      outbound.frames.getOk(channel.number, tag, redelivered, source.messageCount, message);
      outbound.schedule();
    });
  }

  #qos(method: MethodOf<"basic.qos">): void | Promise<void> {
    const { channel } = this;
    if (method.prefetchSize !== 0) {
      return this.#fail(
        method,
        refuse(
          Reply.NotImplemented,
          `prefetch-size ${method.prefetchSize} is not supported; supported: prefetch-count`,
        ),
      );
    }
    channel.deliveries.qos(method.prefetchCount, method.global);
    return this.#reply(method, () => channel.write("basic.qos-ok", {}));
  }

  #flow(method: MethodOf<"channel.flow">): void | Promise<void> {
    if (method.active) {
      return this.#reply(method, () => this.channel.write("channel.flow-ok", { active: true }));
    }
    const detail = "channel.flow with active off is not supported; supported: basic.qos";
    this.#fail(method, refuse(Reply.NotImplemented, detail));
  }

  // ---------------------------------------------------------------------------------------- declaring

  #declaration(
    method:
      | MethodOf<"exchange.declare">
      | MethodOf<"exchange.delete">
      | MethodOf<"queue.bind">
      | MethodOf<"queue.unbind">,
  ): Promise<void> | void {
    const { channel } = this;
    const { declarations } = channel.link;
    switch (method.method) {
      case "exchange.declare":
        return this.#answer(method, declarations.declareExchange(method), () => {
          if (!method.noWait) channel.write("exchange.declare-ok", {});
        });
      case "exchange.delete":
        return this.#answer(method, declarations.deleteExchange(method), () => {
          if (!method.noWait) channel.write("exchange.delete-ok", {});
        });
      case "queue.bind": {
        const request = this.#bindRequest(method);
        if (isRefusal(request)) return this.#fail(method, request);
        return this.#answer(method, declarations.bind(request, channel.link), () => {
          if (!method.noWait) channel.write("queue.bind-ok", {});
        });
      }
      case "queue.unbind": {
        const request = this.#bindRequest(method);
        if (isRefusal(request)) return this.#fail(method, request);
        return this.#answer(method, declarations.unbind(request, channel.link), () => {
          channel.write("queue.unbind-ok", {});
        });
      }
    }
  }

  #bindRequest(method: MethodOf<"queue.bind"> | MethodOf<"queue.unbind">) {
    const queue = this.#queueName(method.queue);
    if (isRefusal(queue)) return queue;
    const routingKey = method.queue === "" && method.routingKey === "" ? queue : method.routingKey;
    return { queue, exchange: method.exchange, routingKey, arguments: method.arguments };
  }

  async #declareQueue(method: MethodOf<"queue.declare">): Promise<void> {
    const { channel } = this;
    const { link } = channel;
    const named = method.passive && method.queue === "" ? this.#queueName("") : method.queue;
    if (isRefusal(named)) return this.#fail(method, named);
    const request = named === method.queue ? method : { ...method, queue: named };
    await this.#answer(method, link.declarations.declareQueue(request, link), (declared) => {
      const { name, messageCount, consumerCount } = declared;
      this.#lastQueue = name;
      if (method.noWait) return;
      channel.write("queue.declare-ok", { queue: name, messageCount, consumerCount });
    });
    // Declared while its connection went away: nobody is left to whom it could belong.
    if (method.exclusive && !link.open) link.host.removeQueuesOf(link);
  }

  #counted(method: MethodOf<"queue.purge"> | MethodOf<"queue.delete">): Promise<void> | void {
    const { channel } = this;
    const { declarations } = channel.link;
    const queue = this.#queueName(method.queue);
    if (isRefusal(queue)) return this.#fail(method, queue);
    if (method.method === "queue.purge") {
      const purged = declarations.purge(queue, channel.link).then((outcome) => {
        channel.settledSome();
        return outcome;
      });
      return this.#answer(method, purged, (messageCount) => {
        if (!method.noWait) channel.write("queue.purge-ok", { messageCount });
      });
    }
    const deleted = declarations.deleteQueue({ ...method, queue }, channel.link);
    return this.#answer(method, deleted, (messageCount) => {
      if (!method.noWait) channel.write("queue.delete-ok", { messageCount });
    });
  }
}
