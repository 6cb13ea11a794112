/** Reads an ACL file: roles, users, and everything that is wrong with either, at once (02b section 7). */
import type { Configuration } from "../../config/configuration.ts";
import { type Entry, type Node, readDocument } from "../../config/document.ts";
import { at, type Findings, quoted } from "../../config/finding.ts";
import { read as readValue } from "../../config/reading.ts";
import type { Key } from "../../config/table/key.ts";
import { count, size } from "../../config/table/kinds.ts";
import { hasControlCharacter } from "../password_lines.ts";
import type { PublishRates } from "../publish_rates.ts";
import type { AclDocument, Role, Rule, UserEntry } from "./document.ts";
import { below, entriesOf, fieldsOf, refuseForm, suggestion, textsOf } from "./nodes.ts";
import { LONGEST_PATTERN, Pattern, ties } from "./pattern.ts";
import { RuleReader } from "./read_rule.ts";

const WHY_NOT_ZERO = '0 is not "unbounded", which a user is whose limits: leave the key out';

/** Read like their namesakes under `broker.limits`. */
const LIMIT_KEYS = {
  publish_rate: {
    path: "publish_rate",
    kind: count(1),
    why: WHY_NOT_ZERO,
    doc: "Publishes a second of one client.",
  },
  publish_bytes: {
    path: "publish_bytes",
    kind: size("1"),
    why: WHY_NOT_ZERO,
    doc: "Published bytes a second of one client.",
  },
} as const satisfies Record<string, Key>;

/** What an ACL file is read against. */
export type AclWorld = Pick<Configuration, "channels" | "limits">;

/**
 * Reads the bytes of `file`. What is wrong goes to `findings`, each with line and column; what is returned
 * holds what could be read, and is to be used only when nothing was wrong.
 */
export function readAcl(
  bytes: Uint8Array,
  file: string,
  world: AclWorld,
  findings: Findings,
): AclDocument {
  const root = readDocument(bytes, file, findings);
  return root === undefined
    ? { file, roles: new Map(), entries: [] }
    : new AclReader(file, world, findings).read(root);
}

class AclReader {
  readonly #rules: RuleReader;
  readonly #roles = new Map<string, Role>();

  constructor(
    private readonly file: string,
    world: AclWorld,
    private readonly findings: Findings,
  ) {
    const { channels, limits } = world;
    this.#rules = new RuleReader({ channels, maxTopicLevels: limits.maxTopicLevels }, findings);
  }

  read(root: Node): AclDocument {
    const { file, findings } = this;
    const top = entriesOf(root, "", "roles: and users:", findings);
    if (top === undefined) return { file, roles: this.#roles, entries: [] };
    const clients = top.find(({ key }) => key === "clients");
    if (clients !== undefined) {
      const says = "is not how users are granted roles; write users:, by user name";
      findings.add(clients.place, "clients", says);
    }
    const known = top.filter((entry) => entry !== clients);
    const fields = fieldsOf(known, "", ["roles", "users"], findings);
    const roles = fields.get("roles");
    if (roles !== undefined) this.#readRoles(roles);
    const users = fields.get("users");
    if (users !== undefined) return { file, roles: this.#roles, entries: this.#readUsers(users) };
    if (clients === undefined) {
      const says = "is missing, and nobody is granted anything without it; " +
        "write user names and their roles, or users: {}";
      findings.add(root.place, "users", says);
    }
    return { file, roles: this.#roles, entries: [] };
  }

  // ---------------------------------------------------------------------------------------- roles

  #readRoles(roles: Entry): void {
    const entries = entriesOf(roles.value, "roles", "role names and their rules", this.findings);
    for (const { key: name, place, value } of entries ?? []) {
      const path = `roles.${name}`;
      if (name === "" || hasControlCharacter(name)) {
        const says = "is no role name; write one without control characters";
        this.findings.add(place, path, says);
      }
      this.#roles.set(name, { name, rules: this.#readRules(value, path) });
    }
  }

  #readRules(node: Node, path: string): readonly Rule[] {
    if (node.form !== "list") {
      refuseForm(node, path, "a list of rules, or [] for none", this.findings);
      return [];
    }
    return node.items
      .map((item, i) => this.#rules.read(item, `${path}[${i + 1}]`))
      .filter((rule) => rule !== undefined);
  }

  // ---------------------------------------------------------------------------------------- users

  #readUsers(users: Entry): readonly UserEntry[] {
    const wanted = "user names or patterns and their roles";
    const entries = entriesOf(users.value, "users", wanted, this.findings) ?? [];
    const read: UserEntry[] = [];
    for (const entry of entries) {
      const fault = patternFault(entry.key, "user name");
      if (fault !== undefined) this.findings.add(entry.place, `users.${entry.key}`, fault);
      else read.push(this.#readUser(entry));
    }
    const places = new Map(read.map(({ pattern, place }) => [pattern, place]));
    for (const { first, second } of ties(read.map(({ pattern }) => pattern))) {
      const says = `can match a name that ${quoted(first.text)} at ${at(places.get(first)!)} ` +
        "matches too, and has as many literal characters, so that neither would be in force; " +
        "make one of them longer";
      this.findings.add(places.get(second)!, `users.${second.text}`, says);
    }
    return read;
  }

  #readUser({ key, place, value }: Entry): UserEntry {
    const path = `users.${key}`;
    const pattern = new Pattern(key);
    const nothing = { pattern, place, roles: [], clientIds: undefined, limits: undefined };
    if (value.form === "list") return { ...nothing, roles: this.#readUserRoles(value, path) };
    if (value.form !== "map") {
      const wanted = "a list of roles, or roles: with client_ids: and limits:";
      refuseForm(value, path, wanted, this.findings);
      return nothing;
    }
    const known = ["roles", "client_ids", "limits"];
    const fields = fieldsOf(value.entries, path, known, this.findings);
    const roles = fields.get("roles");
    if (roles === undefined) {
      const says = "is missing; write a list of roles, or roles: [] to grant nothing";
      this.findings.add(place, below(path, "roles"), says);
    }
    const clientIds = fields.get("client_ids");
    const limits = fields.get("limits");
    return {
      pattern,
      place,
      roles: roles === undefined ? [] : this.#readUserRoles(roles.value, below(path, "roles")),
      clientIds: clientIds && this.#readClientIds(clientIds.value, below(path, "client_ids")),
      limits: limits && this.#readLimits(limits.value, below(path, "limits")),
    };
  }

  #readUserRoles(node: Node, path: string): readonly Role[] {
    const roles: Role[] = [];
    for (const { text, place } of textsOf(node, path, "a list of roles", this.findings) ?? []) {
      const role = this.#roles.get(text);
      if (role !== undefined) roles.push(role);
      else {
        const says = `is a role that the file does not have; ` +
          suggestion(text, [...this.#roles.keys()], "role");
        this.findings.add(place, path, says, text);
      }
    }
    return roles;
  }

  #readClientIds(node: Node, path: string): readonly string[] | undefined {
    const { findings } = this;
    const items: Node = node.form === "scalar"
      ? { form: "list", place: node.place, items: [node] }
      : node;
    if (items.form === "list" && items.items.length === 0) {
      const says = "is empty and admits nobody; write a pattern, or leave it out for any client id";
      findings.add(node.place, path, says);
      return undefined;
    }
    const wanted = 'a pattern of client ids such as "%u-*", or a list of them';
    for (const { text, place } of textsOf(items, path, wanted, findings) ?? []) {
      const fault = text === ""
        ? "is empty and admits nobody; write a pattern, or leave it out for any client id"
        : text.includes("%c")
        ? "holds %c, which is the client id that the pattern is compared with; write %u or *"
        : patternFault(text, "client id");
      if (fault !== undefined) findings.add(place, path, fault, text);
    }
    return items.form === "list"
      ? items.items.flatMap((item) => item.form === "scalar" ? [item.text] : [])
      : undefined;
  }

  /** A figure that is left out is unbounded: the block stands in place of both broker-wide ones. */
  #readLimits(node: Node, path: string): PublishRates | undefined {
    const wanted = "publish_rate: and publish_bytes:";
    const entries = entriesOf(node, path, wanted, this.findings);
    if (entries === undefined) return undefined;
    const fields = fieldsOf(entries, path, Object.keys(LIMIT_KEYS), this.findings);
    return {
      messagesPerSecond: this.#limit(fields.get("publish_rate"), LIMIT_KEYS.publish_rate, path),
      bytesPerSecond: this.#limit(fields.get("publish_bytes"), LIMIT_KEYS.publish_bytes, path),
    };
  }

  #limit(entry: Entry | undefined, key: Key, path: string): number | undefined {
    if (entry === undefined) return undefined;
    const { value } = entry;
    if (value.form !== "scalar" || value.include) {
      refuseForm(value, below(path, entry.key), "a figure", this.findings);
      return undefined;
    }
    const reading = readValue(key, value);
    if (!("fault" in reading)) return Number(reading.value);
    this.findings.add(value.place, below(path, entry.key), reading.fault, value.text);
    return undefined;
  }
}

function patternFault(pattern: string, noun: string): string | undefined {
  if (pattern === "") return `is an empty pattern and matches nobody; write a ${noun}`;
  if (hasControlCharacter(pattern)) {
    return `holds a control character, which no ${noun} has; write another pattern`;
  }
  if (pattern.length > LONGEST_PATTERN) {
    return `is longer than ${LONGEST_PATTERN} characters; write a shorter pattern`;
  }
  return undefined;
}
