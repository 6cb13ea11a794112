/**
 * `--check-storage`: holds what a provider keeps against itself. Reads only, reads no configuration, and
 * does not mind a broker that runs on it.
 */
import { plain } from "../config/finding.ts";
import { checkDatabase } from "../storage/check/check_database.ts";
import { checkSnapshots } from "../storage/check/check_snapshots.ts";
import type { CheckReport } from "../storage/check/report.ts";
import { FileDirectory } from "../storage/snapshot/directory.ts";
import { counted } from "./counted.ts";
import { isFileError } from "./file_error.ts";
import { ProgressLine } from "./progress_line.ts";

export interface CheckStreams {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
}

const DONE = 0;
const FOUND = 1;

/** Returns the exit code: 0 when nothing was found, 1 when something was or nothing could be read. */
export async function checkStorage(
  path: string,
  on: CheckStreams,
  isTerminal = Deno.stderr.isTerminal(),
): Promise<number> {
  const line = new ProgressLine(on.stderr, isTerminal);
  let found = 0;
  const report: CheckReport = {
    finding(sentence) {
      found++;
      line.clear();
      on.stdout(`${plain(sentence)}\n`);
    },
    note(sentence) {
      line.clear();
      on.stderr(`note: ${plain(sentence)}\n`);
    },
    progress: (text) => line.show(`checking ${text}`),
  };
  try {
    const { isDirectory, isFile } = await Deno.stat(path);
    if (!isDirectory && !isFile) {
      throw new Deno.errors.InvalidData("it is neither a database file nor a directory");
    }
    const { channels, entries, sessions } = isDirectory
      ? await checkSnapshots(new FileDirectory(path), report)
      : checkDatabase(path, report);
    line.clear();
    const says = [
      found === 0 ? "ok" : counted(found, "finding", "findings"),
      counted(channels, "channel", "channels"),
      counted(entries, "entry", "entries"),
      counted(sessions, "session", "sessions"),
    ];
    on.stdout(`${plain(path)}: ${says.join(", ")}\n`);
    return found === 0 ? DONE : FOUND;
  } catch (error) {
    line.clear();
    if (!isFileError(error)) throw error;
    on.stderr(`saguin: ${plain(path)} cannot be checked: ${plain(error.message)}\n`);
    return FOUND;
  }
}
