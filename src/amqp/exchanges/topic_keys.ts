/**
 * Binding keys of a topic exchange (A32): words between dots, `*` for exactly one word, `#` for none or
 * more, wherever they stand. An empty key has no words.
 *
 * A key is matched against all patterns at once by walking the set of nodes that the words so far can
 * have reached, so its cost is words times nodes and never branches.
 */
interface Node<T> {
  readonly children: Map<string, Node<T>>;
  one: Node<T> | undefined;
  many: Node<T> | undefined;
  /** This node stands behind a `#`: any further word leaves it reached. */
  readonly stays: boolean;
  readonly values: Map<T, number>;
  /** The step in which it was reached last. */
  reached: number;
}

function node<T>(stays: boolean): Node<T> {
  return {
    children: new Map(),
    one: undefined,
    many: undefined,
    stays,
    values: new Map(),
    reached: 0,
  };
}

function wordsOf(key: string): readonly string[] {
  return key === "" ? [] : key.split(".");
}

export class TopicKeys<T> {
  readonly #root = node<T>(false);
  #step = 0;

  /** One more binding of `value` under `pattern`. */
  add(pattern: string, value: T): void {
    let at = this.#root;
    for (const word of wordsOf(pattern)) {
      let next = child(at, word);
      if (next === undefined) {
        next = node<T>(word === "#");
        if (word === "#") at.many = next;
        else if (word === "*") at.one = next;
        else at.children.set(word, next);
      }
      at = next;
    }
    at.values.set(value, (at.values.get(value) ?? 0) + 1);
  }

  /** One binding less; nothing when there is none. */
  remove(pattern: string, value: T): void {
    const words = wordsOf(pattern);
    const path = [this.#root];
    for (const word of words) {
      const next = child(path[path.length - 1], word);
      if (next === undefined) return;
      path.push(next);
    }
    const { values } = path[path.length - 1];
    const count = values.get(value);
    if (count === undefined) return;
    if (count > 1) values.set(value, count - 1);
    else values.delete(value);
    for (let i = words.length; i > 0 && isEmpty(path[i]); i--) {
      const parent = path[i - 1];
      if (words[i - 1] === "#") parent.many = undefined;
      else if (words[i - 1] === "*") parent.one = undefined;
      else parent.children.delete(words[i - 1]);
    }
  }

  /** Calls `found` for every value with a pattern that matches, maybe several times. */
  match(key: string, found: (value: T) => void): void {
    let reached: Node<T>[] = [];
    this.#step++;
    this.#reach(this.#root, reached);
    for (const word of wordsOf(key)) {
      const before = reached;
      reached = [];
      this.#step++;
      for (const from of before) {
        if (from.stays) this.#reach(from, reached);
        const next = from.children.get(word);
        if (next !== undefined) this.#reach(next, reached);
        if (from.one !== undefined) this.#reach(from.one, reached);
      }
      if (reached.length === 0) return;
    }
    for (const at of reached) for (const value of at.values.keys()) found(value);
  }

  /** Adds a node, and those behind it that need no word. */
  #reach(from: Node<T>, reached: Node<T>[]): void {
    for (let at: Node<T> | undefined = from; at !== undefined; at = at.many) {
      if (at.reached === this.#step) return;
      at.reached = this.#step;
      reached.push(at);
    }
  }
}

function child<T>(of: Node<T>, word: string): Node<T> | undefined {
  return word === "#" ? of.many : word === "*" ? of.one : of.children.get(word);
}

function isEmpty<T>(at: Node<T>): boolean {
  return at.values.size === 0 && at.children.size === 0 && at.one === undefined &&
    at.many === undefined;
}
