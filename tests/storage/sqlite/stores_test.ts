import assert from "node:assert/strict";
import type {
  LatestStore,
  Provider,
  PublishRow,
  StoreSpec,
} from "../../../src/storage/contract.ts";
import { appendRow, inTempDir, message, publish, withProvider } from "./support/provider.ts";

const SPECS: StoreSpec[] = [
  { channel: "readings", kind: "append" },
  { channel: "state", kind: "latest" },
];

async function fill(
  provider: Provider,
  count: number,
  timeOf: (i: number) => bigint,
): Promise<void> {
  const store = provider.append("readings");
  const outcomes: Promise<unknown>[] = [];
  for (let i = 1; i <= count; i++) {
    outcomes.push(
      publish(provider, appendRow(store, message("t", `${i}`, { timestamp: timeOf(i) }))),
    );
  }
  await Promise.all(outcomes);
}

async function setAll(provider: Provider, topics: readonly string[], payload = "x"): Promise<void> {
  const store = provider.latest("state");
  await Promise.all(topics.map((topic) => {
    const row: PublishRow = { kind: "set", store, message: message(topic, payload), offset: 0 };
    return publish(provider, row);
  }));
}

async function pages(store: LatestStore, filter: string, max: number): Promise<string[][]> {
  const scan = store.scan(filter, 0, false);
  const found: string[][] = [];
  for (let page = await scan.next(max); page.length > 0; page = await scan.next(max)) {
    found.push(page.map((record) => record.message.topic));
  }
  return found;
}

for (const readConnections of [0, 3]) {
  Deno.test(`S116 S189 S191 a long trim is several transactions, floor and bytes right after each (${readConnections} read connections)`, () =>
    inTempDir((file) =>
      withProvider(file, SPECS, async ({ provider }) => {
        await fill(provider, 3100, (i) => BigInt(i));
        const store = provider.append("readings");
        const { commits } = provider.statistics();
        const before = store.bytes();
        const trimmed = await store.trim(2501n, undefined);
        assert.equal(trimmed.removed, 2500);
        assert.equal(provider.statistics().commits, commits + 3);
        assert.deepEqual([store.floor(), store.next()], [2501, 3101]);
        assert.equal(store.bytes(), before - trimmed.freed);
        assert.equal(store.bytes(), 600 * (4 + 1 + 36));
        assert.deepEqual(await store.readFrom(2500, 1, 100), { belowFloor: true, floor: 2501 });
        // Nothing is old enough or over the bound: no transaction at all (S194).
        assert.deepEqual(await store.trim(2501n, store.bytes()), { removed: 0, freed: 0 });
        assert.equal(provider.statistics().commits, commits + 3);
      }, { readConnections })
    ));
}

Deno.test("S11 a search by time looks at every record, past one read's share", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      // Times run backwards: only the last record is late enough, and bisection would miss it.
      await fill(provider, 20_005, (i) => i === 20_003 ? 1_000_000n : BigInt(500_000 - i));
      const store = provider.append("readings");
      assert.deepEqual(await store.firstAtOrAfter(900_000n), { offset: 20_003, found: true });
      assert.deepEqual(await store.firstAtOrAfter(2_000_000n), { offset: 20_006, found: false });
      assert.deepEqual(await store.firstAtOrAfter(0n), { offset: 1, found: true });
    })
  ));

Deno.test("S10 a scan goes on over any number of values that do not match", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const others = Array.from({ length: 9000 }, (_, i) =>
        `plant/a${String(i).padStart(5, "0")}/other`);
      await setAll(provider, [...others, "plant/a00000/temp", "plant/b/temp", "plant", "planta/x"]);
      const store = provider.latest("state");
      assert.deepEqual(await pages(store, "plant/+/temp", 10), [["plant/a00000/temp"], [
        "plant/b/temp",
      ]]);
      assert.deepEqual(await pages(store, "plant/b/#", 10), [["plant/b/temp"]]);
      assert.deepEqual(await pages(store, "plant", 10), [["plant"]]);
      assert.equal((await pages(store, "plant/#", 5000)).flat().length, 9003);
    })
  ));

Deno.test("S10 a page of large values is bounded in bytes, and the next one goes on where it ended", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const topics = ["a", "b", "c", "d", "e"];
      await setAll(provider, topics, "x".repeat(400_000));
      const found = await pages(provider.latest("state"), "#", 100);
      assert.deepEqual(found, [["a", "b"], ["c", "d"], ["e"]]);
    })
  ));

Deno.test("S112 reads that would wait start further workers, up to read_connections", () =>
  inTempDir(async (file) => {
    const started: string[] = [];
    await withProvider(file, SPECS, async ({ provider }) => {
      await fill(provider, 10, () => 1n);
      assert.deepEqual(started, ["writer", "reader"]);
      const store = provider.append("readings");
      const read = async () => {
        const answer = await store.readFrom(1, 10, 1e6);
        assert.ok(!answer.belowFloor);
        return answer.records.length;
      };
      for (let i = 0; i < 50 && started.length < 4; i++) {
        assert.deepEqual(
          new Set(await Promise.all(Array.from({ length: 40 }, read))),
          new Set([10]),
        );
        await new Promise((resolve) => setTimeout(resolve, 20));
      }
      assert.deepEqual(started, ["writer", "reader", "reader", "reader"]);
    }, {
      readConnections: 3,
      spawn: (name) => {
        started.push(/^saguin-storage-(\w+):plant$/.exec(name)![1]);
        return new Worker(new URL("./support/worker_entry.ts", import.meta.url), {
          type: "module",
          name,
        });
      },
    });
  }));

Deno.test("S113 S18 a read started after a publish was answered sees it", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const store = provider.append("readings");
      for (let i = 1; i <= 50; i++) {
        await publish(provider, appendRow(store, message("t", `${i}`)));
        const answer = await store.readFrom(i, 10, 1e6);
        assert.ok(!answer.belowFloor);
        assert.deepEqual(answer.records.map((record) => record.offset), [i]);
      }
    })
  ));
