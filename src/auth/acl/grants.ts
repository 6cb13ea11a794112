/**
 * What is granted, compiled from the rules of an entry's roles: for each channel and verb the filters
 * under which it may be done, and the same for broadcast topics. Everything is a union; nothing here
 * refuses. What reads alike for all clients of an entry is kept once; a client has of its own only the
 * filters with its names in them, since there may be as many clients as the broker has connections.
 */
import type { Channel } from "../../config/configuration.ts";
import { covers, intersects, matches } from "../../topics/filter.ts";
import { intersection } from "./coverage.ts";
import {
  BROKER_VERBS,
  CHANNEL_VERBS,
  type ChannelRule,
  type Feature,
  type Rule,
  type TopicRule,
  type UserEntry,
  type Verb,
} from "./document.ts";
import { Reach } from "./reach.ts";
import { isTemplate, type Subject, substitute, withheld } from "./substitution.ts";

type Reaches = Map<Verb, Reach>;
type NarrowedRule = ChannelRule | TopicRule;

/** What an entry of `users:` grants to everybody it is about, and what it grants by name. */
export class EntryGrants {
  readonly #channels = new Map<string, Reaches>();
  readonly #topics: Reaches = new Map();
  readonly #denied = new Set<Feature>();
  /** Rules with `%u` or `%c`. */
  readonly #templates: NarrowedRule[] = [];
  readonly #forEverybody: Grants | undefined;
  mayDisconnect = false;
  mayConnectAmqp = false;

  constructor(entry: UserEntry) {
    for (const role of entry.roles) {
      for (const rule of role.rules) this.#add(rule);
    }
    this.#forEverybody = this.#templates.length === 0 ? new Grants(this, NOTHING_OWN) : undefined;
  }

  #add(rule: Rule): void {
    switch (rule.kind) {
      case "features":
        for (const feature of rule.denies) this.#denied.add(feature);
        return;
      case "broker":
        if (rule.verbs.includes(BROKER_VERBS.sessions)) this.mayDisconnect = true;
        if (rule.verbs.includes(BROKER_VERBS.amqp)) this.mayConnectAmqp = true;
        return;
      case "topic":
      case "channel":
        if (rule.filters.some(isTemplate)) this.#templates.push(rule);
        else for (const verb of rule.verbs) this.#open(rule, verb);
    }
  }

  #open(rule: NarrowedRule, verb: Verb): void {
    const reaches = this.#reaches(rule);
    let reach = reaches.get(verb);
    if (reach === undefined) reaches.set(verb, reach = new Reach());
    if (rule.kind === "channel" && rule.written === undefined) reach.whole = true;
    for (const filter of rule.filters) {
      if (!reach.filters.includes(filter)) reach.filters.push(filter);
    }
  }

  #reaches(rule: NarrowedRule): Reaches {
    if (rule.kind === "topic") return this.#topics;
    let reaches = this.#channels.get(rule.channel);
    if (reaches === undefined) this.#channels.set(rule.channel, reaches = new Map());
    return reaches;
  }

  /** The grants as they read for `subject`; a rule withheld from it grants nothing. */
  for(subject: Subject): Grants {
    if (this.#forEverybody !== undefined) return this.#forEverybody;
    const own: OwnGrant[] = [];
    for (const rule of this.#templates) {
      if (withheld(rule.filters, subject) !== undefined) continue;
      for (const filter of rule.filters) own.push({ rule, filter: substitute(filter, subject) });
    }
    return new Grants(this, own);
  }

  reach(verb: Verb, channel: string | undefined): Reach | undefined {
    return (channel === undefined ? this.#topics : this.#channels.get(channel))?.get(verb);
  }

  denies(feature: Feature): boolean {
    return this.#denied.has(feature);
  }
}

/** A filter with a client's names in it, and the rule that it comes from. */
interface OwnGrant {
  readonly rule: NarrowedRule;
  readonly filter: string;
}

const NOTHING_OWN: readonly OwnGrant[] = [];

/** One client's. */
export class Grants {
  constructor(readonly entry: EntryGrants, private readonly own: readonly OwnGrant[]) {}

  /** Whether `verb` is granted for `topic` of `channel`; of broadcast where `channel` is undefined. */
  includes(verb: Verb, topic: string, channel: string | undefined): boolean {
    if (this.entry.reach(verb, channel)?.includes(topic) === true) return true;
    for (const { rule, filter } of this.own) {
      if (isAbout(rule, verb, channel) && matches(filter, topic)) return true;
    }
    return false;
  }

  /** Whether `verb` is granted on any part of `channel`. */
  #some(verb: Verb, channel: string): boolean {
    return this.entry.reach(verb, channel) !== undefined ||
      this.own.some(({ rule }) => isAbout(rule, verb, channel));
  }

  /** Whether `verb` is granted on all of `channel`, or on all of its part that `filter` matches. */
  all(verb: Verb, channel: Channel, filter: string | undefined): boolean {
    if (this.entry.reach(verb, channel.name)?.whole === true) return true;
    return channel.filters.every((claimed) => {
      const part = filter === undefined ? claimed : intersection(claimed, filter);
      return part === undefined || this.#cover(verb, channel.name, part);
    });
  }

  /** Whether one topic rule grants reading everything that `filter` matches. */
  coversBroadcast(filter: string): boolean {
    return this.#cover("read", undefined, filter);
  }

  #cover(verb: Verb, channel: string | undefined, filter: string): boolean {
    return this.entry.reach(verb, channel)?.covers(filter) === true ||
      this.own.some((grant) => isAbout(grant.rule, verb, channel) && covers(grant.filter, filter));
  }

  /** In the order of the catalogue. */
  verbs(channel: Channel): readonly Verb[] {
    return CHANNEL_VERBS[channel.type].filter((verb) =>
      // A queue's job goes to whoever is free, so that half a queue cannot be consumed.
      verb === "consume" ? this.all(verb, channel, undefined) : this.#some(verb, channel.name)
    );
  }
}

function isAbout(rule: NarrowedRule, verb: Verb, channel: string | undefined): boolean {
  const of = rule.kind === "channel" ? rule.channel : undefined;
  return of === channel && rule.verbs.includes(verb);
}

/** Channels that a subscription to `filter` touches (02a 2). */
export function touched(channels: ReadonlyMap<string, Channel>, filter: string): Channel[] {
  const found: Channel[] = [];
  for (const channel of channels.values()) {
    if (channel.filters.some((claimed) => intersects(claimed, filter))) found.push(channel);
  }
  return found;
}
