/** What the broker asks about one client. The ACL only narrows: structural refusals come before (02b 7.5). */
import type { Channel } from "../../config/configuration.ts";
import { covers } from "../../topics/filter.ts";
import type { PublishRates } from "../publish_rates.ts";
import { CHANNEL_VERBS, type Feature, type Rule, type UserEntry, type Verb } from "./document.ts";
import { type Grants, touched } from "./grants.ts";
import { type Subject, withheld } from "./substitution.ts";

const QUEUE_FORM = "$saguin/queue/";
const SEEK_REPLY = /^\$saguin\/consumer\/([^/]+)\/seek\/reply$/;

/** `channel` is always the name of the channel that holds the topic; undefined where none does. */
export interface ClientRules {
  /** A publish; `empty`: its payload has no byte, which on a `latest` channel is a deletion. */
  mayPublish(topic: string, channel: string | undefined, empty: boolean): boolean;
  /**
   * A filter that passed every structural rule: an ordinary one, the inner one of a shared
   * subscription, `$saguin/queue/<queue>`, or a seek reply. Granted whole or not at all.
   */
  maySubscribe(filter: string): boolean;
  /** One delivery, one current value, one point read. */
  mayRead(topic: string, channel: string | undefined): boolean;
  /** Being a worker of a queue, and answering its jobs. */
  mayConsume(queue: string): boolean;
  maySeek(channel: string): boolean;
  /** What may be done on any part of a channel, in the order of the catalogue. */
  verbs(channel: string): readonly Verb[];
  denies(feature: Feature): boolean;
  /** Ending another client's connection. */
  readonly mayDisconnect: boolean;
  readonly mayConnectAmqp: boolean;
  readonly rates: PublishRates;
  /** Rules of the client's roles that grant it nothing for what its names hold; logged once. */
  readonly withheld: readonly WithheldRule[];
}

export interface WithheldRule {
  readonly role: string;
  readonly rule: Rule;
}

/** Every configured channel by name, derived dead-letter channels included. */
export type Channels = ReadonlyMap<string, Channel>;

/** Without an ACL file (02b 7.1). */
export class EverythingAllowed implements ClientRules {
  readonly mayDisconnect = true;
  readonly mayConnectAmqp = true;
  readonly withheld = [];

  constructor(
    private readonly channels: Channels,
    readonly rates: PublishRates,
  ) {}

  mayPublish(): boolean {
    return true;
  }

  maySubscribe(): boolean {
    return true;
  }

  mayRead(): boolean {
    return true;
  }

  mayConsume(): boolean {
    return true;
  }

  maySeek(): boolean {
    return true;
  }

  verbs(channel: string): readonly Verb[] {
    const found = this.channels.get(channel);
    return found === undefined ? [] : CHANNEL_VERBS[found.type];
  }

  denies(): boolean {
    return false;
  }
}

/** Of a user that an entry of the ACL file is about; `grants` undefined: of one that none is about. */
export class GrantedRules implements ClientRules {
  readonly withheld: readonly WithheldRule[];

  constructor(
    private readonly channels: Channels,
    private readonly grants: Grants | undefined,
    readonly rates: PublishRates,
    entry: UserEntry | undefined,
    subject: Subject,
  ) {
    this.withheld = entry === undefined ? NONE_WITHHELD : withheldRules(entry, subject);
  }

  mayPublish(topic: string, channel: string | undefined, empty: boolean): boolean {
    if (this.grants === undefined) return false;
    const deletes = empty && channel !== undefined && this.channels.get(channel)?.type === "latest";
    return this.grants.includes(deletes ? "delete" : "write", topic, channel);
  }

  maySubscribe(filter: string): boolean {
    const { grants } = this;
    if (grants === undefined) return false;
    if (filter.startsWith(QUEUE_FORM)) return this.mayConsume(filter.slice(QUEUE_FORM.length));
    const reply = SEEK_REPLY.exec(filter);
    if (reply !== null) return this.maySeek(reply[1]);
    const reached = touched(this.channels, filter);
    // The records of a queue that is crossed are left out anyway, so nothing is asked of it.
    const readable = reached.every((channel) =>
      channel.type === "queue" || grants.all("read", channel, filter)
    );
    if (!readable) return false;
    // Only a shared filter can lie inside a queue; it is served nothing, and still nobody's for free.
    const inside = reached.some((channel) =>
      channel.filters.some((claimed) => covers(claimed, filter)) &&
      (channel.type !== "queue" || grants.verbs(channel).length > 0)
    );
    return inside || grants.coversBroadcast(filter);
  }

  mayRead(topic: string, channel: string | undefined): boolean {
    return this.grants !== undefined && this.grants.includes("read", topic, channel);
  }

  mayConsume(queue: string): boolean {
    return this.verbs(queue).includes("consume");
  }

  maySeek(channel: string): boolean {
    return this.verbs(channel).includes("seek");
  }

  verbs(channel: string): readonly Verb[] {
    const found = this.channels.get(channel);
    return found === undefined || this.grants === undefined ? [] : this.grants.verbs(found);
  }

  denies(feature: Feature): boolean {
    return this.grants !== undefined && this.grants.entry.denies(feature);
  }

  get mayDisconnect(): boolean {
    return this.grants !== undefined && this.grants.entry.mayDisconnect;
  }

  get mayConnectAmqp(): boolean {
    return this.grants !== undefined && this.grants.entry.mayConnectAmqp;
  }
}

/** Most entries have none: nothing is made for them. */
const NONE_WITHHELD: readonly WithheldRule[] = [];

function withheldRules(entry: UserEntry, subject: Subject): readonly WithheldRule[] {
  let found: WithheldRule[] | undefined;
  for (const { name, rules } of entry.roles) {
    for (const rule of rules) {
      if (!("filters" in rule) || withheld(rule.filters, subject) === undefined) continue;
      (found ??= []).push({ role: name, rule });
    }
  }
  return found ?? NONE_WITHHELD;
}
