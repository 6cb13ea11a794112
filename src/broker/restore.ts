import type { SessionImage } from "../storage/contract.ts";
import { type Offset, recordSize, type StoredRecord } from "../storage/record.ts";
import { matches } from "../topics/filter.ts";
import { inSlices } from "../topics/partition.ts";
import type { BroadcastLog } from "./log.ts";
import type { Session } from "./session.ts";
import { ENTRY_BYTES, type WindowEntry } from "./window.ts";

const READ_RECORDS = 512;
const READ_BYTES = 4 * 1024 * 1024;

interface Restored {
  readonly session: Session;
  readonly image: SessionImage;
}

interface Reading {
  readonly session: Session;
  readonly image: SessionImage;
  readonly inFlight: ReadonlyMap<Offset, SessionImage["inFlight"][number]>;
  readonly owed: { offset: Offset; bytes: number }[];
  readonly onWire: WindowEntry[];
}

/**
 * Counts at the start who is owed what of the broadcast log (D5.19): every session that came back is
 * owed what its filters matched when it was published, beyond its cursor; what was on its wire goes
 * again under its packet identifiers.
 */
export async function restoreLog(log: BroadcastLog, restored: readonly Restored[]): Promise<void> {
  const readings = restored.map(({ session, image }): Reading => ({
    session,
    image,
    inFlight: new Map(image.inFlight.map((row) => [row.offset, row])),
    owed: [],
    onWire: [],
  }));
  const { store } = log;
  for (let from = store.floor(); from < store.next();) {
    const window = await store.readFrom(from, READ_RECORDS, READ_BYTES);
    if (window.belowFloor) {
      from = window.floor;
      continue;
    }
    if (window.records.length === 0) break;
    for (const record of window.records) {
      let owers = 0;
      for (const reading of readings) if (takes(reading, record)) owers++;
      log.restore(record.offset, owers);
      from = record.offset + 1;
    }
  }
  for (const { session, owed, onWire } of readings) {
    // The window keeps the order of sending, which is the order of packet identifiers' offsets.
    for (const entry of onWire) session.window.add(entry);
    session.log?.restore(owed, onWire);
  }
}

/** True when the session is owed the record, on its wire or beyond it. */
function takes(reading: Reading, record: StoredRecord): boolean {
  const { offset, message } = record;
  const { session, image } = reading;
  const row = reading.inFlight.get(offset);
  if (row !== undefined) {
    reading.onWire.push({
      packetId: row.packetId,
      qos: row.qos,
      state: row.state,
      source: session.log!,
      offset,
      era: 0,
      bytes: recordSize(message) + ENTRY_BYTES,
      delivery: {
        message,
        qos: row.qos,
        retain: false,
        dup: true,
        packetId: row.packetId,
        identifiers: [],
        labels: [],
        expiry: undefined,
      },
    });
    return true;
  }
  if (offset < image.cursor || message.groupCopy) return false;
  if (message.onlyFor !== "" && message.onlyFor !== session.clientId) return false;
  const owed = image.record.subscriptions.some((subscription) =>
    subscription.qos > 0 && subscription.logOffset <= offset &&
    !(subscription.noLocal && message.clientId === session.clientId) &&
    matches(subscription.filter, message.topic) && inSlices(subscription.partitions, message.topic)
  );
  if (owed) reading.owed.push({ offset, bytes: recordSize(message) });
  return owed;
}
