/** 06 section 11: a registry of schemas is a convention, and the broker carries it unread. */
import assert from "node:assert/strict";
import { published, subscribed, taken } from "../support/clients.ts";
import { property, rules, text } from "../support/house.ts";
import { request } from "../support/requests.ts";

const CHANNELS = `
schemas:
  type: latest
  filter: schemas/#
log:
  type: append
  filter: log/#
jobs:
  type: queue
  filter: jobs/#
`;
const SCHEMA = `{"type":"record","name":"reading","fields":[]}`;

rules("06 section 11: schemas", { channels: CHANNELS }, {
  "06 11 registered, named by a producer, fetched by a consumer, retired": async (house) => {
    using client = await house.client({ clientId: "11" });
    await published(client, "schemas/reading/1", SCHEMA);
    for (const topic of ["log/11", "schemas/x", "plain/11", "jobs/11"]) {
      using reader = await house.client({ clientId: "11r" });
      await subscribed(reader, topic.startsWith("jobs") ? "$saguin/queue/jobs" : topic);
      await published(client, topic, "bytes", {
        properties: {
          contentType: "application/vnd.apache.avro+binary",
          userProperties: [["schema", "schemas/reading/1"]],
        },
      });
      await house.time.pass(200);
      const packet = await taken(reader, topic, "bytes");
      assert.equal(packet.properties.contentType, "application/vnd.apache.avro+binary");
      assert.deepEqual(property(packet, "schema"), ["schemas/reading/1"]);
      if (topic.startsWith("jobs")) {
        const { responseTopic, correlationData } = packet.properties;
        await request(reader, responseTopic!, "ack", { correlationData });
      }
    }
    const value = async () =>
      text((await request(client, "$saguin/kv/get", "schemas/reading/1")).reply!);
    assert.equal(await value(), SCHEMA);
    await published(client, "schemas/reading/1", "");
    assert.equal(await value(), "");
  },
});
