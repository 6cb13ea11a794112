/** The operators' password files: read at the start and on a reload, all or none (05 section 4.1). */
import type { OperationsConfiguration } from "../config/configuration.ts";
import type { Findings } from "../config/finding.ts";
import { reason } from "../config/walk.ts";
import { type PasswordFile, readPasswordFile } from "./password_file.ts";

/** The file in force at each operations door that has one, by the door's name. */
export type Operators = ReadonlyMap<string, PasswordFile>;

/**
 * Reads every file that an operations door names; what is wrong with one goes to `findings`, and what
 * is returned is then not to be used.
 *
 * @param readFile the bytes of a file; throws whatever the system says
 */
export function loadOperators(
  operations: OperationsConfiguration | undefined,
  readFile: (path: string) => Uint8Array,
  findings: Findings,
): Operators {
  const operators = new Map<string, PasswordFile>();
  const doors = operations?.doors ?? [];
  for (const path of new Set(doors.map(({ passwordFile }) => passwordFile))) {
    if (path === undefined) continue;
    const place = { file: path, line: 1, column: 1 };
    const of = doors.filter((door) => door.passwordFile === path);
    const names = of.map((door) => door.path).join(" and ");
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
      const says = `names no user, and nobody else is admitted at ${names}; ` +
        "add one with saguin --passwd add";
      findings.add(place, undefined, says);
    }
    for (const { name } of of) operators.set(name, file);
  }
  return operators;
}
