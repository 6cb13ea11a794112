/** The one table of configuration keys, in the order of the reference and of `--output`. */
import { BRIDGE_KEYS } from "./bridges.ts";
import { CHANNEL_KEYS } from "./channels.ts";
import { DOOR_KEYS } from "./doors.ts";
import { EXTENSION_KEYS } from "./extensions.ts";
import type { Key } from "./key.ts";
import { LIMIT_KEYS } from "./limits.ts";
import { PROCESS_KEYS } from "./process.ts";
import { STORAGE_KEYS } from "./storage.ts";

export const SCHEMA: readonly Key[] = [
  ...PROCESS_KEYS,
  ...DOOR_KEYS,
  ...STORAGE_KEYS,
  ...LIMIT_KEYS,
  ...CHANNEL_KEYS,
  ...BRIDGE_KEYS,
  ...EXTENSION_KEYS,
];

/** The table as a tree: what may stand under a key. */
export interface SchemaNode {
  /** Undefined for the root and for `*`, which no row describes. */
  readonly key: Key | undefined;
  readonly path: string;
  readonly children: ReadonlyMap<string, SchemaNode>;
}

interface GrowingNode extends SchemaNode {
  key: Key | undefined;
  readonly children: Map<string, GrowingNode>;
}

function grow(keys: readonly Key[]): SchemaNode {
  const root: GrowingNode = { key: undefined, path: "", children: new Map() };
  for (const key of keys) {
    let node = root;
    for (const segment of key.path.split(".")) {
      let child = node.children.get(segment);
      if (child === undefined) {
        const path = node.path === "" ? segment : `${node.path}.${segment}`;
        child = { key: undefined, path, children: new Map() };
        node.children.set(segment, child);
      }
      node = child;
    }
    if (node.key !== undefined) throw new TypeError(`${key.path} stands twice in the table`);
    node.key = key;
  }
  return root;
}

export const SCHEMA_ROOT: SchemaNode = grow(SCHEMA);
