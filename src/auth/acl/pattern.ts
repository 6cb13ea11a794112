/** Patterns over names, where `*` is any run of characters, none included (02b 7.4). */

/** Longest pattern, in UTF-16 code units: far above any naming scheme. */
export const LONGEST_PATTERN = 1_024;

export class Pattern {
  /** What stands between the stars, the ends included; one piece is a plain name. */
  readonly #pieces: readonly string[];
  /** Characters that are not stars: of two patterns that match, the one with more is in force. */
  readonly literals: number;

  constructor(readonly text: string) {
    this.#pieces = text.split("*");
    this.literals = this.#pieces.reduce((sum, piece) => sum + [...piece].length, 0);
  }

  get exact(): boolean {
    return this.#pieces.length === 1;
  }

  /** The pattern without its stars: the only name of `literals` characters that it can match. */
  get shortest(): string {
    return this.#pieces.join("");
  }

  /** What stands before the first star. */
  get beginning(): string {
    return this.#pieces[0];
  }

  /** What stands behind the last star. */
  get end(): string {
    return this.#pieces[this.#pieces.length - 1];
  }

  matches(name: string): boolean {
    const pieces = this.#pieces;
    if (pieces.length === 1) return name === this.text;
    const { beginning, end } = this;
    if (name.length < beginning.length + end.length) return false;
    if (!name.startsWith(beginning) || !name.endsWith(end)) return false;
    // Each piece at its first place leaves the most room for those behind it.
    let at = beginning.length;
    const last = name.length - end.length;
    for (let i = 1; i < pieces.length - 1; i++) {
      const found = name.indexOf(pieces[i], at);
      if (found < 0 || found + pieces[i].length > last) return false;
      at = found + pieces[i].length;
    }
    return true;
  }
}

/** Two patterns that some name matches both, and neither of which is the more literal. */
export interface Tie {
  readonly first: Pattern;
  readonly second: Pattern;
}

/**
 * The ties among `patterns` (02b 7.2), whose texts differ: at most one for each pattern, with an earlier
 * one in the order given. Grows with the number of patterns and of those that begin alike.
 */
export function ties(patterns: readonly Pattern[]): Tie[] {
  const order = new Map(patterns.map((pattern, i) => [pattern, i]));
  const byLiterals = new Map<number, Pattern[]>();
  for (const pattern of patterns) {
    const group = byLiterals.get(pattern.literals);
    if (group === undefined) byLiterals.set(pattern.literals, [pattern]);
    else group.push(pattern);
  }
  const found = new Map<Pattern, Pattern>();
  const note = (a: Pattern, b: Pattern) => {
    const [first, second] = order.get(a)! < order.get(b)! ? [a, b] : [b, a];
    if (!found.has(second)) found.set(second, first);
  };
  for (const group of byLiterals.values()) {
    const exact = new Map(group.filter((one) => one.exact).map((one) => [one.text, one]));
    const open = group.filter((one) => !one.exact);
    for (const pattern of open) {
      const name = exact.get(pattern.shortest);
      if (name !== undefined) note(name, pattern);
    }
    // One beginning continues the other where some name has both: such patterns are neighbours.
    open.sort((a, b) => a.beginning < b.beginning ? -1 : a.beginning > b.beginning ? 1 : 0);
    for (let i = 0; i < open.length; i++) {
      for (let j = i + 1; j < open.length; j++) {
        if (!open[j].beginning.startsWith(open[i].beginning)) break;
        if (endAlike(open[i], open[j])) note(open[i], open[j]);
      }
    }
  }
  return [...found]
    .map(([second, first]) => ({ first, second }))
    .sort((a, b) => order.get(a.second)! - order.get(b.second)!);
}

/** Stars take up whatever stands between, so beyond the beginnings only the ends decide. */
function endAlike(a: Pattern, b: Pattern): boolean {
  return a.end.endsWith(b.end) || b.end.endsWith(a.end);
}
