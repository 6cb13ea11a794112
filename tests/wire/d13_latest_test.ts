/** 03 section 13: latest channels, as clients see them; the rules of the view are proved in tests/broker. */
import assert from "node:assert/strict";
import {
  durable,
  nothingMore,
  published,
  subscribed,
  taken,
  takenAll,
} from "../support/clients.ts";
import { overBoth, property, rules, text } from "../support/house.ts";

const CHANNELS = `
values:
  type: latest
  filter: values/#
log:
  type: append
  filter: log/#
schemas:
  type: latest
  filter: schemas/#
`;

rules("03 section 13: latest channels", { channels: CHANNELS }, {
  "D13.1 D13.8 state with RETAIN 1, then changes with 0 and rising offsets": async (house) => {
    using writer = await house.client({ clientId: "d13.1w" });
    for (const payload of ["old", "new"]) await published(writer, "values/d13.1/a", payload);
    using reader = await house.client({ clientId: "d13.1" });
    await subscribed(reader, "values/d13.1/#");
    const state = await taken(reader, "values/d13.1/a", "new");
    assert.equal(state.retain, true);
    await published(writer, "values/d13.1/a", "newer");
    const change = await taken(reader, "values/d13.1/a", "newer");
    assert.equal(change.retain, false);
    const at = (packet: typeof change) => Number(property(packet, "saguin-offset")[0]);
    assert.ok(at(change) > at(state));
    await nothingMore(reader);
  },

  "D13.2 D13.5 a deletion is delivered live, and later only to who asks for deletions": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d13.2w" });
    using live = await house.client({ clientId: "d13.2l" });
    await subscribed(live, "values/d13.2");
    await published(writer, "values/d13.2", "v");
    await published(writer, "values/d13.2", "");
    assert.deepEqual((await takenAll(live, 2)).map(text), ["v", ""]);
    using later = await house.client({ clientId: "d13.2r" });
    await subscribed(later, "values/d13.2");
    await nothingMore(later);
    await later.subscribe({
      subscriptions: [{ filter: "values/d13.2", qos: 1 }],
      properties: { userProperties: [["saguin-deletions", ""]] },
    });
    await later.expectSuback(1, [1]);
    const deletion = await taken(later, "values/d13.2", "");
    assert.equal(property(deletion, "saguin-offset").length, 1);
  },

  "D13.9 Retain Handling: 0 each time, 1 when new, 2 never; 3.1.1 full each time": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d13.9w" });
    await published(writer, "values/d13.9", "v");
    using client = await house.client({ clientId: "d13.9" });
    for (const [retainHandling, served] of [[2, false], [1, false], [0, true]] as const) {
      await subscribed(client, "values/d13.9", 1, { retainHandling });
      if (served) await taken(client, "values/d13.9", "v");
      await nothingMore(client);
    }
    using old = await house.client({ level: 4, clientId: "d13.9o" });
    for (let i = 0; i < 2; i++) {
      await subscribed(old, "values/d13.9");
      assert.equal((await taken(old, "values/d13.9", "v")).retain, true);
    }
  },

  "D13.10 a shared subscription gets changes only": async (house) => {
    using writer = await house.client({ clientId: "d13.10w" });
    await published(writer, "values/d13.10", "state");
    using member = await house.client({ clientId: "d13.10" });
    await subscribed(member, "$share/g/values/d13.10");
    await nothingMore(member);
    await published(writer, "values/d13.10", "change");
    await published(writer, "values/d13.10", "");
    assert.deepEqual((await takenAll(member, 2)).map(text), ["change", ""]);
  },

  "D13.11 D21.2 values wait for the window, one a topic, the newest": async (house) => {
    using writer = await house.client({ clientId: "d13.11w" });
    using reader = await house.client({ clientId: "d13.11", properties: { receiveMaximum: 1 } });
    await subscribed(reader, "values/d13.11/#");
    await published(writer, "values/d13.11/a", "first");
    const first = await reader.expectPublish("values/d13.11/a", "first");
    for (let i = 0; i < 20; i++) {
      await published(writer, "values/d13.11/a", `a${i}`);
      await published(writer, "values/d13.11/b", `b${i}`);
    }
    await nothingMore(reader);
    await reader.puback(first.packetId);
    const rest = await takenAll(reader, 2);
    assert.deepEqual(rest.map(text).sort(), ["a19", "b19"]);
    await nothingMore(reader);
  },

  "D13.13 the publisher waits for storage, not for a viewer": async (house) => {
    using writer = await house.client({ clientId: "d13.13w" });
    using deaf = await house.client({ clientId: "d13.13", properties: { receiveMaximum: 1 } });
    await subscribed(deaf, "values/d13.13");
    for (let i = 0; i < 50; i++) await published(writer, "values/d13.13", String(i));
  },

  "D13.14 D20.2 a resumed session gets what changed meanwhile, and no topic goes back": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d13.14w" });
    for (const topic of ["a", "b", "c"]) await published(writer, `values/d13.14/${topic}`, "1");
    const { client } = await durable(house, "d13.14");
    await subscribed(client, "values/d13.14/#");
    await takenAll(client, 3);
    await client.disconnect();
    await published(writer, "values/d13.14/b", "2");
    await published(writer, "values/d13.14/b", "3");
    const { client: again, present } = await durable(house, "d13.14");
    assert.equal(present, true);
    await taken(again, "values/d13.14/b", "3");
    await nothingMore(again);
    again.close();
  },

  "D13.25 refused point reads are counted like refused publishes": async (house) => {
    using client = await house.client({ clientId: "d13.25" });
    const refused = () =>
      [...house.counters.publishRefused.entries()].reduce((sum, [, count]) => sum + count, 0);
    const before = refused();
    await client.publish({
      topic: "$saguin/kv/get",
      payload: "log/x",
      qos: 1,
      packetId: 4,
      properties: { responseTopic: "r" },
    });
    await client.expectPuback(4, 0x90);
    assert.equal(refused(), before + 1);
  },

  "D13.26 06 11 a schema and its reference pass through unread": async (house) => {
    using writer = await house.client({ clientId: "d13.26w" });
    await published(writer, "schemas/reading/1", "{not checked");
    using reader = await house.client({ clientId: "d13.26" });
    await subscribed(reader, "+/d13.26");
    for (const topic of ["log/d13.26", "values/d13.26", "plain/d13.26"]) {
      await published(writer, topic, "garbage", {
        properties: {
          contentType: "application/avro",
          userProperties: [["schema", "schemas/reading/1"]],
        },
      });
      const got = await taken(reader, topic, "garbage");
      assert.equal(got.properties.contentType, "application/avro");
      assert.deepEqual(property(got, "schema"), ["schemas/reading/1"]);
    }
    await reader.publish({
      topic: "$saguin/kv/get",
      payload: "schemas/reading/1",
      qos: 1,
      packetId: 5,
      properties: { responseTopic: "r", correlationData: new Uint8Array([1]) },
    });
    await reader.expectPublish("r", "{not checked");
    await reader.expectPuback(5);
  },
});

overBoth(
  "D13.20 D22.6 after a restart the whole state is served, at resume where the session came back",
  {
    channels: CHANNELS,
  },
  async (house) => {
    using writer = await house.client({ clientId: "w" });
    for (const topic of ["a", "b"]) await published(writer, `values/${topic}`, "1");
    const { client } = await durable(house, "k");
    await subscribed(client, "values/#");
    await takenAll(client, 2);
    await client.disconnect();
    await using killed = await house.killed();
    const { client: again, present } = await durable(killed, "k");
    assert.equal(present, true);
    const state = await takenAll(again, 2);
    assert.deepEqual(state.map(({ topic }) => topic).sort(), ["values/a", "values/b"]);
    again.close();
  },
  ["sqlite"],
);
