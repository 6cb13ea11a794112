/** Links to other brokers. */
import type { Key } from "./key.ts";
import { count, file, filter, milliseconds, seconds, text, word } from "./kinds.ts";

export const BRIDGE_KEYS: readonly Key[] = [
  { path: "bridges", kind: { of: "named", noun: "bridge" }, doc: "Links to other brokers." },
  {
    path: "bridges.*.peer",
    kind: { of: "text", fault: peerFault },
    required: true,
    doc: "The other broker, as scheme://host:port with the scheme tcp, tls, ws or wss.",
  },
  {
    path: "bridges.*.client_id",
    kind: text,
    required: true,
    doc: "Client id at the other broker; it owns a session there.",
  },
  {
    path: "bridges.*.ca_file",
    kind: file,
    default: { says: "the system's authorities" },
    doc: "Authorities that sign the other broker's certificate.",
  },
  { path: "bridges.*.cert_file", kind: file, doc: "Certificate shown to the other broker." },
  { path: "bridges.*.key_file", kind: file, doc: "Private key of cert_file." },
  {
    path: "bridges.*.session_expiry",
    kind: seconds("1s", "4294967294s"),
    default: "1d",
    why: "the other broker must be able to forget the session",
    doc: "How long the other broker keeps the bridge's session while the link is down.",
  },
  {
    path: "bridges.*.receive_maximum",
    kind: count(1, 65_535),
    default: "20",
    doc: "Records in flight in either direction.",
  },
  {
    path: "bridges.*.ack_interval",
    kind: milliseconds("1ms", "1s"),
    default: "5ms",
    doc: "How often stored records are acknowledged to the other broker.",
  },
  {
    path: "bridges.*.topics",
    kind: { of: "rows" },
    required: true,
    doc: "What crosses; the first rule that matches a record decides.",
  },
  {
    path: "bridges.*.topics.filter",
    kind: filter,
    required: true,
    doc: "Topics that cross, as they are called where they come from.",
  },
  {
    path: "bridges.*.topics.topic",
    kind: text,
    doc: "The topic on arrival, with $1 and $# for what the filter's wildcards matched.",
  },
  {
    path: "bridges.*.topics.direction",
    kind: word("a direction", "in", "out", "both"),
    required: true,
    doc: "in is towards this broker, out is away from it.",
  },
];

/** The scheme names the transport; host and port are always written. */
export function peerFault(peer: string): string | undefined {
  const remedy = "write tcp, tls, ws or wss, such as tls://broker.example:8883";
  const match = /^([a-z][a-z0-9+.-]*):\/\/(.*)$/i.exec(peer);
  if (match === null) return `has no scheme; ${remedy}`;
  if (!["tcp", "tls", "ws", "wss"].includes(match[1])) return `has an unknown scheme; ${remedy}`;
  if (!/^(\[[0-9A-Fa-f:.]+\]|[^\s/?#@:[\]]+):\d{1,5}(\/\S*)?$/.test(match[2])) {
    return "does not name a host and a port; write both, such as tls://broker.example:8883";
  }
  return undefined;
}
