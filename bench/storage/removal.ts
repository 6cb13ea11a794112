/** What removal costs: a pass of each sweep when nothing is over its bound, and one record of a long channel. */
import { fromMilliseconds } from "../../src/platform/clock.ts";
import { systemClock } from "../../src/platform/clock.ts";
import type { AppendStore, Provider, StoreSpec } from "../../src/storage/contract.ts";
import { median, table } from "../support/measure.ts";
import {
  fill,
  message,
  ms,
  openMemory,
  openSqlite,
  PAYLOAD_BYTES,
  PlainDatabase,
  type Scale,
  type Target,
  within,
} from "./support.ts";

const DAY_MS = 86_400_000;
/** More than anything here holds. */
const BOUND = 1e12;
const REMOVALS = 100;

type Pass = (store: AppendStore) => Promise<unknown>;
const bySize: Pass = (store) => store.trim(0n, BOUND);
const byAge: Pass = (store) => store.trim(systemClock.wall() - fromMilliseconds(DAY_MS), undefined);

async function timed(stores: readonly AppendStore[], pass: Pass, rounds: number): Promise<number> {
  const times: number[] = [];
  for (let round = 0; round < rounds + 2; round++) {
    const begun = performance.now();
    for (const store of stores) await pass(store);
    // The first two warm up.
    if (round >= 2) times.push(performance.now() - begun);
  }
  return median(times);
}

/** One record in every channel, in one turn. */
async function fillAll(provider: Provider, specs: readonly StoreSpec[]): Promise<AppendStore[]> {
  const stores = specs.map(({ channel }) => provider.append(channel));
  await Promise.all(
    stores.map((store, i) =>
      new Promise<void>((resolve, reject) =>
        provider.submit({
          rows: [{ kind: "append", store, message: message(i), offset: 0 }],
          bytes: PAYLOAD_BYTES,
          settled: (failure) => failure === undefined ? resolve() : reject(failure),
        })
      )
    ),
  );
  return stores;
}

export async function benchmarkSweeps(scale: Scale): Promise<Target[]> {
  const rows: string[][] = [];
  let reads = 0;
  for (const count of scale.smoke ? [10, 100] : [10, 100, 1_000, 10_000]) {
    const specs = Array.from(
      { length: count },
      (_, i): StoreSpec => ({ channel: `channel-${i}`, kind: "append" }),
    );
    const memory = await fillAll(await openMemory(specs), specs);
    const { provider, requests, close } = await openSqlite(
      `${scale.directory}/sweep-${count}.db`,
      specs,
    );
    const sqlite = await fillAll(provider, specs);
    const before = requests();
    const size = [
      await timed(memory, bySize, scale.rounds),
      await timed(sqlite, bySize, scale.rounds),
    ];
    reads += requests() - before;
    const age = [
      await timed(memory, byAge, scale.rounds),
      await timed(sqlite, byAge, scale.rounds),
    ];
    await close();
    rows.push([count.toLocaleString("en"), ...size.map(ms), ...age.map(ms)]);
  }
  const heads = ["channels", "by size, memory ms", "sqlite ms", "by age, memory ms", "sqlite ms"];
  console.log(table(heads, rows));
  return [{
    what: "requests of all size sweeps to a database's threads",
    measured: String(reads),
    promised: "0",
    kept: reads === 0,
  }];
}

/** Microseconds for the removal of the oldest record, of a channel that holds so many. */
async function trim(store: AppendStore): Promise<number> {
  const times: number[] = [];
  for (let i = 0; i < REMOVALS; i++) {
    const most = store.bytes() - 1;
    const begun = performance.now();
    const { removed } = await store.trim(0n, most);
    times.push((performance.now() - begun) * 1000);
    if (removed !== 1) throw new Error(`${removed} records were removed`);
  }
  return median(times);
}

export async function benchmarkTrim(scale: Scale): Promise<Target[]> {
  const rows: string[][] = [];
  const figures: { memory: number; sqlite: number }[] = [];
  for (const records of scale.smoke ? [1_000, 10_000] : [10_000, 100_000, 800_000]) {
    await within(scale.directory, async (path) => {
      const kept = await openMemory([{ channel: "events", kind: "append" }]);
      fill(kept, "events", records);
      const memory = await trim(kept.append("events"));
      const database = new PlainDatabase(path + "/trim.db", "NORMAL");
      database.fill(records);
      database.close();
      const specs: StoreSpec[] = [{ channel: "readings", kind: "append" }];
      const { provider, close } = await openSqlite(path + "/trim.db", specs);
      const sqlite = await trim(provider.append("readings"));
      await close();
      figures.push({ memory, sqlite });
      rows.push([records.toLocaleString("en"), memory.toFixed(2), sqlite.toFixed(0)]);
    });
  }
  console.log(table(["held", "memory us", "sqlite us"], rows));
  if (scale.smoke) return [];
  const [first, last] = [figures[0], figures[figures.length - 1]];
  return (["memory", "sqlite"] as const).map((kind) => {
    const ratio = last[kind] / first[kind];
    return {
      what: `trim on ${kind}, 800k held / 10k held`,
      measured: ratio.toFixed(2),
      promised: "at most 2",
      kept: ratio <= 2,
    };
  });
}
