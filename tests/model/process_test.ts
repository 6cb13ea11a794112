/** As `model_test.ts`, with the executable: fewer schedules, over sockets, with SIGKILL. */
import { CAMPAIGN } from "../support/campaign.ts";
import { Random, seeded } from "../support/random.ts";
import { ProcessWorld } from "./process_world.ts";
import { Runner } from "./runner.ts";
import { draw, type Schedule, type StorageKind } from "./schedule.ts";

const SEEDS = 2 * CAMPAIGN;
const STORAGES: readonly StorageKind[] = ["sqlite", "memory"];
/** Steps of one schedule: each of them waits for a real broker to come to rest. */
const STEPS = 25;
/** Seeds at once: brokers under a schedule wait more than they work. */
const AT_ONCE = 2;

/** Retention runs on real time here, and would move floors between two steps. */
function untrimmed({ storage, steps }: Schedule): Schedule {
  return { storage, steps: steps.filter((step) => !/trail|brief/.test(JSON.stringify(step))) };
}

Deno.test(`I1 I3 I4 I5 I6 I8 I9 I15 I17 I18 hold over SIGKILL in ${SEEDS} schedules a provider`, async () => {
  const first = seeded("schedules over the executable").seed;
  for (let seed = first; seed < first + SEEDS; seed += AT_ONCE) {
    const seeds = Array.from(
      { length: Math.min(AT_ONCE, first + SEEDS - seed) },
      (_, i) => seed + i,
    );
    await Promise.all(seeds.flatMap((each) => STORAGES.map((storage) => one(each, storage))));
  }
});

async function one(seed: number, storage: StorageKind): Promise<void> {
  const schedule = untrimmed(draw(new Random(seed), storage, STEPS));
  await using world = await ProcessWorld.open(storage);
  const failure = await Runner.run(world, schedule);
  if (failure === undefined) return;
  throw new Error(
    `SAGUIN_SEED=${seed} breaks ${failure.rule} at step ${failure.step}: ${failure.message}\n` +
      schedule.steps.map((step) => `  ${JSON.stringify(step)}`).join("\n"),
  );
}
