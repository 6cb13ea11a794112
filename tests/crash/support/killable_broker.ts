/**
 * A broker that dies by SIGKILL at a named point of its storage, and what is left of it.
 *
 * ```ts
 * await using broker = await killable({ channels });
 * await diesAt(broker, { sql: "INSERT INTO records", at: "before" }, () => client.publish(...));
 * await broker.startAgain();
 * ```
 */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { check } from "../../storage/check/support.ts";
import { BrokerProcess, configurationText, type Parts } from "../../support/broker_process.ts";
import { within } from "../../support/wait.ts";
import { cutOff } from "../publisher.ts";

export interface KillPoint {
  /** Regular expression that a statement of the transaction matches. */
  readonly sql: string;
  /** Before or after the transaction's commit, or inside it, once the statement ran. */
  readonly at: "before" | "inside" | "after";
  /** The statement is in no transaction: it dies before or after the statement itself. */
  readonly alone?: boolean;
}

const ENTRY = new URL("./broker_entry.ts", import.meta.url).pathname;

/** A broker on a database whose process the points apply to, until it died. */
export async function killable(parts: Parts): Promise<BrokerProcess> {
  const text = (place: Parameters<typeof configurationText>[0]) =>
    configurationText(place, { logLevel: "warn", ...parts });
  return await BrokerProcess.start(text, undefined, killableCommand);
}

/** The command line of a broker that looks for its point beside its database. */
export function killableCommand(directory: string): readonly string[] {
  return [Deno.execPath(), "run", "--no-check", "--cached-only", "-A", ENTRY, pointOf(directory)];
}

function pointOf(directory: string): string {
  return `${directory}/point.json`;
}

/** From now on the process dies when it comes to the point. */
export function arm({ directory }: { readonly directory: string }, point: KillPoint): void {
  Deno.writeTextFileSync(pointOf(directory), JSON.stringify(point));
}

/**
 * Does what leads to the point, and waits until the process is dead of it. Then what is on the disk agrees
 * with itself. The next start is an ordinary one.
 */
export async function diesAt(
  broker: BrokerProcess,
  point: KillPoint,
  lead: () => Promise<unknown> = () => Promise.resolve(),
): Promise<void> {
  arm(broker, point);
  try {
    await lead();
  } catch (error) {
    if (!cutOff(error)) throw error;
  }
  const ended = await within(`the kill ${point.at} ${point.sql}`, broker.ended, 20_000);
  assert.equal(ended.signal, "SIGKILL");
  Deno.removeSync(pointOf(broker.directory));
  broker.command = undefined;
  assert.deepEqual((await check(broker.database)).findings, []);
}

/** Rows of its database, whether it runs or not. */
export function rows(broker: BrokerProcess, sql: string): Record<string, unknown>[] {
  const database = new DatabaseSync(broker.database, { readOnly: true });
  try {
    return database.prepare(sql).all().map((row) => ({ ...row }));
  } finally {
    database.close();
  }
}
