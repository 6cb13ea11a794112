/** The text format of a scrape, version 0.0.4 (05 section 8.1). */

export const CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8";

/** Takes one sample of the family at work; values of labels in the order of the family's names. */
export type Add = (value: number, ...labels: readonly string[]) => void;

/** One metric: its name is permanent, and its labels are. */
export interface Family<From> {
  readonly name: string;
  readonly type: "counter" | "gauge";
  readonly labels: readonly string[];
  readonly help: string;
  /** A family of which nothing is added prints nothing. */
  readonly samples: (from: From, add: Add) => void;
}

/** The lines of one family; empty without a sample. */
export function familyText<From>(family: Family<From>, from: From): string {
  const { name, type, labels, help } = family;
  let lines = "";
  family.samples(from, (value, ...values) => {
    let line = name;
    if (labels.length > 0) {
      const pairs = labels.map((label, i) => `${label}="${escapeLabel(values[i])}"`);
      line += `{${pairs.join(",")}}`;
    }
    lines += `${line} ${numberText(value)}\n`;
  });
  if (lines === "") return "";
  return `# HELP ${name} ${escapeHelp(help)}\n# TYPE ${name} ${type}\n${lines}`;
}

function escapeLabel(value: string): string {
  return /[\\"\n]/.test(value)
    ? value.replace(/[\\"\n]/g, (c) => c === "\n" ? "\\n" : `\\${c}`)
    : value;
}

function escapeHelp(text: string): string {
  return text.replace(/[\\\n]/g, (c) => c === "\n" ? "\\n" : "\\\\");
}

/** JavaScript writes finite numbers as the format reads them, exponents included. */
function numberText(value: number): string {
  if (Number.isFinite(value)) return String(value);
  return Number.isNaN(value) ? "NaN" : value > 0 ? "+Inf" : "-Inf";
}
