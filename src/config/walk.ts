/** Reads a document against the schema table: every key known, in its place, of its kind. */
import { readNamedFile } from "../platform/files.ts";
import { errorText } from "../platform/log.ts";
import type { Place } from "./configuration.ts";
import type { Entry, MapNode, Node, ScalarNode } from "./document.ts";
import { readDocument } from "./document.ts";
import { at, type Findings } from "./finding.ts";
import { isScalarKind, list, read, wanted } from "./reading.ts";
import { Block, Settings } from "./settings.ts";
import { NOT_BUILT } from "./table/built.ts";
import type { Key, Kind, Value } from "./table/key.ts";
import { REFUSED_KEYS } from "./table/refused.ts";
import { SCHEMA_ROOT, type SchemaNode } from "./table/schema.ts";
import { meantKey, unknownKey } from "./unknown.ts";

/** What loading asks of the world around it. */
export interface Surroundings {
  /** The bytes of a file. @throws whatever the system says */
  readonly readFile: (path: string) => Uint8Array;
  /** What this version does not do; the tests of rooms to come pass less. */
  readonly notBuilt: readonly string[];
  /** Bytes of a database file that holds nothing yet, against which `max_bytes` is checked (S92). */
  readonly emptyDatabaseBytes: number;
}

/** The command line puts the measured size of an empty database in place of the published one. */
export const REAL_SURROUNDINGS: Surroundings = {
  readFile: (path) => readNamedFile(path),
  notBuilt: NOT_BUILT,
  emptyDatabaseBytes: 22 * 4096,
};

const REFUSED: ReadonlyMap<string, string> = new Map(
  REFUSED_KEYS.map(({ path, says }) => [path, says]),
);

/** Reads the root of the main file. */
export function walk(root: Node, findings: Findings, surroundings: Surroundings): Settings {
  const settings = new Settings("", { ...root.place, line: 1, column: 1 });
  const walker = new Walker(settings, findings, surroundings);
  if (root.form !== "map" && root.form !== "empty") {
    findings.add(root.place, undefined, "is not a mapping of keys; write broker: first");
    return settings;
  }
  walker.fill(settings, SCHEMA_ROOT, root.form === "map" ? root.entries : []);
  walker.finish();
  return settings;
}

class Walker {
  readonly #notBuilt: ReadonlySet<string>;
  readonly #derived: {
    readonly block: Block;
    readonly name: string;
    readonly key: Key;
    readonly path: string;
  }[] = [];

  constructor(
    private readonly root: Settings,
    private readonly findings: Findings,
    private readonly surroundings: Surroundings,
  ) {
    this.#notBuilt = new Set(surroundings.notBuilt);
  }

  /** Fills `block` from the entries of its mapping, then with what the table adds. */
  fill(block: Block, schema: SchemaNode, entries: readonly Entry[]): void {
    const written = new Map(entries.map((entry) => [entry.key, entry]));
    // The type comes first: it decides which of the other keys may stand here.
    for (const entry of entries) {
      if (entry.key === "type") this.#entry(block, schema, entry);
    }
    const type = block.text("type");
    for (const entry of entries) {
      if (entry.key !== "type") this.#entry(block, schema, entry, type);
    }
    for (const [name, child] of schema.children) {
      if (!written.has(name)) this.#absent(block, name, child, type);
    }
  }

  #entry(block: Block, schema: SchemaNode, entry: Entry, type?: string): void {
    const path = below(block, entry.key);
    const child = entry.key === "*" ? undefined : schema.children.get(entry.key);
    if (child?.key === undefined) {
      block.refuse(entry.key);
      const meant = meantKey(entry.key, schema);
      // Whose absence is then no finding of its own.
      if (meant !== undefined) block.refuse(meant);
      const full = schema.path === "" ? entry.key : `${schema.path}.${entry.key}`;
      this.findings.add(entry.place, path, REFUSED.get(full) ?? unknownKey(entry.key, schema));
      return;
    }
    const { key } = child;
    if (this.#notBuilt.has(key.path)) {
      block.refuse(entry.key);
      this.findings.add(entry.place, path, "is not built yet; remove it");
      return;
    }
    if (key.only !== undefined && (type === undefined || !key.only.includes(type))) {
      block.refuse(entry.key);
      if (type !== undefined) this.findings.add(entry.place, path, misplaced(key, type));
      return;
    }
    if (entry.value.form === "scalar" && entry.value.include && !takesInclude(key.kind)) {
      block.refuse(entry.key);
      this.#refuseInclude(entry.value, path);
      return;
    }
    if (isScalarKind(key.kind)) this.#scalar(block, entry.key, key, entry.value, path);
    else this.#collection(block, entry, child, key, path);
  }

  #scalar(block: Block, name: string, key: Key, node: Node, path: string): void {
    if (node.form !== "scalar") {
      block.refuse(name);
      const says = node.form === "empty"
        ? `has no value; write ${wanted(key.kind)}${key.required ? "" : ", or leave it out"}`
        : `is a ${node.form === "map" ? "mapping" : "list"}; write ${wanted(key.kind)}`;
      this.findings.add(node.place, path, says);
      return;
    }
    const reading = read(key, node);
    if ("fault" in reading) {
      block.refuse(name);
      this.findings.add(node.place, path, reading.fault, node.text);
      return;
    }
    this.#set(block, name, key, path, node.place, node.text, reading.value, true);
  }

  #set(
    block: Block,
    name: string,
    key: Key,
    path: string,
    place: Place,
    text: string,
    value: Value,
    written: boolean,
  ): void {
    block.settings.set(name, { key, path, place, text, value, written });
  }

  #collection(block: Block, entry: Entry, schema: SchemaNode, key: Key, path: string): void {
    const { kind } = key;
    const node = entry.value;
    if (!isOfForm(kind, node)) block.refuse(entry.key);
    switch (kind.of) {
      case "block":
        block.blocks.set(entry.key, this.#block(key, node, path, schema, entry.place));
        return;
      case "doors":
        block.lists.set(entry.key, this.#doors(key, node, path, schema, entry.place));
        return;
      case "rows":
        block.lists.set(entry.key, this.#rows(key, node, path, schema, entry.place));
        return;
      case "named":
        block.lists.set(entry.key, this.#named(kind, node, path, schema, entry.place));
        return;
      case "texts":
        this.#texts(block, entry, key, kind, path);
        return;
      case "words":
        this.#words(block, entry, key, kind, path);
        return;
      default:
        throw new TypeError(`${key.path} is not a collection`);
    }
  }

  #block(key: Key, node: Node, path: string, schema: SchemaNode, place: Place): Block {
    const block = new Block(path, place);
    if (node.form === "map") this.fill(block, schema, node.entries);
    else if (node.form === "empty") this.fill(block, schema, []);
    else {
      block.refuse("*");
      this.#wrongForm(key, node, path);
    }
    return block;
  }

  #wrongForm(key: Key, node: Node, path: string): void {
    const remedy = `write ${wanted(key.kind)}`;
    const why = key.why === undefined ? "" : `: ${key.why}`;
    if (node.form === "scalar") {
      const says = `is a single value${why}; ${remedy}`;
      this.findings.add(node.place, path, says, node.text);
      return;
    }
    const form = node.form === "map" ? "a mapping" : node.form === "list" ? "a list" : "empty";
    this.findings.add(node.place, path, `is ${form}${why}; ${remedy}`);
  }

  /** One door is named after its kind; of several, each has a name of its own. */
  #doors(key: Key, node: Node, path: string, schema: SchemaNode, place: Place): Block[] {
    if (node.form !== "list") {
      return [this.#block(key, node, doorPath(path, node, undefined), schema, place)];
    }
    if (node.items.length === 0) {
      this.findings.add(node.place, path, `is an empty list; write ${wanted(key.kind)}`);
    }
    return node.items.map((item, i) => {
      const otherwise = node.items.length > 1 ? `#${i + 1}` : undefined;
      return this.#block(key, item, doorPath(path, item, otherwise), schema, item.place);
    });
  }

  #rows(key: Key, node: Node, path: string, schema: SchemaNode, place: Place): Block[] {
    if (node.form !== "list" || node.items.length === 0) {
      if (node.form === "list" || node.form === "empty") {
        this.findings.add(place, path, `is empty; write ${wanted(key.kind)}`);
      } else this.#wrongForm(key, node, path);
      return [];
    }
    const short = key.kind.of === "rows" ? key.kind.short : undefined;
    return node.items.map((item, i) => {
      const itemPath = `${path}[${i + 1}]`;
      if (item.form !== "scalar" || item.include || short === undefined) {
        return this.#block({ ...key, kind: { of: "block" } }, item, itemPath, schema, item.place);
      }
      const block = new Block(itemPath, item.place);
      const entries = short(item.text).map(([name, text]): Entry => ({
        key: name,
        place: item.place,
        value: { form: "scalar", place: item.place, text, quoted: item.quoted, include: false },
      }));
      this.fill(block, schema, entries);
      return block;
    });
  }

  /** A mapping of names, or where the table allows it a list of mappings and `!include`. */
  #named(
    kind: Extract<Kind, { of: "named" }>,
    node: Node,
    path: string,
    schema: SchemaNode,
    place: Place,
  ): Block[] {
    const groups: MapNode[] = [];
    if (node.form === "map") groups.push(node);
    else if (node.form === "list" && kind.include) {
      for (const item of node.items) {
        const group = item.form === "scalar" && item.include
          ? this.#include(item, path, kind.noun)
          : item;
        if (group === undefined) continue;
        if (group.form === "map") groups.push(group);
        else this.#notAGroup(group, path, kind.noun);
      }
    } else if (node.form === "scalar" && node.include) {
      const says = "stands alone; write it as an item of a list, after a dash";
      this.findings.add(node.place, path, says, `!include ${node.text}`);
    } else if (node.form !== "empty") {
      const as = node.form === "list" ? "a list" : "a single value";
      this.findings.add(node.place, path, `is ${as}; write a mapping of ${kind.noun} names`);
    }
    const named = new Map<string, Block>();
    for (const group of groups) {
      for (const entry of group.entries) {
        const earlier = named.get(entry.key);
        const itemPath = `${path}.${entry.key}`;
        if (earlier !== undefined) {
          const says = `is written in two places, the other is ${at(earlier.place)}; ` +
            `rename or remove one of the two`;
          this.findings.add(entry.place, itemPath, says);
          continue;
        }
        named.set(entry.key, this.#namedThing(kind, entry, itemPath, schema));
      }
    }
    const told = groups.length === 0 && node.form !== "empty" &&
      !(node.form === "list" && node.items.length === 0);
    if (named.size === 0 && kind.noun === "provider" && !told) {
      this.findings.add(place, path, `names no ${kind.noun}; write at least one`);
    }
    return [...named.values()];
  }

  #namedThing(
    kind: Extract<Kind, { of: "named" }>,
    entry: Entry,
    path: string,
    schema: SchemaNode,
  ): Block {
    const block = new Block(path, entry.place, entry.key);
    const each = schema.children.get("*") ?? schema;
    const { value } = entry;
    if (value.form === "map") this.fill(block, each, value.entries);
    else if (value.form === "scalar" && value.include) this.#refuseInclude(value, path);
    else if (value.form === "empty") this.fill(block, each, []);
    else {
      const text = value.form === "scalar" ? value.text : undefined;
      const says = `is not a mapping; write the keys of this ${kind.noun} under it`;
      this.findings.add(value.place, path, says, text);
    }
    return block;
  }

  /** The mapping of an included file; whatever else it holds is a finding of that file. */
  #include(item: ScalarNode, path: string, noun: string): Node | undefined {
    const directory = item.place.file.replace(/[^/]*$/, "");
    const file = item.text.startsWith("/") ? item.text : directory + item.text;
    if (/[*?]/.test(item.text)) {
      const says = "is a pattern; name each file on a line of its own";
      this.findings.add(item.place, path, says, `!include ${item.text}`);
      return undefined;
    }
    let bytes: Uint8Array;
    try {
      bytes = this.surroundings.readFile(file);
    } catch (error) {
      const says = `cannot be read: ${reason(error)}; the path starts from the including file`;
      this.findings.add(item.place, path, says, `!include ${item.text}`);
      return undefined;
    }
    const node = readDocument(bytes, file, this.findings);
    if (node?.form === "map" || node === undefined) return node;
    if (node.form === "list" && node.items.some((it) => it.form === "scalar" && it.include)) {
      const nested = node.items.find((it) => it.form === "scalar" && it.include)!;
      this.findings.add(nested.place, path, NESTED);
      return undefined;
    }
    const says = `holds no mapping; write ${noun} names and their keys, without a heading`;
    this.findings.add(node.place, undefined, says);
    return undefined;
  }

  #notAGroup(node: Node, path: string, noun: string): void {
    const says = `has an item that is neither !include nor a mapping; write ${noun} names`;
    this.findings.add(node.place, path, says, node.form === "scalar" ? node.text : undefined);
  }

  #refuseInclude(node: ScalarNode, path: string): void {
    const says = path.startsWith("channels.") || path.startsWith("broker.storage.providers.")
      ? NESTED
      : "cannot be included; only items of a list under channels or broker.storage.providers can";
    this.findings.add(node.place, path, says, `!include ${node.text}`);
  }

  #texts(
    block: Block,
    entry: Entry,
    key: Key,
    kind: Extract<Kind, { of: "texts" }>,
    path: string,
  ): void {
    const node = entry.value;
    if (node.form !== "list") {
      block.refuse(entry.key);
      this.#wrongForm(key, node, path);
      return;
    }
    const texts: string[] = [];
    for (const item of node.items) {
      const fault = item.form === "scalar" ? kind.fault?.(item.text) : "is not a text; write one";
      if (item.form === "scalar" && fault === undefined) texts.push(item.text);
      else {
        block.refuse(entry.key);
        const text = item.form === "scalar" ? item.text : undefined;
        this.findings.add(item.place, path, fault!, text);
      }
    }
    if (block.refused(entry.key)) return;
    this.#set(block, entry.key, key, path, node.place, texts.join(", "), texts, true);
  }

  /** A mapping of free names to words, kept as `name: word` texts. */
  #words(
    block: Block,
    entry: Entry,
    key: Key,
    kind: Extract<Kind, { of: "words" }>,
    path: string,
  ): void {
    const node = entry.value;
    if (node.form !== "map") {
      block.refuse(entry.key);
      this.#wrongForm(key, node, path);
      return;
    }
    const texts: string[] = [];
    for (const { key: name, value } of node.entries) {
      if (value.form === "scalar" && kind.words.includes(value.text)) {
        texts.push(`${name}: ${value.text}`);
        continue;
      }
      block.refuse(entry.key);
      const text = value.form === "scalar" ? value.text : undefined;
      const says = `is not ${kind.noun}; write ${list(kind.words)}`;
      this.findings.add(value.place, `${path}.${name}`, says, text);
    }
    if (block.refused(entry.key)) return;
    this.#set(block, entry.key, key, path, node.place, texts.join(", "), texts, true);
  }

  /** A key that is not written: a finding if it must be, else what the table fills in. */
  #absent(block: Block, name: string, schema: SchemaNode, type: string | undefined): void {
    const { key } = schema;
    if (key === undefined || this.#notBuilt.has(key.path)) return;
    if (key.only !== undefined && (type === undefined || !key.only.includes(type))) return;
    const path = below(block, name);
    const { required } = key;
    if (required === true || (type !== undefined && required?.includes(type))) {
      if (block.refused(name)) return;
      const of = required === true ? "" : `, and type ${type} needs it`;
      this.findings.add(block.place, path, `is missing${of}; write ${wanted(key.kind)}`);
      block.refuse(name);
      return;
    }
    if (key.kind.of === "block") {
      if (key.kind.optional) return;
      const empty = new Block(path, block.place, "", false);
      block.blocks.set(name, empty);
      this.fill(empty, schema, []);
      return;
    }
    if (typeof key.default === "string") this.#fillIn(block, name, key, path, key.default);
    else if (key.default?.of !== undefined) this.#derived.push({ block, name, key, path });
  }

  /** Fills in the defaults that depend on other keys, once all of those are known. */
  finish(): void {
    for (const { block, name, key, path } of this.#derived) {
      if (typeof key.default !== "object") continue;
      const text = key.default.of?.(
        (near) => block.value(near),
        (full) => this.root.at(full)?.value,
        block.name,
      );
      if (text !== undefined) this.#fillIn(block, name, key, path, text);
    }
  }

  #fillIn(block: Block, name: string, key: Key, path: string, text: string): void {
    const reading = read(key, { text, quoted: key.kind.of === "mode" });
    if ("fault" in reading) throw new TypeError(`the default of ${key.path} ${reading.fault}`);
    this.#set(block, name, key, path, block.place, text, reading.value, false);
  }
}

const NESTED = "includes from inside an include; an included file holds names and their keys only";

/** `limits.<key>` for the limits, the whole path for everything else. */
function below(block: Block, key: string): string {
  if (block.path === "") return key;
  return block.path === "broker.limits" ? `limits.${key}` : `${block.path}.${key}`;
}

/** `broker.mqtt.listen.tcp` for a door named after its kind, else with its name in brackets. */
function doorPath(path: string, door: Node, otherwise: string | undefined): string {
  const entry = door.form === "map" ? door.entries.find(({ key }) => key === "name") : undefined;
  const name = entry?.value.form === "scalar" ? entry.value.text : otherwise;
  return name === undefined || name === "" || path.endsWith(`.${name}`) ? path : `${path}[${name}]`;
}

/** Whether a collection can be read from `node` at all; what is wrong with it is found on the way. */
function isOfForm(kind: Kind, node: Node): boolean {
  switch (kind.of) {
    case "block":
      return node.form === "map" || node.form === "empty";
    case "doors":
    case "named":
      return node.form !== "scalar" && !(node.form === "list" && node.items.length === 0);
    default:
      return true;
  }
}

function takesInclude(kind: Kind): boolean {
  return kind.of === "named";
}

function misplaced(key: Key, type: string): string {
  return `does not go with type ${type}, only with ${list(key.only ?? [])}; remove it`;
}

/** What the system said, without its code in brackets. */
export function reason(error: unknown): string {
  return errorText(error).replace(/ \(os error \d+\).*$/s, "");
}

/** What is said of a file that is named and cannot be read. */
export function unreadable(error: unknown): string {
  const help = error instanceof Deno.errors.PermissionDenied
    ? "let the user that runs the broker read it"
    : "name a readable file";
  return `cannot be read: ${reason(error)}; ${help}`;
}
