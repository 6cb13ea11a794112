/** An ACL file after reading and checking: what it says, before it is about any client (02b section 7). */
import type { Place } from "../../config/configuration.ts";
import type { PublishRates } from "../publish_rates.ts";
import type { Pattern } from "./pattern.ts";

/** What can be done on a channel or with a broadcast topic. */
export type Verb = "write" | "read" | "seek" | "delete" | "consume";

export type ChannelType = "append" | "latest" | "queue";

/** In the order in which the catalogue lists them. */
export const CHANNEL_VERBS: Readonly<Record<ChannelType, readonly Verb[]>> = {
  append: ["write", "read", "seek"],
  latest: ["write", "read", "delete"],
  queue: ["write", "consume"],
};

export const TOPIC_VERBS: readonly Verb[] = ["write", "read"];

/** What a role can withhold from its clients (02b 8.2). */
export const FEATURES = ["persistent", "will", "share", "retained", "qos2"] as const;
export type Feature = typeof FEATURES[number];

/** The broker's own subjects that are granted, with the one verb of each. */
export const BROKER_VERBS = { sessions: "disconnect", amqp: "connect" } as const;
export type BrokerSubject = keyof typeof BROKER_VERBS;

export type Rule = ChannelRule | TopicRule | BrokerRule | FeatureRule;

export interface ChannelRule {
  readonly kind: "channel";
  readonly place: Place;
  readonly channel: string;
  /** As written; undefined for the whole channel. */
  readonly written: string | undefined;
  /** `written` with its braces expanded, `%u` and `%c` still in place; empty for the whole channel. */
  readonly filters: readonly string[];
  readonly verbs: readonly Verb[];
}

export interface TopicRule {
  readonly kind: "topic";
  readonly place: Place;
  readonly written: string;
  readonly filters: readonly string[];
  readonly verbs: readonly Verb[];
}

export interface BrokerRule {
  readonly kind: "broker";
  readonly place: Place;
  readonly subject: BrokerSubject;
  readonly verbs: readonly string[];
}

export interface FeatureRule {
  readonly kind: "features";
  readonly place: Place;
  readonly denies: readonly Feature[];
}

export interface Role {
  readonly name: string;
  readonly rules: readonly Rule[];
}

/** One key under `users:`. */
export interface UserEntry {
  readonly pattern: Pattern;
  readonly place: Place;
  readonly roles: readonly Role[];
  /** As written; undefined: any client id. */
  readonly clientIds: readonly string[] | undefined;
  /** Stands in place of both broker-wide figures; undefined: those hold. */
  readonly limits: PublishRates | undefined;
}

export interface AclDocument {
  /** Its path. */
  readonly file: string;
  readonly roles: ReadonlyMap<string, Role>;
  /** In the order of the file. */
  readonly entries: readonly UserEntry[];
}
