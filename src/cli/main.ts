/** What the process does for its command line; the broker itself comes in as `start`. */
import { type Credentials, doorsWithoutIdentity, loadCredentials } from "../auth/credentials.ts";
import type { Configuration } from "../config/configuration.ts";
import { Findings, plain } from "../config/finding.ts";
import { loadConfiguration } from "../config/load.ts";
import { writeOut } from "../config/output.ts";
import type { Settings } from "../config/settings.ts";
import { REAL_SURROUNDINGS, type Surroundings } from "../config/walk.ts";
import { checkTlsFiles } from "../doors/tls_files.ts";
import { readNamedFile } from "../platform/files.ts";
import { StorageFailure } from "../storage/contract.ts";
import { versionLine } from "../version.ts";
import { readArguments } from "./arguments.ts";
import { helpText } from "./flags.ts";
import { type Input, TerminalInput } from "./input.ts";

export interface Dependencies {
  /**
   * Runs a broker until it stops; the exit code. Throws before anything listens when it cannot start:
   * the message says what and where in one sentence.
   */
  readonly start: (
    configuration: Configuration,
    credentials: Credentials,
    settings: Settings,
  ) => Promise<number>;
  readonly stdout: (text: string) => void;
  readonly stderr: (text: string) => void;
  readonly input: Input;
  readonly surroundings: Surroundings;
}

const DONE = 0;
const REFUSED = 1;

/** The streams of the process, and the real files. */
export function realDependencies(
  start: Dependencies["start"],
  emptyDatabaseBytes: number,
): Dependencies {
  return {
    start,
    stdout: (text) => writeAll(Deno.stdout, text),
    stderr: (text) => writeAll(Deno.stderr, text),
    input: new TerminalInput(),
    surroundings: {
      ...REAL_SURROUNDINGS,
      readFile: (path) => readNamedFile(path, true),
      emptyDatabaseBytes,
    },
  };
}

/** Carries out one command line. Returns the exit code: 0 done, 1 refused. */
export async function main(argv: readonly string[], on: Dependencies): Promise<number> {
  const command = readArguments(argv);
  if ("refusal" in command) {
    on.stderr(`saguin: ${command.refusal}\n`);
    return REFUSED;
  }
  // What only one command needs is loaded by it: a broker would carry it for as long as it runs.
  switch (command.kind) {
    case "version":
      on.stdout(`${versionLine()}\n`);
      return DONE;
    case "licenses":
      on.stdout((await import("../notices.ts")).NOTICES);
      return DONE;
    case "help":
      on.stdout(helpText());
      return DONE;
    case "check-config":
      return checkConfig(command.file, command.output, on);
    case "config":
      return await run(command.file, on);
    case "acl":
      return await (await import("./acl.ts")).aclCommand(command, on);
    case "passwd":
      return await (await import("./passwd.ts")).passwd(command, on);
    case "check-storage":
      return await (await import("./check_storage.ts")).checkStorage(command.path, on);
    case "migrate":
      return await (await import("./migrate.ts")).migrate(command, on);
    case "route":
      return await (await import("./route.ts")).routeCommand(command, on);
  }
}

/** What a command line's configuration says, with the files it names about users and certificates. */
interface Loaded {
  readonly configuration: Configuration;
  readonly settings: Settings;
  readonly credentials: Credentials;
  /** What is wrong with the files that it names; empty when nothing is. */
  readonly findings: string;
}

/** Undefined, with the findings printed, when the configuration itself is wrong. */
function load(file: string, on: Dependencies): Loaded | undefined {
  const loading = loadConfiguration(file, on.surroundings, true);
  if ("findings" in loading) {
    on.stderr(loading.findings);
    return undefined;
  }
  const findings = new Findings();
  const { readFile } = on.surroundings;
  const credentials = loadCredentials(loading.configuration, readFile, findings);
  checkTlsFiles(loading.configuration, readFile, findings);
  return { ...loading, credentials, findings: findings.empty ? "" : findings.report(file) };
}

/** The findings, or a summary; with `output` the whole document, and the summary beside it. */
function checkConfig(file: string, output: boolean, on: Dependencies): number {
  const loaded = load(file, on);
  if (loaded === undefined) return REFUSED;
  const { configuration, settings, findings } = loaded;
  const good = findings === "";
  const summary = good ? summaryOf(file, configuration) : "";
  if (good) warn(configuration, on);
  else on.stderr(findings);
  if (output) {
    on.stderr(summary);
    on.stdout(writeOut(settings));
  } else on.stdout(summary);
  return good ? DONE : REFUSED;
}

function summaryOf(file: string, configuration: Configuration): string {
  let summary = `${plain(file)}: ok\n`;
  for (const channel of configuration.channels) {
    const derived = channel.type === "append" && channel.deadLetterOf !== undefined;
    if (!derived) summary += `channel "${channel.name}" (${channel.type})\n`;
  }
  for (const { name, address } of configuration.amqp?.doors ?? []) {
    summary += `AMQP listener "${plain(name)}" (${plain(address.text)})\n`;
  }
  for (const { filter, table } of configuration.ingest?.routes ?? []) {
    summary += `ingest "${plain(filter)}": into table ${table}\n`;
  }
  return summary;
}

/** What a start logs as a warning, and a check says beside its summary. */
function warn(configuration: Configuration, on: Dependencies): void {
  for (const door of doorsWithoutIdentity(configuration)) {
    on.stderr(
      `warning: ${door.path} asks nobody who they are; what acl_file grants to * is granted to ` +
        "whoever comes in there\n",
    );
  }
}

async function run(file: string, on: Dependencies): Promise<number> {
  const loaded = load(file, on);
  if (loaded === undefined) return REFUSED;
  if (loaded.findings !== "") {
    on.stderr(loaded.findings);
    return REFUSED;
  }
  try {
    return await on.start(loaded.configuration, loaded.credentials, loaded.settings);
  } catch (error) {
    on.stderr(`saguin: ${failure(error)}\n`);
    return REFUSED;
  }
}

/** What can go wrong in a start is one sentence; what cannot is a fault of ours, with its stack. */
function failure(error: unknown): string {
  if (!(error instanceof Error)) return String(error);
  const expected = error instanceof StorageFailure || error.constructor === Error ||
    error.name in Deno.errors;
  return expected ? plain(error.message) : error.stack ?? error.message;
}

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  const bytes = new TextEncoder().encode(text);
  for (let written = 0; written < bytes.length;) {
    written += stream.writeSync(bytes.subarray(written));
  }
}
