import type { DatabaseSync } from "node:sqlite";
import type { Log } from "../../platform/log.ts";
import type { StoreSpec } from "../contract.ts";

/** A channel that the file keeps something of, and that it was not opened with. */
export interface Unclaimed {
  readonly name: string;
  /** Records, values or jobs. */
  readonly entries: number;
}

/** Names that one line gives; how many there are stands beside them. */
const MOST_NAMES = 10;

const ENTRIES = `CASE kind
  WHEN 'append' THEN next - floor
  WHEN 'latest' THEN (SELECT count(*) FROM latest_values WHERE channel = name)
  ELSE (SELECT count(*) FROM queue_items WHERE channel = name) END`;

/**
 * What was renamed or taken out of the configuration, or is kept by another provider now: rows that are
 * left alone (S102). The names of the broker's own stores are nobody's to rename.
 */
export function unclaimedIn(database: DatabaseSync, stores: readonly StoreSpec[]): Unclaimed[] {
  const claimed = new Set(stores.map(({ channel }) => channel));
  const names = database.prepare(
    "SELECT name FROM channels WHERE next > 1 AND name NOT LIKE '$saguin/%' ORDER BY name",
  ).all().map((row) => row.name as string);
  const count = database.prepare(`SELECT ${ENTRIES} AS entries FROM channels WHERE name = ?`);
  return names.filter((name) => !claimed.has(name))
    .map((name) => ({ name, entries: Number(count.get(name)!.entries) }))
    .filter(({ entries }) => entries > 0);
}

/** A channel under a new name begins at offset 1, and nothing else would tell why. */
export function sayUnclaimed(unclaimed: readonly Unclaimed[], provider: string, log: Log): void {
  if (unclaimed.length === 0) return;
  log.info("channels are stored here and not configured; what they keep is out of reach", {
    provider,
    channels: unclaimed.length,
    names: unclaimed.slice(0, MOST_NAMES).map(({ name }) => name).join(","),
    entries: unclaimed.reduce((sum, { entries }) => sum + entries, 0),
  });
}
