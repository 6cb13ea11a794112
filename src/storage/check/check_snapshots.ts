import type { Nanoseconds } from "../../platform/clock.ts";
import { DEAD_LETTER_SUFFIX } from "../../topics/deadletter.ts";
import { BROADCAST_LOG, RETAINED } from "../contract.ts";
import type { ChannelState } from "../memory/state.ts";
import { decodeChannels, decodeManifest, decodeSessions } from "../snapshot/decode.ts";
import type { SnapshotDirectory } from "../snapshot/directory.ts";
import { moment, openFile } from "../snapshot/file_header.ts";
import {
  channelsFiles,
  isSnapshotFile,
  isTemporaryFile,
  LOG_FILE,
  MANIFEST_FILE,
  SESSIONS_FILE,
} from "../snapshot/file_names.ts";
import { FileKind, SnapshotFault } from "../snapshot/format.ts";
import { contradictions, joinSessions } from "../snapshot/meaning.ts";
import { checkWhole, letterOf } from "./entries.ts";
import { type Checked, type CheckReport, Findings } from "./report.ts";

/** Holds every file of a directory of snapshots against itself and the others. Reads only. */
export async function checkSnapshots(
  directory: SnapshotDirectory,
  report: CheckReport,
): Promise<Checked> {
  return await new SnapshotCheck(directory, report).run();
}

class SnapshotCheck {
  #channels = 0;
  #entries = 0;
  #log: ChannelState | undefined;
  #owners = new Map<string, string>();

  constructor(
    private readonly directory: SnapshotDirectory,
    private readonly report: CheckReport,
  ) {}

  async run(): Promise<Checked> {
    const names = [...await this.directory.list()].sort();
    for (const name of names.filter(isTemporaryFile)) {
      this.report.note(`${this.#path(name)} was never finished; the next start removes it`);
    }
    const files = names.filter(isSnapshotFile);
    const stop = await this.#manifest(files);
    for (const file of files) {
      if (file === SESSIONS_FILE) continue;
      this.report.progress(file);
      await this.#file(file, FileKind.Channels, stop, (body) => this.#checkChannels(file, body));
    }
    let sessions = 0;
    if (files.includes(SESSIONS_FILE)) {
      await this.#file(SESSIONS_FILE, FileKind.Sessions, stop, (body) => {
        sessions = this.#checkSessions(body);
      });
    }
    return { channels: this.#channels, entries: this.#entries, sessions };
  }

  /** What the last stop said of itself, and what of it is not there (S77). */
  async #manifest(files: readonly string[]): Promise<Nanoseconds | undefined> {
    const bytes = await this.directory.read(MANIFEST_FILE);
    const path = this.#path(MANIFEST_FILE);
    if (bytes === undefined) {
      if (files.length > 0) {
        this.report.note(`${path} is missing: no stop can be told from another`);
      }
      return undefined;
    }
    try {
      const { header, body } = openFile(bytes, FileKind.Manifest);
      for (const { file } of decodeManifest(body)) {
        if (!files.includes(file)) {
          this.report.note(`${this.#path(file)} is missing: what it kept is lost`);
        }
      }
      return header.writtenAt;
    } catch (error) {
      if (!(error instanceof SnapshotFault)) throw error;
      this.report.note(`${path} ${error.message}`);
      return undefined;
    }
  }

  async #file(
    file: string,
    kind: FileKind,
    stop: Nanoseconds | undefined,
    check: (body: Uint8Array) => void,
  ): Promise<void> {
    const bytes = await this.directory.read(file);
    if (bytes === undefined) return;
    try {
      const { header, body } = openFile(bytes, kind);
      if (stop !== undefined && header.writtenAt !== stop) {
        const how = header.writtenAt < stop ? "older" : "newer";
        this.report.note(
          `${this.#path(file)} is of ${moment(header.writtenAt)}, ${how} than the last stop at ` +
            moment(stop),
        );
      }
      check(body);
    } catch (error) {
      if (!(error instanceof SnapshotFault)) throw error;
      this.report.finding(`${this.#path(file)} ${error.message}`);
    }
  }

  #checkChannels(file: string, body: Uint8Array): void {
    const channels = decodeChannels(body);
    const owner = channelsFiles(channels.map(({ name, kind }) => ({ channel: name, kind })));
    if (owner.length !== 1 || owner[0].file !== file) {
      const names = channels.map(({ name }) => name).join(", ") || "no channel";
      throw new SnapshotFault(`holds ${names}, which belongs to a file of another name`);
    }
    for (const channel of channels) {
      this.#channels++;
      this.#entries += channel.records.length + channel.jobs.length;
      const findings = new Findings(this.report, `${this.#path(file)}: channel ${channel.name}`);
      const other = this.#owners.get(channel.name);
      if (other !== undefined) findings.add("is in another file too", other);
      this.#owners.set(channel.name, file);
      for (const says of contradictions(channel)) findings.add("contradicts itself", says);
      const { records } = channel;
      checkWhole(channel, records.length, records[0]?.offset ?? 0, findings);
      if (channel.name === RETAINED) {
        for (const { message } of channel.records) {
          if (message.payload.byteLength > 0) continue;
          findings.add("holds a value that says nothing", `of topic ${message.topic}`);
        }
      }
      if (channel.name === BROADCAST_LOG) this.#log = channel;
      findings.end();
    }
    this.#checkDeadLetters(file, channels);
  }

  #checkDeadLetters(file: string, channels: readonly ChannelState[]): void {
    const queue = channels.find(({ kind }) => kind === "queue");
    const letters = channels.find(({ name }) => name === queue?.name + DEAD_LETTER_SUFFIX);
    if (queue === undefined || letters === undefined) return;
    const jobs = new Set(queue.jobs.map(({ offset }) => offset));
    const findings = new Findings(this.report, `${this.#path(file)}: channel ${letters.name}`);
    for (const { offset, message } of letters.records) {
      const of = letterOf(message.headers);
      if (of === undefined) continue;
      if (of >= queue.next) {
        findings.add("has letters of jobs that never were", `${offset} of ${of}`);
      } else if (jobs.has(of)) {
        findings.add("has letters of jobs that are still queued", `${offset} of ${of}`);
      }
    }
    findings.end();
  }

  #checkSessions(body: Uint8Array): number {
    const { sessions, groups } = decodeSessions(body);
    const log = this.#log;
    if (log === undefined) throw new SnapshotFault(`has no ${LOG_FILE} beside it that can be read`);
    const { ended } = joinSessions(sessions, log);
    if (ended > 0) {
      this.report.note(
        `${this.#path(SESSIONS_FILE)}: ${ended} sessions had ended when the log was written`,
      );
    }
    const findings = new Findings(this.report, `${this.#path(SESSIONS_FILE)}: shared groups`);
    for (const { name, cursor, returned } of groups) {
      if (cursor > log.next) {
        findings.add("have a cursor past the broadcast log", `${name} at ${cursor}`);
      }
      for (const offset of returned) {
        if (offset >= log.next) {
          findings.add("were returned what never was in the log", `${offset} to ${name}`);
        }
      }
      const member = sessions.some(({ record }) =>
        record.subscriptions.some(({ filter }) => filter === name)
      );
      if (!member) findings.add("have no member", name);
    }
    findings.end();
    return sessions.length;
  }

  #path(file: string): string {
    return `${this.directory.path}/${file}`;
  }
}
