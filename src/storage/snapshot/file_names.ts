import { DEAD_LETTER_SUFFIX } from "../../topics/deadletter.ts";
import { BROADCAST_LOG, type StoreSpec } from "../contract.ts";

export const MANIFEST_FILE = "saguin.manifest";
export const LOG_FILE = "saguin.broadcast";
export const SESSIONS_FILE = "saguin.sessions";
export const LOCK_FILE = "saguin.lock";
const CHANNEL_ENDING = ".snapshot";
const TEMPORARY_ENDING = ".tmp";

/** The longest file name that every filesystem in use takes (S61). */
export const LONGEST_FILE_NAME = 255;

const SAFE = /^[A-Za-z0-9_-]*$/;

/**
 * The file of a channel (S60): every other byte than `A-Z a-z 0-9 - _` becomes `%XX`, the percent sign and
 * the dot included, so that no name is hidden or leads out of the directory, whatever it is.
 */
export function channelFile(channel: string): string {
  if (SAFE.test(channel)) return channel + CHANNEL_ENDING;
  let encoded = "";
  for (const byte of new TextEncoder().encode(channel)) {
    const text = String.fromCharCode(byte);
    encoded += SAFE.test(text) ? text : "%" + byte.toString(16).toUpperCase().padStart(2, "0");
  }
  return encoded + CHANNEL_ENDING;
}

/** Where a file is written before it takes its name. No longer than that name is. */
export function temporaryFile(file: string): string {
  if (!file.endsWith(CHANNEL_ENDING)) return file + TEMPORARY_ENDING;
  return file.slice(0, -CHANNEL_ENDING.length) + TEMPORARY_ENDING;
}

/** Whether a name in the directory is one that `temporaryFile` gives. */
export function isTemporaryFile(name: string): boolean {
  if (!name.endsWith(TEMPORARY_ENDING)) return false;
  const stem = name.slice(0, -TEMPORARY_ENDING.length);
  if (stem === MANIFEST_FILE || stem === LOG_FILE || stem === SESSIONS_FILE) return true;
  return /^(?:[A-Za-z0-9_-]|%[0-9A-F]{2})+$/.test(stem);
}

/** Whether a name in the directory is that of a file with records or sessions in it. */
export function isSnapshotFile(name: string): boolean {
  return name === LOG_FILE || name === SESSIONS_FILE || name.endsWith(CHANNEL_ENDING);
}

/** One file of channels, and the stores that it keeps. */
export interface ChannelsFile {
  readonly file: string;
  readonly stores: readonly StoreSpec[];
}

/**
 * The files of a provider that is opened with `stores`: one per channel, a queue's with its dead-letter
 * channel in it (S58), and the broadcast log under its own name (S59). Sorted by name.
 */
export function channelsFiles(stores: readonly StoreSpec[]): readonly ChannelsFile[] {
  const queues = new Set<string>();
  for (const { channel, kind } of stores) if (kind === "queue") queues.add(channel);
  const files = new Map<string, StoreSpec[]>();
  for (const spec of stores) {
    const file = spec.channel === BROADCAST_LOG
      ? LOG_FILE
      : channelFile(queueOf(spec, queues) ?? spec.channel);
    const kept = files.get(file);
    if (kept === undefined) files.set(file, [spec]);
    else if (spec.kind === "queue") kept.unshift(spec);
    else kept.push(spec);
  }
  return [...files].map(([file, stores]) => ({ file, stores }))
    .sort((a, b) => a.file < b.file ? -1 : 1);
}

function queueOf({ channel, kind }: StoreSpec, queues: ReadonlySet<string>): string | undefined {
  if (kind !== "append" || !channel.endsWith(DEAD_LETTER_SUFFIX)) return undefined;
  const queue = channel.slice(0, -DEAD_LETTER_SUFFIX.length);
  return queues.has(queue) ? queue : undefined;
}
