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
 * @throws SnapshotFault
 */
export function checkChannel(channel: ChannelState): void {
  const { name, next, floor } = channel;
  const refuse = (what: string) => {
    throw new SnapshotFault(`contradicts itself: channel ${name} ${what}`);
  };
  if (floor < 1 || floor > next) refuse(`has floor ${floor} and next offset ${next}`);
  let last = 0;
  for (const { offset } of channel.kind === "queue" ? channel.jobs : channel.records) {
    if (offset <= last) refuse(`has offset ${offset} after ${last}`);
    if (offset < floor) refuse(`has offset ${offset} below its floor ${floor}`);
    if (offset >= next) refuse(`has offset ${offset} at or past its next offset ${next}`);
    last = offset;
  }
  if (channel.kind === "latest") {
    const topics = channel.records.map(({ message }) => message.topic);
    onlyOnce(topics, (topic) => refuse(`has two values of topic ${topic}`));
  }
  onlyOnce(
    channel.positions.map(({ reader }) => reader),
    (reader) => refuse(`has two positions of ${reader}`),
  );
  for (const { reader, offset } of channel.positions) {
    if (offset > next) refuse(`has the position of ${reader} at ${offset}, past its end ${next}`);
  }
  onlyOnce(
    channel.holds.map(({ clientId, packetId }) => `${packetId} of ${clientId}`),
    (packet) => refuse(`holds packet ${packet} twice`),
  );
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
  const seen = new Set<T>();
  for (const item of items) {
    if (seen.has(item)) twice(item);
    seen.add(item);
  }
}
