import { sqliteCode } from "../storage/lock.ts";

/** Whether the system or SQLite says this of a file: a sentence for the operator, and no fault of ours. */
export function isFileError(error: unknown): error is Error {
  if (!(error instanceof Error)) return false;
  return error.name in Deno.errors || sqliteCode(error) !== undefined;
}
