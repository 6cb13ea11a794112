/** 03 sections 9, 11, 12 and 20: what comes again after a connection or a broker ended, and before what. */
import assert from "node:assert/strict";
import {
  durable,
  nothingMore,
  published,
  subscribed,
  taken,
  takenAll,
} from "../support/clients.ts";
import { type House, overBoth, property, text } from "../support/house.ts";

const CHANNELS = `
log:
  type: append
brief:
  type: append
  retention_period: 10s
late:
  type: append
  start: tail
`;

async function written(house: House, topic: string, payloads: readonly string[]): Promise<void> {
  using writer = await house.client({ clientId: "writer" });
  for (const payload of payloads) await published(writer, topic, payload);
}

overBoth(
  "D11.14 I18 where a durable reader begins is stored before its SUBACK",
  { channels: CHANNELS },
  async (house) => {
    await written(house, "late/a", ["before"]);
    const { client } = await durable(house, "r");
    await subscribed(client, "late/#");
    await written(house, "late/a", ["after"]);
    await client.expectPublish("late/a", "after");
    await using killed = await house.killed();
    const { client: again, present } = await durable(killed, "r");
    assert.equal(present, true);
    await taken(again, "late/a", "after");
    await nothingMore(again);
    again.close();
    client.close();
  },
  ["sqlite"],
);

overBoth(
  "D11.18 I1 retention that passes where a reader began while the broker is down ends its session",
  { channels: CHANNELS },
  async (house) => {
    const { client } = await durable(house, "r");
    await subscribed(client, "brief/#");
    await written(house, "brief/a", ["unread"]);
    await client.expectPublish("brief/a", "unread");
    await using killed = await house.killed(60_000);
    const { client: again, present } = await durable(killed, "r");
    assert.equal(present, false);
    again.close();
    client.close();
  },
  ["sqlite"],
);

overBoth("D12.13 what waits to be sent again is given up by a seek", {
  channels: CHANNELS,
}, async (house) => {
  const { client } = await durable(house, "r");
  await subscribed(client, "log/#");
  await written(house, "log/a", ["1", "2", "3"]);
  for (const payload of ["1", "2", "3"]) await client.expectPublish("log/a", payload);
  client.close();
  await house.away("r");
  const { client: again } = await durable(house, "r", { properties: { receiveMaximum: 1 } });
  const first = await again.expectPublish("log/a", "1");
  const responseTopic = "reply";
  const topic = "$saguin/consumer/log/seek";
  await again.publish({ topic, payload: "3", qos: 1, packetId: 9, properties: { responseTopic } });
  await again.expectPublish("reply", "3");
  await again.expectPuback(9);
  await again.puback(first.packetId);
  assert.equal((await taken(again, "log/a", "3")).dup, false);
  await nothingMore(again);
  again.close();
});

overBoth("D20.1 a record at QoS 0 waits for what is sent again before it", {
  channels: CHANNELS,
}, async (house) => {
  const { client } = await durable(house, "r");
  await subscribed(client, "log/#");
  await written(house, "log/a", ["1", "2"]);
  for (const payload of ["1", "2"]) await client.expectPublish("log/a", payload);
  client.close();
  await house.away("r");
  const { client: again } = await durable(house, "r", { properties: { receiveMaximum: 1 } });
  const first = await again.expectPublish("log/a", "1");
  using writer = await house.client({ clientId: "writer" });
  await published(writer, "log/a", "3", { qos: 0 });
  await nothingMore(writer);
  await house.settled();
  await nothingMore(again);
  await again.puback(first.packetId);
  assert.deepEqual((await takenAll(again, 2)).map(text), ["2", "3"]);
  again.close();
});

overBoth("D9.5 I8 a group's copy of a record keeps its identity over a restart", {
  channels: CHANNELS,
  snapshots: true,
}, async (house) => {
  const { client } = await durable(house, "r");
  await subscribed(client, "$share/g/log/#");
  await written(house, "log/a", ["1"]);
  const before = await client.expectPublish("log/a", "1");
  await house.restart();
  client.close();
  const { client: again } = await durable(house, "r");
  const after = await taken(again, "log/a", "1");
  assert.equal(after.dup, true);
  assert.deepEqual(property(after, "saguin-id"), property(before, "saguin-id"));
  assert.equal(property(after, "saguin-id").length, 1);
  again.close();
});

overBoth("D8.5 I18 subscribing again forgets nothing that is owed, over a restart", {
  channels: CHANNELS,
  snapshots: true,
}, async (house) => {
  const { client } = await durable(house, "r", { properties: { receiveMaximum: 1 } });
  await subscribed(client, "cast/#");
  await written(house, "cast/a", ["1", "2"]);
  await client.expectPublish("cast/a", "1");
  await subscribed(client, "cast/#");
  await house.restart();
  client.close();
  const { client: again } = await durable(house, "r");
  assert.deepEqual((await takenAll(again, 2)).map(text), ["1", "2"]);
  again.close();
});
