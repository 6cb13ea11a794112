import { INDEX_NUMBERS, MESSAGES_PER_REMOVAL } from "../storage/amqp.ts";
import { type Exchange, isExchangeType } from "./exchanges/exchange.ts";
import { Exchange as MadeExchange } from "./exchanges/exchange.ts";
import type { AmqpQueue } from "./queues/queue.ts";
import type { VirtualHost } from "./virtual_host.ts";
import { Reader } from "./wire/reader.ts";
import { type FieldTable, readTable } from "./wire/table.ts";

/** Stored messages looked at in one read. */
const INDEX_PAGE = 20_000;

/** What a start found (C5): what is there once the bounds were applied. */
export interface Recovered {
  readonly queues: number;
  readonly messages: number;
  /** Messages beyond the bound of their queue, deleted oldest first. */
  readonly dropped: number;
  /** Messages whose queue was missing. */
  readonly orphans: number;
}

/** Brings back what was declared and stored, in the order of A59, before a door opens. */
export async function recover(host: VirtualHost): Promise<Recovered> {
  const stored = await host.store.load();
  for (const { name, type, autoDelete, args } of stored.exchanges) {
    if (!isExchangeType(type)) {
      throw new Error(`exchange '${name}' is stored with the type '${type}', which this is not`);
    }
    const options = { type, durable: true, autoDelete, args: tableOf(args) };
    host.exchanges.set(name, new MadeExchange<AmqpQueue>(name, options));
  }
  const byId = new Map<number, AmqpQueue>();
  let lastId = 0;
  for (const { id, name, autoDelete, args, dropped } of stored.queues) {
    lastId = Math.max(lastId, id);
    if (host.jobQueues.has(name)) {
      host.log.warn("a stored AMQP queue has the name of a queue channel and stays out of reach", {
        queue: name,
      });
      continue;
    }
    const options = { id, durable: true, autoDelete, args: tableOf(args), owner: undefined };
    const queue = host.addQueue(name, options);
    queue.dropped = dropped;
    byId.set(id, queue);
  }
  for (const { exchange: name, queue: id, routingKey, args } of stored.bindings) {
    const exchange: Exchange<AmqpQueue> | undefined = host.exchanges.get(name);
    const queue = byId.get(id);
    // A binding never outlives either end (A30).
    if (exchange === undefined || queue === undefined) continue;
    host.addBinding({ exchange, queue, routingKey, args: tableOf(args), stored: true });
  }
  host.countFrom(stored.lastSeq, lastId);
  await recoverMessages(host, byId);
  const { dropped, messages } = await trim(host, byId);
  return { queues: byId.size, messages, dropped, orphans: stored.orphans };
}

/** Positions and sizes only: what a message holds is read when its turn comes. */
async function recoverMessages(host: VirtualHost, byId: Map<number, AmqpQueue>): Promise<void> {
  let after = { queue: 0, seq: 0 };
  for (;;) {
    const index = await host.store.index(after, INDEX_PAGE);
    for (let at = 0; at < index.length; at += INDEX_NUMBERS) {
      byId.get(index[at])?.restore(index[at + 1], index[at + 2]);
    }
    if (index.length < INDEX_PAGE * INDEX_NUMBERS) return;
    const last = index.length - INDEX_NUMBERS;
    after = { queue: index[last], seq: index[last + 1] };
  }
}

/** The bounds hold on disk too: a restart brings nothing back that they had cost (P4, A42). */
async function trim(
  host: VirtualHost,
  byId: Map<number, AmqpQueue>,
): Promise<{ dropped: number; messages: number }> {
  let dropped = 0;
  let messages = 0;
  for (const [id, queue] of byId) {
    const gone = queue.trimRestored();
    dropped += gone.length;
    messages += queue.messageCount;
    for (let at = 0; at < gone.length; at += MESSAGES_PER_REMOVAL) {
      const seqs = gone.slice(at, at + MESSAGES_PER_REMOVAL);
      const queues = seqs.map(() => id);
      await host.store.remove({ queues, seqs, dropped: true }, "answering");
    }
  }
  return { dropped, messages };
}

function tableOf(bytes: Uint8Array): FieldTable {
  const reader = new Reader();
  reader.begin(bytes, 0, bytes.length);
  return readTable(reader);
}
