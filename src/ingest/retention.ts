import type { Context } from "../broker/context.ts";
import type { IngestTableConfiguration } from "../config/configuration.ts";
import { toMilliseconds } from "../platform/clock.ts";
import { errorText } from "../platform/log.ts";
import type { Timer } from "../platform/timers.ts";
import type { IngestStore } from "../storage/ingest.ts";

/** The shortest time between two sweeps, as for channels (D16.2). */
const SHORTEST_SWEEP_MS = 1_000;

interface Swept {
  readonly name: string;
  /** Its place in the store. */
  readonly table: number;
  readonly periodMs: number;
}

/** Deletes rows older than their table's `retention_period`, by the time they were received (N5). */
export class IngestRetention {
  readonly #swept: readonly Swept[];
  readonly #everyMs: number;
  #timer: Timer | undefined;
  #stopped = false;

  constructor(
    tables: readonly Pick<IngestTableConfiguration, "name" | "retentionPeriodMs">[],
    private readonly store: IngestStore,
    private readonly context: Context,
  ) {
    this.#swept = tables.flatMap(({ name, retentionPeriodMs: periodMs }, table) =>
      periodMs === undefined ? [] : [{ name, table, periodMs }]
    );
    const shortest = Math.min(...this.#swept.map(({ periodMs }) => periodMs));
    this.#everyMs = Math.max(SHORTEST_SWEEP_MS, Math.floor(shortest / 10));
  }

  /** The first sweep runs beside what is published: after a shorter period it may take minutes. */
  start(): void {
    if (this.#swept.length > 0) this.#begin();
  }

  stop(): void {
    this.#stopped = true;
    this.#timer?.cancel();
  }

  #arm(): void {
    if (this.#stopped) return;
    this.#timer = this.context.timers.after(this.#everyMs, () => this.#begin());
  }

  #begin(): void {
    void this.#sweep().finally(() => this.#arm());
  }

  async #sweep(): Promise<void> {
    const now = toMilliseconds(this.context.clock.wall());
    for (const each of this.#swept) await this.#trim(each, now - each.periodMs);
  }

  /** One that fails is said, and runs again at its next turn. */
  async #trim({ name, table }: Swept, before: number): Promise<void> {
    let removed = 0;
    try {
      while (!this.#stopped) {
        const some = await this.store.trim(table, before);
        removed += some;
        if (some === 0) break;
      }
    } catch (error) {
      // A provider that closes under a sweep refuses it.
      if (this.#stopped) return;
      this.context.counters.storageErrors.add(name);
      this.context.log.error("an ingest table could not be swept; it is again at its next turn", {
        table: name,
        error: errorText(error),
      });
    }
    if (removed > 0) this.context.log.info("retention removed rows", { table: name, removed });
  }
}
