/** Writes a configuration around one key of the schema table, so that every row can be tried. */
import { SCHEMA_ROOT, type SchemaNode } from "../../src/config/table/schema.ts";
import type { Key } from "../../src/config/table/key.ts";
import type { Block, Setting, Settings } from "../../src/config/settings.ts";

/** A document as nested maps; texts are YAML as written. */
interface Tree extends Map<string, Tree | readonly Tree[] | string> {}

/** Keys that a rule ties to the one under test, which are then written with it. */
const BESIDE: Readonly<Record<string, Readonly<Record<string, string>>>> = {
  "broker.storage.providers.*.publish_commit_interval": { publish_commit_max_records: "2" },
  "broker.storage.providers.*.publish_commit_max_records": { publish_commit_interval: "2ms" },
  "channels.*.retry.backoff": { backoff_base: "1s" },
  "channels.*.retry.backoff_base": { backoff: "linear" },
  "bridges.*.cert_file": { key_file: "/x" },
  "bridges.*.key_file": { cert_file: "/x" },
};
for (
  const door of ["broker.mqtt.listen.tcp", "broker.mqtt.listen.ws", "broker.operations.listen.tcp"]
) {
  Object.assign(BESIDE, {
    [`${door}.tls.require_certificate`]: { client_ca_file: "/ca" },
    [`${door}.allow_anonymous`]: { password_file: "/p" },
  });
}
Object.assign(BESIDE, {
  "broker.amqp.listen.tcp.tls.require_certificate": { client_ca_file: "/ca" },
  "broker.amqp.listen.tcp.allow_anonymous": { password_file: "/p" },
  "broker.mqtt.listen.unix.allow_anonymous": { password_file: "/p" },
  "broker.mqtt.allow_anonymous": { password_file: "/p" },
  "broker.mqtt.acl_file": { password_file: "/p" },
});

/** The sample of a kind that any check lets pass. */
function sample(key: Key): string {
  const { kind } = key;
  switch (kind.of) {
    case "text":
      return key.path.endsWith(".peer") ? "tls://peer.example:8883" : "sample";
    case "word":
      return kind.words[0];
    case "flag":
      return "true";
    case "count":
      return String(kind.min);
    case "size":
      return "1GiB";
    case "duration":
      return "1s";
    case "path":
      return `/samples/${key.path}`;
    case "address":
      return "127.0.0.1:0";
    case "filter":
      return "sample/#";
    case "provider":
      return "sqlite";
    case "mode":
      return '"0600"';
    case "texts":
      return '["https://a.example"]';
    case "words":
      return `{sample: ${kind.words[0]}}`;
    default:
      throw new TypeError(`${key.path} has no single sample`);
  }
}

/** Which `type` the named thing around a key has, when the key needs one. */
function typeFor(key: Key): string {
  if (key.only !== undefined) return key.only[0];
  if (key.path.startsWith("channels.*.retry")) return "queue";
  return key.path.startsWith("channels") ? "append" : "sqlite";
}

/**
 * A document in which `key` is written as `text`, or not at all; everything else that must be there is.
 * `type` is that of the named thing around it.
 */
export function documentWith(
  key: Key,
  text: string | undefined,
  type = typeFor(key),
  beside: Readonly<Record<string, string>> = BESIDE[key.path] ?? {},
): string {
  const root: Tree = new Map();
  require(root, SCHEMA_ROOT, type, key.path);
  const segments = key.path.split(".");
  const last = segments.pop()!;
  let tree = root;
  let node = SCHEMA_ROOT;
  for (const segment of segments) {
    const name = segment === "*" ? type : segment;
    node = node.children.get(segment)!;
    let under = tree.get(name);
    if (under === undefined || typeof under === "string") {
      under = new Map() as Tree;
      require(under, node, type, key.path);
      tree.set(name, node.key?.kind.of === "rows" ? [under] : under);
    }
    tree = Array.isArray(under) ? under[0] : under as Tree;
  }
  if (text === undefined) tree.delete(last);
  else {
    tree.set(last, text);
    for (const [name, value] of Object.entries(beside)) tree.set(name, value);
  }
  return write(root, 0);
}

/** Adds what must stand under `node`. */
function require(tree: Tree, node: SchemaNode, type: string, target: string): void {
  for (const [name, child] of node.children) {
    if (name === "*") continue;
    const { key } = child;
    if (key === undefined) continue;
    if (key.path === "broker" || key.path === "broker.storage") {
      const under: Tree = new Map();
      require(under, child, type, target);
      tree.set(name, under);
    } else if (key.path === "broker.storage.providers") {
      tree.set(name, providers(type));
    } else if (key.path.endsWith(".type")) tree.set(name, type);
    else if (key.kind.of === "rows") {
      if (key.required === true) {
        const row: Tree = new Map();
        require(row, child, type, target);
        tree.set(name, [row]);
      }
    } else if (key.required === true || key.required?.includes(type)) {
      tree.set(name, sample(key));
    }
  }
  // Blocks that open something must say what.
  if (["broker.amqp", "broker.operations"].includes(node.path)) {
    const address = new Map([["address", "127.0.0.1:0"]]) as Tree;
    tree.set("listen", new Map([["tcp", address]]) as Tree);
  }
}

function providers(type: string): Tree {
  const trees: Tree = new Map();
  trees.set("sqlite", new Map([["type", "sqlite"], ["file_path", "/data/s.db"]]) as Tree);
  if (type === "memory") {
    trees.set("memory", new Map([["type", "memory"], ["snapshot_dir", "none"]]) as Tree);
  }
  return trees;
}

function write(tree: Tree, depth: number): string {
  let text = "";
  const indent = "  ".repeat(depth);
  for (const [name, value] of tree) {
    if (typeof value === "string") text += `${indent}${name}: ${value}\n`;
    else if (value instanceof Map) text += `${indent}${name}:\n${write(value, depth + 1)}`;
    else {
      text += `${indent}${name}:\n`;
      for (const item of value as readonly Tree[]) {
        const lines = write(item, depth + 2);
        text += `${indent}  - ${lines.trimStart()}`;
      }
    }
  }
  return text;
}

/** The setting that `documentWith` wrote, or that the table filled in for it. */
export function settingOf(settings: Settings, key: Key, type = typeFor(key)): Setting | undefined {
  const segments = key.path.split(".");
  const last = segments.pop()!;
  let block: Block | undefined = settings;
  let list: readonly Block[] | undefined;
  for (const segment of segments) {
    if (segment === "*") {
      block = list?.find(({ name }) => name === type);
      list = undefined;
      continue;
    }
    if (list !== undefined) {
      block = list[0];
      list = undefined;
    }
    list = block?.lists.get(segment);
    if (list === undefined) block = block?.blocks.get(segment);
  }
  if (list !== undefined) block = list[0];
  return block?.settings.get(last);
}
