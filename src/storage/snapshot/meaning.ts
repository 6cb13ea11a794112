import { sessionReader } from "../contract.ts";
import type { InFlight, Position, SessionImage } from "../contract.ts";
import type { ChannelState } from "../memory/state.ts";
import type { Offset, StoredRecord } from "../record.ts";
import type { StoredSession } from "./decode.ts";
import { SnapshotFault } from "./format.ts";

/**
 * What a checksum cannot say of a channel: that its numbers agree with each other (S57). Reads stop early,
 * so one step backwards would hide every record behind it.
 *
 * @return everything that contradicts, each as the end of a sentence about the channel
 */
export function* contradictions(channel: ChannelState): Generator<string> {
  const { next, floor } = channel;
  if (floor < 1 || floor > next) yield `has floor ${floor} and next offset ${next}`;
  let last = 0;
  for (const offset of offsetsOf(channel)) {
    if (offset <= last) yield `has offset ${offset} after ${last}`;
    if (offset < floor) yield `has offset ${offset} below its floor ${floor}`;
    if (offset >= next) yield `has offset ${offset} at or past its next offset ${next}`;
    last = offset;
  }
  if (channel.kind === "latest") {
    const topics = channel.records.map(({ message }) => message.topic);
    for (const topic of repeated(topics)) yield `has two values of topic ${topic}`;
  }
  const readers = channel.positions.map(({ reader }) => reader);
  for (const reader of repeated(readers)) yield `has two positions of ${reader}`;
  for (const { reader, offset } of channel.positions) {
    if (offset > next) yield `has the position of ${reader} at ${offset}, past its end ${next}`;
  }
  const packets = channel.holds.map(({ clientId, packetId }) => `${packetId} of ${clientId}`);
  for (const packet of repeated(packets)) yield `holds packet ${packet} twice`;
}

function* offsetsOf({ kind, packed, records, jobs }: ChannelState): Generator<Offset> {
  if (packed !== undefined) yield* packed.offsets();
  for (const { offset } of kind === "queue" ? jobs : records) yield offset;
}

/** @throws SnapshotFault for the first contradiction */
export function checkChannel(channel: ChannelState): void {
  for (const says of contradictions(channel)) {
    throw new SnapshotFault(`contradicts itself: channel ${channel.name} ${says}`);
  }
}

/** What sessions are checked against: the log that was loaded with them. */
export interface LoadedLog {
  readonly next: Offset;
  readonly records: readonly StoredRecord[];
  /** The sessions' cursors. */
  readonly positions: readonly Position[];
}

/**
 * Joins sessions with their log (S65): an entry that the session's cursor has passed is gone, unless a group
 * handed it over; one whose message the log no longer has counts as acknowledged; a session without a cursor
 * ended before that log was written.
 *
 * @throws SnapshotFault for a table larger than its window, or an entry the log never had
 */
export function joinSessions(
  stored: readonly StoredSession[],
  log: LoadedLog,
): { readonly sessions: readonly SessionImage[]; readonly ended: number } {
  onlyOnce(stored.map(({ record }) => record.clientId), (clientId) => {
    throw new SnapshotFault(`contradicts itself: it has two sessions of ${clientId}`);
  });
  const cursors = new Map<string, Offset>();
  for (const { reader, offset } of log.positions) cursors.set(reader, offset);
  const sessions: SessionImage[] = [];
  for (const { record, inFlight } of stored) {
    const { clientId, window } = record;
    checkWindow(clientId, window, inFlight, log.next);
    const cursor = cursors.get(sessionReader(clientId));
    if (cursor === undefined) continue;
    const kept = inFlight.filter(({ offset, group }) =>
      (offset >= cursor || group !== "") && has(log.records, offset)
    );
    sessions.push({ record, cursor, inFlight: kept });
  }
  return { sessions, ended: stored.length - sessions.length };
}

function checkWindow(
  clientId: string,
  window: number,
  inFlight: readonly InFlight[],
  logNext: Offset,
): void {
  if (inFlight.length > window) {
    throw new SnapshotFault(
      `contradicts itself: session ${clientId} has ${inFlight.length} messages in flight ` +
        `in a window of ${window}`,
    );
  }
  onlyOnce(inFlight.map(({ packetId }) => packetId), (packetId) => {
    throw new SnapshotFault(`contradicts itself: session ${clientId} has two packets ${packetId}`);
  });
  for (const { offset } of inFlight) {
    if (offset < logNext) continue;
    throw new SnapshotFault(
      `does not belong to its log: session ${clientId} has message ${offset} in flight, ` +
        `and the log's next one is ${logNext}`,
    );
  }
}

function has(records: readonly StoredRecord[], offset: Offset): boolean {
  let low = 0;
  let high = records.length;
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (records[middle].offset < offset) low = middle + 1;
    else high = middle;
  }
  return low < records.length && records[low].offset === offset;
}

function onlyOnce<T>(items: readonly T[], twice: (item: T) => void): void {
  for (const item of repeated(items)) twice(item);
}

function* repeated<T>(items: readonly T[]): Generator<T> {
  const seen = new Set<T>();
  for (const item of items) {
    if (seen.has(item)) yield item;
    seen.add(item);
  }
}
