import { errorText, type Log } from "../platform/log.ts";
import type { Timers } from "../platform/timers.ts";
import { StorageFailure, type Urgency } from "../storage/contract.ts";

/** Something of a session whose acknowledgements are written late: a position, a window. */
export interface Flushable {
  /** Client and place, for the log. */
  readonly label: string;
  /** True when something waits to be written. */
  readonly dirty: boolean;
  /** Writes it. Rejects when the store refuses; it is then dirty again. */
  flush(urgency: Urgency): Promise<void>;
}

/**
 * Writes acknowledgements `broker.session.ack_commit_interval` after the first of them arrived, off
 * the read path (D8.8, D11.14). Armed only while something is dirty: an idle broker writes nothing.
 */
export class AckDrain {
  #dirty = new Set<Flushable>();
  #armed = false;
  #failing = false;

  constructor(
    private readonly intervalMs: number,
    private readonly timers: Timers,
    private readonly log: Log,
  ) {}

  add(flushable: Flushable): void {
    this.#dirty.add(flushable);
    if (this.#armed) return;
    this.#armed = true;
    this.timers.after(this.intervalMs, () => {
      this.#armed = false;
      void this.flush("connected");
    });
  }

  remove(flushable: Flushable): void {
    this.#dirty.delete(flushable);
  }

  /** Writes all that is dirty now; resolves when each is stored or refused. */
  async flush(urgency: Urgency): Promise<void> {
    const dirty = this.#dirty;
    this.#dirty = new Set();
    const writes: Promise<void>[] = [];
    for (const flushable of dirty) {
      if (flushable.dirty) writes.push(this.#write(flushable, urgency));
    }
    await Promise.all(writes);
  }

  async #write(flushable: Flushable, urgency: Urgency): Promise<void> {
    try {
      await flushable.flush(urgency);
      if (flushable.dirty) this.add(flushable);
      if (this.#failing) {
        this.#failing = false;
        this.log.error("acknowledgements are stored again");
      }
    } catch (error) {
      if (!this.#failing) {
        this.#failing = true;
        this.log.error("cannot store acknowledgements; they are tried again every interval", {
          what: flushable.label,
          kind: error instanceof StorageFailure ? error.kind : undefined,
          error: errorText(error),
        });
      }
      this.add(flushable);
    }
  }
}
