/**
 * `make deb`: a Debian package of every Linux target that `make build` has left in dist/.
 *
 *     deno run -A packaging/deb.ts [--targets linux-x86_64]
 */
import { parseArgs } from "node:util";
import { gzipSync } from "node:zlib";
import { VERSION } from "../src/version.ts";
import { documents, filesBelow, put } from "./beside.ts";
import { writeChecksums } from "./checksums.ts";
import { output } from "./command.ts";
import { debianVersion } from "./debian_version.ts";
import { removeTree } from "./program.ts";
import { type Revision, revisionOf } from "./revision.ts";
import { type Target, targetsNamed } from "./targets.ts";

const ROOT = new URL("..", import.meta.url).pathname.replace(/\/$/, "");
const DIST = `${ROOT}/dist`;
const SCRIPTS = ["postinst", "prerm", "postrm"];

const DOC = "usr/share/doc/saguin";
/** What a build leaves of a target, and where Debian wants it. */
const FILES: readonly (readonly [string, string, number])[] = [
  ["saguin", "usr/bin/saguin", 0o755],
  ["saguin.service", "usr/lib/systemd/system/saguin.service", 0o644],
  ["saguin.yaml", "etc/saguin/saguin.yaml", 0o644],
  ["THIRD-PARTY-NOTICES.txt", `${DOC}/copyright`, 0o644],
];

async function main(): Promise<void> {
  const { values } = parseArgs({ options: { targets: { type: "string" } } });
  const targets = targetsNamed(values.targets)
    .filter((target) => target.debian !== undefined && isBuilt(target));
  if (targets.length === 0) throw new Error('nothing is built for Linux: run "make build" first');
  const revision = await revisionOf(ROOT);
  for (const target of targets) console.log(await packageOf(target, revision));
  writeChecksums(DIST, VERSION);
}

function built(target: Target): string {
  return `${DIST}/saguin-${VERSION}-${target.name}`;
}

function isBuilt(target: Target): boolean {
  try {
    return Deno.statSync(`${built(target)}/saguin`).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

/** The path of the package. */
async function packageOf(target: Target, { writtenAt }: Revision): Promise<string> {
  const tree = `${DIST}/.deb-${target.name}`;
  removeTree(tree);
  for (const [from, to, mode] of FILES) {
    put(`${tree}/${to}`, Deno.readFileSync(`${built(target)}/${from}`), mode);
  }
  for (const { name, path } of documents(ROOT)) {
    put(`${tree}/${DOC}/${name}`, Deno.readFileSync(`${ROOT}/${path}`), 0o644);
  }
  const changes = gzipSync(Deno.readFileSync(`${ROOT}/CHANGELOG.md`), { level: 9 });
  put(`${tree}/${DOC}/changelog.gz`, changes, 0o644);

  const bytes = filesBelow(tree, ".")
    .reduce((sum, path) => sum + Deno.statSync(`${tree}/${path}`).size, 0);
  const control = Deno.readTextFileSync(`${ROOT}/packaging/debian/control`)
    .replace("@VERSION@", debianVersion(VERSION))
    .replace("@ARCHITECTURE@", target.debian!)
    .replace("@INSTALLED_SIZE@", String(Math.ceil(bytes / 1024)));
  put(`${tree}/DEBIAN/control`, new TextEncoder().encode(control), 0o644);
  for (const name of ["conffiles", ...SCRIPTS]) {
    const mode = name === "conffiles" ? 0o644 : 0o755;
    put(`${tree}/DEBIAN/${name}`, Deno.readFileSync(`${ROOT}/packaging/debian/${name}`), mode);
  }
  const path = `${DIST}/saguin_${debianVersion(VERSION)}_${target.debian}.deb`;
  // What is in it hardly shrinks any more, and is not worth the time of a better compression.
  await output("dpkg-deb", ["--root-owner-group", "-Zgzip", "--build", tree, path], {
    env: { SOURCE_DATE_EPOCH: String(writtenAt) },
  });
  removeTree(tree);
  return path;
}

if (import.meta.main) {
  try {
    await main();
  } catch (error) {
    console.error(`deb: ${error instanceof Error ? error.message : String(error)}`);
    Deno.exit(1);
  }
}
