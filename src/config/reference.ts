/** The reference of all keys as Markdown, from the schema table alone. */
import { list, range } from "./reading.ts";
import { NOT_BUILT } from "./table/built.ts";
import type { Key, Kind } from "./table/key.ts";
import { SCHEMA } from "./table/schema.ts";

const SECTIONS: readonly (readonly [heading: string, prefix: string])[] = [
  ["Process", "broker"],
  ["Doors", "broker.mqtt.listen"],
  ["Operations", "broker.operations"],
  ["Storage", "broker.storage"],
  ["Stores", "broker.retained"],
  ["Stores", "broker.qos2"],
  ["Stores", "broker.share"],
  ["Stores", "broker.session"],
  ["Limits", "broker.limits"],
  ["AMQP", "broker.amqp"],
  ["Channels", "channels"],
  ["Bridges", "bridges"],
  ["Ingest", "ingest"],
];

const INTRODUCTION = `# Configuration keys

Made from the schema table by \`deno run --allow-write=rfcs src/config/reference_main.ts\`; a test fails when
this page is not what the table says. \`*\` stands for a name you choose. All of them in one file, with
comments: fixtures/annotated.yaml.

A duration is a whole number and one unit of \`ms\`, \`s\`, \`m\`, \`h\`, \`d\`; \`ms\` only where the table
says so. A size is a number of bytes, or one with \`KiB\`, \`MiB\`, \`GiB\`. A path begins with \`/\`. Keys
marked **not built yet** are known and refused by name.
`;

export function writeReference(): string {
  const sections = new Map<string, Key[]>();
  for (const key of SCHEMA) {
    const heading = headingOf(key.path);
    const keys = sections.get(heading);
    if (keys === undefined) sections.set(heading, [key]);
    else keys.push(key);
  }
  let page = INTRODUCTION;
  for (const [heading, keys] of sections) {
    page += `\n## ${heading}\n\n| Key | Takes | Default | Meaning |\n|---|---|---|---|\n`;
    for (const key of keys) page += row(key);
  }
  return page;
}

function headingOf(path: string): string {
  let heading = "Process";
  let longest = 0;
  for (const [name, prefix] of SECTIONS) {
    const inside = path === prefix || path.startsWith(`${prefix}.`);
    if (inside && prefix.length > longest) {
      heading = name;
      longest = prefix.length;
    }
  }
  return heading;
}

function row(key: Key): string {
  const meaning = [key.doc];
  if (key.only !== undefined) meaning.push(`Only with type ${list(key.only)}.`);
  if (isNotBuilt(key.path)) meaning.push("**Not built yet.**");
  const cells = [`\`${key.path}\``, takes(key.kind), defaultOf(key), meaning.join(" ")];
  return `| ${cells.map((cell) => cell.replaceAll("|", "\\|")).join(" | ")} |\n`;
}

/** Whether the key, or a key above it, waits for its room. */
export function isNotBuilt(path: string): boolean {
  return NOT_BUILT.some((above) => path === above || path.startsWith(`${above}.`));
}

function takes(kind: Kind): string {
  switch (kind.of) {
    case "text":
      return "text";
    case "word":
      return kind.words.map((word) => `\`${word}\``).join(", ");
    case "flag":
      return "`true`, `false`";
    case "count":
    case "size":
    case "duration":
      return range(kind) + (kind.of === "duration" && kind.subsecond ? "; `ms` allowed" : "");
    case "path":
      if (kind.none !== undefined) return `path, or none for: ${kind.none}`;
      return kind.abstract ? "path, or `@name`" : "path";
    case "address":
      return "`host:port`";
    case "filter":
      return "topic filter";
    case "provider":
      return "name of a provider";
    case "mode":
      return "octal digits in quotes";
    case "texts":
      return "list of texts";
    case "words":
      return `mapping of names to ${list(kind.words)}`;
    case "block":
      return "keys below";
    case "doors":
      return "one mapping, or a list of named ones";
    case "named":
      return `mapping of ${kind.noun} names${kind.include ? ", or a list with `!include`" : ""}`;
    case "rows":
      return "list of mappings";
  }
}

function defaultOf(key: Key): string {
  if (key.required === true) return "must be written";
  if (key.required !== undefined) return `must be written with type ${list(key.required)}`;
  if (typeof key.default === "string") return `\`${key.default}\``;
  if (key.default !== undefined) return key.default.says;
  return key.kind.of === "block" || key.kind.of === "doors" ? "" : "absent";
}
