/** 03 section 12 and 06 section 5: seek, as a stock client sees it. */
import assert from "node:assert/strict";
import { durable, left, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { type House, property, rules, text } from "../support/house.ts";
import type { MqttProperties } from "../support/mqtt_bytes.ts";
import type { Received, WireClient } from "../support/wire.ts";

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
const REPLY = SEEK + "/reply";

let packetId = 0;

async function seek(
  client: WireClient,
  payload: string,
  properties: MqttProperties = {},
  topic = SEEK,
): Promise<number> {
  await client.publish({ topic, payload, qos: 1, packetId: ++packetId, properties });
  return packetId;
}

/** Ten records, a second apart. */
async function tenRecords(house: House, topic: string): Promise<void> {
  using writer = await house.client({ clientId: "ten" });
  for (let i = 1; i <= 10; i++) {
    await published(writer, topic, String(i));
    await house.time.pass(1_000);
  }
}

function at(packet: Received<"publish">): number {
  return Number(property(packet, "saguin-offset")[0]);
}

rules("03 section 12: seek", { channels: CHANNELS }, {
  "D12.14 D12.12 the reply to the asker alone, then records from there; Correlation Data comes back":
    async (
      house,
    ) => {
      await tenRecords(house, "log/a");
      const { client } = await durable(house, "a");
      await subscribed(client, "log/a");
      for (let i = 1; i <= 10; i++) await taken(client, "log/a", String(i));
      using third = await house.client({ clientId: "third" });
      await subscribed(third, "answers/#");
      await subscribed(third, REPLY);
      const id = await seek(client, "7", {
        responseTopic: "answers/a",
        correlationData: new Uint8Array([3, 1]),
      });
      const reply = await client.expectPublish("answers/a", "7");
      assert.deepEqual([reply.qos, reply.retain], [0, false]);
      assert.deepEqual([...reply.properties.correlationData!], [3, 1]);
      const seen: string[] = [];
      for (let answered = false; !answered || seen.length < 4;) {
        const packet = await client.next();
        if (packet.type === "puback") {
          assert.equal(packet.packetId, id);
          answered = true;
        } else if (packet.type === "publish") {
          seen.push(text(packet));
          await client.puback(packet.packetId);
        }
      }
      assert.deepEqual(seen, ["7", "8", "9", "10"]);
      await nothingMore(third);
      client.close();
    },

  "D12.8 a time finds the lowest offset that meets it, not the nearest": async (house) => {
    await tenRecords(house, "log/b");
    const { client } = await durable(house, "b");
    const seconds = async (ago: number) => {
      const id = await seek(client, `-${ago}s`);
      const reply = await client.expectPublish(REPLY);
      await client.expectPuback(id);
      return Number(text(reply));
    };
    const log = house.broker.routes.channel("log");
    assert.ok(log?.kind === "append");
    const next = log.store.next();
    // The last record is a second old, the one before it two.
    assert.equal(await seconds(1), next - 1);
    assert.equal(await seconds(2), next - 2);
    assert.equal(await seconds(0), next);
    const id = await seek(client, "2100-01-01T00:00:00Z");
    await client.expectPublish(REPLY, String(next));
    await client.expectPuback(id);
    client.close();
  },

  "D12.10 D12.17 it needs a session that outlives its connection, whatever Clean Start was": async (
    house,
  ) => {
    using ephemeral = await house.client({ clientId: "c", cleanStart: false });
    const id = await seek(ephemeral, "0");
    await ephemeral.expectPublish(REPLY, "no-session");
    const { properties } = await ephemeral.expectPuback(id, 0x83);
    assert.match(properties.reasonString!, /Session Expiry/);
    const { client } = await durable(house, "c", { cleanStart: true });
    const second = await seek(client, "0");
    await client.expectPublish(REPLY, "1");
    await client.expectPuback(second);
    client.close();
    const { client: old } = await durable(house, "c4", { level: 4 });
    const third = await seek(old, "0");
    await old.expectPublish(REPLY, "1");
    await old.expectPuback(third);
    const fourth = await seek(old, "nonsense");
    await old.expectPublish(REPLY, "malformed");
    await old.expectPuback(fourth);
    await nothingMore(old);
    old.close();
  },

  "D12.15 D12.16 D12.20 never clamped: below the floor and beyond the end say where those are":
    async (
      house,
    ) => {
      const log = house.broker.routes.channel("log");
      assert.ok(log?.kind === "append");
      await log.store.removeMany([1, 2, 3]);
      const { client } = await durable(house, "d");
      for (
        const [payload, word, name, value] of [
          ["3", "below-floor", "saguin-floor", 4],
          ["99999", "beyond-end", "saguin-next", log.store.next()],
          ["-90d", "below-floor", "saguin-floor", 4],
        ] as const
      ) {
        const id = await seek(client, payload);
        assert.deepEqual(property(await client.expectPublish(REPLY, word), name), [String(value)]);
        assert.ok((await client.expectPuback(id, 0x83)).properties.reasonString);
      }
      client.close();
    },

  "D12.11 seeking before ever subscribing: the position waits for the SUBSCRIBE": async (house) => {
    const { client } = await durable(house, "e");
    const log = house.broker.routes.channel("log");
    assert.ok(log?.kind === "append");
    const from = log.store.next() - 2;
    const id = await seek(client, String(from));
    await client.expectPublish(REPLY, String(from));
    await client.expectPuback(id);
    await nothingMore(client);
    await subscribed(client, "log/#");
    assert.equal(at(await taken(client)), from);
    client.close();
  },

  "D12.21 a channel that cannot be sought in is refused 0x90 without a reply": async (house) => {
    const { client } = await durable(house, "f");
    for (const name of ["values", "jobs", "nosuch"]) {
      const id = await seek(client, "0", {}, `$saguin/consumer/${name}/seek`);
      const { properties } = await client.expectPuback(id, 0x90);
      assert.match(properties.reasonString!, new RegExp(name));
    }
    await nothingMore(client);
    client.close();
  },

  "D12.22 without a Response Topic and without a subscription the PUBACK says it all": async (
    house,
  ) => {
    const { client } = await durable(house, "g");
    const id = await seek(client, "-1");
    const { topic } = await client.expectPublish();
    assert.equal(topic, REPLY, "written to the asker, who may ignore it");
    await client.expectPuback(id, 0);
    await client.disconnect();
    const log = house.broker.routes.channel("log");
    assert.ok(log?.kind === "append");
    assert.equal((await log.store.position("mqtt:g"))!.offset, log.store.next());
  },

  "D12.13 an acknowledgement of before the seek does not move the position": async (house) => {
    const { client } = await durable(house, "h");
    await subscribed(client, "log/a");
    const first = await client.expectPublish("log/a");
    const id = await seek(client, String(at(first)));
    for (let answered = false; !answered;) {
      const packet = await client.next();
      answered = packet.type === "puback" && packet.packetId === id;
    }
    await client.puback(first.packetId);
    await left(client);
    const log = house.broker.routes.channel("log");
    assert.ok(log?.kind === "append");
    assert.equal((await log.store.position("mqtt:h"))!.offset, at(first));
  },
});
