/** Regions of topic space that keep what is published to them. */
import type { Derived, Key } from "./key.ts";
import { block, count, filter, provider, seconds, size, word } from "./kinds.ts";
import { DEFAULT_PROVIDER } from "./storage.ts";

const APPEND: readonly string[] = ["append"];
const LATEST: readonly string[] = ["latest"];
const QUEUE: readonly string[] = ["queue"];

const KEEP = "keep everything";
const DEFAULT_PERIOD: Derived = { says: "broker.storage.default_retention_period" };
const DEFAULT_BYTES: Derived = { says: "broker.storage.default_retention_bytes" };

export const CHANNEL_KEYS: readonly Key[] = [
  {
    path: "channels",
    kind: { of: "named", noun: "channel", include: true },
    doc: "Regions of topic space that keep what is published: a mapping, or a list with !include.",
  },
  {
    path: "channels.*.type",
    kind: word("a channel type", "append", "latest", "queue"),
    required: true,
    doc: "append keeps a log, latest one value a topic, queue work for one worker at a time.",
  },
  {
    path: "channels.*.filter",
    kind: filter,
    default: { says: "<name>/#", of: (_near, _root, name) => `${name}/#` },
    doc: "Topics that the channel claims; {a,b} in a level stands for each spelling.",
  },
  {
    path: "channels.*.storage",
    kind: provider,
    default: DEFAULT_PROVIDER,
    doc: "Provider that keeps the channel, and a queue's dead letters with it.",
  },
  {
    path: "channels.*.start",
    kind: word("a starting point", "floor", "tail"),
    default: "floor",
    only: APPEND,
    doc: "Where a reader without a position begins: at the oldest record, or from now on.",
  },
  {
    path: "channels.*.retention_period",
    kind: seconds("1s", undefined, KEEP),
    default: DEFAULT_PERIOD,
    only: ["append", "latest"],
    doc: "Age at which records and values are deleted.",
  },
  {
    path: "channels.*.retention_bytes",
    kind: size("1", undefined, KEEP),
    default: DEFAULT_BYTES,
    only: APPEND,
    doc: "Bytes above which the oldest records are deleted.",
  },
  {
    path: "channels.*.max_bytes",
    kind: size("1"),
    only: ["append", "queue"],
    doc: "Bytes above which publishes are refused; absent, only the provider's bound holds.",
  },
  {
    path: "channels.*.deletion_retention_period",
    kind: seconds("1s", undefined, "as long as the channel"),
    default: "1d",
    only: LATEST,
    doc: "How long it is remembered that a value was deleted.",
  },
  {
    path: "channels.*.visibility_timeout",
    kind: seconds(),
    default: "30s",
    only: QUEUE,
    doc: "How long a worker may take before its job is offered to another.",
  },
  {
    path: "channels.*.job_expires_after",
    kind: seconds(),
    default: { says: "never" },
    only: QUEUE,
    doc: "Age at which an unresolved job becomes a dead letter.",
  },
  { path: "channels.*.retry", kind: block, only: QUEUE, doc: "What follows a failed attempt." },
  {
    path: "channels.*.retry.max_attempts",
    kind: count(1),
    default: "5",
    doc: "Attempts after which a job becomes a dead letter.",
  },
  {
    path: "channels.*.retry.backoff",
    kind: word("a backoff", "none", "linear", "exponential"),
    default: { says: "none" },
    doc: "How the gap before the next attempt grows; written with backoff_base or not at all.",
  },
  {
    path: "channels.*.retry.backoff_base",
    kind: seconds(),
    doc: "The gap after the first attempt.",
  },
  {
    path: "channels.*.dlq_retention_period",
    kind: seconds("1s", undefined, KEEP),
    default: DEFAULT_PERIOD,
    only: QUEUE,
    doc: "retention_period of the queue's dead-letter channel.",
  },
  {
    path: "channels.*.dlq_retention_bytes",
    kind: size("1", undefined, KEEP),
    default: DEFAULT_BYTES,
    only: QUEUE,
    doc: "retention_bytes of the queue's dead-letter channel.",
  },
];
