import type { Offset } from "./record.ts";

/**
 * The most returned jobs one queue remembers. One costs about 150 bytes here, so a queue whose every
 * job waits for its next attempt holds 10 MB at most; past it the gap that ends soonest is cut short.
 */
export const MOST_RETURNED_JOBS = 65_536;

/** A job that came back from a worker and was not offered again yet. */
export interface ReturnedJob {
  readonly offset: Offset;
  /** Monotonic ms from which it may be offered. */
  readonly readyAt: number;
}

interface Slot extends ReturnedJob {
  due: boolean;
  /** Place in the heap it is in: `#waiting` until due, `#ready` from then on. */
  index: number;
}

type Before = (a: Slot, b: Slot) => boolean;

/**
 * The jobs of one queue that are available again, or will be once their backoff gap is over (D14.16,
 * D14.18). Two heaps: those that wait, by the end of the gap; those that are ready, by offset.
 */
export class ReturnedJobs {
  #byOffset = new Map<Offset, Slot>();
  #waiting: Slot[] = [];
  #ready: Slot[] = [];

  get size(): number {
    return this.#byOffset.size;
  }

  has(offset: Offset): boolean {
    return this.#byOffset.has(offset);
  }

  /** The job that was given up to stay under `MOST_RETURNED_JOBS`; undefined when there was room. */
  add(job: ReturnedJob): ReturnedJob | undefined {
    const slot: Slot = { ...job, due: false, index: 0 };
    this.#byOffset.set(job.offset, slot);
    push(this.#waiting, slot, endsSooner);
    if (this.#byOffset.size <= MOST_RETURNED_JOBS) return undefined;
    const given = this.#waiting[0];
    this.remove(given.offset);
    return given;
  }

  remove(offset: Offset): ReturnedJob | undefined {
    const slot = this.#byOffset.get(offset);
    if (slot === undefined) return undefined;
    this.#byOffset.delete(offset);
    if (slot.due) take(this.#ready, slot, standsLower);
    else take(this.#waiting, slot, endsSooner);
    return slot;
  }

  /** The lowest job whose gap is over at `now`. It stays until `remove`. */
  lowestReady(now: number): ReturnedJob | undefined {
    while (this.#waiting.length > 0 && this.#waiting[0].readyAt <= now) {
      const slot = this.#waiting[0];
      take(this.#waiting, slot, endsSooner);
      slot.due = true;
      push(this.#ready, slot, standsLower);
    }
    return this.#ready[0];
  }
}

const endsSooner: Before = (a, b) =>
  a.readyAt < b.readyAt || (a.readyAt === b.readyAt && a.offset < b.offset);

const standsLower: Before = (a, b) => a.offset < b.offset;

function push(heap: Slot[], slot: Slot, before: Before): void {
  slot.index = heap.length;
  heap.push(slot);
  rise(heap, slot.index, before);
}

function take(heap: Slot[], slot: Slot, before: Before): void {
  const last = heap.pop()!;
  if (last === slot) return;
  heap[slot.index] = last;
  last.index = slot.index;
  sink(heap, last.index, before);
  rise(heap, last.index, before);
}

function swap(heap: Slot[], i: number, j: number): void {
  [heap[i], heap[j]] = [heap[j], heap[i]];
  heap[i].index = i;
  heap[j].index = j;
}

function rise(heap: Slot[], from: number, before: Before): void {
  for (let i = from; i > 0;) {
    const parent = (i - 1) >> 1;
    if (!before(heap[i], heap[parent])) return;
    swap(heap, i, parent);
    i = parent;
  }
}

function sink(heap: Slot[], from: number, before: Before): void {
  for (let i = from;;) {
    let least = i;
    const left = 2 * i + 1;
    if (left < heap.length && before(heap[left], heap[least])) least = left;
    if (left + 1 < heap.length && before(heap[left + 1], heap[least])) least = left + 1;
    if (least === i) return;
    swap(heap, i, least);
    i = least;
  }
}
