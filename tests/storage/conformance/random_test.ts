import assert from "node:assert/strict";
import { memory } from "./memory_subject.ts";
import { atStart, type Deliveries, Dice, draw, everything } from "./random_steps.ts";
import { sqliteWithoutReaders, sqliteWithReaders } from "./sqlite_subject.ts";
import { CAMPAIGN } from "../../support/campaign.ts";

const SEEDS = 20 * CAMPAIGN;
const STEPS = 300;
/** After so many steps everything both hold is compared, and once more after a restart of both. */
const STEPS_A_RUN = 75;

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
      if (i % STEPS_A_RUN !== STEPS_A_RUN - 1) continue;
      const after = `seed ${seed} after\n${done.slice(-STEPS_A_RUN).join("\n")}`;
      const before = await everything(one.provider);
      assert.equal(await everything(other.provider), before, after);
      await Promise.all([one.restart(), other.restart()]);
      for (const { leases } of deliveries) leases.length = 0;
      assert.equal(await everything(one.provider), before, after);
      assert.equal(await everything(other.provider), before, after);
      assert.equal(await atStart(other.provider), await atStart(one.provider), after);
    }
  });
}
