/** Takes the nodes of a document apart, with a finding for each that has another form than it should. */
import type { Entry, Node, ScalarNode } from "../../config/document.ts";
import type { Findings } from "../../config/finding.ts";
import { list } from "../../config/reading.ts";
import { nearestName } from "../../config/unknown.ts";

/** What a node is, in a sentence about what it should have been. */
function formOf(node: Node): string {
  switch (node.form) {
    case "empty":
      return "has no value";
    case "scalar":
      return node.include ? "is an !include, which only a configuration has" : "is a text";
    case "map":
      return "is a mapping";
    case "list":
      return "is a list";
  }
}

export function refuseForm(node: Node, path: string, wanted: string, findings: Findings): void {
  const key = path === "" ? undefined : path;
  findings.add(node.place, key, `${formOf(node)}; write ${wanted}`);
}

/** The entries of a mapping; undefined, with a finding, for anything else. */
export function entriesOf(
  node: Node,
  path: string,
  wanted: string,
  findings: Findings,
): readonly Entry[] | undefined {
  if (node.form === "map") return node.entries;
  refuseForm(node, path, wanted, findings);
  return undefined;
}

/** The keys of a mapping that are `known`; each other one is a finding. */
export function fieldsOf(
  entries: readonly Entry[],
  path: string,
  known: readonly string[],
  findings: Findings,
): ReadonlyMap<string, Entry> {
  const fields = new Map<string, Entry>();
  for (const entry of entries) {
    if (known.includes(entry.key)) {
      fields.set(entry.key, entry);
      continue;
    }
    const nearest = nearestName(entry.key, known);
    const remedy = nearest === undefined
      ? `the keys are ${known.join(", ")}`
      : `did you mean ${nearest}?`;
    findings.add(entry.place, below(path, entry.key), `is not a key here; ${remedy}`);
  }
  return fields;
}

/** A text; undefined, with a finding, for anything else. */
export function textOf(
  node: Node,
  path: string,
  wanted: string,
  findings: Findings,
): ScalarNode | undefined {
  if (node.form === "scalar" && !node.include) return node;
  refuseForm(node, path, wanted, findings);
  return undefined;
}

/** The texts of a list, in order; what is no text is a finding, and so is a text that stands twice. */
export function textsOf(
  node: Node,
  path: string,
  wanted: string,
  findings: Findings,
): readonly ScalarNode[] | undefined {
  if (node.form !== "list") {
    refuseForm(node, path, wanted, findings);
    return undefined;
  }
  const texts = new Map<string, ScalarNode>();
  for (const item of node.items) {
    const text = textOf(item, path, wanted, findings);
    if (text === undefined) continue;
    if (texts.has(text.text)) {
      findings.add(text.place, path, "stands in the list twice; keep it once", text.text);
    } else texts.set(text.text, text);
  }
  return [...texts.values()];
}

/** `did you mean x?`, or the names there are. */
export function suggestion(name: string, known: readonly string[], noun: string): string {
  const nearest = nearestName(name, known);
  if (nearest !== undefined) return `did you mean ${nearest}?`;
  if (known.length === 0) return `there is no ${noun}`;
  return known.length > MOST_LISTED ? `write one of the ${noun}s` : `write ${list(known)}`;
}

/** Names worth reading in a message. */
const MOST_LISTED = 12;

export function below(path: string, key: string): string {
  return path === "" ? key : `${path}.${key}`;
}
