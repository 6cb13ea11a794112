/** Publishes as rows of tables, over the wire (07 section 11). */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { House } from "../support/house.ts";
import { until } from "../support/wait.ts";
import type { WireClient } from "../support/wire.ts";

const CHANNELS = `
readings:
  type: append
  filter: plant/readings/#
state:
  type: latest
  filter: plant/state/#
jobs:
  type: queue
  filter: plant/jobs/#
`;

const ROUTES = "routes:\n  - plant/#:readings";

async function publish(client: WireClient, topic: string, payload: string | Uint8Array, qos = 1) {
  await client.publish({ topic, payload, qos, ...qos === 0 ? {} : { packetId: 9 } });
  if (qos === 1) await client.expectPuback(9);
  if (qos !== 2) return;
  await client.expectPubrec(9);
  await client.pubrel(9);
  await client.expectPubcomp(9);
}

/** Topics and documents of a table, in the order of their rows. */
function rows(house: House, table = "readings"): [topic: string, doc: string][] {
  return house.rows(`SELECT _topic, doc FROM ${table} ORDER BY _id`)
    .map(({ _topic, doc }) => [_topic as string, doc as string]);
}

Deno.test("N1, N3 a publish is a row of every table that a route leads to, one each", async () => {
  await using house = await House.open({
    ingest: "routes:\n" +
      "  - plant/#:readings\n  - plant/kiln/+:readings\n" +
      "  - {filter: plant/+/t, table: temperatures, columns: {value: REAL}}\n" +
      '  - "odd:topic/+:odd"\n  - "+/empty:empties"\n',
  });
  using client = await house.client();
  for (
    const topic of [
      "plant/kiln/t",
      "plant/kiln/rpm",
      "plant",
      "plant/",
      "plants/kiln/t",
      "other",
      "odd:topic/x",
      "/empty",
    ]
  ) await publish(client, topic, "1");
  const topics = (table: string) => rows(house, table).map(([topic]) => topic);
  assert.deepEqual(topics("readings"), ["plant/kiln/t", "plant/kiln/rpm", "plant", "plant/"]);
  assert.deepEqual(topics("temperatures"), ["plant/kiln/t"]);
  assert.deepEqual(topics("odd"), ["odd:topic/x"]);
  assert.deepEqual(topics("empties"), ["/empty"]);
});

Deno.test("N3 wildcards skip topics that begin with $", async () => {
  await using house = await House.open({
    ingest: "routes: ['#:everything', '+/x:firsts', '$other/#:dollars']",
  });
  using client = await house.client();
  await publish(client, "$other/x", "1");
  await publish(client, "a/x", "2");
  assert.deepEqual(rows(house, "everything"), [["a/x", '{"payload":2}']]);
  assert.deepEqual(rows(house, "firsts"), [["a/x", '{"payload":2}']]);
  assert.deepEqual(rows(house, "dollars"), [["$other/x", '{"payload":1}']]);
});

Deno.test("N4 publishes of every QoS are rows, on broadcast, append and latest topics", async () => {
  await using house = await House.open({ channels: CHANNELS, ingest: ROUTES });
  using client = await house.client();
  const expected: [string, string][] = [];
  for (const topic of ["plant/other", "plant/readings/a", "plant/state/a"]) {
    for (const qos of [0, 1, 2]) {
      await publish(client, topic, `{"qos":${qos}}`, qos);
      expected.push([topic, `{"qos":${qos}}`]);
    }
  }
  await until("the rows", () => rows(house).length === expected.length);
  assert.deepEqual(rows(house), expected);
});

Deno.test("N4 jobs and dead letters are no rows of a route over all topics", async () => {
  await using house = await House.open({
    channels: CHANNELS.replace("jobs/#\n", "jobs/#\n  retry: {max_attempts: 1}\n"),
    ingest: "routes: ['#:everything']",
  });
  using client = await house.client();
  using worker = await house.client();
  await worker.subscribe({
    packetId: 1,
    subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1 }],
  });
  await worker.expectSuback(1, [1]);
  for (const qos of [0, 1, 2]) await publish(client, "plant/jobs/a", "job", qos);
  await house.time.pass(200);
  const { packetId, properties } = await worker.expectPublish();
  await worker.puback(packetId!);
  await worker.publish({
    topic: properties.responseTopic!,
    payload: "return",
    qos: 1,
    packetId: 2,
    properties: { correlationData: properties.correlationData! },
  });
  await house.time.pass(200);
  await until("a dead letter", () => house.rows("SELECT 1 FROM records").length > 0);
  assert.deepEqual(rows(house, "everything"), []);
});

Deno.test("N4 a retained value's removal is no row, another empty payload is", async () => {
  await using house = await House.open({ channels: CHANNELS, ingest: ROUTES });
  using client = await house.client();
  for (const topic of ["plant/other", "plant/state/a"]) {
    for (const qos of [0, 1, 2]) {
      await client.publish({ topic, payload: "", retain: true, qos, packetId: qos === 0 ? 0 : 9 });
      if (qos === 1) await client.expectPuback(9);
      if (qos < 2) continue;
      await client.expectPubrec(9);
      await client.pubrel(9);
      await client.expectPubcomp(9);
    }
    await publish(client, topic, "");
  }
  assert.deepEqual(rows(house), [
    ["plant/other", '{"payload":""}'],
    ["plant/state/a", '{"payload":""}'],
  ]);
});

Deno.test("N4 a QoS 1 publish sent again is another row, a QoS 2 one is not", async () => {
  await using house = await House.open({ ingest: ROUTES });
  using client = await house.client();
  for (const dup of [false, true]) {
    await client.publish({ topic: "plant/a", payload: "1", qos: 1, packetId: 1, dup });
    await client.expectPuback(1);
    await client.publish({ topic: "plant/b", payload: "2", qos: 2, packetId: 2, dup });
    await client.expectPubrec(2);
  }
  assert.deepEqual(rows(house).map(([topic]) => topic), ["plant/a", "plant/a"]);
  for (const code of [0, 0x92]) {
    await client.pubrel(2);
    await client.expectPubcomp(2, code);
  }
  assert.deepEqual(rows(house).map(([topic]) => topic), ["plant/a", "plant/a", "plant/b"]);
});

Deno.test("N4, P9 a Will is a row, also one that falls due while the broker is down", async () => {
  await using house = await House.open({ ingest: ROUTES });
  const will = (topic: string, delay: number) => ({
    topic,
    payload: '{"gone":true}',
    qos: 1,
    properties: { willDelay: delay },
  });
  const stays = { properties: { sessionExpiry: 3_600 } };
  {
    using client = await house.client({ clientId: "a", will: will("plant/a", 0) });
    client.close();
  }
  await until("the Will", () => rows(house).length === 1);
  {
    using client = await house.client({ clientId: "b", will: will("plant/b", 60), ...stays });
    client.close();
  }
  await house.away("b");
  await house.restart(120_000);
  assert.deepEqual(rows(house), [
    ["plant/a", '{"gone":true}'],
    ["plant/b", '{"gone":true}'],
  ]);
});

Deno.test("N6 a row has the topic as published, one receipt time, and the Message ID where there is one", async () => {
  await using house = await House.open({
    channels: CHANNELS,
    ingest: "routes: ['plant/#:readings', '#:everything']",
  });
  using client = await house.client();
  await house.time.pass(1_234);
  const receivedAt = Number(house.time.wall() / 1_000_000n);
  await publish(client, "plant/readings/a", '{"v":1}');
  await publish(client, "plant/other", '{"v":2}');
  await client.publish({
    topic: "plant/other",
    payload: '{"v":3}',
    qos: 1,
    packetId: 1,
    properties: { userProperties: [["saguin-id", "mine"]] },
  });
  await client.expectPuback(1);
  const [{ message_id: id }] = house.rows("SELECT message_id FROM records");
  for (const table of ["readings", "everything"]) {
    assert.deepEqual(
      house.rows(`SELECT _topic, _received_at, _message_id, doc FROM ${table} ORDER BY _id`),
      [
        { _topic: "plant/readings/a", _received_at: receivedAt, _message_id: id, doc: '{"v":1}' },
        { _topic: "plant/other", _received_at: receivedAt, _message_id: null, doc: '{"v":2}' },
        { _topic: "plant/other", _received_at: receivedAt, _message_id: "mine", doc: '{"v":3}' },
      ],
    );
  }
});

Deno.test("N7 11.2 payloads cross the wire into documents byte for byte", async () => {
  await using house = await House.open({ ingest: ROUTES });
  using client = await house.client();
  const cases: [string | Uint8Array, string][] = [
    ['{ "value":412, "n":12345678901234567890 }', '{ "value":412, "n":12345678901234567890 }'],
    ["1480", '{"payload":1480}'],
    ["[1,2]", '{"payload":[1,2]}'],
    ["up", '{"payload":"up"}'],
    ["", '{"payload":""}'],
    [Uint8Array.of(0xff, 0), '{"payload_b64":"/wA="}'],
  ];
  for (const [payload] of cases) await publish(client, "plant/a", payload);
  assert.deepEqual(rows(house).map(([, doc]) => doc), cases.map(([, doc]) => doc));
});

Deno.test("N5 retention deletes rows by the time they were received, at the start and while it runs", async () => {
  await using house = await House.open({
    ingest: "routes:\n  - {filter: plant/#, table: readings, retention_period: 1h}\n" +
      "  - {filter: plant/#, table: kept}\n",
  });
  using client = await house.client();
  await publish(client, "plant/a", "1");
  await house.time.leap(1_800_000);
  await publish(client, "plant/a", "2");
  const docs = (table: string) => rows(house, table).map(([, doc]) => doc);
  assert.deepEqual(docs("readings"), ['{"payload":1}', '{"payload":2}']);
  await house.time.leap(1_801_000);
  await house.time.leap(360_000);
  await until("the sweep", () => docs("readings").length === 1);
  assert.deepEqual(docs("readings"), ['{"payload":2}']);
  assert.deepEqual(house.lines("retention removed rows").map(({ fields }) => fields), [
    { table: "readings", removed: 1 },
  ]);
  await house.restart(3_600_000);
  await until("the sweep of the start", () => docs("readings").length === 0);
  assert.deepEqual(docs("kept"), ['{"payload":1}', '{"payload":2}']);
});

Deno.test("N8, N9, T4 a row that fails refuses the publish, and nothing else of it is kept", async () => {
  await using house = await House.open({ channels: CHANNELS, ingest: ROUTES });
  await house.stop();
  {
    using database = new DatabaseSync(house.database);
    database.exec(
      'CREATE TRIGGER no BEFORE INSERT ON readings WHEN NEW.doc = \'{"payload":"bad"}\' ' +
        "BEGIN SELECT RAISE(ABORT, 'not that one'); END",
    );
  }
  await house.restart();
  using client = await house.client();
  using subscriber = await house.client();
  await subscriber.subscribe({ packetId: 1, subscriptions: [{ filter: "#", qos: 1 }] });
  await subscriber.expectSuback(1, [1]);
  for (const topic of ["plant/readings/a", "plant/state/a", "plant/other"]) {
    await client.publish({ topic, payload: "bad", qos: 1, retain: true, packetId: 1 });
    await client.expectPuback(1, 0x83);
    await client.publish({ topic, payload: "bad", qos: 0 });
  }
  await client.publish({ topic: "plant/readings/a", payload: "bad", qos: 2, packetId: 2 });
  await client.expectPubrec(2);
  await client.pubrel(2);
  await client.expectClose(0x83);
  using old = await house.client({ level: 4, clientId: "old" });
  await old.publish({ topic: "plant/readings/a", payload: "bad", qos: 1, packetId: 1 });
  await old.expectClose();
  for (const table of ["readings", "records", "latest_values"]) {
    assert.deepEqual(house.rows(`SELECT * FROM ${table}`), [], table);
  }
  using third = await house.client();
  await publish(third, "plant/readings/a", "good");
  assert.equal(new TextDecoder().decode((await subscriber.expectPublish()).payload), "good");
  assert.deepEqual(rows(house), [["plant/readings/a", '{"payload":"good"}']]);
  assert.equal(house.rows("SELECT 1 FROM records WHERE channel = 'readings'").length, 1);
});

Deno.test("N5, T4 a full provider refuses the publish: 0x97, and the row is not there", async () => {
  await using house = await House.open({
    ingest: ROUTES,
    providerKeys: "max_bytes: 1MiB",
    limits: "max_message_size: 10KiB\nmax_connect_size: 10KiB\nsession_queue_bytes: 64KiB",
  });
  using client = await house.client();
  let stored = 0;
  for (;;) {
    await client.publish({ topic: "plant/a", payload: "x".repeat(8_000), qos: 1, packetId: 1 });
    const { reasonCode } = await client.next() as { reasonCode: number };
    if (reasonCode === 0x97) break;
    assert.equal(reasonCode, 0);
    assert.ok(++stored < 1_000);
  }
  assert.ok(stored > 10);
  assert.equal(rows(house).length, stored);
});

Deno.test("P2 where no route leads, a publish costs no row and no transaction", async () => {
  await using house = await House.open({ ingest: ROUTES });
  using client = await house.client();
  const [provider] = house.providers.values();
  const before = provider.statistics().entries;
  await publish(client, "elsewhere", "1");
  await publish(client, "elsewhere", "1", 0);
  assert.equal(provider.statistics().entries, before);
});
