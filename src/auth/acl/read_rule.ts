/** One rule of a role: its subject, its verbs, its filter, and whether it can mean anything (02b 7.2). */
import type { Channel, Place } from "../../config/configuration.ts";
import type { Entry, Node } from "../../config/document.ts";
import { type Findings, quoted } from "../../config/finding.ts";
import { list } from "../../config/reading.ts";
import { expandBraces } from "../../topics/braces.ts";
import { filterFault, intersects, isFault, levelEnd, levels } from "../../topics/filter.ts";
import { TopicHolders } from "../../topics/holder.ts";
import {
  BROKER_VERBS,
  type BrokerRule,
  type BrokerSubject,
  CHANNEL_VERBS,
  type ChannelRule,
  type Feature,
  type FeatureRule,
  FEATURES,
  type Rule,
  TOPIC_VERBS,
  type TopicRule,
  type Verb,
} from "./document.ts";
import { below, entriesOf, fieldsOf, suggestion, textOf, textsOf } from "./nodes.ts";

const SUBJECTS = ["channel", "topic", "broker"] as const;
const KEYS = [...SUBJECTS, "filter", "allow", "deny"];
const BROKER_SUBJECTS = ["sessions", "features", "amqp"];

/** First levels under which no client is granted anything by a topic rule. */
const RESERVED = ["$saguin", "$SYS", "$share"];

/** What the rules are about. */
export interface World {
  /** As configured, derived dead-letter channels included. */
  readonly channels: readonly Channel[];
  readonly maxTopicLevels: number;
}

export class RuleReader {
  readonly #channels: ReadonlyMap<string, Channel>;
  readonly #holders: TopicHolders<Channel>;
  readonly #maxTopicLevels: number;

  constructor(world: World, private readonly findings: Findings) {
    this.#maxTopicLevels = world.maxTopicLevels;
    this.#channels = new Map(world.channels.map((channel) => [channel.name, channel]));
    this.#holders = new TopicHolders(
      world.channels.flatMap((channel) =>
        channel.filters.map((filter): [string, Channel] => [filter, channel])
      ),
    );
  }

  /** Undefined, with findings, for a rule that cannot be one. */
  read(node: Node, path: string): Rule | undefined {
    const entries = entriesOf(node, path, "channel:, topic: or broker: with allow:", this.findings);
    if (entries === undefined) return undefined;
    const fields = fieldsOf(entries, path, KEYS, this.findings);
    const subjects = SUBJECTS.filter((name) => fields.has(name));
    if (subjects.length !== 1) {
      const says = subjects.length === 0
        ? "has no subject; write one of channel:, topic: and broker:"
        : `has the subjects ${subjects.join(" and ")}; write one rule for each`;
      this.findings.add(node.place, path, says);
      return undefined;
    }
    const subject = fields.get(subjects[0])!;
    switch (subjects[0]) {
      case "channel":
        return this.#channelRule(subject, fields, node.place, path);
      case "topic":
        return this.#topicRule(subject, fields, node.place, path);
      case "broker":
        return this.#brokerRule(subject, fields, node.place, path);
    }
  }

  // ------------------------------------------------------------------------------------- channels

  #channelRule(
    subject: Entry,
    fields: ReadonlyMap<string, Entry>,
    place: Place,
    path: string,
  ): ChannelRule | undefined {
    this.#refuseDeny(fields, path);
    const name = this.#text(subject, path, "the name of a channel");
    if (name === undefined) return undefined;
    const channel = this.#channels.get(name);
    if (channel === undefined) {
      const says = name.includes("%")
        ? "holds a %, and substitution is not allowed in a channel name; write filter: with it"
        : `is a channel that is not configured; ` +
          suggestion(name, [...this.#channels.keys()], "channel");
      this.findings.add(subject.value.place, below(path, "channel"), says, name);
      return undefined;
    }
    const verbs = this.#verbs(fields, path, CHANNEL_VERBS[channel.type], channel);
    const entry = fields.get("filter");
    if (entry === undefined) {
      return { kind: "channel", place, channel: name, written: undefined, filters: [], verbs };
    }
    const written = this.#text(entry, path, "a topic filter inside the channel's");
    if (written === undefined) return undefined;
    const filters = this.#filters(written, entry, path);
    if (filters === undefined) return undefined;
    const apart = filters.find((filter) =>
      !channel.filters.some((claimed) => intersects(claimed, filter))
    );
    if (apart !== undefined) {
      const which = apart === written ? "" : ` as ${quoted(apart)}`;
      const says = `shares no topic${which} with the filter ${quoted(channel.filter)} of channel ` +
        `${quoted(name)}; write a filter that reaches into it`;
      this.findings.add(entry.value.place, below(path, "filter"), says, written);
      return undefined;
    }
    return { kind: "channel", place, channel: name, written, filters, verbs };
  }

  // --------------------------------------------------------------------------------------- topics

  #topicRule(
    subject: Entry,
    fields: ReadonlyMap<string, Entry>,
    place: Place,
    path: string,
  ): TopicRule | undefined {
    this.#refuseDeny(fields, path);
    this.#refuseFilter(fields, path);
    const verbs = this.#verbs(fields, path, TOPIC_VERBS, undefined);
    const written = this.#text(subject, path, "a topic filter");
    if (written === undefined) return undefined;
    const filters = this.#filters(written, subject, path);
    if (filters === undefined) return undefined;
    for (const filter of filters) {
      const fault = this.#topicFault(filter, written);
      if (fault === undefined) continue;
      this.findings.add(subject.value.place, below(path, "topic"), fault, written);
      return undefined;
    }
    return { kind: "topic", place, written, filters, verbs };
  }

  #topicFault(filter: string, written: string): string | undefined {
    const first = filter.slice(0, levelEnd(filter, 0));
    if (RESERVED.includes(first)) {
      return `is under ${first}, which no topic rule opens; what is done there is granted by the ` +
        "verbs of a channel or of broker: sessions";
    }
    const inside = this.#holders.inside(filter);
    if (inside === undefined) return undefined;
    const which = filter === written ? "" : ` as ${quoted(filter)}`;
    return `lies${which} inside the filter ${quoted(inside.value.filter)} of channel ` +
      `${quoted(inside.value.name)}, whose topics no topic rule is asked about; ` +
      `write channel: ${inside.value.name}, with filter: if it is to be narrower`;
  }

  // --------------------------------------------------------------------------------------- broker

  #brokerRule(
    subject: Entry,
    fields: ReadonlyMap<string, Entry>,
    place: Place,
    path: string,
  ): BrokerRule | FeatureRule | undefined {
    this.#refuseFilter(fields, path);
    const name = this.#text(subject, path, list(BROKER_SUBJECTS));
    if (name === undefined) return undefined;
    if (name === "features") {
      const allow = fields.get("allow");
      if (allow === undefined) {
        return { kind: "features", place, denies: this.#denies(fields, place, path) };
      }
      const says = "does not go with broker: features, of which everything is allowed that no " +
        "rule denies; write deny:";
      this.findings.add(allow.place, below(path, "allow"), says);
      return undefined;
    }
    this.#refuseDeny(fields, path);
    if (!Object.hasOwn(BROKER_VERBS, name)) {
      const says = `is nothing of the broker's; ${suggestion(name, BROKER_SUBJECTS, "subject")}`;
      this.findings.add(subject.value.place, below(path, "broker"), says, name);
      return undefined;
    }
    const of = name as BrokerSubject;
    const verbs = this.#words(fields, path, "allow", [BROKER_VERBS[of]], `broker: ${of}`);
    return { kind: "broker", place, subject: of, verbs: verbs?.map(({ text }) => text) ?? [] };
  }

  #denies(fields: ReadonlyMap<string, Entry>, place: Place, path: string): readonly Feature[] {
    const key = below(path, "deny");
    const entry = fields.get("deny");
    if (entry === undefined) {
      this.findings.add(place, key, `is missing; write a list of ${list(FEATURES)}`);
      return [];
    }
    const texts = textsOf(entry.value, key, `a list of ${list(FEATURES)}`, this.findings) ?? [];
    if (entry.value.form === "list" && entry.value.items.length === 0) {
      this.findings.add(entry.value.place, key, "denies nothing; remove the rule");
    }
    const denied: Feature[] = [];
    for (const { text, place } of texts) {
      const feature = FEATURES.find((name) => name === text);
      if (feature !== undefined) denied.push(feature);
      else {
        const says = text === "retain"
          ? "is the flag of a publish; the feature is called retained, write that"
          : `is no feature; ${suggestion(text, FEATURES, "feature")}`;
        this.findings.add(place, key, says, text);
      }
    }
    return denied;
  }

  // ---------------------------------------------------------------------------------- what is shared

  #text(entry: Entry, path: string, wanted: string): string | undefined {
    const key = below(path, entry.key);
    const text = textOf(entry.value, key, wanted, this.findings)?.text;
    if (text !== "") return text;
    this.findings.add(entry.value.place, key, `is empty; write ${wanted}`);
    return undefined;
  }

  /** The plain filters of a written one; `%u` and `%c` count as ordinary characters in them. */
  #filters(written: string, entry: Entry, path: string): readonly string[] | undefined {
    const refuse = (says: string): undefined => {
      this.findings.add(entry.value.place, below(path, entry.key), says, written);
      return undefined;
    };
    const expanded = expandBraces(written);
    if (isFault(expanded)) {
      return refuse(`is no topic filter: ${expanded.fault}; write every spelling as {a,b}`);
    }
    for (const filter of expanded) {
      const fault = filterFault(filter);
      if (fault !== undefined) {
        return refuse(
          `is no topic filter: ${fault}; write whole levels, + for one, # for the rest`,
        );
      }
      // deno-lint-ignore no-control-regex
      if (/[\x00-\x1f\x7f-\x9f]/.test(filter)) {
        return refuse("holds a control character, with which no topic is meant; remove it");
      }
      if (levels(filter) > this.#maxTopicLevels) {
        return refuse(
          `has ${levels(filter)} levels, more than limits.max_topic_levels ` +
            `(${this.#maxTopicLevels}); shorten it, or raise the limit`,
        );
      }
    }
    return expanded;
  }

  #verbs(
    fields: ReadonlyMap<string, Entry>,
    path: string,
    valid: readonly Verb[],
    channel: Channel | undefined,
  ): readonly Verb[] {
    const noun = channel === undefined ? "a broadcast topic" : `a channel of type ${channel.type}`;
    const texts = this.#words(
      fields,
      path,
      "allow",
      valid,
      noun,
      (verb) =>
        channel?.type === "queue" && verb === "read"
          ? "is not granted on a queue, which cannot be watched; how much it holds is in its metrics"
          : undefined,
    ) ?? [];
    return valid.filter((verb) => texts.some(({ text }) => text === verb));
  }

  /** The words of a list of which `valid` are meant; `special` has its own word on some others. */
  #words(
    fields: ReadonlyMap<string, Entry>,
    path: string,
    name: string,
    valid: readonly string[],
    noun: string,
    special: (text: string) => string | undefined = () => undefined,
  ) {
    const key = below(path, name);
    const entry = fields.get(name);
    if (entry === undefined) {
      const says = `is missing, and nothing is granted without it; write a list of ${list(valid)}`;
      this.findings.add(fields.values().next().value!.place, key, says);
      return undefined;
    }
    const wanted = `a list of ${list(valid)}`;
    const texts = textsOf(entry.value, key, wanted, this.findings);
    if (entry.value.form === "list" && entry.value.items.length === 0) {
      this.findings.add(entry.value.place, key, `grants nothing; write ${wanted}`);
    }
    for (const { text, place } of texts ?? []) {
      if (valid.includes(text)) continue;
      const says = special(text) ?? `is no verb of ${noun}; write ${list(valid)}`;
      this.findings.add(place, key, says, text);
    }
    return texts?.filter(({ text }) => valid.includes(text));
  }

  #refuseDeny(fields: ReadonlyMap<string, Entry>, path: string): void {
    const entry = fields.get("deny");
    if (entry === undefined) return;
    const says = "goes with broker: features only: what is not granted here is refused as it is";
    this.findings.add(entry.place, below(path, "deny"), `${says}; remove it`);
  }

  #refuseFilter(fields: ReadonlyMap<string, Entry>, path: string): void {
    const entry = fields.get("filter");
    if (entry === undefined) return;
    const says = "goes with channel: only, where it narrows the grant; remove it";
    this.findings.add(entry.place, below(path, "filter"), says);
  }
}
