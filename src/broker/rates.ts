import type { Clock } from "../platform/clock.ts";
import type { Timers } from "../platform/timers.ts";
import { Reason, type Refusal } from "./reason.ts";

/** What one client may publish in a second; undefined is unbounded. */
export interface PublishFigures {
  readonly messages: number | undefined;
  readonly bytes: number | undefined;
}

/** How often budgets that are full again are forgotten. */
const SWEEP_MS = 1_000;

const MESSAGES: Refusal = {
  code: Reason.QuotaExceeded,
  reason: "more publishes in a second than limits.publish_rate",
};
const BYTES: Refusal = {
  code: Reason.QuotaExceeded,
  reason: "more bytes published in a second than limits.publish_bytes",
};

/** What is left of a second's worth, as of `at` (monotonic ms). */
class Budget {
  #messages: number;
  #bytes: number;

  constructor(private readonly figures: PublishFigures, private at: number) {
    this.#messages = figures.messages ?? Infinity;
    this.#bytes = figures.bytes ?? Infinity;
  }

  /** Takes one message of `bytes`, or says which figure is used up. */
  take(bytes: number, now: number): Refusal | undefined {
    this.#fill(now);
    if (this.#messages < 1) return MESSAGES;
    // Whatever its size, a message is admitted while anything is left, and drives into deficit.
    if (this.#bytes <= 0) return BYTES;
    this.#messages--;
    this.#bytes -= bytes;
    return undefined;
  }

  /** True when it says no more than a fresh one would. */
  isFull(now: number): boolean {
    this.#fill(now);
    const { messages, bytes } = this.figures;
    return this.#messages >= (messages ?? Infinity) && this.#bytes >= (bytes ?? Infinity);
  }

  #fill(now: number): void {
    const seconds = (now - this.at) / 1_000;
    this.at = now;
    const { messages = Infinity, bytes = Infinity } = this.figures;
    this.#messages = Math.min(messages, this.#messages + seconds * messages);
    this.#bytes = Math.min(bytes, this.#bytes + seconds * bytes);
  }
}

/**
 * `limits.publish_rate` and `limits.publish_bytes` (02a 13.5): a budget per client id, which survives
 * reconnects and is forgotten once it is full again.
 */
export class PublishRates {
  readonly #budgets = new Map<string, Budget>();
  #sweeping = false;

  constructor(
    private readonly figures: PublishFigures,
    private readonly clock: Clock,
    private readonly timers: Timers,
  ) {}

  /** Budgets that are not full. */
  get size(): number {
    return this.#budgets.size;
  }

  /** Counts a publish of `bytes`; the refusal when it is over. */
  refusal(clientId: string, bytes: number): Refusal | undefined {
    const { messages, bytes: perSecond } = this.figures;
    if (messages === undefined && perSecond === undefined) return undefined;
    const now = this.clock.monotonic();
    let budget = this.#budgets.get(clientId);
    if (budget === undefined) {
      this.#budgets.set(clientId, budget = new Budget(this.figures, now));
      this.#sweepLater();
    }
    return budget.take(bytes, now);
  }

  #sweepLater(): void {
    if (this.#sweeping) return;
    this.#sweeping = true;
    this.timers.after(SWEEP_MS, () => {
      this.#sweeping = false;
      const now = this.clock.monotonic();
      for (const [clientId, budget] of this.#budgets) {
        if (budget.isFull(now)) this.#budgets.delete(clientId);
      }
      if (this.#budgets.size > 0) this.#sweepLater();
    });
  }
}
