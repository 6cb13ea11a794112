/**
 * Random schedules against a broker in this process, on both providers, with a model that knows what was
 * promised (`model.ts` says which invariant is asserted where). A schedule that breaks a promise is shrunk
 * and written below run/; what was a defect stays in cases/, and is carried out for ever.
 */
import { CAMPAIGN } from "../support/campaign.ts";
import { Random, seeded } from "../support/random.ts";
import { HouseWorld } from "./house_world.ts";
import { type Failure, Runner } from "./runner.ts";
import { draw, type Schedule, type StorageKind } from "./schedule.ts";
import { shrink } from "./shrink.ts";

const SEEDS = 500 * CAMPAIGN;
const CASES = new URL("./cases/", import.meta.url);
const FOUND = new URL("../../run/model/", import.meta.url);
const STORAGES: readonly StorageKind[] = ["sqlite", "memory"];

async function run(schedule: Schedule): Promise<Failure | undefined> {
  await using world = await HouseWorld.open(schedule.storage);
  return await Runner.run(world, schedule);
}

/** A schedule that an earlier broker broke a promise in, or an earlier model thought so. */
interface Case {
  /** What was wrong. */
  readonly defect: string;
  readonly steps: Schedule["steps"];
}

for (const entry of Deno.readDirSync(CASES)) {
  const { defect, steps }: Case = JSON.parse(Deno.readTextFileSync(new URL(entry.name, CASES)));
  for (const storage of STORAGES) {
    Deno.test(`${entry.name} on ${storage}: no longer ${defect}`, async () => {
      const failure = await run({ storage, steps });
      if (failure !== undefined) throw new Error(`${failure.rule}: ${failure.message}`);
    });
  }
}

for (const storage of STORAGES) {
  Deno.test(`invariants 1, 3, 4, 5, 6, 8, 9, 15, 17, 18 hold in ${SEEDS} schedules on ${storage}`, async () => {
    const first = seeded(`schedules on ${storage}`).seed;
    for (let seed = first; seed < first + SEEDS; seed++) {
      const schedule = draw(new Random(seed), storage);
      const failure = await run(schedule);
      if (failure !== undefined) throw new Error(await told(seed, schedule, failure));
    }
  });
}

/** The shortest schedule that fails alike, and where it was put. */
async function told(seed: number, schedule: Schedule, { rule }: Failure): Promise<string> {
  const short = await shrink(schedule, rule, run);
  const failure = await run(short);
  Deno.mkdirSync(FOUND, { recursive: true });
  const path = new URL(`${rule}-${seed}.json`, FOUND).pathname;
  const defect = failure?.message ?? "";
  Deno.writeTextFileSync(path, JSON.stringify({ defect, steps: short.steps }, null, 2) + "\n");
  return `SAGUIN_SEED=${seed} breaks ${rule}: ${defect}\n` +
    short.steps.map((step) => `  ${JSON.stringify(step)}`).join("\n") +
    `\nis in ${path}; once it is mended, it belongs into tests/model/cases/`;
}
