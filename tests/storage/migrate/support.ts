/** What migrations are tried on: providers' contents of every shape, and who hears of a migration. */
import { DatabaseSync } from "node:sqlite";
import type { Position, SessionImage } from "../../../src/storage/contract.ts";
import { BROADCAST_LOG, RETAINED } from "../../../src/storage/contract.ts";
import type { ChannelState, ProviderState } from "../../../src/storage/memory/state.ts";
import type { MigrationReport } from "../../../src/storage/migrate/report.ts";
import {
  type Headers,
  type Message,
  NO_HEADERS,
  NO_PROPERTIES,
  type PublishProperties,
  type QoS,
} from "../../../src/storage/record.ts";
import { decodeChannels } from "../../../src/storage/snapshot/decode.ts";
import { FileDirectory } from "../../../src/storage/snapshot/directory.ts";
import { openFile } from "../../../src/storage/snapshot/file_header.ts";
import { FileKind } from "../../../src/storage/snapshot/format.ts";
import { saveSnapshot } from "../../../src/storage/snapshot/save.ts";
import { TABLE_NAMES } from "../../../src/storage/sqlite/schema.ts";
import type { Dice } from "../conformance/random_steps.ts";
import { session } from "../snapshot/world.ts";

export const STAMP = { revision: "0123456789ab", now: 1_767_225_600_000_000_000n };

/** Runs `use` in a directory of its own. */
export async function inDirectory(use: (path: string) => Promise<void>): Promise<void> {
  const path = await Deno.makeTempDir({ prefix: "saguin-migrate-" });
  try {
    await use(path);
  } finally {
    await Deno.remove(path, { recursive: true });
  }
}

export class RecordedReport implements MigrationReport {
  readonly files: string[] = [];
  readonly failures: string[] = [];
  readonly notes: string[] = [];
  readonly steps: string[] = [];

  moved(file: string, channels: readonly { name: string; entries: number }[]): void {
    this.files.push(`${file} ${channels.map(({ name, entries }) => `${name}=${entries}`)}`);
  }
  failed(sentence: string): void {
    this.failures.push(sentence);
  }
  note(sentence: string): void {
    this.notes.push(sentence);
  }
  progress(text: string): void {
    this.steps.push(text);
  }
}

// ------------------------------------------------------------------------------- what there is

const TEXTS = ["", "a", "\u{e9}\u{1f600}", 'it\'s "quoted"', "with\nline\tand \\", "__proto__"];
const LATEST_MOMENT = 2n ** 63n - 1n;

function moment(dice: Dice): bigint {
  const moments = [0n, 1n, 1_700_000_000_123_456_789n, LATEST_MOMENT, -5n];
  return dice.one([...moments, BigInt(dice.roll(2 ** 31)) * 1_000_000_007n]);
}

function bytes(dice: Dice, most: number): Uint8Array {
  return Uint8Array.from({ length: dice.roll(most + 1) }, () => dice.roll(256));
}

function properties(dice: Dice): PublishProperties {
  if (dice.roll(2) === 0) return NO_PROPERTIES;
  const all = {
    contentType: dice.one(TEXTS),
    responseTopic: dice.one(TEXTS),
    correlationData: bytes(dice, 20),
    payloadFormat: dice.one([0, 1] as const),
    messageExpiry: dice.one([0, 1, 2 ** 32 - 1]),
  };
  const chosen = Object.entries(all).filter(() => dice.roll(2) === 0);
  return chosen.length === 0 ? NO_PROPERTIES : Object.fromEntries(chosen);
}

function headers(dice: Dice): Headers {
  if (dice.roll(2) === 0) return NO_HEADERS;
  return Array.from(
    { length: 1 + dice.roll(3) },
    () => [dice.one(TEXTS), dice.one(TEXTS)] as const,
  );
}

function message(dice: Dice, topic: string): Message {
  return {
    messageId: dice.one(TEXTS),
    topic,
    timestamp: moment(dice),
    headers: headers(dice),
    properties: properties(dice),
    payload: bytes(dice, dice.roll(20) === 0 ? 5_000 : 40),
    retain: dice.roll(2) === 0,
    bridge: dice.one(["", "up"]),
    clientId: dice.one(TEXTS),
    qos: dice.roll(3) as QoS,
    groupCopy: false,
    onlyFor: "",
  };
}

function readers(dice: Dice, next: number): Position[] {
  const names = ["mqtt:a", "mqtt:\u{e9}", "bridge:up a/# b"].filter(() => dice.roll(2) === 0);
  return names.map((reader) => ({
    reader,
    // Below the floor and at the end are both legal.
    offset: 1 + dice.roll(next),
    expiry: dice.one([0, 60, 2 ** 32 - 1]),
    lastSeen: moment(dice),
  }));
}

/** Up to `most` offsets, ascending, in what becomes [floor, next). */
function span(dice: Dice, most: number, gaps: boolean) {
  const entries = dice.roll(most + 1);
  // An empty one was emptied: what never held anything is not moved.
  const floor = dice.one([entries > 0 ? 1 : 2, 2 + dice.roll(1_000), 2 ** 33 + 1]);
  const offsets: number[] = [];
  let next = floor;
  for (let left = entries; left > 0; left--) {
    if (gaps) next += dice.roll(3);
    offsets.push(next++);
  }
  if (gaps) next += dice.roll(3);
  return { floor, next, offsets };
}

function channel(
  dice: Dice,
  name: string,
  kind: ChannelState["kind"],
  most: number,
): ChannelState {
  const { floor, next, offsets } = span(dice, most, kind !== "append");
  const entries = offsets.map((offset, i) => ({
    offset,
    message: message(dice, kind === "latest" ? `t/${i}` : dice.one(TEXTS)),
  }));
  const jobs = kind !== "queue" ? [] : entries.map((entry) => {
    const attempts = dice.roll(3);
    const at = attempts === 0 ? 0n : 1_700_000_000_000_000_000n;
    return { ...entry, attempts, firstDelivered: at, lastDelivered: at + BigInt(attempts) };
  });
  const hold = { clientId: "c", packetId: 7, heldAt: 5n, message: message(dice, "t") };
  return {
    name,
    kind,
    next,
    floor,
    records: kind === "queue" ? [] : entries,
    jobs,
    positions: kind === "append" ? readers(dice, next) : [],
    holds: dice.roll(3) === 0 ? [hold] : [],
  };
}

/** Everything a provider may keep, of every kind at least one. */
export function drawState(dice: Dice, most = 40): ProviderState {
  const channels = [
    channel(dice, "events", "append", most),
    channel(dice, "state", "latest", most),
    channel(dice, "jobs", "queue", most),
    channel(dice, "jobs__dlq", "append", most),
    channel(dice, RETAINED, "latest", most),
    channel(dice, BROADCAST_LOG, "append", 3),
  ];
  for (const name of ["a.b", "...", "A-b_c", "x".repeat(128)]) {
    if (dice.roll(2) === 0) channels.push(channel(dice, name, dice.one(["append", "latest"]), 5));
  }
  const log = channels.find(({ name }) => name === BROADCAST_LOG)!;
  const sessions: SessionImage[] = [
    { record: session("a"), cursor: log.next, inFlight: [] },
  ];
  const groups = [{ name: "$share/g/a", cursor: log.next, returned: [] }];
  return { channels, sessions, groups };
}

export async function writeSnapshots(
  path: string,
  state: ProviderState,
  writtenAt = STAMP.now,
): Promise<void> {
  await Deno.mkdir(path, { recursive: true });
  const stamp = { writtenAt, revision: STAMP.revision };
  const failures = await saveSnapshot(new FileDirectory(path), state, stamp);
  if (failures.length > 0) throw new Error(failures[0].error);
}

/** What a directory's files of channels hold, by name; views of payloads made into copies. */
export function readSnapshots(path: string): Map<string, ChannelState> {
  const found = new Map<string, ChannelState>();
  for (const { name } of Deno.readDirSync(path)) {
    if (!name.endsWith(".snapshot")) continue;
    const { body } = openFile(Deno.readFileSync(`${path}/${name}`), FileKind.Channels);
    for (const state of decodeChannels(body)) found.set(state.name, owned(state));
  }
  return found;
}

function owned(state: ChannelState): ChannelState {
  const own = <T extends { readonly message: Message }>(entry: T): T => ({
    ...entry,
    message: { ...entry.message, payload: entry.message.payload.slice() },
  });
  return { ...state, records: state.records.map(own), jobs: state.jobs.map(own) };
}

/** What is moved of a state: no log, no holds, no channel that never held anything. */
export function movable(state: ProviderState): Map<string, ChannelState> {
  const used = new Map<string, ChannelState>();
  for (const channel of state.channels) {
    if (channel.name === BROADCAST_LOG) continue;
    used.set(
      channel.name,
      owned({
        ...channel,
        holds: [],
        positions: channel.positions.toSorted((a, b) => a.reader < b.reader ? -1 : 1),
      }),
    );
  }
  return used;
}

/** Every row of every table, in key order, but for `meta` and the counters of the log. */
export function rowsOf(path: string): Record<string, unknown[]> {
  const database = new DatabaseSync(path, { readOnly: true });
  try {
    const rows: Record<string, unknown[]> = {};
    for (const table of TABLE_NAMES) {
      if (table === "meta") continue;
      const select = database.prepare(`SELECT * FROM ${table} ORDER BY 1, 2`);
      select.setReadBigInts(true);
      rows[table] = select.all().map((row) => ({ ...row }));
    }
    return rows;
  } finally {
    database.close();
  }
}

/** Names, lengths and contents of a directory's files: what "not touched" means. */
export function contents(path: string): Map<string, Uint8Array> {
  const files = [...Deno.readDirSync(path)].filter(({ isFile }) => isFile);
  // A lock that was there is written when it is taken (S155).
  const read = (name: string) =>
    name.endsWith(".lock") ? new Uint8Array() : Deno.readFileSync(`${path}/${name}`);
  return new Map(files.map(({ name }) => name).sort().map((name) => [name, read(name)]));
}
