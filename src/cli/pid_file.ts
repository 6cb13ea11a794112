/** `broker.pid_file`: there while the broker runs. */
import { reason } from "../config/walk.ts";
import { readNamedFile, replaceFile } from "../platform/files.ts";

/**
 * Writes the process id and a newline. Called once the signal handlers stand, so that whoever reads the
 * file can signal at once.
 * @throws Error naming the file, when it cannot be written: the start then ends
 */
export function writePidFile(path: string): void {
  try {
    replaceFile(path, new TextEncoder().encode(`${Deno.pid}\n`));
  } catch (error) {
    const says = `broker.pid_file ${path} cannot be written: ${reason(error)}`;
    throw new Error(says, { cause: error });
  }
}

/** Removes the file at a clean stop, unless another process has written itself there meanwhile. */
export function removePidFile(path: string): void {
  let holds: string;
  try {
    holds = new TextDecoder().decode(readNamedFile(path));
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return;
    throw error;
  }
  if (holds.trim() === String(Deno.pid)) Deno.removeSync(path);
}
