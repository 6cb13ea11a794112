/** `config`: the configuration as it was resolved at the start, without what any file holds (05 7.2). */
import type { Block, Setting, Settings } from "../../config/settings.ts";
import { DEFAULT_MQTT_ADDRESS } from "../../config/table/doors.ts";
import { SCHEMA_ROOT, type SchemaNode } from "../../config/table/schema.ts";
import { type HttpResponse, jsonResponse, textResponse } from "../http/message.ts";

type Tree = { readonly [key: string]: unknown };

/** Where each `section` is taken from. */
const SECTIONS: ReadonlyMap<string, readonly string[]> = new Map([
  ["bridges", ["bridges"]],
  ["channels", ["channels"]],
  ["limits", ["broker", "limits"]],
  ["listeners", ["broker", "mqtt", "listen"]],
  ["operations", ["broker", "operations"]],
  ["providers", ["broker", "storage", "providers"]],
  ["storage", ["broker", "storage"]],
]);

/** Rendered once: neither a later edit of the file nor a reload changes it. */
export class ConfigRoute {
  readonly #whole: Tree;

  constructor(settings: Settings) {
    this.#whole = withDefaultDoor(blockTree(settings, SCHEMA_ROOT));
  }

  answer(query: URLSearchParams): HttpResponse {
    const names = query.getAll("section");
    if (names.length === 0) return jsonResponse(200, this.#whole);
    const chosen: [string, unknown][] = [];
    for (const name of names) {
      const path = SECTIONS.get(name);
      if (path === undefined) {
        const known = [...SECTIONS.keys()].join(", ");
        return textResponse(400, `there is no such section; the sections are ${known}\n`);
      }
      chosen.push([name, at(this.#whole, path)]);
    }
    return jsonResponse(200, Object.fromEntries(chosen));
  }
}

/** What stands there; an empty mapping where nothing does. */
function at(tree: Tree, path: readonly string[]): unknown {
  let found: unknown = tree;
  for (const key of path) {
    found = Object.hasOwn(found as Tree, key) ? (found as Tree)[key] : {};
  }
  return found;
}

/** Without a door written, one is open all the same. */
function withDefaultDoor(tree: Tree): Tree {
  if (Object.keys(at(tree, ["broker", "mqtt", "listen"]) as Tree).length > 0) return tree;
  const broker = at(tree, ["broker"]) as Tree;
  const mqtt = at(broker, ["mqtt"]) as Tree;
  const listen = { tcp: { address: DEFAULT_MQTT_ADDRESS } };
  return { ...tree, broker: { ...broker, mqtt: { ...mqtt, listen } } };
}

function blockTree(block: Block, schema: SchemaNode): Tree {
  const entries: [string, unknown][] = [];
  for (const [name, child] of schema.children) {
    const setting = block.settings.get(name);
    const under = block.blocks.get(name);
    if (setting !== undefined) entries.push([name, settingTree(setting)]);
    else if (under !== undefined) entries.push([name, blockTree(under, child)]);
    else if (block.lists.has(name)) entries.push([name, listTree(block.list(name), child)]);
  }
  return Object.fromEntries(entries);
}

function listTree(items: readonly Block[], schema: SchemaNode): unknown {
  const kind = schema.key?.kind.of;
  if (kind === "named") {
    const each = schema.children.get("*") ?? schema;
    const isChannels = schema.path === "channels";
    return Object.fromEntries(items.map((item) => {
      const tree = blockTree(item, each);
      return [item.name, isChannels ? { ...tree, configured_in: item.place.file } : tree];
    }));
  }
  if (kind === "doors" && items.length === 1 && items[0].text("name") === undefined) {
    return blockTree(items[0], schema);
  }
  return items.map((item) => blockTree(item, schema));
}

/** Counts and flags as JSON has them; durations and sizes as they are written. */
function settingTree({ key, text, value }: Setting): unknown {
  switch (key.kind.of) {
    case "flag":
    case "texts":
      return value;
    case "count":
      return typeof value === "number" ? value : text;
    case "words": {
      const pairs = (value as readonly string[]).map((pair) => {
        const colon = pair.lastIndexOf(": ");
        return [pair.slice(0, colon), pair.slice(colon + 2)];
      });
      return Object.fromEntries(pairs);
    }
    default:
      return text;
  }
}
