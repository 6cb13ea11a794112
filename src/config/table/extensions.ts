/** The AMQP 0-9-1 door and the ingest of topics into tables. */
import { amqpDoorKeys } from "./doors.ts";
import type { Key } from "./key.ts";
import { block, count, doors, filter, flag, optionalBlock, provider } from "./kinds.ts";
import { seconds, size, text } from "./kinds.ts";
import { DEFAULT_PROVIDER } from "./storage.ts";

export const EXTENSION_KEYS: readonly Key[] = [
  { path: "broker.amqp", kind: optionalBlock, doc: "AMQP 0-9-1; absent, nothing listens." },
  { path: "broker.amqp.listen", kind: block, doc: "The AMQP doors." },
  { path: "broker.amqp.listen.tcp", kind: doors, doc: "AMQP over TCP, AMQPS with tls." },
  ...amqpDoorKeys("broker.amqp.listen.tcp"),
  {
    path: "broker.amqp.storage",
    kind: provider,
    default: DEFAULT_PROVIDER,
    doc: "Provider of AMQP queues; only sqlite can keep a durable one.",
  },
  { path: "broker.amqp.vhost", kind: text, default: "/", doc: "The one virtual host." },
  {
    path: "broker.amqp.channel_max",
    kind: count(1, 65_535),
    default: "2047",
    doc: "Most AMQP channels of one connection.",
  },
  {
    path: "broker.amqp.frame_max",
    kind: size("4KiB", "16MiB"),
    default: "128KiB",
    doc: "Largest AMQP frame.",
  },
  {
    path: "broker.amqp.heartbeat",
    kind: seconds("1s", "65535s", "no heartbeat"),
    default: "60s",
    doc: "Heartbeat offered to clients.",
  },
  {
    path: "broker.amqp.handshake_timeout",
    kind: seconds(),
    default: "10s",
    doc: "Time from accept to an open connection.",
  },
  {
    path: "broker.amqp.max_ready",
    kind: count(1),
    default: "100000",
    doc: "Most messages ready in one AMQP queue.",
  },
  {
    path: "broker.amqp.max_ready_bytes",
    kind: size("1"),
    default: "256MiB",
    doc: "Most bytes ready in one AMQP queue.",
  },
  {
    path: "broker.amqp.max_unacked",
    kind: count(1),
    default: "65535",
    doc: "Most unacknowledged deliveries of one AMQP channel, prefetch 0 included.",
  },
  {
    path: "broker.amqp.max_objects",
    kind: count(1),
    default: "50000",
    doc: "Most queues, exchanges and bindings together.",
  },
  {
    path: "broker.amqp.publish_batch",
    kind: count(1),
    default: "256",
    doc: "Most publishes of one connection in one transaction.",
  },
  {
    path: "broker.amqp.outbound_high_water",
    kind: size("1"),
    default: "1MiB",
    doc: "Bytes waiting on one socket at which its deliveries pause.",
  },
  {
    path: "broker.amqp.crossing",
    kind: flag,
    default: "true",
    doc: "Whether amq.topic and MQTT topics see each other's publishes.",
  },

  { path: "ingest", kind: optionalBlock, doc: "Publishes as rows of SQL tables; absent, none." },
  {
    path: "ingest.storage",
    kind: provider,
    default: DEFAULT_PROVIDER,
    doc: "Provider whose database holds the tables; sqlite.",
  },
  {
    path: "ingest.include_amqp",
    kind: flag,
    default: "false",
    doc: "Whether AMQP publishes that cross to MQTT are copied too.",
  },
  {
    path: "ingest.routes",
    kind: { of: "rows", short: routeInShort },
    required: true,
    doc: "Which topics go to which table; filter:table is the short form of a route.",
  },
  { path: "ingest.routes.filter", kind: filter, required: true, doc: "Topics of the route." },
  { path: "ingest.routes.table", kind: text, required: true, doc: "Table of the route." },
  {
    path: "ingest.routes.retention_period",
    kind: seconds("1s", undefined, "keep everything"),
    default: { says: "broker.storage.default_retention_period" },
    doc: "Age at which rows of the table are deleted.",
  },
  {
    path: "ingest.routes.columns",
    kind: { of: "words", noun: "a column type", words: ["TEXT", "REAL", "INTEGER"] },
    doc: "Payload keys that become columns, dots for nesting, with their types.",
  },
  {
    path: "ingest.routes.index",
    kind: { of: "texts" },
    doc: "Which of the columns have an index.",
  },
];

/** A route in one string is split at its last colon: a topic level may hold one. */
function routeInShort(route: string): readonly (readonly [key: string, text: string])[] {
  const colon = route.lastIndexOf(":");
  if (colon < 0) return [["filter", route.trim()]];
  return [["filter", route.slice(0, colon).trim()], ["table", route.slice(colon + 1).trim()]];
}
