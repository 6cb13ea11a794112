import { intersects, levelEnd } from "../../topics/filter.ts";

/**
 * The filter that matches exactly the topics which both match; undefined when there are none. Level by
 * level the narrower of the two, and behind the `#` of one the rest of the other.
 */
export function intersection(a: string, b: string): string | undefined {
  if (!intersects(a, b)) return undefined;
  let narrow = "";
  let aAt = 0;
  let bAt = 0;
  for (;;) {
    const aEnd = levelEnd(a, aAt);
    const bEnd = levelEnd(b, bAt);
    const aLevel = a.slice(aAt, aEnd);
    const bLevel = b.slice(bAt, bEnd);
    if (aLevel === "#") return narrow + b.slice(bAt);
    if (bLevel === "#") return narrow + a.slice(aAt);
    narrow += aLevel === "+" ? bLevel : aLevel;
    // Where one ends and the other goes on, all that is left there is "#", which matches this too.
    if (aEnd === a.length || bEnd === b.length) return narrow;
    narrow += "/";
    aAt = aEnd + 1;
    bAt = bEnd + 1;
  }
}
