/** One ACL file at work: which entry is in force for a user, and what it comes to for a client. */
import type { Channel } from "../../config/configuration.ts";
import type { PublishRates } from "../publish_rates.ts";
import { type Channels, type ClientRules, GrantedRules } from "./client_rules.ts";
import type { AclDocument, UserEntry } from "./document.ts";
import { EntryGrants } from "./grants.ts";
import { Pattern } from "./pattern.ts";
import type { AclWorld } from "./read.ts";

export class Acl {
  readonly #channels: Channels;
  /** Figures of everybody whose entry has none of its own. */
  readonly broadRates: PublishRates;
  readonly #exact = new Map<string, UserEntry>();
  /** Entries with a star, the most literal first. */
  readonly #open: readonly UserEntry[];
  /** Of the entries that some client has needed; a file may have one for every device. */
  readonly #grants = new Map<UserEntry, EntryGrants>();

  /** `document` was read against the same world without a finding. */
  constructor(readonly document: AclDocument, world: AclWorld) {
    this.#channels = channelsByName(world.channels);
    this.broadRates = broadRates(world);
    for (const entry of document.entries) {
      if (entry.pattern.exact) this.#exact.set(entry.pattern.text, entry);
    }
    this.#open = document.entries
      .filter(({ pattern }) => !pattern.exact)
      .sort((a, b) => b.pattern.literals - a.pattern.literals);
  }

  /** Every entry that matches, the one in force first, the others from most to least literal. */
  matching(user: string): readonly UserEntry[] {
    const exact = this.#exact.get(user);
    const open = this.#open.filter(({ pattern }) => pattern.matches(user));
    return exact === undefined ? open : [exact, ...open];
  }

  /**
   * The entry that supplies everything (02b 7.4); undefined for a user that none matches. A plain name
   * is as literal as anything that matches it, and a tie is no ACL file.
   */
  entry(user: string): UserEntry | undefined {
    return this.#exact.get(user) ?? this.#open.find(({ pattern }) => pattern.matches(user));
  }

  /** What the client may do; made at a CONNECT and after a reload, asked from then on. */
  rules(user: string, clientId: string): ClientRules {
    const entry = this.entry(user);
    const subject = { user, clientId };
    const grants = entry && this.#grantsOf(entry).for(subject);
    return new GrantedRules(this.#channels, grants, this.rates(entry), entry, subject);
  }

  #grantsOf(entry: UserEntry): EntryGrants {
    let grants = this.#grants.get(entry);
    if (grants === undefined) this.#grants.set(entry, grants = new EntryGrants(entry));
    return grants;
  }

  rates(entry: UserEntry | undefined): PublishRates {
    return entry?.limits ?? this.broadRates;
  }

  /**
   * Whether `client_ids:` of the entry in force lets the user have that id: the one in the CONNECT,
   * empty when the broker is to make one (02b 19).
   */
  admits(user: string, clientId: string): boolean {
    const patterns = this.entry(user)?.clientIds;
    return patterns === undefined ||
      patterns.some((pattern) => clientIdMatches(pattern, user, clientId));
  }
}

/** A name that holds a star would open the pattern, so it is not put in and the pattern admits nothing. */
function clientIdMatches(pattern: string, user: string, clientId: string): boolean {
  if (!pattern.includes("%u")) return new Pattern(pattern).matches(clientId);
  if (user.includes("*")) return false;
  return new Pattern(pattern.replaceAll("%u", () => user)).matches(clientId);
}

export function channelsByName(channels: readonly Channel[]): Channels {
  return new Map(channels.map((channel) => [channel.name, channel]));
}

export function broadRates({ limits }: AclWorld): PublishRates {
  return { messagesPerSecond: limits.publishRate, bytesPerSecond: limits.publishBytes };
}
