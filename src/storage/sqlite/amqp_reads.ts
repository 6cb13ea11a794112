import type { DatabaseSync, StatementSync } from "node:sqlite";
import { INDEX_NUMBERS, type StoredAmqpMessage, type StoredMessageIndex } from "../amqp.ts";
import type { AmqpRead } from "./amqp_messages.ts";
import { arraysOf } from "./connection.ts";

/** What a read hands to the loop: bodies one after another in one buffer. */
export interface AmqpMessagesAnswer {
  /** Three numbers each: position, bytes of the properties, bytes of properties and body. */
  readonly numbers: readonly number[];
  readonly addresses: readonly string[];
  /** `buffer` under a name that `worker.ts` hands over instead of copying. */
  readonly records: { readonly buffer: ArrayBuffer };
}

/** Reads of the AMQP tables, prepared when the first one comes: a provider without them has none. */
export class AmqpReads {
  readonly #index: StatementSync;
  readonly #messages: StatementSync;

  constructor(database: DatabaseSync) {
    this.#index = arraysOf(
      database,
      "SELECT queue_id, seq, length(body) FROM amqp_msg WHERE (queue_id, seq) > (?, ?) " +
        "ORDER BY queue_id, seq LIMIT ?",
    );
    this.#messages = arraysOf(
      database,
      "SELECT seq, exchange, rkey, props, body FROM amqp_msg WHERE queue_id = ? AND seq >= ? " +
        "ORDER BY seq LIMIT ?",
    );
  }

  read(read: AmqpRead): StoredMessageIndex | AmqpMessagesAnswer {
    if (read.look === "messages") return this.#readMessages(read);
    const { after, max } = read;
    const rows = this.#index.all(after.queue, after.seq, max) as unknown as number[][];
    const index = new Float64Array(rows.length * INDEX_NUMBERS);
    rows.forEach((row, i) => index.set(row, i * INDEX_NUMBERS));
    return index;
  }

  #readMessages(read: Extract<AmqpRead, { look: "messages" }>): AmqpMessagesAnswer {
    type Row = [seq: number, exchange: string, rkey: string, props: Uint8Array, body: Uint8Array];
    const taken: Row[] = [];
    let bytes = 0;
    const rows = this.#messages.iterate(read.queue, read.from, read.max);
    for (const row of rows as unknown as Iterable<Row>) {
      const size = row[3].length + row[4].length;
      if (taken.length > 0 && bytes + size > read.maxBytes) break;
      bytes += size;
      taken.push(row);
    }
    const buffer = new ArrayBuffer(bytes);
    const all = new Uint8Array(buffer);
    const numbers: number[] = [];
    const addresses: string[] = [];
    let at = 0;
    for (const [seq, exchange, rkey, props, body] of taken) {
      all.set(props, at);
      all.set(body, at + props.length);
      at += props.length + body.length;
      numbers.push(seq, props.length, props.length + body.length);
      addresses.push(exchange, rkey);
    }
    return { numbers, addresses, records: { buffer } };
  }
}

/** The messages of an answer; their contents share its buffer. */
export function unpackMessages(answer: AmqpMessagesAnswer): StoredAmqpMessage[] {
  const { numbers, addresses, records } = answer;
  const messages: StoredAmqpMessage[] = [];
  let at = 0;
  for (let i = 0, number = 0; number < numbers.length; i += 2, number += 3) {
    const size = numbers[number + 2];
    messages.push({
      seq: numbers[number],
      exchange: addresses[i],
      routingKey: addresses[i + 1],
      content: new Uint8Array(records.buffer, at, size),
      propertyBytes: numbers[number + 1],
    });
    at += size;
  }
  return messages;
}
