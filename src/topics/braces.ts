import { type Fault, levelEnd } from "./filter.ts";

/** Filters one written filter may stand for. A typing mistake, not a plant, needs more. */
export const MAX_EXPANSIONS = 1024;

/**
 * The plain filters that a filter with `{a,b}` levels stands for (02a 1.2), every combination once,
 * in the order written; a filter without braces stands for itself. Braces take a whole level and
 * do not nest. Whether the outcome is a Topic Filter is for `filterFault` to say.
 */
export function expandBraces(filter: string): string[] | Fault {
  if (!filter.includes("{") && !filter.includes("}")) return [filter];
  const choices: (readonly string[])[] = [];
  let count = 1;
  for (let at = 0; at <= filter.length;) {
    const end = levelEnd(filter, at);
    const level = filter.slice(at, end);
    const chosen = alternatives(level);
    if ("fault" in chosen) return chosen;
    choices.push(chosen);
    count *= chosen.length;
    if (count > MAX_EXPANSIONS) {
      return { fault: `the braces stand for more than ${MAX_EXPANSIONS} filters` };
    }
    at = end + 1;
  }
  const expanded: string[] = [];
  const picked = new Array<number>(choices.length).fill(0);
  for (let made = 0; made < count; made++) {
    expanded.push(choices.map((chosen, i) => chosen[picked[i]]).join("/"));
    for (let i = choices.length - 1; i >= 0; i--) {
      if (++picked[i] < choices[i].length) break;
      picked[i] = 0;
    }
  }
  return expanded;
}

/** What one level may read as. */
function alternatives(level: string): readonly string[] | Fault {
  const opens = level.startsWith("{");
  const closes = level.endsWith("}");
  if (!opens && !closes) {
    return level.includes("{") || level.includes("}") ? partial(level) : [level];
  }
  if (opens !== closes) return partial(level);
  const inside = level.slice(1, -1);
  if (inside.includes("{") || inside.includes("}")) {
    return { fault: `"${level}": one pair of braces to a level, without another inside` };
  }
  if (inside === "") return { fault: `"{}" lists nothing` };
  const listed = inside.split(",");
  const seen = new Set<string>();
  for (const alternative of listed) {
    if (alternative === "") return { fault: `"${level}" has an empty alternative` };
    if (seen.has(alternative)) return { fault: `"${level}" lists "${alternative}" twice` };
    seen.add(alternative);
  }
  return listed;
}

function partial(level: string): Fault {
  const open = level.includes("{");
  if (open !== level.includes("}")) {
    return {
      fault: `"${level}": a brace is ${open ? "opened" : "closed"} here and not ` +
        `${open ? "closed" : "opened"} in the same level; braces hold no "/"`,
    };
  }
  return { fault: `"${level}": braces take a whole level` };
}
