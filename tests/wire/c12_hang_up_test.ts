/** 06 section 12: hanging up another client. */
import assert from "node:assert/strict";
import { durable, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { rules, text } from "../support/house.ts";
import { refused, request } from "../support/requests.ts";

const CHANNELS = "log:\n  type: append\n  filter: log/#\njobs:\n  type: queue\n  filter: jobs/#";
const VERB = "$saguin/sessions/disconnect";

rules("06 section 12: hanging up", { channels: CHANNELS }, {
  "06 12 the target hears 0x98, or its socket closes; its session, position and filters stay":
    async (
      house,
    ) => {
      using admin = await house.client({ clientId: "12 admin" });
      using writer = await house.client({ clientId: "12w" });
      for (const level of [5, 4] as const) {
        const id = `12 ${level}`;
        const topic = `log/12/${level}`;
        const { client } = await durable(house, id, { level });
        await subscribed(client, topic);
        await published(writer, topic, "before");
        await taken(client, topic, "before");
        const { reply, code } = await request(admin, VERB, id);
        assert.deepEqual([text(reply!), code], ["hung-up", 0]);
        if (level === 5) await client.expectClose(0x98);
        else await client.expectClose();
        await published(writer, topic, "after");
        const again = await durable(house, id, { level });
        assert.equal(again.present, true);
        await taken(again.client, topic, "after");
        await nothingMore(again.client);
        again.client.close();
      }
    },

  "06 12 a job that the target held goes back": async (house) => {
    using admin = await house.client({ clientId: "12 jobs admin" });
    using holder = await house.client({ clientId: "12 holder" });
    await subscribed(holder, "$saguin/queue/jobs");
    await published(admin, "jobs/12", "work");
    await house.time.pass(200);
    await holder.expectPublish("jobs/12", "work");
    await request(admin, VERB, "12 holder");
    await holder.expectClose(0x98);
    using next = await house.client({ clientId: "12 next" });
    await subscribed(next, "$saguin/queue/jobs");
    await house.time.pass(200);
    const { properties } = await next.expectPublish("jobs/12", "work");
    const { responseTopic, correlationData } = properties;
    await request(next, responseTopic!, "ack", { correlationData });
  },

  "06 12 nobody of that id, and what is refused": async (house) => {
    using admin = await house.client({ clientId: "12 refused" });
    const { client } = await durable(house, "12 away");
    client.close();
    await house.away("12 away");
    for (const id of ["12 nobody", "12 away"]) {
      const { reply, code } = await request(admin, VERB, id);
      assert.deepEqual([text(reply!), code], ["no-such-client", 0], id);
    }
    assert.equal((await refused(admin, VERB, "")).code, 0x83);
    assert.equal((await refused(admin, VERB, "12 refused")).code, 0x83);
    assert.equal((await refused(admin, VERB, "12 nobody", {})).code, 0x83);
    await nothingMore(admin);
  },
});
