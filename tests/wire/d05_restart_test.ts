/** 03 section 5: QoS 2 publishes from clients over stops and kills. */
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
import { type House, overBoth, text } from "../support/house.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

const RESTARTS = {
  channels: `
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
  max_bytes: 300
`,
  broker: "qos2:\n  max_inflight_per_client: 3\n  expires_after: 1m",
};

/** Publishes at QoS 2 up to PUBREC. */
async function held(client: WireClient, topic: string, payload: string, packetId = 1) {
  await client.publish({ topic, payload, qos: 2, packetId });
  await client.expectPubrec(packetId);
}

/** The same check on a broker that was killed and on one that was stopped. */
async function afterwards(house: House, check: (next: House) => Promise<void>): Promise<void> {
  await house.settled();
  {
    await using killed = await house.killed();
    await check(killed);
  }
  await house.restart();
  await check(house);
}

overBoth(
  "D5.16 stopped while held: the session returns, and its PUBREL writes the record",
  RESTARTS,
  async (
    house,
  ) => {
    const { client } = await durable(house, "a");
    await held(client, "log/x", "channel", 1);
    await held(client, "plain/x", "broadcast", 2);
    const { client: kept } = await durable(house, "k");
    await subscribed(kept, "plain/x", 2);
    await afterwards(house, async (next) => {
      const { client, present } = await durable(next, "a");
      assert.equal(present, true);
      // A repeat after the restart is a repeat still (D5.9).
      await client.publish({ topic: "log/x", payload: "channel", qos: 2, packetId: 1, dup: true });
      await client.expectPubrec(1);
      for (const id of [1, 2]) {
        await client.pubrel(id);
        await client.expectPubcomp(id);
      }
      using reader = await next.client({ clientId: "r" });
      await subscribed(reader, "log/x");
      await taken(reader, "log/x", "channel");
      await nothingMore(reader);
      const { client: kept } = await durable(next, "k");
      await taken(kept, "plain/x", "broadcast");
      await nothingMore(kept);
      client.close();
      kept.close();
    });
  },
  ["sqlite"],
);

overBoth(
  "D5.17 stopped while held, the session does not return: dropped, counted, and a retry lands once",
  RESTARTS,
  async (
    house,
  ) => {
    using client = await house.client({ clientId: "a" });
    await held(client, "log/x", "ephemeral", 1);
    await held(client, "plain/x", "ephemeral", 2);
    await using killed = await house.killed();
    assert.equal(killed.counters.qos2Abandoned, 2);
    using again = await killed.client({ clientId: "a", cleanStart: false });
    await again.pubrel(1);
    await again.expectPubcomp(1, 0x92);
    await publishedTwice(again, "log/x", "ephemeral");
    using reader = await killed.client({ clientId: "r" });
    await subscribed(reader, "log/x");
    await taken(reader, "log/x", "ephemeral");
    await nothingMore(reader);
  },
  ["sqlite"],
);

overBoth(
  "D5.18 stopped after the release: the record is there, and the repeated PUBREL gets 0x92",
  RESTARTS,
  async (
    house,
  ) => {
    const { client } = await durable(house, "a");
    await held(client, "log/x", "released", 1);
    await client.pubrel(1);
    await client.expectPubcomp(1);
    await using killed = await house.killed();
    const { client: again, present } = await durable(killed, "a");
    assert.equal(present, true);
    await again.pubrel(1);
    await again.expectPubcomp(1, 0x92);
    await subscribed(again, "log/x");
    await taken(again, "log/x", "released");
    await nothingMore(again);
    again.close();
  },
  ["sqlite"],
);

overBoth(
  "D5.19 a broadcast in the log that no session had counted is delivered once after a kill",
  RESTARTS,
  async (
    house,
  ) => {
    const { client: kept } = await durable(house, "k");
    await subscribed(kept, "plain/#", 2);
    using writer = await house.client({ clientId: "w" });
    const change = house.faults.hold("sessions.change");
    await publishedTwice(writer, "plain/x", "exactly");
    await published(writer, "plain/x", "at least");
    // Neither a cursor nor a window of this session was written since.
    await using killed = await house.killed();
    const { client, present } = await durable(killed, "k");
    assert.equal(present, true);
    assert.deepEqual((await takenAll(client, 2)).map(text), ["exactly", "at least"]);
    await nothingMore(client);
    client.close();
    change.open();
    kept.close();
  },
  ["sqlite"],
);

overBoth(
  "D5.20 D5.23 a channel gone from the configuration takes its holds with it, counted",
  RESTARTS,
  async (
    house,
  ) => {
    const { client } = await durable(house, "a");
    await held(client, "log/x", "orphan", 1);
    await held(client, "small/x", "kept", 2);
    house.change({ channels: "small:\n  type: append\n  filter: small/#" });
    await house.restart();
    assert.equal(house.counters.qos2Abandoned, 1);
    const again = await durable(house, "a");
    await again.client.pubrel(1);
    await again.client.expectPubcomp(1, 0x92);
    await again.client.pubrel(2);
    await again.client.expectPubcomp(2);
    again.client.close();
  },
  ["sqlite"],
);

overBoth(
  "D5.8 D22.8 the age of an exchange counts the time the broker was stopped",
  RESTARTS,
  async (house) => {
    const { client } = await durable(house, "a");
    await held(client, "log/x", "old", 1);
    await house.restart(40_000);
    await house.time.leap(19_000);
    const again = await durable(house, "a");
    await held(again.client, "log/x", "new", 2);
    await house.time.leap(1_000);
    await until("the hold to be dropped", () => house.counters.qos2Abandoned === 1);
    await again.client.pubrel(1);
    await again.client.expectPubcomp(1, 0x92);
    await again.client.pubrel(2);
    await again.client.expectPubcomp(2);
    again.client.close();
  },
  ["sqlite"],
);
