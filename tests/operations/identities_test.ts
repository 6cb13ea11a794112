/** What must add up in every scrape, whatever happened before it (05 section 11). */
import assert from "node:assert/strict";
import type { Metrics } from "../support/metrics.ts";
import { seeded } from "../support/random.ts";
import type { WireClient } from "../support/wire.ts";
import { OperationsHouse } from "./house.ts";

const CHANNELS = "log:\n  type: append\n  filter: log/#\n  retention_bytes: 4KiB\n" +
  "state:\n  type: latest\n  filter: st/#\n" +
  "jobs:\n  type: queue\n  filter: jobs/#\n  visibility_timeout: 10s\n" +
  "  retry: {max_attempts: 2}\n";

const TOPICS = ["log/1", "log/2", "st/1", "st/2", "st/3", "jobs/1", "free/1", "free/2", "none/1"];
const FILTERS = ["log/#", "st/#", "free/+", "$share/g/free/#", "$saguin/queue/jobs", "$SYS/#"];
const IDS = ["a", "b", "c", "d"];
const STEPS = 120;

function check(metrics: Metrics, heldByGroups: number, lossCounts: number, beyond: number): void {
  const get = (name: string, labels = {}) => metrics.get(`saguin_${name}`, labels) ?? 0;
  const sum = (name: string, labels = {}) => metrics.sum(`saguin_${name}`, labels);
  assert.equal(sum("connections_by_protocol"), get("connections"));
  for (const channel of metrics.values("saguin_channel_next_offset", "channel")) {
    const of = { channel };
    assert.equal(
      get("channel_records", of),
      get("channel_next_offset", of) - get("channel_floor_offset", of),
    );
  }
  for (const channel of metrics.values("saguin_queue_depth", "channel")) {
    const of = { channel };
    assert.equal(
      get("queue_delivered_total", of) - get("queue_inflight", of),
      get("queue_acknowledged_total", of) + get("queue_returned_total", of) +
        get("queue_redelivered_total", of) + get("queue_dead_lettered_total", of),
    );
  }
  assert.equal(
    get("shares_held_total") - get("shares_drained_total") - sum("shares_dropped_total"),
    heldByGroups,
  );
  assert.ok(get("deliveries_refused_total") <= sum("session_deliveries_dropped_total"));
  assert.ok(sum("channel_bytes") <= get("provider_bytes"));
  if (beyond === 0) assert.equal(lossCounts, sum("channel_position_lost_total"));
}

for (const provider of ["memory", "sqlite"] as const) {
  Deno.test(`05 11 the identities hold after random traffic (${provider})`, async () => {
    const random = seeded(`identities ${provider}`);
    await using ops = await OperationsHouse.open({ provider, channels: CHANNELS });
    const { house } = ops;
    const clients = new Map<string, WireClient>();
    const jobs: { readonly client: WireClient; readonly correlation: Uint8Array }[] = [];

    /** Reads what came, and acknowledges most of it. */
    async function drain(client: WireClient): Promise<void> {
      await client.pingreq();
      for (;;) {
        const packet = await client.next();
        if (packet.type === "pingresp") return;
        if (packet.type === "pubrel") await client.pubcomp(packet.packetId);
        if (packet.type !== "publish" || packet.packetId === 0) continue;
        if (random.below(10) === 0) continue;
        if (packet.qos === 2) await client.pubrec(packet.packetId);
        else await client.puback(packet.packetId);
        const { correlationData } = packet.properties;
        if (correlationData !== undefined) jobs.push({ client, correlation: correlationData });
      }
    }

    async function step(): Promise<void> {
      const id = random.pick(IDS);
      const client = clients.get(id);
      if (client === undefined) {
        const { client: fresh } = await house.connect({
          clientId: id,
          level: random.below(4) === 0 ? 4 : 5,
          cleanStart: random.below(4) === 0,
          properties: { sessionExpiry: random.below(3) === 0 ? 0 : 600 },
        });
        clients.set(id, fresh);
        return;
      }
      switch (random.below(8)) {
        case 0:
          client[Symbol.dispose]();
          clients.delete(id);
          return await house.away(id);
        case 1: {
          const filter = random.pick(FILTERS);
          await client.subscribe({
            packetId: 1000,
            subscriptions: [{ filter, qos: filter.startsWith("$saguin") ? 1 : random.below(3) }],
          });
          return;
        }
        case 2: {
          const job = jobs.shift();
          if (job === undefined || job.client !== client || client.level === 4) return;
          await client.publish({
            topic: "$saguin/queue/jobs/response",
            payload: random.below(3) === 0 ? "return" : "ack",
            properties: { correlationData: job.correlation },
          });
          return;
        }
        case 3:
          return await house.time.pass(random.below(12_000));
        case 4:
          return await drain(client);
        default:
          await client.publish({
            topic: random.pick(TOPICS),
            payload: "x".repeat(random.below(600)),
            qos: random.below(2),
            packetId: 1 + random.below(900),
            retain: random.below(6) === 0,
          });
      }
    }

    for (let i = 0; i < STEPS; i++) {
      try {
        await step();
      } catch (error) {
        // A 3.1.1 client is closed by a refusal; the next step brings it back.
        const closed = [...clients].filter(([id]) =>
          house.broker.sessions.get(id)?.link === undefined
        );
        if (closed.length === 0) throw error;
        for (const [id, client] of closed) {
          client[Symbol.dispose]();
          clients.delete(id);
        }
      }
      if (i % 20 !== 19) continue;
      await house.settled();
      const metrics = await ops.scrape();
      let held = 0;
      for (const group of house.broker.publisher.destinations.shares.values()) {
        held += group.backlog.length;
      }
      const { readers, beyond } = await ops.json("position-lost");
      const counts = readers.reduce((sum: number, row: { count: number }) => sum + row.count, 0);
      check(metrics, held, counts, beyond);
    }
    assert.ok(house.counters.delivered > 0, "nothing was delivered: the traffic proves nothing");
    for (const client of clients.values()) client[Symbol.dispose]();
  });
}
