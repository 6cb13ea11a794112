/** What to say of a key that nobody knows where it stands. */
import { list } from "./reading.ts";
import { SCHEMA, type SchemaNode } from "./table/schema.ts";

/** Names the known key that was meant, the place where the key belongs, or the keys of this place. */
export function unknownKey(key: string, schema: SchemaNode): string {
  const known = knownKeys(schema);
  const nearest = meantKey(key, schema);
  if (nearest !== undefined) return `is not a key here; did you mean ${nearest}?`;
  const elsewhere = SCHEMA.filter(({ path }) => path.endsWith(`.${key}`)).map(({ path }) => path);
  if (elsewhere.length > 0 && elsewhere.length <= 3) {
    return `is not a key here; it belongs at ${list(elsewhere)}`;
  }
  return known.length === 0
    ? "is not a key here; remove it"
    : `is not a key here; the keys are ${list(known)}`;
}

/** The key of this place that was meant by an unknown one; undefined when none is like it. */
export function meantKey(key: string, schema: SchemaNode): string | undefined {
  const known = knownKeys(schema);
  const nearest = nearestName(key, known);
  if (nearest !== undefined || key.length < 3) return nearest;
  const part = key.toLowerCase();
  const longer = known.filter((name) => name.startsWith(`${part}_`) || name.endsWith(`_${part}`));
  return longer.length === 1 ? longer[0] : undefined;
}

function knownKeys(schema: SchemaNode): string[] {
  return [...schema.children.keys()].filter((name) => name !== "*");
}

/** The closest of the known names, within a third of its length in edits. */
export function nearestName(name: string, known: readonly string[]): string | undefined {
  let nearest: string | undefined;
  let least = Infinity;
  for (const candidate of known) {
    const edits = distance(name.toLowerCase(), candidate);
    if (edits < least && edits <= Math.max(1, Math.floor(candidate.length / 3))) {
      nearest = candidate;
      least = edits;
    }
  }
  return nearest;
}

/** Longest name worth comparing: no key is nearly as long. */
const LONGEST_COMPARED = 64;

/** Single edits (insert, delete, replace, swap of neighbours) from one name to the other. */
function distance(a: string, b: string): number {
  if (a.length > LONGEST_COMPARED) return Infinity;
  let before: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const cost = a[i - 1] === b[j - 1] ? 0 : 1;
      row[j] = Math.min(last[j] + 1, row[j - 1] + 1, last[j - 1] + cost);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        row[j] = Math.min(row[j], before[j - 2] + 1);
      }
    }
    before = last;
    last = row;
  }
  return last[b.length];
}
