/** What tests of ingest tables have in common: tables, rows as publishes make them. */
import assert from "node:assert/strict";
import {
  type Provider,
  type PublishRow,
  StorageFailure,
} from "../../../../src/storage/contract.ts";
import type { IngestTable } from "../../../../src/storage/ingest.ts";
import { NO_HEADERS, NO_PROPERTIES } from "../../../../src/storage/record.ts";
import type { AmqpHouse } from "./amqp_provider.ts";

export const bytes = (text: string) => new TextEncoder().encode(text);
export const MS = 1_000_000n;

export const PLAIN: IngestTable = { name: "readings", columns: new Map(), index: [] };
export const WITH_COLUMNS: IngestTable = {
  name: "readings",
  columns: new Map([["value", "REAL"], ["unit", "TEXT"], ["pos.lat", "REAL"]]),
  index: ["value"],
};

export function rowOf(provider: Provider, payload: string | Uint8Array, changes: {
  readonly topic?: string;
  readonly at?: number;
  readonly messageId?: string;
  readonly table?: number;
} = {}): PublishRow {
  const { topic = "plant/kiln/t", at = 1_000, messageId = "", table = 0 } = changes;
  return {
    kind: "ingest",
    store: provider.ingest(),
    table,
    message: {
      messageId,
      topic,
      timestamp: BigInt(at) * MS + 999_999n,
      headers: NO_HEADERS,
      properties: NO_PROPERTIES,
      payload: typeof payload === "string" ? bytes(payload) : payload,
      retain: false,
      bridge: "",
      clientId: "c",
      qos: 1,
      groupCopy: false,
      onlyFor: "",
    },
    offset: 0,
  };
}

export function submit(
  provider: Provider,
  ...rows: PublishRow[]
): Promise<StorageFailure | undefined> {
  return new Promise((settled) => provider.submit({ rows, bytes: 100, settled }));
}

export async function stored(house: AmqpHouse, ...rows: PublishRow[]): Promise<void> {
  assert.equal(await submit(house.provider, ...rows), undefined);
}

/** `count` rows whose value is their number, a millisecond apart, every second one of topic t/1. */
export async function filled(house: AmqpHouse, count: number): Promise<void> {
  const rows = Array.from(
    { length: count },
    (_, i) =>
      rowOf(house.provider, `{"value":${i},"unit":"C"}`, {
        topic: `t/${i % 2}`,
        at: i,
        messageId: `m${i}`,
      }),
  );
  await stored(house, ...rows);
}
