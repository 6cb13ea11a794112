import { compareExactness, covers, intersects, levelEnd } from "./filter.ts";

/** One plain filter, braces expanded, and what holds the topics it matches. */
export interface Claim<T> {
  readonly filter: string;
  readonly value: T;
}

/** Topics remembered in each of the two generations of the cache. */
const CACHED_TOPICS = 4096;
/** Longer topics are not remembered, which bounds the cache at some 4 MiB. */
const CACHED_TOPIC_LENGTH = 256;

/** On the walk's stack in place of an offset: what `#` claims at this node is next in turn. */
const TAKE_HASH = -1;

/** What is claimed at and below one level. */
class Branch<T> {
  literal: Map<string, Branch<T>> | undefined;
  plus: Branch<T> | undefined;
  here: Claim<T> | undefined;
  hash: Claim<T> | undefined;
}

/**
 * The topic space as the channels divide it (02a 1): each topic is held by the most exact filter
 * that matches it, and a topic that none matches is broadcast. Built once; the order of the pairs
 * decides nothing.
 */
export class TopicHolders<T> {
  /** Every claim, most exact first. */
  readonly claims: readonly Claim<T>[];
  readonly #root = new Branch<T>();
  readonly #branches: Branch<T>[] = [];
  readonly #offsets: number[] = [];
  #recent = new Map<string, Claim<T> | null>();
  #older = new Map<string, Claim<T> | null>();

  /**
   * @param pairs valid plain filters; one value may appear with several of them
   * @throws Error when a filter appears twice: the configuration is checked for that before
   */
  constructor(pairs: Iterable<readonly [filter: string, value: T]>) {
    const claims: Claim<T>[] = [];
    for (const [filter, value] of pairs) {
      const claim = { filter, value };
      this.#plant(claim);
      claims.push(claim);
    }
    this.claims = claims.sort((a, b) => compareExactness(a.filter, b.filter));
  }

  #plant(claim: Claim<T>): void {
    const filter = claim.filter;
    let branch = this.#root;
    for (let at = 0; at <= filter.length;) {
      const end = levelEnd(filter, at);
      const level = filter.slice(at, end);
      if (level === "#") {
        if (branch.hash !== undefined) throw new Error(`${filter} is claimed twice`);
        branch.hash = claim;
        return;
      }
      if (level === "+") {
        branch = branch.plus ??= new Branch();
      } else {
        const children = branch.literal ??= new Map<string, Branch<T>>();
        let child = children.get(level);
        if (child === undefined) children.set(level, child = new Branch());
        branch = child;
      }
      at = end + 1;
    }
    if (branch.here !== undefined) throw new Error(`${filter} is claimed twice`);
    branch.here = claim;
  }

  /** What holds `topic`, a valid Topic Name; undefined when it is broadcast. */
  holder(topic: string): T | undefined {
    return this.claim(topic)?.value;
  }

  /** The claim by which `topic` is held. */
  claim(topic: string): Claim<T> | undefined {
    let found = this.#recent.get(topic);
    if (found !== undefined) return found ?? undefined;
    found = this.#older.get(topic);
    if (found === undefined) found = this.#find(topic) ?? null;
    if (topic.length <= CACHED_TOPIC_LENGTH) {
      if (this.#recent.size >= CACHED_TOPICS) {
        this.#older = this.#recent;
        this.#recent = new Map();
      }
      this.#recent.set(topic, found);
    }
    return found ?? undefined;
  }

  /**
   * Depth first, most exact first, so the first claim met is the holder. The stack replaces
   * recursion; no branch is met twice, so the work is bounded by what is claimed.
   */
  #find(topic: string): Claim<T> | undefined {
    const branches = this.#branches;
    const offsets = this.#offsets;
    const reserved = topic.startsWith("$");
    branches[0] = this.#root;
    offsets[0] = 0;
    for (let depth = 1; depth > 0;) {
      const branch = branches[--depth];
      const at = offsets[depth];
      if (at === TAKE_HASH) return branch.hash;
      if (at > topic.length) {
        const claim = branch.here ?? branch.hash;
        if (claim !== undefined) return claim;
        continue;
      }
      const end = levelEnd(topic, at);
      if (at > 0 || !reserved) {
        if (branch.hash !== undefined) {
          branches[depth] = branch;
          offsets[depth++] = TAKE_HASH;
        }
        if (branch.plus !== undefined) {
          branches[depth] = branch.plus;
          offsets[depth++] = end + 1;
        }
      }
      const child = branch.literal?.get(topic.slice(at, end));
      if (child !== undefined) {
        branches[depth] = child;
        offsets[depth++] = end + 1;
      }
    }
    return undefined;
  }

  /**
   * Every value that `filter` touches (02a 2), each once, the one with the most exact touched claim
   * first. Reads every claim: meant for a SUBSCRIBE, not for a message.
   */
  touched(filter: string): T[] {
    const values = new Set<T>();
    for (const claim of this.claims) {
      if (intersects(claim.filter, filter)) values.add(claim.value);
    }
    return [...values];
  }

  /** Every claim that `filter` lies inside of, most exact first. */
  covering(filter: string): Claim<T>[] {
    return this.claims.filter((claim) => covers(claim.filter, filter));
  }

  /**
   * The most exact claim that `filter` lies inside of. When its value is a queue, `filter` is
   * entirely inside that queue and inside no more exact channel, which is the ground of refusal in
   * 02a 4; when it is another channel, that channel (or a more exact one) holds all its topics.
   */
  inside(filter: string): Claim<T> | undefined {
    return this.claims.find((claim) => covers(claim.filter, filter));
  }
}
