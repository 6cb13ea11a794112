/** 03 section 9 and 02a section 5: shared subscriptions and their groups. */
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
import { type House, property, rules, text } from "../support/house.ts";
import { until } from "../support/wait.ts";
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

async function member(
  house: House,
  clientId: string,
  filter: string,
  qos = 1,
): Promise<WireClient> {
  const client = await house.client({ clientId });
  await subscribed(client, filter, qos);
  return client;
}

async function durableMember(
  house: House,
  clientId: string,
  filter: string,
  options: Parameters<typeof durable>[2] & { qos?: number } = {},
): Promise<WireClient> {
  const { qos = 1, ...rest } = options;
  const { client } = await durable(house, clientId, rest);
  await subscribed(client, filter, qos);
  return client;
}

rules("03 section 9: shared groups", {
  channels: CHANNELS,
  limits: "session_queue_bytes: 16KiB\nmax_message_size: 8KiB\nmax_topic_levels: 6",
}, {
  "02a 5 members take turns in the order of their client ids, one turn a message, whatever its channel":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "turnsw" });
      const members = [
        await member(house, "turns-b", "$share/g/+/turns"),
        await member(house, "turns-a", "$share/g/+/turns"),
        await member(house, "turns-c", "$share/g/+/turns"),
      ];
      const order = [members[1], members[0], members[2]];
      const topics = ["plain/turns", "log/turns", "values/turns"];
      for (let i = 0; i < 9; i++) {
        const qos = i % 2;
        const topic = topics[i % 3];
        await published(writer, topic, String(i), { qos });
        const got = await taken(order[i % 3], topic, String(i));
        assert.equal(got.qos, qos);
      }
      for (const client of members) {
        await nothingMore(client);
        client.close();
      }
    },

  "D9.1 a group gets no replay, no state, no retained value and no job, and one whose filter lies inside a queue is granted":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d9.1w" });
      for (const topic of ["log/d9.1", "values/d9.1", "plain/d9.1", "jobs/d9.1"]) {
        await published(writer, topic, "before", { retain: true });
      }
      using client = await member(house, "d9.1", "$share/g/+/d9.1");
      await nothingMore(client);
      using inside = await member(house, "d9.1i", "$share/g/jobs/d9.1");
      using all = await member(house, "d9.1a", "$share/g/#");
      await published(writer, "jobs/d9.1", "a job");
      await house.time.pass(400);
      for (const each of [client, inside, all]) await nothingMore(each);
      await published(writer, "log/d9.1", "after");
      const got = await taken(client, "log/d9.1", "after");
      assert.deepEqual(
        got.properties.userProperties!.map(([name]) => name),
        ["saguin-id", "saguin-timestamp"],
        "an offset would tell nobody anything",
      );
    },

  "02a 5 D9.15 what is not a shared subscription, or is inside a reserved space, is refused":
    async (house) => {
      using client = await house.client({ clientId: "shapes" });
      const refusals: [string, number][] = [
        ["$share/g", 0x8f],
        ["$share/g/", 0x8f],
        ["$share//x", 0x8f],
        ["$share/g+/x", 0x8f],
        ["$share/#/x", 0x8f],
        ["$share/g/$share/h/x", 0x8f],
        ["$share/g/$SHARE/h/x", 0x8f],
        ["$SHARE/g/x", 0x8f],
        ["$share/g/x#", 0x8f],
        ["$share/g/1/2/3/4/5/6/7", 0x8f],
        ["$share/g/$SYS/x", 0x87],
        ["$share/g/$saguin/queue/jobs", 0x87],
        ["$share/g/$saguin/consumer/log/seek/reply", 0x87],
      ];
      for (const [filter, code] of refusals) {
        await client.subscribe({ subscriptions: [{ filter, qos: 1 }] });
        const packet = await client.expect("suback");
        assert.deepEqual(packet.reasonCodes, [code], filter);
        assert.ok(packet.properties.reasonString);
      }
      await client.subscribe({ subscriptions: [{ filter: "$share/g/1/2/3/4/5/6", qos: 2 }] });
      await client.expectSuback(1, [2]);
      await client.subscribe({
        subscriptions: [{ filter: "$share/g/p", qos: 1 }, { filter: "plain/p", qos: 1 }],
        properties: { userProperties: [["saguin-filter", "topic_hash(2, 0)"]] },
      });
      const { properties } = await client.expectSuback(1, [0x83, 1]);
      assert.match(properties.reasonString!, /shared subscription/);
      using old = await house.client({ level: 4, clientId: "shapes4" });
      await old.subscribe({ subscriptions: [{ filter: "$share/g/x" }, { filter: "x" }] });
      await old.expectSuback(1, [0x80, 0]);
    },

  "CONNACK does not say that shared subscriptions are not available": async (house) => {
    const { WireClient } = await import("../support/wire.ts");
    using client = await WireClient.open(house.port);
    await client.connect({ clientId: "available" });
    const { properties } = await client.expectConnack();
    assert.equal(properties.sharedSubscriptionAvailable, undefined);
  },

  "D9.3 without a durable member what nobody can take is lost and counted": async (house) => {
    using writer = await house.client({ clientId: "d9.3w" });
    using client = await house.client({ clientId: "d9.3", properties: { receiveMaximum: 1 } });
    await subscribed(client, "$share/g/+/d9.3");
    const before = house.counters.sessionDeliveriesDropped.get("no_shared_member");
    for (const topic of ["plain/d9.3", "log/d9.3", "values/d9.3"]) {
      await published(writer, topic, "fits");
      const first = await client.expectPublish(topic, "fits");
      await published(writer, topic, "lost");
      await client.puback(first.packetId);
      await nothingMore(client);
    }
    await published(writer, "plain/d9.3", "QoS 0 needs no window", { qos: 0 });
    await taken(client, "plain/d9.3");
    assert.equal(house.counters.sessionDeliveriesDropped.get("no_shared_member"), before + 3);
    client.close();
    await house.away("d9.3");
    await published(writer, "plain/d9.3", "nobody is in it any more");
    assert.equal(house.counters.sessionDeliveriesDropped.get("no_shared_member"), before + 3);
  },

  "D9.2 D9.4 a group with a durable member keeps what comes, in order, for the first who is back":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d9.2w" });
      const client = await durableMember(house, "d9.2", "$share/g/+/d9.2");
      client.close();
      await house.away("d9.2");
      const before = house.counters.sessionDeliveriesDropped.get("no_shared_member");
      await published(writer, "plain/d9.2", "QoS 0 is not kept", { qos: 0 });
      for (let i = 0; i < 4; i++) {
        await published(writer, ["plain/d9.2", "log/d9.2", "values/d9.2"][i % 3], String(i));
      }
      assert.equal(house.counters.sessionDeliveriesDropped.get("no_shared_member"), before + 1);
      const { client: again } = await durable(house, "d9.2", { properties: { receiveMaximum: 1 } });
      const first = await again.expectPublish("plain/d9.2", "0");
      // While something waits, what comes joins its end though another member could take it.
      using other = await house.client({ clientId: "d9.2o", properties: { receiveMaximum: 1 } });
      await subscribed(other, "$share/g/+/d9.2");
      const second = await other.expectPublish("log/d9.2", "1");
      await published(writer, "plain/d9.2", "4");
      await again.puback(first.packetId);
      await again.expectPublish("values/d9.2", "2");
      await other.puback(second.packetId);
      const third = await other.expectPublish("plain/d9.2", "3");
      await other.puback(third.packetId);
      await taken(other, "plain/d9.2", "4");
      again.close();
    },

  "D9.5 a client with a shared and a plain subscription gets a record twice": async (house) => {
    using writer = await house.client({ clientId: "d9.5w" });
    for (const [id, expiry] of [["d9.5e", 0], ["d9.5d", 100]] as const) {
      const { client } = await durable(house, id, { expiry });
      await client.subscribe({
        subscriptions: [{ filter: `$share/g/+/${id}`, qos: 1 }],
        properties: { subscriptionIdentifiers: [1] },
      });
      await client.expectSuback(1, [1]);
      await client.subscribe({
        subscriptions: [{ filter: `+/${id}`, qos: 1 }],
        properties: { subscriptionIdentifiers: [2] },
      });
      await client.expectSuback(1, [1]);
      for (const topic of [`plain/${id}`, `log/${id}`]) {
        await published(writer, topic, "p");
        const got = await takenAll(client, 2);
        assert.deepEqual(
          got.map((each) => each.properties.subscriptionIdentifiers).sort(),
          [[1], [2]],
        );
        assert.deepEqual(got.map((each) => property(each, "saguin-offset").length).sort(), [
          0,
          topic.startsWith("log") ? 1 : 0,
        ]);
      }
      await nothingMore(client);
      client.close();
    }
  },

  "D9.5 the publisher is answered after the group's copy is stored": async (house, provider) => {
    if (provider === "memory") return;
    const client = await durableMember(house, "d9.5b", "$share/g/log/d9.5b");
    client.close();
    await house.away("d9.5b");
    using writer = await house.client({ clientId: "d9.5bw" });
    const rows = () =>
      house.rows("SELECT topic FROM records WHERE topic = 'log/d9.5b' AND group_copy = 1")
        .length;
    await published(writer, "log/d9.5b", "one");
    assert.equal(rows(), 1);
    await publishedTwice(writer, "log/d9.5b", "two");
    assert.equal(rows(), 2);
    const { client: again } = await durable(house, "d9.5b");
    await taken(again, "log/d9.5b", "one");
    assert.equal((await taken(again, "log/d9.5b", "two")).qos, 1);
    await house.time.pass(400);
    await until("the copies to leave the log", () => rows() === 0);
    again.close();
  },

  "D9.8 a cursor that cannot be stored refuses the SUBSCRIBE, and neither is kept": async (
    house,
  ) => {
    const { client } = await durable(house, "d9.8");
    for (const [kind, code] of [["full", 0x97], ["failed", 0x83]] as const) {
      house.faults.refuse("sessions.save", kind, 1);
      await client.subscribe({ subscriptions: [{ filter: "$share/g/d9.8", qos: 1 }] });
      await client.expectSuback(1, [code]);
    }
    using writer = await house.client({ clientId: "d9.8w" });
    await published(writer, "d9.8", "nobody's");
    await nothingMore(client);
    await subscribed(client, "$share/g/d9.8");
    await published(writer, "d9.8", "the group's");
    await taken(client, "d9.8", "the group's");
    client.close();
  },

  "D6.22 D9.6 the backlog ends with the last member's session or filter, dropped and counted":
    async (house) => {
      using writer = await house.client({ clientId: "d9.6w" });
      const before = house.counters.sharesDropped.get("no_member_left");
      const kept = house.logLength();
      const client = await durableMember(house, "d9.6", "$share/g/d9.6/#", { expiry: 50 });
      client.close();
      await house.away("d9.6");
      for (const payload of ["1", "2"]) await published(writer, "d9.6/x", payload);
      assert.equal(house.logLength(), kept + 2);
      await house.time.leap(50_000);
      await until("the session to end", () => house.broker.sessions.get("d9.6") === undefined);
      await until("its backlog to go", () => house.logLength() === kept);
      assert.equal(house.counters.sharesDropped.get("no_member_left"), before + 2);

      const again = await durableMember(house, "d9.6", "$share/g/d9.6/#", {
        properties: { receiveMaximum: 1 },
      });
      await published(writer, "d9.6/x", "on the wire");
      await again.expectPublish("d9.6/x", "on the wire");
      await published(writer, "d9.6/x", "waits");
      await again.unsubscribe({ filters: ["$share/g/d9.6/#"] });
      await again.expectUnsuback(1, [0]);
      assert.equal(house.counters.sharesDropped.get("no_member_left"), before + 3);
      await nothingMore(again);
      again.close();
    },

  "D9.11 a takeover carries what is on the wire over, and a kept session keeps it": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d9.11w" });
    const client = await durableMember(house, "d9.11", "$share/g/d9.11");
    using other = await member(house, "d9.11z", "$share/g/d9.11");
    await published(writer, "d9.11", "mine");
    const first = await client.expectPublish("d9.11", "mine");
    const { client: over } = await durable(house, "d9.11");
    const second = await over.expectPublish("d9.11", "mine");
    assert.deepEqual([second.packetId, second.dup], [first.packetId, true]);
    over.close();
    await house.away("d9.11");
    await nothingMore(other);
    const { client: again } = await durable(house, "d9.11");
    assert.equal((await taken(again, "d9.11", "mine")).packetId, first.packetId);
    await nothingMore(other);
    again.close();
    client.close();
  },

  "D9.12 D9.13 what an ended session had: QoS 1 back to the group ahead of all, QoS 2 to nobody or delivered":
    async (
      house,
    ) => {
      using writer = await house.client({ clientId: "d9.12w" });
      for (const [id, expiry] of [["d9.12e", 0], ["d9.12d", 50]] as const) {
        const filter = `$share/g/${id}`;
        const keeper = await durableMember(house, `${id}-keeper`, filter, { qos: 2 });
        keeper.close();
        await house.away(`${id}-keeper`);
        const { client } = await durable(house, id, {
          expiry,
          properties: { receiveMaximum: 4 },
        });
        await subscribed(client, filter, 2);
        const ended = house.counters.sharesDropped.get("member_ended");
        await published(writer, id, "one at 1");
        await publishedTwice(writer, id, "no PUBREC");
        await publishedTwice(writer, id, "PUBREC");
        await published(writer, id, "another at 1");
        await published(writer, id, "waits");
        const got: Awaited<ReturnType<WireClient["expectPublish"]>>[] = [];
        for (let i = 0; i < 4; i++) got.push(await client.expectPublish(id));
        assert.deepEqual(got.map(text), ["one at 1", "no PUBREC", "PUBREC", "another at 1"]);
        await client.pubrec(got[2].packetId);
        await client.expectPubrel(got[2].packetId);
        await house.time.pass(400);
        client.close();
        await house.away(id);
        if (expiry > 0) await house.time.leap(50_000);
        await until("the session to end", () => house.broker.sessions.get(id) === undefined);
        await house.settled();
        assert.equal(house.counters.sharesDropped.get("member_ended"), ended + 1);
        const { client: again } = await durable(house, `${id}-keeper`);
        const returned = await takenAll(again, 3);
        assert.deepEqual(returned.map(text), ["one at 1", "another at 1", "waits"]);
        await nothingMore(again);
        again.close();
      }
    },

  "D9.12 Clean Start ends the old session: its deliveries go back to the group": async (house) => {
    using writer = await house.client({ clientId: "d9.12cw" });
    const filter = "$share/g/d9.12c";
    const client = await durableMember(house, "d9.12c", filter);
    await published(writer, "d9.12c", "unacknowledged");
    await client.expectPublish("d9.12c");
    await published(writer, "d9.12c", "acknowledged meanwhile");
    const second = await client.expectPublish("d9.12c");
    const other = await durableMember(house, "d9.12co", filter);
    await client.puback(second.packetId);
    await nothingMore(client);
    const { client: clean } = await durable(house, "d9.12c", { cleanStart: true });
    await taken(other, "d9.12c", "unacknowledged");
    await nothingMore(other);
    await nothingMore(clean);
    clean.close();
    other.close();
    client.close();
  },

  "D9.12 returns that find no room even in the reserve are dropped, and counted": async (house) => {
    using writer = await house.client({ clientId: "d9.12fw" });
    const keeper = await durableMember(house, "d9.12f-keeper", "$share/g/d9.12f");
    keeper.close();
    await house.away("d9.12f-keeper");
    const client = await durableMember(house, "d9.12f", "$share/g/d9.12f", { expiry: 50 });
    await published(writer, "d9.12f", "lost");
    await client.expectPublish("d9.12f");
    await house.time.pass(400);
    client.close();
    await house.away("d9.12f");
    const before = house.counters.sharesDropped.get("storage_full");
    house.faults.refuse("sessions.end", "full", 1);
    await house.time.leap(50_000);
    await until(
      "the drop to be counted",
      () => house.counters.sharesDropped.get("storage_full") === before + 1,
    );
    const { client: again } = await durable(house, "d9.12f-keeper");
    await nothingMore(again);
    again.close();
  },

  "D9.14 members that end with their connection are served too, and give back when they go": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d9.14w" });
    const keeper = await durableMember(house, "d9.14z", "$share/g/d9.14");
    keeper.close();
    await house.away("d9.14z");
    const first = await member(house, "d9.14a", "$share/g/d9.14");
    const second = await member(house, "d9.14b", "$share/g/d9.14");
    await published(writer, "d9.14", "1");
    await published(writer, "d9.14", "2");
    await first.expectPublish("d9.14", "1");
    await taken(second, "d9.14", "2");
    await nothingMore(second);
    first.close();
    await taken(second, "d9.14", "1");
    await published(writer, "d9.14", "3");
    await second.expectPublish("d9.14", "3");
    second.close();
    await house.away("d9.14b");
    const { client: again } = await durable(house, "d9.14z");
    await taken(again, "d9.14", "3");
    await nothingMore(again);
    again.close();
  },

  "02b 14 a group's backlog is bounded by session_queue_bytes, its oldest go first": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "boundw" });
    const client = await durableMember(house, "bound", "$share/g/bound");
    client.close();
    await house.away("bound");
    const before = house.counters.sharesDropped.get("backlog_full");
    const filler = "x".repeat(1_000);
    for (let i = 0; i < 30; i++) await published(writer, "bound", `${i} ${filler}`);
    const dropped = house.counters.sharesDropped.get("backlog_full") - before;
    assert.ok(dropped > 10 && dropped < 20, `${dropped} dropped`);
    const { client: again } = await durable(house, "bound");
    for (let i = dropped; i < 30; i++) await taken(again, "bound", `${i} ${filler}`);
    await nothingMore(again);
    again.close();
  },

  "D16 a member that stops reading is passed over": async (house) => {
    using writer = await house.client({ clientId: "stalledw" });
    using deaf = await house.client({ clientId: "stalled-a", properties: { receiveMaximum: 2 } });
    await subscribed(deaf, "$share/g/stalled");
    using reads = await member(house, "stalled-b", "$share/g/stalled");
    for (let i = 0; i < 20; i++) {
      await published(writer, "stalled", String(i));
      if (i !== 0 && i !== 2) await taken(reads, "stalled", String(i));
    }
    await nothingMore(reads);
  },

  "D9.3 a member's own QoS counts: QoS 0 members are served at QoS 0 and keep nothing": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "zerow" });
    const zero = await durableMember(house, "zero", "$share/g/zero", { qos: 0 });
    await publishedTwice(writer, "zero", "to a QoS 0 member");
    assert.equal((await taken(zero, "zero")).qos, 0);
    zero.close();
    await house.away("zero");
    const before = house.counters.sessionDeliveriesDropped.get("no_shared_member");
    await published(writer, "zero", "lost");
    assert.equal(house.counters.sessionDeliveriesDropped.get("no_shared_member"), before + 1);
  },

  "Retain As Published holds in a group; the flag is 0 otherwise": async (house) => {
    using writer = await house.client({ clientId: "rapw" });
    using plain = await member(house, "rap", "$share/g1/rap");
    using asking = await house.client({ clientId: "rap2" });
    await subscribed(asking, "$share/g2/rap", 1, { retainAsPublished: true });
    await published(writer, "rap", "p", { retain: true });
    assert.equal((await taken(plain, "rap")).retain, false);
    assert.equal((await taken(asking, "rap")).retain, true);
  },
});
