/** 03 section 3: from PUBLISH to record, and reserved names on client packets. */
import assert from "node:assert/strict";
import { type House, property, rules } from "../support/house.ts";
import type { Pair } from "../support/mqtt_bytes.ts";
import type { WireClient } from "../support/wire.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
values:
  type: latest
  filter: values/#
`;
const UUID7 = /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/;

async function subscriber(house: House, clientId: string, filter: string): Promise<WireClient> {
  const client = await house.client({ clientId });
  await client.subscribe({ subscriptions: [{ filter, qos: 1 }] });
  await client.expectSuback(1, [1]);
  return client;
}

rules("03 section 3: publish to record", {
  channels: CHANNELS,
  limits: "max_header_count: 4\nmax_header_bytes: 100B".replace("B", "") +
    "\nmax_topic_length: 60\nmax_topic_levels: 4\nmax_message_size: 2KiB",
}, {
  "D3.1 a record has id, topic, payload, headers in order with repeats, receipt time, offset and publish properties":
    async (house) => {
      using reader = await subscriber(house, "d3.1r", "log/one/#");
      using writer = await house.client({ clientId: "d3.1w" });
      const headers: Pair[] = [["b", "1"], ["a", "2"], ["b", ""], ["10", "x"]];
      await writer.publish({
        topic: "log/one/ä",
        payload: new Uint8Array([0, 255, 1]),
        qos: 1,
        properties: {
          contentType: "t/x",
          responseTopic: "r/t",
          correlationData: new Uint8Array([9, 8]),
          payloadFormat: 0,
          messageExpiry: 1_000,
          userProperties: headers,
        },
      });
      await writer.expectPuback(1);
      const got = await reader.expectPublish("log/one/ä", new Uint8Array([0, 255, 1]));
      const { properties } = got;
      assert.match(property(got, "saguin-id")[0], UUID7);
      assert.equal(property(got, "saguin-offset").length, 1);
      assert.deepEqual(property(got, "saguin-timestamp"), [String(house.time.wall() / 1_000_000n)]);
      assert.deepEqual(properties.userProperties!.slice(-4), headers);
      assert.equal(properties.contentType, "t/x");
      assert.equal(properties.responseTopic, "r/t");
      assert.deepEqual([...properties.correlationData!], [9, 8]);
      assert.equal(properties.payloadFormat, 0);
      assert.equal(properties.messageExpiry, 1_000);
    },

  "D3.2 D2.3 each publish is a record of its own, under its own Message ID or the one it was given":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d3.2w" });
      for (const [i, given] of [undefined, undefined, "mine", "mine"].entries()) {
        await writer.publish({
          topic: "log/two",
          payload: "same",
          qos: 1,
          packetId: i + 1,
          properties: given === undefined ? {} : { userProperties: [["saguin-id", given]] },
        });
        await writer.expectPuback(i + 1);
      }
      const ids: string[][] = [];
      for (const clientId of ["d3.2r", "d3.2s"]) {
        using reader = await subscriber(house, clientId, "log/two");
        const seen: string[] = [];
        for (let i = 0; i < 4; i++) {
          seen.push(property(await reader.expectPublish("log/two"), "saguin-id")[0]);
        }
        ids.push(seen);
      }
      assert.deepEqual(ids[0], ids[1], "the same at every delivery");
      assert.notEqual(ids[0][0], ids[0][1]);
      assert.deepEqual(ids[0].slice(2), ["mine", "mine"]);
    },

  "D3.2 a saguin-id given twice with two values, or empty, is none": async (house) => {
    using reader = await subscriber(house, "d3.2tr", "log/three");
    using writer = await house.client({ clientId: "d3.2tw" });
    const given: Pair[][] = [
      [["saguin-id", "a"], ["saguin-id", "b"]],
      [["saguin-id", ""]],
      [["saguin-id", "c"], ["saguin-id", "c"]],
    ];
    const ids: string[][] = [];
    for (const userProperties of given) {
      await writer.publish({ topic: "log/three", qos: 0, properties: { userProperties } });
      ids.push(property(await reader.expectPublish("log/three"), "saguin-id"));
    }
    assert.match(ids[0][0], UUID7);
    assert.match(ids[1][0], UUID7);
    assert.deepEqual(ids[2], ["c"]);
    assert.ok(ids.every(({ length }) => length === 1), "one id, whatever was sent");
  },

  "D3.3 D3.4 D3.13 of a client's saguin- names only its id ever comes back, from channel, live, retained and Will":
    async (
      house,
    ) => {
      const userProperties: Pair[] = [
        ["saguin-schema", "x"],
        ["k", "v"],
        ["saguin-offset", "99"],
        ["saguin-id", "given"],
      ];
      const clientNames = (packet: Parameters<typeof property>[0]) =>
        (packet.properties.userProperties ?? []).map(([name]) => name)
          .filter((name) => name !== "saguin-timestamp" && name !== "saguin-channel");
      using live = await house.client({ clientId: "d3.3r" });
      await live.subscribe({ subscriptions: [{ filter: "+/d3.3" }] });
      await live.expectSuback(1, [0]);
      for (
        const [topic, expected] of [
          ["log/d3.3", ["saguin-id", "saguin-offset", "k"]],
          ["values/d3.3", ["saguin-id", "saguin-offset", "k"]],
          ["plain/d3.3", ["k", "saguin-id"]],
        ] as const
      ) {
        using writer = await house.client({ clientId: "d3.3w" });
        await writer.publish({
          topic,
          qos: 1,
          retain: true,
          payload: "p",
          properties: { userProperties },
        });
        await writer.expectPuback(1);
        const got = await live.expectPublish(topic);
        assert.deepEqual(clientNames(got).sort(), [...expected].sort(), topic);
        assert.deepEqual(property(got, "saguin-id"), ["given"]);
        assert.notDeepEqual(property(got, "saguin-offset"), ["99"]);
      }
      using later = await house.client({ clientId: "d3.3l" });
      await later.subscribe({ subscriptions: [{ filter: "plain/d3.3" }] });
      await later.expectSuback(1, [0]);
      assert.deepEqual(clientNames(await later.expectPublish("plain/d3.3")), ["k", "saguin-id"]);

      using armed = await house.client({
        clientId: "d3.3will",
        will: { topic: "plain/d3.3", payload: "w", properties: { userProperties } },
      });
      armed.close();
      assert.deepEqual(clientNames(await live.expectPublish("plain/d3.3", "w")), [
        "k",
        "saguin-id",
      ]);
    },

  "D3.5 a broadcast carries its headers as they came, and gets no id of the broker's": async (
    house,
  ) => {
    using reader = await subscriber(house, "d3.5r", "plain/d3.5");
    using writer = await house.client({ clientId: "d3.5w" });
    const userProperties: Pair[] = [["z", "1"], ["a", "2"], ["z", "3"]];
    await writer.publish({ topic: "plain/d3.5", qos: 1, properties: { userProperties } });
    await writer.expectPuback(1);
    assert.deepEqual(
      (await reader.expectPublish("plain/d3.5")).properties.userProperties,
      userProperties,
    );
  },

  "D3.6 a 3.1.1 publisher's record is whole, with an id of the broker's": async (house) => {
    using reader = await subscriber(house, "d3.6r", "log/d3.6");
    using writer = await house.client({ level: 4, clientId: "d3.6w" });
    await writer.publish({ topic: "log/d3.6", payload: "old", qos: 1 });
    await writer.expectPuback(1);
    const got = await reader.expectPublish("log/d3.6", "old");
    assert.match(property(got, "saguin-id")[0], UUID7);
    assert.deepEqual(got.properties.userProperties!.map(([name]) => name), [
      "saguin-id",
      "saguin-offset",
      "saguin-timestamp",
    ]);
  },

  "D3.7 a record does not depend on who reads it": async (house) => {
    using writer = await house.client({ clientId: "d3.7w" });
    await writer.publish({ topic: "log/d3.7", payload: "p", qos: 1, retain: true });
    await writer.expectPuback(1);
    using plain = await subscriber(house, "d3.7a", "log/d3.7");
    const before = await plain.expectPublish("log/d3.7");
    using asking = await house.client({ clientId: "d3.7b" });
    await asking.subscribe({
      subscriptions: [{ filter: "log/d3.7", qos: 0, retainAsPublished: true }],
      properties: { subscriptionIdentifiers: [7] },
    });
    await asking.expectSuback(1, [0]);
    const asked = await asking.expectPublish("log/d3.7");
    assert.deepEqual([asked.retain, asked.properties.subscriptionIdentifiers], [true, [7]]);
    using again = await subscriber(house, "d3.7c", "log/d3.7");
    const after = await again.expectPublish("log/d3.7");
    assert.deepEqual([after.retain, after.properties], [false, before.properties]);
  },

  "D3.8 topics too long or too deep, headers too many or too large: refused by name, and the connection stays":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d3.8" });
      const refusals: [Parameters<WireClient["publish"]>[0], number, RegExp][] = [
        [{ topic: "log/" + "x".repeat(57) }, 0x90, /max_topic_length/],
        [{ topic: "log/1/2/3/4" }, 0x90, /max_topic_levels/],
        [
          { topic: "log/h", properties: { userProperties: Array(5).fill(["a", "b"]) } },
          0x97,
          /max_header_count/,
        ],
        [
          { topic: "log/h", properties: { userProperties: [["a", "b".repeat(100)]] } },
          0x97,
          /max_header_bytes/,
        ],
        [
          { topic: "log/h", payload: new Uint8Array([0xc0]), properties: { payloadFormat: 1 } },
          0x99,
          /UTF-8/,
        ],
        [{ topic: "$share/g/x" }, 0x90, /\$share/],
        [{ topic: "$SYS/x" }, 0x87, /\$SYS/],
        [{ topic: "$saguin/else" }, 0x90, /^this is not a topic saguin defines$/],
      ];
      let packetId = 0;
      for (const [options, code, reason] of refusals) {
        await writer.publish({ ...options, qos: 1, packetId: ++packetId });
        assert.match((await writer.expectPuback(packetId, code)).properties.reasonString!, reason);
        await writer.publish({ ...options, qos: 2, packetId: ++packetId });
        await writer.expectPubrec(packetId, code);
        await writer.publish({ ...options, qos: 0 });
      }
      await writer.publish({ topic: "log/1/2/3", qos: 1, packetId: 100 });
      await writer.expectPuback(100);
    },

  "D3.8 a packet over Maximum Packet Size ends the connection by its declared length": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d3.8size" });
    await writer.send(new Uint8Array([0x30, 0x81, 0x10]));
    await writer.expectClose(0x95);
    using old = await house.client({ level: 4, clientId: "d3.8size4" });
    await old.send(new Uint8Array([0x30, 0x81, 0x10]));
    await old.expectClose();
  },

  "a refused 3.1.1 publish closes at QoS 1 and 2, and is dropped at QoS 0": async (house) => {
    for (const qos of [1, 2]) {
      using writer = await house.client({ level: 4, clientId: "refused4" });
      await writer.publish({ topic: "$SYS/x", qos });
      await writer.expectClose();
    }
    using writer = await house.client({ level: 4, clientId: "refused4" });
    await writer.publish({ topic: "$SYS/x", qos: 0 });
    await writer.pingreq();
    await writer.expectPingresp();
  },

  "D3.9 a record is stored before anybody hears of it": async (house, provider) => {
    if (provider === "memory") return;
    using reader = await subscriber(house, "d3.9r", "log/d3.9");
    using writer = await house.client({ clientId: "d3.9w" });
    const gate = house.faults.hold("submit");
    await writer.publish({ topic: "log/d3.9", qos: 1 });
    await writer.expectSilence(50);
    await reader.expectSilence(1);
    gate.open();
    await writer.expectPuback(1);
    await reader.expectPublish("log/d3.9");
  },

  "D3.9 what the store cannot keep is refused, and delivered to nobody": async (house) => {
    using reader = await subscriber(house, "d3.9fr", "log/d3.9f");
    using writer = await house.client({ clientId: "d3.9fw" });
    house.faults.refuse("submit", "failed", 1);
    await writer.publish({ topic: "log/d3.9f", payload: "lost", qos: 1 });
    await writer.expectPuback(1, 0x83);
    house.faults.refuse("submit", "full", 1);
    await writer.publish({ topic: "log/d3.9f", payload: "lost", qos: 1, packetId: 2 });
    await writer.expectPuback(2, 0x97);
    await writer.publish({ topic: "log/d3.9f", payload: "kept", qos: 1, packetId: 3 });
    await writer.expectPuback(3);
    await reader.expectPublish("log/d3.9f", "kept");
  },

  "D3.10 a reserved name refuses the CONNECT": async (house) => {
    using client = await house.client({ clientId: "d3.10" });
    client.close();
    const { WireClient } = await import("../support/wire.ts");
    using refused = await WireClient.open(house.port);
    await refused.connect({
      clientId: "d3.10",
      properties: { userProperties: [["saguin-x", ""]] },
    });
    assert.match((await refused.expectConnack(0x83)).properties.reasonString!, /saguin-/);
    await refused.expectClose();
  },

  "D3.11 a reserved name that is not read refuses every filter of the SUBSCRIBE": async (house) => {
    using client = await house.client({ clientId: "d3.11" });
    await client.subscribe({
      subscriptions: [{ filter: "a" }, { filter: "log/#" }],
      properties: { userProperties: [["saguin-filters", "x"]] },
    });
    await client.expectSuback(1, [0x83, 0x83]);
  },

  "D3.12 an UNSUBSCRIBE is carried out and its unread name told, unless nobody wants to know":
    async (
      house,
    ) => {
      for (const asked of [1, 0]) {
        using client = await house.client({
          clientId: "d3.12",
          properties: { requestProblemInformation: asked },
        });
        await client.subscribe({ subscriptions: [{ filter: "a" }] });
        await client.expectSuback(1, [0]);
        await client.unsubscribe({
          filters: ["a"],
          properties: { userProperties: [["saguin-why", "x"]] },
        });
        const { properties } = await client.expectUnsuback(1, [0]);
        assert.deepEqual(
          properties.userProperties,
          asked === 1 ? [["saguin-unread", "saguin-why"]] : undefined,
        );
        await client.unsubscribe({ filters: ["a"] });
        await client.expectUnsuback(1, [0x11]);
      }
    },

  "D3.14 saguin-filter and saguin-deletions are read, and other names are not the broker's": async (
    house,
  ) => {
    using client = await house.client({ clientId: "d3.14" });
    await client.subscribe({
      subscriptions: [{ filter: "a" }],
      properties: {
        userProperties: [["saguin-deletions", ""], ["saguin-filter", "topic_hash(1, 0)"], [
          "x",
          "y",
        ]],
      },
    });
    await client.expectSuback(1, [0]);
  },

  "D2.6 a publish that nobody hears is answered success": async (house) => {
    using writer = await house.client({ clientId: "d2.6" });
    await writer.publish({ topic: "nobody/hears", qos: 1 });
    await writer.expectPuback(1, 0);
    await writer.publish({ topic: "nobody/hears", qos: 2, packetId: 2 });
    await writer.expectPubrec(2, 0);
    await writer.pubrel(2);
    await writer.expectPubcomp(2, 0);
  },
});
