/** 03 section 11 and 06 section 9: append channels and their durable consumers. */
import assert from "node:assert/strict";
import {
  durable,
  nothingMore,
  published,
  publishedTwice,
  subscribed,
  taken,
  takenAll,
} from "../support/clients.ts";
import { type House, overBoth, property, rules, text } from "../support/house.ts";
import type { Received, WireClient } from "../support/wire.ts";

const CHANNELS = `
log:
  type: append
  filter: log/#
tail:
  type: append
  filter: tail/#
  start: tail
two:
  type: append
  filter: two/{a,b}/#
`;

function offset(packet: Received<"publish">): number {
  return Number(property(packet, "saguin-offset")[0]);
}

async function filled(house: House, clientId: string, topic: string, count: number): Promise<void> {
  using writer = await house.client({ clientId });
  for (let i = 1; i <= count; i++) await published(writer, topic, String(i));
}

async function payloads(client: WireClient, count: number): Promise<string[]> {
  return (await takenAll(client, count)).map(text);
}

rules("03 section 11: append channels", { channels: CHANNELS }, {
  "D11.1 D11.3 D20.1 without a position a reader starts at the floor, in offset order, for both protocols":
    async (
      house,
    ) => {
      await filled(house, "d11.1w", "log/d11.1", 300);
      for (const level of [5, 4] as const) {
        using client = await house.client({ level, clientId: `d11.1-${level}` });
        await subscribed(client, "log/d11.1");
        for (let i = 1; i <= 300; i++) await taken(client, "log/d11.1", String(i));
        await nothingMore(client);
      }
    },

  "D11.2 D11.17 no RETAIN, in replay or live, unless RAP asked for the publisher's": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d11.2w" });
    await published(writer, "log/d11.2", "1", { retain: true });
    for (const [level, retainAsPublished] of [[5, false], [4, undefined], [5, true]] as const) {
      using client = await house.client({ level, clientId: "d11.2" });
      await subscribed(client, "log/d11.2", 1, { retainAsPublished });
      assert.equal((await taken(client, "log/d11.2", "1")).retain, retainAsPublished === true);
      await subscribed(client, "log/d11.2/live", 1, { retainAsPublished });
      await published(writer, "log/d11.2/live", "2", { retain: true });
      assert.equal((await taken(client, "log/d11.2/live", "2")).retain, retainAsPublished === true);
    }
  },

  "D11.3 start: tail serves what arrives next": async (house) => {
    await filled(house, "d11.3w", "tail/d11.3", 3);
    const { client } = await durable(house, "d11.3");
    await subscribed(client, "tail/#");
    await nothingMore(client);
    await filled(house, "d11.3w", "tail/d11.3", 1);
    await taken(client, "tail/d11.3", "1");
    client.close();
    await house.away("d11.3");
    await filled(house, "d11.3w", "tail/d11.3", 2);
    const { client: again } = await durable(house, "d11.3");
    assert.deepEqual(await payloads(again, 2), ["1", "2"]);
    again.close();
  },

  "D11.8 history of a start: tail channel takes a durable session and a seek": async (house) => {
    const { client } = await durable(house, "d11.8");
    await subscribed(client, "tail/#");
    await client.publish({
      topic: "$saguin/consumer/tail/seek",
      payload: "0",
      qos: 1,
      packetId: 3,
    });
    await client.expectPublish("$saguin/consumer/tail/seek/reply", "1");
    const offsets: number[] = [];
    for (let answered = false; !answered || offsets.length === 0;) {
      const packet = await client.next();
      if (packet.type === "publish") offsets.push(offset(packet));
      else answered = packet.type === "puback";
    }
    assert.equal(offsets[0], 1);
    client.close();
  },

  "D11.4 the filters of one SUBSCRIBE are all recorded before any of them replays": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d11.4w" });
    for (const topic of ["two/a/x", "two/b/x", "two/a/x", "two/b/x"]) {
      await published(writer, topic, topic);
    }
    using client = await house.client({ clientId: "d11.4" });
    await client.subscribe({
      subscriptions: [{ filter: "two/b/x", qos: 1 }, { filter: "two/a/x", qos: 1 }],
    });
    await client.expectSuback(1, [1, 1]);
    assert.deepEqual(await payloads(client, 4), ["two/a/x", "two/b/x", "two/a/x", "two/b/x"]);
  },

  "D11.5 06 9.6 a later filter does not reach back, and subscribing again neither rewinds nor repeats":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d11.5w" });
      for (const topic of ["log/d11.5/a", "log/d11.5/b", "log/d11.5/a"]) {
        await published(writer, topic, topic);
      }
      const { client } = await durable(house, "d11.5");
      await subscribed(client, "log/d11.5/a");
      const first = await client.expectPublish("log/d11.5/a");
      await client.expectPublish("log/d11.5/a");
      await subscribed(client, "log/d11.5/b");
      await nothingMore(client);
      await subscribed(client, "log/d11.5/a");
      await client.unsubscribe({ filters: ["log/d11.5/a"] });
      await client.expectUnsuback(1, [0]);
      await subscribed(client, "log/d11.5/a");
      await nothingMore(client);
      await client.puback(first.packetId);
      await published(writer, "log/d11.5/b", "new");
      await taken(client, "log/d11.5/b", "new");
      client.close();
    },

  "D11.6 D11.7 Retain Handling 2 is from now on, position stored at the head; 0 and 1 replay":
    async (house) => {
      await filled(house, "d11.6w", "log/d11.6", 3);
      for (const retainHandling of [0, 1]) {
        using client = await house.client({ clientId: "d11.6a" });
        await subscribed(client, "log/d11.6", 1, { retainHandling });
        assert.deepEqual(await payloads(client, 3), ["1", "2", "3"]);
        await subscribed(client, "log/d11.6", 1, { retainHandling });
        await nothingMore(client);
      }
      const { client } = await durable(house, "d11.6");
      await subscribed(client, "log/d11.6", 1, { retainHandling: 2 });
      await nothingMore(client);
      await filled(house, "d11.6w", "log/d11.6", 2);
      assert.deepEqual(await payloads(client, 2), ["1", "2"]);
      client.close();
      await house.away("d11.6");
      await filled(house, "d11.6w", "log/d11.6", 2);
      // With a position: it is committed at the head, and the backlog dropped.
      const { client: again } = await durable(house, "d11.6", {
        properties: { receiveMaximum: 1 },
      });
      await again.expectPublish("log/d11.6", "1");
      await subscribed(again, "log/d11.6", 1, { retainHandling: 2 });
      again.close();
      await house.away("d11.6");
      const { client: last } = await durable(house, "d11.6");
      await nothingMore(last);
      last.close();
      using ephemeral = await house.client({ clientId: "d11.6e" });
      await subscribed(ephemeral, "log/d11.6", 1, { retainHandling: 2 });
      await nothingMore(ephemeral);
    },

  "D11.10 D11.11 D11.12 a durable consumer resumes at its lowest unacknowledged offset, at every QoS":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d11.10w" });
      for (const qos of [1, 2]) {
        const id = `d11.10-${qos}`;
        for (let i = 1; i <= 4; i++) await publishedTwice(writer, `log/${id}`, String(i));
        const { client } = await durable(house, id, { properties: { receiveMaximum: 3 } });
        await subscribed(client, `log/${id}`, qos);
        const sent: Received<"publish">[] = [];
        for (let i = 1; i <= 3; i++) sent.push(await client.expectPublish(`log/${id}`, String(i)));
        // The second is done, the first is not; the window has room for the fourth.
        const { packetId } = sent[1];
        if (qos === 1) await client.puback(packetId);
        else {
          await client.pubrec(packetId);
          await client.expectPubrel(packetId);
          await client.pubcomp(packetId);
        }
        await client.expectPublish(`log/${id}`, "4");
        await nothingMore(client);
        client.close();
        await house.away(id);
        const log = house.broker.routes.channel("log");
        assert.ok(log?.kind === "append");
        const consumer = log.consumer(house.broker.sessions.get(id)!)!;
        assert.equal(consumer.position, offset(sent[0]));
        const { client: again } = await durable(house, id);
        const first = await again.expectPublish(`log/${id}`, "1");
        assert.deepEqual([first.packetId, first.dup], [sent[0].packetId, true]);
        again.close();
      }
    },

  "D11.12 at QoS 0 the position moves with the write": async (house) => {
    await filled(house, "d11.12w", "log/d11.12", 3);
    const { client } = await durable(house, "d11.12");
    await subscribed(client, "log/d11.12", 0);
    for (let i = 1; i <= 3; i++) await client.expectPublish("log/d11.12", String(i));
    client.close();
    await house.away("d11.12");
    const { client: again } = await durable(house, "d11.12");
    await nothingMore(again);
    again.close();
  },

  "D11.13 the position moves past what is stepped over": async (house) => {
    using writer = await house.client({ clientId: "d11.13w" });
    const { client } = await durable(house, "d11.13");
    await subscribed(client, "log/d11.13", 1, { noLocal: true });
    await published(writer, "log/d11.13", "read");
    await taken(client, "log/d11.13", "read");
    await published(writer, "log/elsewhere", "no filter");
    await published(client, "log/d11.13", "own");
    await nothingMore(client);
    await client.disconnect();
    const log = house.broker.routes.channel("log");
    assert.ok(log?.kind === "append");
    const stored = await log.store.position("mqtt:d11.13");
    assert.equal(stored!.offset, log.store.next());
  },

  "D11.14 a clean DISCONNECT stores every acknowledgement before the close": async (house) => {
    await filled(house, "d11.14w", "log/d11.14", 5);
    const { client } = await durable(house, "d11.14");
    await subscribed(client, "log/d11.14");
    const got = await takenAll(client, 3);
    for (const payload of ["4", "5"]) await client.expectPublish("log/d11.14", payload);
    await client.disconnect();
    const log = house.broker.routes.channel("log");
    assert.ok(log?.kind === "append");
    const stored = await log.store.position("mqtt:d11.14");
    assert.equal(stored!.offset, offset(got[2]) + 1);
  },

  "D11.16 06 9.4 on resume the session re-sends what is unacknowledged, and the channel continues above":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d11.16w" });
      const { client } = await durable(house, "d11.16");
      await subscribed(client, "log/d11.16");
      await published(writer, "log/d11.16", "A");
      const first = await client.expectPublish("log/d11.16", "A");
      client.close();
      await house.away("d11.16");
      await published(writer, "log/d11.16", "B");
      const { client: again } = await durable(house, "d11.16");
      const a = await again.expectPublish("log/d11.16", "A");
      assert.deepEqual([a.dup, a.packetId, offset(a)], [true, first.packetId, offset(first)]);
      const b = await again.expectPublish("log/d11.16", "B");
      assert.deepEqual([b.dup, offset(b)], [false, offset(a) + 1]);
      await nothingMore(again);
      again.close();
    },

  "06 9.2 the position is the session's: it outlives UNSUBSCRIBE and clean DISCONNECT": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "9.2w" });
    const { client } = await durable(house, "9.2");
    await subscribed(client, "log/9.2");
    await published(writer, "log/9.2", "1");
    await taken(client, "log/9.2", "1");
    await client.unsubscribe({ filters: ["log/9.2"] });
    await client.expectUnsuback(1, [0]);
    await published(writer, "log/9.2", "2");
    await nothingMore(client);
    await client.disconnect();
    await published(writer, "log/9.2", "3");
    const { client: again, present } = await durable(house, "9.2");
    assert.equal(present, true);
    await nothingMore(again);
    await subscribed(again, "log/9.2");
    assert.deepEqual(await payloads(again, 2), ["2", "3"]);
    again.close();
  },

  "D11.18 D11.20 a position below the floor is told at CONNECT by Session Present 0; others are kept":
    async (
      house,
    ) => {
      const log = house.broker.routes.channel("log");
      assert.ok(log?.kind === "append");
      for (const level of [5, 4] as const) {
        const id = `d11.18-${level}`;
        using writer = await house.client({ clientId: "d11.18w" });
        const { client } = await durable(house, id, { level });
        await client.subscribe({
          subscriptions: [{ filter: `log/${id}`, qos: 1 }, { filter: `two/a/${id}`, qos: 1 }],
        });
        await client.expectSuback(1, [1, 1]);
        await published(writer, `two/a/${id}`, "read before");
        await taken(client, `two/a/${id}`, "read before");
        await client.disconnect();
        for (const payload of ["lost", "kept"]) await published(writer, `log/${id}`, payload);
        await log.store.removeMany(
          Array.from({ length: log.store.next() - 2 }, (_, i) => i + 1),
        );
        const { client: again, present } = await durable(house, id, { level });
        assert.equal(present, false);
        await nothingMore(again);
        await again.subscribe({
          subscriptions: [{ filter: `log/${id}`, qos: 1 }, { filter: `two/a/${id}`, qos: 1 }],
        });
        await again.expectSuback(1, [1, 1]);
        await taken(again, `log/${id}`, "kept");
        await nothingMore(again);
        again.close();
        await house.away(id);
      }
    },

  "D11.19 D16.1 a connected consumer that retention overtakes goes on at the floor, and the loss is logged":
    async (
      house,
    ) => {
      const log = house.broker.routes.channel("log");
      assert.ok(log?.kind === "append");
      using client = await house.client({ clientId: "d11.19", properties: { receiveMaximum: 1 } });
      await subscribed(client, "log/d11.19", 1, { retainHandling: 2 });
      // More than one read and what the channel has in hand.
      await filled(house, "d11.19w", "log/d11.19", 700);
      const first = await client.expectPublish("log/d11.19", "1");
      const next = log.store.next();
      await log.store.removeMany(Array.from({ length: next - 4 }, (_, i) => i + 1));
      await client.puback(first.packetId);
      const seen: string[] = [];
      while (seen[seen.length - 1] !== "700") seen.push(text(await taken(client)));
      assert.deepEqual(seen.slice(-3), ["698", "699", "700"]);
      const [line] = house.lines("retention removed records a connected consumer had not been sent")
        .filter(({ fields }) => fields.client === "d11.19");
      assert.ok(Number(line.fields.lost) > 0);
    },
});

overBoth(
  "D11.15 D11.22 D22.4 after a kill unacknowledged records come again as new packets, from the stored position",
  {
    channels: CHANNELS,
  },
  async (house) => {
    await filled(house, "w", "log/x", 6);
    const { client } = await durable(house, "a", { properties: { receiveMaximum: 4 } });
    await subscribed(client, "log/x");
    const sent: Received<"publish">[] = [];
    for (let i = 0; i < 4; i++) sent.push(await client.expectPublish());
    await client.puback(sent[0].packetId);
    await client.expectPublish("log/x", "5");
    await house.time.pass(200);
    await house.settled();
    await client.puback(sent[1].packetId);
    await client.expectPublish("log/x", "6");
    {
      await using killed = await house.killed();
      const { client: again, present } = await durable(killed, "a");
      assert.equal(present, true);
      // What was acknowledged since the last completed write comes again too, and nothing is skipped.
      const got = await takenAll(again, 5);
      assert.deepEqual(got.map(text), ["2", "3", "4", "5", "6"]);
      assert.ok(got.every(({ dup }) => !dup), "as new packets");
      await nothingMore(again);
      again.close();
    }
    // A graceful stop knows exactly.
    await house.restart();
    const { client: again } = await durable(house, "a");
    assert.deepEqual((await takenAll(again, 4)).map(text), ["3", "4", "5", "6"]);
    again.close();
    client.close();
  },
  ["sqlite"],
);

overBoth("D11.14 a position that the store refuses is written with every flush until it lands", {
  channels: CHANNELS,
}, async (house) => {
  await filled(house, "w", "log/x", 2);
  const { client } = await durable(house, "a");
  await subscribed(client, "log/x");
  house.faults.refuse("log.savePosition");
  await takenAll(client, 2);
  await nothingMore(client);
  await house.time.pass(1_000);
  const log = house.broker.routes.channel("log");
  assert.ok(log?.kind === "append");
  assert.equal((await log.store.position("mqtt:a"))!.offset, 1, "where it began");
  house.faults.relent("log.savePosition");
  await house.time.pass(200);
  await house.settled();
  assert.equal((await log.store.position("mqtt:a"))!.offset, 3);
  client.close();
});
