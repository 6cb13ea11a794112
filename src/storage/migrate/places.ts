import { dirname } from "node:path/posix";
import { errorText } from "../../platform/log.ts";
import { StorageFailure } from "../contract.ts";
import { FileDirectory } from "../snapshot/directory.ts";
import { isSnapshotFile, MANIFEST_FILE } from "../snapshot/file_names.ts";

/** What lies beside a database while it is in use, or after a crash. */
export const BESIDE_DATABASE = ["-wal", "-shm", "-journal"];

/** A refusal of the whole migration, as one sentence (S161 to S163). */
export function refusal(sentence: string, cause?: unknown): StorageFailure {
  return new StorageFailure("failed", sentence, { cause });
}

/** @throws StorageFailure when there is no directory to read */
export function sourceDirectory(path: string): FileDirectory {
  const found = lookAt(path);
  if (found === undefined) throw refusal(`${path} is not there; name the directory of snapshots`);
  if (!found.isDirectory) throw refusal(`${path} is no directory; name the directory of snapshots`);
  return new FileDirectory(path);
}

/** @throws StorageFailure when there is no file to read */
export function sourceDatabase(path: string): void {
  const found = lookAt(path);
  if (found === undefined) throw refusal(`${path} is not there; name the database file`);
  if (!found.isFile) throw refusal(`${path} is no file; name the database file`);
}

/** @throws StorageFailure when anything is there already (S162), or nothing could be created there */
export function freeForDatabase(path: string): void {
  for (const suffix of ["", ...BESIDE_DATABASE]) {
    if (lookAt(path + suffix) === undefined) continue;
    throw refusal(`${path + suffix} exists; name a database that does not, or remove it`);
  }
  const parent = dirname(path);
  if (lookAt(parent)?.isDirectory === true) return;
  throw refusal(`${path} cannot be created: there is no directory ${parent}`);
}

/**
 * @return false when the directory is there and free, true when it has to be created
 * @throws StorageFailure when it holds snapshots or a manifest (S162), or could not be created
 */
export async function freeForSnapshots(path: string): Promise<boolean> {
  const found = lookAt(path);
  if (found === undefined) {
    const parent = dirname(path);
    if (lookAt(parent)?.isDirectory === true) return true;
    throw refusal(`${path} cannot be created: there is no directory ${parent}`);
  }
  if (!found.isDirectory) throw refusal(`${path} exists and is no directory; name another one`);
  let names: readonly string[];
  try {
    names = await new FileDirectory(path).list();
  } catch (error) {
    throw refusal(`${path} cannot be read: ${errorText(error)}`, error);
  }
  const taken = names.find((name) => name === MANIFEST_FILE || isSnapshotFile(name));
  if (taken === undefined) return false;
  throw refusal(`${path} holds ${taken}; name a directory without snapshots, or remove them`);
}

/** Undefined when nothing is there. */
export function lookAt(path: string): Deno.FileInfo | undefined {
  try {
    return Deno.statSync(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    // A link that leads in circles, a file for a directory, no permission: something is there.
    throw refusal(`${path} cannot be looked at: ${errorText(error)}`, error);
  }
}

export function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
