import type { Place } from "./configuration.ts";

/** Longest value quoted in a message, in UTF-16 code units: it only has to be recognised. */
const LONGEST_QUOTE = 120;

/** One thing that is wrong with a configuration. */
export interface Finding {
  readonly place: Place;
  /** The full path of the key; undefined where the file is not readable as keys at all. */
  readonly key: string | undefined;
  /** As written, where a value is at fault. */
  readonly value?: string;
  /** What is wrong and what to write: the end of a sentence that begins with the key and value. */
  readonly message: string;
}

/** Collects every finding of one load. */
export class Findings {
  readonly #found: Finding[] = [];

  add(place: Place, key: string | undefined, message: string, value?: string): void {
    this.#found.push({ place, key, value, message });
  }

  get empty(): boolean {
    return this.#found.length === 0;
  }

  /**
   * The report (spec README, "layout of configuration findings"): a header, then each file with its
   * findings by line, the main file first and the others in the order of their first finding.
   */
  report(mainFile: string): string {
    const files = new Map<string, Finding[]>([[mainFile, []]]);
    for (const finding of this.#found) {
      const of = files.get(finding.place.file);
      if (of === undefined) files.set(finding.place.file, [finding]);
      else of.push(finding);
    }
    let text = "configuration is invalid:\n";
    for (const [file, found] of files) {
      if (found.length === 0) continue;
      text += `${plain(file)}:\n`;
      found.sort((a, b) => a.place.line - b.place.line || a.place.column - b.place.column);
      for (const finding of found) text += `  - ${sentence(finding)}\n`;
    }
    return text;
  }
}

function sentence(finding: Finding): string {
  const { place, key, value, message } = finding;
  const parts = place.line === 0 ? [] : [`${place.line}:${place.column}`];
  if (key !== undefined) parts.push(plain(key));
  if (value !== undefined) parts.push(quoted(value));
  parts.push(message);
  return parts.join(" ");
}

/** In double quotes, control characters escaped, cut where nobody reads on. */
export function quoted(text: string): string {
  const shown = text.length > LONGEST_QUOTE
    ? `${text.slice(0, LONGEST_QUOTE).toWellFormed()}...`
    : text;
  return `"${plain(shown)}"`;
}

/** Without anything that a terminal acts on. */
export function plain(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x1f\x7f-\x9f\u2028\u2029]/g, (c) => {
    if (c === "\n") return "\\n";
    if (c === "\t") return "\\t";
    return `\\u${c.charCodeAt(0).toString(16).padStart(4, "0")}`;
  });
}

/** `the place` as it stands in a sentence about another one: file and line. */
export function at(place: Place): string {
  return `${plain(place.file)}:${place.line}`;
}
