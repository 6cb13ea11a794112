/** 02a sections 7, 10, 11 and 20: what a client is told of what it should not have sent. */
import assert from "node:assert/strict";
import { nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { rules } from "../support/house.ts";
import {
  encodeConnect,
  encodePublish,
  encodeSubscribe,
  join,
  text,
} from "../support/mqtt_bytes.ts";
import { WireClient } from "../support/wire.ts";

type Bytes = readonly number[];

/** After a good CONNECT: the bytes sent, the DISCONNECT of MQTT 5 (undefined: closed bare), its reason. */
const AFTER_CONNECT: [string, Bytes, number | undefined][] = [
  ["PUBLISH with both QoS bits", [0x36, 5, 0, 1, 0x61, 0, 1], 0x81],
  ["PUBLISH with DUP at QoS 0", [0x38, 4, 0, 1, 0x61, 0], 0x81],
  ["SUBSCRIBE with wrong reserved flags", [0x80, 7, 0, 1, 0, 0, 1, 0x61, 0], 0x81],
  ["a packet type that does not exist", [0x00, 0], 0x81],
  ["a topic longer than its packet", [0x30, 4, 0, 9, 0x61, 0], 0x81],
  ["a Remaining Length of five bytes", [0x30, 0xff, 0xff, 0xff, 0xff, 1], 0x81],
  ["packet identifier 0", [0x32, 6, 0, 1, 0x61, 0, 0, 0], 0x82],
  ["a property that PUBLISH does not have", [0x30, 9, 0, 1, 0x61, 5, 0x11, 0, 0, 0, 1], 0x81],
  ["Payload Format Indicator 2", [0x30, 6, 0, 1, 0x61, 2, 0x01, 2], 0x82],
  ["a property twice", [0x30, 8, 0, 1, 0x61, 4, 0x01, 1, 0x01, 1], 0x82],
  ["a wildcard in a topic name", [0x30, 4, 0, 1, 0x2b, 0], 0x82],
  ["a Subscription Identifier from a client", [0x30, 6, 0, 1, 0x61, 2, 0x0b, 1], 0x82],
  ["Topic Alias 0", [0x30, 7, 0, 1, 0x61, 3, 0x23, 0, 0], 0x94],
  ["Topic Alias 17", [0x30, 7, 0, 1, 0x61, 3, 0x23, 0, 17], 0x94],
  ["a Topic Alias without a topic", [0x30, 6, 0, 0, 3, 0x23, 0, 1], 0x82],
  ["an empty topic without an alias", [0x30, 3, 0, 0, 0], 0x82],
  ["a topic that is not UTF-8", [0x30, 5, 0, 2, 0xc3, 0x28, 0], undefined],
  ["a topic with U+0000", [0x30, 4, 0, 1, 0, 0], undefined],
  ["SUBSCRIBE without filters", [0x82, 3, 0, 1, 0], 0x82],
  ["SUBSCRIBE with an empty filter", [0x82, 6, 0, 1, 0, 0, 0, 0], 0x82],
  ["Retain Handling 3", [0x82, 7, 0, 1, 0, 0, 1, 0x61, 0x30], 0x82],
  ["subscription options with reserved bits", [0x82, 7, 0, 1, 0, 0, 1, 0x61, 0x40], 0x81],
  ["a requested QoS of 3", [0x82, 7, 0, 1, 0, 0, 1, 0x61, 0x03], 0x82],
  ["UNSUBSCRIBE without filters", [0xa2, 3, 0, 1, 0], 0x82],
  ["PUBREL with wrong flags", [0x60, 2, 0, 1], 0x81],
  ["PINGREQ with a body", [0xc0, 1, 0], 0x81],
  ["a second CONNECT", [...encodeConnect({ clientId: "again" })], 0x82],
  ["a packet only a server sends", [0x20, 3, 0, 0, 0], 0x82],
  ["AUTH", [0xf0, 0], 0x82],
  [
    "DISCONNECT with a Session Expiry the session never had",
    [0xe0, 7, 0, 5, 0x11, 0, 0, 0, 1],
    0x82,
  ],
  ["trailing bytes", [0x40, 6, 0, 1, 0, 0, 1, 2], 0x81],
];

/** CONNECTs that are not served: bytes, CONNACK of MQTT 5 or 3.1.1 (undefined: closed bare). */
const CONNECTS: [string, Uint8Array, 4 | 5, number | undefined][] = [
  ["MQTT 3.1", join([0x10, 15], text("MQIsdp"), [3, 2, 0, 0], text("a")), 4, 0x01],
  ["level 6", connect5([6, 2]), 5, 0x84],
  [
    "a protocol of another name",
    join([0x10, 13], text("MQTX"), [4, 2, 0, 0], text("a")),
    4,
    undefined,
  ],
  ["the reserved connect flag", connect5([5, 3]), 5, 0x81],
  ["Will QoS 3", connect5([5, 0x1e]), 5, 0x81],
  ["Will QoS without a Will", connect5([5, 0x0a]), 5, 0x81],
  ["Will Retain without a Will", connect5([5, 0x22]), 5, 0x82],
  ["the reserved flag at 3.1.1", connect4([4, 3]), 4, 0x05],
  ["a password without a user name at 3.1.1", connect4([4, 0x42], text("p")), 4, 0x05],
  ["Receive Maximum 0", connect5([5, 2], [3, 0x21, 0, 0]), 5, 0x82],
  ["Maximum Packet Size 0", connect5([5, 2], [5, 0x27, 0, 0, 0, 0]), 5, 0x82],
  ["a property twice", connect5([5, 2], [6, 0x21, 0, 1, 0x21, 0, 1]), 5, 0x82],
  ["a property CONNECT does not have", connect5([5, 2], [3, 0x23, 0, 1]), 5, 0x81],
  ["Request Problem Information 2", connect5([5, 2], [2, 0x17, 2]), 5, 0x82],
  ["Authentication Data without a Method", connect5([5, 2], [4, 0x16, 0, 1, 9]), 5, 0x82],
  ["an Authentication Method", connect5([5, 2], [4, 0x15, 0, 1, 0x61]), 5, 0x8c],
  ["a client id with a control character", encodeConnect({ clientId: "a\u0001" }), 5, 0x85],
  [
    "a client id with a control character at 3.1.1",
    encodeConnect({ level: 4, clientId: "a\u0081" }),
    4,
    0x02,
  ],
  ["a client id over its limit", encodeConnect({ clientId: "x".repeat(31) }), 5, 0x85],
  [
    "no client id for a session that is kept",
    encodeConnect({ clientId: "", properties: { sessionExpiry: 10 } }),
    5,
    0x85,
  ],
  [
    "no client id with cleanSession 0",
    encodeConnect({ level: 4, clientId: "", cleanStart: false }),
    4,
    0x02,
  ],
  [
    "a reserved User Property",
    encodeConnect({ properties: { userProperties: [["saguin-", ""]] } }),
    5,
    0x83,
  ],
  [
    "a CONNECT over max_connect_size",
    encodeConnect({ clientId: "a", userName: "x".repeat(600) }),
    5,
    0x95,
  ],
  [
    "a CONNECT over max_connect_size at 3.1.1",
    encodeConnect({ level: 4, clientId: "a", userName: "x".repeat(600) }),
    4,
    undefined,
  ],
  ["a PUBLISH first", encodePublish({ topic: "a" }), 5, undefined],
  ["no MQTT at all", new TextEncoder().encode("GET / HTTP/1.1\r\n\r\n"), 5, undefined],
];

function connect5(head: Bytes, properties: Bytes = [0], rest: readonly number[] | Uint8Array = []) {
  const body = join(text("MQTT"), head, [0, 0], properties, text("a"), rest);
  return join([0x10, body.length], body);
}

function connect4(head: Bytes, rest: readonly number[] | Uint8Array = []) {
  const body = join(text("MQTT"), head, [0, 0], text("a"), rest);
  return join([0x10, body.length], body);
}

rules("02a 10 and 11: malformed input", {
  limits: "max_client_id_length: 30\nmax_connect_size: 512\nmax_message_size: 4KiB",
}, {
  "each is told by its code where the protocol has one, and costs its own connection alone": async (
    house,
  ) => {
    using proper = await house.client({ clientId: "proper" });
    await subscribed(proper, "proper");
    for (const [what, bytes, code] of AFTER_CONNECT) {
      using client = await house.client({ clientId: "wrong" });
      await client.send(Uint8Array.from(bytes));
      try {
        await client.expectClose(code);
      } catch (error) {
        throw new Error(what, { cause: error });
      }
    }
    await published(proper, "proper", "still here", { qos: 0 });
    await taken(proper, "proper", "still here");
  },

  "3.1.1 is closed without a word": async (house) => {
    const wrong: Bytes[] = [
      [0x36, 5, 0, 1, 0x61, 0, 1],
      [0x32, 5, 0, 1, 0x61, 0, 0],
      [0x30, 3, 0, 1, 0x23],
      [0x82, 2, 0, 1],
      [0x82, 6, 0, 1, 0, 1, 0x61, 3],
      [0x82, 8, 0, 1, 0, 3, 0x61, 0x23, 0x62, 0],
      [0xf0, 0],
      [0xe0, 1, 0],
      [...encodeConnect({ level: 4 })],
    ];
    for (const bytes of wrong) {
      using client = await house.client({ level: 4, clientId: "wrong" });
      await client.send(Uint8Array.from(bytes));
      await client.expectClose();
    }
  },

  "a CONNECT that is not served is answered in its own protocol's words": async (house) => {
    for (const [what, bytes, level, code] of CONNECTS) {
      using client = await WireClient.open(house.port, level);
      await client.send(bytes);
      try {
        if (code !== undefined) {
          const connack = await client.expectConnack(code);
          assert.equal(connack.sessionPresent, false);
        }
        await client.expectClose();
      } catch (error) {
        throw new Error(what, { cause: error });
      }
    }
    using empty = await WireClient.open(house.port);
    await empty.connect({ clientId: "" });
    assert.ok((await empty.expectConnack()).properties.assignedClientId);
    using old = await WireClient.open(house.port, 4);
    await old.connect({ level: 4, clientId: "" });
    await old.expectConnack();
  },

  "a malformed filter refuses its filter, and closes at 3.1.1": async (house) => {
    using client = await house.client({ clientId: "filters" });
    await client.subscribe({
      subscriptions: ["a/#/b", "a+", "#a", "fine"].map((filter) => ({ filter })),
    });
    await client.expectSuback(1, [0x8f, 0x8f, 0x8f, 0]);
    using old = await house.client({ level: 4, clientId: "filters4" });
    await old.send(encodeSubscribe({ level: 4, subscriptions: [{ filter: "a/#/b" }] }));
    await old.expectClose();
  },

  "Topic Aliases 1 to 16 are taken inbound, each connection its own, and none is used outbound":
    async (
      house,
    ) => {
      using reader = await house.client({
        clientId: "aliasr",
        properties: { topicAliasMaximum: 10 },
      });
      await subscribed(reader, "alias/#");
      using client = await house.client({ clientId: "alias" });
      await published(client, "alias/a", "1", { properties: { topicAlias: 16 } });
      await published(client, "", "2", { properties: { topicAlias: 16 } });
      await published(client, "alias/b", "3", { properties: { topicAlias: 16 } });
      await published(client, "", "4", { properties: { topicAlias: 16 } });
      for (
        const [topic, payload] of [["alias/a", "1"], ["alias/a", "2"], ["alias/b", "3"], [
          "alias/b",
          "4",
        ]]
      ) {
        const got = await taken(reader, topic, payload);
        assert.equal(got.properties.topicAlias, undefined);
      }
      using other = await house.client({ clientId: "alias2" });
      await other.publish({ topic: "", properties: { topicAlias: 16 } });
      await other.expectClose(0x82);
      await nothingMore(client);
    },

  "Request Problem Information 0 withholds every Reason String": async (house) => {
    using client = await house.client({
      clientId: "silent",
      properties: { requestProblemInformation: 0 },
    });
    await client.publish({ topic: "$SYS/x", qos: 1, packetId: 1 });
    assert.deepEqual((await client.expectPuback(1, 0x87)).properties, {});
    await client.subscribe({ subscriptions: [{ filter: "$SYS/#" }] });
    assert.deepEqual((await client.expectSuback(1, [0x87])).properties, {});
    await client.send(new Uint8Array([0xf0, 0]));
    const packet = await client.expect("disconnect");
    assert.deepEqual(packet.properties, {});
  },
});
