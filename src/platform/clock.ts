/** A wall-clock moment: Unix nanoseconds. `0n` means "not set" (S44), never 1970. */
export type Nanoseconds = bigint;

export const NANOSECONDS_PER_MS = 1_000_000n;

/** The two clocks of the broker. What runs uses `monotonic`; what is stored uses `wall`. */
export interface Clock {
  /** Milliseconds since an arbitrary start; never goes back, whatever NTP does. */
  monotonic(): number;
  /** Unix nanoseconds; may step either way. */
  wall(): Nanoseconds;
}

let lastMs = 0;
let lastWall: Nanoseconds = 0n;

export const systemClock: Clock = {
  monotonic: () => performance.now(),
  // A batch of publishes shares one BigInt.
  wall: () => {
    const now = Date.now();
    if (now !== lastMs) {
      lastMs = now;
      lastWall = BigInt(now) * NANOSECONDS_PER_MS;
    }
    return lastWall;
  },
};

/** Whole milliseconds of a wall moment, for headers and logs. */
export function toMilliseconds(at: Nanoseconds): number {
  return Number(at / NANOSECONDS_PER_MS);
}

export function fromMilliseconds(ms: number): Nanoseconds {
  return BigInt(Math.trunc(ms)) * NANOSECONDS_PER_MS;
}
