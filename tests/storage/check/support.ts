/** The checker as tests ask it: everything it says, in order. */
import { checkDatabase } from "../../../src/storage/check/check_database.ts";
import { checkSnapshots } from "../../../src/storage/check/check_snapshots.ts";
import { FileDirectory } from "../../../src/storage/snapshot/directory.ts";

export interface Said {
  readonly findings: string[];
  readonly notes: string[];
  readonly progress: string[];
}

/** What the checker says of a database, or of a directory of snapshots. */
export async function check(path: string): Promise<Said> {
  const said: Said = { findings: [], notes: [], progress: [] };
  const report = {
    finding: (sentence: string) => void said.findings.push(sentence),
    note: (sentence: string) => void said.notes.push(sentence),
    progress: (text: string) => void said.progress.push(text),
  };
  if (Deno.statSync(path).isDirectory) await checkSnapshots(new FileDirectory(path), report);
  else checkDatabase(path, report);
  return said;
}
