import type { DatabaseSync } from "node:sqlite";

/**
 * The tables of the AMQP door, outside the eleven of `schema.ts` (S198): they come with its
 * configuration and do not move the schema version.
 */
const TABLES = [
  `CREATE TABLE IF NOT EXISTS amqp_exchange (
    name TEXT PRIMARY KEY,
    type TEXT NOT NULL,
    auto_delete INTEGER NOT NULL,
    args BLOB NOT NULL
) STRICT`,
  `CREATE TABLE IF NOT EXISTS amqp_queue (
    id INTEGER PRIMARY KEY,
    name TEXT NOT NULL UNIQUE,
    auto_delete INTEGER NOT NULL,
    args BLOB NOT NULL,
    dropped INTEGER NOT NULL DEFAULT 0
) STRICT`,
  `CREATE TABLE IF NOT EXISTS amqp_bind (
    exchange TEXT NOT NULL,
    queue_id INTEGER NOT NULL REFERENCES amqp_queue(id) ON DELETE CASCADE,
    rkey TEXT NOT NULL,
    args BLOB NOT NULL,
    PRIMARY KEY (exchange, queue_id, rkey, args)
) STRICT`,
  `CREATE TABLE IF NOT EXISTS amqp_msg (
    queue_id INTEGER NOT NULL REFERENCES amqp_queue(id) ON DELETE CASCADE,
    seq INTEGER NOT NULL,
    exchange TEXT NOT NULL,
    rkey TEXT NOT NULL,
    props BLOB NOT NULL,
    body BLOB NOT NULL,
    PRIMARY KEY (queue_id, seq)
) STRICT`,
  // What the deletion of a queue looks for; without it each would walk every binding.
  "CREATE INDEX IF NOT EXISTS amqp_bind_queue ON amqp_bind(queue_id)",
];

/** Creates what is missing, in one transaction. */
export function createAmqpTables(database: DatabaseSync): void {
  database.prepare("BEGIN IMMEDIATE").run();
  try {
    for (const statement of TABLES) database.prepare(statement).run();
    database.prepare("COMMIT").run();
  } catch (error) {
    if (database.isTransaction) database.prepare("ROLLBACK").run();
    throw error;
  }
}
