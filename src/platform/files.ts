/** Files that operators name, and files that are whole or not there, also after a power cut. */
import { dirname } from "node:path/posix";

/** Largest file that is read whole: half a million users of a password file, or any configuration. */
export const LARGEST_NAMED_FILE_BYTES = 64 * 1024 * 1024;

/** What a shell puts in place of `<(command)`; whoever writes there was started with it. */
const SHELL_PIPE = /^\/dev\/fd\/\d+$/;

/**
 * Reads a file that an operator named. Whatever is no file is refused before it is opened: a FIFO would
 * wait for a writer that may never come, and a device has no end.
 *
 * @param pipes takes what a shell pipes into a command too: `/dev/stdin`, and the path of a `<(command)`.
 * Such a thing is read once, so not by what reads again on a signal
 * @throws whatever the system says, or InvalidData with the reason
 */
export function readNamedFile(path: string, pipes = false): Uint8Array<ArrayBuffer> {
  if (pipes && path === "/dev/stdin") return readToEnd(Deno.stdin);
  const info = Deno.statSync(path);
  if (!info.isFile && !(pipes && info.isFifo && SHELL_PIPE.test(path))) {
    throw new Deno.errors.InvalidData(`it is ${kindOf(info)}, not a file`);
  }
  if (info.size > LARGEST_NAMED_FILE_BYTES) throw new Deno.errors.InvalidData(TOO_LARGE);
  using file = Deno.openSync(path);
  return readToEnd(file);
}

const TOO_LARGE = `it is larger than ${LARGEST_NAMED_FILE_BYTES / 1024 ** 2}MiB`;

function kindOf(info: Deno.FileInfo): string {
  if (info.isDirectory) return "a directory";
  if (info.isFifo) return "a FIFO";
  return info.isSocket ? "a socket" : "a device";
}

/** A file may have grown since its size was asked, and a pipe has none. */
function readToEnd(source: { readSync(into: Uint8Array): number | null }): Uint8Array<ArrayBuffer> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  for (;;) {
    const chunk = new Uint8Array(64 * 1024);
    const count = source.readSync(chunk);
    if (count === null) break;
    length += count;
    if (length > LARGEST_NAMED_FILE_BYTES) throw new Deno.errors.InvalidData(TOO_LARGE);
    chunks.push(chunk.subarray(0, count));
  }
  const bytes = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    bytes.set(chunk, at);
    at += chunk.length;
  }
  return bytes;
}

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
