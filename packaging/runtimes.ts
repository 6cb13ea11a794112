/** The runtimes that are packed in: the npm packages of the pinned Deno, and the base of `deno compile`. */
import { createHash } from "node:crypto";
import { output } from "./command.ts";
import { packRuntime, type Runtime } from "./single_file.ts";
import { RUNTIME_VERSION, type Target, TARGETS } from "./targets.ts";

/** @throws Error when this Deno is not the one whose packages are known */
export function requirePinnedRuntime(): void {
  if (Deno.version.deno === RUNTIME_VERSION) return;
  throw new Error(
    `this is Deno ${Deno.version.deno}, and packaging/targets.ts knows the packages of ${RUNTIME_VERSION}`,
  );
}

/**
 * The runtime of a target from its npm package, checked against the integrity that is written down.
 * What was fetched and deflated once stays in `store`.
 */
export async function runtimeOf(target: Target, store: string): Promise<Runtime> {
  const directory = `${store}/${RUNTIME_VERSION}-${target.name}`;
  const unpacked = `${directory}/deno`;
  const packed = `${directory}/deno.deflate`;
  if (!exists(packed)) {
    Deno.mkdirSync(directory, { recursive: true });
    const tarball = await fetchPackage(target, directory);
    await output("tar", ["-xzf", tarball, "-C", directory, "--strip-components=1", "package/deno"]);
    Deno.removeSync(tarball);
    const beside = `${packed}.new`;
    Deno.writeFileSync(beside, packRuntime(Deno.readFileSync(unpacked)));
    Deno.renameSync(beside, packed);
  }
  return { bytes: Deno.readFileSync(unpacked), packed: Deno.readFileSync(packed) };
}

async function fetchPackage(target: Target, directory: string): Promise<string> {
  const named = `${target.runtimePackage}@${RUNTIME_VERSION}`;
  const printed = await output("npm", [
    ...["pack", named, "--json", "--ignore-scripts", "--pack-destination", directory],
  ]);
  const [{ filename }] = JSON.parse(printed) as { filename: string }[];
  const tarball = `${directory}/${filename}`;
  const hash = createHash("sha512").update(Deno.readFileSync(tarball)).digest("base64");
  if (`sha512-${hash}` !== target.integrity) {
    Deno.removeSync(tarball);
    throw new Error(
      `${named} is not what packaging/targets.ts says: its integrity is sha512-${hash}`,
    );
  }
  return tarball;
}

/**
 * Where `deno compile` finds its base for a target without the network: a file for DENORT_BIN, or its
 * own download cache; undefined when there is none.
 */
export async function compileBase(
  target: Target,
): Promise<{ readonly denortBin: string | undefined } | undefined> {
  const path = Deno.env.get("DENORT_BIN");
  if (path !== undefined && path !== "") {
    const of = executableOf(path);
    if (of === undefined) throw new Error(`DENORT_BIN ${path} is no executable of any target`);
    if (of === target) return { denortBin: path };
  }
  const { denoDir } = JSON.parse(await output(Deno.execPath(), ["info", "--json"])) as {
    denoDir: string;
  };
  const cached = `${denoDir}/dl/release/v${RUNTIME_VERSION}/denort-${target.triple}.zip`;
  return exists(cached) ? { denortBin: undefined } : undefined;
}

/** The target that an executable is of, by its first bytes; undefined when it is of none. */
export function executableOf(path: string): Target | undefined {
  using file = Deno.openSync(path);
  const bytes = new Uint8Array(20);
  if (file.readSync(bytes) !== bytes.length) return undefined;
  const view = new DataView(bytes.buffer);
  // ELF: magic, e_machine at 18. Mach-O of 64 bits: magic, cputype.
  const isElf = view.getUint32(0) === 0x7f454c46;
  const isMach = view.getUint32(0, true) === 0xfeedfacf;
  const machine = isElf ? view.getUint16(18, true) : isMach ? view.getUint32(4, true) : undefined;
  const found = MACHINES.find((known) => known.elf === isElf && known.machine === machine);
  return found && TARGETS.find(({ triple }) => triple === found.triple);
}

const MACHINES = [
  { elf: true, machine: 62, triple: "x86_64-unknown-linux-gnu" },
  { elf: true, machine: 183, triple: "aarch64-unknown-linux-gnu" },
  { elf: false, machine: 0x01000007, triple: "x86_64-apple-darwin" },
  { elf: false, machine: 0x0100000c, triple: "aarch64-apple-darwin" },
];

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
