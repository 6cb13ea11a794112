/** The program as a folder of JavaScript that needs no cache, no lock file and no network. */
import type { BuildKind } from "../src/version.ts";
import { output } from "./command.ts";

export interface Program {
  /** Holds nothing but the files. */
  readonly directory: string;
  /** Names without directories, sorted; `main.js` is where the process and its workers begin. */
  readonly files: readonly string[];
}

export const ENTRY = "main.js";

/** What a bundle is made from, relative to the clone. */
const SOURCES = ["main.ts", "src", "deno.json", "deno.lock"];

/**
 * Bundles the sources as they are, with what kind of build they are in and their revision written into
 * them. Pieces that a worker does not need stay files of their own, so that it does not load them.
 */
export async function bundle(
  root: string,
  work: string,
  kind: BuildKind,
  revision: string,
  notices: string,
): Promise<Program> {
  const stage = `${work}/sources-${kind}`;
  const directory = `${work}/program-${kind}`;
  removeTree(stage);
  removeTree(directory);
  for (const name of SOURCES) copyTree(`${root}/${name}`, `${stage}/${name}`);
  const version = `${stage}/src/version.ts`;
  Deno.writeTextFileSync(version, stamped(Deno.readTextFileSync(version), kind, revision));
  Deno.writeTextFileSync(`${stage}/src/notices.ts`, noticesModule(notices));
  await output(Deno.execPath(), [
    "bundle",
    "--quiet",
    "--platform=deno",
    "--code-splitting",
    "--frozen",
    `--outdir=${directory}`,
    "main.ts",
  ], { cwd: stage });
  removeTree(stage);
  const files = [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
  if (!files.includes(ENTRY)) throw new Error(`the bundle has no ${ENTRY}: ${files.join(", ")}`);
  return { directory, files };
}

/** src/version.ts with the two lines a build writes. @throws Error when one is not there to write */
export function stamped(source: string, kind: BuildKind, revision: string): string {
  return replaced(
    replaced(source, /^(export const REVISION = ")dev(";)$/m, revision),
    /^(export const BUILD: BuildKind = ")source(";)$/m,
    kind,
  );
}

function replaced(source: string, line: RegExp, value: string): string {
  if (!line.test(source)) throw new Error(`src/version.ts has no line like ${line.source}`);
  return source.replace(line, (_, before: string, after: string) => before + value + after);
}

/** src/notices.ts as a build has it. */
export function noticesModule(notices: string): string {
  return `/** Written by the build: packaging/notices.ts. */\nexport const NOTICES = ${
    JSON.stringify(notices)
  };\n`;
}

export function removeTree(path: string): void {
  try {
    Deno.removeSync(path, { recursive: true });
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}

function copyTree(from: string, to: string): void {
  if (!Deno.statSync(from).isDirectory) {
    Deno.mkdirSync(to.slice(0, to.lastIndexOf("/")), { recursive: true });
    Deno.copyFileSync(from, to);
    return;
  }
  Deno.mkdirSync(to, { recursive: true });
  for (const { name } of Deno.readDirSync(from)) copyTree(`${from}/${name}`, `${to}/${name}`);
}
