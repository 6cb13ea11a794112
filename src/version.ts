/** What this program is: the figures that every report about it begins with. */

/** The one version of this broker; a release whose tag says otherwise is refused. */
export const VERSION = "0.1.0-rc.1";

/** The revision it was built from; a build writes it here. At most 24 bytes, as snapshots keep it. */
export const REVISION = "dev";

/**
 * How it came to run: from its sources, as the portable single file that unpacks its runtime, or as an
 * executable made by `deno compile`.
 */
export type BuildKind = "source" | "portable" | "compiled";

/** A build writes it here. */
export const BUILD: BuildKind = "source";

/** The line of `--version`: version, revision, kind of build, runtime and machine. */
export function versionLine(): string {
  const { deno, v8 } = Deno.version;
  return `saguin ${VERSION} (${REVISION}, ${BUILD}, Deno ${deno}, V8 ${v8}, ${Deno.build.target})`;
}
