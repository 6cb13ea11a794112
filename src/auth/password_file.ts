/** A password file as the broker holds it: read whole, at start and on a reload, and never between. */
import type { Findings } from "../config/finding.ts";
import { readHash } from "./hash.ts";
import { type PasswordLine, readLine, userNameFault } from "./password_lines.ts";
import { readScopes } from "./scopes.ts";

/** Largest file that is read: some 200,000 users. */
export const LARGEST_PASSWORD_FILE_BYTES = 32 * 1024 * 1024;

/** Lines of one file that are reported; a file of another kind is wrong in all of them. */
const MOST_FAULTS = 20;

/** Whose passwords: the clients of the MQTT doors, or the operators, whose lines may have a scope. */
export type PasswordFileKind = "clients" | "operators";

export interface Credential {
  /** A hash that `readHash` accepts, kept as text: decoding it is cheap beside checking it. */
  readonly hash: string;
  /** Routes an operator may read; undefined: all of them. */
  readonly scopes: readonly string[] | undefined;
  readonly line: number;
}

export class PasswordFile {
  constructor(
    /** Its path, for messages. */
    readonly file: string,
    readonly credentials: ReadonlyMap<string, Credential>,
    /** Something was wrong with it: it holds the good lines only, and is not to be checked against. */
    readonly faulty: boolean,
  ) {}

  /** Names, in the order of the file. */
  get users(): string[] {
    return [...this.credentials.keys()];
  }
}

/**
 * Reads a file; what is wrong with it goes to `findings` with its line, and nothing of a hash does.
 */
export function readPasswordFile(
  bytes: Uint8Array,
  file: string,
  kind: PasswordFileKind,
  findings: Findings,
): PasswordFile {
  const credentials = new Map<string, Credential>();
  const top = { file, line: 1, column: 1 };
  if (bytes.length > LARGEST_PASSWORD_FILE_BYTES) {
    const most = LARGEST_PASSWORD_FILE_BYTES / 1024 ** 2;
    findings.add(top, undefined, `is larger than ${most}MiB; is it a password file?`);
    return new PasswordFile(file, credentials, true);
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    findings.add(top, undefined, "is not UTF-8 text; save it as UTF-8");
    return new PasswordFile(file, credentials, true);
  }
  let faults = 0;
  const refuse = (line: number, user: string | undefined, says: string) => {
    if (++faults > MOST_FAULTS) return;
    const key = user === undefined ? undefined : "user";
    findings.add({ file, line, column: 1 }, key, says, user);
  };
  for (const [i, written] of text.split("\n").entries()) {
    const line = i + 1;
    const read = readLine(written);
    if (read === undefined) continue;
    if (read === "no colon") {
      refuse(line, undefined, "has no colon; write user:hash, which saguin --passwd add does");
      continue;
    }
    const fault = lineFault(read, kind);
    const earlier = credentials.get(read.user);
    if (fault !== undefined) refuse(line, read.user, fault);
    else if (earlier !== undefined) {
      refuse(line, read.user, `is a user of line ${earlier.line} too; keep one of the lines`);
    } else {
      credentials.set(read.user, { hash: read.hash, scopes: read.scope?.split(","), line });
    }
  }
  if (faults > MOST_FAULTS) {
    const says = `has ${faults - MOST_FAULTS} more lines that are wrong; is it a password file?`;
    findings.add(top, undefined, says);
  }
  return new PasswordFile(file, credentials, faults > 0);
}

function lineFault(line: PasswordLine, kind: PasswordFileKind): string | undefined {
  const name = userNameFault(line.user);
  if (name !== undefined) return name;
  const hash = readHash(line.hash);
  if ("fault" in hash) return hash.fault;
  if (line.scope === undefined) return undefined;
  if (kind === "clients") {
    return "has a third field, which only an operations file has; write user:hash";
  }
  const scopes = readScopes(line.scope);
  return "fault" in scopes ? scopes.fault : undefined;
}
