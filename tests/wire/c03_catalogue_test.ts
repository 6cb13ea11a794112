/** 06 section 3: what is this channel, over the wire. */
import assert from "node:assert/strict";
import { published, subscribed, taken } from "../support/clients.ts";
import { rules, text } from "../support/house.ts";
import { refused, request } from "../support/requests.ts";
import type { WireClient } from "../support/wire.ts";

const CHANNELS = `
log:
  type: append
  filter: log/{a,b}/+/#
values:
  type: latest
  filter: values/#
jobs:
  type: queue
  filter: work/+/jobs/+
bulk:
  type: queue
  filter: bulk/#
`;

async function entry(client: WireClient, name: string): Promise<Record<string, unknown>> {
  const { reply, code } = await request(client, `$saguin/catalogue/${name}`, "");
  assert.equal(code, 0);
  return JSON.parse(text(reply!));
}

rules("06 section 3: the catalogue", { channels: CHANNELS }, {
  "06 3 the filter is as written, braces kept; verbs are the type's; queues have a pin": async (
    house,
  ) => {
    using client = await house.client({ clientId: "3 entries" });
    assert.deepEqual(await entry(client, "log"), {
      name: "log",
      type: "append",
      filter: "log/{a,b}/+/#",
      verbs: ["write", "read", "seek"],
    });
    assert.deepEqual(await entry(client, "values"), {
      name: "values",
      type: "latest",
      filter: "values/#",
      verbs: ["write", "read", "delete"],
    });
    assert.deepEqual(await entry(client, "jobs"), {
      name: "jobs",
      type: "queue",
      filter: "work/+/jobs/+",
      verbs: ["write", "consume"],
      pin: "$saguin/queue/jobs",
    });
  },

  "06 3 dead-letter channels answer with the filter that was derived": async (house) => {
    using client = await house.client({ clientId: "3 letters" });
    const jobs = await entry(client, "jobs__dlq");
    assert.deepEqual([jobs.type, jobs.filter], ["append", "work/+/jobs/+/__dlq"]);
    const bulk = await entry(client, "bulk__dlq");
    assert.deepEqual([bulk.type, bulk.filter], ["append", "bulk/__dlq/#"]);
  },

  "06 3 a channel that is not there has the empty answer; a name of two levels is no such form":
    async (house) => {
      using client = await house.client({ clientId: "3 unknown" });
      const { reply, code } = await request(client, "$saguin/catalogue/nosuch", "");
      assert.deepEqual([reply!.payload.length, code], [0, 0]);
      assert.equal((await refused(client, "$saguin/catalogue/log/a")).code, 0x90);
      assert.equal((await refused(client, "$saguin/catalogue/log", "", {})).code, 0x83);
    },

  "06 3 what a library fills in from a filter reaches the channel, and only it": async (house) => {
    using client = await house.client({ clientId: "3 library" });
    const { filter } = await entry(client, "log");
    assert.equal(filter, "log/{a,b}/+/#");
    // Nothing given: one filter for each spelling, in one SUBSCRIBE.
    await client.subscribe({
      subscriptions: [{ filter: "log/a/+/#", qos: 1 }, { filter: "log/b/+/#", qos: 1 }],
    });
    await client.expectSuback(1, [1, 1]);
    using writer = await house.client({ clientId: "3 writer" });
    for (const topic of ["log/a/1", "log/c/1", "log/b/2/x"]) await published(writer, topic, topic);
    await taken(client, "log/a/1");
    await taken(client, "log/b/2/x");
    await subscribed(client, "log/+/+/#");
    await published(writer, "log/c/1", "a stranger's");
    await taken(client, "log/c/1", "a stranger's");
  },
});
