/**
 * `publish_rate` and `publish_bytes` (02a 13.5): what each client id has used of its second's worth. The
 * figures follow the user, the budget the id; it outlives connections and is forgotten once it is whole
 * again.
 */
import type { Clock } from "../platform/clock.ts";
import type { Timer, Timers } from "../platform/timers.ts";

/** Undefined: no bound. */
export interface PublishRates {
  readonly messagesPerSecond: number | undefined;
  readonly bytesPerSecond: number | undefined;
}

/** The figure that refused a publish, by the name it has under `limits:`. */
export type Exceeded = "publish_rate" | "publish_bytes";

/**
 * Budgets kept at once, some 10 MiB of them: an id whose budget is the oldest when there are more gets a
 * whole one early. Ids are refilled in a second unless one large message put them far into deficit.
 */
export const MOST_BUDGETS = 65_536;

const SWEEP_MS = 1_000;

/** What is missing from a whole budget, as of `at`; a deficit is more than the budget itself. */
interface Budget {
  messages: number;
  bytes: number;
  at: number;
  rates: PublishRates;
}

export class PublishBudgets {
  readonly #budgets = new Map<string, Budget>();
  #sweep: Timer | undefined;

  constructor(
    private readonly clock: Clock,
    private readonly timers: Timers,
    private readonly most = MOST_BUDGETS,
  ) {}

  /** Budgets that are not whole, or were not at the last look. */
  get size(): number {
    return this.#budgets.size;
  }

  /**
   * Takes one message of `bytes` from the budget of `clientId`, or says which figure is exceeded and takes
   * nothing. A message larger than all bytes of a second passes while any are left, and is paid off later.
   */
  take(clientId: string, rates: PublishRates, bytes: number): Exceeded | undefined {
    const { messagesPerSecond, bytesPerSecond } = rates;
    if (messagesPerSecond === undefined && bytesPerSecond === undefined) return undefined;
    const now = this.clock.monotonic();
    const budget = this.#budgets.get(clientId) ?? this.#begin(clientId, rates, now);
    budget.rates = rates;
    refill(budget, now);
    if (messagesPerSecond !== undefined && budget.messages + 1 > messagesPerSecond) {
      return "publish_rate";
    }
    if (bytesPerSecond !== undefined && !fits(budget.bytes, bytes, bytesPerSecond)) {
      return "publish_bytes";
    }
    budget.messages++;
    budget.bytes += bytes;
    return undefined;
  }

  #begin(clientId: string, rates: PublishRates, now: number): Budget {
    if (this.#budgets.size >= this.most) {
      for (const oldest of this.#budgets.keys()) {
        this.#budgets.delete(oldest);
        break;
      }
    }
    const budget = { messages: 0, bytes: 0, at: now, rates };
    this.#budgets.set(clientId, budget);
    this.#sweep ??= this.timers.after(SWEEP_MS, () => this.#forgetWhole());
    return budget;
  }

  #forgetWhole(): void {
    this.#sweep = undefined;
    const now = this.clock.monotonic();
    for (const [clientId, budget] of this.#budgets) {
      refill(budget, now);
      if (budget.messages === 0 && budget.bytes === 0) this.#budgets.delete(clientId);
    }
    if (this.#budgets.size > 0) {
      this.#sweep = this.timers.after(SWEEP_MS, () => this.#forgetWhole());
    }
  }
}

function refill(budget: Budget, now: number): void {
  const seconds = (now - budget.at) / 1_000;
  const { messagesPerSecond, bytesPerSecond } = budget.rates;
  budget.at = now;
  budget.messages = paidOff(budget.messages, messagesPerSecond, seconds);
  budget.bytes = paidOff(budget.bytes, bytesPerSecond, seconds);
}

/** Without a bound nothing is owed. */
function paidOff(used: number, perSecond: number | undefined, seconds: number): number {
  return perSecond === undefined ? 0 : Math.max(0, used - perSecond * seconds);
}

function fits(used: number, bytes: number, perSecond: number): boolean {
  return bytes > perSecond ? used < perSecond : used + bytes <= perSecond;
}
