/** The third-party notices: what is inside of a build beside our own code, and under which licences. */
import { output } from "./command.ts";

/** A graph as `deno info --json` prints it, what is used of it here. */
interface Graph {
  readonly modules: readonly { readonly kind?: string; readonly npmPackage?: string }[];
  readonly npmPackages: Readonly<Record<string, NpmPackage>>;
}

interface NpmPackage {
  readonly name: string;
  readonly version: string;
  readonly dependencies: readonly string[];
  /** Where the cache holds it. */
  readonly localPath: string;
}

/** Everything: our own licence, the packages of npm in the bundle, the runtime. */
export async function thirdPartyNotices(root: string): Promise<string> {
  const own = Deno.readTextFileSync(`${root}/LICENSE`).trimEnd();
  const packages = await bundledPackages(root);
  const read = (name: string) =>
    Deno.readTextFileSync(`${root}/packaging/notices/${name}`).trimEnd();
  const runtime = read("runtime.txt")
    .replace("@VERSION@", Deno.version.deno)
    .replace("@V8@", Deno.version.v8);
  const crates = cratesNamedIn(Deno.readFileSync(Deno.execPath()));
  return [
    heading("saguin"),
    own,
    ...packages.flatMap((entry) => [
      heading(`${entry.name} ${entry.version}`),
      licenceOf(entry),
    ]),
    runtime,
    lines(crates),
    heading("Apache licence 2.0"),
    read("Apache-2.0.txt"),
  ].join("\n\n").replace(/^\n+/, "") + "\n";
}

function heading(text: string): string {
  return `${text}\n${"=".repeat(text.length)}`;
}

/** The npm packages that main.ts reaches, with what they depend on, sorted. */
async function bundledPackages(root: string): Promise<readonly NpmPackage[]> {
  const graph = JSON.parse(
    await output(Deno.execPath(), ["info", "--json", "--frozen", "main.ts"], { cwd: root }),
  ) as Graph;
  const found = new Set<string>();
  const reach = (id: string) => {
    if (found.has(id)) return;
    found.add(id);
    graph.npmPackages[id].dependencies.forEach(reach);
  };
  for (const { npmPackage } of graph.modules) if (npmPackage !== undefined) reach(npmPackage);
  return [...found].sort().map((id) => graph.npmPackages[id]);
}

/** @throws Error when the package comes without one: then it cannot be passed on */
function licenceOf({ name, version, localPath }: NpmPackage): string {
  const file = [...Deno.readDirSync(localPath)].find((entry) =>
    entry.isFile && /^(licen[cs]e|copying)(\.(md|txt))?$/i.test(entry.name)
  );
  if (file === undefined) throw new Error(`${name} ${version} comes without a licence text`);
  return Deno.readTextFileSync(`${localPath}/${file.name}`).trimEnd();
}

/**
 * Name and version of every crate that an executable made by Rust mentions: the paths of its sources,
 * which its messages about faults contain.
 */
export function cratesNamedIn(executable: Uint8Array): readonly string[] {
  // Byte by byte: a path may stand anywhere between things that are no text.
  const text = new TextDecoder("latin1").decode(executable);
  const path = /\/([a-z][\w-]*)-(\d+\.\d+\.\d+(?:[+-][\w.+-]*)?)\/src\//gi;
  const found = new Set<string>();
  for (const [, name, version] of text.matchAll(path)) found.add(`${name} ${version}`);
  return [...found].sort();
}

/** Names one after another, in lines of a readable length. */
function lines(names: readonly string[]): string {
  const LONGEST = 96;
  const written: string[] = [];
  let line = "   ";
  for (const name of names) {
    if (line.length + name.length + 2 > LONGEST) {
      written.push(line);
      line = "   ";
    }
    line += ` ${name},`;
  }
  written.push(line.replace(/,$/, ""));
  return written.join("\n");
}
