/**
 * `--snapshots-to-sqlite` and `--sqlite-to-snapshots`: move what a stopped broker kept from one kind of
 * provider to the other. They read no configuration (S161).
 */
import { plain } from "../config/finding.ts";
import { systemClock } from "../platform/clock.ts";
import { StorageFailure } from "../storage/contract.ts";
import type { MigrationReport, MovedChannel } from "../storage/migrate/report.ts";
import { snapshotsToSqlite } from "../storage/migrate/snapshots_to_sqlite.ts";
import { sqliteToSnapshots } from "../storage/migrate/sqlite_to_snapshots.ts";
import { REVISION } from "../version.ts";
import { counted } from "./counted.ts";
import { isFileError } from "./file_error.ts";
import { ProgressLine } from "./progress_line.ts";

export interface MigrateCommand {
  readonly kind: "migrate";
  readonly flag: "snapshots-to-sqlite" | "sqlite-to-snapshots";
  readonly from: string;
  readonly into: string;
}

export function readMigration(
  flag: MigrateCommand["flag"],
  operands: readonly string[],
): MigrateCommand | { readonly refusal: string } {
  const wanted = flag === "snapshots-to-sqlite" ? "DIRECTORY DATABASE" : "DATABASE DIRECTORY";
  const [from, into] = operands;
  if (operands.length !== 2 || from === "" || into === "") {
    return { refusal: `--${flag} takes ${wanted}` };
  }
  return { kind: "migrate", flag, from, into };
}

export interface MigrateStreams {
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
}

const DONE = 0;
const REFUSED = 1;

/** Returns the exit code: 0 when something was there and all of it was moved, else 1. */
export async function migrate(
  { flag, from, into }: MigrateCommand,
  on: MigrateStreams,
  isTerminal = Deno.stderr.isTerminal(),
): Promise<number> {
  const line = new ProgressLine(on.stderr, isTerminal);
  const say = (text: string) => {
    line.clear();
    on.stderr(`saguin: ${plain(text)}\n`);
  };
  const report: MigrationReport = {
    moved(file, channels) {
      line.clear();
      on.stdout(plain(`${file}: ${channels.map(measure).join("; ")}`) + "\n");
    },
    failed: say,
    note: say,
    progress: (text) => line.show(text),
  };
  const move = flag === "snapshots-to-sqlite" ? snapshotsToSqlite : sqliteToSnapshots;
  try {
    const stamp = { revision: REVISION, now: systemClock.wall() };
    const { moved, failed } = await move(from, into, stamp, report);
    line.clear();
    if (moved > 0) on.stdout(`moved ${files(moved)} into ${plain(into)}\n`);
    else if (failed === 0) say(`there is nothing to move in ${from}; nothing is created`);
    if (failed > 0) say(`${files(failed)} not moved; ${from} is as it was`);
    return moved > 0 && failed === 0 ? DONE : REFUSED;
  } catch (error) {
    line.clear();
    if (!(error instanceof StorageFailure) && !isFileError(error)) throw error;
    say(error.message);
    return REFUSED;
  }
}

function measure({ name, kind, entries, positions }: MovedChannel): string {
  const [one, several] = kind === "append"
    ? ["record", "records"]
    : kind === "latest"
    ? ["value", "values"]
    : ["job", "jobs"];
  let text = `${name} (${kind}) ${counted(entries, one, several)}`;
  if (positions > 0) text += `, ${counted(positions, "position", "positions")}`;
  return text;
}

function files(count: number): string {
  return counted(count, "file of channels", "files of channels");
}
