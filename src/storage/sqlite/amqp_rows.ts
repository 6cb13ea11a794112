import type { DatabaseSync, StatementSync } from "node:sqlite";
import {
  type AmqpRemoval,
  MESSAGES_PER_REMOVAL,
  type StoredAmqpObjects,
  type StoredAmqpQueue,
  type StoredBinding,
  type StoredExchange,
} from "../amqp.ts";
import type { AmqpWrite } from "./amqp_messages.ts";
import { RowKind } from "./messages.ts";
import type { Unpacker } from "./packing.ts";

/** Every write to the AMQP tables. The transaction is the caller's. */
export class AmqpRows {
  readonly #insertCopy: StatementSync;
  readonly #deleteCopy: StatementSync;
  readonly #countDropped: StatementSync;
  readonly #clear: StatementSync;
  readonly #insertExchange: StatementSync;
  readonly #deleteExchange: StatementSync;
  readonly #unbindExchange: StatementSync;
  readonly #deleteStaleQueue: StatementSync;
  readonly #insertQueue: StatementSync;
  readonly #deleteQueue: StatementSync;
  readonly #insertBinding: StatementSync;
  readonly #deleteBinding: StatementSync;
  readonly #insertProbe: StatementSync;
  readonly #deleteProbe: StatementSync;

  constructor(private readonly database: DatabaseSync) {
    // A queue that was deleted meanwhile takes nothing, and fails nobody else's row (A46).
    this.#insertCopy = database.prepare(
      "INSERT INTO amqp_msg (queue_id, seq, exchange, rkey, props, body) " +
        "SELECT ?1, ?2, ?3, ?4, ?5, ?6 WHERE EXISTS (SELECT 1 FROM amqp_queue WHERE id = ?1)",
    );
    this.#deleteCopy = database.prepare("DELETE FROM amqp_msg WHERE queue_id = ? AND seq = ?");
    this.#countDropped = database.prepare(
      "UPDATE amqp_queue SET dropped = dropped + ? WHERE id = ?",
    );
    this.#clear = database.prepare(
      "DELETE FROM amqp_msg WHERE queue_id = ?1 AND seq <= (SELECT max(seq) FROM " +
        `(SELECT seq FROM amqp_msg WHERE queue_id = ?1 ORDER BY seq LIMIT ${MESSAGES_PER_REMOVAL}))`,
    );
    this.#insertExchange = database.prepare(
      "INSERT INTO amqp_exchange (name, type, auto_delete, args) VALUES (?, ?, ?, ?) " +
        "ON CONFLICT(name) DO NOTHING",
    );
    this.#deleteExchange = database.prepare("DELETE FROM amqp_exchange WHERE name = ?");
    this.#unbindExchange = database.prepare("DELETE FROM amqp_bind WHERE exchange = ?");
    this.#deleteStaleQueue = database.prepare("DELETE FROM amqp_queue WHERE name = ? AND id <> ?");
    this.#insertQueue = database.prepare(
      "INSERT INTO amqp_queue (id, name, auto_delete, args) VALUES (?, ?, ?, ?) " +
        "ON CONFLICT(name) DO NOTHING",
    );
    this.#deleteQueue = database.prepare("DELETE FROM amqp_queue WHERE id = ?");
    this.#insertBinding = database.prepare(
      "INSERT INTO amqp_bind (exchange, queue_id, rkey, args) " +
        "SELECT ?1, ?2, ?3, ?4 WHERE EXISTS (SELECT 1 FROM amqp_queue WHERE id = ?2) " +
        "ON CONFLICT DO NOTHING",
    );
    this.#deleteBinding = database.prepare(
      "DELETE FROM amqp_bind WHERE exchange = ? AND queue_id = ? AND rkey = ? AND args = ?",
    );
    // No exchange that is stored has an empty name.
    this.#insertProbe = database.prepare(
      "INSERT INTO amqp_exchange (name, type, auto_delete, args) VALUES ('', '', 0, zeroblob(?))",
    );
    this.#deleteProbe = database.prepare("DELETE FROM amqp_exchange WHERE name = ''");
  }

  /** Writes a row of a publish entry. */
  publish(row: Unpacker, kind: number): void {
    const { tag: queue, heldAt: seq } = row;
    if (kind === RowKind.AmqpDrop) {
      if (Number(this.#deleteCopy.run(queue, seq).changes) > 0) this.#countDropped.run(1, queue);
      return;
    }
    const { payload, extra: propertyBytes } = row;
    this.#insertCopy.run(
      queue,
      seq,
      row.messageId,
      row.topic,
      payload.subarray(0, propertyBytes),
      payload.subarray(propertyBytes),
    );
  }

  run(write: AmqpWrite): unknown {
    switch (write.change) {
      case "load":
        return this.#load();
      case "remove":
        return this.#remove(write.removal);
      case "clear":
        return Number(this.#clear.run(write.queue).changes) >= MESSAGES_PER_REMOVAL;
      case "probe":
        this.#insertProbe.run(write.bytes);
        this.#deleteProbe.run();
        return undefined;
      case "declare-exchange": {
        const { name, type, autoDelete, args } = write.exchange;
        this.#insertExchange.run(name, type, autoDelete ? 1 : 0, args);
        return undefined;
      }
      case "delete-exchange":
        this.#unbindExchange.run(write.name);
        this.#deleteExchange.run(write.name);
        return undefined;
      case "declare-queue": {
        const { id, name, autoDelete, args } = write.queue;
        this.#deleteStaleQueue.run(name, id);
        this.#insertQueue.run(id, name, autoDelete ? 1 : 0, args);
        return undefined;
      }
      case "delete-queue":
        this.#deleteQueue.run(write.id);
        return undefined;
      case "bind": {
        const { exchange, queue, routingKey, args } = write.binding;
        this.#insertBinding.run(exchange, queue, routingKey, args);
        return undefined;
      }
      case "unbind": {
        const { exchange, queue, routingKey, args } = write.binding;
        this.#deleteBinding.run(exchange, queue, routingKey, args);
        return undefined;
      }
    }
  }

  #remove({ queues, seqs, dropped }: AmqpRemoval): void {
    for (let i = 0; i < queues.length; i++) {
      const gone = Number(this.#deleteCopy.run(queues[i], seqs[i]).changes) > 0;
      if (gone && dropped) this.#countDropped.run(1, queues[i]);
    }
  }

  #load(): StoredAmqpObjects {
    const { database } = this;
    const orphans = database.prepare(
      "DELETE FROM amqp_msg WHERE queue_id NOT IN (SELECT id FROM amqp_queue)",
    ).run();
    database.prepare(
      "DELETE FROM amqp_bind WHERE queue_id NOT IN (SELECT id FROM amqp_queue)",
    ).run();
    const exchanges = database.prepare(
      "SELECT name, type, auto_delete AS autoDelete, args FROM amqp_exchange WHERE name <> '' " +
        "ORDER BY name",
    ).all().map((row) => ({ ...row, autoDelete: row.autoDelete !== 0 }) as StoredExchange);
    const queues = database.prepare(
      "SELECT id, name, auto_delete AS autoDelete, args, dropped FROM amqp_queue ORDER BY id",
    ).all().map((row) => ({ ...row, autoDelete: row.autoDelete !== 0 }) as StoredAmqpQueue);
    const bindings = database.prepare(
      "SELECT exchange, queue_id AS queue, rkey AS routingKey, args FROM amqp_bind",
    ).all().map((row) => ({ ...row }) as unknown as StoredBinding);
    const { last } = database.prepare("SELECT coalesce(max(seq), 0) AS last FROM amqp_msg").get()!;
    return {
      exchanges,
      queues,
      bindings,
      lastSeq: last as number,
      orphans: Number(orphans.changes),
    };
  }
}
