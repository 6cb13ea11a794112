/**
 * What this version does not do yet. A key listed here is refused by name, with everything under it;
 * building its room takes the line away and adds a reader of the resolved value, nothing else.
 */
export const NOT_BUILT: readonly string[] = [
  "broker.mqtt.password_file",
  "broker.mqtt.acl_file",
  "broker.mqtt.listen.tcp.password_file",
  "broker.mqtt.listen.tcp.allow_anonymous",
  "broker.mqtt.listen.ws.password_file",
  "broker.mqtt.listen.ws.allow_anonymous",
  "broker.mqtt.listen.unix.password_file",
  "broker.mqtt.listen.unix.allow_anonymous",
  "broker.operations",
  "bridges",
  "ingest",
];
