/** Time that stands still unless a schedule moves it. */
import { type Clock, fromMilliseconds } from "../../src/platform/clock.ts";
import type { Timer, Timers } from "../../src/platform/timers.ts";

const START = Date.UTC(2026, 0, 2, 3, 4, 5);

interface Armed extends Timer {
  readonly due: number;
  readonly fire: () => void;
}

/** The clocks and timers of one life of the broker; they die with it. */
export class LifeTime implements Clock, Timers {
  #armed: Armed[] = [];
  #dead = false;

  constructor(public ms: number) {}

  monotonic(): number {
    return this.ms;
  }

  wall(): bigint {
    return fromMilliseconds(START + this.ms);
  }

  after(delayMs: number, fire: () => void): Timer {
    const due = this.ms + Math.max(0, Math.ceil(delayMs));
    const armed: Armed = {
      due,
      fire,
      cancel: () => {
        const at = this.#armed.indexOf(armed);
        if (at >= 0) this.#armed.splice(at, 1);
      },
    };
    if (this.#dead) return armed;
    let at = this.#armed.length;
    while (at > 0 && this.#armed[at - 1].due > due) at--;
    this.#armed.splice(at, 0, armed);
    return armed;
  }

  stop(): void {
    this.#dead = true;
    this.#armed = [];
  }

  /** Moves to the next timer due until `end` and fires it; false when there is none. */
  fireNext(end: number): boolean {
    const [next] = this.#armed;
    if (next === undefined || next.due > end) return false;
    this.#armed.shift();
    this.ms = Math.max(this.ms, next.due);
    next.fire();
    return true;
  }
}
