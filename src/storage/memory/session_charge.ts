import { isFault, levels, splitShared } from "../../topics/filter.ts";
import type { SessionRecord, StoredWill } from "../contract.ts";
import { utf8Length } from "../record.ts";

/**
 * What a session counts against a memory provider (02b-config.md section 15): its cost in the whole
 * broker, not only in its store. Log messages on its wire are bounded by its window and charged nowhere.
 */
const SESSION_BYTES = 3_500;
const FILTER_BYTES = 800;
const SHARED_FILTER_BYTES = 400;
const LEVEL_BYTES = 600;

export function sessionCharge(record: SessionRecord): number {
  let bytes = SESSION_BYTES + utf8Length(record.clientId);
  for (const { filter } of record.subscriptions) bytes += filterCharge(filter);
  if (record.will !== undefined) bytes += willCharge(record.will);
  return bytes;
}

function filterCharge(filter: string): number {
  const shared = splitShared(filter);
  const isShared = shared !== undefined && !isFault(shared);
  const depth = levels(isShared ? shared.filter : filter);
  return FILTER_BYTES + (isShared ? SHARED_FILTER_BYTES : 0) + LEVEL_BYTES * (depth - 1) +
    utf8Length(filter);
}

function willCharge(will: StoredWill): number {
  const { contentType, responseTopic, correlationData } = will.properties;
  let bytes = utf8Length(will.topic) + will.payload.byteLength;
  bytes += utf8Length(contentType ?? "") + utf8Length(responseTopic ?? "");
  bytes += correlationData?.byteLength ?? 0;
  for (const [name, value] of will.headers) bytes += utf8Length(name) + utf8Length(value);
  return bytes;
}
