import { DatabaseSync } from "node:sqlite";
import { createPrivate, sqliteCode } from "../lock.ts";
import { type Message, recordSize } from "../record.ts";
import { openForWriting, pragma, sizeOf } from "./connection.ts";
import type { Opened, OpenWriter } from "./messages.ts";
import { parseHeaders } from "./message_text.ts";
import { createSchema, schemaFault } from "./schema.ts";
import { countersOf, type StoredChannel, StoredChannels } from "./stored_channels.ts";
import { unclaimedIn } from "./unclaimed.ts";

const SQLITE_NOTADB = 26;

interface OpenedStore {
  readonly database: DatabaseSync;
  readonly channels: StoredChannels;
  readonly opened: Opened;
}

/**
 * Opens or creates the file of a provider whose lock is held (S145): private before SQLite sees it,
 * version before anything is written, schema and channel rows in a transaction each.
 *
 * @throws Error with the end of a sentence that began with the path. A file that was not there is then
 *   not there either, and one that was refused is as it was
 */
export function openStore(request: OpenWriter): OpenedStore {
  const { filePath } = request;
  const created = createPrivate(filePath);
  let database: DatabaseSync | undefined;
  try {
    const isNew = created || inspect(filePath);
    database = openForWriting(filePath);
    if (isNew) createSchema(database, request.revision, request.now);
    const pageSize = Number(pragma(database, "page_size").page_size);
    const ceiling = ceilingOf(request, pageSize);
    const channels = new StoredChannels(database);
    database.prepare("BEGIN IMMEDIATE").run();
    channels.load(database, request.stores);
    database.prepare("COMMIT").run();
    for (const channel of channels.all()) {
      if (channel.kind === "queue") sumJobs(database, channel);
      else if (channel.kind === "latest") countValues(database, channel);
    }
    const opened: Opened = {
      counters: countersOf(channels.all()),
      positions: channels.all().map((channel) => positionsOf(database!, channel)),
      unclaimed: unclaimedIn(database, request.stores),
      pageSize,
      pages: Number(pragma(database, "page_count").page_count),
      ceiling,
    };
    return { database, channels, opened };
  } catch (error) {
    database?.close();
    if (created) {
      for (const suffix of ["", "-wal", "-shm"]) removeIfThere(filePath + suffix);
    }
    throw error;
  }
}

/**
 * Looks at a file before anything may write to it: true when it is empty, so that the schema goes in.
 * Where a log lies beside it the look is a read-only one, which copies nothing into the file.
 */
function inspect(filePath: string): boolean {
  const readOnly = sizeOf(filePath + "-wal") > 0;
  let database: DatabaseSync | undefined;
  try {
    database = new DatabaseSync(filePath, { readOnly });
    const fault = schemaFault(database);
    if (fault !== undefined && fault !== "new") throw new Error(fault);
    return fault === "new";
  } catch (error) {
    if (sqliteCode(error) === SQLITE_NOTADB) throw new Error("is not a SQLite database");
    throw error;
  } finally {
    database?.close();
  }
}

/** Pages at which publishes stop, and all of `max_bytes`: the reserve is what lies between (S186). */
function ceilingOf(request: OpenWriter, pageSize: number): Opened["ceiling"] {
  if (request.maxBytes === undefined) return undefined;
  const total = Math.floor(request.maxBytes / pageSize);
  const publish = total - Math.ceil(request.reserveBytes / pageSize);
  if (publish <= 0) {
    throw new Error(
      `max_bytes of ${request.maxBytes} leaves no page of ${pageSize} bytes beside the reserve ` +
        `of ${request.reserveBytes}; raise max_bytes`,
    );
  }
  return { publish, total };
}

/** A queue's table is a working set: its sums are made at open and kept in memory (S144, S176). */
function sumJobs(database: DatabaseSync, channel: StoredChannel): void {
  const rows = database.prepare(
    "SELECT topic, message_id AS messageId, headers, length(payload) AS payloadBytes " +
      "FROM queue_items WHERE channel = ?",
  ).iterate(channel.name);
  for (const row of rows) {
    channel.bytes += storedSize(row as unknown as SizedRow);
    channel.depth++;
  }
  channel.committed.bytes = channel.bytes;
  channel.committed.depth = channel.depth;
}

/** Counted once; afterwards every write that adds or removes a value says so (05 section 8.3). */
function countValues(database: DatabaseSync, channel: StoredChannel): void {
  const count = database.prepare("SELECT count(*) AS n FROM latest_values WHERE channel = ?");
  channel.depth = Number(count.get(channel.name)!.n);
  channel.committed.depth = channel.depth;
}

/** What a row's size is counted from, without its payload. */
export interface SizedRow {
  readonly topic: string;
  readonly messageId: string;
  readonly headers: string | null;
  readonly payloadBytes: number;
}

/** `recordSize` of a stored row, whose payload is not read for it (S14). */
export function storedSize(row: SizedRow): number {
  return recordSize(
    {
      topic: row.topic,
      messageId: row.messageId,
      headers: parseHeaders(row.headers ?? ""),
      payload: { byteLength: row.payloadBytes },
    } satisfies Pick<Message, "topic" | "messageId" | "headers"> & { payload: object },
  );
}

function positionsOf(database: DatabaseSync, channel: StoredChannel): [string, number][] {
  if (channel.kind !== "append") return [];
  const select = database.prepare("SELECT reader, offset FROM positions WHERE channel = ?");
  return select.all(channel.name).map((row) => [row.reader as string, row.offset as number]);
}

function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
