/**
 * What a graceful stop costs a memory provider, beside a plain write and fsync of the same bytes.
 * `deno run -A bench/snapshots.ts [directory]`; the directory has to be on real storage.
 *
 * Rows are named as in 04-storage.md section 23: SnapshotCopyUnderLock is the one turn in which nothing
 * else runs, SnapshotWrite what follows it, ShutdownSnapshotAcrossChannels a whole stop.
 */
import { systemClock } from "../src/platform/clock.ts";
import { randomIds } from "../src/platform/ids.ts";
import { LogfmtLog } from "../src/platform/log.ts";
import type { StoreSpec } from "../src/storage/contract.ts";
import { MemoryProvider } from "../src/storage/memory/provider.ts";
import { type Message, NO_HEADERS, NO_PROPERTIES } from "../src/storage/record.ts";
import { FileDirectory } from "../src/storage/snapshot/directory.ts";
import { channelFile } from "../src/storage/snapshot/file_names.ts";
import { saveSnapshot } from "../src/storage/snapshot/save.ts";

const parent = Deno.args[0] ?? await Deno.makeTempDir({ prefix: "saguin-bench-" });
const RECORDS = [1_000, 10_000, 100_000, 1_000_000];
const CHANNELS = [10, 100, 1_000, 10_000];
const RUNS = 3;
const PIECE = 512 * 1024;

const ids = randomIds();
const log = new LogfmtLog("bench", "error", systemClock, () => {});
const stamp = { writtenAt: systemClock.wall(), revision: "bench" };
const settled = () => {};

function message(): Message {
  return {
    messageId: ids.messageId(),
    topic: "site/area/device/7",
    timestamp: systemClock.wall(),
    headers: NO_HEADERS,
    properties: NO_PROPERTIES,
    payload: new Uint8Array(128).fill(1),
    retain: false,
    bridge: "",
    clientId: "publisher",
    qos: 1,
    groupCopy: false,
    onlyFor: "",
  };
}

async function open(path: string, channels: readonly string[]): Promise<MemoryProvider> {
  const provider = new MemoryProvider({
    name: "bench",
    maxBytes: undefined,
    reserveBytes: 0,
    clock: systemClock,
    log,
    snapshots: { directory: new FileDirectory(path), revision: "bench" },
  });
  await provider.open(channels.map((channel): StoreSpec => ({ channel, kind: "append" })));
  return provider;
}

function fill(provider: MemoryProvider, channel: string, records: number): void {
  const store = provider.append(channel);
  for (let i = 0; i < records; i++) {
    const row = { kind: "append" as const, store, message: message(), offset: 0 };
    provider.submit({ rows: [row], bytes: 128, settled });
  }
}

/** Writes and syncs so many bytes, as plainly as can be. */
async function plainWrite(path: string, bytes: number): Promise<number> {
  const piece = new Uint8Array(PIECE).fill(7);
  const begun = performance.now();
  const file = await Deno.open(path, { write: true, create: true, truncate: true });
  for (let left = bytes; left > 0;) left -= await file.write(piece.subarray(0, left));
  await file.sync();
  file.close();
  return performance.now() - begun;
}

function median(values: number[]): number {
  return values.sort((a, b) => a - b)[values.length >> 1];
}

function ms(value: number): string {
  return (value < 10 ? value.toFixed(2) : value.toFixed(0)).padStart(10);
}

async function within<T>(run: (path: string) => Promise<T>): Promise<T> {
  const path = await Deno.makeTempDir({ dir: parent });
  try {
    return await run(path);
  } finally {
    await Deno.remove(path, { recursive: true });
  }
}

/** Fills a provider, stops it, and answers what the parts of that took; nothing of it stays in memory. */
async function stop(path: string, records: number) {
  const provider = await open(path, ["events"]);
  fill(provider, "events", records);
  const [copies, writes, plain]: number[][] = [[], [], []];
  let bytes = 0;
  for (let run = 0; run < RUNS; run++) {
    const begun = performance.now();
    const state = provider.copy();
    const copied = performance.now();
    await saveSnapshot(new FileDirectory(path), state, stamp);
    copies.push(copied - begun);
    writes.push(performance.now() - copied);
    bytes = (await Deno.stat(`${path}/${channelFile("events")}`)).size;
    plain.push(await plainWrite(`${path}/plain`, bytes));
  }
  await provider.close();
  return { copies, writes, plain, bytes };
}

console.log("records       copy ms  write ms  plain ms   write/plain   load ms     MiB");
for (const records of RECORDS) {
  await within(async (path) => {
    const { copies, writes, plain, bytes } = await stop(path, records);
    const loading = performance.now();
    const again = await open(path, ["events"]);
    const loaded = performance.now() - loading;
    if (again.append("events").next() !== records + 1) throw new Error("not everything came back");
    const [write, raw] = [median(writes), median(plain)];
    console.log(
      String(records).padEnd(10) + ms(median(copies)) + ms(write) + ms(raw) +
        (write / raw).toFixed(2).padStart(14) + ms(loaded) +
        (bytes / 1024 / 1024).toFixed(1).padStart(8),
    );
  });
}

console.log("\nchannels     stop ms   (8 records each)");
for (const count of CHANNELS) {
  await within(async (path) => {
    const channels = Array.from({ length: count }, (_, i) => `channel-${i}`);
    const provider = await open(path, channels);
    for (const channel of channels) fill(provider, channel, 8);
    const begun = performance.now();
    await provider.close();
    console.log(String(count).padEnd(10) + ms(performance.now() - begun));
  });
}

if (Deno.args[0] === undefined) await Deno.remove(parent, { recursive: true });
