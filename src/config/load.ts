/** From a path to a configuration, or to everything that is wrong with it. */
import { checkAmqp } from "./checks/amqp.ts";
import { checkChannels } from "./checks/channels.ts";
import { checkDoors } from "./checks/doors.ts";
import { checkIngest } from "./checks/ingest.ts";
import { checkLimits } from "./checks/limits.ts";
import { checkStorage } from "./checks/storage.ts";
import type { Configuration } from "./configuration.ts";
import { readDocument } from "./document.ts";
import { Findings } from "./finding.ts";
import { NamedFiles } from "./named_files.ts";
import { resolve } from "./resolve.ts";
import type { Settings } from "./settings.ts";
import { REAL_SURROUNDINGS, type Surroundings, unreadable, walk } from "./walk.ts";

export type Loading =
  | { readonly configuration: Configuration; readonly settings: Settings }
  /** The whole report, several lines, each ended by a newline. */
  | { readonly findings: string };

/**
 * Reads, checks and resolves a configuration file; a start and `--check-config` both come here and
 * refuse alike. Opens no socket and touches no storage. Never throws for what an operator wrote.
 *
 * @param openFiles whether a report also says which of the files that are named cannot be read; without
 * a finding they are left to whoever reads them
 */
export function loadConfiguration(
  path: string,
  surroundings: Surroundings = REAL_SURROUNDINGS,
  openFiles = false,
): Loading {
  const findings = new Findings();
  let bytes: Uint8Array;
  try {
    bytes = surroundings.readFile(path);
  } catch (error) {
    const place = { file: path, line: 0, column: 0 };
    findings.add(place, undefined, unreadable(error));
    return { findings: findings.report(path) };
  }
  const root = readDocument(bytes, path, findings);
  if (root === undefined) return { findings: findings.report(path) };
  const settings = walk(root, findings, surroundings);
  checkLimits(settings, findings);
  checkStorage(settings, findings, surroundings.emptyDatabaseBytes);
  checkChannels(settings, findings);
  checkDoors(settings, findings);
  checkAmqp(settings, findings);
  checkIngest(settings, findings);
  if (!findings.empty) {
    if (openFiles) new NamedFiles(settings).check(surroundings.readFile, findings);
    return { findings: findings.report(path) };
  }
  return { configuration: resolve(settings, path), settings };
}
