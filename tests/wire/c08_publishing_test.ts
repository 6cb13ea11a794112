/** 06 section 8: publishing, in MQTT 5 and 3.1.1. */
import assert from "node:assert/strict";
import { nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { property, rules } from "../support/house.ts";
import { refused } from "../support/requests.ts";
import { WireClient } from "../support/wire.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
jobs:
  type: queue
  filter: jobs/#
small:
  type: append
  filter: small/#
  max_bytes: 200
`;
const LIMITS = "max_topic_levels: 4\nmax_header_count: 2\nmax_header_bytes: 100";

rules("06 section 8: publishing", { channels: CHANNELS, limits: LIMITS }, {
  "06 8 an id is kept verbatim and never deduplicated; other reserved names are stripped": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "8w" });
    using reader = await house.client({ clientId: "8r" });
    await subscribed(reader, "log/8");
    const userProperties = [["saguin-id", "mine"], ["saguin-attempt", "9"]] as const;
    for (let i = 0; i < 2; i++) {
      await published(writer, "log/8", "x", { properties: { userProperties } });
    }
    const [one, two] = [await taken(reader), await taken(reader)];
    for (const each of [one, two]) {
      assert.deepEqual(property(each, "saguin-id"), ["mine"]);
      assert.deepEqual(property(each, "saguin-attempt"), []);
    }
    assert.notDeepEqual(property(one, "saguin-offset"), property(two, "saguin-offset"));
  },

  "06 8 reserved names elsewhere: CONNECT and SUBSCRIBE are refused, UNSUBSCRIBE says what it did not read":
    async (house) => {
      const userProperties = [["saguin-nosuch", "1"]] as const;
      const refusedClient = await WireClient.open(house.port);
      await refusedClient.connect({ clientId: "8 reserved", properties: { userProperties } });
      const { properties } = await refusedClient.expectConnack(0x83);
      assert.ok(properties.reasonString);
      await refusedClient.expectClose();
      using client = await house.client({ clientId: "8 reserved" });
      await client.subscribe({
        subscriptions: [{ filter: "log/#", qos: 1 }, { filter: "plain/#", qos: 1 }],
        properties: { userProperties },
      });
      await client.expectSuback(1, [0x83, 0x83]);
      await subscribed(client, "plain/#");
      await client.unsubscribe({ filters: ["plain/#"], properties: { userProperties } });
      const unsuback = await client.expectUnsuback(1, [0]);
      assert.deepEqual(unsuback.properties.userProperties, [["saguin-unread", "saguin-nosuch"]]);
    },

  "06 8 each refusal has its code and sentence, and the connection goes on": async (house) => {
    using client = await house.client({ clientId: "8 codes" });
    const cases: [
      topic: string,
      payload: string | Uint8Array,
      code: number,
      properties?: object,
    ][] = [
      ["jobs/__dlq/x", "x", 0x87],
      ["$share/g/log/x", "x", 0x90],
      ["$saguin/else", "x", 0x90],
      ["log/1/2/3/4", "x", 0x90],
      ["log/" + "x".repeat(2_000), "x", 0x90],
      ["log/x", "x", 0x97, { userProperties: [["a", "1"], ["b", "2"], ["c", "3"]] }],
      ["log/x", "x", 0x97, { userProperties: [["a", "x".repeat(200)]] }],
      ["log/x", new Uint8Array([0xff]), 0x99, { payloadFormat: 1 }],
      ["small/x", "x".repeat(500), 0x97],
    ];
    for (const [topic, payload, code, properties] of cases) {
      assert.equal((await refused(client, topic, payload, properties ?? {})).code, code, topic);
    }
    // At QoS 0 nothing tells it.
    for (const topic of ["jobs/__dlq/x", "$saguin/else"]) {
      await client.publish({ topic, payload: "x", qos: 0 });
    }
    await nothingMore(client);
    await published(client, "log/x", "served");
  },

  "06 8 a topic that nobody claims or listens to is a success, in both protocols": async (
    house,
  ) => {
    for (const level of [5, 4] as const) {
      using client = await house.client({ level, clientId: `8 plain ${level}` });
      await published(client, "nobody/listens", "x");
    }
  },

  "06 8 a refused publish of a 3.1.1 client costs its connection": async (house) => {
    using client = await house.client({ level: 4, clientId: "8 old" });
    await client.publish({ topic: "jobs/__dlq/x", payload: "x", qos: 1, packetId: 3 });
    await client.expectClose();
  },

  "06 8 the delivered QoS is the lower of publish and subscription": async (house) => {
    using writer = await house.client({ clientId: "8 qos w" });
    for (const topic of ["log/8 qos", "plain/8 qos"]) {
      for (const granted of [0, 1]) {
        using reader = await house.client({ clientId: "8 qos" });
        await subscribed(reader, topic, granted, { retainHandling: 2 });
        for (const qos of [0, 1]) {
          await published(writer, topic, "x", { qos });
          assert.equal((await taken(reader, topic)).qos, Math.min(qos, granted));
        }
      }
    }
  },
});
