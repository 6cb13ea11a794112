import { BROADCAST_LOG, type StoreKind } from "../contract.ts";
import type { Headers, Offset } from "../record.ts";
import type { Findings } from "./report.ts";

export interface CheckedChannel {
  readonly name: string;
  readonly kind: StoreKind;
  readonly next: Offset;
  readonly floor: Offset;
}

/** Holds the offsets of a channel's entries, in the order they are read, against its counters. */
export class OffsetCheck {
  #last = 0;
  #first = 0;
  #count = 0;

  constructor(private readonly channel: CheckedChannel, private readonly findings: Findings) {
    const { floor, next } = channel;
    if (floor < 1 || floor > next) {
      findings.add("has impossible counters", `floor ${floor}, next offset ${next}`);
    }
  }

  see(offset: Offset): void {
    const { next, floor } = this.channel;
    if (offset <= this.#last) this.findings.add("goes backwards", `${offset} after ${this.#last}`);
    if (offset < floor) this.findings.add(`has entries below its floor ${floor}`, `${offset}`);
    if (offset >= next) this.findings.add(`has entries past its next offset ${next}`, `${offset}`);
    if (this.#first === 0) this.#first = offset;
    this.#last = offset;
    this.#count++;
  }

  end(): void {
    checkWhole(this.channel, this.#count, this.#first, this.findings);
  }
}

/**
 * A log of records has no hole: what went, went from its front (S189). The broadcast log may lose any record,
 * and its floor is its lowest (S108).
 *
 * @param first offset of the first of `count` records
 */
export function checkWhole(
  { name, kind, next, floor }: CheckedChannel,
  count: number,
  first: Offset,
  findings: Findings,
): void {
  if (kind !== "append" || floor > next) return;
  if (name === BROADCAST_LOG) {
    const lowest = count === 0 ? next : first;
    if (lowest > floor) {
      findings.add("has a floor that is not its lowest record", `${floor}, not ${lowest}`);
    }
    return;
  }
  const missing = next - floor - count;
  if (missing > 0) {
    findings.add("misses records", `${missing} of those from ${floor} to ${next - 1}`);
  }
}

/** The offset a dead letter had in its queue; undefined when its headers name none. */
export function letterOf(headers: Headers): Offset | undefined {
  // A dead letter says so last; what a publisher wrote under these names was taken away.
  const value = headers.findLast(([name]) => name === "saguin-dlq-offset")?.[1];
  return value === undefined ? undefined : Number(value);
}
