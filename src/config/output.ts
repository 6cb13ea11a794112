/**
 * A checked configuration as one document that loads again to the same thing: includes flattened,
 * defaults filled in, filters as written (`--check-config --output`, 02b section 16).
 */
import { plain } from "./finding.ts";
import type { Block, Setting, Settings } from "./settings.ts";
import { SCHEMA_ROOT, type SchemaNode } from "./table/schema.ts";

const INDENT = "  ";

export function writeOut(settings: Settings): string {
  return blockLines(settings, SCHEMA_ROOT).map((line) => `${line}\n`).join("");
}

function blockLines(block: Block, schema: SchemaNode): string[] {
  const lines: string[] = [];
  for (const [name, child] of schema.children) {
    const setting = block.settings.get(name);
    if (setting !== undefined) {
      lines.push(...settingLines(name, setting));
      continue;
    }
    const under = block.blocks.get(name);
    if (under !== undefined) lines.push(...headed(`${name}:`, blockLines(under, child)));
    else if (block.lists.has(name)) lines.push(...listLines(name, block.list(name), child));
  }
  return lines;
}

/** A heading only where something stands under it. */
function headed(heading: string, lines: readonly string[]): string[] {
  return lines.length === 0 ? [] : [heading, ...lines.map((line) => INDENT + line)];
}

function listLines(name: string, items: readonly Block[], schema: SchemaNode): string[] {
  const kind = schema.key?.kind.of;
  if (kind === "named") {
    const each = schema.children.get("*") ?? schema;
    return headed(
      `${name}:`,
      items.flatMap((item) => [
        `# from ${plain(item.place.file)}`,
        `${key(item.name)}:`,
        ...blockLines(item, each).map((line) => INDENT + line),
      ]),
    );
  }
  if (kind === "doors" && items.length === 1 && items[0].text("name") === undefined) {
    return headed(`${name}:`, blockLines(items[0], schema));
  }
  return headed(
    `${name}:`,
    items.flatMap((item) =>
      blockLines(item, schema).map((line, i) => `${i === 0 ? "- " : INDENT}${line}`)
    ),
  );
}

function settingLines(name: string, setting: Setting): string[] {
  const { kind } = setting.key;
  const texts = Array.isArray(setting.value) ? setting.value : [];
  switch (kind.of) {
    case "texts":
      return [`${name}: [${texts.map(scalar).join(", ")}]`];
    case "words":
      return headed(
        `${name}:`,
        texts.map((text) => {
          const colon = text.lastIndexOf(": ");
          return `${key(text.slice(0, colon))}: ${text.slice(colon + 2)}`;
        }),
      );
    case "mode":
      return [`${name}: ${quote(setting.text)}`];
    case "flag":
    case "count":
    case "size":
    case "duration":
      return [`${name}: ${setting.text}`];
    default:
      return [`${name}: ${scalar(setting.text)}`];
  }
}

function key(name: string): string {
  return /^[A-Za-z0-9_][A-Za-z0-9_.-]*$/.test(name) && name !== "null" ? name : quote(name);
}

/** Without quotes where every reader of YAML sees the same text. */
function scalar(text: string): string {
  return /^[A-Za-z0-9_/.][A-Za-z0-9_/.+-]*$/.test(text) && text !== "null" ? text : quote(text);
}

function quote(text: string): string {
  return JSON.stringify(text).replace(
    /[\x7f-\x9f\u2028\u2029\ufeff]/g,
    (c) => `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
