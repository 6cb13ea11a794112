/**
 * What a record costs in a memory provider: bytes of heap and buffers beside the bytes it is charged,
 * and time to store, read and trim it. `deno run -A --v8-flags=--expose-gc bench/memory_store.ts [records]`
 */
import { systemClock } from "../src/platform/clock.ts";
import { randomIds } from "../src/platform/ids.ts";
import { LogfmtLog } from "../src/platform/log.ts";
import type { AppendStore, Provider, PublishRow, StoreKind } from "../src/storage/contract.ts";
import { MemoryProvider } from "../src/storage/memory/provider.ts";
import { type Message, NO_HEADERS, NO_PROPERTIES } from "../src/storage/record.ts";

const RECORDS = Number(Deno.args[0] ?? 1_000_000);
const ids = randomIds();

/** A message as the codec makes it: its payload is a view of a read buffer. */
function message(topic: string, buffer: Uint8Array, bytes: number): Message {
  return {
    messageId: ids.messageId(),
    topic,
    timestamp: systemClock.wall(),
    headers: NO_HEADERS,
    properties: NO_PROPERTIES,
    payload: buffer.subarray(100, 100 + bytes),
    retain: false,
    bridge: "",
    clientId: "publisher",
    qos: 1,
    groupCopy: false,
    onlyFor: "",
  };
}

async function open(): Promise<Provider> {
  const log = new LogfmtLog("bench", "error", systemClock, () => {});
  const provider = new MemoryProvider({
    name: "bench",
    maxBytes: undefined,
    reserveBytes: 0,
    clock: systemClock,
    log,
  });
  await provider.open([
    { channel: "append", kind: "append" },
    { channel: "latest", kind: "latest" },
    { channel: "queue", kind: "queue" },
  ]);
  return provider;
}

function row(provider: Provider, kind: StoreKind, message: Message): PublishRow {
  if (kind === "append") {
    return { kind: "append", store: provider.append(kind), message, offset: 0 };
  }
  if (kind === "latest") return { kind: "set", store: provider.latest(kind), message, offset: 0 };
  return { kind: "enqueue", store: provider.queue(kind), message, offset: 0 };
}

function used(): number {
  const collect = (globalThis as { gc?: () => void }).gc;
  if (collect === undefined) throw new Error("run with --v8-flags=--expose-gc");
  collect();
  collect();
  const { heapUsed, external } = Deno.memoryUsage();
  return heapUsed + external;
}

async function readAll(store: AppendStore): Promise<number> {
  let read = 0;
  for (let offset = store.floor(); offset < store.next();) {
    const window = await store.readFrom(offset, 256, 1_000_000);
    if (window.belowFloor) throw new Error("below the floor");
    read += window.records.length;
    offset = window.records[window.records.length - 1].offset + 1;
  }
  return read;
}

const settled = () => {};
console.log("kind    payload  in memory B/record  charged B/record  store us  read us  trim ns");
for (const kind of ["append", "latest", "queue"] as const) {
  for (const bytes of [16, 128, 1024]) {
    const records = bytes === 1024 ? RECORDS / 4 : RECORDS;
    const provider = await open();
    const buffer = new Uint8Array(65_536);
    const topics = Array.from(
      { length: kind === "latest" ? records : 1_000 },
      (_, i) => `site/area/device/${i}`,
    );
    const before = used();
    const start = performance.now();
    for (let i = 0; i < records; i++) {
      const published = message(topics[i % topics.length], buffer, bytes);
      provider.submit({ rows: [row(provider, kind, published)], bytes, settled });
    }
    const stored = performance.now();
    const inMemory = (used() - before) / records;
    const charged = provider.statistics().bytes / records;
    let read = "-";
    let trim = "-";
    if (kind === "append") {
      const store = provider.append(kind);
      const reading = performance.now();
      const count = await readAll(store);
      read = ((performance.now() - reading) * 1e3 / count).toFixed(2);
      const trimming = performance.now();
      await store.trim(0n, 0);
      trim = ((performance.now() - trimming) * 1e6 / count).toFixed(0);
    }
    console.log(
      kind.padEnd(8) + String(bytes).padStart(7) + inMemory.toFixed(0).padStart(20) +
        charged.toFixed(0).padStart(18) +
        ((stored - start) * 1e3 / records).toFixed(2).padStart(10) + read.padStart(9) +
        trim.padStart(9),
    );
  }
}
