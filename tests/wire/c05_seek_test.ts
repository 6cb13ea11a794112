/** 06 section 5: moving one's own position, in MQTT 5 and 3.1.1. */
import assert from "node:assert/strict";
import { durable, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { type House, property, rules, text } from "../support/house.ts";
import { refused, request } from "../support/requests.ts";
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

async function asked(client: WireClient, payload: string) {
  const { reply, code, reason } = await request(client, SEEK, payload);
  return { word: text(reply!), code, reason, reply: reply! };
}

async function next(house: House): Promise<number> {
  const channel = house.broker.routes.channel("log");
  assert.ok(channel?.kind === "append");
  await house.settled();
  return channel.end;
}

rules("06 section 5: seek", { channels: CHANNELS }, {
  "06 5 each form of a position, and its answer": async (house) => {
    using writer = await house.client({ clientId: "5w" });
    const { client } = await durable(house, "5 forms");
    const first = await next(house);
    for (let i = 0; i < 3; i++) await published(writer, "log/5", String(i));
    await house.time.leap(3_600_000);
    for (let i = 3; i < 5; i++) await published(writer, "log/5", String(i));
    const expected: [string, number][] = [
      ["0", 1],
      ["-1", first + 5],
      [String(first + 2), first + 2],
      ["30m", first + 3],
      ["-30m", first + 3],
      ["7d", 1],
      ["2000-01-01T00:00:00Z", 1],
      ["2099-01-01T00:00:00+01:00", first + 5],
    ];
    for (const [payload, offset] of expected) {
      const { word, code } = await asked(client, payload);
      assert.deepEqual([word, code], [String(offset), 0], payload);
    }
    client.close();
  },

  "D11.3 D12.12 a position holds for a session that is resumed for its connection alone": async (
    house,
  ) => {
    const { client } = await durable(house, "D12.12 alone");
    using writer = await house.client({ clientId: "D12.12w" });
    await published(writer, "log/d12.12", "before");
    assert.equal((await asked(client, "-1")).code, 0);
    client.close();
    await house.away("D12.12 alone");
    const { client: again, present } = await durable(house, "D12.12 alone", { expiry: 0 });
    assert.equal(present, true);
    await subscribed(again, "log/d12.12");
    await published(writer, "log/d12.12", "after");
    await taken(again, "log/d12.12", "after");
    again.close();
  },

  "D11.18 a position that a client moved and does not read from is below the floor like any other":
    async (
      house,
    ) => {
      const log = house.broker.routes.channel("log");
      assert.ok(log?.kind === "append");
      using writer = await house.client({ clientId: "d11.18w" });
      const { client } = await durable(house, "d11.18 moved");
      await published(writer, "log/d11.18", "lost");
      assert.equal((await asked(client, "0")).code, 0);
      await log.store.removeMany(Array.from({ length: log.store.next() - 1 }, (_, i) => i + 1));
      client.close();
      await house.away("d11.18 moved");
      const { client: again, present } = await durable(house, "d11.18 moved");
      assert.equal(present, false);
      again.close();
    },

  "06 5 refusals: the word, the figure that helps, and 0x83 with a reason": async (house) => {
    const { client } = await durable(house, "5 refused");
    const end = await next(house);
    const beyond = await asked(client, String(end + 1));
    assert.deepEqual([beyond.word, beyond.code], ["beyond-end", 0x83]);
    assert.deepEqual(property(beyond.reply, "saguin-next"), [String(end)]);
    assert.ok(beyond.reason);
    for (const payload of ["-2", "2026-01-01", "yesterday", "", "1.5", "1e3"]) {
      const { word, code, reason } = await asked(client, payload);
      assert.deepEqual([word, code], ["malformed", 0x83], payload);
      assert.ok(reason);
    }
    using ephemeral = await house.client({ clientId: "5 ephemeral" });
    const { word, code } = await asked(ephemeral, "0");
    assert.deepEqual([word, code], ["no-session", 0x83]);
    for (const channel of ["values", "jobs", "nosuch"]) {
      assert.equal((await refused(client, `$saguin/consumer/${channel}/seek`, "0")).code, 0x90);
    }
    client.close();
  },

  "06 5 before it ever subscribed: the position waits for the SUBSCRIBE": async (house) => {
    using writer = await house.client({ clientId: "5 early w" });
    const { client } = await durable(house, "5 early");
    await published(writer, "log/5 early", "old");
    const at = await next(house);
    await published(writer, "log/5 early", "new");
    assert.equal((await asked(client, String(at))).word, String(at));
    await nothingMore(client);
    await subscribed(client, "log/5 early");
    await taken(client, "log/5 early", "new");
    await nothingMore(client);
    client.close();
  },

  "06 5 MQTT 3.1.1 seeks too: the answers come on the channel's own reply topic": async (house) => {
    using writer = await house.client({ clientId: "5 old w" });
    const { client } = await durable(house, "5 old", { level: 4 });
    await subscribed(client, "log/5 old");
    const at = await next(house);
    await published(writer, "log/5 old", "again");
    await taken(client, "log/5 old", "again");
    await client.publish({ topic: SEEK, payload: String(at), qos: 1, packetId: 40 });
    await client.expectPublish(SEEK + "/reply", String(at));
    const again: string[] = [];
    for (let i = 0; i < 2; i++) {
      const packet = await client.next();
      if (packet.type === "puback") assert.equal(packet.packetId, 40);
      else if (packet.type === "publish") again.push(text(packet));
    }
    assert.deepEqual(again, ["again"]);
    client.close();
  },

  "06 5 a seek concerns its asker alone": async (house) => {
    using writer = await house.client({ clientId: "5 alone w" });
    const one = (await durable(house, "5 one")).client;
    const two = (await durable(house, "5 two")).client;
    for (const client of [one, two]) await subscribed(client, "log/5 alone");
    const at = await next(house);
    await published(writer, "log/5 alone", "record");
    for (const client of [one, two]) await taken(client, "log/5 alone", "record");
    await one.publish({ topic: SEEK, payload: String(at), qos: 1, packetId: 9 });
    await one.expectPublish(SEEK + "/reply", String(at));
    // The PUBACK and the record, in either order.
    const rest = [await one.next(), await one.next()].map(({ type }) => type).sort();
    assert.deepEqual(rest, ["puback", "publish"]);
    await nothingMore(two);
    one.close();
    two.close();
  },
});
