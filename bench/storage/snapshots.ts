/** What a graceful stop and the start after it cost, beside a plain write and fsync of the same bytes. */
import { systemClock } from "../../src/platform/clock.ts";
import { FileDirectory } from "../../src/storage/snapshot/directory.ts";
import { channelFile, channelsFiles } from "../../src/storage/snapshot/file_names.ts";
import { saveSnapshot } from "../../src/storage/snapshot/save.ts";
import type { StoreSpec } from "../../src/storage/contract.ts";
import { median, table } from "../support/measure.ts";
import {
  atMost,
  fill,
  ms,
  openMemory,
  openSqlite,
  PlainDatabase,
  plainWrite,
  type Scale,
  type Target,
  within,
} from "./support.ts";

const EVENTS: readonly StoreSpec[] = [{ channel: "events", kind: "append" }];
const FILES_AT_ONCE = 4;
const RECORDS_A_CHANNEL = 8;
const MILLION = 1_000_000;

function channels(count: number): StoreSpec[] {
  return Array.from({ length: count }, (_, i) => ({ channel: `channel-${i}`, kind: "append" }));
}

/** Fills a provider and stops it: the one turn of the copy, what follows it, and a plain write beside it. */
async function stop(path: string, records: number, rounds: number) {
  const provider = await openMemory(EVENTS, path);
  fill(provider, "events", records);
  const [copies, writes, plains]: number[][] = [[], [], []];
  let bytes = 0;
  for (let round = 0; round < rounds; round++) {
    const begun = performance.now();
    const state = provider.copy();
    const copied = performance.now();
    const stamp = { writtenAt: systemClock.wall(), revision: "bench" };
    await saveSnapshot(new FileDirectory(path), state, stamp);
    copies.push(copied - begun);
    writes.push(performance.now() - copied);
    bytes = (await Deno.stat(`${path}/${channelFile("events")}`)).size;
    plains.push(await plainWrite(`${path}/plain`, bytes));
  }
  await Deno.remove(`${path}/plain`);
  await provider.close();
  return { copy: median(copies), write: median(writes), plain: median(plains), bytes };
}

/** Reads the file, and touches each page of it once: what no start can do without. */
async function plainRead(path: string): Promise<number> {
  const begun = performance.now();
  const bytes = (await new FileDirectory(path).read(channelFile("events")))!;
  let sum = 0;
  for (let at = 0; at < bytes.byteLength; at += 4096) sum += bytes[at];
  if (sum === 0) throw new Error("an empty file");
  return performance.now() - begun;
}

export async function benchmarkSnapshot(scale: Scale): Promise<Target[]> {
  const targets: Target[] = [];
  const rows: string[][] = [];
  for (const records of scale.smoke ? [1_000, 20_000] : [1_000, 10_000, 100_000, MILLION]) {
    await within(scale.directory, async (path) => {
      const { copy, write, plain, bytes } = await stop(path, records, scale.rounds);
      const reading = await plainRead(path);
      const opening = performance.now();
      const again = await openMemory(EVENTS, path);
      const opened = performance.now() - opening;
      if (again.append("events").next() !== records + 1) throw new Error("not all came back");
      await again.abandon();
      rows.push([
        records.toLocaleString("en"),
        (bytes / 2 ** 20).toFixed(1),
        ms(copy),
        ms(write),
        ms(plain),
        (write / plain).toFixed(2),
        ms(opened),
        ms(reading),
        (opened / reading).toFixed(2),
      ]);
      if (records !== MILLION) return;
      targets.push(
        atMost("snapshot write, 1M records / plain write and fsync", write / plain, 2),
        atMost("opening a memory provider, 1M records", opened, 100, " ms"),
        {
          what: "the same / reading the file and touching its pages",
          measured: (opened / reading).toFixed(2),
          promised: "-",
          kept: undefined,
        },
      );
    });
  }
  const heads = ["records", "MiB", "copy ms", "write ms", "plain ms", "x plain"];
  console.log(table([...heads, "open ms", "read ms", "x read"], rows));
  return targets;
}

export function benchmarkSelection(scale: Scale): Promise<Target[]> {
  const rows = [10, 1_000, 10_000].map((count) => {
    const specs = channels(count);
    const times: number[] = [];
    for (let round = 0; round < scale.rounds * 5; round++) {
      const begun = performance.now();
      channelsFiles(specs);
      times.push(performance.now() - begun);
    }
    return [count.toLocaleString("en"), ms(median(times))];
  });
  console.log(table(["channels", "ms"], rows));
  return Promise.resolve([]);
}

/** The same files by hand: written under another name, synced, renamed, four at a time, the directory last. */
async function plainFiles(path: string, count: number, bytes: number): Promise<number> {
  const content = new Uint8Array(bytes).fill(7);
  const begun = performance.now();
  let next = 0;
  await Promise.all(Array.from({ length: FILES_AT_ONCE }, async () => {
    while (next < count) {
      const name = `${path}/plain-${next++}`;
      const file = await Deno.open(name + ".tmp", { write: true, create: true });
      await file.write(content);
      await file.sync();
      file.close();
      await Deno.rename(name + ".tmp", name);
    }
  }));
  using directory = await Deno.open(path);
  await directory.sync();
  return performance.now() - begun;
}

export async function benchmarkShutdown(scale: Scale): Promise<Target[]> {
  const rows: string[][] = [];
  for (const count of scale.smoke ? [10, 100] : [10, 100, 1_000, 10_000]) {
    await within(scale.directory, async (path) => {
      const specs = channels(count);
      const provider = await openMemory(specs, path);
      for (const { channel } of specs) fill(provider, channel, RECORDS_A_CHANNEL);
      const begun = performance.now();
      await provider.close();
      const stopped = performance.now() - begun;
      const { size } = await Deno.stat(`${path}/${channelFile("channel-0")}`);
      const plain = await plainFiles(path, count, size);
      const row = [stopped, plain].map(ms);
      rows.push([count.toLocaleString("en"), ...row, (stopped / plain).toFixed(2)]);
    });
  }
  console.log(table(["channels", "stop ms", "plain ms", "x plain"], rows));
  return [];
}

const IDLE_THREAD = "data:text/javascript,onmessage = () => postMessage(0)";

/** Milliseconds until two threads that do nothing have answered: a writer and a reader are two. */
async function twoThreads(): Promise<number> {
  const begun = performance.now();
  await Promise.all([0, 1].map(() => {
    const worker = new Worker(IDLE_THREAD, { type: "module" });
    return new Promise<void>((resolve) => {
      worker.onmessage = () => {
        worker.terminate();
        resolve();
      };
      worker.postMessage(0);
    });
  }));
  return performance.now() - begun;
}

/** Opening a database of many records, beside starting as many threads as that takes. */
export async function benchmarkOpening(scale: Scale): Promise<Target[]> {
  const records = scale.smoke ? 20_000 : MILLION;
  const path = `${scale.directory}/opened.db`;
  const database = new PlainDatabase(path, "NORMAL");
  database.fill(records);
  database.close();
  const specs: StoreSpec[] = [{ channel: "readings", kind: "append" }];
  const [times, threads]: number[][] = [[], []];
  for (let round = 0; round < scale.rounds; round++) {
    threads.push(await twoThreads());
    const begun = performance.now();
    const { provider, close } = await openSqlite(path, specs);
    times.push(performance.now() - begun);
    if (provider.append("readings").next() !== records + 1) throw new Error("not all is there");
    await close();
  }
  console.log(
    `${records.toLocaleString("en")} records: ${
      ms(median(times))
    } ms, of which two threads that do ` +
      `nothing take ${ms(median(threads))} ms`,
  );
  if (scale.smoke) return [];
  return [atMost("opening a sqlite provider, 1M records", median(times), 100, " ms")];
}
