import type { DatabaseSync } from "node:sqlite";

/** The one version this broker reads and writes (S89). */
export const SCHEMA_VERSION = 20;

/** Bytes of a page in a file created here (S179); a file made elsewhere keeps its own. */
export const PAGE_SIZE = 4096;

/**
 * Pages of a database that holds the schema and nothing else: what `max_bytes` must exceed beside
 * twice the reserve (S92). Measured by the test of that name.
 */
export const EMPTY_FILE_PAGES = 17;

/** Columns of a message less its topic, in the order every statement of this room uses. */
export const MESSAGE_COLUMNS =
  "message_id, timestamp, headers, props, payload, retain, bridge, client, qos";

const MESSAGE_DDL = `message_id TEXT NOT NULL,
    timestamp INTEGER NOT NULL,
    headers TEXT,
    props TEXT,
    payload BLOB NOT NULL,
    retain INTEGER NOT NULL,
    bridge TEXT,
    client TEXT,
    qos INTEGER NOT NULL`;

/**
 * The eleven tables (S91). What carries a payload is a plain rowid table: rows of several channels
 * then go to the same last page, where a WITHOUT ROWID table dirties one page a channel (twice the
 * rate at 32 channels and groups of 64, and half the bytes written), and a record up to a page stays
 * on one. What is small and often rewritten is WITHOUT ROWID: one tree, so one page, a change.
 */
const TABLES = `
CREATE TABLE meta (
    created_by TEXT NOT NULL,
    created_at INTEGER NOT NULL
) STRICT;
CREATE TABLE channels (
    name TEXT NOT NULL PRIMARY KEY,
    kind TEXT NOT NULL,
    next INTEGER NOT NULL,
    floor INTEGER NOT NULL,
    bytes INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE records (
    channel TEXT NOT NULL,
    offset INTEGER NOT NULL,
    topic TEXT NOT NULL,
    ${MESSAGE_DDL},
    group_copy INTEGER NOT NULL,
    only_for TEXT,
    PRIMARY KEY (channel, offset)
) STRICT;
CREATE TABLE latest_values (
    channel TEXT NOT NULL,
    topic TEXT NOT NULL,
    offset INTEGER NOT NULL,
    ${MESSAGE_DDL},
    PRIMARY KEY (channel, topic)
) STRICT;
CREATE TABLE queue_items (
    channel TEXT NOT NULL,
    offset INTEGER NOT NULL,
    attempts INTEGER NOT NULL,
    first_delivered INTEGER NOT NULL,
    last_delivered INTEGER NOT NULL,
    topic TEXT NOT NULL,
    ${MESSAGE_DDL},
    PRIMARY KEY (channel, offset)
) STRICT;
CREATE TABLE positions (
    channel TEXT NOT NULL,
    reader TEXT NOT NULL,
    offset INTEGER NOT NULL,
    expiry INTEGER NOT NULL,
    last_seen INTEGER NOT NULL,
    PRIMARY KEY (channel, reader)
) STRICT, WITHOUT ROWID;
CREATE TABLE held_publishes (
    channel TEXT NOT NULL,
    client TEXT NOT NULL,
    packet INTEGER NOT NULL,
    held_at INTEGER NOT NULL,
    topic TEXT NOT NULL,
    ${MESSAGE_DDL.replace("\n    client TEXT,", "")},
    PRIMARY KEY (channel, client, packet)
) STRICT;
CREATE TABLE sessions (
    client TEXT NOT NULL PRIMARY KEY,
    expiry INTEGER NOT NULL,
    away_since INTEGER NOT NULL,
    subscriptions TEXT NOT NULL,
    window INTEGER NOT NULL,
    will TEXT,
    will_due INTEGER NOT NULL
) STRICT;
CREATE TABLE session_inflight (
    client TEXT NOT NULL,
    packet INTEGER NOT NULL,
    offset INTEGER NOT NULL,
    qos INTEGER NOT NULL,
    state TEXT NOT NULL,
    share_group TEXT,
    PRIMARY KEY (client, packet)
) STRICT, WITHOUT ROWID;
CREATE TABLE share_groups (
    name TEXT NOT NULL PRIMARY KEY,
    cursor INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE share_returned (
    share_group TEXT NOT NULL,
    offset INTEGER NOT NULL,
    PRIMARY KEY (share_group, offset)
) STRICT, WITHOUT ROWID;
`;

/** Names of the eleven; other tables of the file are somebody else's (S198). */
export const TABLE_NAMES: readonly string[] = [...TABLES.matchAll(/^CREATE TABLE (\w+)/gm)]
  .map(([, name]) => name);

/** Tables, `meta` and version in one transaction (S88): a file has all of them or none. */
export function createSchema(database: DatabaseSync, revision: string, now: bigint): void {
  database.prepare("BEGIN IMMEDIATE").run();
  try {
    for (const statement of TABLES.split(";\n")) {
      if (statement.trim() !== "") database.prepare(statement).run();
    }
    database.prepare("INSERT INTO meta VALUES (?, ?)").run(revision, now);
    database.prepare(`PRAGMA user_version=${SCHEMA_VERSION}`).run();
    database.prepare("COMMIT").run();
  } catch (error) {
    if (database.isTransaction) database.prepare("ROLLBACK").run();
    throw error;
  }
}

/**
 * What stands against using this file, as the end of a sentence that began with its path; undefined
 * when it holds this version, `"new"` when it states no version and holds no table (S89, S146).
 */
export function schemaFault(database: DatabaseSync): "new" | string | undefined {
  const version = Number(database.prepare("PRAGMA user_version").get()!.user_version);
  if (version === SCHEMA_VERSION) return undefined;
  if (version !== 0) {
    return `schema version ${version} (${
      creator(database)
    }); this broker reads version ${SCHEMA_VERSION}`;
  }
  const tables = Number(database.prepare("SELECT count(*) AS n FROM sqlite_schema").get()!.n);
  if (tables === 0) return "new";
  return `holds tables and states no schema version; this broker reads version ${SCHEMA_VERSION}`;
}

function creator(database: DatabaseSync): string {
  try {
    const meta = database.prepare(
      "SELECT created_by AS revision, CAST(created_at / 1000000 AS INTEGER) AS ms FROM meta",
    ).get();
    if (meta === undefined) return "creator unknown";
    const revision = String(meta.revision).slice(0, 12);
    return `created by saguin ${revision} at ${rfc3339(Number(meta.ms))}`;
  } catch {
    // Another program's version number: it has no such table, or one of another shape.
    return "not created by saguin";
  }
}

function rfc3339(ms: number): string {
  return new Date(ms).toISOString().replace(/\.\d{3}Z$/, "Z");
}
