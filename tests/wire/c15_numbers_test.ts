/** 06 section 15: the numbers that clients rely on. */
import assert from "node:assert/strict";
import { durable, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { rules } from "../support/house.ts";
import { request } from "../support/requests.ts";
import { sessionReader } from "../../src/storage/contract.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
jobs:
  type: queue
  filter: jobs/#
  retry:
    max_attempts: 1
`;

rules("06 section 15: numbers", { channels: CHANNELS }, {
  "06 15 new jobs and new workers are served on a tick of 200 ms": async (house) => {
    using writer = await house.client({ clientId: "15w" });
    using worker = await house.client({ clientId: "15" });
    await subscribed(worker, "$saguin/queue/jobs");
    await house.time.pass(1_000);
    await published(writer, "jobs/15", "work");
    await nothingMore(worker);
    await house.time.pass(200);
    const { properties } = await worker.expectPublish("jobs/15", "work");

    // The last attempt of a job that is returned: its dead letter is there at once.
    using reader = await house.client({ clientId: "15 letters" });
    await subscribed(reader, "jobs/__dlq/#");
    const { responseTopic, correlationData } = properties;
    await request(worker, responseTopic!, "return", { correlationData });
    await taken(reader, "jobs/__dlq/15", "work");
  },

  "06 15 a position is stored 200 ms after the first acknowledgement, while connected": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "15 position w" });
    const { client } = await durable(house, "15 position");
    await subscribed(client, "log/15");
    await published(writer, "log/15", "x");
    const channel = house.broker.routes.channel("log");
    assert.ok(channel?.kind === "append");
    const stored = async () => (await channel.store.position(sessionReader("15 position")))?.offset;
    const before = await stored();
    await taken(client, "log/15", "x");
    await nothingMore(client);
    await house.time.pass(199);
    await house.settled();
    assert.equal(await stored(), before);
    await house.time.pass(1);
    await house.settled();
    assert.equal(await stored(), channel.end);
    client.close();
  },

  "06 15 a client that is hung up sees its socket close well under 5 s": async (house) => {
    using admin = await house.client({ clientId: "15 admin" });
    for (const level of [5, 4] as const) {
      using client = await house.client({ level, clientId: "15 target" });
      const from = performance.now();
      await request(admin, "$saguin/sessions/disconnect", "15 target");
      await client.expectClose(level === 5 ? 0x98 : undefined);
      assert.ok(performance.now() - from < 5_000);
    }
  },
});
