import type { Nanoseconds } from "../platform/clock.ts";
import type { Offset } from "../storage/record.ts";
import { cutToBytes } from "./refusals.ts";

/** Readers that are remembered; the log is the durable record (05 section 7.4). */
export const MOST_LOSSES = 1_000;

/** One time that retention passed a reader's position. */
export interface Passing {
  /** `mqtt:<client id>` or `bridge:<rule>`. */
  readonly reader: string;
  readonly channel: string;
  /** A connected consumer, a session that came back, or an outbound rule. */
  readonly kind: "consumer" | "session" | "bridge";
  /** The reader was told. */
  readonly reported: boolean;
  readonly position: Offset;
  readonly floor: Offset;
  readonly at: Nanoseconds;
}

/** A reader and what it lost in one channel. */
export interface Loss {
  readonly reader: string;
  readonly channel: string;
  /** These four are of the latest passing. */
  kind: Passing["kind"];
  lastPosition: Offset;
  lastFloor: Offset;
  lastSeen: Nanoseconds;
  /** Every passing was told to the reader. */
  reported: boolean;
  count: number;
  recordsMissed: number;
}

/**
 * Who was passed by retention, bounded: a newcomer to a full record takes the place of whoever lost
 * least, if it lost more itself.
 */
export class PositionLosses {
  readonly #losses = new Map<string, Loss>();
  /** Passings of readers that are not, or no more, among the rows. */
  beyond = 0;

  constructor(private readonly most = MOST_LOSSES) {}

  get size(): number {
    return this.#losses.size;
  }

  values(): IterableIterator<Loss> {
    return this.#losses.values();
  }

  /** `longest`: bytes of a reader's name that are kept. */
  add(passing: Passing, longest: number): void {
    const { channel, kind, reported, position, floor, at } = passing;
    const reader = cutToBytes(passing.reader, longest);
    const key = `${channel}\0${reader}`;
    const missed = floor - position;
    const known = this.#losses.get(key);
    if (known !== undefined) {
      known.kind = kind;
      known.lastPosition = position;
      known.lastFloor = floor;
      known.lastSeen = at;
      known.reported &&= reported;
      known.count++;
      known.recordsMissed += missed;
      return;
    }
    if (this.#losses.size >= this.most && !this.#makeRoom(missed)) return;
    this.#losses.set(key, {
      reader,
      channel,
      kind,
      lastPosition: position,
      lastFloor: floor,
      lastSeen: at,
      reported,
      count: 1,
      recordsMissed: missed,
    });
  }

  /** False: the newcomer lost no more than whoever lost least. */
  #makeRoom(missed: number): boolean {
    this.beyond++;
    let least: string | undefined;
    let leastMissed = missed;
    for (const [key, { recordsMissed }] of this.#losses) {
      if (recordsMissed >= leastMissed) continue;
      least = key;
      leastMissed = recordsMissed;
    }
    return least !== undefined && this.#losses.delete(least);
  }
}
