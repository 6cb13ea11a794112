import { noExchange } from "./declarations.ts";
import type { AmqpMessage } from "./message.ts";
import { Publication } from "./publication.ts";
import type { AmqpQueue } from "./queues/queue.ts";
import type { Refusal } from "./reply.ts";
import { CROSSING_EXCHANGE, DEFAULT_EXCHANGE, type VirtualHost } from "./virtual_host.ts";

/** A publish that other parts of the broker take too, or alone. */
export interface Elsewhere {
  /**
   * Takes a publish to `amq.topic` into MQTT, its AMQP copies with it: the publication is decided by
   * what becomes of both (B3, B8). False: this one does not cross.
   */
  cross(publication: Publication, persistent: boolean, user: string): boolean;
  /** Takes a publish to the queue channel of this name; why it cannot is the refusal. */
  enqueue(publication: Publication, channel: string, user: string): Refusal | undefined;
}

const NO_QUEUES: readonly AmqpQueue[] = [];

/** The way of a message into the virtual host: routed, given places, stored (A31, A33, A43). */
export class Publishing {
  /** The provider stopped accepting at the last publish: connections that publish are read no further. */
  saturated = false;

  constructor(
    private readonly host: VirtualHost,
    private readonly elsewhere: Elsewhere,
  ) {}

  /**
   * Starts a publish. `decided` runs once its outcome is known, maybe before this returns; the caller
   * then calls `enqueue` or `withdraw` of the publication in the order of its publishes.
   */
  start(
    message: AmqpMessage,
    persistent: boolean,
    user: string,
    decided: () => void,
  ): Publication | Refusal {
    const { host, elsewhere } = this;
    const { exchange: exchangeName, routingKey } = message;
    let queues = NO_QUEUES;
    if (exchangeName === DEFAULT_EXCHANGE) {
      if (host.jobQueues.has(routingKey)) {
        const publication = new Publication(message, host.provider, decided);
        return elsewhere.enqueue(publication, routingKey, user) ?? publication;
      }
      const queue = host.queues.get(routingKey);
      if (queue !== undefined) queues = [queue];
    } else {
      const exchange = host.exchanges.get(exchangeName);
      if (exchange === undefined) return noExchange(host, exchangeName);
      queues = exchange.route(routingKey);
    }
    const publication = new Publication(message, host.provider, decided);
    const { store, provider } = host;
    for (const queue of queues) publication.enter(queue, host.nextSeq(), persistent, store);
    const crosses = exchangeName === CROSSING_EXCHANGE &&
      elsewhere.cross(publication, persistent, user);
    if (!crosses) {
      if (publication.rows.length === 0) publication.settled(undefined);
      else provider.submit(publication);
    }
    if (!provider.accepting) this.saturated = true;
    return publication;
  }
}
