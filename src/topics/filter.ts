/**
 * Topic Names and Topic Filters (MQTT 5 4.7): validity, matching, and how two filters relate.
 *
 * Every function but the two `…Fault` ones trusts its arguments to be valid. None of them splits a
 * string or recurses per level: a topic may have thousands of levels, and `matches` is called per
 * message.
 */

const SLASH = 0x2f;
const PLUS = 0x2b;
const HASH = 0x23;
const DOLLAR = 0x24;

/** What is wrong with a text, as a sentence for its author. */
export interface Fault {
  readonly fault: string;
}

/** Tells a fault from what the same function returns when all is well. */
export function isFault(outcome: unknown): outcome is Fault {
  return typeof outcome === "object" && outcome !== null && "fault" in outcome;
}

/**
 * Why `topic` is no Topic Name (MQTT 5 4.7.1, 4.7.3), or undefined. The bound on its length is one
 * of UTF-8 bytes and is checked where the bytes are.
 */
export function topicFault(topic: string): string | undefined {
  if (topic.length === 0) return "a topic name has at least one character";
  for (let i = 0; i < topic.length; i++) {
    const c = topic.charCodeAt(i);
    if (c === PLUS || c === HASH) {
      return `a topic name holds no wildcard, and this one has "${topic[i]}"`;
    }
    if (c === 0) return "a topic name holds no NUL character";
  }
  return undefined;
}

/**
 * Why `filter` is no Topic Filter (MQTT 5 4.7.1), or undefined. The rules that only a channel's
 * filter has to keep (02a 1.1) are not asked here.
 */
export function filterFault(filter: string): string | undefined {
  if (filter.length === 0) return "a topic filter has at least one character";
  const last = filter.length - 1;
  for (let i = 0; i <= last; i++) {
    const c = filter.charCodeAt(i);
    if (c === 0) return "a topic filter holds no NUL character";
    if (c !== PLUS && c !== HASH) continue;
    const starts = i === 0 || filter.charCodeAt(i - 1) === SLASH;
    const ends = i === last || filter.charCodeAt(i + 1) === SLASH;
    if (!starts || !ends) return `"${filter[i]}" stands for a whole level of a topic filter`;
    if (c === HASH && i !== last) return `"#" stands only at the end of a topic filter`;
  }
  return undefined;
}

/** How many levels a topic or filter has; empty levels count. */
export function levels(topicOrFilter: string): number {
  let count = 1;
  for (let at = topicOrFilter.indexOf("/"); at >= 0; at = topicOrFilter.indexOf("/", at + 1)) {
    count++;
  }
  return count;
}

/**
 * Whether `filter` matches `topic`: `#` matches its parent level too, and a wildcard at the first
 * level matches no topic that begins with `$` (MQTT 5 4.7.2).
 */
export function matches(filter: string, topic: string): boolean {
  const filterEnd = filter.length;
  const topicEnd = topic.length;
  if (topic.charCodeAt(0) === DOLLAR && filter.charCodeAt(0) !== DOLLAR) return false;
  let f = 0;
  let t = 0;
  while (f < filterEnd) {
    let c = filter.charCodeAt(f);
    if (c === HASH) return true;
    if (c === PLUS) {
      f++;
      while (t < topicEnd && topic.charCodeAt(t) !== SLASH) t++;
    } else {
      while (c !== SLASH) {
        if (t === topicEnd || topic.charCodeAt(t) !== c) return false;
        t++;
        if (++f === filterEnd) break;
        c = filter.charCodeAt(f);
      }
      if (t < topicEnd && topic.charCodeAt(t) !== SLASH) return false;
    }
    if (f === filterEnd) return t === topicEnd;
    f++;
    if (t === topicEnd) return f === filterEnd - 1 && filter.charCodeAt(f) === HASH;
    t++;
  }
  // The filter ends in "/": its last level is empty, and so has to be the topic's.
  return t === topicEnd;
}

/** Where the level that begins at `at` ends. */
export function levelEnd(text: string, at: number): number {
  const end = text.indexOf("/", at);
  return end < 0 ? text.length : end;
}

function isWildcard(text: string, at: number, end: number, wildcard: number): boolean {
  return end - at === 1 && text.charCodeAt(at) === wildcard;
}

function sameLevel(
  a: string,
  aAt: number,
  aEnd: number,
  b: string,
  bAt: number,
  bEnd: number,
): boolean {
  if (aEnd - aAt !== bEnd - bAt) return false;
  for (let i = aAt, j = bAt; i < aEnd; i++, j++) {
    if (a.charCodeAt(i) !== b.charCodeAt(j)) return false;
  }
  return true;
}

/** Whether the first level of one filter is a wildcard and that of the other begins with `$`. */
function dollarApart(a: string, b: string): boolean {
  const first = a.charCodeAt(0);
  const other = b.charCodeAt(0);
  return (first === DOLLAR && (other === PLUS || other === HASH)) ||
    (other === DOLLAR && (first === PLUS || first === HASH));
}

/** Whether some topic matches both filters: the one touches the other (02a 2). */
export function intersects(a: string, b: string): boolean {
  if (dollarApart(a, b)) return false;
  let aAt = 0;
  let bAt = 0;
  for (;;) {
    const aEnd = levelEnd(a, aAt);
    const bEnd = levelEnd(b, bAt);
    if (isWildcard(a, aAt, aEnd, HASH) || isWildcard(b, bAt, bEnd, HASH)) return true;
    if (
      !isWildcard(a, aAt, aEnd, PLUS) && !isWildcard(b, bAt, bEnd, PLUS) &&
      !sameLevel(a, aAt, aEnd, b, bAt, bEnd)
    ) return false;
    const aStops = aEnd === a.length;
    const bStops = bEnd === b.length;
    if (aStops && bStops) return true;
    // "/#" would match the parent of "/", a topic without a character, which does not exist.
    if (aStops) return isWildcard(b, bEnd + 1, b.length, HASH) && bEnd > 0;
    if (bStops) return isWildcard(a, aEnd + 1, a.length, HASH) && aEnd > 0;
    aAt = aEnd + 1;
    bAt = bEnd + 1;
  }
}

/** Whether `a` matches every topic that `b` matches: `b` lies inside `a`. */
export function covers(a: string, b: string): boolean {
  if (dollarApart(a, b)) return false;
  let aAt = 0;
  let bAt = 0;
  for (;;) {
    const aEnd = levelEnd(a, aAt);
    const bEnd = levelEnd(b, bAt);
    if (isWildcard(a, aAt, aEnd, HASH)) return true;
    const aPlus = isWildcard(a, aAt, aEnd, PLUS);
    if (isWildcard(b, bAt, bEnd, HASH)) {
      // "+/#" says the same as "#" where the parent that "#" also matches is no topic: at the first
      // level, and below an empty first level.
      return bAt <= 1 && aPlus && isWildcard(a, aEnd + 1, a.length, HASH);
    }
    if (
      !aPlus && (isWildcard(b, bAt, bEnd, PLUS) || !sameLevel(a, aAt, aEnd, b, bAt, bEnd))
    ) return false;
    const aStops = aEnd === a.length;
    if (bEnd === b.length) return aStops || isWildcard(a, aEnd + 1, a.length, HASH);
    if (aStops) return false;
    aAt = aEnd + 1;
    bAt = bEnd + 1;
  }
}

const RANK_LITERAL = 0;
const RANK_PLUS = 1;
const RANK_END = 2;
const RANK_HASH = 3;

function rank(filter: string, at: number, end: number): number {
  if (at > filter.length) return RANK_END;
  if (isWildcard(filter, at, end, HASH)) return RANK_HASH;
  return isWildcard(filter, at, end, PLUS) ? RANK_PLUS : RANK_LITERAL;
}

/**
 * Negative when `a` is the more exact (02a 1.4): the first level at which the two differ decides,
 * a literal beats `+`, `+` beats `#`, and ending beats going on with `#`. Zero only for equal
 * filters. The order is total, so a sort has one outcome; between filters that share no topic it
 * means nothing beyond that.
 */
export function compareExactness(a: string, b: string): number {
  let aAt = 0;
  let bAt = 0;
  for (;;) {
    const aEnd = levelEnd(a, aAt);
    const bEnd = levelEnd(b, bAt);
    const aRank = rank(a, aAt, aEnd);
    const bRank = rank(b, bAt, bEnd);
    if (aRank !== bRank) return aRank - bRank;
    if (aRank === RANK_END || aRank === RANK_HASH) return 0;
    if (aRank === RANK_LITERAL && !sameLevel(a, aAt, aEnd, b, bAt, bEnd)) {
      return a.slice(aAt, aEnd) < b.slice(bAt, bEnd) ? -1 : 1;
    }
    aAt = aEnd + 1;
    bAt = bEnd + 1;
  }
}

/** The two parts of `$share/<ShareName>/<filter>`. */
export interface SharedFilter {
  readonly share: string;
  readonly filter: string;
}

const SHARE = "$share";

/** Whether the first level is `$share` in any mixture of letter cases. */
function beginsShare(filter: string): boolean {
  return levelEnd(filter, 0) === SHARE.length &&
    filter.slice(0, SHARE.length).toLowerCase() === SHARE;
}

/**
 * Takes a shared subscription apart (MQTT 5 4.8.2, 02a 5). Undefined for a filter that is none; a
 * fault for one that is misshapen, nested, or spelled in other letter cases. Whether the inner
 * filter is valid is not asked: it is refused as it would be alone.
 */
export function splitShared(filter: string): SharedFilter | Fault | undefined {
  if (!beginsShare(filter)) return undefined;
  if (!filter.startsWith(SHARE)) {
    return { fault: "a shared subscription begins with $share in lower case" };
  }
  const nameAt = SHARE.length + 1;
  const nameEnd = levelEnd(filter, nameAt);
  if (nameEnd <= nameAt) {
    return { fault: "$share/<ShareName>/<filter>: the ShareName is missing" };
  }
  if (nameEnd + 1 >= filter.length) {
    return { fault: "$share/<ShareName>/<filter>: the filter is missing" };
  }
  const share = filter.slice(nameAt, nameEnd);
  if (share.includes("+") || share.includes("#")) {
    return { fault: "a ShareName holds neither + nor #" };
  }
  const inner = filter.slice(nameEnd + 1);
  if (beginsShare(inner)) {
    return { fault: "a shared subscription does not hold another one" };
  }
  return { share, filter: inner };
}
