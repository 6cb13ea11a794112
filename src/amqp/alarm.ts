import { errorText, type Log } from "../platform/log.ts";
import type { Timer, Timers } from "../platform/timers.ts";
import type { AmqpStore } from "../storage/amqp.ts";
import type { StorageFailure } from "../storage/contract.ts";

/** How often a store that refused is asked whether it takes publishes again. */
const PROBE_MS = 1_000;

/** What a probe writes: enough that success means more than the last free page. */
const PROBE_BYTES = 64 * 1024;

/** Hears when publishes stop and when they go on. */
export interface AlarmListener {
  alarmRaised(reason: string): void;
  alarmCleared(): void;
}

/**
 * Whether the provider of AMQP refuses publishes (A17). Raised by the publish that finds out, cleared
 * by a probe.
 */
export class Alarm {
  readonly #listeners = new Set<AlarmListener>();
  #reason: string | undefined;
  #timer: Timer | undefined;
  #probing = false;

  constructor(
    private readonly store: AmqpStore,
    private readonly timers: Timers,
    private readonly log: Log,
  ) {}

  /** Why publishes are not read; undefined when they are. */
  get reason(): string | undefined {
    return this.#reason;
  }

  add(listener: AlarmListener): void {
    this.#listeners.add(listener);
  }

  remove(listener: AlarmListener): void {
    this.#listeners.delete(listener);
  }

  raise(failure: StorageFailure): void {
    if (this.#reason === undefined) {
      this.#reason = failure.kind === "full" ? "no room left in storage" : "storage failed";
      this.log.error("AMQP publishers are blocked until their storage takes publishes again", {
        reason: this.#reason,
        error: failure.message,
      });
      for (const listener of [...this.#listeners]) listener.alarmRaised(this.#reason);
    }
    this.#arm(PROBE_MS);
  }

  /** Room was made: worth asking sooner. */
  roomMade(): void {
    if (this.#reason !== undefined) this.#arm(0);
  }

  #arm(delayMs: number): void {
    if (delayMs === 0) this.#timer?.cancel();
    else if (this.#timer !== undefined) return;
    this.#timer = this.timers.after(delayMs, () => {
      this.#timer = undefined;
      void this.#probe();
    });
  }

  async #probe(): Promise<void> {
    if (this.#probing || this.#reason === undefined) return;
    this.#probing = true;
    try {
      await this.store.probe(PROBE_BYTES);
      this.#clear();
    } catch (error) {
      this.log.debug("the storage of AMQP still refuses publishes", { error: errorText(error) });
      this.#arm(PROBE_MS);
    } finally {
      this.#probing = false;
    }
  }

  #clear(): void {
    this.#reason = undefined;
    this.log.error("AMQP publishers go on: their storage takes publishes again");
    for (const listener of [...this.#listeners]) listener.alarmCleared();
  }

  stop(): void {
    this.#timer?.cancel();
    this.#reason = undefined;
  }
}
