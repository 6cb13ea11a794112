import { readDuration } from "../../config/units.ts";
import { fromMilliseconds, type Nanoseconds } from "../../platform/clock.ts";
import type { Offset } from "../../storage/record.ts";

/** Where a seek leads, before anything of the channel is known (D12.1 to D12.5). */
export type SeekTarget =
  | { readonly kind: "floor" }
  | { readonly kind: "end" }
  /** At least 1; may be far beyond any offset, then Infinity. */
  | { readonly kind: "offset"; readonly offset: Offset }
  | { readonly kind: "time"; readonly time: Nanoseconds };

/** No form that is read is longer. */
const LONGEST_BYTES = 64;

/** The times a store can compare: signed 64-bit nanoseconds from 1970 on. */
const EARLIEST: Nanoseconds = 0n;
const LATEST: Nanoseconds = 2n ** 63n - 1n;

const MOMENT = new RegExp(
  "^(\\d{4}-\\d\\d-\\d\\d)[Tt](\\d\\d:\\d\\d:\\d\\d)(?:\\.(\\d+))?" +
    "(?:[Zz]|([+-])(\\d\\d):(\\d\\d))$",
);

/**
 * The target a seek's payload names; undefined when it is malformed (D12.6). `now` is where durations
 * count back from; digits alone are always an offset (D12.7).
 */
export function parseSeekTarget(payload: Uint8Array, now: Nanoseconds): SeekTarget | undefined {
  if (payload.byteLength === 0 || payload.byteLength > LONGEST_BYTES) return undefined;
  const text = String.fromCharCode(...payload);
  if (text === "-1") return { kind: "end" };
  if (/^\d+$/.test(text)) {
    const offset = Number(text);
    return offset === 0 ? { kind: "floor" } : { kind: "offset", offset };
  }
  const ago = readDuration(text.replace(/^[+-]/, ""));
  if ("ms" in ago) return at(now - fromMilliseconds(ago.ms));
  const moment = readMoment(text);
  return moment === undefined ? undefined : at(moment);
}

function at(time: Nanoseconds): SeekTarget {
  if (time < EARLIEST) time = EARLIEST;
  if (time > LATEST) time = LATEST;
  return { kind: "time", time };
}

/** An RFC 3339 moment; digits of a second past the ninth are cut off. */
function readMoment(text: string): Nanoseconds | undefined {
  const match = MOMENT.exec(text);
  if (match === null) return undefined;
  const [, date, time, fraction = "", sign, hours, minutes] = match;
  const written = `${date}T${time}.000Z`;
  const ms = Date.parse(written);
  // Dates that do not exist come back as another day, or not at all.
  if (Number.isNaN(ms) || new Date(ms).toISOString() !== written) return undefined;
  const nanoseconds = fromMilliseconds(ms) + BigInt(fraction.slice(0, 9).padEnd(9, "0"));
  if (sign === undefined) return nanoseconds;
  if (Number(hours) > 23 || Number(minutes) > 59) return undefined;
  const ahead = fromMilliseconds((Number(hours) * 60 + Number(minutes)) * 60_000);
  return sign === "+" ? nanoseconds - ahead : nanoseconds + ahead;
}
