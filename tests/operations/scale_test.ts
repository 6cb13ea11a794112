/** What a scrape costs the event loop, at the size that operators were promised. */
import assert from "node:assert/strict";
import { Metrics } from "../support/metrics.ts";
import { House } from "../support/house.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { Scrapes } from "../../src/operations/metrics/scrape.ts";
import { Surveyor } from "../../src/operations/survey.ts";
import { Overview } from "../../src/operations/v1/overview.ts";
import { RecordingLink } from "../broker/rig.ts";

const CHANNELS = 1_000;
const SESSIONS = 10_000;
const STRETCH_MS = 20;
/** A collection of garbage may fall into any; the one in the middle is what a scrape costs. */
const ROUNDS = 9;

/**
 * Processor time of this thread in ms, where Linux tells it: on a busy machine most of a long stretch is
 * somebody else's. (What the runtime tells moves in steps of 10 ms.)
 */
function processorTime(): number {
  try {
    return Number(Deno.readTextFileSync("/proc/thread-self/schedstat").split(" ")[0]) / 1e6;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return performance.now();
    throw error;
  }
}

/** The longest time for which `work` held the loop, by a timer that wants to fire every turn. */
async function longestStretch(work: () => Promise<unknown>): Promise<number> {
  let longest = 0;
  let last = processorTime();
  let done = false;
  const tick = () => {
    const now = processorTime();
    longest = Math.max(longest, now - last);
    last = now;
    if (!done) setTimeout(tick, 0);
  };
  setTimeout(tick, 0);
  await new Promise((resolve) => setTimeout(resolve, 5));
  longest = 0;
  await work();
  tick();
  done = true;
  return longest;
}

Deno.test("05 8.3 a scrape of 1,000 channels and 10,000 sessions holds the event loop less than 20 ms at a stretch", async () => {
  const channels = Array.from(
    { length: CHANNELS },
    (_, i) => `c${i}:\n  type: append\n  filter: plant/${i}/#\n`,
  ).join("");
  await using house = await House.open({ provider: "memory", channels });
  const { broker, configuration } = house;
  for (let i = 0; i < SESSIONS; i++) {
    const claim = await broker.connect({
      clientId: `client-${i}`,
      sentClientId: `client-${i}`,
      access: undefined,
      user: "",
      level: 5,
      cleanStart: true,
      expiry: i % 2 === 0 ? 3600 : 0,
      receiveMaximum: 10,
      will: undefined,
    });
    if (!("complete" in claim)) assert.fail("refused");
    claim.complete(new RecordingLink());
    claim.session.subscribe({
      filter: `plant/${i % CHANNELS}/+`,
      qos: 1,
      noLocal: false,
      retainAsPublished: false,
      retainHandling: 0,
      ...i % 10 === 0 ? { partitions: { count: 4, indices: [i % 4] } } : {},
      logOffset: 1,
    }, false);
  }
  const surveyor = new Surveyor(broker, configuration);
  const on = {
    surveyor,
    configuration,
    version: "1",
    clock: systemClock,
    startedAt: 0,
    timers: { fired: 0, lateMs: 0 },
    turn: () => broker.publishTurn(),
  };
  const scrapes = () => new Scrapes(on, 60_000).answer();
  const metrics = Metrics.parse(new TextDecoder().decode((await scrapes()).body));
  assert.equal(metrics.get("saguin_connections"), SESSIONS);
  assert.equal(metrics.values("saguin_channel_info", "channel").length, CHANNELS);
  assert.equal(metrics.sum("saguin_channel_partitioned_consumers"), SESSIONS / 10);
  const overview = () => new Overview({ ...on, brokerId: "b" }).answer();
  for (const work of [scrapes, overview]) {
    const stretches: number[] = [];
    for (let round = 0; round < ROUNDS; round++) stretches.push(await longestStretch(work));
    stretches.sort((a, b) => a - b);
    console.log(`longest stretches: ${stretches.map((ms) => ms.toFixed(1)).join(", ")} ms`);
    const held = stretches[ROUNDS >> 1];
    assert.ok(held < STRETCH_MS, `the loop was held for ${held} ms`);
  }
});
