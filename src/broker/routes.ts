import { TopicHolders } from "../topics/holder.ts";
import { levels, topicFault } from "../topics/filter.ts";
import { utf8Length } from "../storage/record.ts";
import type { Limits } from "../config/configuration.ts";
import type { AppendChannel } from "./channels/append.ts";
import type { LatestChannel } from "./channels/latest.ts";
import type { QueueChannel } from "./channels/queue.ts";
import { Reason, type Refusal } from "./reason.ts";

export type Channel = AppendChannel | LatestChannel | QueueChannel;

/** Where a publish to a topic goes; the same for every publish to it while the broker runs. */
export type Route =
  | { readonly kind: "channel"; readonly channel: Channel }
  | { readonly kind: "broadcast" }
  /** One of the five request topics under `$saguin/` (06 section 1). */
  | { readonly kind: "control"; readonly request: ControlTopic }
  | { readonly kind: "refused"; readonly refusal: Refusal };

export type ControlTopic =
  | { readonly verb: "catalogue"; readonly channel: string }
  | { readonly verb: "get" }
  | { readonly verb: "seek"; readonly channel: string }
  | { readonly verb: "response"; readonly queue: string }
  | { readonly verb: "disconnect" };

/** A channel with the plain filters it claims topics by. */
export interface Placement {
  readonly channel: Channel;
  readonly filters: readonly string[];
  /** A derived `<queue>__dlq`, which no client publishes into. */
  readonly deadLetter: boolean;
}

/** Topics whose route is remembered; publishers repeat topics. */
const CACHED_TOPICS = 8_192;

const RESERVED = "$saguin/";
const NOT_DEFINED = "this is not a topic saguin defines";

/** Resolves topics to channels, broadcast, or a refusal that depends on the topic alone. */
export class Routes {
  readonly #holders: TopicHolders<Placement>;
  readonly #byName = new Map<string, Placement>();
  #cache = new Map<string, Route>();

  constructor(placements: readonly Placement[], private readonly limits: Limits) {
    const claims: [string, Placement][] = [];
    for (const placement of placements) {
      this.#byName.set(placement.channel.name, placement);
      for (const filter of placement.filters) claims.push([filter, placement]);
    }
    this.#holders = new TopicHolders(claims);
  }

  channel(name: string): Channel | undefined {
    return this.#byName.get(name)?.channel;
  }

  placements(): Iterable<Placement> {
    return this.#byName.values();
  }

  placement(name: string): Placement | undefined {
    return this.#byName.get(name);
  }

  /** The channel that holds `topic`, dead-letter channels included. */
  holder(topic: string): Channel | undefined {
    return this.#holders.holder(topic)?.channel;
  }

  /** Channels that a subscription to `filter` is served from or crosses. */
  touched(filter: string): Channel[] {
    return this.#holders.touched(filter).map((placement) => placement.channel);
  }

  /** The queue that `filter` lies wholly inside of, unless a more exact channel holds it (02a 4). */
  insideQueue(filter: string): QueueChannel | undefined {
    const channel = this.#holders.inside(filter)?.value.channel;
    return channel?.kind === "queue" ? channel : undefined;
  }

  /** Where a client's publish to `topic` goes. */
  route(topic: string): Route {
    let route = this.#cache.get(topic);
    if (route === undefined) {
      route = this.#resolve(topic);
      if (this.#cache.size >= CACHED_TOPICS) this.#cache = new Map();
      this.#cache.set(topic, route);
    }
    return route;
  }

  #resolve(topic: string): Route {
    const refusal = this.topicRefusal(topic);
    if (refusal !== undefined) return { kind: "refused", refusal };
    if (topic.startsWith(RESERVED)) return this.#control(topic);
    const placement = this.#holders.holder(topic);
    if (placement === undefined) return { kind: "broadcast" };
    if (placement.deadLetter) {
      return refused(
        Reason.NotAuthorized,
        `${placement.channel.name} takes records from its queue only`,
      );
    }
    return { kind: "channel", channel: placement.channel };
  }

  /** What is wrong with `topic` as the destination of any publish, a Will included. */
  topicRefusal(topic: string): Refusal | undefined {
    if (utf8Length(topic) > this.limits.maxTopicLength) {
      return {
        code: Reason.TopicNameInvalid,
        reason: `the topic is longer than limits.max_topic_length (${this.limits.maxTopicLength})`,
      };
    }
    // The broker's own topics have the levels they have: a queue whose answers are refused is none.
    if (!topic.startsWith(RESERVED) && levels(topic) > this.limits.maxTopicLevels) {
      return {
        code: Reason.TopicNameInvalid,
        reason:
          `the topic has more levels than limits.max_topic_levels (${this.limits.maxTopicLevels})`,
      };
    }
    if (topic.startsWith("$share/")) {
      return { code: Reason.TopicNameInvalid, reason: "a topic cannot begin with $share/" };
    }
    if (topic === "$SYS" || topic.startsWith("$SYS/")) {
      return { code: Reason.NotAuthorized, reason: "nothing is published under $SYS" };
    }
    const fault = topicFault(topic);
    return fault === undefined ? undefined : { code: Reason.TopicNameInvalid, reason: fault };
  }

  #control(topic: string): Route {
    const levels = topic.slice(RESERVED.length).split("/", 4);
    const [first, name, verb] = levels;
    if (topic === "$saguin/kv/get") return { kind: "control", request: { verb: "get" } };
    if (topic === "$saguin/sessions/disconnect") {
      return { kind: "control", request: { verb: "disconnect" } };
    }
    if (first === "catalogue" && levels.length >= 2 && name !== "") {
      if (levels.length > 2) {
        return refused(Reason.TopicNameInvalid, "a channel name is one topic level");
      }
      return { kind: "control", request: { verb: "catalogue", channel: name } };
    }
    if (levels.length === 3 && name !== "") {
      if (first === "consumer" && verb === "seek") return this.#seek(name);
      if (first === "queue" && verb === "response") return this.#response(name);
    }
    return refused(Reason.TopicNameInvalid, NOT_DEFINED);
  }

  #seek(name: string): Route {
    const channel = this.channel(name);
    if (channel === undefined) {
      return refused(Reason.TopicNameInvalid, `there is no channel ${name}`);
    }
    if (channel.kind !== "append") {
      return refused(
        Reason.TopicNameInvalid,
        `${name} is a ${channel.kind} channel; only append channels are sought in`,
      );
    }
    return { kind: "control", request: { verb: "seek", channel: name } };
  }

  #response(name: string): Route {
    const channel = this.channel(name);
    if (channel === undefined) {
      return refused(Reason.TopicNameInvalid, `there is no channel ${name}`);
    }
    if (channel.kind !== "queue") {
      return refused(Reason.TopicNameInvalid, `${name} is a ${channel.kind} channel, not a queue`);
    }
    return { kind: "control", request: { verb: "response", queue: name } };
  }
}

function refused(code: Refusal["code"], reason: string): Route {
  return { kind: "refused", refusal: { code, reason } };
}
