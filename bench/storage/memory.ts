/**
 * What a record costs in a memory provider: bytes of heap and buffers beside the bytes it is charged, and
 * time to store, read and trim it. Needs --v8-flags=--expose-gc for the first of them.
 */
import type { AppendStore, Provider, PublishRow, StoreKind } from "../../src/storage/contract.ts";
import type { Message } from "../../src/storage/record.ts";
import { table } from "../support/measure.ts";
import { message, openMemory, type Scale, type Target } from "./support.ts";

const KINDS = ["append", "latest", "queue"] as const;
const settled = () => {};

function row(provider: Provider, kind: StoreKind, message: Message): PublishRow {
  if (kind === "append") return { kind, store: provider.append(kind), message, offset: 0 };
  if (kind === "latest") return { kind: "set", store: provider.latest(kind), message, offset: 0 };
  return { kind: "enqueue", store: provider.queue(kind), message, offset: 0 };
}

/** Undefined where the collector cannot be asked. */
function used(): number | undefined {
  const collect = (globalThis as { gc?: () => void }).gc;
  if (collect === undefined) return undefined;
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

async function measure(kind: StoreKind, payloadBytes: number, records: number): Promise<string[]> {
  const provider = await openMemory(KINDS.map((kind) => ({ channel: kind, kind })));
  // As the codec makes them: the payload is a view of a buffer that is read into again.
  const buffer = new Uint8Array(65_536);
  const payload = buffer.subarray(100, 100 + payloadBytes);
  const topics = kind === "latest" ? records : 1_000;
  const before = used();
  const start = performance.now();
  for (let i = 0; i < records; i++) {
    const published = { ...message(i, 0), topic: `site/area/device/${i % topics}`, payload };
    const rows = [row(provider, kind, published)];
    provider.submit({ rows, bytes: payloadBytes, settled });
  }
  const stored = performance.now();
  const after = used();
  const inMemory = before === undefined || after === undefined
    ? "-"
    : ((after - before) / records).toFixed(0);
  const charged = provider.statistics().bytes / records;
  const cells = [
    kind,
    String(payloadBytes),
    inMemory,
    charged.toFixed(0),
    ((stored - start) * 1e3 / records).toFixed(2),
  ];
  if (kind !== "append") return [...cells, "-", "-"];
  const store = provider.append(kind);
  const reading = performance.now();
  const count = await readAll(store);
  const read = performance.now() - reading;
  const trimming = performance.now();
  await store.trim(0n, 0);
  const trimmed = performance.now() - trimming;
  return [...cells, (read * 1e3 / count).toFixed(2), (trimmed * 1e3 / count).toFixed(2)];
}

export async function benchmarkMemory(scale: Scale): Promise<Target[]> {
  const rows: string[][] = [];
  for (const kind of KINDS) {
    for (const payloadBytes of scale.smoke ? [128] : [16, 128, 1_024]) {
      rows.push(await measure(kind, payloadBytes, scale.smoke ? 10_000 : 200_000));
    }
  }
  const heads = ["", "payload", "in memory B", "charged B", "store us", "read us", "trim us"];
  console.log(table(heads, rows));
  return [];
}
