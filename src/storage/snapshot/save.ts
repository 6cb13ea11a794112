import type { Nanoseconds } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { BROADCAST_LOG, sessionReader, type StoreSpec } from "../contract.ts";
import type { ChannelState, ProviderState } from "../memory/state.ts";
import { ByteWriter } from "./byte_writer.ts";
import { crc32c } from "./crc32c.ts";
import { DirectorySync, type SnapshotDirectory } from "./directory.ts";
import { encodeChannels, type EncodedChannel, encodeManifest, encodeSessions } from "./encode.ts";
import { headerBytes } from "./file_header.ts";
import {
  channelsFiles,
  LOG_FILE,
  MANIFEST_FILE,
  SESSIONS_FILE,
  temporaryFile,
} from "./file_names.ts";
import { FileKind, type ManifestEntry } from "./format.ts";

/** Files written at once, the manifest before them (S71). */
const FILES_AT_ONCE = 4;

/** A file that did not land; its predecessor is whole. */
export interface SaveFailure {
  readonly file: string;
  /** The channels in it; none for the manifest and the sessions. */
  readonly channels: readonly string[];
  readonly error: string;
}

export interface Stamp {
  /** The moment the stop began: the same in all of its files (S50). */
  readonly writtenAt: Nanoseconds;
  /** Build revision (S49). */
  readonly revision: string;
}

/** What there is to write; a channel is asked for when its file begins. */
export interface SnapshotContent {
  readonly stores: readonly StoreSpec[];
  /** @throws Error when the channel cannot be read: its file then does not land */
  readonly stored: (channel: string) => EncodedChannel;
  /** Written after the broadcast log, which is then one of the stores. */
  readonly sessions: Pick<ProviderState, "sessions" | "groups"> | undefined;
}

/** Writes everything a memory provider keeps. @return what did not land, all of it */
export function saveSnapshot(
  directory: SnapshotDirectory,
  state: ProviderState,
  stamp: Stamp,
): Promise<readonly SaveFailure[]> {
  const byName = new Map<string, ChannelState>();
  for (const channel of state.channels) byName.set(channel.name, channel);
  const content = {
    stores: state.channels.map(({ name, kind }) => ({ channel: name, kind })),
    stored: (channel: string) => asStored(byName.get(channel)!, state),
    sessions: byName.has(BROADCAST_LOG) ? state : undefined,
  };
  return saveContent(directory, content, stamp);
}

/**
 * Writes a set of files in the order of S63, S70 and S71: the manifest, durable before anything else
 * begins; then the channels, and the broadcast log durable before the sessions begin. Every file lands
 * whole beside its predecessor or not at all (S69, S72).
 *
 * @param landed hears of each file of channels that did
 * @return what did not land, all of it
 */
export async function saveContent(
  directory: SnapshotDirectory,
  { stores, stored, sessions }: SnapshotContent,
  stamp: Stamp,
  landed: (entry: ManifestEntry) => void = () => {},
): Promise<readonly SaveFailure[]> {
  const files = channelsFiles(stores).map(({ file, stores }) => ({
    file,
    channels: stores.map(({ channel }) => channel),
  }));
  const manifest: ManifestEntry[] = [...files];
  if (sessions !== undefined) manifest.push({ file: SESSIONS_FILE, channels: [] });

  const failures: SaveFailure[] = [];
  const names = new DirectorySync(directory);
  const land = async (
    { file, channels }: ManifestEntry,
    kind: FileKind,
    encode: (out: ByteWriter) => Generator<void>,
  ): Promise<boolean> => {
    try {
      await writeFile(directory, names, file, kind, stamp, encode);
      return true;
    } catch (error) {
      failures.push({ file, channels, error: errorText(error) });
      return false;
    }
  };

  await land(
    { file: MANIFEST_FILE, channels: [] },
    FileKind.Manifest,
    (out) => encodeManifest(out, manifest),
  );
  const landChannels = (entry: ManifestEntry) =>
    land(
      entry,
      FileKind.Channels,
      (out) => encodeChannels(out, entry.channels.map(stored)),
    );
  const tasks = files.map((entry) => async () => {
    if (!await landChannels(entry)) return;
    landed(entry);
    if (entry.file !== LOG_FILE || sessions === undefined) return;
    // Sessions without their log would refuse the next start; older ones beside a newer log do not.
    await land(
      { file: SESSIONS_FILE, channels: [] },
      FileKind.Sessions,
      (out) => encodeSessions(out, sessions.sessions, sessions.groups),
    );
  });
  await Promise.all(Array.from({ length: FILES_AT_ONCE }, async () => {
    for (let task = tasks.pop(); task !== undefined; task = tasks.pop()) await task();
  }));
  return failures;
}

/** Values by offset (S57), and the log with each session's cursor in it as a reader's position (S59). */
function asStored(channel: ChannelState, { sessions }: ProviderState): ChannelState {
  if (channel.kind === "latest") {
    return { ...channel, records: channel.records.toSorted((a, b) => a.offset - b.offset) };
  }
  if (channel.name !== BROADCAST_LOG) return channel;
  const cursors = sessions.map(({ record, cursor }) => ({
    reader: sessionReader(record.clientId),
    offset: cursor,
    expiry: record.expiry,
    lastSeen: record.awaySince,
  }));
  return { ...channel, positions: [...channel.positions, ...cursors] };
}

async function writeFile(
  directory: SnapshotDirectory,
  names: DirectorySync,
  file: string,
  kind: FileKind,
  { writtenAt, revision }: Stamp,
  encode: (out: ByteWriter) => Generator<void>,
): Promise<void> {
  const temporary = temporaryFile(file);
  const created = await directory.create(temporary);
  try {
    try {
      const out = new ByteWriter();
      let checksum = 0;
      let writing = Promise.resolve();
      // A failure is heard where it is awaited.
      const heard = (write: Promise<void>) => {
        write.catch(() => undefined);
        return write;
      };
      // The next piece is encoded while this one is written.
      const flush = async () => {
        await writing;
        const piece = out.exchange();
        checksum = crc32c(piece, checksum);
        writing = heard(created.write(piece));
      };
      out.raw(headerBytes({ kind, writer: revision, writtenAt }));
      for (const _ of encode(out)) await flush();
      await flush();
      out.u32(checksum);
      await writing;
      await created.write(out.written());
      await created.sync();
    } finally {
      created.close();
    }
    await directory.rename(temporary, file);
  } catch (error) {
    // What is left of it is nothing anybody reads; the next start removes it too.
    await directory.remove(temporary).catch(() => undefined);
    throw error;
  }
  await names.sync();
}
