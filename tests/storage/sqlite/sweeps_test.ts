import assert from "node:assert/strict";
import {
  type AppendStore,
  BROADCAST_LOG,
  type QueueStore,
  type StoreSpec,
} from "../../../src/storage/contract.ts";
import { check } from "../check/support.ts";
import {
  appendRow,
  inTempDir,
  message,
  publish,
  spawnStorageWorker,
  type TestProvider,
  withProvider,
} from "./support/provider.ts";

const SPECS: StoreSpec[] = [
  { channel: "readings", kind: "append" },
  { channel: "jobs", kind: "queue" },
  { channel: "jobs__dlq", kind: "append" },
  { channel: BROADCAST_LOG, kind: "append" },
];

/** What the provider asks of its threads, by the kind of request. */
function counted(): { readonly asked: string[]; spawn(name: string): Worker } {
  const asked: string[] = [];
  const spawn = (name: string) => {
    const worker = spawnStorageWorker(name);
    const post = worker.postMessage.bind(worker) as (...args: unknown[]) => void;
    worker.postMessage = (...args: unknown[]) => {
      asked.push((args[0] as { ask: string }).ask);
      post(...args);
    };
    return worker;
  };
  return { asked, spawn };
}

async function filled({ provider }: TestProvider, records: number): Promise<AppendStore> {
  const store = provider.append("readings");
  const rows = Array.from(
    { length: records },
    () => appendRow(store, message("t", "x".repeat(50))),
  );
  await Promise.all(rows.map((row) => publish(provider, row)));
  return store;
}

Deno.test("S194 S195 a size sweep under its bound asks nothing of the file, an age sweep one read", () =>
  inTempDir(async (file) => {
    const { asked, spawn } = counted();
    await withProvider(file, SPECS, async (opened) => {
      const store = await filled(opened, 20);
      asked.length = 0;
      await store.trim(0n, store.bytes());
      assert.deepEqual(asked, []);
      await store.trim(1n, undefined);
      assert.deepEqual(asked, ["read"]);
      await store.trim(0n, store.bytes() - 1);
      assert.deepEqual(asked, ["read", "write"]);
    }, { spawn });
  }));

Deno.test("S25 a publish that comes while a long trim runs is stored before the trim has ended", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async (opened) => {
      const store = await filled(opened, 5_000);
      const order: string[] = [];
      const trim = store.trim(0n, 0).then(() => order.push("trim"));
      await publish(opened.provider, appendRow(store, message("t", "late")));
      order.push("publish");
      await trim;
      assert.deepEqual(order, ["publish", "trim"]);
    })
  ));

Deno.test("S17 S16 whatever moves counters at once, they agree with the rows in the end", () =>
  inTempDir(async (file) => {
    await withProvider(file, SPECS, async (opened) => {
      const { provider } = opened;
      const store = await filled(opened, 300);
      const queue: QueueStore = provider.queue("jobs");
      const letters = provider.append("jobs__dlq");
      const log = provider.append(BROADCAST_LOG);
      const work: Promise<unknown>[] = [];
      for (let i = 1; i <= 60; i++) {
        work.push(publish(provider, appendRow(store, message("t", `p${i}`))));
        const job = {
          kind: "enqueue",
          store: queue,
          message: message("j", "x"),
          offset: 0,
        } as const;
        work.push(publish(provider, job));
        if (i % 5 === 0) work.push(store.trim(0n, store.bytes() - 200));
        if (i % 3 === 0) {
          const moved = queue.deadLetter(i / 3, undefined, message("j", "dead"), letters);
          work.push(moved);
        }
        work.push(publish(provider, appendRow(log, message("t", `p${i}`))));
        if (i % 7 === 0) work.push(log.removeMany([i - 3]));
      }
      await Promise.all(work);
      assert.equal(store.next(), 361);
      assert.ok(letters.next() > 1 && queue.depth() + letters.next() - 1 === 60);
    });
    assert.deepEqual((await check(file)).findings, []);
  }));
