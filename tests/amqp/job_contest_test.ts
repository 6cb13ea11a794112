/**
 * MQTT workers, AMQP consumers and basic.get at one queue channel, each settling as it likes and some
 * going without a word: at no moment has a job two holders, and one that is done stays done (07 A49, A54).
 */
import assert from "node:assert/strict";
import { CAMPAIGN } from "../support/campaign.ts";
import { encodeDisconnect } from "../support/mqtt_bytes.ts";
import { type Random, seeded } from "../support/random.ts";
import { sleep, until } from "../support/wait.ts";
import type { WireClient } from "../support/wire.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { type AmqpClient, type Received, text } from "./support/client.ts";
import { AmqpHouse } from "./support/house.ts";

const JOBS = 400 * CAMPAIGN;
const CHANNELS = `
jobs:
  type: queue
  filter: plant/jobs/#
  visibility_timeout: 1h
  retry: {max_attempts: 1000}
`;
/** How long a worker waits for another job before it settles what it holds. */
const PATIENCE_MS = 30;

/** Who holds which job, as the workers themselves know it. */
class Jobs {
  readonly done = new Set<string>();
  readonly #holders = new Map<string, string>();

  take(job: string, worker: string): void {
    const holder = this.#holders.get(job);
    assert.equal(holder, undefined, `${worker} was given ${job}, which ${holder} holds`);
    assert.ok(!this.done.has(job), `${worker} was given ${job}, which is done`);
    this.#holders.set(job, worker);
  }

  /** It is nobody's from here on: the broker is told right after. */
  release(job: string): void {
    this.#holders.delete(job);
  }

  finish(job: string): void {
    this.release(job);
    this.done.add(job);
  }

  get over(): boolean {
    return this.done.size === JOBS;
  }
}

/** Whatever ends a wait for the next job: none came. */
function inVain(error: unknown): undefined {
  if (error instanceof Error && /in vain/.test(error.message)) return undefined;
  throw error;
}

async function consumer(house: AmqpHouse, jobs: Jobs, name: string, random: Random): Promise<void> {
  const prefetch = random.between(1, 4);
  while (!jobs.over) {
    using client = await house.client();
    await client.call(amqp.qos(1, prefetch), "qos-ok");
    await client.send(amqp.consume(1, "jobs"));
    await client.expect("consume-ok");
    let held: Received[] = [];
    for (let gone = false; !gone && !jobs.over;) {
      const received = await client.next(PATIENCE_MS).catch(inVain);
      if (received !== undefined) {
        jobs.take(text(received), name);
        held.push(received);
        if (held.length < prefetch && random.chance(0.6)) continue;
      }
      for (const each of random.shuffled(held)) await settle(client, each, jobs, random);
      held = [];
      gone = random.chance(0.05);
    }
    await heard(client);
    if (random.chance(0.5)) await client.send(amqp.channelClose(1));
  }
}

/**
 * Waits until the broker has heard everything that was sent: a socket that is closed with bytes unread
 * takes what it sent along. What is delivered meanwhile goes back unseen.
 */
async function heard(client: AmqpClient): Promise<void> {
  await client.send(amqp.qos(1, 1));
  while ((await client.next()).name !== "qos-ok");
}

async function settle(
  client: AmqpClient,
  job: Received,
  jobs: Jobs,
  random: Random,
): Promise<void> {
  const { delivery } = job;
  if (random.chance(0.6)) {
    jobs.finish(text(job));
    return await client.send(amqp.ack(1, delivery));
  }
  jobs.release(text(job));
  await client.send(
    random.chance(0.5)
      ? amqp.nack(1, delivery, { requeue: true })
      : amqp.reject(1, delivery, false),
  );
}

async function getter(house: AmqpHouse, jobs: Jobs, name: string, random: Random): Promise<void> {
  using client = await house.client();
  while (!jobs.over) {
    const job = await client.get("jobs");
    if (job.name === "get-empty") {
      await sleep(5);
      continue;
    }
    jobs.take(text(job), name);
    await settle(client, job, jobs, random);
  }
  await heard(client);
}

async function worker(house: AmqpHouse, jobs: Jobs, name: string, random: Random): Promise<void> {
  while (!jobs.over) {
    using client = await subscribed(house, name);
    for (let gone = false; !gone && !jobs.over;) {
      const packet = await client.next(PATIENCE_MS).catch(inVain);
      if (packet === undefined) continue;
      assert.equal(packet.type, "publish");
      if (packet.type !== "publish") return;
      const job = new TextDecoder().decode(packet.payload);
      jobs.take(job, name);
      await client.puback(packet.packetId!);
      const done = random.chance(0.7);
      if (done) jobs.finish(job);
      else jobs.release(job);
      await client.publish({
        topic: "$saguin/queue/jobs/response",
        payload: done ? "ack" : "return",
        properties: { correlationData: packet.properties.correlationData },
      });
      gone = random.chance(0.05);
    }
    await client.pingreq();
    while ((await client.next()).type !== "pingresp");
    if (random.chance(0.5)) await client.send(encodeDisconnect());
  }
}

async function subscribed(house: AmqpHouse, clientId: string): Promise<WireClient> {
  const client = await house.house.client({ clientId });
  await client.subscribe({
    packetId: 1,
    subscriptions: [{ filter: "$saguin/queue/jobs", qos: 1 }],
  });
  await client.expectSuback(1, [1]);
  return client;
}

async function publisher(house: AmqpHouse): Promise<void> {
  using client = await house.house.client();
  for (let i = 1; i <= JOBS; i++) {
    const packetId = i % 60_000 + 1;
    await client.publish({ topic: "plant/jobs/x", payload: `job ${i}`, qos: 1, packetId });
    await client.expectPuback(packetId);
  }
}

Deno.test("A49, A54 no job has two holders, whatever its workers speak and however they end", async () => {
  const random = seeded("amqp jobs");
  await using house = await AmqpHouse.open({
    channels: CHANNELS,
    limits: "max_connect_rate: none",
  });
  const jobs = new Jobs();
  const crew = Promise.all([
    publisher(house),
    ...[1, 2].map((i) => consumer(house, jobs, `consumer ${i}`, random)),
    ...[1, 2].map((i) => worker(house, jobs, `worker ${i}`, random)),
    getter(house, jobs, "getter", random),
  ]);
  let over = false;
  const ticking = (async () => {
    while (!over) {
      await house.time.pass(500);
      await sleep(1);
    }
  })();
  try {
    await crew;
  } finally {
    over = true;
    await ticking;
  }
  await until("every job to be gone", async () => {
    await house.time.pass(200);
    return house.provider.queue("jobs").depth() === 0;
  });
});
