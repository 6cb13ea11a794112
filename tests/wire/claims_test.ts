/** 02b sections 11 and 12: what a start makes of filters that are others than those of the last run. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { RETAINED } from "../../src/storage/contract.ts";
import { BrokerProcess, configurationText, runToEnd } from "../support/broker_process.ts";
import { left, nothingMore, published, subscribed, takenAll } from "../support/clients.ts";
import { type House, overBoth, text } from "../support/house.ts";
import { WireClient } from "../support/wire.ts";

const CHANNELS = [
  "state: {type: latest, filter: t/+}",
  "log: {type: append, filter: l/#}",
  "jobs: {type: queue, filter: q/#}",
].join("\n");

const MOVED = "moved retained values into the channel that claims their topics";
const DROPPED = "dropped retained values of topics that a channel claims";
const OUT_OF_REACH = "a channel keeps values whose topics its filter does not match";

async function retain(house: House, topic: string, payload: string, options = {}): Promise<void> {
  using client = await house.client({ clientId: "writer" });
  await published(client, topic, payload, { retain: true, ...options });
  await left(client);
}

/** What a new subscriber is sent of what is kept: `topic=payload`, then whether it has an offset. */
async function kept(house: House, filter: string, count: number): Promise<string[]> {
  using client = await house.client({ clientId: "reader" });
  await subscribed(client, filter, 1);
  const values = await takenAll(client, count);
  await nothingMore(client);
  await left(client);
  return values.map((value) => {
    assert.equal(value.retain, true);
    const names = value.properties.userProperties?.map(([name]) => name) ?? [];
    return `${value.topic}=${text(value)}${names.includes("saguin-offset") ? " @" : ""}`;
  }).sort();
}

const said = (house: House, msg: string) => house.lines(msg).map(({ fields }) => ({ ...fields }));

overBoth("02b 12 retained values move to the latest channel that claims their topics, others go", {
  snapshots: true,
}, async (house) => {
  for (const topic of ["t/a", "t/b", "l/x", "q/x", "q/__dlq/x", "b/x"]) {
    await retain(house, topic, "1", { properties: { userProperties: [["k", topic]] } });
  }
  await retain(house, "t/old", "1", { properties: { messageExpiry: 10 } });
  house.change({ channels: CHANNELS });
  await house.restart(20_000);
  assert.deepEqual(said(house, MOVED), [{ channel: "state", moved: 2, dropped: 1 }]);
  assert.deepEqual(said(house, DROPPED).map(({ channel }) => channel).sort(), [
    "jobs",
    "jobs__dlq",
    "log",
  ]);
  assert.deepEqual(await kept(house, "t/+", 2), ["t/a=1 @", "t/b=1 @"]);
  assert.deepEqual(await kept(house, "l/#", 0), []);
  assert.deepEqual(await kept(house, "b/#", 1), ["b/x=1"]);
  // What had been kept for ever before: it is the channel's, and goes as its values do.
  using client = await house.client({ clientId: "writer" });
  await published(client, "t/a", "2");
  await published(client, "t/b", "");
  assert.deepEqual(await kept(house, "t/+", 1), ["t/a=2 @"]);
  const lines = house.log.lines.length;
  await house.restart();
  assert.deepEqual(await kept(house, "t/+", 1), ["t/a=2 @"]);
  const again = house.log.lines.slice(lines).map(({ msg }) => msg);
  assert.ok(![MOVED, DROPPED, OUT_OF_REACH].some((msg) => again.includes(msg)));
});

overBoth("02b 12 of a channel's value and a retained one the newer stays", {
  channels: CHANNELS,
}, async (house) => {
  await retain(house, "t/a", "channel's");
  house.change({ channels: "state: {type: latest, filter: elsewhere/+}" });
  await house.restart();
  await house.time.leap(1_000);
  await retain(house, "t/a", "newer");
  house.change({ channels: CHANNELS });
  await house.restart();
  assert.deepEqual(await kept(house, "t/+", 1), ["t/a=newer @"]);
  // A start that ended between the two writes finds the value in both places.
  await house.stop();
  const database = new DatabaseSync(house.database);
  database.prepare(
    "INSERT INTO latest_values SELECT ?, topic, offset, message_id, timestamp, headers, props, " +
      "CAST('twice' AS BLOB), retain, bridge, client, qos FROM latest_values WHERE channel = 'state'",
  ).run(RETAINED);
  database.close();
  await house.restart();
  assert.deepEqual(said(house, MOVED).at(-1), { channel: "state", moved: 0, dropped: 1 });
  assert.deepEqual(await kept(house, "t/+", 1), ["t/a=newer @"]);
}, ["sqlite"]);

overBoth("02b 11 values that a filter no longer matches stay, and are counted at the start", {
  channels: CHANNELS,
  snapshots: true,
}, async (house) => {
  for (const topic of ["t/a", "t/b", "t/gone"]) await retain(house, topic, "1");
  await retain(house, "t/gone", "");
  house.change({ channels: 'state: {type: latest, filter: "{u,v}/+"}' });
  await house.restart();
  assert.deepEqual(said(house, OUT_OF_REACH), [{ channel: "state", values: 2 }]);
  // A filter that touches the channel is served all of it that matches; no other gets there.
  assert.deepEqual(await kept(house, "#", 2), ["t/a=1 @", "t/b=1 @"]);
  assert.deepEqual(await kept(house, "t/+", 0), []);
  house.change({ channels: CHANNELS });
  await house.restart();
  assert.equal(said(house, OUT_OF_REACH).length, 1);
  assert.deepEqual(await kept(house, "t/+", 2), ["t/a=1 @", "t/b=1 @"]);
});

Deno.test("02b 12 a move that does not fit refuses the start, naming channel, provider and count", async () => {
  const parts = (channels?: string) => (place: { directory: string }) =>
    configurationText({ ...place, port, database: "" }, {
      provider: "memory",
      snapshotDir: `${place.directory}/snapshots`,
      providerKeys: "max_bytes: 8KiB",
      limits: "max_message_size: 1KiB\nmax_header_bytes: 1KiB",
      channels,
    });
  let port = 0;
  await using broker = await BrokerProcess.start((place) => {
    port = place.port;
    Deno.mkdirSync(`${place.directory}/snapshots`);
    return parts()(place);
  });
  using client = await WireClient.connected(port, { clientId: "w" });
  let values = 0;
  for (;; values++) {
    const topic = `t/${values}`;
    await client.publish({ topic, payload: "x".repeat(500), qos: 1, packetId: 1, retain: true });
    if ((await client.expect("puback")).reasonCode !== 0) break;
  }
  await left(client);
  assert.equal((await broker.stop()).code, 0);
  broker.configure(parts("state: {type: latest, filter: t/+}"));
  const { code, stderr } = await runToEnd(["--config", broker.configurationPath]);
  assert.equal(code, 1);
  assert.match(
    stderr,
    new RegExp(`channel "state": its storage provider "store" has no room for ${values} retained`),
  );
  // Nothing is lost by it: the configuration of before serves them all.
  broker.configure(parts());
  await broker.startAgain();
  using reader = await WireClient.connected(port, { clientId: "r" });
  await subscribed(reader, "t/+", 1);
  assert.equal((await takenAll(reader, values)).length, values);
});
