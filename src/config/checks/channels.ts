/** Channel names, filters and what a channel's keys say together. */
import {
  DEAD_LETTER_LEVEL,
  DEAD_LETTER_SUFFIX,
  hasDeadLetterLevel,
} from "../../topics/deadletter.ts";
import { expandBraces } from "../../topics/braces.ts";
import { filterFault, isFault, levels } from "../../topics/filter.ts";
import type { Place } from "../configuration.ts";
import { at, type Findings, quoted } from "../finding.ts";
import type { Block, Setting, Settings } from "../settings.ts";

const LONGEST_NAME_BYTES = 128;
const LONGEST_FILE_NAME_BYTES = 255;
const SNAPSHOT_ENDING = ".snapshot";

interface Claim {
  readonly channel: string;
  readonly place: Place;
}

export function checkChannels(settings: Settings, findings: Findings): void {
  const claims = new Map<string, Claim>();
  const bounds = {
    levels: settings.at("broker.limits.max_topic_levels"),
    length: settings.at("broker.limits.max_topic_length"),
  };
  for (const channel of settings.list("channels")) {
    const fault = nameFault(channel.name);
    if (fault !== undefined) findings.add(channel.place, channel.path, fault);
    const filter = channel.settings.get("filter");
    // A refused name would only be refused again as the filter that it stands for.
    if (filter !== undefined && (fault === undefined || filter.written)) {
      checkFilter(channel, filter, bounds, claims, findings);
    }
    if (channel.text("type") === "queue") checkQueue(channel, findings);
  }
}

/** What is wrong with a channel's name (02a 1.3, S61) and what to write. */
export function nameFault(name: string): string | undefined {
  const remedy = "write letters, digits, - _ and . only";
  if (name === "") return `is an empty channel name; ${remedy}`;
  if (!/^[A-Za-z0-9_.-]+$/.test(name)) return `is no channel name; ${remedy}`;
  if (name.length > LONGEST_NAME_BYTES) {
    return `is longer than ${LONGEST_NAME_BYTES} characters; write a shorter channel name`;
  }
  if (name === "." || name === "..") return "is no channel name; write one with a letter in it";
  if (name.endsWith(DEAD_LETTER_SUFFIX)) {
    return `ends in ${DEAD_LETTER_SUFFIX}, which names a queue's dead letters; write another name`;
  }
  if (name === "broadcast") {
    return "is the name of the topics that no channel claims; write another channel name";
  }
  const encoded = name.length + 2 * (name.split(".").length - 1) + SNAPSHOT_ENDING.length;
  if (encoded > LONGEST_FILE_NAME_BYTES) {
    return `has a snapshot file name of ${encoded} characters, each dot taking three, and ` +
      `${LONGEST_FILE_NAME_BYTES} is the most; write a name with fewer dots`;
  }
  return undefined;
}

interface TopicBounds {
  readonly levels: Setting | undefined;
  readonly length: Setting | undefined;
}

function checkFilter(
  channel: Block,
  filter: Setting,
  bounds: TopicBounds,
  claims: Map<string, Claim>,
  findings: Findings,
): void {
  const { text: written, place, path } = filter;
  const refuse = (says: string) => findings.add(place, path, says, written);

  if (channel.text("type") === "queue" && /[{}]/.test(written)) {
    refuse("holds braces, which a queue's filter cannot; write one queue for each spelling");
    return;
  }
  const expanded = expandBraces(written);
  if (isFault(expanded)) {
    refuse(`is no topic filter: ${expanded.fault}; write every spelling as {a,b}`);
    return;
  }
  for (const plain of expanded) {
    const fault = plainFilterFault(plain, bounds);
    if (fault !== undefined) {
      refuse(fault);
      return;
    }
  }
  for (const plain of expanded) {
    const other = claims.get(plain);
    if (other === undefined) claims.set(plain, { channel: channel.name, place });
    else {
      refuse(
        `claims ${quoted(plain)} for channel ${quoted(channel.name)}, and so does channel ` +
          `${quoted(other.channel)} at ${at(other.place)}; change one of the two filters`,
      );
      return;
    }
  }
}

/** A filter without braces, against the rules of 02a 1.1 and 02b 3.6. */
function plainFilterFault(filter: string, bounds: TopicBounds): string | undefined {
  const fault = filterFault(filter);
  if (fault !== undefined) {
    return `is no topic filter: ${fault}; write whole levels, + for one, # for the rest`;
  }
  const first = filter.split("/", 1)[0];
  if (first === "+" || first === "#") {
    return "begins with a wildcard; write the first level out";
  }
  if (first.startsWith("$")) {
    return "begins with $, which no channel can claim; write another level";
  }
  if (hasDeadLetterLevel(filter)) {
    return `has a level ${DEAD_LETTER_LEVEL}, which marks dead letters; write another level`;
  }
  if (bounds.levels !== undefined && levels(filter) > Number(bounds.levels.value)) {
    return `has ${levels(filter)} levels, more than ${bounds.levels.path} ` +
      `(${bounds.levels.text}); shorten it, or raise the limit`;
  }
  // Each wildcard level stands for one character: what is left is the shortest topic worth claiming.
  const shortest = new TextEncoder().encode(filter).length;
  if (bounds.length !== undefined && shortest > Number(bounds.length.value)) {
    return `claims no topic that fits ${bounds.length.path} (${bounds.length.text}); ` +
      "shorten it, or raise the limit";
  }
  return undefined;
}

function checkQueue(queue: Block, findings: Findings): void {
  const visibility = queue.settings.get("visibility_timeout");
  const expires = queue.settings.get("job_expires_after");
  if (
    visibility !== undefined && expires !== undefined &&
    Number(expires.value) <= Number(visibility.value)
  ) {
    const says = `is not longer than visibility_timeout (${visibility.text}), so that no worker ` +
      "could finish; write a longer one";
    findings.add(expires.place, expires.path, says, expires.text);
  }
  const retry = queue.blocks.get("retry");
  const backoff = retry?.settings.get("backoff");
  const base = retry?.settings.get("backoff_base");
  const alone = backoff ?? base;
  if (alone === undefined || (backoff !== undefined && base !== undefined)) return;
  const missing = backoff === undefined ? "backoff" : "backoff_base";
  if (retry?.refused(missing)) return;
  const says = `stands without ${missing}; write both or neither`;
  findings.add(alone.place, alone.path, says, alone.text);
}
