/** What a configuration says otherwise than another, key by key. */
import type { Block, Settings } from "./settings.ts";

/** Keys that a reload takes over, by the last part of their path (02b section 17). */
const RELOADED = new Set(["log_level", "same_origin", "allowed_origins"]);

/**
 * Full paths of the keys that only a restart can take over from `started` to `now`, in the order of the
 * table; what is gone comes last. Defaults count with what they come to. A channel, a door or whatever else
 * there may be several of is named itself where only one of the two has it.
 */
export function waitingForRestart(started: Settings, now: Settings): string[] {
  const before = texts(started);
  const after = texts(now);
  const named: string[] = [];
  let whole: string | undefined;
  for (const path of new Set([...after.keys(), ...before.keys()])) {
    const [text, other] = [after.get(path), before.get(path)];
    if ((text ?? other) === ITEM) whole = text === other ? undefined : `${path}.`;
    else if (whole !== undefined && path.startsWith(whole)) continue;
    if (text === other || RELOADED.has(path.slice(path.lastIndexOf(".") + 1))) continue;
    named.push(path);
  }
  return named;
}

/** In place of the value of something that there may be several of; its keys follow it. */
const ITEM = "\0";

/** The value of each key as it would be written, by its path. */
function texts(block: Block, into = new Map<string, string>()): Map<string, string> {
  for (const { path, text, value } of block.settings.values()) {
    into.set(path, Array.isArray(value) ? JSON.stringify(value) : text);
  }
  for (const under of block.blocks.values()) texts(under, into);
  for (const item of [...block.lists.values()].flat()) {
    into.set(item.path, ITEM);
    texts(item, into);
  }
  return into;
}
