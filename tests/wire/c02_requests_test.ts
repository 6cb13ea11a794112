/** 06 section 2: what the verbs have in common. */
import assert from "node:assert/strict";
import { nothingMore, published, stuffed, subscribed, taken } from "../support/clients.ts";
import { type House, rules, text } from "../support/house.ts";
import { refused, request } from "../support/requests.ts";
import { until } from "../support/wait.ts";
import type { WireClient } from "../support/wire.ts";

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
const SEEK = "$saguin/consumer/log/seek";
const VERBS: readonly [topic: string, payload: string][] = [
  ["$saguin/catalogue/log", ""],
  ["$saguin/kv/get", "values/nothing"],
  [SEEK, "-1"],
  ["$saguin/sessions/disconnect", "nobody"],
];

function durableClient(house: House, clientId: string): Promise<WireClient> {
  return house.client({ clientId, properties: { sessionExpiry: 60 } });
}

rules("06 section 2: requests", { channels: CHANNELS, limits: "max_message_size: 64KiB" }, {
  "06 2.1 a request becomes no record, is not fanned out and not retained": async (house) => {
    using client = await durableClient(house, "2.1");
    using other = await house.client({ clientId: "2.1 other" });
    await subscribed(other, "#");
    for (const [topic, payload] of VERBS) {
      await client.publish({
        topic,
        payload,
        qos: 1,
        packetId: 7,
        retain: true,
        properties: { responseTopic: "2.1/reply" },
      });
      await client.expectPublish("2.1/reply");
      await client.expectPuback(7);
    }
    await nothingMore(other);
    assert.equal(house.broker.routes.channel("log")!.store.next(), 1);
    using late = await house.client({ clientId: "2.1 late" });
    await subscribed(late, "#");
    await nothingMore(late);
  },

  "06 2.2 the PUBACK is where a request is refused, and then nothing is replied": async (house) => {
    using client = await durableClient(house, "2.2");
    for (const topic of ["$saguin/kv/get", "$saguin/sessions/disconnect"]) {
      assert.equal((await refused(client, topic)).code, 0x83, topic);
    }
    assert.equal((await refused(client, "$saguin/kv/get", "log/x")).code, 0x90);
    // A refused seek is told twice.
    const seek = await request(client, SEEK, "nonsense");
    assert.equal(text(seek.reply!), "malformed");
    assert.equal(seek.code, 0x83);
    assert.ok(seek.reason);
  },

  "06 2.3 a reply goes to the asker alone, unasked for, at QoS 0 without RETAIN, and is not kept":
    async (house) => {
      using third = await house.client({ clientId: "2.3 third" });
      await subscribed(third, "2.3/#");
      const asking = await durableClient(house, "2.3");
      for (const [topic, payload] of VERBS) {
        const { reply } = await request(asking, topic, payload, { responseTopic: "2.3/mine" });
        assert.equal(reply!.topic, "2.3/mine");
        assert.deepEqual([reply!.qos, reply!.retain, reply!.dup], [0, false, false]);
      }
      await nothingMore(third);
      asking.close();
      await house.away("2.3");
      const { client, present } = await house.connect({
        clientId: "2.3",
        cleanStart: false,
        properties: { sessionExpiry: 60 },
      });
      assert.equal(present, true);
      await nothingMore(client);
      client.close();
    },

  "06 2.4 Correlation Data comes back byte for byte, or not at all": async (house) => {
    using client = await durableClient(house, "2.4");
    const correlationData = Uint8Array.from({ length: 256 }, (_, i) => i);
    for (const [topic, payload] of VERBS) {
      const properties = { responseTopic: "2.4/reply", correlationData };
      const { reply } = await request(client, topic, payload, properties);
      assert.deepEqual([...reply!.properties.correlationData!], [...correlationData], topic);
      const bare = await request(client, topic, payload, { responseTopic: "2.4/reply" });
      const back = bare.reply!.properties.correlationData;
      if (topic === "$saguin/kv/get") assert.equal(new TextDecoder().decode(back), payload);
      else assert.equal(back, undefined, topic);
    }
  },

  "06 2.5 the reply is written before the PUBACK": async (house) => {
    using client = await durableClient(house, "2.5");
    for (const [topic, payload] of VERBS) {
      await client.publish({
        topic,
        payload,
        qos: 1,
        packetId: 3,
        properties: { responseTopic: "2.5/reply" },
      });
      await client.expectPublish("2.5/reply");
      await client.expectPuback(3);
    }
  },

  "06 2.6 an answer does not queue behind deliveries": async (house) => {
    using writer = await house.client({ clientId: "2.6w" });
    for (let i = 0; i < 50; i++) await published(writer, "log/2.6", String(i));
    using client = await house.client({
      clientId: "2.6",
      properties: { sessionExpiry: 60, receiveMaximum: 2 },
    });
    await subscribed(client, "log/2.6");
    // The window is full, and stays so.
    for (let i = 0; i < 2; i++) await client.expectPublish("log/2.6", String(i));
    const { reply } = await request(client, "$saguin/catalogue/log", "");
    assert.match(text(reply!), /"append"/);
  },

  "06 2.7 without a Response Topic three verbs do nothing; a seek and an answer need none": async (
    house,
  ) => {
    using client = await durableClient(house, "2.7");
    using target = await house.client({ clientId: "2.7 target" });
    await published(client, "values/2.7", "v");
    for (
      const [topic, payload] of [
        ["$saguin/catalogue/log", ""],
        ["$saguin/kv/get", "values/2.7"],
        ["$saguin/sessions/disconnect", "2.7 target"],
      ]
    ) {
      const { code, reason } = await refused(client, topic, payload, {});
      assert.equal(code, 0x83, topic);
      assert.match(reason, /Response Topic/);
    }
    await nothingMore(target);
    const seek = await request(client, SEEK, "-1", {});
    assert.deepEqual([seek.reply!.topic, seek.code], [SEEK + "/reply", 0]);
    assert.equal((await request(client, "$saguin/queue/jobs/response", "ack", {})).code, 0);
  },

  "06 2.8 at QoS 0: no way to refuse, so two verbs are dropped; the others work": async (house) => {
    using client = await durableClient(house, "2.8");
    using target = await house.client({ clientId: "2.8 target" });
    const ask = (topic: string, payload: string, responseTopic: string | undefined = "2.8/reply") =>
      client.publish({ topic, payload, qos: 0, properties: { responseTopic } });
    await ask("$saguin/catalogue/log", "");
    await ask("$saguin/kv/get", "values/nothing");
    await ask("$saguin/sessions/disconnect", "2.8");
    await nothingMore(client);
    await ask("$saguin/sessions/disconnect", "2.8 target");
    await client.expectPublish("2.8/reply", "hung-up");
    await target.expectClose(0x98);
    await ask(SEEK, "0");
    await client.expectPublish(
      "2.8/reply",
      String(house.broker.routes.channel("log")!.store.floor()),
    );
    await nothingMore(client);
  },

  "06 2.9 MQTT 3.1.1: three verbs cost the connection, a seek works and is told by its reply":
    async (
      house,
    ) => {
      for (
        const [topic, payload] of [
          ["$saguin/catalogue/log", ""],
          ["$saguin/kv/get", "values/x"],
          ["$saguin/sessions/disconnect", "nobody"],
        ]
      ) {
        using client = await house.client({ level: 4, clientId: "2.9" });
        await client.publish({ topic, payload, qos: 1, packetId: 1 });
        await client.expectClose();
      }
      using client = await house.client({ level: 4, clientId: "2.9 seek", cleanStart: false });
      const seek = async (payload: string, reply: string) => {
        await client.publish({ topic: SEEK, payload, qos: 1, packetId: 1 });
        await client.expectPublish(SEEK + "/reply", reply);
        await client.expectPuback(1);
      };
      await seek("nonsense", "malformed");
      await seek("-1", String(house.broker.routes.channel("log")!.store.next()));
    },

  "06 2.10 an asker that reads no answers is disconnected, and delays nobody": async (house) => {
    using deaf = await house.client({ clientId: "2.10" });
    using writer = await house.client({ clientId: "2.10w" });
    await published(writer, "values/2.10", "x".repeat(30_000));
    await subscribed(deaf, "2.10/#", 0);
    await stuffed(house, "2.10", writer, "2.10/x");
    for (let i = 1; i <= 20; i++) {
      await deaf.publish({
        topic: "$saguin/kv/get",
        payload: "values/2.10",
        qos: 1,
        packetId: i,
        properties: { responseTopic: "r" },
      });
    }
    using other = await house.client({ clientId: "2.10 other" });
    await subscribed(other, "log/2.10");
    await published(writer, "log/2.10", "in time");
    await taken(other, "log/2.10", "in time");
    await house.time.pass(6_000);
    await until("the deaf one to be gone", () => house.broker.sessions.get("2.10") === undefined);
  },
});
