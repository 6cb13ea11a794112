/** Why a user may do what it may: for `--acl` and the operations route of the same name (05 section 7.1). */
import type { PublishRates } from "../publish_rates.ts";
import type { Acl } from "./acl.ts";
import type { Feature, Rule, UserEntry } from "./document.ts";
import { type Subject, substitute, usesClientId, type Withheld, withheld } from "./substitution.ts";

/** One grant: a rule under one spelling of its filter. */
export interface GrantRow {
  readonly role: string;
  readonly kind: "channel" | "topic" | "broker";
  /** `<channel>`, `<channel> (<filter>)`, `<filter>`, or `sessions`, `features` and `amqp`. */
  readonly subject: string;
  readonly verbs: readonly string[];
  readonly denies: readonly Feature[];
}

/** A rule that grants nothing, as the file writes it. */
export interface WithheldRow extends GrantRow {
  readonly because: Withheld;
}

export interface Explanation {
  readonly user: string;
  readonly clientId: string | undefined;
  /** Path of the ACL file. */
  readonly file: string;
  /** The entry in force; undefined when no pattern matches. */
  readonly entry: UserEntry | undefined;
  /** What else matches and contributes nothing, from most to least literal. */
  readonly shadowed: readonly UserEntry[];
  readonly patterns: readonly string[];
  readonly grants: readonly GrantRow[];
  readonly withheld: readonly WithheldRow[];
  /** Undefined when no client id was given. */
  readonly clientIdAllowed: boolean | undefined;
  readonly rates: PublishRates;
  /** Some rule of the file is about the client id, which everybody chooses freely. */
  readonly usesClientId: boolean;
}

export function explain(acl: Acl, user: string, clientId: string | undefined): Explanation {
  const [entry, ...shadowed] = acl.matching(user);
  const subject = { user, clientId };
  const grants: GrantRow[] = [];
  const held: WithheldRow[] = [];
  for (const { name, rules } of entry?.roles ?? []) {
    for (const rule of rules) {
      const because = "filters" in rule ? withheld(rule.filters, subject) : undefined;
      if (because === undefined) grants.push(...rows(name, rule, subject));
      else held.push({ ...row(name, rule, written(rule)), because });
    }
  }
  return {
    user,
    clientId,
    file: acl.document.file,
    entry,
    shadowed,
    patterns: acl.document.entries.map(({ pattern }) => pattern.text),
    grants,
    withheld: held,
    clientIdAllowed: clientId === undefined ? undefined : acl.admits(user, clientId),
    rates: acl.rates(entry),
    usesClientId: fileUsesClientId(acl),
  };
}

function fileUsesClientId({ document }: Acl): boolean {
  for (const { rules } of document.roles.values()) {
    if (rules.some((rule) => "filters" in rule && rule.filters.some(usesClientId))) return true;
  }
  return false;
}

function rows(role: string, rule: Rule, subject: Subject): GrantRow[] {
  if (!("filters" in rule) || rule.filters.length === 0) return [row(role, rule, written(rule))];
  return rule.filters.map((filter) => row(role, rule, named(rule, substitute(filter, subject))));
}

function row(role: string, rule: Rule, subject: string): GrantRow {
  const kind = rule.kind === "features" ? "broker" : rule.kind;
  return rule.kind === "features"
    ? { role, kind, subject, verbs: [], denies: rule.denies }
    : { role, kind, subject, verbs: rule.verbs, denies: [] };
}

function written(rule: Rule): string {
  switch (rule.kind) {
    case "channel":
      return rule.written === undefined ? rule.channel : named(rule, rule.written);
    case "topic":
      return rule.written;
    case "broker":
      return rule.subject;
    case "features":
      return "features";
  }
}

function named(rule: Rule, filter: string): string {
  return rule.kind === "channel" ? `${rule.channel} (${filter})` : filter;
}

/** The body of the operations route, and what `--acl --json` prints for one user. */
export function explanationBody(explanation: Explanation) {
  const { user, file, entry, shadowed, patterns, grants, clientIdAllowed } = explanation;
  const matched = entry === undefined ? [] : [entry, ...shadowed];
  return {
    user,
    acl_file: file,
    pattern_applied: entry?.pattern.text ?? null,
    patterns_matched: matched.map(({ pattern }) => pattern.text),
    patterns_in_file: patterns,
    grants,
    grants_withheld: explanation.withheld.map(({ because: _, ...asWritten }) => asWritten),
    client_id_allowed: clientIdAllowed ?? null,
  };
}

/** The same where there is no `acl_file`. */
export const EVERYTHING_ALLOWED_BODY = { acl_file: null, everything_allowed: true } as const;
