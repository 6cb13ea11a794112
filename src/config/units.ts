/** The notation of durations and sizes in a configuration file, both ways. */

const SECOND = 1_000;
const MINUTE = 60 * SECOND;
const HOUR = 60 * MINUTE;
const DAY = 24 * HOUR;

/** Largest first: a value is written in the largest unit that divides it. */
const DURATIONS: readonly (readonly [unit: string, ms: number])[] = [
  ["d", DAY],
  ["h", HOUR],
  ["m", MINUTE],
  ["s", SECOND],
  ["ms", 1],
];

const SIZES: readonly (readonly [unit: string, bytes: number])[] = [
  ["GiB", 1024 ** 3],
  ["MiB", 1024 ** 2],
  ["KiB", 1024],
];

/**
 * The longest duration any key takes: 2^32 - 1 seconds, MQTT's own ceiling and about 136 years. In
 * nanoseconds it still fits a signed 64-bit column.
 */
export const LONGEST_DURATION_MS = 0xffff_ffff * SECOND;

export type DurationReading =
  | { readonly ms: number; readonly unit: string }
  | { readonly fault: "form" | "unit" | "range" };

/** One whole number and one unit: `90m`, never `1h30m`; `unit` when the number stands alone. */
export function readDuration(text: string): DurationReading {
  const match = /^(\d+)(ms|s|m|h|d)?$/.exec(text);
  if (match === null) return { fault: "form" };
  const [, digits, unit] = match;
  if (unit === undefined) return { fault: "unit" };
  const ms = Number(digits) * DURATIONS.find(([name]) => name === unit)![1];
  return Number.isSafeInteger(ms) ? { ms, unit } : { fault: "range" };
}

/** `90000` is `90s`, `86400000` is `1d`. */
export function writeDuration(ms: number): string {
  for (const [unit, length] of DURATIONS) {
    if (ms % length === 0 && ms >= length) return `${ms / length}${unit}`;
  }
  return "0s";
}

export type SizeReading = { readonly bytes: number } | { readonly fault: "form" | "range" };

/** A whole number with `KiB`, `MiB` or `GiB`, or a plain count of bytes. */
export function readSize(text: string): SizeReading {
  const match = /^(\d+)(KiB|MiB|GiB)?$/.exec(text);
  if (match === null) return { fault: "form" };
  const [, digits, unit] = match;
  const bytes = Number(digits) * (SIZES.find(([name]) => name === unit)?.[1] ?? 1);
  return Number.isSafeInteger(bytes) ? { bytes } : { fault: "range" };
}

/** `1048576` is `1MiB`, `1000` stays `1000`. */
export function writeSize(bytes: number): string {
  for (const [unit, length] of SIZES) {
    if (bytes % length === 0 && bytes >= length) return `${bytes / length}${unit}`;
  }
  return String(bytes);
}
