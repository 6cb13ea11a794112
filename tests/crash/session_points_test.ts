/** Sessions and shared groups at the points where a kill can tell one order from another (X17 to X26). */
import assert from "node:assert/strict";
import type { BrokerProcess } from "../support/broker_process.ts";
import { encodePuback, encodePublish, join } from "../support/mqtt_bytes.ts";
import { until } from "../support/wait.ts";
import { type Received, WireClient } from "../support/wire.ts";
import { label, payload, resumed } from "./household.ts";
import { diesAt, killable, rows } from "./support/killable_broker.ts";

const CHANNELS = "events:\n  type: append";
const WINDOW = 5;

async function publish(port: number, topic: string, ...payloads: string[]): Promise<void> {
  using client = await WireClient.connected(port);
  await client.send(
    join(
      ...payloads.map((payload, i) => encodePublish({ topic, payload, qos: 1, packetId: i + 1 })),
    ),
  );
  for (let i = 1; i <= payloads.length; i++) await client.expectPuback(i);
  await client.disconnect();
}

/** A session away, with these subscriptions. */
async function away(port: number, clientId: string, ...filters: string[]): Promise<void> {
  const { client } = await resumed(port, clientId);
  await client.subscribe({ subscriptions: filters.map((filter) => ({ filter, qos: 1 })) });
  await client.expectSuback(1, filters.map(() => 1));
  await client.disconnect();
}

/** A connection with a window, to a session that is there. */
async function windowed(port: number, clientId: string, receiveMaximum = WINDOW) {
  const client = await WireClient.open(port);
  const properties = { sessionExpiry: 3600, receiveMaximum };
  await client.connect({ clientId, cleanStart: false, properties });
  assert.equal((await client.expectConnack()).sessionPresent, true);
  return client;
}

async function restarted(broker: BrokerProcess): Promise<void> {
  await broker.kill();
  broker.command = undefined;
  await broker.startAgain();
}

for (const at of ["before", "after"] as const) {
  Deno.test(`X17 killed ${at} the commit of a position: the replay starts at it, and skips nothing`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    await away(broker.port, "reader", "events/#");
    await publish(broker.port, "events/a", "1", "2", "3");
    using reader = await windowed(broker.port, "reader");
    const packets = [await reader.expectPublish(), await reader.expectPublish()];
    await diesAt(broker, { sql: "(UPDATE|INSERT INTO) positions", at }, async () => {
      await reader.send(join(...packets.map(({ packetId }) => encodePuback({ packetId }))));
      for (;;) await reader.next();
    });
    await broker.startAgain();
    using again = await windowed(broker.port, "reader");
    const first = await again.expectPublish("events/a");
    assert.equal(label(first, "saguin-offset"), at === "after" ? "3" : "1");
  });
}

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X18 killed ${at} the commit of a session begun: Session Present says what is stored`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    await diesAt(broker, { sql: "INSERT INTO sessions", at }, async () => {
      const { client } = await resumed(broker.port, "one");
      client.close();
    });
    const stored = rows(broker, "SELECT client FROM sessions").length === 1;
    assert.equal(stored, at === "after");
    await broker.startAgain();
    const { client, present } = await resumed(broker.port, "one");
    using one = client;
    assert.equal(present, stored);
    await one.subscribe({ subscriptions: [{ filter: "news/#", qos: 1 }] });
    await one.expectSuback(1, [1]);
  });
}

for (const at of ["before", "after"] as const) {
  Deno.test(`X19 killed ${at} the commit of a subscription: it resumes with it, and is owed nothing older`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    await away(broker.port, "other", "news/#");
    const { client } = await resumed(broker.port, "one");
    using one = client;
    await publish(broker.port, "news/a", "older");
    await diesAt(broker, { sql: "UPDATE sessions", at }, async () => {
      await one.subscribe({ subscriptions: [{ filter: "news/#", qos: 1 }] });
      await one.expectClose();
    });
    await broker.startAgain();
    await publish(broker.port, "news/a", "newer");
    const { client: again, present } = await resumed(broker.port, "one");
    using resumedOne = again;
    assert.equal(present, true);
    if (at === "after") await resumedOne.expectPublish("news/a", "newer");
    await resumedOne.expectSilence(100);
  });
}

Deno.test("X19 killed after SUBACK: it resumes with the subscription, and is owed nothing older", async () => {
  await using broker = await killable({ channels: CHANNELS });
  await away(broker.port, "other", "news/#");
  const { client } = await resumed(broker.port, "one");
  await publish(broker.port, "news/a", "older");
  await client.subscribe({ subscriptions: [{ filter: "news/#", qos: 1 }] });
  await client.expectSuback(1, [1]);
  client.close();
  await restarted(broker);
  await publish(broker.port, "news/a", "newer");
  using one = await windowed(broker.port, "one");
  await one.expectPublish("news/a", "newer");
  await one.expectSilence(100);
});

const GROUP = "$share/g/news/#";

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X20 killed ${at} the commit of the SUBSCRIBE that founds a group: member and cursor, or neither`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    const { client } = await resumed(broker.port, "one");
    using one = client;
    await diesAt(broker, { sql: "INSERT INTO share_groups", at }, async () => {
      await one.subscribe({ subscriptions: [{ filter: GROUP, qos: 1 }] });
      await one.expectClose();
    });
    const groups = rows(broker, "SELECT name FROM share_groups");
    assert.equal(groups.length, at === "after" ? 1 : 0);
    await broker.startAgain();
    const again = await resumed(broker.port, "one");
    assert.equal(again.present, true);
    await again.client.subscribe({ subscriptions: [{ filter: GROUP, qos: 1 }] });
    await again.client.expectSuback(1, [1]);
    await again.client.disconnect();
    await publish(broker.port, "news/a", "1");
    using member = await windowed(broker.port, "one");
    await member.expectPublish("news/a", "1");
    await member.expectSilence(50);
    assert.equal(rows(broker, "SELECT name FROM share_groups").length, 1);
  });
}

Deno.test("X22 killed with messages on the wire: they come again under their identifiers, PUBREC'd ones as PUBREL", async () => {
  await using broker = await killable({ channels: CHANNELS });
  const { client } = await resumed(broker.port, "one");
  await client.subscribe({ subscriptions: [{ filter: "news/#", qos: 2 }] });
  await client.expectSuback(1, [2]);
  await client.disconnect();
  using publisher = await WireClient.connected(broker.port);
  for (const [payload, qos] of [["a", 2], ["b", 1], ["c", 2]] as const) {
    await publisher.publish({ topic: "news/x", payload, qos, packetId: 1 });
    if (qos === 1) await publisher.expectPuback(1);
    else {
      await publisher.expectPubrec(1);
      await publisher.pubrel(1);
      await publisher.expectPubcomp(1);
    }
  }
  const one = await windowed(broker.port, "one");
  const sent: Received<"publish">[] = [];
  for (const payload of ["a", "b", "c"]) sent.push(await one.expectPublish("news/x", payload));
  await one.pubrec(sent[0].packetId);
  await one.expectPubrel(sent[0].packetId);
  await until("what is on the wire to be stored", () => {
    const states = rows(broker, "SELECT packet, state FROM session_inflight ORDER BY offset");
    return states.map(({ state }) => state).join() === "received,sent,sent";
  });
  await restarted(broker);
  using again = await windowed(broker.port, "one");
  const packets = [await again.next(), await again.next(), await again.next()];
  const released = packets.filter(({ type }) => type === "pubrel");
  const published = packets.filter((packet) => packet.type === "publish");
  assert.deepEqual(released.map((packet) => (packet as Received<"pubrel">).packetId), [
    sent[0].packetId,
  ]);
  assert.deepEqual(
    published.map((packet) => [payload(packet), packet.packetId, packet.dup]),
    sent.slice(1).map((packet) => [payload(packet), packet.packetId, true]),
  );
  await again.expectSilence(50);
});

for (const at of ["inside", "before", "after"] as const) {
  Deno.test(`X23 killed ${at} the commit of acknowledgements: entries and cursor are of one moment`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    await away(broker.port, "one", "news/#");
    await publish(broker.port, "news/a", ..."123456789");
    using one = await windowed(broker.port, "one");
    const sent: Received<"publish">[] = [];
    for (let i = 0; i < WINDOW; i++) sent.push(await one.expectPublish("news/a"));
    await until(
      "what is on the wire to be stored",
      () => rows(broker, "SELECT packet FROM session_inflight").length === WINDOW,
    );
    await diesAt(broker, { sql: "DELETE FROM session_inflight", at }, async () => {
      await one.send(join(...sent.slice(0, 2).map(({ packetId }) => encodePuback({ packetId }))));
      for (;;) await one.next();
    });
    await broker.startAgain();
    using again = await windowed(broker.port, "one");
    const first = await again.expectPublish("news/a", at === "after" ? "3" : "1");
    assert.equal(first.dup, true);
    let resent = 1;
    for (let i = 1; i < WINDOW; i++) if ((await again.expectPublish()).dup) resent++;
    assert.ok(resent <= WINDOW);
    await again.expectSilence(50);
  });

  Deno.test(`X24 killed ${at} the commit of a group's hand-over: owed to the group or on one wire, never both`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    for (const member of ["one", "two"]) await away(broker.port, member, GROUP);
    await publish(broker.port, "news/a", "1");
    await diesAt(broker, { sql: "UPDATE share_groups", at }, async () => {
      using one = await windowed(broker.port, "one");
      for (;;) await one.next();
    });
    const [{ onWire }] = rows(broker, "SELECT count(*) AS onWire FROM session_inflight");
    assert.equal(onWire, at === "after" ? 1 : 0);
    await broker.startAgain();
    // The other member first: it gets what the group is owed, and not what is on somebody's wire.
    using two = await windowed(broker.port, "two");
    if (at === "after") await two.expectSilence(200);
    else {
      const { packetId } = await two.expectPublish("news/a", "1");
      await two.puback(packetId);
    }
    using one = await windowed(broker.port, "one");
    if (at === "after") assert.equal((await one.expectPublish("news/a", "1")).dup, true);
    await one.expectSilence(100);
  });

  Deno.test(`X25 killed ${at} the commit of a session's end: all of it is there, or nothing is inherited`, async () => {
    await using broker = await killable({ channels: CHANNELS });
    await away(broker.port, "one", "news/#", "$share/g/x/#");
    await publish(broker.port, "news/a", "1", "2");
    {
      using one = await windowed(broker.port, "one");
      await one.expectPublish("news/a", "1");
      await one.expectPublish("news/a", "2");
      await until(
        "what is on the wire to be stored",
        () => rows(broker, "SELECT packet FROM session_inflight").length === 2,
      );
    }
    await diesAt(broker, { sql: "DELETE FROM sessions", at }, async () => {
      using last = await WireClient.open(broker.port);
      // Expiry 0: the session ends with this connection.
      await last.connect({ clientId: "one", cleanStart: false });
      await last.expectConnack();
      await last.expectPublish("news/a", "1");
      await last.expectPublish("news/a", "2");
      await last.disconnect();
    });
    const counted = rows(
      broker,
      "SELECT (SELECT count(*) FROM sessions) AS sessions, (SELECT count(*) FROM positions) AS " +
        "positions, (SELECT count(*) FROM session_inflight) AS inFlight, " +
        "(SELECT count(*) FROM share_groups) AS groups",
    );
    assert.deepEqual(
      counted,
      at === "after"
        ? [{ sessions: 0, positions: 0, inFlight: 0, groups: 0 }]
        : [{ sessions: 1, positions: 1, inFlight: 2, groups: 1 }],
    );
    await broker.startAgain();
    const { client, present } = await resumed(broker.port, "one");
    using again = client;
    // An expiry of 0 had ended it by the start, whatever was on the disk (D6).
    assert.equal(present, false);
    await again.expectSilence(100);
    await publish(broker.port, "news/a", "3");
    await again.expectSilence(100);
  });
}

Deno.test("X26 killed after a clean DISCONNECT was closed: exact resume, and no Will", async () => {
  await using broker = await killable({ channels: CHANNELS });
  await away(broker.port, "mourner", "wills/#");
  const one = await WireClient.open(broker.port);
  await one.connect({
    clientId: "one",
    cleanStart: false,
    properties: { sessionExpiry: 3600 },
    will: { topic: "wills/one", payload: "gone", qos: 1 },
  });
  await one.expectConnack();
  await one.subscribe({ subscriptions: [{ filter: "events/#", qos: 1 }] });
  await one.expectSuback(1, [1]);
  await publish(broker.port, "events/a", "1", "2", "3");
  const packets = [await one.expectPublish(), await one.expectPublish(), await one.expectPublish()];
  await one.send(join(...packets.slice(0, 2).map(({ packetId }) => encodePuback({ packetId }))));
  await one.disconnect();
  await restarted(broker);
  using again = await windowed(broker.port, "one");
  assert.equal(label(await again.expectPublish("events/a", "3"), "saguin-offset"), "3");
  using mourner = await windowed(broker.port, "mourner");
  await mourner.expectSilence(300);
});
