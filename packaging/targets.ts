/** What is built for: the machines of the first release, and where each one's runtime comes from. */

export interface Target {
  /** As in the names of the files that are built. */
  readonly name: string;
  readonly os: "linux" | "darwin";
  readonly arch: "x86_64" | "aarch64";
  /** As `deno compile --target` and Deno.build.target have it. */
  readonly triple: string;
  /** The npm package that holds the runtime. */
  readonly runtimePackage: string;
  /** Subresource integrity of that package's tarball at the pinned version. */
  readonly integrity: string;
  /** C compilers that make this target's launcher, the first that is there; none: it is a shell script. */
  readonly compilers: readonly string[];
  /** What Debian calls the architecture; absent where there is no Debian. */
  readonly debian?: string;
}

/** The version that `integrity` is of. A build by any other Deno is refused. */
export const RUNTIME_VERSION = "2.9.6";

export const TARGETS: readonly Target[] = [
  {
    name: "linux-x86_64",
    os: "linux",
    arch: "x86_64",
    triple: "x86_64-unknown-linux-gnu",
    runtimePackage: "@deno/linux-x64-glibc",
    integrity:
      "sha512-3md4TKLCuzsLDmfOoC5KN7NAZaxSVkMgm64vg6foD00JBADCpYS2/5QqXfzgnP5ZQz3iLP9vBQJtEgc116OAoQ==",
    compilers: compilers("x86_64"),
    debian: "amd64",
  },
  {
    name: "linux-arm64",
    os: "linux",
    arch: "aarch64",
    triple: "aarch64-unknown-linux-gnu",
    runtimePackage: "@deno/linux-arm64-glibc",
    integrity:
      "sha512-poqhoH9B3nYloigEMPT5t8HY+wBeiuea1An5Q7fqgJzP0SYmWsoS/oUnWO/pEiA4ofzIBy1Elt/in58xKtxEoQ==",
    compilers: compilers("aarch64"),
    debian: "arm64",
  },
  {
    name: "macos-x86_64",
    os: "darwin",
    arch: "x86_64",
    triple: "x86_64-apple-darwin",
    runtimePackage: "@deno/darwin-x64",
    integrity:
      "sha512-tPi3CWPRdjW1MaWlvWjORE7Ass5SADdWdj1BF1Q1PEdzi+5u/mC5YhmZzniMiPr81PpaFeqjXaLAsfb8lFsZ0Q==",
    compilers: [],
  },
  {
    name: "macos-arm64",
    os: "darwin",
    arch: "aarch64",
    triple: "aarch64-apple-darwin",
    runtimePackage: "@deno/darwin-arm64",
    integrity:
      "sha512-V8uO1Aolrl/yvdMb5lOtgtigs8YuZBjrOrgviVMiYkQ0swymFfzkae1wZak4Xi24t7vf7d/eiMb/7ryjjVm+tg==",
    compilers: [],
  },
];

function compilers(arch: Target["arch"]): readonly string[] {
  const cross = `${arch}-linux-gnu-gcc`;
  const native = Deno.build.os === "linux" && Deno.build.arch === arch;
  return native ? ["cc", "gcc", cross] : [cross];
}

/** The target this machine runs, if it is one. */
export function hostTarget(): Target | undefined {
  return TARGETS.find(({ triple }) => triple === Deno.build.target);
}

/**
 * The targets of a list such as `linux-x86_64,macos-arm64`; every one there is, when nothing is listed.
 * @throws Error naming the first that is none
 */
export function targetsNamed(list: string | undefined): readonly Target[] {
  if (list === undefined || list === "") return TARGETS;
  return list.split(",").map((name) => {
    const target = TARGETS.find((target) => target.name === name);
    if (target !== undefined) return target;
    const known = TARGETS.map(({ name }) => name).join(", ");
    throw new Error(`"${name}" is no target; there are ${known}`);
  });
}
