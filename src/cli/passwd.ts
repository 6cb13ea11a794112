/** `--passwd list|add|delete|scope`: looks at or changes a password file, and reads no configuration. */
import { hashPassword, readHash, writeHash } from "../auth/hash.ts";
import { removeUser, setHash, setScope } from "../auth/password_edit.ts";
import { readLine } from "../auth/password_lines.ts";
import { readScopes } from "../auth/scopes.ts";
import { plain } from "../config/finding.ts";
import { reason } from "../config/walk.ts";
import { readNamedFile, replaceFile } from "../platform/files.ts";
import type { Input } from "./input.ts";

export const PASSWD_VERBS = ["list", "add", "delete", "scope"] as const;

/** The operands behind the file have been counted; a password among them is shown nobody. */
export type PasswdCommand = { readonly kind: "passwd"; readonly file: string } & Change;

type Change =
  | { readonly verb: "list" }
  /** `password` undefined: it is asked for. */
  | { readonly verb: "add"; readonly user: string; readonly password: string | undefined }
  | { readonly verb: "delete"; readonly user: string }
  /** `routes`: a comma list, or `all`. */
  | { readonly verb: "scope"; readonly user: string; readonly routes: string };

/** What follows each verb. */
const OPERANDS = {
  list: "FILE",
  add: "FILE USER [PASSWORD]",
  delete: "FILE USER",
  scope: "FILE USER ROUTES|all",
} as const;

/** No message of a refusal repeats an operand behind the verb: a password may have come to stand there. */
export function readPasswd(
  verb: string,
  operands: readonly string[],
): PasswdCommand | { readonly refusal: string } {
  const known = PASSWD_VERBS.find((name) => name === verb);
  if (known === undefined) {
    const says = verb === "" ? "--passwd says nothing to do" : `--passwd does no ${plain(verb)}`;
    return { refusal: `${says}; write list, add, delete or scope` };
  }
  const wanted = OPERANDS[known];
  const [least, most] = known === "add" ? [2, 3] : [wanted.split(" ").length, undefined];
  if (operands.length < least || operands.length > (most ?? least)) {
    const more = operands.length > least && known === "add"
      ? "; a password with blanks stands in quotes"
      : "";
    return { refusal: `--passwd ${known} takes ${wanted}${more}` };
  }
  const [file, user, third] = operands;
  if (file === "") return { refusal: `--passwd ${known} names no file` };
  switch (known) {
    case "list":
      return { kind: "passwd", verb: known, file };
    case "add":
      return { kind: "passwd", verb: known, file, user, password: third };
    case "delete":
      return { kind: "passwd", verb: known, file, user };
    case "scope":
      return { kind: "passwd", verb: known, file, user, routes: third };
  }
}

export interface PasswdStreams {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly input: Input;
}

const DONE = 0;
const REFUSED = 1;

/** Modes and owners of a file that is there are kept; a new one is for its owner alone. */
const NEW_FILE_MODE = 0o600;

/** Returns the exit code. */
export async function passwd(command: PasswdCommand, on: PasswdStreams): Promise<number> {
  try {
    const before = readText(command.file);
    if (before === undefined && command.verb !== "add") {
      return refuse(on, command, "there is no such file");
    }
    if (command.verb === "list") return listUsers(before ?? "", command, on);
    const edited = await edit(before ?? "", command, on);
    if ("fault" in edited) return refuse(on, command, edited.fault);
    writeText(command.file, edited.text);
    return DONE;
  } catch (error) {
    if (!(error instanceof Error) || !(error.name in Deno.errors)) throw error;
    return refuse(on, command, reason(error));
  }
}

function refuse(on: PasswdStreams, { file }: PasswdCommand, says: string): number {
  on.stderr(`saguin: ${plain(file)}: ${says}\n`);
  return REFUSED;
}

/** One user a line, with a tab and the scope where there is one. */
function listUsers(text: string, command: PasswdCommand, on: PasswdStreams): number {
  let code = DONE;
  for (const [at, written] of text.split("\n").entries()) {
    const line = readLine(written);
    if (line === undefined) continue;
    if (line === "no colon") {
      code = refuse(on, command, `line ${at + 1} has no colon, and names nobody`);
      continue;
    }
    on.stdout(plain(line.user) + (line.scope === undefined ? "" : `\t${plain(line.scope)}`) + "\n");
    const hash = readHash(line.hash);
    if ("fault" in hash) code = refuse(on, command, `line ${at + 1} ${hash.fault}`);
  }
  return code;
}

async function edit(text: string, command: PasswdCommand, on: PasswdStreams) {
  switch (command.verb) {
    case "list":
      return { text };
    case "add": {
      const named = setHash(text, command.user, "");
      if ("fault" in named) return named;
      const password = command.password ?? await ask(on);
      if (typeof password !== "string") return password;
      if (password === "") return { fault: "an empty password is no password; nothing is changed" };
      const hash = await hashPassword(new TextEncoder().encode(password));
      return setHash(text, command.user, writeHash(hash));
    }
    case "delete":
      return removeUser(text, command.user);
    case "scope": {
      const { routes } = command;
      if (routes === "all") return setScope(text, command.user, undefined);
      const scopes = readScopes(routes);
      if ("fault" in scopes) return { fault: `the new list ${scopes.fault}` };
      return setScope(text, command.user, routes);
    }
  }
}

async function ask({ input }: PasswdStreams): Promise<string | { readonly fault: string }> {
  const typed = await input.secrets(["Password: ", "The same again: "]);
  if (typed === undefined) {
    return { fault: "no password was given, or not a second time; nothing is changed" };
  }
  const [first, second = first] = typed;
  if (first === second) return first;
  return { fault: "the two passwords differ; nothing is changed" };
}

/** Undefined when there is no file. */
function readText(path: string): string | undefined {
  let bytes: Uint8Array;
  try {
    bytes = readNamedFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
  try {
    return new TextDecoder("utf-8", { fatal: true, ignoreBOM: true }).decode(bytes);
  } catch {
    throw new Deno.errors.InvalidData("it is not UTF-8 text; save it as UTF-8");
  }
}

/** In one step, so that a broker that reloads meanwhile reads the one file or the other. */
function writeText(path: string, text: string): void {
  const bytes = new TextEncoder().encode(text);
  let real: string;
  try {
    real = Deno.realPathSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
    replaceFile(path, bytes, NEW_FILE_MODE);
    return;
  }
  const { mode, uid, gid } = Deno.statSync(real);
  replaceFile(real, bytes, NEW_FILE_MODE, (beside) => {
    if (uid !== null && gid !== null) Deno.chownSync(beside, uid, gid);
    if (mode !== null) Deno.chmodSync(beside, mode & 0o7777);
  });
}
