/** What goes along with the executable: a licence, a configuration, and pages whose links lead somewhere. */

import type { Target } from "./targets.ts";

/** A file: its name below the directory that is published, and its path below the clone. */
export interface Beside {
  readonly name: string;
  readonly path: string;
}

/** README.md and what it links to: trees whole, since their pages link to one another. */
const DOCUMENTS = ["LICENSE", "README.md", "bench/RESULTS.md", "fixtures", "rfcs"];

/** Files by name, sorted, of the clone `root`; documents lie as they do in the clone. */
export function documents(root: string): Beside[] {
  return DOCUMENTS.flatMap((path) => filesBelow(root, path)).sort()
    .map((path) => ({ name: path, path }));
}

/** Everything beside the executable of a target. */
export function filesBeside(root: string, os: Target["os"]): Beside[] {
  return [
    ...documents(root),
    { name: "CHANGELOG.md", path: "CHANGELOG.md" },
    { name: "saguin.yaml", path: "packaging/saguin.yaml" },
    ...(os === "linux"
      ? [{ name: "saguin.service", path: "packaging/systemd/saguin.service" }]
      : []),
  ];
}

/** The files in a directory of `root`, or the file that `path` is, as paths below `root`. */
export function filesBelow(root: string, path: string): string[] {
  if (!Deno.statSync(`${root}/${path}`).isDirectory) return [path];
  return [...Deno.readDirSync(`${root}/${path}`)]
    .flatMap(({ name }) => filesBelow(root, path === "." ? name : `${path}/${name}`));
}

/** Puts `bytes` at `path`, in directories that are made for it. */
export function put(path: string, bytes: Uint8Array, mode: number): void {
  const directory = path.slice(0, path.lastIndexOf("/"));
  Deno.mkdirSync(directory, { recursive: true, mode: 0o755 });
  Deno.writeFileSync(path, bytes);
  Deno.chmodSync(path, mode);
}
