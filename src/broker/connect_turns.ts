/** One CONNECT, from being read to being served or passed over. */
export interface Turn {
  readonly clientId: string;
  /** It would resume: a newer one may pass it. Others always keep their turn (D6.7). */
  readonly passable: boolean;
}

/** Who owns the client id now, and what its CONNECT found. */
export interface Owned {
  readonly sessionPresent: boolean;
}

interface Queue {
  /** Arrived and not yet served, in that order. */
  waiting: Turn[];
  /** Passed over by a newer one that is not decided yet. */
  passed: { readonly turn: Turn; readonly resolve: (outcome: Owned | "again") => void }[];
  /** Order of arrival of each. */
  readonly order: Map<Turn, number>;
  /** The newest that came to own the client id while others were under way. */
  owned: (Owned & { readonly order: number }) | undefined;
}

/**
 * The CONNECTs of each client id, in the order they were read (D6.7). A lock serves them one after
 * another; this knows which of them a newer one makes pointless.
 */
export class ConnectTurns {
  readonly #queues = new Map<string, Queue>();
  #arrivals = 0;

  enter(turn: Turn): void {
    let queue = this.#queues.get(turn.clientId);
    if (queue === undefined) {
      queue = { waiting: [], passed: [], order: new Map(), owned: undefined };
      this.#queues.set(turn.clientId, queue);
    }
    queue.waiting.push(turn);
    queue.order.set(turn, this.#arrivals++);
  }

  /**
   * The lock is the turn's: `serve` it; or let the lock go and `pass` it, since a newer one waits; or
   * it is passed already, by what it is told.
   */
  begin(turn: Turn): "serve" | "pass" | Owned {
    const queue = this.#queues.get(turn.clientId)!;
    queue.waiting = queue.waiting.filter((each) => each !== turn);
    if (!turn.passable) return "serve";
    if (queue.owned !== undefined && queue.owned.order > queue.order.get(turn)!) {
      const { sessionPresent } = queue.owned;
      this.#leave(queue, turn);
      return { sessionPresent };
    }
    return queue.waiting.length > 0 ? "pass" : "serve";
  }

  /** Resolves once a newer CONNECT owns the client id; `again` when that failed to. */
  pass(turn: Turn): Promise<Owned | "again"> {
    const queue = this.#queues.get(turn.clientId)!;
    return new Promise((resolve) => queue.passed.push({ turn, resolve }));
  }

  /** A served turn ended, with ownership or without. */
  end(turn: Turn, owned: Owned | undefined): void {
    const queue = this.#queues.get(turn.clientId)!;
    const order = queue.order.get(turn)!;
    const { passed } = queue;
    queue.passed = [];
    if (owned !== undefined) queue.owned = { ...owned, order };
    for (const { turn: older, resolve } of passed) {
      if (owned === undefined) {
        queue.waiting.push(older);
        resolve("again");
      } else {
        resolve(owned);
        this.#leave(queue, older);
      }
    }
    this.#leave(queue, turn);
  }

  #leave(queue: Queue, turn: Turn): void {
    queue.order.delete(turn);
    if (queue.order.size === 0) this.#queues.delete(turn.clientId);
  }
}
