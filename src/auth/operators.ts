/** The operators' password files: read at the start and on a reload, all or none (05 section 4.1). */
import type { OperationsConfiguration } from "../config/configuration.ts";
import type { Findings } from "../config/finding.ts";
import type { NamedFiles, ReadFile } from "../config/named_files.ts";
import { type PasswordFile, readPasswordFile } from "./password_file.ts";

/** The file in force at each operations door that has one, by the door's name. */
export type Operators = ReadonlyMap<string, PasswordFile>;

/**
 * Reads every file that an operations door names; what is wrong with one goes to `findings`, and what
 * is returned is then not to be used.
 */
export function loadOperators(
  operations: OperationsConfiguration | undefined,
  files: NamedFiles,
  readFile: ReadFile,
  findings: Findings,
): Operators {
  const operators = new Map<string, PasswordFile>();
  const doors = operations?.doors ?? [];
  for (const path of new Set(doors.map(({ passwordFile }) => passwordFile))) {
    if (path === undefined) continue;
    const bytes = files.read(path, readFile, findings);
    if (bytes === undefined) continue;
    const of = doors.filter((door) => door.passwordFile === path);
    const file = readPasswordFile(bytes, path, "operators", findings);
    if (file.credentials.size === 0 && !file.faulty) {
      const says = `names no user, and nobody else is admitted at ` +
        `${of.map((door) => door.path).join(" and ")}; add one with saguin --passwd add`;
      files.refuse(path, says, findings);
    }
    for (const { name } of of) operators.set(name, file);
  }
  return operators;
}
