import type { StoreKind } from "../contract.ts";
import type { Offset } from "../record.ts";
import { COUNTERS, type Counters } from "./messages.ts";

/**
 * What the event loop knows of one store: fields that neither wait nor fail, set from what is stored
 * when the provider opens and afterwards only by the answer to a commit (S8).
 */
export class ChannelState {
  next: Offset = 1;
  floor: Offset = 1;
  bytes = 0;
  depth = 0;
  /** Undefined for no bound. */
  maxBytes: number | undefined;
  /** Bytes of records in groups that are formed and not answered yet (S22). */
  formingBytes = 0;

  constructor(readonly index: number, readonly channel: string, readonly kind: StoreKind) {}

  /** Whether one more record of `size` bytes stays under the channel's bound (S125). */
  hasRoomFor(size: number): boolean {
    return this.maxBytes === undefined || this.bytes + this.formingBytes + size <= this.maxBytes;
  }
}

/** Takes over the counters of an answer. */
export function applyCounters(states: readonly ChannelState[], counters: Counters): void {
  for (let i = 0; i < counters.length; i += COUNTERS) {
    const state = states[counters[i]];
    state.next = counters[i + 1];
    state.floor = counters[i + 2];
    state.bytes = counters[i + 3];
    state.depth = counters[i + 4];
  }
}
