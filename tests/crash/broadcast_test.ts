/**
 * What durable subscribers of broadcast topics are promised over kills: whatever was acknowledged to its
 * publisher reaches each of them, at QoS 2 once, and reaches a shared group once or more (invariants 9
 * and 10, D5.1, D8.6, D8.7, D8.10, D9.2).
 */
import assert from "node:assert/strict";
import { check } from "../storage/check/support.ts";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { CAMPAIGN } from "../support/campaign.ts";
import { seeded } from "../support/random.ts";
import { sleep, until } from "../support/wait.ts";
import { ExactlyOncePublisher, Subscriber, type Zeal } from "./exchanges.ts";
import { Publisher } from "./publisher.ts";

const KILLS = 8 * CAMPAIGN;
const LARGEST_WINDOW = 32;
/** The moment of the kill: so long after each publisher's first answer, or, in some rounds, after its start. */
const LONGEST_LOAD_MS = 200;
const EARLY_KILLS = 0.2;

Deno.test("D8.7 D8.10 D9.2 acknowledged broadcasts reach every durable subscriber over kill -9, at QoS 2 once", async () => {
  const random = seeded("broadcast crash");
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      logLevel: "warn",
      broker: "session:\n  ack_commit_interval: 20ms\n" +
        `qos2:\n  max_inflight_per_client: ${2 * LARGEST_WINDOW}`,
      limits: "session_queue_bytes: 64MiB",
    })
  );
  const publishers = [0, 1].map((number) => new Publisher(number));
  const twice = new ExactlyOncePublisher("twice", "twice/a");
  const archive = new Subscriber("archive", "crash/+", 1);
  const once = new Subscriber("once", "twice/#", 2);
  const group = [0, 1].map((i) => new Subscriber(`member-${i}`, "$share/g/crash/+", 1));
  const subscribers = [archive, once, ...group];
  const acknowledged: string[] = [];

  for (let round = 1; round <= KILLS; round++) {
    for (const subscriber of subscribers) {
      await subscriber.connect(broker.port);
      subscriber.read(random.pick<Zeal>(["all", "all", "half", "nothing"]));
    }
    const window = random.pick([1, 8, LARGEST_WINDOW]);
    const runs = Promise.all([
      ...publishers.map((each) => each.run(broker.port, window)),
      twice.run(broker.port, window),
    ]);
    let failed: unknown;
    runs.catch((error) => failed = error); // Heard of after the kill too.
    if (!random.chance(EARLY_KILLS)) {
      const completed = twice.completed;
      await until(
        "something of each publisher to be acknowledged",
        () => {
          if (failed !== undefined) throw failed;
          return twice.completed > completed &&
            publishers.every((publisher) => publisher.acknowledged > publisher.first);
        },
        20_000,
      );
    }
    await sleep(random.below(LONGEST_LOAD_MS));
    await broker.kill();
    await runs;
    for (const subscriber of subscribers) await subscriber.done();
    for (const publisher of publishers) {
      for (let i = publisher.first; i < publisher.acknowledged; i++) {
        acknowledged.push(publisher.payload(i));
      }
    }
    await broker.startAgain();
  }

  for (const subscriber of subscribers) {
    await subscriber.connect(broker.port);
    subscriber.read("all");
  }
  const rest = twice.run(broker.port, 1);
  twice.stop();
  await rest;
  const inGroup = (payload: string) => group.some(({ got }) => got.has(payload));
  await until("all that was acknowledged", () =>
    once.got.size === twice.sent &&
    acknowledged.every((payload) => archive.got.has(payload) && inGroup(payload)), 30_000);
  await sleep(200);
  for (const subscriber of subscribers) subscriber.stop();
  for (const subscriber of subscribers) await subscriber.done();

  assert.equal(twice.completed, twice.sent);
  assert.deepEqual([...once.got.values()].filter((times) => times !== 1), []);
  assert.deepEqual(
    [...once.got.keys()],
    Array.from({ length: twice.sent }, (_, sequence) => twice.payload(sequence)),
    "the order of one publisher's exchanges",
  );
  checkOrder(archive);
  console.log(
    `broadcast crash: ${KILLS} kills, ${acknowledged.length} acknowledged at QoS 1, ` +
      `${twice.completed} exchanges`,
  );
  assert.ok(acknowledged.length > KILLS && twice.completed > KILLS, "too little to show anything");
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
  assert.deepEqual((await check(broker.database)).findings, []);
});

/** The first time of each message is in its publisher's order (D20.4). */
function checkOrder(subscriber: Subscriber): void {
  const last = new Map<number, number>();
  for (const payload of subscriber.got.keys()) {
    const { publisher, sequence } = Publisher.read(payload);
    assert.ok(sequence > (last.get(publisher) ?? -1), `${payload.trimEnd()} came out of order`);
    last.set(publisher, sequence);
  }
}
