/** 03 section 19: Wills. */
import assert from "node:assert/strict";
import { durable, nothingMore, published, subscribed, taken } from "../support/clients.ts";
import { type House, overBoth, property, rules } from "../support/house.ts";
import { encodeDisconnect, type Pair } from "../support/mqtt_bytes.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

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
small:
  type: append
  filter: small/#
  max_bytes: 60
`;

async function watching(house: House, topic: string): Promise<WireClient> {
  const client = await house.client({ clientId: `watch ${topic}` });
  await subscribed(client, topic, 2);
  return client;
}

rules("03 section 19: Wills", {
  channels: CHANNELS,
  limits: "max_topic_length: 60\nmax_topic_levels: 4\nmax_session_expiry: 1h",
}, {
  "D19.1 a Will goes the way of every publish, with all its properties, into any kind of topic":
    async (
      house,
    ) => {
      const userProperties: Pair[] = [["b", "1"], ["a", "2"], ["b", "3"], ["saguin-x", "gone"]];
      for (const topic of ["log/d19.1", "values/d19.1", "plain/d19.1"]) {
        using watcher = await watching(house, topic);
        const armed = await house.client({
          clientId: "d19.1",
          will: {
            topic,
            payload: "will",
            qos: 2,
            retain: true,
            properties: {
              contentType: "t",
              responseTopic: "r",
              correlationData: new Uint8Array([7]),
              payloadFormat: 1,
              messageExpiry: 100,
              userProperties,
            },
          },
        });
        armed.close();
        const got = await taken(watcher, topic, "will");
        assert.equal(got.qos, 2);
        const { properties } = got;
        assert.equal(properties.contentType, "t");
        assert.equal(properties.responseTopic, "r");
        assert.deepEqual([...properties.correlationData!], [7]);
        assert.equal(properties.payloadFormat, 1);
        assert.equal(properties.messageExpiry, 100);
        assert.deepEqual(
          properties.userProperties!.filter(([name]) => !name.startsWith("saguin-")),
          userProperties.slice(0, 3),
        );
        assert.equal(property(got, "saguin-id").length, topic.startsWith("plain") ? 0 : 1);
        using late = await watching(house, topic);
        if (!topic.startsWith("log")) assert.equal((await taken(late, topic, "will")).retain, true);
      }
    },

  "D19.1 D19.5 into a queue it is a job, its retain flag dropped": async (house) => {
    const armed = await house.client({
      clientId: "d19.5",
      will: { topic: "jobs/d19.5", payload: "will", qos: 1, retain: true },
    });
    armed.close();
    await house.away("d19.5");
    using worker = await house.client({ clientId: "d19.5k" });
    await subscribed(worker, "$saguin/queue/jobs");
    await house.time.pass(200);
    const job = await taken(worker, "jobs/d19.5", "will");
    assert.deepEqual([job.retain, property(job, "saguin-attempt")], [false, ["1"]]);
  },

  "D19.2 a Will Topic that nothing could be published to refuses the CONNECT": async (house) => {
    const topics = [
      "$saguin/kv/get",
      "$saguin/x",
      "jobs/__dlq/x",
      "$SYS/x",
      "$share/g/x",
      "x".repeat(61),
      "1/2/3/4/5",
    ];
    for (const topic of topics) {
      using client = await WireClient.open(house.port);
      await client.connect({ clientId: "d19.2", will: { topic, payload: "" } });
      assert.ok((await client.expectConnack(0x90)).properties.reasonString, topic);
      await client.expectClose();
      using old = await WireClient.open(house.port, 4);
      await old.connect({ level: 4, clientId: "d19.2", will: { topic, payload: "" } });
      await old.expectConnack(0x05);
      await old.expectClose();
    }
    for (const topic of ["a/+", "#"]) {
      using client = await WireClient.open(house.port);
      await client.connect({ clientId: "d19.2", will: { topic, payload: "" } });
      await client.expectConnack(0x90);
      await client.expectClose();
    }
  },

  "DISCONNECT 0x00 withdraws the Will; every other code, and every other end, publishes it": async (
    house,
  ) => {
    using watcher = await watching(house, "ends");
    const will = { topic: "ends", payload: "" };
    const armed = (payload: string, keepAlive = 0) =>
      house.client({ clientId: "ends", keepAlive, will: { ...will, payload } });
    await (await armed("withdrawn")).disconnect();
    for (const reasonCode of [0x04, 0x80, 0x81]) {
      const client = await armed(`code ${reasonCode}`);
      await client.send(encodeDisconnect({ reasonCode }));
      await taken(watcher, "ends", `code ${reasonCode}`);
      client.close();
    }
    const fault = await armed("protocol error");
    await fault.send(new Uint8Array([0xf0, 0]));
    await taken(watcher, "ends", "protocol error");
    fault.close();
    const silent = await armed("keep alive", 10);
    await house.time.pass(15_000);
    await silent.expectClose(0x8d);
    await taken(watcher, "ends", "keep alive");
    const hung = await armed("hung up");
    house.broker.hangUp("ends");
    await hung.expectClose(0x98);
    await taken(watcher, "ends", "hung up");
    await nothingMore(watcher);
  },

  "3.1.1: DISCONNECT withdraws it, a lost connection publishes it": async (house) => {
    using watcher = await watching(house, "ends4");
    const arm = (payload: string) =>
      house.client({ level: 4, clientId: "ends4", will: { topic: "ends4", payload, qos: 1 } });
    await (await arm("withdrawn")).disconnect();
    (await arm("published")).close();
    await taken(watcher, "ends4", "published");
    await nothingMore(watcher);
  },

  "D6.23 D19.7 a delayed Will waits, is cancelled by a resumption, and is due at the granted expiry at the latest":
    async (
      house,
    ) => {
      using watcher = await watching(house, "delay");
      const will = (payload: string, willDelay: number) => ({
        topic: "delay",
        payload,
        properties: { willDelay },
      });
      const waiting = house.broker.willsWaiting;
      const { client: first } = await durable(house, "delay", { expiry: 100, will: will("1", 10) });
      first.close();
      await house.away("delay");
      assert.equal(house.broker.willsWaiting, waiting + 1);
      await house.time.pass(9_000);
      await nothingMore(watcher);
      // A refused CONNECT cancels nothing.
      using refused = await WireClient.open(house.port);
      await refused.connect({ clientId: "delay", will: { topic: "$SYS/x", payload: "" } });
      await refused.expectConnack(0x90);
      const { client: second } = await durable(house, "delay", {
        expiry: 100,
        will: will("2", 10),
      });
      assert.equal(house.broker.willsWaiting, waiting);
      await house.time.pass(20_000);
      await nothingMore(watcher);
      second.close();
      await house.away("delay");
      await house.time.pass(10_000);
      await taken(watcher, "delay", "2");
      const { client: third } = await durable(house, "delay", { expiry: 5, will: will("3", 60) });
      third.close();
      await house.away("delay");
      await house.time.pass(5_000);
      await taken(watcher, "delay", "3");
      await until("the session to end", () => house.broker.sessions.get("delay") === undefined);
      await nothingMore(watcher);
      assert.equal(house.counters.willsCancelled, 1);
    },

  "D6.23 taken over and resumed: delay 0 publishes, a delayed one is dropped, the new one takes its place":
    async (
      house,
    ) => {
      using watcher = await watching(house, "over");
      const connect = (payload: string, willDelay: number, cleanStart = false) =>
        durable(house, "over", {
          cleanStart,
          will: { topic: "over", payload, properties: { willDelay } },
        });
      const clients = [await connect("1", 0), await connect("2", 10)];
      await taken(watcher, "over", "1");
      clients.push(await connect("3", 10));
      await house.time.pass(20_000);
      await nothingMore(watcher);
      clients.push(await connect("4", 10, true));
      await taken(watcher, "over", "3");
      clients[3].client.close();
      await house.away("over");
      clients.push(await connect("5", 0, true));
      await taken(watcher, "over", "4");
      await clients[4].client.disconnect();
      await nothingMore(watcher);
      for (const { client } of clients) client.close();
    },

  "D6.6 taken over without a session that is kept: published, whatever its delay": async (
    house,
  ) => {
    using watcher = await watching(house, "over0");
    const client = await house.client({
      clientId: "over0",
      will: { topic: "over0", payload: "w", properties: { willDelay: 10 } },
    });
    using _next = await house.client({ clientId: "over0", cleanStart: false });
    await taken(watcher, "over0", "w");
    client.close();
  },

  "D6.10 a waiting Will is published before its session ends": async (house) => {
    using watcher = await watching(house, "d6.10");
    const { client } = await durable(house, "d6.10", {
      expiry: 3_600,
      will: { topic: "d6.10", payload: "w", properties: { willDelay: 3_600 } },
    });
    client.close();
    await house.away("d6.10");
    const { client: clean, present } = await durable(house, "d6.10", { cleanStart: true });
    assert.equal(present, false);
    await taken(watcher, "d6.10", "w");
    clean.close();
  },

  "D19.8 a delay on a session that ends with its connection is cut short, and that is said": async (
    house,
  ) => {
    using watcher = await watching(house, "d19.8");
    const client = await house.client({
      clientId: "d19.8",
      will: { topic: "d19.8", payload: "w", properties: { willDelay: 30 } },
    });
    client.close();
    await taken(watcher, "d19.8", "w");
    const [line] = house.lines(
      "a Will Delay was cut short because the session ends with its connection",
    )
      .filter(({ fields }) => fields.client === "d19.8");
    assert.equal(line.fields.delay, 30);
    assert.match(String(line.fields.remedy), /Session Expiry Interval/);
  },

  "D2.9 D19.6 a Will that cannot be published when it is due is logged, and that is all": async (
    house,
  ) => {
    using writer = await house.client({ clientId: "d2.9w" });
    await published(writer, "small/x", "fills it up: " + "x".repeat(20), { packetId: 3 })
      .catch(() => {});
    const client = await house.client({
      clientId: "d2.9",
      will: { topic: "small/x", payload: "y".repeat(50) },
    });
    client.close();
    await until("the line", () => house.lines("a Will could not be published").length > 0);
    const [line] = house.lines("a Will could not be published");
    assert.deepEqual([line.level, line.fields.client], ["warn", "d2.9"]);
  },

  "a Will into a store that fails costs its client nothing else": async (house) => {
    const { client } = await durable(house, "fails", {
      will: { topic: "log/fails", payload: "w" },
    });
    house.faults.refuse("submit", "failed", 1);
    client.close();
    await house.away("fails");
    const { client: again, present } = await durable(house, "fails");
    assert.equal(present, true);
    again.close();
  },
});

overBoth(
  "D19.9 D19.10 the Will is on the record from its CONNECT on, and leaves it after its publication",
  {
    channels: CHANNELS,
  },
  async (house) => {
    const will = () => house.rows("SELECT will FROM sessions WHERE client = 'a'")[0]?.will;
    const { client } = await durable(house, "a", { will: { topic: "log/x", payload: "w" } });
    assert.ok(will() !== null);
    const gate = house.faults.hold("submit");
    client.close();
    await until("the Will at the store", () => gate.waiting === 1);
    assert.ok(will() !== null, "still there while it is being published");
    await using killed = await house.killed();
    assert.equal(killed.broker.sessions.get("a")!.will?.topic, "log/x");
    gate.open();
    await until("the Will to leave the record", () => will() === null);
  },
  ["sqlite"],
);

overBoth("D19.12 D19.13 D19.14 D19.16 D22.9 Wills over a restart", {
  channels: CHANNELS,
}, async (house) => {
  const arm = async (clientId: string, expiry: number, willDelay: number) => {
    const { client } = await durable(house, clientId, {
      expiry,
      will: { topic: `log/${clientId}`, payload: "w", properties: { willDelay } },
    });
    return client;
  };
  for (
    const [id, expiry, delay] of [
      ["ahead", 1_000, 60],
      ["passed", 1_000, 20],
      ["session-over", 20, 1_000],
    ] as const
  ) {
    (await arm(id, expiry, delay)).close();
    await house.away(id);
  }
  const connected = await arm("connected", 100, 5);
  const expires = await arm("expires", 20, 5);
  const ephemeral = await house.client({
    clientId: "ephemeral",
    will: { topic: "log/ephemeral", payload: "w" },
  });
  await house.settled();

  const check = async (next: House) => {
    using watcher = await next.client({ clientId: "watch" });
    await subscribed(watcher, "log/#");
    const start = [await taken(watcher), await taken(watcher)].map(({ topic }) => topic).sort();
    assert.deepEqual(start, ["log/passed", "log/session-over"], "published at the start");
    assert.equal(next.counters.willsPublished.get("start"), 2);
    await nothingMore(watcher);
    await next.time.pass(29_000);
    await nothingMore(watcher);
    await next.time.pass(1_000);
    await taken(watcher, "log/ahead");
    // The one that was connected stays until its session expires, the time stopped included.
    await next.time.pass(39_000);
    await nothingMore(watcher);
    await next.time.pass(1_000);
    await taken(watcher, "log/connected");
    await nothingMore(watcher);
  };
  {
    await using killed = await house.killed(30_000);
    // Whoever was connected at the kill is away from the start on: its whole expiry runs.
    const expiring = killed.broker.sessions.get("expires");
    assert.ok(expiring !== undefined);
    using watcher = await killed.client({ clientId: "watch" });
    await subscribed(watcher, "log/#");
    const start = [await taken(watcher), await taken(watcher)].map(({ topic }) => topic).sort();
    assert.deepEqual(start, ["log/passed", "log/session-over"]);
    await killed.time.pass(20_000);
    await taken(watcher, "log/expires");
  }
  await house.restart(30_000);
  await check(house);
  for (const client of [connected, expires, ephemeral]) client.close();
}, ["sqlite"]);

overBoth(
  "D19.14 a Will that was armed at the stop is replaced by its client's next CONNECT",
  {},
  async (house) => {
    const { client } = await durable(house, "a", { will: { topic: "t", payload: "old" } });
    await house.restart();
    client.close();
    using watcher = await watching(house, "t");
    const { client: again } = await durable(house, "a", { will: { topic: "t", payload: "new" } });
    await nothingMore(watcher);
    again.close();
    await taken(watcher, "t", "new");
    await nothingMore(watcher);
  },
  ["sqlite"],
);

overBoth(
  "D19.11 a withdrawal that the store refuses is written before the client is served again",
  {},
  async (
    house,
  ) => {
    const { client } = await durable(house, "a", { will: { topic: "t", payload: "w" } });
    house.faults.refuse("sessions.save");
    await client.disconnect();
    using refused = await WireClient.open(house.port);
    await refused.connect({ clientId: "a", cleanStart: false, properties: { sessionExpiry: 9 } });
    await refused.expectConnack(0x83);
    // And at the stop.
    house.faults.relent("sessions.save");
    await house.restart();
    assert.equal(house.broker.sessions.get("a")!.will, undefined);
  },
  ["sqlite"],
);

overBoth(
  "no room for the Will refuses the CONNECT 0x97; without one the session is granted for its connection",
  {
    channels: CHANNELS,
  },
  async (house) => {
    house.faults.refuse("sessions.begin", "full");
    using refused = await WireClient.open(house.port);
    await refused.connect({
      clientId: "a",
      will: { topic: "t", payload: "w" },
      properties: { sessionExpiry: 100 },
    });
    assert.match(
      (await refused.expectConnack(0x97)).properties.reasonString!,
      /no room for the Will/,
    );
    await refused.expectClose();
    using old = await WireClient.open(house.port, 4);
    await old.connect({
      level: 4,
      clientId: "a",
      cleanStart: false,
      will: { topic: "t", payload: "w" },
    });
    await old.expectConnack(0x05);
    using granted = await WireClient.open(house.port);
    await granted.connect({ clientId: "b", properties: { sessionExpiry: 100 } });
    assert.equal((await granted.expectConnack()).properties.sessionExpiry, 0);
    assert.equal(house.counters.sessionsDropped.get("storage_full"), 1);
    await subscribed(granted, "log/#");
    await published(granted, "log/x", "served all the same");
    await taken(granted, "log/x");
  },
);
