/**
 * Changes one user's line of a password file and leaves every other line as it stands, comments, blanks
 * and lines of other programs included. Faults are whole sentences without any part of a hash.
 */
import { quoted } from "../config/finding.ts";
import { type PasswordLine, readLine, userNameFault, writeLine } from "./password_lines.ts";

export type Edited = { readonly text: string } | { readonly fault: string };

/** A line that names a user, and where. */
interface Found {
  /** From 0. */
  readonly at: number;
  readonly line: PasswordLine;
}

/** Sets the hash of `user`, who may be new; a scope stays. */
export function setHash(text: string, user: string, hash: string): Edited {
  const fault = userNameFault(user) ?? writtenNameFault(user);
  if (fault !== undefined) return { fault: `${quoted(user)} ${fault}` };
  const found = linesOf(text, user);
  if (found.length > 1) return { fault: onSeveralLines(user, found) };
  if (found.length === 1) return replace(text, found[0], { ...found[0].line, hash });
  const begun = text === "" || text.endsWith("\n") ? text : `${text}\n`;
  return { text: `${begun}${writeLine({ user, hash, scope: undefined })}\n` };
}

/** Removes `user`, from every line if there are several: the name then opens nothing. */
export function removeUser(text: string, user: string): Edited {
  const found = linesOf(text, user);
  if (found.length === 0) return { fault: noSuchUser(user) };
  const gone = new Set(found.map(({ at }) => at));
  return { text: text.split("\n").filter((_, at) => !gone.has(at)).join("\n") };
}

/** Sets the whole third field; undefined takes it away, and every route is readable. */
export function setScope(text: string, user: string, scope: string | undefined): Edited {
  const found = linesOf(text, user);
  if (found.length === 0) return { fault: noSuchUser(user) };
  if (found.length > 1) return { fault: onSeveralLines(user, found) };
  return replace(text, found[0], { ...found[0].line, scope });
}

function linesOf(text: string, user: string): readonly Found[] {
  const found: Found[] = [];
  for (const [at, written] of text.split("\n").entries()) {
    const line = readLine(written);
    if (typeof line === "object" && line.user === user) found.push({ at, line });
  }
  return found;
}

function replace(text: string, { at }: Found, line: PasswordLine): Edited {
  const lines = text.split("\n");
  const ending = lines[at].endsWith("\r") ? "\r" : "";
  lines[at] = writeLine(line) + ending;
  return { text: lines.join("\n") };
}

/** Why a name cannot be written in this format, though a certificate may hold it. */
function writtenNameFault(user: string): string | undefined {
  if (user.includes(":")) return "holds a colon, which ends the name in this file";
  if (user.startsWith("#")) return "begins with #, which makes the line a comment";
  if (/^ | $/.test(user)) return "begins or ends with a blank, which is cut off on reading";
  return user.isWellFormed() ? undefined : "holds half of a character";
}

function noSuchUser(user: string): string {
  return `${quoted(user)} is no user of the file`;
}

function onSeveralLines(user: string, found: readonly Found[]): string {
  const lines = found.map(({ at }) => at + 1).join(" and ");
  return `${quoted(user)} is on the lines ${lines}; delete the user first`;
}
