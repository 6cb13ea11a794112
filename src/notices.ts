/**
 * The text of `--licenses`: our own licence and those of everything that is bundled. A build writes
 * them here; where nothing is bundled there is nothing to pass on.
 */
export const NOTICES =
  "saguin is under the MIT licence: see LICENSE beside its sources. Nothing is bundled with " +
  "what runs from there;\nthe runtime and the packages it uses, see README.md, come with their own licences.\n";
