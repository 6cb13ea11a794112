import type { Clock } from "./clock.ts";

/** The longest delay a native timer takes; a longer one would fire at once. */
const LONGEST_NATIVE_DELAY_MS = 2 ** 31 - 1;

/** One armed timer. `cancel` after it fired is a no-op. */
export interface Timer {
  cancel(): void;
}

/**
 * Every deadline of the broker, in one heap on the monotonic clock, over one native timer: delays of
 * months are legal, and a step of the wall clock moves nothing.
 */
export interface Timers {
  /** Runs `fire` once, `delayMs` from now (rounded up to whole milliseconds; negative counts as 0). */
  after(delayMs: number, fire: () => void): Timer;
  /** Cancels everything; later calls of `after` arm nothing. */
  stop(): void;
}

class HeapEntry implements Timer {
  index = -1;
  constructor(
    private readonly owner: HeapTimers,
    readonly due: number,
    readonly order: number,
    readonly fire: () => void,
  ) {}

  cancel(): void {
    this.owner.remove(this);
  }
}

export class HeapTimers implements Timers {
  /** Timers that have fired since the start, and the sum of how late they were. */
  fired = 0;
  lateMs = 0;
  #heap: HeapEntry[] = [];
  #order = 0;
  #native: ReturnType<typeof setTimeout> | undefined;
  #nativeDue = Infinity;
  #stopped = false;

  /** `onError` hears of a callback that threw: one faulty timer must not stop the others. */
  constructor(
    private readonly clock: Clock,
    private readonly onError: (error: unknown) => void,
  ) {}

  after(delayMs: number, fire: () => void): Timer {
    const due = this.clock.monotonic() + Math.max(0, Math.ceil(delayMs));
    const entry = new HeapEntry(this, due, this.#order++, fire);
    if (this.#stopped) return entry;
    entry.index = this.#heap.length;
    this.#heap.push(entry);
    this.#up(entry.index);
    this.#arm();
    return entry;
  }

  stop(): void {
    this.#stopped = true;
    for (const entry of this.#heap) entry.index = -1;
    this.#heap = [];
    this.#disarm();
  }

  /** @internal */
  remove(entry: HeapEntry): void {
    const at = entry.index;
    if (at < 0) return;
    entry.index = -1;
    const last = this.#heap.pop()!;
    if (last !== entry) {
      this.#heap[at] = last;
      last.index = at;
      this.#down(at);
      this.#up(last.index);
    }
    if (this.#heap.length === 0) this.#disarm();
  }

  /** Fires what is due. Called by the native timer; tests with a manual clock call it themselves. */
  runDue(): void {
    const now = this.clock.monotonic();
    while (this.#heap.length > 0 && this.#heap[0].due <= now) {
      const entry = this.#heap[0];
      this.remove(entry);
      this.fired++;
      this.lateMs += now - entry.due;
      try {
        entry.fire();
      } catch (error) {
        this.onError(error);
      }
    }
    this.#arm();
  }

  #arm(): void {
    if (this.#heap.length === 0) return;
    const due = this.#heap[0].due;
    if (this.#native !== undefined && this.#nativeDue <= due) return;
    this.#disarm();
    const delay = Math.min(
      Math.max(0, Math.ceil(due - this.clock.monotonic())),
      LONGEST_NATIVE_DELAY_MS,
    );
    this.#nativeDue = due;
    this.#native = setTimeout(() => {
      this.#native = undefined;
      this.#nativeDue = Infinity;
      this.runDue();
    }, delay);
  }

  #disarm(): void {
    if (this.#native !== undefined) clearTimeout(this.#native);
    this.#native = undefined;
    this.#nativeDue = Infinity;
  }

  #before(a: HeapEntry, b: HeapEntry): boolean {
    return a.due < b.due || (a.due === b.due && a.order < b.order);
  }

  #swap(i: number, j: number): void {
    const heap = this.#heap;
    [heap[i], heap[j]] = [heap[j], heap[i]];
    heap[i].index = i;
    heap[j].index = j;
  }

  #up(i: number): void {
    while (i > 0) {
      const parent = (i - 1) >> 1;
      if (!this.#before(this.#heap[i], this.#heap[parent])) return;
      this.#swap(i, parent);
      i = parent;
    }
  }

  #down(i: number): void {
    const heap = this.#heap;
    for (;;) {
      let least = i;
      const left = 2 * i + 1;
      const right = left + 1;
      if (left < heap.length && this.#before(heap[left], heap[least])) least = left;
      if (right < heap.length && this.#before(heap[right], heap[least])) least = right;
      if (least === i) return;
      this.#swap(i, least);
      i = least;
    }
  }
}
