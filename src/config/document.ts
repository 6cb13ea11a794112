/**
 * A YAML file as a tree of texts with their places. Nothing is interpreted here: `5`, `true` and `0660`
 * stay what they were written as, and the schema table says what they mean. Whatever would make the
 * tree say something else than the file shows (anchors, aliases, merge keys, tags, several documents)
 * is a finding.
 */
import {
  type Document,
  isAlias,
  isMap,
  isScalar,
  isSeq,
  LineCounter,
  type Node as YamlNode,
  type ParsedNode,
  parseDocument,
  type YAMLMap,
  type YAMLParseError,
} from "yaml";
import type { Place } from "./configuration.ts";
import type { Findings } from "./finding.ts";

/** Largest file that is read; a hundred thousand channels take about half of it. */
export const LARGEST_FILE_BYTES = 16 * 1024 * 1024;

/** No key of the table lies deeper; a file that does is not a configuration. */
const DEEPEST_NESTING = 24;
const TOO_DEEP = "is nested too deeply to be read; no key lies that deep";

/** Lines of one file that are reported as not YAML. */
const MOST_SYNTAX_FAULTS = 10;

export type Node = ScalarNode | MapNode | ListNode | EmptyNode;

export interface ScalarNode {
  readonly form: "scalar";
  readonly place: Place;
  readonly text: string;
  /** Written in quotes or as a block of text: then it is neither a number nor a word like `true`. */
  readonly quoted: boolean;
  /** Tagged `!include`. */
  readonly include: boolean;
}

export interface Entry {
  readonly key: string;
  readonly place: Place;
  readonly value: Node;
}

export interface MapNode {
  readonly form: "map";
  readonly place: Place;
  readonly entries: readonly Entry[];
}

export interface ListNode {
  readonly form: "list";
  readonly place: Place;
  readonly items: readonly Node[];
}

/** A key with nothing after it, or `null`. */
export interface EmptyNode {
  readonly form: "empty";
  readonly place: Place;
}

/**
 * Reads the text of one file. Undefined when it is not YAML at all, which is then a finding; an empty
 * file is an empty node.
 */
export function readDocument(
  bytes: Uint8Array,
  file: string,
  findings: Findings,
): Node | undefined {
  const top: Place = { file, line: 1, column: 1 };
  if (bytes.length > LARGEST_FILE_BYTES) {
    findings.add(top, undefined, `is larger than ${LARGEST_FILE_BYTES / 1024 ** 2}MiB; split it`);
    return undefined;
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch {
    findings.add(top, undefined, "is not UTF-8 text; save it as UTF-8");
    return undefined;
  }
  const lines = new LineCounter();
  let document: Document.Parsed<ParsedNode>;
  try {
    document = parseDocument(text, {
      lineCounter: lines,
      schema: "failsafe",
      uniqueKeys: false,
      logLevel: "error",
      prettyErrors: false,
    });
  } catch (error) {
    // The parser recurses into nested collections; nothing else makes it throw.
    if (!(error instanceof RangeError)) throw error;
    findings.add(top, undefined, TOO_DEEP);
    return undefined;
  }
  const reader = new Reader(file, lines, findings);
  if (document.errors.length > 0) {
    reader.syntax(document.errors);
    return undefined;
  }
  return reader.node(document.contents, top, "", 0);
}

/** What the parser makes of `{filter: a/{b,c}}`; whatever it says after that follows on from it. */
const BRACKET_IN_TEXT = /^Unexpected flow-(map|seq)-start/;

function syntaxFault(code: string, message: string): string {
  if (code === "MULTIPLE_DOCS") {
    return "begins a second document; a configuration is one document, remove the --- line";
  }
  if (code === "TAB_AS_INDENT") return "is indented by a tab; indent with spaces";
  if (BRACKET_IN_TEXT.test(message)) {
    return "has a { or [ in the middle of a text; put the whole text in quotes";
  }
  const sentence = message.split("\n")[0].replace(/:$/, "");
  return `is not YAML: ${sentence}`;
}

class Reader {
  constructor(
    private readonly file: string,
    private readonly lines: LineCounter,
    private readonly findings: Findings,
  ) {}

  place(offset: number): Place {
    const { line, col } = this.lines.linePos(offset);
    return { file: this.file, line: Math.max(line, 1), column: Math.max(col, 1) };
  }

  /** The first fault of each line; what follows on from one is guesswork of the parser. */
  syntax(errors: readonly YAMLParseError[]): void {
    const lines = new Set<number>();
    for (const error of errors) {
      const place = this.place(error.pos[0]);
      if (error.message.includes("call stack")) {
        this.findings.add(place, undefined, TOO_DEEP);
        return;
      }
      if (lines.has(place.line) || lines.size === MOST_SYNTAX_FAULTS) continue;
      lines.add(place.line);
      this.findings.add(place, undefined, syntaxFault(error.code, error.message));
      if (BRACKET_IN_TEXT.test(error.message)) return;
    }
  }

  node(yaml: YamlNode | null, otherwise: Place, path: string, depth: number): Node {
    if (yaml === null) return { form: "empty", place: otherwise };
    const place = yaml.range ? this.place(yaml.range[0]) : otherwise;
    const shown = path === "" ? undefined : path;
    if (depth > DEEPEST_NESTING) {
      this.findings.add(place, shown, "is nested deeper than any key; remove it");
      return { form: "empty", place };
    }
    if (isAlias(yaml)) {
      const says = "is an alias, which is not read here; write the value out";
      this.findings.add(place, shown, says, `*${yaml.source}`);
      return { form: "empty", place };
    }
    if ("anchor" in yaml && yaml.anchor !== undefined) {
      const says = "is an anchor, which is not read here; write each value out where it holds";
      this.findings.add(place, shown, says, `&${yaml.anchor}`);
    }
    const include = yaml.tag === "!include";
    if (yaml.tag !== undefined && !PLAIN_TAGS.has(yaml.tag) && !include) {
      const says = "is a tag, which is not read here; the only one is !include";
      this.findings.add(place, shown, says, yaml.tag);
    }
    if (isMap(yaml)) {
      return { form: "map", place, entries: this.#entries(yaml, place, path, depth) };
    }
    if (isSeq(yaml)) {
      const items = yaml.items.map((item, i) =>
        this.node(item as YamlNode, place, `${path}[${i + 1}]`, depth + 1)
      );
      return { form: "list", place, items };
    }
    if (!isScalar(yaml)) throw new TypeError("a YAML node of an unknown kind");
    const text = String(yaml.value ?? "");
    const quoted = yaml.type !== "PLAIN";
    if (!quoted && !include && (text === "" || text === "~" || text === "null")) {
      return { form: "empty", place };
    }
    if (!text.isWellFormed()) {
      this.findings.add(place, shown, "holds half of a character; write valid Unicode", text);
    }
    return { form: "scalar", place, text, quoted, include };
  }

  #entries(map: YAMLMap, place: Place, path: string, depth: number): readonly Entry[] {
    const entries: Entry[] = [];
    const first = new Map<string, Place>();
    for (const pair of map.items) {
      const yamlKey = pair.key as YamlNode | null;
      const keyPlace = yamlKey?.range ? this.place(yamlKey.range[0]) : place;
      const shown = path === "" ? undefined : path;
      if (!isScalar(yamlKey) || yamlKey.anchor !== undefined || isTagged(yamlKey)) {
        this.findings.add(keyPlace, shown, "has a key that is not a plain name; write a name");
        continue;
      }
      const key = String(yamlKey.value ?? "");
      const below = path === "" ? key : `${path}.${key}`;
      if (key === "<<") {
        const says = "is a merge key, which is not read here; write the keys out";
        this.findings.add(keyPlace, below, says);
        continue;
      }
      if (!key.isWellFormed()) {
        this.findings.add(keyPlace, below, "holds half of a character; write valid Unicode");
        continue;
      }
      const earlier = first.get(key);
      if (earlier !== undefined) {
        const says = `is written twice, first at line ${earlier.line}; keep one of them`;
        this.findings.add(keyPlace, below, says);
        continue;
      }
      first.set(key, keyPlace);
      const value = this.node(pair.value as YamlNode | null, keyPlace, below, depth + 1);
      entries.push({ key, place: keyPlace, value });
    }
    return entries;
  }
}

const PLAIN_TAGS = new Set([
  "tag:yaml.org,2002:str",
  "tag:yaml.org,2002:map",
  "tag:yaml.org,2002:seq",
]);

function isTagged(node: YamlNode): boolean {
  return node.tag !== undefined && !PLAIN_TAGS.has(node.tag);
}
