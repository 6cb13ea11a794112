import assert from "node:assert/strict";
import {
  encodeConnect,
  hex,
  join,
  type MqttProperties,
  packet,
  type Piece,
  property,
  section,
  text,
  two,
} from "../../support/mqtt_bytes.ts";
import { decodeAll } from "./support.ts";

/** Packets a client sends, each around a property section of raw bytes. */
const PACKETS: Record<string, (properties: Uint8Array) => Uint8Array> = {
  CONNECT: (p) => packet(0x10, text("MQTT"), [5, 2], two(0), p, text("c")),
  Will: (p) => packet(0x10, text("MQTT"), [5, 6], two(0), [0], text("c"), p, text("w"), text("x")),
  PUBLISH: (p) => packet(0x30, text("t"), p, [1]),
  PUBACK: (p) => packet(0x40, two(1), [0], p),
  PUBREC: (p) => packet(0x50, two(1), [0], p),
  PUBREL: (p) => packet(0x62, two(1), [0], p),
  PUBCOMP: (p) => packet(0x70, two(1), [0], p),
  SUBSCRIBE: (p) => packet(0x82, two(1), p, text("a"), [0]),
  UNSUBSCRIBE: (p) => packet(0xa2, two(1), p, text("a")),
  DISCONNECT: (p) => packet(0xe0, [0], p),
  // Its Authentication Method is what makes an AUTH acceptable, so it is there from the start.
  AUTH: (p) => packet(0xf0, [0x18], p),
};
type PacketName = keyof typeof PACKETS;

const ANSWERS: PacketName[] = ["PUBACK", "PUBREC", "PUBREL", "PUBCOMP", "DISCONNECT", "AUTH"];

/** Table 2-4, read from the client's side: a legal value, where it may stand, where only a server may. */
const TABLE: Record<
  keyof MqttProperties,
  { value: unknown; client: PacketName[]; server?: PacketName[] }
> = {
  payloadFormat: { value: 1, client: ["PUBLISH", "Will"] },
  messageExpiry: { value: 1, client: ["PUBLISH", "Will"] },
  contentType: { value: "c", client: ["PUBLISH", "Will"] },
  responseTopic: { value: "r", client: ["PUBLISH", "Will"] },
  correlationData: { value: hex("01"), client: ["PUBLISH", "Will"] },
  subscriptionIdentifiers: { value: [1], client: ["SUBSCRIBE"], server: ["PUBLISH"] },
  sessionExpiry: { value: 1, client: ["CONNECT", "DISCONNECT"] },
  assignedClientId: { value: "a", client: [] },
  serverKeepAlive: { value: 1, client: [] },
  authenticationMethod: { value: "m", client: ["CONNECT", "AUTH"] },
  authenticationData: { value: hex("01"), client: ["CONNECT", "AUTH"] },
  requestProblemInformation: { value: 1, client: ["CONNECT"] },
  willDelay: { value: 1, client: ["Will"] },
  requestResponseInformation: { value: 1, client: ["CONNECT"] },
  responseInformation: { value: "r", client: [] },
  serverReference: { value: "r", client: [], server: ["DISCONNECT"] },
  reasonString: { value: "r", client: ANSWERS },
  receiveMaximum: { value: 1, client: ["CONNECT"] },
  topicAliasMaximum: { value: 1, client: ["CONNECT"] },
  topicAlias: { value: 1, client: ["PUBLISH"] },
  maximumQoS: { value: 1, client: [] },
  retainAvailable: { value: 1, client: [] },
  userProperties: {
    value: [["k", "v"]],
    client: ["CONNECT", "Will", "PUBLISH", "SUBSCRIBE", "UNSUBSCRIBE", ...ANSWERS],
  },
  maximumPacketSize: { value: 1, client: ["CONNECT"] },
  wildcardSubscriptionAvailable: { value: 1, client: [] },
  subscriptionIdentifierAvailable: { value: 1, client: [] },
  sharedSubscriptionAvailable: { value: 1, client: [] },
};
const NAMES = Object.keys(TABLE) as (keyof MqttProperties)[];

/** The code with which `where` is refused around these properties; undefined when it is taken. */
function verdict(where: PacketName, ...pieces: Piece[]): number | undefined {
  return verdictOfSection(where, section(...pieces));
}

function verdictOfSection(where: PacketName, properties: Uint8Array): number | undefined {
  const bytes = PACKETS[where](properties);
  const first = where === "CONNECT" || where === "Will" ? [] : [encodeConnect()];
  return decodeAll([...first, bytes]).fault?.code;
}

/** What a section needs beside `name` so that nothing but `name` is judged. */
function company(where: PacketName, name?: keyof MqttProperties): Uint8Array {
  const methodNeeded = where === "AUTH" || (where === "CONNECT" && name === "authenticationData");
  return methodNeeded && name !== "authenticationMethod"
    ? property("authenticationMethod", "m")
    : join();
}

Deno.test("table 2-4 every property is taken where it belongs and refused everywhere else", () => {
  for (const where of Object.keys(PACKETS)) {
    for (const name of NAMES) {
      const { value, client, server = [] } = TABLE[name];
      const expected = client.includes(where) ? undefined : server.includes(where) ? 0x82 : 0x81;
      const found = verdict(where, company(where, name), property(name, value));
      assert.equal(found, expected, `${name} in ${where}`);
    }
  }
});

Deno.test("2.2.2.2 a property sent twice is a protocol error, but for the User Property", () => {
  for (const where of Object.keys(PACKETS)) {
    for (const name of NAMES) {
      const { value, client } = TABLE[name];
      if (!client.includes(where)) continue;
      const once = property(name, value);
      const found = verdict(where, company(where, name), once, once);
      assert.equal(found, name === "userProperties" ? undefined : 0x82, `${name} in ${where}`);
    }
  }
});

Deno.test("2.2.2.2 an identifier that nobody defined is malformed", () => {
  const known = new Set([1, 2, 3, 8, 9, 11, 17, 18, 19, 21, 22, 23, 24, 25, 26, 28, 31]);
  for (const id of [33, 34, 35, 36, 37, 38, 39, 40, 41, 42]) known.add(id);
  for (const where of Object.keys(PACKETS)) {
    for (let id = 0; id < 128; id++) {
      if (!known.has(id)) assert.equal(verdict(where, company(where), [id, 0, 0, 0, 0]), 0x81);
    }
    assert.equal(verdict(where, company(where), hex("80 01 0000")), 0x81, "identifier 128");
    assert.equal(verdict(where, company(where), hex("ffffff7f")), 0x81, "the largest identifier");
    assert.equal(verdict(where, company(where), hex("ffffffff7f")), 0x81, "five bytes");
    assert.equal(
      verdict(where, company(where), hex("a600 00016b 000176")),
      0x81,
      "38 in two bytes",
    );
  }
});

/** Values the standard forbids, with their code. */
const ILLEGAL: readonly [keyof MqttProperties, PacketName, unknown, number][] = [
  ["payloadFormat", "PUBLISH", 2, 0x82],
  ["payloadFormat", "Will", 255, 0x82],
  ["receiveMaximum", "CONNECT", 0, 0x82],
  ["maximumPacketSize", "CONNECT", 0, 0x82],
  ["requestProblemInformation", "CONNECT", 2, 0x82],
  ["requestResponseInformation", "CONNECT", 2, 0x82],
  ["topicAlias", "PUBLISH", 0, 0x94],
  ["subscriptionIdentifiers", "SUBSCRIBE", [0], 0x82],
  ["responseTopic", "PUBLISH", "a/#", 0x82],
  ["responseTopic", "Will", "+", 0x82],
  ["responseTopic", "PUBLISH", "", 0x82],
];

for (const [name, where, value, code] of ILLEGAL) {
  Deno.test(`2.2.2 ${name} ${JSON.stringify(value)} in ${where} is refused with 0x${code.toString(16)}`, () => {
    assert.equal(verdict(where, property(name, value)), code);
  });
}

Deno.test("2.2.2.1 a property section that runs past its packet is malformed", () => {
  for (const where of Object.keys(PACKETS)) {
    assert.equal(verdictOfSection(where, hex("7f 26")), 0x81, where);
    assert.equal(verdictOfSection(where, hex("ffffff7f 26")), 0x81, where);
    assert.equal(
      verdictOfSection(where, hex("ffffffff7f")),
      0x81,
      `${where}: length of five bytes`,
    );
  }
});

Deno.test("2.2.2.1 a property length in more bytes than it needs is malformed", () => {
  for (const where of Object.keys(PACKETS)) {
    assert.equal(verdictOfSection(where, hex("8000")), 0x81, where);
  }
});

Deno.test("2.2.2.2 a property that runs past its section is malformed, even inside the packet", () => {
  // Each value ends one byte after the section does; the packet goes on behind it.
  for (const where of Object.keys(PACKETS)) {
    for (const name of NAMES) {
      const { value, client } = TABLE[name];
      if (!client.includes(where)) continue;
      const whole = join(company(where, name), property(name, value));
      const short = join([whole.length - 1], whole);
      assert.equal(verdictOfSection(where, short), 0x81, `${name} in ${where}`);
    }
  }
});

Deno.test("[MQTT-1.5.4-1] [MQTT-1.5.4-2] text in a property is UTF-8 without U+0000", () => {
  const bad = ["0001 ff", "0002 c328", "0003 eda080", "0001 00", "0003 610062"].map(hex);
  const ids: [number, PacketName][] = [
    [0x03, "PUBLISH"],
    [0x08, "PUBLISH"],
    [0x15, "CONNECT"],
    [0x1f, "PUBACK"],
  ];
  for (const value of bad) {
    for (const [id, where] of ids) assert.equal(verdict(where, [id], value), 0x81);
    assert.equal(verdict("PUBLISH", [0x26], value, text("v")), 0x81);
    assert.equal(verdict("PUBLISH", [0x26], text("k"), value), 0x81);
  }
});
