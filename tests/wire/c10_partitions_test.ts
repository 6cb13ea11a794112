/** 06 section 10: declared slices; 3.1.1 cannot declare. */
import assert from "node:assert/strict";
import { slice } from "../../src/topics/partition.ts";
import { durable, left, nothingMore, published, subscribed, takenAll } from "../support/clients.ts";
import { rules } from "../support/house.ts";
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

async function declared(client: WireClient, filter: string, ...values: string[]) {
  await client.subscribe({
    subscriptions: [{ filter, qos: 1 }],
    properties: {
      userProperties: values.map((value) => ["saguin-filter", value] as const),
    },
  });
  const { reasonCodes, properties } = await client.expect("suback");
  return { code: reasonCodes[0], reason: properties.reasonString };
}

rules("06 section 10: declared slices", { channels: CHANNELS }, {
  "06 10 the table of the hash": () => {
    const table: [string, number, number][] = [
      ["iot/depot/events/dev-1", 1, 0],
      ["iot/water/w-7/inspect", 2, 4],
      ["orders/resize/thumbnails/42", 0, 1],
      ["a", 1, 0],
    ];
    for (const [topic, three, eight] of table) {
      assert.deepEqual([slice(topic, 3), slice(topic, 8)], [three, eight], topic);
    }
    return Promise.resolve();
  },

  "06 10 members of all slices get everything once: live, replayed, state and retained": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "10w" });
    for (const kind of ["log", "values", "plain"]) {
      const topics = Array.from({ length: 12 }, (_, i) => `${kind}/10/${i}`);
      for (const topic of topics) await published(writer, topic, "old", { retain: true });
      const members: WireClient[] = [];
      const mine = (index: number) => topics.filter((topic) => slice(topic, 3) === index);
      for (let index = 0; index < 3; index++) {
        const member = await house.client({ clientId: `10 ${kind} ${index}` });
        members.push(member);
        const { code } = await declared(member, `${kind}/10/#`, `topic_hash(3, ${index})`);
        assert.equal(code, 1);
        const kept = (await takenAll(member, mine(index).length)).map(({ topic }) => topic);
        assert.deepEqual(kept.sort(), mine(index).sort());
      }
      for (const topic of topics) await published(writer, topic, "new");
      const got: string[] = [];
      for (const [index, member] of members.entries()) {
        got.push(...(await takenAll(member, mine(index).length)).map(({ topic }) => topic));
        await nothingMore(member);
        member.close();
      }
      assert.deepEqual(got.sort(), topics.sort());
    }
  },

  "06 10 repeated is either; a declaration is resumed with its session": async (house) => {
    using writer = await house.client({ clientId: "10 either w" });
    const topics = Array.from({ length: 12 }, (_, i) => `log/10 either/${i}`);
    const mine = topics.filter((topic) => slice(topic, 3) !== 1);
    const { client } = await durable(house, "10 either");
    await declared(client, "log/10 either/#", "topic_hash(3,0)", " topic_hash\t( 03 , 2 ) ");
    for (const topic of topics) await published(writer, topic, "x");
    const live = (await takenAll(client, mine.length)).map(({ topic }) => topic);
    assert.deepEqual(live, mine);
    await left(client);
    for (const topic of topics) await published(writer, topic, "y");
    const again = (await durable(house, "10 either")).client;
    assert.deepEqual((await takenAll(again, mine.length)).map(({ topic }) => topic), mine);
    await nothingMore(again);
    again.close();
  },

  "06 10 an undeclared subscription of the client is owed everything": async (house) => {
    using writer = await house.client({ clientId: "10 both w" });
    using client = await house.client({ clientId: "10 both" });
    await declared(client, "log/10 both/#", "topic_hash(2, 0)");
    await subscribed(client, "log/10 both/+");
    for (let i = 0; i < 6; i++) await published(writer, `log/10 both/${i}`, "x");
    assert.equal((await takenAll(client, 6)).length, 6);
    await nothingMore(client);
  },

  "06 10 what is no declaration is refused with the form; four faults have four sentences": async (
    house,
  ) => {
    using client = await house.client({ clientId: "10 refused" });
    const wrong = [
      "",
      "topic_hash",
      "TOPIC_HASH(2, 0)",
      "nonesuch(2, 0)",
      "a and b",
      "topic_hash(2)",
      "topic_hash(2, 0, 0)",
      "topic_hash(x, 0)",
      "topic_hash(-1, 0)",
      "topic_hash(2147483648, 0)",
      "topic_hash(0, 0)",
      "topic_hash(2, 2)",
    ];
    for (const value of wrong) {
      const { code, reason } = await declared(client, "log/#", value);
      assert.equal(code, 0x83, value);
      assert.match(reason!, /saguin-filter/, value);
      assert.match(reason!, /topic_hash/, value);
    }
    const sentences = new Set<string>();
    for (
      const value of [
        "nonesuch(2, 0)",
        "topic_hash(2, 2)",
        "topic_hash(2147483648, 0)",
        "topic_hash(x, 0)",
      ]
    ) {
      sentences.add((await declared(client, "log/#", value)).reason!);
    }
    assert.equal(sentences.size, 4);
    assert.equal(
      (await declared(client, "log/#", "topic_hash(2, 0)", "topic_hash(3, 0)")).code,
      0x83,
    );
    for (const filter of ["$share/g/log/#", "$saguin/queue/jobs"]) {
      assert.equal((await declared(client, filter, "topic_hash(2, 0)")).code, 0x83, filter);
    }
  },
});
