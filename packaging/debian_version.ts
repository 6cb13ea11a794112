/** A semantic version as Debian sorts it: what precedes a release has a tilde before it. */
export function debianVersion(version: string): string {
  return version.replace("-", "~");
}
