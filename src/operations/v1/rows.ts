/** What the bodies under `/v1` have in common (05 section 6). */
import { type Nanoseconds, NANOSECONDS_PER_MS } from "../../platform/clock.ts";

/** Rows of one list; how many there are in all stands beside it. */
export const MOST_ROWS = 100;

/** RFC 3339, UTC, whole seconds. */
export function timestamp(at: Nanoseconds): string {
  const seconds = at / (1_000n * NANOSECONDS_PER_MS);
  return new Date(Number(seconds) * 1_000).toISOString().replace(/\.\d+Z$/, "Z");
}
