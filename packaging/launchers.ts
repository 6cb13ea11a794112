/** The launcher of a target: what its single file begins with. */
import { onPath, output } from "./command.ts";
import type { Target } from "./targets.ts";

/** Position-dependent, without a C library, and the same bytes from the same compiler. */
const FLAGS = [
  "-std=c11",
  "-O2",
  "-Wall",
  "-Wextra",
  "-Wconversion",
  "-Werror",
  "-ffreestanding",
  // The loops of memcpy and memset would otherwise be made into calls of themselves.
  "-fno-tree-loop-distribute-patterns",
  "-fno-stack-protector",
  "-fno-asynchronous-unwind-tables",
  "-fno-pie",
  "-no-pie",
  "-nostdlib",
  "-static",
  "-s",
  "-Wl,--build-id=none",
  "-Wl,-z,noexecstack",
];

const SOURCES = ["cache.c", "inflate.c", "launcher.c", "package.c", "sha256.c", "system.c"];

/**
 * Compiles the launcher of a target that has one in C.
 * @throws Error naming what to install, when no compiler is there
 */
export async function compileLauncher(
  root: string,
  work: string,
  target: Target,
): Promise<Uint8Array> {
  const compiler = target.compilers.find(onPath);
  if (compiler === undefined) {
    throw new Error(
      `no C compiler for ${target.name} is there (${target.compilers.join(", ")}); ` +
        `Debian has it in gcc-${target.arch.replace("_", "-")}-linux-gnu`,
    );
  }
  const path = `${work}/launcher-${target.name}`;
  const sources = SOURCES.map((name) => `${root}/packaging/launcher/${name}`);
  await output(compiler, [...FLAGS, "-o", path, ...sources]);
  return Deno.readFileSync(path);
}

/** The launcher of every other target, its blanks not filled in. */
export function shellLauncher(root: string): string {
  return Deno.readTextFileSync(`${root}/packaging/launcher/launcher.sh`);
}
