/** Files that are whole or not there, also after a power cut. */
import { dirname } from "node:path/posix";

/** Forces a directory's entries to the disk: a rename or a removal in it has then happened. */
export function syncDirectory(path: string): void {
  using directory = Deno.openSync(path, { read: true });
  directory.syncSync();
}

/**
 * Puts `bytes` under `path` in one step: written beside it, synced, renamed over whatever was there, and
 * the directory synced. On failure `path` is as it was and nothing is left beside it.
 *
 * @param mode permission bits of the new file; those of the process's mask are taken off
 * @param prepare done to the file beside it, whose path it is given, before the file is in place
 * @throws whatever the system says
 */
export function replaceFile(
  path: string,
  bytes: Uint8Array,
  mode = 0o644,
  prepare: (beside: string) => void = () => {},
): void {
  const beside = `${path}.${Deno.pid}.tmp`;
  const file = Deno.openSync(beside, { write: true, createNew: true, mode });
  try {
    try {
      for (let written = 0; written < bytes.length;) {
        written += file.writeSync(bytes.subarray(written));
      }
      prepare(beside);
      file.syncSync();
    } finally {
      file.close();
    }
    Deno.renameSync(beside, path);
  } catch (error) {
    Deno.removeSync(beside);
    throw error;
  }
  syncDirectory(dirname(path));
}
