/** 06 section 1: the reserved space, in MQTT 5 and 3.1.1. */
import assert from "node:assert/strict";
import { nothingMore, published, subscribed } from "../support/clients.ts";
import { rules } from "../support/house.ts";
import { refused } from "../support/requests.ts";
import { WireClient } from "../support/wire.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
values:
  type: latest
  filter: values/#
jobs:
  type: queue
  filter: jobs/#
`;
const NOT_DEFINED = "this is not a topic saguin defines";

rules("06 section 1: the reserved space", { channels: CHANNELS }, {
  "06 1 a publish to any other topic of it is refused with the words that clients compare": async (
    house,
  ) => {
    using client = await house.client({ clientId: "1 publish" });
    const none = [
      "$saguin/",
      "$saguin/else",
      "$saguin/kv",
      "$saguin/kv/get/more",
      "$saguin/kv/set",
      "$saguin/catalogue",
      "$saguin/consumer/log",
      "$saguin/consumer/log/seek/more",
      "$saguin/sessions/list",
    ];
    for (const topic of none) {
      const { code, reason } = await refused(client, topic, "x");
      assert.deepEqual([code, reason], [0x90, NOT_DEFINED], topic);
    }
    for (const topic of ["$saguin/queue/jobs", "$saguin/consumer/log/seek/reply"]) {
      assert.equal((await refused(client, topic, "x")).code, 0x90, topic);
    }
  },

  "06 1 a seek or an answer that names no channel, or one of another type, is told which": async (
    house,
  ) => {
    using client = await house.client({ clientId: "1 names", properties: { sessionExpiry: 60 } });
    const cases: [string, RegExp][] = [
      ["$saguin/consumer/nosuch/seek", /nosuch/],
      ["$saguin/consumer/values/seek", /latest/],
      ["$saguin/consumer/jobs/seek", /queue/],
      ["$saguin/queue/nosuch/response", /nosuch/],
      ["$saguin/queue/log/response", /append/],
      ["$saguin/queue/values/response", /latest/],
    ];
    for (const [topic, says] of cases) {
      const { code, reason } = await refused(client, topic, "0");
      assert.equal(code, 0x90, topic);
      assert.match(reason, says, topic);
    }
  },

  "06 1 filters: a queue's pin and one's own seek answers, nothing else": async (house) => {
    const cases: [string, number][] = [
      ["$saguin/queue/jobs", 0x01],
      ["$saguin/consumer/log/seek/reply", 0x01],
      ["$saguin/queue/nosuch", 0x8f],
      ["$saguin/queue/log", 0x8f],
      ["$saguin/queue/+", 0x8f],
      ["$saguin/queue/jobs/response", 0x8f],
      ["$saguin/kv/get", 0x87],
      ["$saguin/consumer/log/seek", 0x87],
      ["$saguin/consumer/#", 0x87],
      ["$saguin/#", 0x87],
      ["$saguin/catalogue/log", 0x87],
    ];
    using five = await house.client({ clientId: "1 filters" });
    using four = await house.client({ level: 4, clientId: "1 filters, 3.1.1" });
    for (const [filter, code] of cases) {
      await five.subscribe({ subscriptions: [{ filter, qos: 1 }] });
      const { properties } = await five.expectSuback(1, [code]);
      assert.equal(properties.reasonString !== undefined, code >= 0x80, filter);
      await four.subscribe({ subscriptions: [{ filter, qos: 1 }] });
      const worker = filter === "$saguin/queue/jobs";
      await four.expectSuback(1, [code >= 0x80 || worker ? 0x80 : code]);
    }
  },

  "06 1 no wildcard reaches it": async (house) => {
    using all = await house.client({ clientId: "1 all", properties: { sessionExpiry: 60 } });
    for (const filter of ["#", "+/#", "+/catalogue/+"]) await subscribed(all, filter);
    using asking = await house.client({ clientId: "1 asking" });
    await published(asking, "$saguin/catalogue/log", "", {
      qos: 0,
      properties: { responseTopic: "saguin/reply/x" },
    });
    await published(asking, "$saguin/else", "x", { qos: 0 });
    await nothingMore(asking);
    await nothingMore(all);
  },

  "06 1 a Will aimed at it refuses the CONNECT; a publish costs a 3.1.1 client its connection":
    async (house) => {
      for (const topic of ["$saguin/kv/get", "$saguin/queue/jobs/response", "$saguin/else"]) {
        for (const level of [5, 4] as const) {
          const client = await WireClient.open(house.port, level);
          await client.connect({ level, clientId: "1 will", will: { topic, payload: "x" } });
          await client.expectConnack(level === 5 ? 0x90 : 0x05);
          await client.expectClose();
        }
      }
      using four = await house.client({ level: 4, clientId: "1 closed" });
      await four.publish({ topic: "$saguin/else", payload: "x", qos: 1, packetId: 9 });
      await four.expectClose();
    },
});
