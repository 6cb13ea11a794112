import { levelEnd } from "./filter.ts";

/** Subscriptions of one filter up to which a key is looked for one by one. */
const SCANNED_KEYS = 16;
/** A scratch array that grew past this is dropped after the walk that needed it. */
const KEPT_SCRATCH = 4096;
/** From this length on V8 makes a slice a view that keeps the whole string alive. */
const VIEW_LENGTH = 13;

/** The subscriptions of one filter: `values[i]` is `keys[i]`'s. */
class Subscribers<V, K> {
  keys: K[] = [];
  values: V[] = [];
  /** Where each key is, once they are many. */
  places: Map<K, number> | undefined;

  constructor(readonly filter: string) {}

  place(key: K): number {
    return this.places === undefined ? this.keys.indexOf(key) : this.places.get(key) ?? -1;
  }

  push(key: K, value: V): void {
    this.places?.set(key, this.keys.length);
    this.keys.push(key);
    this.values.push(value);
    if (this.places === undefined && this.keys.length > SCANNED_KEYS) {
      this.places = new Map(this.keys.map((each, i) => [each, i]));
    }
  }

  /** Takes one out and moves the last into its place. */
  take(place: number): void {
    const gone = this.keys[place];
    const lastKey = this.keys.pop()!;
    const lastValue = this.values.pop()!;
    if (place < this.keys.length) {
      this.keys[place] = lastKey;
      this.values[place] = lastValue;
      this.places?.set(lastKey, place);
    }
    this.places?.delete(gone);
  }
}

/** One level. Most levels have one literal child, which stands alone until there is a second. */
class Node<V, K> {
  only: Node<V, K> | undefined;
  many: Map<string, Node<V, K>> | undefined;
  plus: Node<V, K> | undefined;
  here: Subscribers<V, K> | undefined;
  hash: Subscribers<V, K> | undefined;

  constructor(readonly parent: Node<V, K> | undefined, readonly level: string) {}

  literal(level: string): Node<V, K> | undefined {
    if (this.only !== undefined) return this.only.level === level ? this.only : undefined;
    return this.many?.get(level);
  }

  attach(child: Node<V, K>): void {
    if (child.level === "+") {
      this.plus = child;
    } else if (this.many !== undefined) {
      this.many.set(child.level, child);
    } else if (this.only === undefined) {
      this.only = child;
    } else {
      this.many = new Map([[this.only.level, this.only], [child.level, child]]);
      this.only = undefined;
    }
  }

  detach(child: Node<V, K>): void {
    if (this.plus === child) {
      this.plus = undefined;
    } else if (this.only === child) {
      this.only = undefined;
    } else if (this.many !== undefined) {
      this.many.delete(child.level);
      if (this.many.size === 1) {
        for (const left of this.many.values()) this.only = left;
        this.many = undefined;
      }
    }
  }

  get bare(): boolean {
    return this.here === undefined && this.hash === undefined && this.plus === undefined &&
      this.only === undefined && this.many === undefined;
  }
}

/**
 * Subscriptions by filter, found by topic. One subscription is a filter and a key (a client id); it
 * carries a value. Filters are valid ones and are not checked. Which subscription deserves a
 * delivery, and how a client with several is served, is for the caller.
 */
export class SubscriptionTree<V, K = string> {
  readonly #root = new Node<V, K>(undefined, "");
  readonly #none = new Subscribers<V, K>("");
  #size = 0;
  #nodes = 0;
  #walks = 0;
  #now: Node<V, K>[] = [];
  #next: Node<V, K>[] = [];
  #hits: Subscribers<V, K>[] | undefined;

  /** Subscriptions held: pairs of filter and key. */
  get size(): number {
    return this.#size;
  }

  get isEmpty(): boolean {
    return this.#size === 0;
  }

  /** Levels held beyond the root, a figure that goes with memory; 0 when empty. */
  get nodes(): number {
    return this.#nodes;
  }

  /** Sets the value of a subscription; returns the one it replaces. */
  add(filter: string, key: K, value: V): V | undefined {
    let node = this.#root;
    let subscribers: Subscribers<V, K> | undefined;
    for (let at = 0; at <= filter.length;) {
      const end = levelEnd(filter, at);
      const level = filter.slice(at, end);
      if (level === "#") {
        subscribers = node.hash ??= new Subscribers(filter);
        break;
      }
      let child = level === "+" ? node.plus : node.literal(level);
      if (child === undefined) {
        child = new Node(node, own(level));
        node.attach(child);
        this.#nodes++;
      }
      node = child;
      at = end + 1;
    }
    subscribers ??= node.here ??= new Subscribers(filter);
    const place = subscribers.place(key);
    if (place < 0) {
      subscribers.push(key, value);
      this.#size++;
      return undefined;
    }
    const old = subscribers.values[place];
    subscribers.values[place] = value;
    return old;
  }

  /** Takes a subscription out; returns its value, or undefined when there was none. */
  remove(filter: string, key: K): V | undefined {
    const node = this.#descend(filter);
    if (node === undefined) return undefined;
    const wild = endsWithHash(filter);
    const subscribers = wild ? node.hash : node.here;
    const place = subscribers === undefined ? -1 : subscribers.place(key);
    if (subscribers === undefined || place < 0) return undefined;
    const old = subscribers.values[place];
    if (this.#walks > 0) subscribers.values = subscribers.values.slice();
    subscribers.take(place);
    this.#size--;
    if (subscribers.keys.length > 0) return old;
    if (wild) node.hash = undefined;
    else node.here = undefined;
    for (let gone = node; gone.bare && gone.parent !== undefined; gone = gone.parent) {
      gone.parent.detach(gone);
      this.#nodes--;
    }
    return old;
  }

  /** The value of one subscription. */
  get(filter: string, key: K): V | undefined {
    const subscribers = this.#subscribers(filter);
    const place = subscribers === undefined ? -1 : subscribers.place(key);
    return subscribers === undefined || place < 0 ? undefined : subscribers.values[place];
  }

  /** The values subscribed with exactly this filter, as a new array. */
  at(filter: string): V[] {
    return this.#subscribers(filter)?.values.slice() ?? [];
  }

  #subscribers(filter: string): Subscribers<V, K> | undefined {
    const node = this.#descend(filter);
    return endsWithHash(filter) ? node?.hash : node?.here;
  }

  /** The node of a filter's last level, or of the level above its `#`. */
  #descend(filter: string): Node<V, K> | undefined {
    let node: Node<V, K> | undefined = this.#root;
    for (let at = 0; node !== undefined && at <= filter.length;) {
      const end = levelEnd(filter, at);
      const level = filter.slice(at, end);
      if (level === "#") return node;
      node = level === "+" ? node.plus : node.literal(level);
      at = end + 1;
    }
    return node;
  }

  /**
   * Visits every subscription whose filter matches `topic`, once each, in no promised order. A visit
   * may change the tree: what it adds or removes may or may not be visited in this walk, all else
   * is. Allocates nothing per subscription.
   */
  match(topic: string, visit: (value: V, filter: string) => void): void {
    // A visit may match again, so the walk owns its hits while it runs.
    const hits = this.#hits ?? [];
    this.#hits = undefined;
    const count = this.#collect(topic, hits);
    this.#walks++;
    try {
      for (let i = 0; i < count; i++) {
        const { filter, values } = hits[i];
        const end = values.length;
        for (let j = 0; j < end; j++) visit(values[j], filter);
      }
    } finally {
      this.#walks--;
      if (hits.length <= KEPT_SCRATCH) {
        hits.fill(this.#none, 0, count);
        this.#hits = hits;
      }
    }
  }

  /** Puts the subscribers of every matching filter into `hits`; level by level, no caller's code. */
  #collect(topic: string, hits: Subscribers<V, K>[]): number {
    let now = this.#now;
    let next = this.#next;
    let count = 0;
    let wide = 1;
    now[0] = this.#root;
    let wildcards = !topic.startsWith("$");
    let at = 0;
    while (at <= topic.length && wide > 0) {
      const end = levelEnd(topic, at);
      const level = topic.slice(at, end);
      let found = 0;
      for (let i = 0; i < wide; i++) {
        const node = now[i];
        if (wildcards) {
          if (node.hash !== undefined) hits[count++] = node.hash;
          if (node.plus !== undefined) next[found++] = node.plus;
        }
        const child = node.literal(level);
        if (child !== undefined) next[found++] = child;
      }
      const swap = now;
      now = next;
      next = swap;
      wide = found;
      wildcards = true;
      at = end + 1;
    }
    for (let i = 0; i < wide; i++) {
      const node = now[i];
      if (node.here !== undefined) hits[count++] = node.here;
      if (node.hash !== undefined) hits[count++] = node.hash;
    }
    if (now.length > KEPT_SCRATCH || next.length > KEPT_SCRATCH) {
      this.#now = [];
      this.#next = [];
    }
    return count;
  }
}

function endsWithHash(filter: string): boolean {
  return filter.charCodeAt(filter.length - 1) === 0x23;
}

/** A copy of a level that does not keep alive the filter it was cut from, which may be long. */
function own(level: string): string {
  return level.length < VIEW_LENGTH ? level : (" " + level).slice(1);
}
