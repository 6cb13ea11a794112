/**
 * A storage worker that ends the whole process with SIGKILL at a point that a test named: before or after a
 * commit, after a statement inside a transaction, or at a statement outside of one. The point is a file, so
 * that a test can arm it when everything before it is done.
 */
import { DatabaseSync, StatementSync } from "node:sqlite";
import type { KillPoint } from "./killable_broker.ts";

// As in main.ts: what is asked while the import below still loads would be dropped.
const early: MessageEvent[] = [];
(globalThis as unknown as { onmessage: (event: MessageEvent) => void }).onmessage = (event) =>
  early.push(event);

const pointFile = new URL(import.meta.url).searchParams.get("point")!;
const sqlOf = new WeakMap<object, string>();
const SQL_THAT_LOOKS = /^(BEGIN|PRAGMA)/;

let point:
  | { readonly pattern: RegExp; readonly at: KillPoint["at"]; readonly alone: boolean }
  | undefined;
let reached = false;

function look(): void {
  let text: string;
  try {
    text = Deno.readTextFileSync(pointFile);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    point = undefined;
    return;
  }
  const { sql, at, alone = false } = JSON.parse(text) as KillPoint;
  point = { pattern: new RegExp(sql), at, alone };
}

function die(): never {
  Deno.kill(Deno.pid, "SIGKILL");
  // The signal ends every thread; this one must not go on until it has.
  for (;;) Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);
}

/** Runs one statement, or dies at it. */
function step<T>(sql: string, run: () => T): T {
  if (SQL_THAT_LOOKS.test(sql)) look();
  if (sql.startsWith("BEGIN")) reached = false;
  if (point === undefined) return run();
  if (point.alone) {
    if (!point.pattern.test(sql)) return run();
    if (point.at === "before") die();
    run();
    die();
  }
  if (sql === "COMMIT" && reached) {
    if (point.at === "before") die();
    run();
    die();
  }
  const result = run();
  if (point.pattern.test(sql)) {
    reached = true;
    if (point.at === "inside") die();
  }
  return result;
}

type Method = (...args: unknown[]) => unknown;

const databases = DatabaseSync.prototype as unknown as Record<string, Method>;
const { prepare } = databases;
databases.prepare = function (this: object, ...args: unknown[]) {
  const statement = prepare.apply(this, args) as object;
  sqlOf.set(statement, args[0] as string);
  return statement;
};
const statements = StatementSync.prototype as unknown as Record<string, Method>;
for (const name of ["run", "get", "all", "iterate"]) {
  const method = statements[name];
  statements[name] = function (this: object, ...args: unknown[]) {
    return step(sqlOf.get(this) ?? "", () => method.apply(this, args));
  };
}

const { runStorageWorker } = await import("../../../src/storage/sqlite/worker.ts");
runStorageWorker(early);
