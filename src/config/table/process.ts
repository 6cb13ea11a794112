/** The process itself and what holds for every MQTT door. */
import type { Key } from "./key.ts";
import { block, file, flag, path, text, word } from "./kinds.ts";

export const PROCESS_KEYS: readonly Key[] = [
  { path: "broker", kind: block, doc: "The process, its doors, its stores and its limits." },
  {
    path: "broker.id",
    kind: text,
    required: true,
    doc: "Name of this broker in every log line and in the metrics; it is never generated.",
  },
  {
    path: "broker.log_level",
    kind: word("a log level", "debug", "info", "warn", "error"),
    default: "info",
    doc: "The least important level that is still logged.",
  },
  {
    path: "broker.pid_file",
    kind: path,
    doc: "File that holds the process id while the broker runs.",
  },
  { path: "broker.mqtt", kind: block, doc: "MQTT doors and what holds for all of them." },
  {
    path: "broker.mqtt.password_file",
    kind: file,
    doc: "Users of every door that names no password file of its own.",
  },
  {
    path: "broker.mqtt.allow_anonymous",
    kind: flag,
    default: { says: "true without a password file in force, false with one" },
    doc: "Whether a client that offers no user name is admitted.",
  },
  {
    path: "broker.mqtt.acl_file",
    kind: file,
    doc: "Roles and users; without it every admitted client may do everything.",
  },
  {
    path: "broker.mqtt.min_protocol_version",
    kind: word("a protocol version this broker speaks", "3.1.1", "5"),
    default: "3.1.1",
    doc: "The oldest MQTT version that may connect; MQTT 3.1 never may.",
  },
];
