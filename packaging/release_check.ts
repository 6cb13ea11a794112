/**
 * Whether a release is one: its tag, the version constant, deno.json and the changelog have to agree,
 * and the changelog has to say of which day it is.
 *
 *     deno run -A packaging/release_check.ts v0.1.0 [notes.md]
 *
 * Prints what disagrees and ends with 1; or writes the changelog's entry to the file.
 */
import { VERSION } from "../src/version.ts";

export interface Stated {
  /** As git has it, `v` before the version. */
  readonly tag: string;
  /** src/version.ts */
  readonly constant: string;
  /** deno.json */
  readonly manifest: string;
  /** CHANGELOG.md */
  readonly changelog: string;
}

/** Semantic versioning 2.0.0 without build metadata: a tag and a file name have no place for it. */
const VERSION_FORM =
  /^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-(0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][\da-zA-Z-]*))*)?$/;

/** What keeps this from being a release, a sentence each; empty when nothing does. */
export function disagreements(stated: Stated): readonly string[] {
  const { tag, constant, manifest, changelog } = stated;
  const found: string[] = [];
  const version = tag.replace(/^v/, "");
  if (!tag.startsWith("v") || !VERSION_FORM.test(version)) {
    found.push(`the tag "${tag}" is no "v" and a semantic version`);
  }
  if (constant !== version) {
    found.push(`VERSION of src/version.ts is "${constant}", the tag says "${version}"`);
  }
  if (manifest !== version) {
    found.push(`"version" of deno.json is "${manifest}", the tag says "${version}"`);
  }
  const entry = newestEntry(changelog);
  if (entry === undefined) found.push("CHANGELOG.md has no entry");
  else if (entry.version !== version) {
    found.push(`the newest entry of CHANGELOG.md is "${entry.version}", the tag says "${version}"`);
  } else if (!isDay(entry.says)) {
    found.push(
      `CHANGELOG.md says "${entry.says}" of ${version}; a release has its day, as 2026-01-31`,
    );
  } else if (entry.text === "") found.push(`CHANGELOG.md says nothing about ${version}`);
  return found;
}

/** The first `## <version> - <day>` with what is written below it. */
export function newestEntry(
  changelog: string,
): { readonly version: string; readonly says: string; readonly text: string } | undefined {
  const [, first] = changelog.split(/^## /m);
  if (first === undefined) return undefined;
  const end = first.indexOf("\n");
  const heading = end < 0 ? first : first.slice(0, end);
  const dash = heading.indexOf(" - ");
  return {
    version: (dash < 0 ? heading : heading.slice(0, dash)).trim(),
    says: dash < 0 ? "" : heading.slice(dash + 3).trim(),
    text: end < 0 ? "" : first.slice(end).trim(),
  };
}

function isDay(text: string): boolean {
  if (!/^\d{4}-\d{2}-\d{2}$/.test(text)) return false;
  const day = new Date(`${text}T00:00:00Z`);
  return !Number.isNaN(day.getTime()) && day.toISOString().startsWith(text);
}

if (import.meta.main) {
  const [tag = "", notes] = Deno.args;
  const read = (name: string) => Deno.readTextFileSync(new URL(`../${name}`, import.meta.url));
  const changelog = read("CHANGELOG.md");
  const manifest = (JSON.parse(read("deno.json")) as { version: string }).version;
  const found = disagreements({ tag, constant: VERSION, manifest, changelog });
  for (const sentence of found) console.error(`release refused: ${sentence}`);
  if (found.length > 0) Deno.exit(1);
  if (notes !== undefined) Deno.writeTextFileSync(notes, `${newestEntry(changelog)!.text}\n`);
}
