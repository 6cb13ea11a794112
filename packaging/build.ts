/**
 * `make build`: for every target one executable file that needs no installation, and the archives that
 * are published. What is made lies in dist/:
 *
 *     saguin-<version>-<target>/          saguin, THIRD-PARTY-NOTICES.txt, what beside.ts names
 *     saguin-<version>-<target>.tar.gz    the same
 *     oci/                                context of the container image
 *     checksums.txt                       SHA-256 of everything to download
 *
 *     deno run -A packaging/build.ts [--targets linux-x86_64,linux-arm64] [--kind compiled|portable]
 *
 * Without --kind a target whose base of `deno compile` is there is compiled, and any other becomes a
 * portable single file (rfcs/0008-one-file.md). `--kind compiled` lets Deno fetch its base.
 */
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { type BuildKind, VERSION } from "../src/version.ts";
import { filesBelow, filesBeside, put } from "./beside.ts";
import { writeChecksums } from "./checksums.ts";
import { output } from "./command.ts";
import { compileLauncher, shellLauncher } from "./launchers.ts";
import { thirdPartyNotices } from "./notices.ts";
import { bundle, ENTRY, type Program, removeTree } from "./program.ts";
import { type Revision, revisionOf } from "./revision.ts";
import { compileBase, requirePinnedRuntime, runtimeOf } from "./runtimes.ts";
import { shellFile, singleFile } from "./single_file.ts";
import { tar } from "./tar.ts";
import { hostTarget, type Target, targetsNamed } from "./targets.ts";

const ROOT = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
const DIST = `${ROOT}/dist`;
const WORK = `${DIST}/.work`;
const RUNTIMES = `${ROOT}/.packaging/runtimes`;
const EXECUTABLE_MODE = 0o755;
const FILE_MODE = 0o644;

async function main(): Promise<void> {
  const { values } = parseArgs({
    options: { targets: { type: "string" }, kind: { type: "string" } },
  });
  const targets = targetsNamed(values.targets);
  const forced = readKind(values.kind);
  requirePinnedRuntime();
  const revision = await revisionOf(ROOT);
  const flags = Deno.readTextFileSync(`${ROOT}/packaging/run_flags`).trim().split("\n");
  Deno.mkdirSync(WORK, { recursive: true });
  const notices = await thirdPartyNotices(ROOT);
  const programs = new Map<BuildKind, Program>();
  const programOf = async (kind: BuildKind) => {
    const known = programs.get(kind);
    if (known !== undefined) return known;
    const program = await bundle(ROOT, WORK, kind, revision.text, notices);
    programs.set(kind, program);
    return program;
  };

  for (const target of targets) {
    const base = forced === "portable" ? undefined : await compileBase(target);
    const kind = forced ?? (base === undefined ? "portable" : "compiled");
    const directory = `${DIST}/saguin-${VERSION}-${target.name}`;
    removeTree(directory);
    Deno.mkdirSync(directory, { recursive: true });
    const executable = `${directory}/saguin`;
    const program = await programOf(kind);
    try {
      if (kind === "compiled") {
        await compile(target, program, flags, executable, base?.denortBin);
      } else await pack(target, program, flags, executable);
      Deno.chmodSync(executable, EXECUTABLE_MODE);
      await compareVersion(target, executable, kind, revision);
    } catch (error) {
      // Nothing that is no build stays where builds are looked for.
      removeTree(directory);
      throw error;
    }
    writeBeside(directory, target, notices);
    if (target.debian !== undefined) layOutImage(target.debian, executable);
    const archive = writeArchive(directory, revision);
    const size = (path: string) => `${(Deno.statSync(path).size / 1e6).toFixed(1)} MB`;
    console.log(`${target.name}: ${kind}, ${size(executable)}, archive ${size(archive)}`);
  }
  removeTree(WORK);
  writeChecksums(DIST, VERSION);
}

function readKind(given: string | undefined): "compiled" | "portable" | undefined {
  if (given === undefined || given === "") return undefined;
  if (given === "compiled" || given === "portable") return given;
  throw new Error(`--kind "${given}" is neither compiled nor portable`);
}

async function compile(
  target: Target,
  program: Program,
  flags: readonly string[],
  executable: string,
  denortBin: string | undefined,
): Promise<void> {
  const { DENORT_BIN: _, ...environment } = Deno.env.toObject();
  if (denortBin !== undefined) environment.DENORT_BIN = denortBin;
  await output(Deno.execPath(), [
    ...["compile", "--quiet", "--no-check", "--no-config", "--no-lock", "--no-npm"],
    ...flags,
    `--target=${target.triple}`,
    `--output=${executable}`,
    ...program.files.filter((file) => file !== ENTRY).map((file) => `--include=${file}`),
    ENTRY,
  ], { cwd: program.directory, env: environment, clearEnv: true });
}

async function pack(
  target: Target,
  program: Program,
  flags: readonly string[],
  executable: string,
): Promise<void> {
  const runtime = await runtimeOf(target, RUNTIMES);
  const bytes = target.compilers.length > 0
    ? singleFile(await compileLauncher(ROOT, WORK, target), runtime, program, flags)
    : shellFile(shellLauncher(ROOT), runtime, program, flags);
  Deno.writeFileSync(executable, bytes);
}

/** What can be run here has to say that it is what was asked for. */
async function compareVersion(
  target: Target,
  executable: string,
  kind: BuildKind,
  revision: Revision,
): Promise<void> {
  if (target !== hostTarget()) return;
  const cache = `${WORK}/cache`;
  Deno.mkdirSync(cache, { recursive: true });
  const says = await output(executable, ["--version"], { env: { SAGUIN_CACHE: cache } });
  removeTree(cache);
  if (!says.startsWith(`saguin ${VERSION} (${revision.text}, ${kind}, `)) {
    throw new Error(`${executable} --version says: ${says}`);
  }
}

function writeBeside(directory: string, target: Target, notices: string): void {
  for (const { name, path } of filesBeside(ROOT, target.os)) {
    put(`${directory}/${name}`, Deno.readFileSync(`${ROOT}/${path}`), FILE_MODE);
  }
  Deno.writeTextFileSync(`${directory}/THIRD-PARTY-NOTICES.txt`, notices);
}

/** The context of packaging/oci/Containerfile: one directory an architecture, by its name there. */
function layOutImage(architecture: string, executable: string): void {
  const context = `${DIST}/oci`;
  removeTree(`${context}/${architecture}`);
  Deno.mkdirSync(`${context}/${architecture}`, { recursive: true });
  Deno.linkSync(executable, `${context}/${architecture}/saguin`);
  Deno.copyFileSync(`${ROOT}/packaging/oci/Containerfile`, `${context}/Containerfile`);
  Deno.copyFileSync(`${ROOT}/packaging/saguin.yaml`, `${context}/saguin.yaml`);
}

/** The directory as one file beside it; the same bytes for the same sources. */
function writeArchive(directory: string, { writtenAt }: Revision): string {
  const path = `${directory}.tar.gz`;
  const name = directory.slice(directory.lastIndexOf("/") + 1);
  const entries = filesBelow(directory, ".").sort().map((file) => ({
    path: `${name}/${file}`,
    mode: file === "saguin" ? EXECUTABLE_MODE : FILE_MODE,
    bytes: Deno.readFileSync(`${directory}/${file}`),
  }));
  Deno.writeFileSync(path, gzipSync(tar(entries, writtenAt), { level: 4 }));
  return path;
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error(`build: ${error instanceof Error ? error.message : String(error)}`);
    Deno.exit(1);
  }
}
