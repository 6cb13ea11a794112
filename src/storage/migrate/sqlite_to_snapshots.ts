import { dirname } from "node:path/posix";
import { syncDirectory } from "../../platform/files.ts";
import type { StoreSpec } from "../contract.ts";
import { ProviderLock } from "../lock.ts";
import { FileDirectory } from "../snapshot/directory.ts";
import {
  channelFile,
  channelsFiles,
  LOCK_FILE,
  LONGEST_FILE_NAME,
  MANIFEST_FILE,
} from "../snapshot/file_names.ts";
import { saveContent } from "../snapshot/save.ts";
import { DatabaseSource, type SourceChannel } from "./database_source.ts";
import { freeForSnapshots, removeIfThere, sourceDatabase } from "./places.ts";
import {
  isUnused,
  type MigrationOutcome,
  type MigrationReport,
  type MigrationStamp,
} from "./report.ts";

const OWNER_ONLY = 0o700;

/**
 * Moves the channels and the retained store of a database into a directory of snapshots (S160): both
 * counters as they stand, every entry under its offset, jobs with their history, every position. The
 * database stays as it is.
 *
 * @param from the database, of a broker that is stopped
 * @param into a directory that is not there, or holds no snapshot and no manifest
 * @throws StorageFailure with one sentence when nothing was begun: nothing is then created
 */
export async function sqliteToSnapshots(
  from: string,
  into: string,
  stamp: MigrationStamp,
  report: MigrationReport,
): Promise<MigrationOutcome> {
  sourceDatabase(from);
  const createdDirectory = await freeForSnapshots(into);
  const source = ProviderLock.takeFor(`${from}.lock`, from);
  try {
    const database = DatabaseSource.open(from);
    try {
      if (createdDirectory) Deno.mkdirSync(into, { mode: OWNER_ONLY });
      let moved = 0;
      try {
        const target = ProviderLock.takeFor(`${into}/${LOCK_FILE}`, into);
        try {
          await freeForSnapshots(into);
          const outcome = await new DatabaseMove(database, from, into, stamp, report).run();
          moved = outcome.moved;
          return outcome;
        } finally {
          target.abandon();
        }
      } finally {
        if (createdDirectory) {
          if (moved === 0) Deno.removeSync(into);
          else syncDirectory(dirname(into));
        }
      }
    } finally {
      database.close();
    }
  } finally {
    source.abandon();
  }
}

class DatabaseMove {
  #failed = 0;
  #moved = 0;

  constructor(
    private readonly database: DatabaseSource,
    private readonly from: string,
    private readonly into: string,
    private readonly stamp: MigrationStamp,
    private readonly report: MigrationReport,
  ) {}

  async run(): Promise<MigrationOutcome> {
    const { database, from, into, stamp, report } = this;
    const channels = new Map(database.channels().map((channel) => [channel.name, channel]));
    for (const name of database.strays()) {
      this.#fail(`${from}: channel ${name} has rows and no counters; it is not moved`);
    }
    const directory = new FileDirectory(into);
    const stores = this.#movable(channels, await directory.ignoresCase(LOCK_FILE));
    if (stores.length > 0) {
      const total = stores.reduce((sum, { channel }) => sum + channels.get(channel)!.entries, 0);
      let walked = 0;
      const failures = await saveContent(
        directory,
        {
          stores,
          stored: (name) =>
            database.stored(channels.get(name)!, (more) => {
              walked += more;
              report.progress(`writing ${walked} of ${total} entries`);
            }),
          sessions: undefined,
        },
        { writtenAt: stamp.now, revision: stamp.revision },
        ({ file, channels: names }) => {
          this.#moved++;
          report.moved(file, names.map((name) => channels.get(name)!));
        },
      );
      for (const { file, error } of failures) {
        this.#fail(`${into}/${file} is not written: ${error}`);
      }
      // A manifest alone would stand in the next attempt's way (S165).
      if (this.#moved === 0) removeIfThere(`${into}/${MANIFEST_FILE}`);
    }
    const left = database.leftBehind();
    if (left.length > 0) report.note(`${from}: ${left.join(", ")} stay behind`);
    return { moved: this.#moved, failed: this.#failed };
  }

  /** The stores of every file that is in use and has a name of its own. */
  #movable(channels: ReadonlyMap<string, SourceChannel>, ignoresCase: boolean): StoreSpec[] {
    const specs = [...channels.values()].map(({ name, kind }) => ({ channel: name, kind }));
    const names = new Map<string, string>();
    const movable: StoreSpec[] = [];
    for (const { file, stores } of channelsFiles(specs)) {
      if (stores.every(({ channel }) => isUnused(channels.get(channel)!))) continue;
      const [{ channel }] = stores;
      const name = ignoresCase ? file.toLowerCase() : file;
      const other = names.get(name);
      if (other !== undefined) {
        this.#fail(
          `${this.into} has one file for channels ${other} and ${channel}, which differ in letter ` +
            `case alone; channel ${channel} is not moved`,
        );
      } else if (channelFile(channel).length > LONGEST_FILE_NAME) {
        this.#fail(
          `channel ${channel} has a snapshot file name of ${channelFile(channel).length} bytes, ` +
            `and ${LONGEST_FILE_NAME} fit; it is not moved`,
        );
      } else {
        names.set(name, channel);
        movable.push(...stores);
      }
    }
    return movable;
  }

  #fail(sentence: string): void {
    this.#failed++;
    this.report.failed(sentence);
  }
}
