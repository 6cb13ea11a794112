/**
 * What an ACL file says, written as plainly as possible: every rule looked at for every question, and
 * one filter held against another by trying every topic. The tests hold the compiled rules against this.
 */
import type { Channel } from "../../../src/config/configuration.ts";
import { everySequence, plainMatches } from "../../topics/oracle.ts";

export interface WrittenRule {
  readonly channel?: string;
  readonly topic?: string;
  readonly broker?: string;
  readonly filter?: string;
  readonly allow?: readonly string[];
  readonly deny?: readonly string[];
}

export interface WrittenUser {
  readonly roles: readonly string[];
  readonly client_ids?: readonly string[];
  readonly limits?: Readonly<Record<string, number>>;
}

export interface WrittenAcl {
  readonly roles: Readonly<Record<string, readonly WrittenRule[]>>;
  readonly users: Readonly<Record<string, WrittenUser>>;
}

/** The topics that filters are held against. */
export class Universe {
  readonly #topics: readonly string[];
  readonly #matched = new Map<string, ReadonlySet<string>>();

  /** `levels`: every level that any filter in question spells out, and one that none does. */
  constructor(levels: readonly string[], depth: number) {
    this.#topics = everySequence(levels, depth);
  }

  matches(filter: string): ReadonlySet<string> {
    let matched = this.#matched.get(filter);
    if (matched === undefined) {
      matched = new Set(this.#topics.filter((topic) => plainMatches(filter, topic)));
      this.#matched.set(filter, matched);
    }
    return matched;
  }
}

export class Oracle {
  constructor(
    private readonly written: WrittenAcl,
    private readonly channels: readonly Channel[],
    private readonly universe: Universe,
  ) {}

  user(name: string): WrittenUser | undefined {
    let best: string | undefined;
    const literals = (pattern: string) => pattern.replaceAll("*", "").length;
    for (const pattern of Object.keys(this.written.users)) {
      if (!globMatches(pattern, name)) continue;
      if (best === undefined || literals(pattern) > literals(best)) best = pattern;
    }
    return best === undefined ? undefined : this.written.users[best];
  }

  #rules(user: string): readonly WrittenRule[] {
    return this.user(user)?.roles.flatMap((role) => this.written.roles[role]) ?? [];
  }

  /** The spellings of a rule's filter for a client; none when a value would reach beyond its level. */
  #spellings(filter: string, user: string, clientId: string): readonly string[] {
    if (filter.includes("%u") && /[+#/]/.test(user)) return [];
    if (filter.includes("%c") && /[+#/]/.test(clientId)) return [];
    return spell(filter).map((spelling) =>
      spelling.split(/(%[uc])/).map((part) =>
        part === "%u" ? user : part === "%c" ? clientId : part
      )
        .join("")
    );
  }

  may(verb: string, topic: string, channel: string | undefined, user: string, clientId: string) {
    return this.#rules(user).some((rule) => {
      if (rule.allow?.includes(verb) !== true) return false;
      if (channel === undefined) {
        return rule.topic !== undefined &&
          this.#spellings(rule.topic, user, clientId).some((one) => plainMatches(one, topic));
      }
      if (rule.channel !== channel) return false;
      return rule.filter === undefined ||
        this.#spellings(rule.filter, user, clientId).some((one) => plainMatches(one, topic));
    });
  }

  maySubscribe(filter: string, user: string, clientId: string): boolean {
    const asked = this.universe.matches(filter);
    let inside = false;
    for (const { name, type, filters } of this.channels) {
      for (const claimed of filters) {
        const part = intersection(asked, this.universe.matches(claimed));
        if (part.size === asked.size && (type !== "queue" || this.#any(name, user, clientId))) {
          inside = true;
        }
        if (part.size === 0 || type === "queue") continue;
        const granted = this.#rules(user).some((rule) =>
          rule.channel === name && rule.allow?.includes("read") === true &&
          (rule.filter === undefined || this.#covers(rule.filter, part, user, clientId))
        );
        if (!granted) return false;
      }
    }
    return inside ||
      this.#rules(user).some((rule) =>
        rule.topic !== undefined && rule.allow?.includes("read") === true &&
        this.#covers(rule.topic, asked, user, clientId)
      );
  }

  /** Whether anything is granted on a queue. */
  #any(queue: string, user: string, clientId: string): boolean {
    return this.mayConsume(queue, user, clientId) ||
      this.#rules(user).some((rule) =>
        rule.channel === queue && rule.allow?.includes("write") === true &&
        (rule.filter === undefined || this.#spellings(rule.filter, user, clientId).length > 0)
      );
  }

  mayConsume(queue: string, user: string, clientId: string): boolean {
    const { filters } = this.channels.find(({ name }) => name === queue)!;
    return filters.every((claimed) =>
      this.#rules(user).some((rule) =>
        rule.channel === queue && rule.allow?.includes("consume") === true &&
        (rule.filter === undefined ||
          this.#covers(rule.filter, this.universe.matches(claimed), user, clientId))
      )
    );
  }

  /** Whether one spelling of a rule's filter matches all of `topics`. */
  #covers(filter: string, topics: ReadonlySet<string>, user: string, clientId: string): boolean {
    return this.#spellings(filter, user, clientId).some((spelling) => {
      const matched = this.universe.matches(spelling);
      return [...topics].every((topic) => matched.has(topic));
    });
  }

  denies(feature: string, user: string): boolean {
    return this.#rules(user).some((rule) => rule.deny?.includes(feature) === true);
  }

  admits(user: string, clientId: string): boolean {
    const patterns = this.user(user)?.client_ids;
    if (patterns === undefined) return true;
    return patterns.some((pattern) => {
      if (pattern.includes("%u") && user.includes("*")) return false;
      return globMatches(pattern.split("%u").join(user), clientId);
    });
  }
}

function intersection(a: ReadonlySet<string>, b: ReadonlySet<string>): ReadonlySet<string> {
  return new Set([...a].filter((each) => b.has(each)));
}

/** `{a,b}` one brace after another. */
function spell(filter: string): string[] {
  const brace = /\{([^{}]*)\}/.exec(filter);
  if (brace === null) return [filter];
  return brace[1].split(",").flatMap((choice) =>
    spell(filter.slice(0, brace.index) + choice + filter.slice(brace.index + brace[0].length))
  );
}

export function globMatches(pattern: string, name: string): boolean {
  const escaped = pattern.split("*").map((piece) => piece.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return new RegExp(`^${escaped.join(".*")}$`, "su").test(name);
}
