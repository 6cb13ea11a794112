/** Listening endpoints: the MQTT doors and the operations doors. */
import type { Key } from "./key.ts";
import { address, block, doors, file, flag, optionalBlock, seconds, word } from "./kinds.ts";

/** Opened when no MQTT door is written: plain TCP on all interfaces. */
export const DEFAULT_MQTT_ADDRESS = ":1883";

function tcpKeys(door: string): readonly Key[] {
  return [
    {
      path: `${door}.address`,
      kind: address,
      required: true,
      doc: "Host and port to listen on; an empty host is every interface, port 0 any free port.",
    },
    { path: `${door}.tls`, kind: optionalBlock, doc: "Encrypts this door; absent is plaintext." },
    {
      path: `${door}.tls.cert_file`,
      kind: file,
      required: true,
      doc: "Certificate chain in PEM, the door's own certificate first, without the root.",
    },
    { path: `${door}.tls.key_file`, kind: file, required: true, doc: "Private key in PEM." },
    {
      path: `${door}.tls.min_version`,
      kind: word("a TLS version this broker speaks", "1.2", "1.3"),
      default: "1.2",
      doc: "The oldest TLS version accepted.",
    },
    {
      path: `${door}.tls.client_ca_file`,
      kind: file,
      doc: "Authorities that sign client certificates; absent, none are asked for.",
    },
    {
      path: `${door}.tls.require_certificate`,
      kind: flag,
      default: {
        says: "true with client_ca_file",
        of: (near) => near("client_ca_file") === undefined ? undefined : "true",
      },
      doc: "Whether a client without a certificate fails the handshake.",
    },
  ];
}

function unixKeys(door: string): readonly Key[] {
  return [
    {
      path: `${door}.path`,
      kind: { of: "path", abstract: true },
      required: true,
      doc: "Socket to listen on: an absolute path, or @name for a socket without a file.",
    },
    {
      path: `${door}.mode`,
      kind: { of: "mode" },
      default: "0660",
      doc: "Permissions of the socket, octal and in quotes.",
    },
    {
      path: `${door}.proxy_protocol`,
      kind: flag,
      default: "false",
      doc: "Whether every connection must begin with a PROXY protocol v2 header.",
    },
  ];
}

function nameKey(door: string): Key {
  return {
    path: `${door}.name`,
    kind: { of: "text", fault: nameFault },
    default: { says: "the kind of door" },
    doc: "Listener id in logs and routes; needed as soon as there are two doors of a kind.",
  };
}

function passwordKey(door: string, doc: string): Key {
  return { path: `${door}.password_file`, kind: file, doc };
}

function mqttKeys(door: string): readonly Key[] {
  return [
    passwordKey(door, "This door's own users, in place of broker.mqtt.password_file."),
    {
      path: `${door}.allow_anonymous`,
      kind: flag,
      default: { says: "false with a password file of its own, otherwise broker.mqtt's" },
      doc: "Whether this door admits clients that offer no user name.",
    },
  ];
}

const OPERATOR_FILE = "Operators of this door, in place of broker.operations.password_file.";

/** A name that stands in brackets in messages and as a value in logs. */
export function nameFault(name: string): string | undefined {
  if (name.length > 128) return "is longer than 128 characters; write a shorter name";
  // deno-lint-ignore no-control-regex
  if (/[\x00-\x1f\x7f-\x9f[\]]/.test(name)) {
    return "holds a bracket or a control character; write a name without them";
  }
  return undefined;
}

export const DOOR_KEYS: readonly Key[] = [
  {
    path: "broker.mqtt.listen",
    kind: block,
    default: { says: `tcp on ${DEFAULT_MQTT_ADDRESS} when no door is written` },
    doc: "Every MQTT door, by kind.",
  },
  {
    path: "broker.mqtt.listen.tcp",
    kind: doors,
    doc: "MQTT over TCP: one mapping, or a list with a name each.",
  },
  nameKey("broker.mqtt.listen.tcp"),
  ...tcpKeys("broker.mqtt.listen.tcp"),
  ...mqttKeys("broker.mqtt.listen.tcp"),
  {
    path: "broker.mqtt.listen.ws",
    kind: doors,
    doc: "MQTT over WebSocket: one mapping, or a list with a name each.",
  },
  nameKey("broker.mqtt.listen.ws"),
  ...tcpKeys("broker.mqtt.listen.ws"),
  ...mqttKeys("broker.mqtt.listen.ws"),
  {
    path: "broker.mqtt.listen.ws.same_origin",
    kind: flag,
    default: "true",
    doc: "Whether a page's scheme, host and port must be those of the request.",
  },
  {
    path: "broker.mqtt.listen.ws.allowed_origins",
    kind: { of: "texts", fault: originFault },
    default: { says: "empty, which checks nothing" },
    doc: "Pages that may connect, as scheme://host or scheme://host:port.",
  },
  {
    path: "broker.mqtt.listen.unix",
    kind: doors,
    doc: "MQTT over a Unix socket: one mapping, or a list with a name each.",
  },
  nameKey("broker.mqtt.listen.unix"),
  ...unixKeys("broker.mqtt.listen.unix"),
  ...mqttKeys("broker.mqtt.listen.unix"),
  {
    path: "broker.operations",
    kind: optionalBlock,
    doc: "HTTP for health, metrics and routes; absent, nothing listens.",
  },
  { path: "broker.operations.listen", kind: block, doc: "Every operations door, by kind." },
  {
    path: "broker.operations.listen.tcp",
    kind: doors,
    doc: "Operations over TCP; loopback unless the door authenticates.",
  },
  nameKey("broker.operations.listen.tcp"),
  ...tcpKeys("broker.operations.listen.tcp"),
  passwordKey("broker.operations.listen.tcp", OPERATOR_FILE),
  {
    path: "broker.operations.listen.unix",
    kind: doors,
    doc: "Operations over a Unix socket.",
  },
  nameKey("broker.operations.listen.unix"),
  ...unixKeys("broker.operations.listen.unix"),
  passwordKey("broker.operations.listen.unix", OPERATOR_FILE),
  {
    path: "broker.operations.password_file",
    kind: file,
    doc: "Operators of every operations door that names no file of its own.",
  },
  {
    path: "broker.operations.min_scrape_interval",
    kind: seconds("60s"),
    default: "60s",
    why: "the metrics are gathered at most once a minute",
    doc: "A scrape sooner than this after the last one is answered with the last result.",
  },
];

/** `scheme://host[:port]` and nothing else. */
export function originFault(origin: string): string | undefined {
  const remedy = "write scheme://host or scheme://host:port";
  if (origin === "null" || origin.includes("*")) return `is not one page's origin; ${remedy}`;
  const match = /^https?:\/\/(\[[0-9A-Fa-f:.]+\]|[^/?#@:[\]\s]+)(:\d{1,5})?$/.exec(origin);
  if (match === null || !URL.canParse(origin)) return `is not an origin; ${remedy}`;
  return undefined;
}

/** For the AMQP door, which has the keys of an MQTT door over TCP. */
export function amqpDoorKeys(door: string): readonly Key[] {
  return [nameKey(door), ...tcpKeys(door), ...mqttKeys(door)];
}
