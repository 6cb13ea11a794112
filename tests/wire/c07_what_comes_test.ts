/** 06 section 7: what a delivery carries, on each kind of topic, in MQTT 5 and 3.1.1. */
import assert from "node:assert/strict";
import { published, subscribed, taken } from "../support/clients.ts";
import { property, rules } from "../support/house.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
more:
  type: append
  filter: more/#
values:
  type: latest
  filter: values/#
`;
const OWN = ["saguin-id", "saguin-offset", "saguin-timestamp"];
const HEADERS = [["k", "1"], ["", ""], ["k", "2"]] as const;

rules("06 section 7: deliveries", { channels: CHANNELS }, {
  "06 7 the broker's labels once each, the publisher's properties whole, empty ones too": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "7w" });
    using reader = await house.client({ clientId: "7r" });
    for (const topic of ["log/7", "values/7", "plain/7"]) {
      await subscribed(reader, topic);
      await published(writer, topic, "x", {
        properties: {
          contentType: "",
          payloadFormat: 1,
          responseTopic: "r",
          correlationData: new Uint8Array(0),
          messageExpiry: 1_000,
          userProperties: HEADERS,
        },
      });
      const { properties } = await taken(reader, topic, "x");
      assert.equal(properties.contentType, "");
      assert.equal(properties.payloadFormat, 1);
      assert.equal(properties.responseTopic, "r");
      assert.equal(properties.correlationData?.length, 0);
      assert.equal(properties.messageExpiry, 1_000);
      const theirs = properties.userProperties!.filter(([name]) => !name.startsWith("saguin-"));
      assert.deepEqual(theirs, HEADERS);
      const ours = properties.userProperties!.filter(([name]) => name.startsWith("saguin-"));
      const expected = topic === "plain/7" ? [] : [...OWN, "saguin-expires"];
      assert.deepEqual(ours.map(([name]) => name).sort(), expected.sort());
    }
  },

  "06 7 forms: a UUIDv7, decimal offsets, Unix milliseconds": async (house) => {
    using writer = await house.client({ clientId: "7 forms w" });
    using reader = await house.client({ clientId: "7 forms" });
    await subscribed(reader, "log/7 forms");
    const at = Number(house.time.wall() / 1_000_000n);
    await published(writer, "log/7 forms", "x", { properties: { messageExpiry: 60 } });
    const packet = await taken(reader, "log/7 forms");
    const [[id], [offset], [timestamp], [expires]] = ["id", "offset", "timestamp", "expires"]
      .map((name) => property(packet, `saguin-${name}`));
    assert.match(id, /^[0-9a-f]{8}-[0-9a-f]{4}-7[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/);
    assert.match(offset, /^[1-9]\d*$/);
    assert.deepEqual([Number(timestamp), Number(expires)], [at, at + 60_000]);
  },

  "06 7 the channel's name where the filter reaches more than one": async (house) => {
    using writer = await house.client({ clientId: "7 name w" });
    using reader = await house.client({ clientId: "7 name" });
    await subscribed(reader, "+/7 name");
    for (const name of ["log", "more"]) {
      await published(writer, `${name}/7 name`, "x");
      assert.deepEqual(property(await taken(reader, `${name}/7 name`), "saguin-channel"), [name]);
    }
    using narrow = await house.client({ clientId: "7 narrow" });
    await subscribed(narrow, "log/7 narrow");
    await published(writer, "log/7 narrow", "x");
    assert.deepEqual(property(await taken(narrow), "saguin-channel"), []);
  },

  "06 7 broadcast has no offset, and an id only from its publisher": async (house) => {
    using writer = await house.client({ clientId: "7 plain w" });
    using reader = await house.client({ clientId: "7 plain" });
    await subscribed(reader, "plain/#");
    await published(writer, "plain/a", "x", {
      properties: { userProperties: [["saguin-id", "mine"], ["saguin-offset", "7"]] },
    });
    const { properties } = await taken(reader, "plain/a");
    assert.deepEqual(properties.userProperties, [["saguin-id", "mine"]]);
  },

  "06 7 a 3.1.1 reader has topic and payload": async (house) => {
    using writer = await house.client({ clientId: "7 old w" });
    using reader = await house.client({ level: 4, clientId: "7 old" });
    for (const topic of ["log/7 old", "values/7 old", "plain/7 old"]) {
      await subscribed(reader, topic);
      await published(writer, topic, "x", { properties: { userProperties: [["k", "v"]] } });
      assert.deepEqual((await taken(reader, topic, "x")).properties, {});
    }
  },

  "06 7 latest: RETAIN with the state, not with a change; a higher offset; a deletion is empty":
    async (house) => {
      using writer = await house.client({ level: 4, clientId: "7 state w" });
      using reader = await house.client({ clientId: "7 state" });
      await published(writer, "values/7 state", "one");
      await subscribed(reader, "values/7 state");
      const state = await taken(reader, "values/7 state", "one");
      await published(writer, "values/7 state", "two");
      const change = await taken(reader, "values/7 state", "two");
      await published(writer, "values/7 state", "");
      const gone = await taken(reader, "values/7 state", "");
      assert.deepEqual([state.retain, change.retain, gone.retain], [true, false, false]);
      const offsets = [state, change, gone].map((each) =>
        Number(property(each, "saguin-offset")[0])
      );
      assert.deepEqual(offsets, [...offsets].sort((a, b) => a - b));
      assert.equal(new Set(offsets).size, 3);
    },
});
