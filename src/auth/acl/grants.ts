/**
 * What one client is granted, compiled from the rules of its roles: for each channel and verb the filters
 * under which it may, and the same for broadcast topics. Everything is a union; nothing here refuses.
 */
import type { Channel } from "../../config/configuration.ts";
import { covers, intersects, matches } from "../../topics/filter.ts";
import { intersection } from "./coverage.ts";
import {
  BROKER_VERBS,
  CHANNEL_VERBS,
  type Feature,
  type Rule,
  type UserEntry,
  type Verb,
} from "./document.ts";
import { isTemplate, type Subject, substitute, withheld } from "./substitution.ts";

/** Fewer filters than these are compared anew each time: looking an answer up would not be faster. */
const FILTERS_WORTH_REMEMBERING = 4;
const REMEMBERED_TOPICS = 1_024;

/** Topics of one verb on one channel, or of one verb on broadcast. */
class Reach {
  /** The whole channel. */
  whole = false;
  readonly filters: string[] = [];
  readonly #remembered = new Map<string, boolean>();

  includes(topic: string): boolean {
    if (this.whole) return true;
    if (this.filters.length < FILTERS_WORTH_REMEMBERING) return this.#compare(topic);
    let found = this.#remembered.get(topic);
    if (found === undefined) {
      found = this.#compare(topic);
      if (this.#remembered.size >= REMEMBERED_TOPICS) this.#remembered.clear();
      this.#remembered.set(topic, found);
    }
    return found;
  }

  #compare(topic: string): boolean {
    for (const filter of this.filters) {
      if (matches(filter, topic)) return true;
    }
    return false;
  }

  /** Whether one grant reaches everything that `filter` matches. */
  covers(filter: string): boolean {
    return this.whole || this.filters.some((granted) => covers(granted, filter));
  }
}

type Reaches = Map<Verb, Reach>;

export class Grants {
  readonly #channels = new Map<string, Reaches>();
  readonly #topics: Reaches = new Map();
  readonly #denied = new Set<Feature>();
  #mayDisconnect = false;
  #mayConnectAmqp = false;

  /** The rules of `entry` as they read for `subject`; a rule withheld from it grants nothing. */
  constructor(entry: UserEntry, subject: Subject) {
    for (const role of entry.roles) {
      for (const rule of role.rules) this.#add(rule, subject);
    }
  }

  #add(rule: Rule, subject: Subject): void {
    switch (rule.kind) {
      case "features":
        for (const feature of rule.denies) this.#denied.add(feature);
        return;
      case "broker":
        if (rule.verbs.includes(BROKER_VERBS.sessions)) this.#mayDisconnect = true;
        if (rule.verbs.includes(BROKER_VERBS.amqp)) this.#mayConnectAmqp = true;
        return;
      case "topic":
        for (const verb of rule.verbs) addFilters(reachOf(this.#topics, verb), rule, subject);
        return;
      case "channel": {
        let reaches = this.#channels.get(rule.channel);
        if (reaches === undefined) this.#channels.set(rule.channel, reaches = new Map());
        for (const verb of rule.verbs) {
          const reach = reachOf(reaches, verb);
          if (rule.written === undefined) reach.whole = true;
          else addFilters(reach, rule, subject);
        }
      }
    }
  }

  /** Whether `verb` is granted for `topic` of `channel`; of broadcast where `channel` is undefined. */
  includes(verb: Verb, topic: string, channel: string | undefined): boolean {
    const reaches = channel === undefined ? this.#topics : this.#channels.get(channel);
    return reaches?.get(verb)?.includes(topic) === true;
  }

  /** Whether `verb` is granted on any part of `channel`. */
  some(verb: Verb, channel: string): boolean {
    const reach = this.#channels.get(channel)?.get(verb);
    return reach !== undefined && (reach.whole || reach.filters.length > 0);
  }

  /** Whether `verb` is granted on all of `channel`, or on all of its part that `filter` matches. */
  all(verb: Verb, channel: Channel, filter: string | undefined): boolean {
    const reach = this.#channels.get(channel.name)?.get(verb);
    if (reach === undefined) return false;
    if (reach.whole) return true;
    return channel.filters.every((claimed) => {
      const part = filter === undefined ? claimed : intersection(claimed, filter);
      return part === undefined || reach.covers(part);
    });
  }

  /** Whether one topic rule grants reading everything that `filter` matches. */
  coversBroadcast(filter: string): boolean {
    return this.#topics.get("read")?.covers(filter) === true;
  }

  /** In the order of the catalogue. */
  verbs(channel: Channel): readonly Verb[] {
    return CHANNEL_VERBS[channel.type].filter((verb) =>
      // A queue's job goes to whoever is free, so that half a queue cannot be consumed.
      verb === "consume" ? this.all(verb, channel, undefined) : this.some(verb, channel.name)
    );
  }

  denies(feature: Feature): boolean {
    return this.#denied.has(feature);
  }

  get mayDisconnect(): boolean {
    return this.#mayDisconnect;
  }

  get mayConnectAmqp(): boolean {
    return this.#mayConnectAmqp;
  }
}

function reachOf(reaches: Reaches, verb: Verb): Reach {
  let reach = reaches.get(verb);
  if (reach === undefined) reaches.set(verb, reach = new Reach());
  return reach;
}

function addFilters(
  reach: Reach,
  { filters }: { readonly filters: readonly string[] },
  subject: Subject,
): void {
  if (withheld(filters, subject) !== undefined) return;
  for (const filter of filters) {
    const granted = substitute(filter, subject);
    if (!reach.filters.includes(granted)) reach.filters.push(granted);
  }
}

/** Whether the rules of an entry read alike for all its clients. */
export function isForEverybody(entry: UserEntry): boolean {
  return entry.roles.every(({ rules }) =>
    rules.every((rule) => !("filters" in rule) || !rule.filters.some(isTemplate))
  );
}

/** Channels that a subscription to `filter` touches (02a 2). */
export function touched(channels: ReadonlyMap<string, Channel>, filter: string): Channel[] {
  const found: Channel[] = [];
  for (const channel of channels.values()) {
    if (channel.filters.some((claimed) => intersects(claimed, filter))) found.push(channel);
  }
  return found;
}
