/** What must add up in every scrape, whatever happened before it (05 section 11). */
import assert from "node:assert/strict";
import type { Metrics } from "../support/metrics.ts";
import { seeded } from "../support/random.ts";
import type { WireClient } from "../support/wire.ts";
import { OperationsHouse } from "./house.ts";

const CHANNELS = "log:\n  type: append\n  filter: log/#\n  retention_bytes: 4KiB\n" +
  "state:\n  type: latest\n  filter: st/#\n" +
  "jobs:\n  type: queue\n  filter: jobs/#\n  visibility_timeout: 10s\n" +
  "  retry: {max_attempts: 2}\n  job_expires_after: 100s\n";

const TOPICS = ["log/1", "log/2", "st/1", "st/2", "jobs/1", "jobs/2", "free/1", "free/2", "none/1"];
const JOBS = "$saguin/queue/jobs";
const FILTERS = ["log/#", "st/#", "free/+", "$share/g/free/#", JOBS, JOBS, "$SYS/#"];
const IDS = ["a", "b", "c", "d"];
const STEPS = 160;
/** Traffic that has not moved every term by then moves it never. */
const MOST_STEPS = 3_000;

/** Terms of the identities that the traffic has to move. */
const PROVED: readonly string[] = [
  "saguin_channel_records",
  "saguin_channel_retention_removed_total",
  "saguin_connections",
  "saguin_queue_acknowledged_total",
  "saguin_queue_dead_lettered_total",
  "saguin_queue_delivered_total",
  "saguin_queue_expired_total",
  "saguin_queue_returned_total",
  "saguin_shares_drained_total",
  "saguin_shares_held_total",
];

// deno-lint-ignore no-explicit-any
type Row = Record<string, any>;

/** What the routes say at the time of a scrape. */
interface Beside {
  readonly heldByGroups: number;
  /** By queue: jobs that expired with no worker. */
  readonly expiredWaiting: ReadonlyMap<string, number>;
  readonly lossCounts: number;
  readonly beyond: number;
}

function check(metrics: Metrics, beside: Beside): void {
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
    const waiting = beside.expiredWaiting.get(channel)!;
    assert.ok(waiting <= get("queue_expired_total", of));
    assert.equal(
      get("queue_delivered_total", of) - get("queue_inflight", of) + waiting,
      get("queue_acknowledged_total", of) + get("queue_returned_total", of) +
        get("queue_redelivered_total", of) + get("queue_dead_lettered_total", of),
    );
  }
  assert.equal(
    get("shares_held_total") - get("shares_drained_total") - sum("shares_dropped_total"),
    beside.heldByGroups,
  );
  assert.ok(get("deliveries_refused_total") <= sum("session_deliveries_dropped_total"));
  assert.ok(sum("channel_bytes") <= get("provider_bytes"));
  if (beside.beyond === 0) assert.equal(beside.lossCounts, sum("channel_position_lost_total"));
}

for (const provider of ["memory", "sqlite"] as const) {
  Deno.test(`05 11 the identities hold after random traffic (${provider})`, async () => {
    const random = seeded(`identities ${provider}`);
    await using ops = await OperationsHouse.open({ provider, channels: CHANNELS });
    const { house } = ops;
    const clients = new Map<string, WireClient>();
    const moved = new Set<string>();
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

    async function subscribe(client: WireClient, filter: string): Promise<void> {
      const qos = filter.startsWith("$saguin") ? 1 : random.below(3);
      await client.subscribe({ packetId: 1000, subscriptions: [{ filter, qos }] });
    }

    async function arrive(id: string): Promise<void> {
      const { client } = await house.connect({
        clientId: id,
        level: random.below(4) === 0 ? 4 : 5,
        cleanStart: random.below(4) === 0,
        properties: { sessionExpiry: random.below(3) === 0 ? 0 : 600 },
      });
      clients.set(id, client);
      await subscribe(client, random.pick(FILTERS));
    }

    async function answer(client: WireClient): Promise<void> {
      const at = jobs.findLastIndex((job) => job.client === client);
      if (at < 0 || client.level === 4) return;
      const [{ correlation }] = jobs.splice(at, 1);
      await client.publish({
        topic: "$saguin/queue/jobs/response",
        payload: random.below(3) === 0 ? "return" : "ack",
        properties: { correlationData: correlation },
      });
    }

    async function step(): Promise<void> {
      const id = random.pick(IDS);
      const client = clients.get(id);
      if (client === undefined) return await arrive(id);
      switch (random.below(18)) {
        case 0:
          client[Symbol.dispose]();
          clients.delete(id);
          return await house.away(id);
        case 1:
        case 2:
          return await subscribe(client, random.pick(FILTERS));
        case 3:
          // Long enough for a job to be forgotten by its worker, or by everybody.
          return await house.time.pass(random.below(12_000));
        case 4:
        case 5:
        case 6:
          await house.time.pass(random.below(400));
          return await drain(client);
        case 7:
        case 8:
        case 9:
        case 10:
        case 11:
          return await answer(client);
        default:
          await client.publish({
            topic: random.pick(TOPICS),
            payload: "x".repeat(random.below(600)),
            qos: random.below(3) === 0 ? 0 : 1,
            packetId: 1 + random.below(900),
            retain: random.below(6) === 0,
          });
      }
    }

    for (let i = 0; i < STEPS || (moved.size < PROVED.length && i < MOST_STEPS); i++) {
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
      let heldByGroups = 0;
      for (const group of house.broker.publisher.destinations.shares.values()) {
        heldByGroups += group.backlog.length;
      }
      const { readers, beyond } = await ops.json("position-lost");
      const lossCounts = readers.reduce((sum: number, row: Row) => sum + row.count, 0);
      const { channels } = await ops.json("overview");
      const expiredWaiting = new Map<string, number>(
        channels.filter(({ type }: Row) => type === "queue")
          .map(({ channel, expired_waiting }: Row) => [channel, expired_waiting]),
      );
      check(metrics, { heldByGroups, expiredWaiting, lossCounts, beyond });
      for (const name of PROVED) {
        if (metrics.sum(name) > 0) moved.add(name);
      }
    }
    assert.deepEqual([...moved].sort(), PROVED, "what never moved proves nothing");
    for (const client of clients.values()) client[Symbol.dispose]();
  });
}
