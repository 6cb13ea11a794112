/** Keys that somebody may look for where they are not, each refused with its own sentence. */
import type { RefusedKey } from "./key.ts";

const GATE =
  "is refused: a Unix socket is guarded by its mode; remove it, or write it on a tcp or ws door";
const PROXY = "is refused: only a Unix socket takes the PROXY protocol; write it on a unix door";
const WEB = "is refused: only a web page has an origin; write it on a ws door";
const OPERATORS =
  "is refused: an operations door admits operators only; write a password_file, or remove it";
const BOUND = "is refused: this store is bounded by its provider; write max_bytes there";

export const REFUSED_KEYS: readonly RefusedKey[] = [
  {
    path: "broker.log_file",
    says: "does not exist: the log goes to standard output; remove it",
  },
  { path: "broker.mqtt.listen.unix.tls", says: GATE },
  { path: "broker.operations.listen.unix.tls", says: GATE },
  { path: "broker.mqtt.listen.tcp.proxy_protocol", says: PROXY },
  { path: "broker.mqtt.listen.ws.proxy_protocol", says: PROXY },
  { path: "broker.operations.listen.tcp.proxy_protocol", says: PROXY },
  { path: "broker.mqtt.listen.tcp.same_origin", says: WEB },
  { path: "broker.mqtt.listen.tcp.allowed_origins", says: WEB },
  { path: "broker.mqtt.listen.unix.same_origin", says: WEB },
  { path: "broker.mqtt.listen.unix.allowed_origins", says: WEB },
  { path: "broker.operations.listen.tcp.allow_anonymous", says: OPERATORS },
  { path: "broker.operations.listen.unix.allow_anonymous", says: OPERATORS },
  { path: "broker.operations.allow_anonymous", says: OPERATORS },
  {
    path: "broker.operations.listen.ws",
    says: "is no operations door; write tcp or unix",
  },
  {
    path: "broker.mqtt.listen.tcp.acl_file",
    says: "holds for every door; write it as broker.mqtt.acl_file",
  },
  {
    path: "broker.mqtt.listen.tcp.min_protocol_version",
    says: "holds for every door; write it as broker.mqtt.min_protocol_version",
  },
  { path: "broker.retained.max_bytes", says: BOUND },
  {
    path: "broker.retained.retention_bytes",
    says:
      "is refused: one value a topic is kept; write retention_period, or max_bytes of the provider",
  },
  { path: "broker.qos2.max_bytes", says: BOUND },
  { path: "broker.session.max_bytes", says: BOUND },
];
