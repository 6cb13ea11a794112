import type { Configuration } from "../config/configuration.ts";
import { fromMilliseconds, type Nanoseconds } from "../platform/clock.ts";
import { errorText } from "../platform/log.ts";
import type { Timer } from "../platform/timers.ts";
import type { LatestStore, Removed } from "../storage/contract.ts";
import type { AppendChannel } from "./channels/append.ts";
import type { Context } from "./context.ts";
import { isExpired } from "./delivery.ts";
import type { Channel } from "./routes.ts";

/** How often channels over `retention_bytes` are trimmed (S194). */
const SIZE_SWEEP_MS = 1_000;

/** The shortest period of the age sweep (D16.2). */
const SHORTEST_AGE_SWEEP_MS = 1_000;

/**
 * How often the retained store is looked through for values whose publisher's expiry has passed. They
 * are not served meanwhile; this only gives their room back.
 */
const RETAINED_EXPIRY_SWEEP_MS = 60_000;

const SCAN_PAGE = 256;

interface AppendRetention {
  readonly channel: AppendChannel;
  readonly periodMs: number | undefined;
  readonly bytes: number | undefined;
}

/** Removes what retention lets go of: never on the publish path, on two clocks of its own (D16.1). */
export class Sweeps {
  readonly #appends: AppendRetention[] = [];
  readonly #ageSweepMs: number;
  readonly #retainedPeriodMs: number | undefined;
  #timers: Timer[] = [];
  #stopped = false;

  constructor(
    private readonly context: Context,
    configuration: Configuration,
    private readonly channels: readonly Channel[],
    private readonly retained: LatestStore,
  ) {
    const deadlines: number[] = [];
    for (const settings of configuration.channels) {
      const channel = channels.find(({ name }) => name === settings.name);
      if (settings.type === "append" && channel?.kind === "append") {
        const { retentionPeriodMs: periodMs, retentionBytes: bytes } = settings;
        this.#appends.push({ channel, periodMs, bytes });
        if (periodMs !== undefined) deadlines.push(periodMs);
      } else if (settings.type === "latest") {
        const { retentionPeriodMs, deletionRetentionPeriodMs } = settings;
        if (retentionPeriodMs !== undefined) deadlines.push(retentionPeriodMs);
        if (deletionRetentionPeriodMs !== undefined) deadlines.push(deletionRetentionPeriodMs);
      } else if (settings.type === "queue" && settings.jobExpiresAfterMs !== undefined) {
        deadlines.push(settings.jobExpiresAfterMs);
      }
    }
    this.#retainedPeriodMs = configuration.retained.retentionPeriodMs;
    if (this.#retainedPeriodMs !== undefined) deadlines.push(this.#retainedPeriodMs);
    const shortest = deadlines.length === 0 ? 0 : Math.min(...deadlines);
    this.#ageSweepMs = Math.max(SHORTEST_AGE_SWEEP_MS, Math.floor(shortest / 10));
  }

  /** Runs both sweeps once, then each on its period. */
  async start(): Promise<void> {
    await this.sizeSweep();
    await this.ageSweep();
    this.context.log.info("retention sweeps run", {
      size_sweep_ms: SIZE_SWEEP_MS,
      age_sweep_ms: this.#ageSweepMs,
    });
    this.#repeat(SIZE_SWEEP_MS, () => this.sizeSweep());
    this.#repeat(this.#ageSweepMs, () => this.ageSweep());
    this.#repeat(RETAINED_EXPIRY_SWEEP_MS, () => this.retainedExpirySweep());
  }

  stop(): void {
    this.#stopped = true;
    for (const timer of this.#timers) timer.cancel();
  }

  #repeat(periodMs: number, sweep: () => Promise<void>): void {
    const slot = this.#timers.length;
    const arm = () => {
      this.#timers[slot] = this.context.timers.after(periodMs, () => {
        void sweep().finally(() => {
          if (!this.#stopped) arm();
        });
      });
    };
    arm();
  }

  /** Trims what is over its `retention_bytes`; a channel under it reads nothing. */
  async sizeSweep(): Promise<void> {
    for (const { channel, bytes } of this.#appends) {
      if (bytes === undefined || channel.store.bytes() <= bytes) continue;
      await this.#sweep(channel, "size", () => channel.store.trim(0n, bytes));
      channel.trimmed();
    }
  }

  async ageSweep(): Promise<void> {
    const now = this.context.clock.wall();
    for (const { channel, periodMs } of this.#appends) {
      if (periodMs === undefined || channel.store.floor() === channel.store.next()) continue;
      await this.#sweep(
        channel,
        "age",
        () => channel.store.trim(now - fromMilliseconds(periodMs), undefined),
      );
      channel.trimmed();
    }
    for (const channel of this.channels) {
      if (channel.kind !== "append") await this.#guard(channel.name, () => channel.sweep(now));
    }
    const periodMs = this.#retainedPeriodMs;
    if (periodMs === undefined) return;
    await this.#sweep(
      { name: this.retained.channel, retentionRemoved: 0 },
      "age",
      () => this.retained.trim(now - fromMilliseconds(periodMs), 0n),
    );
  }

  /** Removes retained values that their publisher let expire (D17.7). */
  async retainedExpirySweep(): Promise<void> {
    const now = this.context.clock.wall();
    await this.#guard(this.retained.channel, () => this.#removeExpired(now));
  }

  async #removeExpired(now: Nanoseconds): Promise<void> {
    const expired: { topic: string; offset: number }[] = [];
    const scan = this.retained.scan("#", 0, false);
    for (;;) {
      const page = await scan.next(SCAN_PAGE);
      if (page.length === 0) break;
      for (const { offset, message } of page) {
        if (isExpired(message, now)) expired.push({ topic: message.topic, offset });
      }
      if (expired.length >= SCAN_PAGE) await this.retained.removeMany(expired.splice(0));
    }
    if (expired.length > 0) await this.retained.removeMany(expired);
  }

  async #sweep(
    of: { readonly name: string; retentionRemoved: number },
    by: string,
    trim: () => Promise<Removed>,
  ): Promise<void> {
    await this.#guard(of.name, async () => {
      const { removed, freed } = await trim();
      if (removed === 0) return;
      of.retentionRemoved += removed;
      this.context.log.info("retention removed records", {
        channel: of.name,
        by,
        removed,
        freed,
      });
    });
  }

  /** A sweep that fails is said, and runs again at its next turn (S193). */
  async #guard(channel: string, work: () => Promise<void>): Promise<void> {
    if (this.#stopped) return;
    try {
      await work();
    } catch (error) {
      this.context.counters.storageErrors.add(channel);
      this.context.log.error("a retention sweep failed; it runs again at its next turn", {
        channel,
        error: errorText(error),
      });
    }
  }
}
