import type { Nanoseconds } from "../../platform/clock.ts";
import { errorText } from "../../platform/log.ts";
import { ProviderLock } from "../lock.ts";
import type { ChannelState } from "../memory/state.ts";
import type { Offset } from "../record.ts";
import { decodeChannels, decodeManifest } from "../snapshot/decode.ts";
import type { SnapshotDirectory } from "../snapshot/directory.ts";
import { moment, openFile } from "../snapshot/file_header.ts";
import {
  channelsFiles,
  isSnapshotFile,
  LOCK_FILE,
  LOG_FILE,
  MANIFEST_FILE,
  SESSIONS_FILE,
} from "../snapshot/file_names.ts";
import { FileKind, SnapshotFault } from "../snapshot/format.ts";
import { checkChannel } from "../snapshot/meaning.ts";
import { DatabaseTarget } from "./database_target.ts";
import { freeForDatabase, sourceDirectory } from "./places.ts";
import {
  isUnused,
  type MigrationOutcome,
  type MigrationReport,
  type MigrationStamp,
  type MovedChannel,
} from "./report.ts";

/**
 * Moves the channels and the retained store of a directory of snapshots into a new database (S160): both
 * counters as they stand, every entry under its offset, jobs with their history, every position. The
 * directory stays as it is.
 *
 * @param from the directory, of a broker that is stopped
 * @param into path of a database that is not there
 * @throws StorageFailure with one sentence when nothing was begun: nothing is then created
 */
export async function snapshotsToSqlite(
  from: string,
  into: string,
  stamp: MigrationStamp,
  report: MigrationReport,
): Promise<MigrationOutcome> {
  const directory = sourceDirectory(from);
  freeForDatabase(into);
  const source = ProviderLock.takeFor(`${from}/${LOCK_FILE}`, from);
  try {
    const target = ProviderLock.takeFor(`${into}.lock`, into);
    try {
      freeForDatabase(into);
      return await new SnapshotMove(directory, into, stamp, report).run();
    } finally {
      target.abandon();
    }
  } finally {
    source.abandon();
  }
}

class SnapshotMove {
  /** Made when there is something to put in it. */
  #target: DatabaseTarget | undefined;
  #moved = 0;
  #failed = 0;
  #stoppedAt: Nanoseconds = 0n;

  constructor(
    private readonly directory: SnapshotDirectory,
    private readonly into: string,
    private readonly stamp: MigrationStamp,
    private readonly report: MigrationReport,
  ) {}

  async run(): Promise<MigrationOutcome> {
    const present = (await this.directory.list()).filter(isSnapshotFile).sort();
    const files = present.filter((file) => file !== LOG_FILE && file !== SESSIONS_FILE);
    if (files.length > 0) await this.#readManifest(new Set(present));
    try {
      for (let i = 0; i < files.length; i++) {
        await this.#move(files[i], `file ${i + 1} of ${files.length}, ${files[i]}`);
      }
    } catch (error) {
      this.#target?.discard();
      throw error;
    }
    this.#end();
    if (present.length > files.length) {
      this.report.note(
        `${this.#path(present.includes(SESSIONS_FILE) ? SESSIONS_FILE : LOG_FILE)} stays behind: ` +
          "sessions, shared groups and what they are owed are not moved",
      );
    }
    return { moved: this.#moved, failed: this.#failed };
  }

  #end(): void {
    if (this.#moved === 0) {
      this.#target?.discard();
      return;
    }
    try {
      this.report.progress("forcing it to the disk");
      this.#target?.finish();
    } catch (error) {
      this.#failed++;
      this.report.failed(`${this.into} is not known to be on the disk: ${errorText(error)}`);
    }
  }

  async #move(file: string, place: string): Promise<void> {
    try {
      this.report.progress(`reading ${place}`);
      const channels = await this.#read(file);
      const measured = channels.map(measure);
      if (measured.every(isUnused)) return;
      this.#target ??= DatabaseTarget.create(this.into, this.stamp.revision, this.stamp.now);
      const entries = measured.reduce((sum, { entries }) => sum + entries, 0);
      let written = 0;
      this.#target.put(channels, (more) => {
        written += more;
        this.report.progress(`writing ${place}: ${written} of ${entries} entries`);
      });
      this.#moved++;
      this.report.moved(file, measured);
    } catch (error) {
      this.#failed++;
      const says = error instanceof SnapshotFault
        ? error.message
        : `is not moved: ${errorText(error)}`;
      this.report.failed(`${this.#path(file)} ${says}`);
    }
  }

  async #read(file: string): Promise<ChannelState[]> {
    const bytes = await this.directory.read(file);
    if (bytes === undefined) throw new SnapshotFault("has gone meanwhile");
    const { header, body } = openFile(bytes, FileKind.Channels);
    const channels = decodeChannels(body);
    const owner = channelsFiles(channels.map(({ name, kind }) => ({ channel: name, kind })));
    if (owner.length !== 1 || owner[0].file !== file) {
      const names = channels.map(({ name }) => name).join(", ") || "no channel";
      throw new SnapshotFault(`holds ${names}, which belongs to a file of another name`);
    }
    for (const channel of channels) checkChannel(channel);
    if (header.writtenAt < this.#stoppedAt) {
      this.report.note(
        `${this.#path(file)} is of ${moment(header.writtenAt)}, before the last stop at ` +
          `${moment(this.#stoppedAt)}: what came after it is not in it`,
      );
    }
    const holds = channels.reduce((sum, channel) => sum + channel.holds.length, 0);
    if (holds > 0) {
      this.report.note(`${this.#path(file)}: ${holds} held QoS 2 publishes stay behind`);
    }
    return channels;
  }

  /** What the last stop says of itself: a broker that starts would say the same (S77). */
  async #readManifest(present: ReadonlySet<string>): Promise<void> {
    const path = this.#path(MANIFEST_FILE);
    try {
      const bytes = await this.directory.read(MANIFEST_FILE);
      if (bytes === undefined) throw new SnapshotFault("is missing");
      const { header, body } = openFile(bytes, FileKind.Manifest);
      for (const { file, channels } of decodeManifest(body)) {
        if (present.has(file)) continue;
        const lost = channels.length > 0 ? `channels ${channels.join(", ")}` : "what it kept";
        this.report.note(`${this.#path(file)} is missing: ${lost} cannot be moved`);
      }
      this.#stoppedAt = header.writtenAt;
    } catch (error) {
      if (!(error instanceof SnapshotFault)) throw error;
      this.report.note(`${path} ${error.message}; whether the files are of one stop is not known`);
    }
  }

  #path(file: string): string {
    return `${this.directory.path}/${file}`;
  }
}

function measure(channel: ChannelState): MovedChannel & { readonly next: Offset } {
  const { name, kind, next, records, jobs, positions } = channel;
  return { name, kind, next, entries: records.length + jobs.length, positions: positions.length };
}
