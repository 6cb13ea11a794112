/** What a channel does for consumers that have everything, and what it leaves undone. */
import assert from "node:assert/strict";
import { sessionReader } from "../../src/storage/contract.ts";
import { durable, left, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { type House, overBoth, rules } from "../support/house.ts";
import { until } from "../support/wait.ts";

const CHANNELS = "log:\n  type: append\n  filter: log/#";

function log(house: House) {
  const channel = house.broker.routes.channel("log");
  assert.ok(channel?.kind === "append");
  return channel;
}

function position(house: House, clientId: string): number {
  return log(house).consumer(house.broker.sessions.get(clientId)!)!.position;
}

const reads = (house: House) => house.faults.calls.get("log.readFrom") ?? 0;

rules("consumers that have everything", { channels: CHANNELS }, {
  "S118 D3.9 a caught-up consumer never reads the store": async (house) => {
    using writer = await house.client({ clientId: "s118w" });
    using one = await house.client({ clientId: "s118 one" });
    using casual = await house.client({ clientId: "s118 casual" });
    using elsewhere = await house.client({ clientId: "s118 elsewhere" });
    await subscribed(one, "log/s118/#");
    await subscribed(casual, "log/s118/+", 0);
    await subscribed(elsewhere, "log/other/#");
    const before = reads(house);
    for (let i = 0; i < 200; i++) {
      await published(writer, `log/s118/${i % 7}`, String(i));
      await taken(one, `log/s118/${i % 7}`, String(i));
      await casual.expectPublish(`log/s118/${i % 7}`, String(i));
    }
    await nothingMore(elsewhere);
    assert.equal(reads(house), before);
  },

  "D21.2 nor does one whose window was full for a while": async (house) => {
    using writer = await house.client({ clientId: "d21.2w" });
    using slow = await house.client({ clientId: "d21.2", properties: { receiveMaximum: 1 } });
    await subscribed(slow, "log/d21.2");
    const before = reads(house);
    for (let i = 0; i < 100; i++) await published(writer, "log/d21.2", String(i));
    for (let i = 0; i < 100; i++) await taken(slow, "log/d21.2", String(i));
    assert.equal(reads(house), before);
  },

  "D11.13 a position moves past what its filters do not match, and is stored when its connection ends":
    async (house) => {
      using writer = await house.client({ clientId: "d11.13w" });
      const { client } = await durable(house, "d11.13");
      await subscribed(client, "log/d11.13");
      await published(writer, "log/d11.13", "first");
      await taken(client, "log/d11.13", "first");
      for (let i = 0; i < 10; i++) await published(writer, "log/elsewhere", String(i));
      assert.equal(position(house, "d11.13"), log(house).end);
      await left(client);
      const stored = await log(house).store.position(sessionReader("d11.13"));
      assert.equal(stored!.offset, log(house).end);
    },

  "D11.12 the position is the lowest that is not acknowledged, whatever order answers come in":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d11.12w" });
      const { client } = await durable(house, "d11.12");
      await subscribed(client, "log/d11.12");
      const base = log(house).end;
      const ids: number[] = [];
      for (let i = 0; i < 5; i++) await published(writer, "log/d11.12", String(i));
      for (let i = 0; i < 5; i++) ids.push((await client.expectPublish("log/d11.12")).packetId);
      for (const [acknowledged, expected] of [[2, 0], [0, 1], [4, 1], [1, 3], [3, 5]]) {
        await client.puback(ids[acknowledged]);
        await nothingMore(client);
        assert.equal(position(house, "d11.12"), base + expected);
      }
      client.close();
    },
});

overBoth(
  "D11.18 retention does not pass a reader that stepped over what it removes",
  { channels: CHANNELS + "\n  retention_period: 10s" },
  async (house) => {
    using writer = await house.client({ clientId: "w" });
    const { client } = await durable(house, "reader");
    await subscribed(client, "log/mine");
    await published(writer, "log/mine", "1");
    await taken(client, "log/mine", "1");
    // Its acknowledgement is stored, and nothing of its own comes after.
    await house.time.pass(1_000);
    await house.settled();
    for (let i = 0; i < 5; i++) await published(writer, "log/elsewhere", String(i));
    await house.time.pass(15_000);
    await until("retention to pass", () => log(house).store.floor() === log(house).end);
    await house.time.pass(1_000);
    await house.settled();
    const { offset } = (await log(house).store.position(sessionReader("reader")))!;
    assert.equal(offset, log(house).end);
    client.close();
  },
);
