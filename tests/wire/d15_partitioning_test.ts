/** 03 section 15 and 06 section 10: slices that clients declare. The hash itself: tests/topics. */
import assert from "node:assert/strict";
import { durable, nothingMore, published, subscribed, takenAll } from "../support/clients.ts";
import { type House, overBoth, rules, text } from "../support/house.ts";
import type { Pair } from "../support/mqtt_bytes.ts";
import type { WireClient } from "../support/wire.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
values:
  type: latest
  filter: values/#
`;

/** FNV-1a and its mixing, written again from the rule. */
function slice(topic: string, count: number): number {
  const mask = (1n << 64n) - 1n;
  let h = 14695981039346656037n;
  for (const byte of new TextEncoder().encode(topic)) {
    h = ((h ^ BigInt(byte)) * 1099511628211n) & mask;
  }
  h ^= h >> 30n;
  h = (h * 13787848793156543929n) & mask;
  h ^= h >> 27n;
  h = (h * 10723151780598845931n) & mask;
  h ^= h >> 31n;
  return Number(h % BigInt(count));
}

async function declared(
  client: WireClient,
  filter: string,
  declarations: readonly string[],
  qos = 1,
): Promise<void> {
  await client.subscribe({
    subscriptions: [{ filter, qos }],
    properties: {
      userProperties: declarations.map((each): Pair => ["saguin-filter", each]),
    },
  });
  await client.expectSuback(1, [qos]);
}

function topicsOf(prefix: string, count: number): string[] {
  return Array.from({ length: count }, (_, i) => `${prefix}/dev-${i}`);
}

async function publishAll(house: House, topics: readonly string[], retain = false): Promise<void> {
  using writer = await house.client({ clientId: "publishes all" });
  for (const topic of topics) await published(writer, topic, topic, { retain });
}

rules("03 section 15: declared slices", { channels: CHANNELS }, {
  "D15.5 D15.10 the slice holds for broadcast live and retained, records replayed and live, values and changes":
    async (
      house,
    ) => {
      for (const kind of ["plain", "log", "values"]) {
        const topics = topicsOf(`${kind}/d15.5`, 20);
        await publishAll(house, topics, true);
        const members: WireClient[] = [];
        for (let index = 0; index < 3; index++) {
          const { client } = await durable(house, `d15.5-${kind}-${index}`, {
            expiry: index === 0 ? 0 : 100,
          });
          await declared(client, `${kind}/d15.5/#`, [`topic_hash(3, ${index})`]);
          members.push(client);
        }
        for (const phase of ["stored", "live"]) {
          if (phase === "live") await publishAll(house, topics);
          for (const [index, client] of members.entries()) {
            const mine = topics.filter((topic) => slice(topic, 3) === index);
            const got = await takenAll(client, mine.length);
            assert.deepEqual(got.map(text).sort(), [...mine].sort(), `${kind} ${phase} ${index}`);
            await nothingMore(client);
          }
        }
        for (const client of members) client.close();
      }
    },

  "D15.1 several slices are an OR, and the declaration holds for that packet's filters only":
    async (house) => {
      using client = await house.client({ clientId: "d15.1" });
      await declared(client, "plain/d15.1/#", [
        "topic_hash(4, 1)",
        "topic_hash(4, 3)",
        "topic_hash( 004 ,\t1 )",
      ]);
      await subscribed(client, "plain/other/#");
      const topics = [...topicsOf("plain/d15.1", 20), ...topicsOf("plain/other", 5)];
      await publishAll(house, topics);
      const mine = topics.filter((topic) => topic.includes("other") || slice(topic, 4) % 2 === 1);
      assert.deepEqual((await takenAll(client, mine.length)).map(text), mine);
      await nothingMore(client);
    },

  "D15.6 overlapping declared and undeclared subscriptions are a union, each record once": async (
    house,
  ) => {
    using client = await house.client({ clientId: "d15.6" });
    await declared(client, "log/d15.6/#", ["topic_hash(2, 0)"]);
    await subscribed(client, "log/d15.6/dev-1");
    await subscribed(client, "log/d15.6/dev-2");
    const topics = topicsOf("log/d15.6", 10);
    await publishAll(house, topics);
    const mine = topics.filter((topic, i) => slice(topic, 2) === 0 || i === 1 || i === 2);
    assert.deepEqual((await takenAll(client, mine.length)).map(text), mine);
    await nothingMore(client);
  },

  "D15.8 a position steps over what is outside its slice, and widening does not bring it back":
    async (house) => {
      const { client } = await durable(house, "d15.8");
      await declared(client, "log/d15.8/#", ["topic_hash(2, 0)"]);
      const topics = topicsOf("log/d15.8", 10);
      await publishAll(house, topics);
      const mine = topics.filter((topic) => slice(topic, 2) === 0);
      await takenAll(client, mine.length);
      await subscribed(client, "log/d15.8/#");
      await nothingMore(client);
      await client.disconnect();
      const log = house.broker.routes.channel("log");
      assert.ok(log?.kind === "append");
      assert.equal((await log.store.position("mqtt:d15.8"))!.offset, log.store.next());
    },

  "D15.9 two clients that count differently on one filter cause one warning that names both":
    async (house) => {
      const lines = () =>
        house.lines("two clients divide the same filter into different numbers of partitions");
      using a = await house.client({ clientId: "d15.9a" });
      using b = await house.client({ clientId: "d15.9b" });
      using c = await house.client({ clientId: "d15.9c" });
      await declared(a, "plain/d15.9/#", ["topic_hash(3, 0)"]);
      await declared(b, "plain/d15.9/#", ["topic_hash(3, 1)"]);
      await declared(b, "plain/d15.9/+", ["topic_hash(4, 1)"]);
      assert.equal(lines().length, 0);
      await declared(c, "plain/d15.9/#", ["topic_hash(4, 1)"]);
      await declared(c, "plain/d15.9/#", ["topic_hash(5, 1)"]);
      assert.equal(lines().length, 1);
      const { fields } = lines()[0];
      assert.deepEqual([fields.client, fields.other, fields.filter], [
        "d15.9c",
        "d15.9a",
        "plain/d15.9/#",
      ]);
    },

  "D15.3 anything else is refused for every filter, its sentence telling which": async (house) => {
    using client = await house.client({ clientId: "d15.3" });
    const sentences = new Set<string>();
    for (
      const declaration of [
        "",
        "3, 0",
        "TOPIC_HASH(3, 0)",
        "nonesuch(3, 0)",
        "topic_hash(3)",
        "topic_hash(3, 0, 1)",
        "topic_hash(3, x)",
        "topic_hash(0x3, 0)",
        "topic_hash(2147483648, 0)",
        "topic_hash(0, 0)",
        "topic_hash(3, 3)",
        "topic_hash(3, -1)",
      ]
    ) {
      await client.subscribe({
        subscriptions: [{ filter: "a", qos: 1 }, { filter: "log/#", qos: 1 }],
        properties: { userProperties: [["saguin-filter", declaration]] },
      });
      const { properties } = await client.expectSuback(1, [0x83, 0x83]);
      assert.match(properties.reasonString!, /saguin-filter/);
      assert.match(properties.reasonString!, /topic_hash/);
      sentences.add(properties.reasonString!);
    }
    assert.ok(sentences.size >= 5, [...sentences].join("\n"));
    await client.subscribe({
      subscriptions: [{ filter: "a", qos: 1 }],
      properties: {
        userProperties: [["saguin-filter", "topic_hash(3, 0)"], [
          "saguin-filter",
          "topic_hash(4, 0)",
        ]],
      },
    });
    await client.expectSuback(1, [0x83]);
    using silent = await house.client({
      clientId: "d15.3s",
      properties: { requestProblemInformation: 0 },
    });
    await silent.subscribe({
      subscriptions: [{ filter: "a", qos: 1 }],
      properties: { userProperties: [["saguin-filter", "x"]] },
    });
    const { properties } = await silent.expectSuback(1, [0x83]);
    assert.equal(properties.reasonString, undefined);
  },
});

overBoth(
  "02a 6 D15.1 the slices of a session's filters have a bound: past it a filter is refused alone",
  {},
  async (house) => {
    const { client } = await durable(house, "a");
    const declare = async (filters: readonly string[], slices: number) => {
      await client.subscribe({
        subscriptions: filters.map((filter) => ({ filter, qos: 1 })),
        properties: {
          userProperties: Array.from(
            { length: slices },
            (_, i): Pair => ["saguin-filter", `topic_hash(10000,${i})`],
          ),
        },
      });
      const { reasonCodes } = await client.expect("suback");
      return reasonCodes.map((code) => code.toString(16)).join(" ");
    };
    const filters = Array.from({ length: 13 }, (_, i) => `f/${i}`);
    assert.equal(await declare(filters, 8_000), "1 1 1 1 1 1 1 1 1 1 1 1 97");
    assert.equal(await declare(["f/12"], 4_000), "1");
    assert.equal(await declare(["f/13"], 1), "97");
    assert.equal(await declare(["f/12", "f/13"], 2_000), "1 1");
    await subscribed(client, "f/0");
    assert.equal(await declare(["f/14"], 8_000), "1", "f/0 declares nothing any more");
    await client.unsubscribe({ filters: ["f/14"] });
    await client.expectUnsuback(1);
    assert.equal(await declare(["f/15", "f/15", "f/15"], 8_000), "1 1 1");
    assert.equal(await declare(["f/15", "f/15", "f/15", "f/16", "f/17"], 4_100), "1 1 1 97 97");
    client.close();
  },
);

overBoth(
  "D15.7 a declaration lasts with its session, over resumption and restart; a discarded session loses it",
  {
    channels: CHANNELS,
  },
  async (house) => {
    const { client } = await durable(house, "a");
    await declared(client, "+/x/#", ["topic_hash(2, 1)"]);
    client.close();
    await house.away("a");
    const topics = [...topicsOf("plain/x", 10), ...topicsOf("log/x", 10)];
    const mine = topics.filter((topic) => slice(topic, 2) === 1);
    await publishAll(house, topics);
    await using killed = await house.killed();
    for (const next of [killed, house]) {
      const { client: again, present } = await durable(next, "a");
      assert.equal(present, true);
      assert.deepEqual((await takenAll(again, mine.length)).map(text).sort(), [...mine].sort());
      await nothingMore(again);
      const { client: clean } = await durable(next, "a", { cleanStart: true });
      await subscribed(clean, "log/x/#");
      assert.equal((await takenAll(clean, 10)).length, 10);
      again.close();
      clean.close();
    }
  },
  ["sqlite"],
);
