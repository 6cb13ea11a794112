import assert from "node:assert/strict";
import { memory } from "./memory_subject.ts";
import { type Deliveries, Dice, draw, everything } from "./random_steps.ts";
import { sqliteWithoutReaders, sqliteWithReaders } from "./sqlite_subject.ts";

const SEEDS = 20;
const STEPS = 300;
/** Everything both hold is compared after so many steps. */
const STEPS_A_LOOK = 50;

/** One more seed than those of every run: `SEED=n deno test -A tests/storage/conformance`. */
async function seeds(): Promise<number[]> {
  const asked = (await Deno.permissions.query({ name: "env", variable: "SEED" })).state ===
      "granted"
    ? Deno.env.get("SEED")
    : undefined;
  if (asked !== undefined) return [Number(asked)];
  return Array.from({ length: SEEDS }, (_, i) => i + 1);
}

for (const seed of await seeds()) {
  Deno.test(`S13 memory and sqlite answer alike, seed ${seed}`, async () => {
    const dice = new Dice(seed);
    await using one = await memory.open();
    await using other = await (seed % 2 === 0 ? sqliteWithReaders : sqliteWithoutReaders).open();
    const deliveries: [Deliveries, Deliveries] = [{ leases: [] }, { leases: [] }];
    const done: string[] = [];
    for (let i = 0; i < STEPS; i++) {
      const [name, step] = draw(dice);
      const answers = await Promise.all([
        step(one.provider, deliveries[0]),
        step(other.provider, deliveries[1]),
      ]);
      done.push(`${i} ${name}: ${answers[0]}`);
      assert.equal(answers[1], answers[0], `seed ${seed} after\n${done.slice(-15).join("\n")}`);
      if (i % STEPS_A_LOOK !== STEPS_A_LOOK - 1) continue;
      assert.equal(
        await everything(other.provider),
        await everything(one.provider),
        `seed ${seed} after\n${done.slice(-STEPS_A_LOOK).join("\n")}`,
      );
    }
  });
}
