/** 06 section 16: every refusal has a sentence, unless CONNECT asked for none. */
import assert from "node:assert/strict";
import { overBoth } from "../support/house.ts";
import { durable, published, subscribed } from "../support/clients.ts";
import { request } from "../support/requests.ts";
import type { WireClient } from "../support/wire.ts";

const CHANNELS = "log:\n  type: append\n  filter: log/#\njobs:\n  type: queue\n  filter: jobs/#";

const PUBLISHES: readonly [topic: string, code: number][] = [
  ["$saguin/kv/get", 0x83],
  ["jobs/__dlq/x", 0x87],
  ["$saguin/else", 0x90],
  ["$saguin/consumer/jobs/seek", 0x90],
  ["log/" + "x".repeat(2_000), 0x90],
];
const FILTERS: readonly [filter: string, qos: number, code: number][] = [
  ["$saguin/queue/jobs", 2, 0x01],
  ["$saguin/queue/jobs", 0, 0x83],
  ["$saguin/else", 1, 0x87],
  ["jobs/x", 1, 0x8f],
  ["$saguin/queue/jobs/x", 1, 0x8f],
  ["plain/2", 1, 0x97],
];

overBoth(
  "06 16 I10 each code with its sentence; with Request Problem Information 0 the code alone",
  { channels: CHANNELS, limits: "max_subscriptions: 2" },
  async (house) => {
    for (const requestProblemInformation of [undefined, 1, 0]) {
      const told = requestProblemInformation !== 0;
      using client = await house.client({
        clientId: "16",
        properties: { requestProblemInformation },
      });
      for (const [topic, code] of PUBLISHES) {
        await client.publish({ topic, payload: "x", qos: 1, packetId: 5 });
        const { properties } = await client.expectPuback(5, code);
        assert.equal(properties.reasonString !== undefined, told, topic);
      }
      await subscribed(client, "plain/1");
      for (const [filter, qos, code] of FILTERS) {
        await client.subscribe({ subscriptions: [{ filter, qos }] });
        const { properties } = await client.expectSuback(1, [code]);
        assert.equal(properties.reasonString !== undefined, told && code >= 0x80, filter);
      }
    }
  },
);

overBoth(
  "06 16 DISCONNECT says why: taken over, hung up, a record larger than the client takes",
  { channels: CHANNELS },
  async (house) => {
    const first = (await durable(house, "16")).client;
    const second = (await durable(house, "16")).client;
    const ended = async (client: WireClient, code: number) => {
      const packet = await client.expect("disconnect");
      assert.equal(packet.reasonCode, code);
      assert.ok(packet.properties.reasonString, `0x${code.toString(16)} without a sentence`);
    };
    await ended(first, 0x8e);
    using admin = await house.client({ clientId: "16 admin" });
    await request(admin, "$saguin/sessions/disconnect", "16");
    await ended(second, 0x98);
    using small = await house.client({
      clientId: "16 small",
      properties: { maximumPacketSize: 200 },
    });
    await subscribed(small, "log/16");
    await published(admin, "log/16", "x".repeat(500));
    await ended(small, 0x95);
    first.close();
    second.close();
  },
);
