import type { Nanoseconds } from "../../platform/clock.ts";
import { errorText, type Log } from "../../platform/log.ts";
import {
  BROADCAST_LOG,
  type GroupImage,
  type SessionImage,
  sessionReader,
  StorageFailure,
  type StoreSpec,
} from "../contract.ts";
import type { ChannelState } from "../memory/state.ts";
import { decodeChannels, decodeManifest, decodeSessions } from "./decode.ts";
import type { SnapshotDirectory } from "./directory.ts";
import { moment, openFile } from "./file_header.ts";
import {
  type ChannelsFile,
  channelsFiles,
  isSnapshotFile,
  isTemporaryFile,
  LOCK_FILE,
  LOG_FILE,
  LONGEST_FILE_NAME,
  MANIFEST_FILE,
  SESSIONS_FILE,
} from "./file_names.ts";
import { FileKind, type Header, SnapshotFault } from "./format.ts";
import { checkChannel, joinSessions, type LoadedLog } from "./meaning.ts";

/** What the names of sessions' cursors begin with. */
const SESSIONS = sessionReader("");

/** What the last stop said of itself: its moment, and the files it was to write. */
interface LastStop {
  readonly at: Nanoseconds;
  /** By file; undefined when there is no manifest that can be read. */
  readonly files: ReadonlyMap<string, readonly string[]> | undefined;
}

export interface LoadedSnapshot {
  readonly sessions: readonly SessionImage[];
  readonly groups: readonly GroupImage[];
  /** Holds that a later run has answered without them (S67). */
  readonly abandonedHolds: number;
  /** The moment of the last stop; 0n when there was none. */
  readonly lastStop: Nanoseconds;
}

/**
 * Reads what the last graceful stops left in a directory (sections 6 and 8). Whatever holds records is
 * whole or refuses the start; the manifest, which holds none, is worth a warning.
 */
export class SnapshotLoader {
  #abandonedHolds = 0;

  constructor(
    private readonly provider: string,
    private readonly directory: SnapshotDirectory,
    private readonly log: Log,
  ) {}

  /**
   * @param restore takes each channel's state; its payloads are views of the file that was read
   * @throws StorageFailure naming the file and what is wrong with it; what was restored until then is to
   *   be thrown away
   */
  async load(
    stores: readonly StoreSpec[],
    restore: (state: ChannelState) => void,
  ): Promise<LoadedSnapshot> {
    const files = channelsFiles(stores);
    await this.#checkNames(files);
    const present = new Set(await this.#attempt(this.directory.path, this.directory.list()));
    for (const name of present) {
      if (isTemporaryFile(name)) await this.#attempt(name, this.directory.remove(name));
    }
    const last = await this.#lastStop(present);
    let sessionLog: LoadedLog | undefined;
    for (const file of files) {
      for (const state of await this.#channels(file, last)) {
        if (state.name !== BROADCAST_LOG) restore(state);
        else {
          sessionLog = state;
          const positions = state.positions.filter(({ reader }) => !reader.startsWith(SESSIONS));
          restore({ ...state, positions });
        }
      }
    }
    const sessions = files.some(({ file }) => file === LOG_FILE)
      ? await this.#sessions(last, sessionLog)
      : { sessions: [], groups: [] };
    return { ...sessions, abandonedHolds: this.#abandonedHolds, lastStop: last.at };
  }

  async #checkNames(files: readonly ChannelsFile[]): Promise<void> {
    const byFoldedName = new Map<string, ChannelsFile>();
    for (const file of files) {
      const { channel } = file.stores[0];
      if (file.file.length > LONGEST_FILE_NAME) {
        throw this.#failure(
          `channel ${channel} has a snapshot file name of ${file.file.length} bytes, ` +
            `and ${LONGEST_FILE_NAME} fit`,
        );
      }
      const folded = file.file.toLowerCase();
      const same = byFoldedName.get(folded);
      byFoldedName.set(folded, file);
      if (same === undefined || !await this.#ignoresCase()) continue;
      throw this.#failure(
        `channels ${same.stores[0].channel} and ${channel} differ in letter case alone, ` +
          `and ${this.directory.path} has one file for both; rename one`,
      );
    }
  }

  /** Asked of the lock file, which is there before anything else is. */
  #ignoresCase(): Promise<boolean> {
    return this.#attempt(this.directory.path, this.directory.ignoresCase(LOCK_FILE));
  }

  async #lastStop(present: ReadonlySet<string>): Promise<LastStop> {
    const snapshots = [...present].filter(isSnapshotFile);
    const warn = (why: string) =>
      this.log.warn("the manifest of the last stop cannot be read", {
        provider: this.provider,
        file: this.#path(MANIFEST_FILE),
        error: why,
      });
    const bytes = await this.#attempt(MANIFEST_FILE, this.directory.read(MANIFEST_FILE));
    if (bytes === undefined) {
      if (snapshots.length > 0) warn("there is none beside the snapshots");
    } else {
      try {
        const { header, body } = openFile(bytes, FileKind.Manifest);
        const files = new Map(decodeManifest(body).map(({ file, channels }) => [file, channels]));
        return { at: header.writtenAt, files };
      } catch (error) {
        if (!(error instanceof SnapshotFault)) throw error;
        warn(`it ${error.message}`);
      }
    }
    return { at: await this.#newest(snapshots), files: undefined };
  }

  /** The latest moment that a whole file here was written at: it stands in for the manifest's (S67). */
  async #newest(snapshots: readonly string[]): Promise<Nanoseconds> {
    let newest: Nanoseconds = 0n;
    for (const name of snapshots) {
      const bytes = await this.#attempt(name, this.directory.read(name));
      if (bytes === undefined) continue;
      try {
        const { writtenAt } = openFile(bytes, undefined).header;
        if (writtenAt > newest) newest = writtenAt;
      } catch (error) {
        // A damaged file says nothing; if its channel is configured, it refuses the start below.
        if (!(error instanceof SnapshotFault)) throw error;
      }
    }
    return newest;
  }

  async #channels({ file, stores }: ChannelsFile, last: LastStop): Promise<ChannelState[]> {
    const names = stores.map(({ channel }) => channel);
    // The log loses records from its middle, and its sessions are held against each of them.
    const decode = (body: Uint8Array) => decodeChannels(body, (name) => name !== BROADCAST_LOG);
    const whole = await this.#whole(file, FileKind.Channels, names, last, decode);
    if (whole === undefined) return [];
    const { header, content } = whole;
    try {
      if (!content.some(({ name }) => name === names[0])) {
        const found = content.map(({ name }) => name).join(", ");
        throw new SnapshotFault(`holds ${found || "no channel"}, not ${names[0]}`);
      }
      const channels: ChannelState[] = [];
      for (const { channel, kind } of stores) {
        const state = content.find(({ name }) => name === channel);
        if (state === undefined) continue;
        if (state.kind !== kind) {
          throw new SnapshotFault(
            `holds channel ${channel} as ${state.kind}, and it is configured as ${kind}`,
          );
        }
        checkChannel(state);
        channels.push(header.writtenAt < last.at ? this.#withoutHolds(file, state) : state);
      }
      return channels;
    } catch (error) {
      throw this.#refusal(file, error);
    }
  }

  #withoutHolds(file: string, state: ChannelState): ChannelState {
    const { length } = state.holds;
    if (length === 0) return state;
    this.#abandonedHolds += length;
    this.log.warn("held publishes of a snapshot older than the last stop are abandoned", {
      provider: this.provider,
      file: this.#path(file),
      channel: state.name,
      holds: length,
    });
    return { ...state, holds: [] };
  }

  async #sessions(
    last: LastStop,
    log: LoadedLog | undefined,
  ): Promise<Pick<LoadedSnapshot, "sessions" | "groups">> {
    const whole = await this.#whole(SESSIONS_FILE, FileKind.Sessions, [], last, decodeSessions);
    if (whole === undefined) return { sessions: [], groups: [] };
    try {
      if (log === undefined) {
        throw new SnapshotFault(
          `has lost its log: there is no ${LOG_FILE} beside it; restore that file, ` +
            "or remove this one to start without its sessions",
        );
      }
      const { sessions, ended } = joinSessions(whole.content.sessions, log);
      if (ended > 0) {
        this.log.info("sessions without a cursor in the broadcast log are ended", {
          provider: this.provider,
          sessions: ended,
        });
      }
      return { sessions, groups: whole.content.groups };
    } catch (error) {
      throw this.#refusal(SESSIONS_FILE, error);
    }
  }

  /** A file's content, and what there is to say of its age. Undefined when there is no such file. */
  async #whole<T>(
    file: string,
    kind: FileKind,
    channels: readonly string[],
    last: LastStop,
    decode: (body: Uint8Array) => T,
  ): Promise<{ readonly header: Header; readonly content: T } | undefined> {
    const fields = {
      provider: this.provider,
      file: this.#path(file),
      ...(channels.length > 0 && { channels: channels.join(",") }),
    };
    const bytes = await this.#attempt(file, this.directory.read(file));
    if (bytes === undefined) {
      if (last.files?.has(file)) {
        this.log.warn("a file of the last stop is missing: what it kept is lost", fields);
      }
      return undefined;
    }
    let opened: ReturnType<typeof openFile>;
    let content: T;
    try {
      opened = openFile(bytes, kind);
      content = decode(opened.body);
    } catch (error) {
      throw this.#refusal(file, error);
    }
    const { header } = opened;
    const times = { written_at: moment(header.writtenAt), stopped_at: moment(last.at) };
    if (header.writtenAt < last.at) {
      this.log.warn("a snapshot is older than the last stop: what came after it is lost", {
        ...fields,
        ...times,
      });
    } else if (header.writtenAt > last.at) {
      this.log.warn("a snapshot is newer than the manifest, which was not written", {
        ...fields,
        ...times,
      });
    }
    return { header, content };
  }

  async #attempt<T>(what: string, call: Promise<T>): Promise<T> {
    try {
      return await call;
    } catch (error) {
      const path = what === this.directory.path ? what : this.#path(what);
      throw this.#failure(`${path} cannot be read: ${errorText(error)}`, error);
    }
  }

  #refusal(file: string, error: unknown): unknown {
    if (!(error instanceof SnapshotFault)) return error;
    return this.#failure(`snapshot ${this.#path(file)} ${error.message}`, error);
  }

  #failure(message: string, cause?: unknown): StorageFailure {
    return new StorageFailure("failed", `storage provider "${this.provider}": ${message}`, {
      cause,
    });
  }

  #path(file: string): string {
    return `${this.directory.path}/${file}`;
  }
}
