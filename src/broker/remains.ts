import { errorText } from "../platform/log.ts";
import type { Context } from "./context.ts";

/** How long a refused write waits before it is tried again (D6.13, D6.16). */
export const RETRY_MS = 1_000;

/** One write that an ended session still owes: a position, a hold, its record. */
class Drop {
  #attempt: Promise<boolean> | undefined;
  done = false;

  constructor(private readonly write: () => Promise<void>, private readonly refused: Refused) {}

  /** True when it is done. An attempt under way is joined. */
  attempt(): Promise<boolean> {
    if (this.done) return Promise.resolve(true);
    return this.#attempt ??= this.write().then(() => this.done = true, (error) => {
      this.refused(error);
      return false;
    }).finally(() => this.#attempt = undefined);
  }
}

type Refused = (error: unknown) => void;

/**
 * What ended sessions left behind in stores: dropped as they end, and again every second where a store
 * refuses. A CONNECT for the client id has it dropped first, or is refused (D6.12, D6.13), so that no
 * new session inherits anything (D6.11).
 */
export class Remains {
  readonly #left = new Map<string, Set<Drop>>();
  readonly #said = new Set<string>();

  constructor(private readonly context: Context) {}

  /** Client ids whose ended sessions left something that could not be dropped yet. */
  get size(): number {
    return this.#left.size;
  }

  /** Carries out `writes`. Resolves when each was tried: true when nothing is left. */
  async leave(clientId: string, writes: readonly (() => Promise<void>)[]): Promise<boolean> {
    if (writes.length === 0) return true;
    let left = this.#left.get(clientId);
    if (left === undefined) this.#left.set(clientId, left = new Set());
    for (const write of writes) {
      left.add(new Drop(write, (error) => this.#refused(clientId, error)));
    }
    const settled = await this.settle(clientId);
    if (!settled) this.#again(clientId);
    return settled;
  }

  /** Tries now what is left of the client id. True when nothing is. */
  async settle(clientId: string): Promise<boolean> {
    const left = this.#left.get(clientId);
    if (left === undefined) return true;
    while (left.size > 0) {
      const tried = [...left];
      await Promise.all(tried.map((drop) => drop.attempt()));
      for (const drop of tried) if (drop.done) left.delete(drop);
      // What was left meanwhile has not been refused: it is tried in its turn.
      if (tried.some(({ done }) => !done)) return false;
    }
    if (this.#left.get(clientId) === left) this.#left.delete(clientId);
    if (this.#said.delete(clientId)) {
      this.context.log.error("what an ended session left is dropped now", { client: clientId });
    }
    return true;
  }

  /** A last attempt; what is left is dropped at the next start. */
  async stop(): Promise<void> {
    await Promise.all([...this.#left.keys()].map((clientId) => this.settle(clientId)));
  }

  #again(clientId: string): void {
    this.context.timers.after(RETRY_MS, () => {
      void this.settle(clientId).then((settled) => {
        if (!settled) this.#again(clientId);
      });
    });
  }

  #refused(clientId: string, error: unknown): void {
    this.context.counters.storageErrors.add("sessions");
    if (this.#said.has(clientId)) return;
    this.#said.add(clientId);
    this.context.log.error("cannot drop what an ended session left; it is tried every second", {
      client: clientId,
      error: errorText(error),
    });
  }
}
