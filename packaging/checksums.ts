/** dist/checksums.txt: the SHA-256 of everything of one version that is there to download. */
import { createHash } from "node:crypto";
import { debianVersion } from "./debian_version.ts";

/** Writes it, in the form that `sha256sum -c` reads. Answers the names in it. */
export function writeChecksums(dist: string, version: string): readonly string[] {
  const names = [...Deno.readDirSync(dist)].map(({ name }) => name)
    .filter((name) => isDownload(name, version)).sort();
  const text = names.map((name) => {
    const hash = createHash("sha256").update(Deno.readFileSync(`${dist}/${name}`)).digest("hex");
    return `${hash}  ${name}\n`;
  }).join("");
  Deno.writeTextFileSync(`${dist}/checksums.txt`, text);
  return names;
}

function isDownload(name: string, version: string): boolean {
  return (name.startsWith(`saguin-${version}-`) && name.endsWith(".tar.gz")) ||
    (name.startsWith(`saguin_${debianVersion(version)}_`) && name.endsWith(".deb"));
}
