/** 03 section 10: No Local. */
import assert from "node:assert/strict";
import {
  durable,
  nothingMore,
  published,
  publishedTwice,
  subscribed,
  taken,
} from "../support/clients.ts";
import { property, rules } from "../support/house.ts";

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
const NO_LOCAL = { noLocal: true };

rules("03 section 10: No Local", { channels: CHANNELS }, {
  "D10.1 D10.2 D10.3 a client's own broadcasts, records, values and retained values are withheld":
    async (
      house,
    ) => {
      for (const expiry of [0, 100]) {
        const id = `d10.1-${expiry}`;
        const { client } = await durable(house, id, { expiry });
        using other = await house.client({ clientId: `${id}o` });
        await client.subscribe({ subscriptions: [{ filter: `+/${id}`, qos: 2, noLocal: true }] });
        await client.expectSuback(1, [2]);
        for (const topic of [`plain/${id}`, `log/${id}`, `values/${id}`]) {
          await published(client, topic, "own");
          await publishedTwice(client, topic, "own, twice");
          await published(other, topic, "other's", { retain: true });
          await taken(client, topic, "other's");
          await published(client, topic, "own", { retain: true });
        }
        await nothingMore(client);
        await client.subscribe({ subscriptions: [{ filter: `+/${id}`, qos: 2, noLocal: true }] });
        await client.expectSuback(1, [2]);
        await nothingMore(client);
        client.close();
      }
    },

  "D10.5 one matching subscription without it delivers; what was withheld is stepped over for good":
    async (
      house,
    ) => {
      const { client } = await durable(house, "d10.5");
      await subscribed(client, "log/d10.5/#", 1, NO_LOCAL);
      await published(client, "log/d10.5/a", "withheld");
      await nothingMore(client);
      await subscribed(client, "log/d10.5/+");
      await nothingMore(client);
      await published(client, "log/d10.5/a", "delivered");
      await taken(client, "log/d10.5/a", "delivered");
      await published(client, "plain", "nobody's");
      await nothingMore(client);
      client.close();
    },

  "D10.6 a Will is its arming client's own, after resumption too": async (house) => {
    const { client } = await durable(house, "d10.6", {
      will: { topic: "plain/d10.6", payload: "will", properties: { willDelay: 10 } },
    });
    await subscribed(client, "+/d10.6", 1, NO_LOCAL);
    using other = await house.client({ clientId: "d10.6o" });
    await subscribed(other, "+/d10.6");
    client.close();
    await house.away("d10.6");
    await house.time.pass(10_000);
    await taken(other, "plain/d10.6", "will");
    await published(other, "plain/d10.6", "other's");
    const { client: again } = await durable(house, "d10.6");
    await taken(again, "plain/d10.6", "other's");
    await nothingMore(again);
    again.close();
  },

  "D10.4 on a queue it refuses the filter, naming it, and the connection stays": async (house) => {
    using client = await house.client({ clientId: "d10.4" });
    await client.subscribe({
      subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1, noLocal: true }],
    });
    const { properties } = await client.expectSuback(1, [0x8f]);
    assert.match(properties.reasonString!, /\$saguin\/queue\/jobs/);
    await nothingMore(client);
  },

  "D10.7 on a shared subscription it ends the connection 0x82": async (house) => {
    using client = await house.client({ clientId: "d10.7" });
    await client.subscribe({ subscriptions: [{ filter: "$share/g/x", qos: 1, noLocal: true }] });
    await client.expectClose(0x82);
  },

  "the publishing client's id is on no wire": async (house) => {
    using reader = await house.client({ clientId: "d10r" });
    await subscribed(reader, "log/secret");
    using writer = await house.client({ clientId: "d10-secret-name" });
    await published(writer, "log/secret", "x");
    const got = await taken(reader, "log/secret");
    assert.ok(!JSON.stringify(got.properties).includes("secret-name"));
    assert.equal(property(got, "saguin-id").length, 1);
  },
});
