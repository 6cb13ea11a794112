/** Providers, and the stores that are not channels. */
import type { Derived, Key } from "./key.ts";
import { block, count, milliseconds, path, provider, seconds, size, word } from "./kinds.ts";

const SQLITE: readonly string[] = ["sqlite"];

/** A store or channel that names no provider is kept on the default one. */
export const DEFAULT_PROVIDER: Derived = {
  says: "broker.storage.default",
  of: (_near, root) => {
    const name = root("broker.storage.default");
    return typeof name === "string" ? name : undefined;
  },
};

const KEEP = "keep everything";

export const STORAGE_KEYS: readonly Key[] = [
  { path: "broker.storage", kind: block, doc: "Where things are kept, and for how long." },
  {
    path: "broker.storage.default",
    kind: provider,
    required: true,
    doc: "Provider of every store and channel that names none.",
  },
  {
    path: "broker.storage.default_retention_period",
    kind: seconds("1s", undefined, KEEP),
    required: true,
    doc: "How long append records and latest values are kept where a channel says nothing.",
  },
  {
    path: "broker.storage.default_retention_bytes",
    kind: size("1", undefined, KEEP),
    required: true,
    doc: "How many bytes of records an append channel keeps where it says nothing.",
  },
  {
    path: "broker.storage.providers",
    kind: { of: "named", noun: "provider", include: true },
    required: true,
    doc: "Named places where things are kept: a mapping, or a list with !include.",
  },
  {
    path: "broker.storage.providers.*.type",
    kind: word("a provider type", "memory", "sqlite"),
    required: true,
    doc: "memory keeps in the process, sqlite in one database file.",
  },
  {
    path: "broker.storage.providers.*.file_path",
    kind: path,
    required: SQLITE,
    only: SQLITE,
    doc: "The database file.",
  },
  {
    path: "broker.storage.providers.*.snapshot_dir",
    kind: { of: "path", none: "a stop or a crash loses everything" },
    required: ["memory"],
    only: ["memory"],
    doc: "Directory that a graceful stop writes snapshots to; none keeps nothing past the process.",
  },
  {
    path: "broker.storage.providers.*.max_bytes",
    kind: size("1"),
    doc: "Most that the provider holds; publishes stop short of it by a reserve for relief.",
  },
  {
    path: "broker.storage.providers.*.acknowledge",
    kind: word("an acknowledge mode", "committed", "synced"),
    default: "committed",
    only: SQLITE,
    doc: "What an acknowledgement means: committed to the log, or also forced to the disk.",
  },
  {
    path: "broker.storage.providers.*.publish_commit_interval",
    kind: milliseconds("1ms", "1s", "one transaction for each publish"),
    only: SQLITE,
    doc: "How long a transaction waits for more publishes; absent, only while the last commits.",
  },
  {
    path: "broker.storage.providers.*.publish_commit_max_records",
    kind: count(2),
    only: SQLITE,
    doc: "Records that close a transaction before its interval has passed.",
  },
  {
    path: "broker.storage.providers.*.read_connections",
    kind: count(0, 8),
    default: "2",
    only: SQLITE,
    doc: "Connections that read beside the writer; 0 reads on the writer's.",
  },
  {
    path: "broker.storage.providers.*.flush_interval",
    kind: milliseconds("10ms", "1s"),
    default: "150ms",
    only: SQLITE,
    why: "it is what a power cut may lose and cannot be turned off",
    doc: "How often committed records are forced to the disk.",
  },

  {
    path: "broker.retained",
    kind: block,
    why: "retained messages are always kept; deny them to a client in the ACL file",
    doc: "Retained values of topics that no channel claims; the store always exists.",
  },
  {
    path: "broker.retained.storage",
    kind: provider,
    default: DEFAULT_PROVIDER,
    doc: "Provider of the retained values.",
  },
  {
    path: "broker.retained.retention_period",
    kind: seconds("1s", undefined, KEEP),
    default: "none",
    doc: "Age at which a retained value is deleted.",
  },
  {
    path: "broker.qos2",
    kind: block,
    why: "QoS 2 is always offered; deny it to a client in the ACL file",
    doc: "QoS 2 publishes between PUBREC and PUBREL.",
  },
  {
    path: "broker.qos2.max_inflight_per_client",
    kind: count(1, 65_535),
    default: "20",
    doc: "Unreleased publishes that one client may hold, over all channels together.",
  },
  {
    path: "broker.qos2.expires_after",
    kind: seconds(),
    default: "5m",
    doc: "Age at which an unreleased publish is dropped.",
  },
  { path: "broker.share", kind: block, doc: "Shared subscription groups." },
  {
    path: "broker.share.expires_after",
    kind: seconds(),
    default: { says: "as long as a member session that could collect it" },
    doc: "Age at which what a group is owed is dropped.",
  },
  {
    path: "broker.session",
    kind: block,
    why: "persistent sessions are always offered; deny them to a client in the ACL file",
    doc: "Sessions that outlive their connection.",
  },
  {
    path: "broker.session.storage",
    kind: provider,
    default: DEFAULT_PROVIDER,
    doc: "Provider of sessions and of the messages they are owed.",
  },
  {
    path: "broker.session.ack_commit_interval",
    kind: milliseconds("10ms", "1s"),
    default: "200ms",
    doc: "Longest that an acknowledgement from a client waits to be written down.",
  },
];
