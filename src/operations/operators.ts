/** The operators' password files: read at the start and on a reload, all or none (05 section 4.1). */
import { type PasswordFile, readPasswordFile } from "../auth/password_file.ts";
import type { OperationsConfiguration } from "../config/configuration.ts";
import type { Findings } from "../config/finding.ts";
import { list } from "../config/reading.ts";
import { reason } from "../config/walk.ts";

/** Password files by path. */
export type Operators = ReadonlyMap<string, PasswordFile>;

/**
 * Reads every file that an operations door names; what is wrong with one goes to `findings`, and what
 * is returned is then not to be used.
 *
 * @param readFile the bytes of a file; throws whatever the system says
 */
export function loadOperators(
  { doors }: OperationsConfiguration,
  readFile: (path: string) => Uint8Array,
  findings: Findings,
): Operators {
  const files = new Map<string, PasswordFile>();
  for (const path of new Set(doors.map(({ passwordFile }) => passwordFile))) {
    if (path === undefined) continue;
    const place = { file: path, line: 1, column: 1 };
    const names = list(doors.filter((door) => door.passwordFile === path).map((door) => door.path));
    let bytes: Uint8Array;
    try {
      bytes = readFile(path);
    } catch (error) {
      const says = `is the password file of ${names} and cannot be read: ${reason(error)}`;
      findings.add(place, undefined, `${says}; name a readable file`);
      continue;
    }
    const file = readPasswordFile(bytes, path, "operators", findings);
    if (file.credentials.size === 0 && !file.faulty) {
      const says =
        `names no user, and ${names} admits nobody else; add one with saguin --passwd add`;
      findings.add(place, undefined, says);
    }
    files.set(path, file);
  }
  return files;
}
