/** Bounds of channels and providers, as clients meet them (04-storage.md section 19, 02b section 11). */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { check } from "../storage/check/support.ts";
import {
  BrokerProcess,
  configurationText,
  type Place,
  temporaryPlace,
} from "../support/broker_process.ts";
import { encodeDisconnect } from "../support/mqtt_bytes.ts";
import { until } from "../support/wait.ts";
import { ConnectionEnded, type Received, WireClient } from "../support/wire.ts";

type Kind = "memory" | "sqlite";

const MAX_BYTES = 512 * 1024;
const RESERVE = 8 * 1024 + 4 * 1024;
const LIMITS = "max_message_size: 8KiB\nmax_header_bytes: 4KiB";
const channels = (oldFor: string) =>
  `events:
  type: append
old:
  type: append
  retention_period: ${oldFor}
small:
  type: append
  max_bytes: 2000
backlog:
  type: queue
  max_bytes: 2000
jobs:
  type: queue
  retry:
    max_attempts: 1`;
const FULL = 0x97;
const FAILED = 0x83;

/** @param oldFor how long the channel of that name keeps what it is given */
function configuration(kind: Kind, bound = true, oldFor = "1h"): (place: Place) => string {
  return (place) =>
    configurationText(place, {
      provider: kind,
      limits: LIMITS,
      channels: channels(oldFor),
      ...(kind === "memory" && { snapshotDir: `${place.directory}/snapshots` }),
      ...(bound && { providerKeys: `max_bytes: ${MAX_BYTES}` }),
    });
}

async function started(kind: Kind, bound = true): Promise<BrokerProcess> {
  const place = temporaryPlace();
  Deno.mkdirSync(`${place.directory}/snapshots`);
  return await BrokerProcess.start(configuration(kind, bound), place);
}

/** Publishes at QoS 1; the reason code of the PUBACK. */
async function put(client: WireClient, topic: string, payload: string): Promise<number> {
  await client.publish({ topic, payload, qos: 1, packetId: 5 });
  return (await client.expect("puback", 20_000)).reasonCode;
}

async function answer(worker: WireClient, offer: Received<"publish">, verdict: string) {
  await worker.publish({
    topic: offer.properties.responseTopic!,
    payload: verdict,
    qos: 1,
    packetId: 9,
    properties: { correlationData: offer.properties.correlationData },
  });
}

/** The next of the two kinds of packets a worker gets. */
async function offerAndPuback(worker: WireClient): Promise<Received<"publish">> {
  const packets = [await worker.next(), await worker.next()];
  const puback = packets.find((packet) => packet.type === "puback");
  assert.equal(puback?.packetId, 9);
  assert.equal(puback?.reasonCode, 0);
  return packets.find((packet) => packet.type === "publish")!;
}

for (const kind of ["memory", "sqlite"] as const) {
  Deno.test(`S125 02b 11 a channel at its max_bytes refuses with 0x97 and its neighbours go on (${kind})`, async () => {
    await using broker = await started(kind, false);
    using client = await WireClient.connected(broker.port);
    const record = "x".repeat(900);
    for (const topic of ["small/a", "backlog/a"]) {
      assert.equal(await put(client, topic, record), 0);
      assert.equal(await put(client, topic, record), 0);
      assert.equal(await put(client, topic, record), FULL);
      await client.publish({ topic, payload: record, qos: 2, packetId: 6 });
      await client.expectPubrec(6, FULL);
    }
    await client.publish({ topic: "small/a", payload: record, qos: 1, packetId: 5 });
    const { properties } = await client.expectPuback(5, FULL);
    assert.match(properties.reasonString ?? "", /small"? is at its max_bytes/);
    assert.equal(await put(client, "events/a", record), 0);
    // Smaller ones find the room that is left.
    assert.equal(await put(client, "small/a", "y"), 0);

    // Work that is resolved makes room in a queue.
    using worker = await WireClient.connected(broker.port);
    await worker.subscribe({ subscriptions: [{ filter: "$saguin/queue/backlog", qos: 1 }] });
    await worker.expectSuback(1, [1]);
    await answer(worker, await worker.expectPublish("backlog/a"), "ack");
    await offerAndPuback(worker);
    assert.equal(await put(client, "backlog/a", record), 0);
  });

  Deno.test(`S178 S185 S193 X31 a provider at its ceiling refuses publishes, relieves itself, and recovers (${kind})`, async () => {
    await using broker = await started(kind);
    const bounded = await broker.line(/is bounded/);
    assert.ok(
      bounded?.includes(`publishes_stop_at=${MAX_BYTES - RESERVE} reserve=${RESERVE}`),
      bounded,
    );
    if (kind === "sqlite") assert.ok(bounded.includes("page_size=4096"), bounded);

    using publisher = await WireClient.connected(broker.port, { clientId: "publisher" });
    const durable = { clientId: "reader", properties: { sessionExpiry: 600, receiveMaximum: 3 } };
    const reader = await WireClient.connected(broker.port, durable);
    await reader.subscribe({ subscriptions: [{ filter: "events/#", qos: 1 }] });
    await reader.expectSuback(1, [1]);
    using letters = await WireClient.connected(broker.port, { clientId: "letters" });
    await letters.subscribe({ subscriptions: [{ filter: "jobs/__dlq/#", qos: 1 }] });
    await letters.expectSuback(1, [1]);
    using worker = await WireClient.connected(broker.port, { clientId: "worker" });
    await worker.subscribe({ subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1 }] });
    await worker.expectSuback(1, [1]);

    for (const name of ["1", "2"]) assert.equal(await put(publisher, `jobs/${name}`, name), 0);
    const first = await worker.expectPublish("jobs/1", "1");
    // Its release writes the record before the hold goes, so on sqlite the file has to grow.
    const held = "h".repeat(6_000);
    await publisher.publish({ topic: "events/held", payload: held, qos: 2, packetId: 6 });
    await publisher.expectPubrec(6);
    for (let i = 0; i < 40; i++) assert.equal(await put(publisher, "old/a", "o".repeat(2_000)), 0);
    let stored = 0;
    let code = 0;
    while ((code = await put(publisher, "events/a", "e".repeat(2_000))) === 0) stored++;
    assert.equal(code, FULL);
    assert.ok(stored > 50 && stored * 2_000 < MAX_BYTES - RESERVE, `${stored} records`);
    for (let i = 0; i < 5; i++) {
      assert.equal(await put(publisher, "events/a", "e".repeat(2_000)), FULL);
    }
    await publisher.publish({ topic: "events/x", payload: "e".repeat(7_000), qos: 2, packetId: 7 });
    await publisher.expectPubrec(7, FULL);

    // At the ceiling: an acknowledged job, an attempt that is counted, a dead letter, a release, a position.
    await answer(worker, first, "ack");
    const second = await offerAndPuback(worker);
    assert.equal(second.topic, "jobs/2");
    await worker.puback(second.packetId);
    await answer(worker, second, "return");
    await worker.expectPuback(9);
    await letters.expectPublish("jobs/__dlq/2", "2");
    await publisher.pubrel(6);
    await publisher.expectPubcomp(6);
    for (let i = 1; i <= 2; i++) {
      const { packetId } = await reader.expectPublish("events/a");
      await reader.puback(packetId);
    }
    await leave(reader);

    // The bound is in force again after a start, and what was relieved stays relieved.
    if (kind === "sqlite") await broker.kill();
    else await broker.stop();
    const kept = kind === "sqlite" ? broker.database : `${broker.directory}/snapshots`;
    assert.deepEqual((await check(kept)).findings, []);
    await broker.startAgain();
    using again = await WireClient.connected(broker.port, { clientId: "publisher" });
    assert.equal(await put(again, "events/a", "e".repeat(7_000)), FULL);
    const { client, present } = await resume(broker.port, durable);
    using resumed = client;
    assert.equal(present, true);
    const record = await resumed.expectPublish("events/a");
    assert.deepEqual(
      record.properties.userProperties?.filter(([name]) => name === "saguin-offset"),
      [["saguin-offset", "3"]],
    );

    // Retention needs no reserve: the old records go, and publishing goes on.
    await broker.stop();
    broker.configure(configuration(kind, true, "1s"));
    await broker.startAgain();
    using relieved = await WireClient.connected(broker.port, { clientId: "publisher" });
    await until(
      "retention to make room",
      async () => {
        let refused = 0;
        for (let i = 0; i < 10; i++) {
          if (await put(relieved, "events/a", "e".repeat(2_000)) !== 0) refused++;
        }
        return refused === 0;
      },
      30_000,
      100,
    );
  });
}

/** A clean end, whatever was on its way meanwhile. */
async function leave(client: WireClient): Promise<void> {
  await client.send(encodeDisconnect());
  try {
    for (;;) await client.next();
  } catch (error) {
    if (!(error instanceof ConnectionEnded)) throw error;
  }
  client.close();
}

async function resume(port: number, options: { clientId: string; properties: object }) {
  const client = await WireClient.open(port);
  await client.connect({ ...options, cleanStart: false });
  return { client, present: (await client.expectConnack()).sessionPresent };
}

Deno.test("S178 what cannot be written for another reason than room is refused with 0x83, and then goes on", async () => {
  await using broker = await started("sqlite");
  using client = await WireClient.connected(broker.port);
  assert.equal(await put(client, "events/a", "1"), 0);
  const other = new DatabaseSync(broker.database);
  other.exec("BEGIN IMMEDIATE");
  const refused = await put(client, "events/a", "2");
  other.exec("COMMIT");
  other.close();
  assert.equal(refused, FAILED);
  assert.equal(await put(client, "events/a", "3"), 0);
  await broker.line(/level=ERROR .*storage cannot be written; what is published to it is refused/);
  const errors = broker.lines.filter((line) => line.includes("level=ERROR"));
  assert.equal(errors.length, 1, errors.join("\n"));
});

Deno.test("S184 02b 3.4 a bound that leaves no room beside the reserve is refused, naming both figures", async () => {
  for (
    const [kind, least] of [["memory", 2 * RESERVE], ["sqlite", 2 * RESERVE + 17 * 4096]] as const
  ) {
    const place = temporaryPlace();
    try {
      await assert.rejects(
        BrokerProcess.start(
          (place) => configuration(kind)(place).replace(`${MAX_BYTES}`, `${least - 1}`),
          place,
        ),
        /max_bytes .*leaves no room beside the reserve: .*max_message_size \(8KiB\) and .*max_header_bytes \(4KiB\)/,
      );
    } finally {
      if (exists(place.directory)) Deno.removeSync(place.directory, { recursive: true });
    }
  }
});

function exists(path: string): boolean {
  return [...Deno.readDirSync(path.replace(/[^/]*$/, ""))].some(({ name }) =>
    path.endsWith(`/${name}`)
  );
}
