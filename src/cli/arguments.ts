/** The command line as one command, or one sentence about what is wrong with it. */
import { parseArgs } from "node:util";
import { nearestName } from "../config/unknown.ts";
import { plain } from "../config/finding.ts";
import type { AclCommand } from "./acl.ts";
import { type Flag, FLAGS } from "./flags.ts";
import { type MigrateCommand, readMigration } from "./migrate.ts";
import { type PasswdCommand, readPasswd } from "./passwd.ts";
import type { RouteCommand } from "./route.ts";

export type Command =
  | { readonly kind: "config"; readonly file: string }
  | { readonly kind: "check-config"; readonly file: string; readonly output: boolean }
  | { readonly kind: "check-storage"; readonly path: string }
  | AclCommand
  | MigrateCommand
  | PasswdCommand
  | RouteCommand
  | { readonly kind: "version" }
  | { readonly kind: "licenses" }
  | { readonly kind: "help" };

/**
 * Reads the arguments after the program's name. One and two leading dashes are the same; `--` ends the
 * flags.
 */
export function readArguments(argv: readonly string[]): Command | { readonly refusal: string } {
  const { tokens } = parseArgs({
    args: twoDashes(behindPasswd(argv)),
    options: Object.fromEntries(FLAGS.map(({ name, operands }) => [name, {
      type: operands === "" ? "boolean" as const : "string" as const,
    }])),
    strict: false,
    allowPositionals: true,
    tokens: true,
  });
  const given = new Map<string, { readonly flag: Flag; readonly value: string | undefined }>();
  const operands: string[] = [];
  for (const token of tokens) {
    if (token.kind === "positional") operands.push(token.value);
    if (token.kind !== "option") continue;
    const flag = FLAGS.find(({ name }) => name === token.name);
    if (flag === undefined) return { refusal: unknownFlag(argv[token.index].split("=", 1)[0]) };
    const says = `--${flag.name}`;
    if (given.has(flag.name)) return { refusal: `${says} is given twice; give it once` };
    if (flag.operands === "" && token.value !== undefined) {
      return { refusal: `${says} takes no value; remove ${plain(token.value)}` };
    }
    given.set(flag.name, { flag, value: token.value });
  }
  return command(given, operands);
}

function command(
  given: ReadonlyMap<string, { readonly flag: Flag; readonly value: string | undefined }>,
  operands: readonly string[],
): Command | { readonly refusal: string } {
  const commands = [...given.values()].filter(({ flag }) => flag.command);
  if (commands.length > 1) {
    const [first, second] = commands.map(({ flag }) => flag.name);
    return { refusal: `--${first} and --${second} cannot go together; give one of them` };
  }
  const chosen = commands[0]?.flag.name;
  for (const { flag } of given.values()) {
    if (flag.with !== undefined && (chosen === undefined || !flag.with.includes(chosen))) {
      const goes = flag.with.map((name) => `--${name}`).join(" or ");
      return { refusal: `--${flag.name} goes with ${goes} only` };
    }
  }
  if (chosen === undefined) {
    const says = operands.length === 0 ? "no command is given" : `${plain(operands[0])} is no flag`;
    return { refusal: `${says}; write --config FILE to start, or --help` };
  }
  const file = given.get(chosen)?.value ?? "";
  if (chosen === "passwd") return readPasswd(file, operands);
  if (chosen === "snapshots-to-sqlite" || chosen === "sqlite-to-snapshots") {
    return readMigration(chosen, [file, ...operands]);
  }
  if (commands[0].flag.operands !== "" && file === "") {
    return { refusal: `--${chosen} names no file; write --${chosen} FILE` };
  }
  const taken = chosen === "acl" ? 2 : chosen === "route" ? 1 : 0;
  if (operands.length > taken) {
    return { refusal: `--${chosen} takes nothing more; remove ${plain(operands[taken])}` };
  }
  switch (chosen) {
    case "config":
      return { kind: "config", file };
    case "check-config":
      return { kind: "check-config", file, output: given.has("output") };
    case "check-storage":
      return { kind: "check-storage", path: file };
    case "acl": {
      const [user, clientId] = operands;
      return { kind: "acl", file, user, clientId, json: given.has("json") };
    }
    case "route":
      return { kind: "route", file, subject: operands[0], json: given.has("json") };
    case "version":
      return { kind: "version" };
    case "licenses":
      return { kind: "licenses" };
    case "help":
      return { kind: "help" };
    default:
      throw new TypeError(`--${chosen} is a command and is carried out nowhere`);
  }
}

/**
 * What follows the verb of `--passwd` is no flag, whatever it looks like: a password may begin with a
 * dash, and a message about an unknown flag would show it.
 */
function behindPasswd(argv: readonly string[]): readonly string[] {
  const end = argv.indexOf("--");
  const at = argv.findIndex((argument) => /^--?passwd(=|$)/.test(argument));
  if (at < 0 || (end >= 0 && end < at)) return argv;
  const behind = argv[at].includes("=") ? at + 1 : at + 2;
  if (behind >= argv.length) return argv;
  const operands = argv.slice(behind);
  const mark = operands.indexOf("--");
  if (mark >= 0) operands.splice(mark, 1);
  return [...argv.slice(0, behind), "--", ...operands];
}

/** What fingers type: the only flags of one letter. */
const SHORT: ReadonlyMap<string, string> = new Map([
  ["-h", "--help"],
  ["-?", "--help"],
  ["-v", "--version"],
  ["-V", "--version"],
]);

/** `-config` is `--config`, and `-h` and `-v` are what they are everywhere. */
function twoDashes(argv: readonly string[]): string[] {
  const end = argv.indexOf("--");
  return argv.map((argument, i) => {
    const short = SHORT.get(argument);
    if (short !== undefined && (end < 0 || i < end)) return short;
    const isFlag = /^-[A-Za-z][A-Za-z-]*(=|$)/.test(argument) && (end < 0 || i < end);
    return isFlag ? `-${argument}` : argument;
  });
}

function unknownFlag(written: string): string {
  const nearest = nearestName(written.replace(/^-+/, ""), FLAGS.map(({ name }) => name));
  const remedy = nearest === undefined ? "--help lists the flags" : `did you mean --${nearest}?`;
  return `${plain(written)} is no flag; ${remedy}`;
}
