/** Short ways to write the kinds of the table, with bounds in the notation of the file. */
import { LONGEST_DURATION_MS, readDuration, readSize } from "../units.ts";
import type { Kind } from "./key.ts";

/** Where no rule gives a highest value: what a Number counts exactly. */
const UNBOUNDED = Number.MAX_SAFE_INTEGER;

export const text: Kind = { of: "text" };
export const flag: Kind = { of: "flag" };
export const path: Kind = { of: "path" };
/** A file that is read at the start. */
export const file: Kind = { of: "path", read: true };
export const address: Kind = { of: "address" };
export const filter: Kind = { of: "filter" };
export const provider: Kind = { of: "provider" };
export const block: Kind = { of: "block" };
export const optionalBlock: Kind = { of: "block", optional: true };
export const doors: Kind = { of: "doors" };

export function word(noun: string, ...words: readonly string[]): Kind {
  return { of: "word", noun, words };
}

export function count(min: number, max = UNBOUNDED, none?: string): Kind {
  return { of: "count", min, max, none };
}

export function size(min: string, max?: string, none?: string): Kind {
  return { of: "size", min: bytes(min), max: max === undefined ? UNBOUNDED : bytes(max), none };
}

/** A duration in whole seconds, at least one. */
export function seconds(min = "1s", max?: string, none?: string): Kind {
  return { of: "duration", min: ms(min), max: highest(max), subsecond: false, none };
}

/** A duration that may be written in `ms`. */
export function milliseconds(min: string, max?: string, none?: string): Kind {
  return { of: "duration", min: ms(min), max: highest(max), subsecond: true, none };
}

function highest(max: string | undefined): number {
  return max === undefined ? LONGEST_DURATION_MS : ms(max);
}

function ms(text: string): number {
  const reading = readDuration(text);
  if ("fault" in reading) throw new TypeError(`${text} is not a duration`);
  return reading.ms;
}

function bytes(text: string): number {
  const reading = readSize(text);
  if ("fault" in reading) throw new TypeError(`${text} is not a size`);
  return reading.bytes;
}
