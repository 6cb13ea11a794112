/** Bounds on what clients may ask for. */
import type { Key } from "./key.ts";
import { block, count, milliseconds, seconds, size } from "./kinds.ts";
import { readSize, writeSize } from "../units.ts";

/** The largest packet that MQTT's four length bytes can describe is just over this. */
const LARGEST_PACKET = "256MiB";
/** The longest string MQTT can carry. */
const LONGEST_STRING = 65_535;

/** The smaller or larger of a size and `max_message_size`. */
function against(
  choose: (a: number, b: number) => number,
  text: string,
): (near: (key: string) => unknown) => string | undefined {
  const reading = readSize(text);
  if ("fault" in reading) throw new TypeError(`${text} is not a size`);
  return (near) => {
    const other = near("max_message_size");
    return typeof other === "number" ? writeSize(choose(reading.bytes, other)) : undefined;
  };
}

export const LIMIT_KEYS: readonly Key[] = [
  { path: "broker.limits", kind: block, doc: "Bounds on what clients may ask for." },
  {
    path: "broker.limits.max_message_size",
    kind: size("1", LARGEST_PACKET),
    default: "1MiB",
    doc:
      "Largest MQTT packet that is read, announced as Maximum Packet Size; largest AMQP message.",
  },
  {
    path: "broker.limits.max_topic_length",
    kind: count(1, LONGEST_STRING),
    default: "1024",
    doc: "Longest topic of a publish or a Will, in bytes.",
  },
  {
    path: "broker.limits.max_topic_levels",
    kind: count(1, LONGEST_STRING),
    default: "200",
    doc: "Most levels of a topic or a filter.",
  },
  {
    path: "broker.limits.max_client_id_length",
    kind: count(23, LONGEST_STRING),
    default: "256",
    why: "every server must take client ids of 23 bytes",
    doc: "Longest client id, in bytes.",
  },
  {
    path: "broker.limits.max_header_count",
    kind: count(1),
    default: "32",
    doc: "Most User Properties of one publish.",
  },
  {
    path: "broker.limits.max_header_bytes",
    kind: size("1", LARGEST_PACKET),
    default: "8KiB",
    doc: "Most bytes of the names and values of a publish's User Properties together.",
  },
  {
    path: "broker.limits.max_connections",
    kind: count(1),
    default: "10000",
    doc: "Most connections over all MQTT doors together.",
  },
  {
    path: "broker.limits.max_subscriptions",
    kind: count(1),
    default: "10000",
    doc: "Most filters of one client.",
  },
  {
    path: "broker.limits.max_session_expiry",
    kind: seconds("1s", "4294967294s"),
    default: "30d",
    why: "a session whose client never returns has to end",
    doc: "Longest that a session outlives its connection; a longer request is shortened.",
  },
  {
    path: "broker.limits.max_keepalive",
    kind: seconds("1s", "65535s", "no ceiling"),
    default: "none",
    why: "MQTT's keep alive ends at 65535 seconds",
    doc: "Longest Keep Alive; a client that asks for more is told this one.",
  },
  {
    path: "broker.limits.publish_rate",
    kind: count(1),
    doc: "Publishes a second of one client; absent, unbounded.",
  },
  {
    path: "broker.limits.publish_bytes",
    kind: size("1"),
    doc: "Published bytes a second of one client; absent, unbounded.",
  },
  {
    path: "broker.limits.write_timeout",
    kind: milliseconds("1ms", undefined, "no deadline"),
    default: "5s",
    doc: "A client that takes no bytes for this long is disconnected.",
  },
  {
    path: "broker.limits.connect_timeout",
    kind: seconds(),
    default: "10s",
    why: "a socket that never connects must not hold a place",
    doc: "Time from accept to a whole CONNECT, TLS and the HTTP request included.",
  },
  {
    path: "broker.limits.max_connect_size",
    kind: size("1", LARGEST_PACKET),
    default: {
      says: "100KiB, or max_message_size if that is smaller",
      of: against(Math.min, "100KiB"),
    },
    doc: "Largest CONNECT packet.",
  },
  {
    path: "broker.limits.max_connect_rate",
    kind: count(1, undefined, "no bound"),
    default: "500",
    doc: "Connections a second at one MQTT door; more wait to be accepted.",
  },
  {
    path: "broker.limits.session_queue_bytes",
    kind: size("1"),
    default: {
      says: "1MiB, or max_message_size if that is larger",
      of: against(Math.max, "1MiB"),
    },
    why: "what a session is owed has to end somewhere",
    doc: "Most that one session is owed before its oldest message is dropped.",
  },
];
