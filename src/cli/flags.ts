/** Every flag of the command line (02b section 16). */

export interface Flag {
  readonly name: string;
  /** What follows it, for the help text; empty when nothing does. */
  readonly operands: string;
  /** One a command line; the others go with a command. */
  readonly command: boolean;
  /** Commands it goes with, for a flag that is none itself. */
  readonly with?: readonly string[];
  readonly doc: string;
}

export const FLAGS: readonly Flag[] = [
  {
    name: "config",
    operands: "FILE",
    command: true,
    doc: "start the broker",
  },
  {
    name: "check-config",
    operands: "FILE",
    command: true,
    doc: "check a configuration and list its channels",
  },
  {
    name: "output",
    operands: "",
    command: false,
    with: ["check-config"],
    doc: "print the checked configuration, complete and in one document",
  },
  {
    name: "route",
    operands: "FILE [TOPIC|FILTER]",
    command: true,
    doc: "tell where a topic lands, or what a filter is served",
  },
  {
    name: "acl",
    operands: "FILE [USER [CLIENT_ID]]",
    command: true,
    doc: "explain what a user may do",
  },
  {
    name: "json",
    operands: "",
    command: false,
    with: ["route", "acl"],
    doc: "answer in JSON",
  },
  {
    name: "passwd",
    operands: "list|add|delete|scope FILE ...",
    command: true,
    doc: "look at or change a password file",
  },
  {
    name: "snapshots-to-sqlite",
    operands: "DIRECTORY DATABASE",
    command: true,
    doc: "move snapshots into a database",
  },
  {
    name: "sqlite-to-snapshots",
    operands: "DATABASE DIRECTORY",
    command: true,
    doc: "move a database into snapshots",
  },
  {
    name: "check-storage",
    operands: "DATABASE|DIRECTORY",
    command: true,
    doc: "look for contradictions in what a provider keeps",
  },
  {
    name: "licenses",
    operands: "",
    command: true,
    doc: "print the licences of everything inside",
  },
  { name: "version", operands: "", command: true, doc: "print the version" },
  { name: "help", operands: "", command: true, doc: "print this text" },
];

/** The text of `--help`. */
export function helpText(): string {
  const rows = FLAGS.map((flag): readonly [string, string] => [
    `--${flag.name}${flag.operands === "" ? "" : ` ${flag.operands}`}`,
    flag.doc,
  ]);
  const width = Math.max(...rows.map(([left]) => left.length));
  const lines = rows.map(([left, right]) => `  ${left.padEnd(width)}  ${right}\n`);
  return `saguin is an MQTT broker.\n\n${lines.join("")}\nOne leading dash does as well as two.\n`;
}
