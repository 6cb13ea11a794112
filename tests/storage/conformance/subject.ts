import {
  type AppendStore,
  BROADCAST_LOG,
  type LatestStore,
  type Provider,
  type QueueStore,
  type RecordRow,
  RETAINED,
  type StorageFailure,
  type StoreSpec,
} from "../../../src/storage/contract.ts";
import {
  type Message,
  NO_HEADERS,
  NO_PROPERTIES,
  type Offset,
  recordSize,
} from "../../../src/storage/record.ts";

/** An implementation under the conformance script. */
export interface Subject {
  readonly name: string;
  /** A new, empty provider that is open with `STORES`. */
  open(bound?: Bound): Promise<Opened>;
  /** A bound under which some hundred records of 1 KB fit. */
  readonly bound: Bound;
}

export interface Bound {
  readonly maxBytes: number;
  readonly reserveBytes: number;
}

export interface Opened extends AsyncDisposable {
  provider: Provider;
  /** Stops and starts again on what was kept; `provider` is the new one. */
  restart(): Promise<void>;
}

export const STORES: readonly StoreSpec[] = [
  { channel: "events", kind: "append" },
  { channel: "audit", kind: "append" },
  { channel: "state", kind: "latest" },
  { channel: "jobs", kind: "queue" },
  { channel: "jobs__dlq", kind: "append" },
  { channel: BROADCAST_LOG, kind: "append" },
  { channel: RETAINED, kind: "latest" },
];

const encoder = new TextEncoder();

/** A message of the size of its parts; `payload` is text. */
export function message(
  topic: string,
  payload: string,
  fields: Partial<Message> = {},
): Message {
  return {
    messageId: "id",
    topic,
    timestamp: 1_700_000_000_000_000_000n,
    headers: NO_HEADERS,
    properties: NO_PROPERTIES,
    payload: encoder.encode(payload),
    retain: false,
    bridge: "",
    clientId: "",
    qos: 1,
    groupCopy: false,
    onlyFor: "",
    ...fields,
  };
}

export function text(message: Message): string {
  return new TextDecoder().decode(message.payload);
}

/** What an entry answered: the offsets of its rows, or why nothing of it was kept. */
export type Outcome = readonly Offset[] | "full" | "failed";

export function submit(provider: Provider, rows: RecordRow[]): Promise<Outcome> {
  return new Promise((resolve) => {
    let bytes = 0;
    for (const row of rows) {
      bytes += recordSize(row.kind === "hold" ? row.hold.message : row.message);
    }
    provider.submit({
      rows,
      bytes,
      settled: (failure: StorageFailure | undefined) =>
        resolve(failure === undefined ? rows.map((row) => row.offset) : failure.kind),
    });
  });
}

export function appended(store: AppendStore, message: Message): RecordRow {
  return { kind: "append", store, message, offset: 0 };
}

export function set(store: LatestStore, message: Message): RecordRow {
  return { kind: "set", store, message, offset: 0 };
}

export function retained(store: LatestStore, message: Message): RecordRow {
  return { kind: "retain", store, message, offset: 0 };
}

export function enqueued(store: QueueStore, message: Message): RecordRow {
  return { kind: "enqueue", store, message, offset: 0 };
}

export function held(
  store: AppendStore | LatestStore | QueueStore,
  clientId: string,
  packetId: number,
  message: Message,
): RecordRow {
  return { kind: "hold", store, hold: { clientId, packetId, heldAt: 5n, message }, offset: 0 };
}

/** A window as text: `1:a 2:b`, or `below 7`. */
export async function window(
  store: AppendStore,
  from: Offset,
  max = 100,
  maxBytes = 1_000_000,
): Promise<string> {
  const answer = await store.readFrom(from, max, maxBytes);
  if (answer.belowFloor) return `below ${answer.floor}`;
  return answer.records.map(({ offset, message }) => `${offset}:${text(message)}`).join(" ");
}

/** All values of a scan as `topic=payload@offset`, in the order of their topics. */
export async function values(
  store: LatestStore,
  filter: string,
  options: { from?: Offset; deletions?: boolean; page?: number } = {},
): Promise<string> {
  const scan = store.scan(filter, options.from ?? 0, options.deletions ?? false);
  const found: string[] = [];
  for (;;) {
    const page = await scan.next(options.page ?? 100);
    if (page.length === 0) break;
    for (const { offset, message } of page) {
      found.push(`${message.topic}=${text(message)}@${offset}`);
    }
  }
  return found.sort().join(" ");
}

/** `next floor bytes` of a log. */
export function counters(store: AppendStore | QueueStore): string {
  const depth = store.kind === "queue" ? ` depth=${store.depth()}` : "";
  return `next=${store.next()} floor=${store.floor()} bytes=${store.bytes()}${depth}`;
}

/** `full`, `failed`, or what the call answered. */
export async function kindOf<T>(call: Promise<T>): Promise<T | "full" | "failed"> {
  try {
    return await call;
  } catch (error) {
    return (error as StorageFailure).kind;
  }
}
