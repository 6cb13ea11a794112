import { Fifo } from "../../platform/fifo.ts";
import type { PublishEntry } from "../contract.ts";

/**
 * `PublishEntry.reach` after which the loop looks at sockets and timers again: what is owed to as many
 * sessions takes about five milliseconds. It is counted and not timed, so that groups of ordinary publishes
 * are settled in one turn on any machine.
 */
const REACH_OF_TURN = 32 * 1024;

/** How much of a turn is left. */
export interface Turn {
  reach: number;
}

/** What follows the outcome of one request to the writer. */
export interface Hearing {
  /** Tells whoever waits, one after another, until the turn is used up; false: some are left. */
  tell(turn: Turn): boolean;
}

/** Counts an entry that was told; false: the turn is used up. */
export function goesOn(turn: Turn, { reach }: PublishEntry): boolean {
  if (reach !== undefined) turn.reach -= reach;
  return turn.reach > 0;
}

/**
 * Outcomes on their way to those who wait for them, in the order in which they came: told in the turn that
 * brings them, and where they reach very many, in as many turns as it takes.
 */
export class Outcomes {
  readonly #waiting = new Fifo<Hearing>();
  /** A turn is to come, or under way. */
  #hasTurn = false;

  /** @param done runs whenever nobody is left to be told */
  constructor(private readonly done: () => void) {}

  /** Nobody is left to be told. */
  get empty(): boolean {
    return this.#waiting.length === 0;
  }

  add(hearing: Hearing): void {
    this.#waiting.push(hearing);
    if (!this.#hasTurn) this.#turn();
  }

  /** Tells all that wait, however many they reach. */
  finish(): void {
    while (!this.empty) this.#tell({ reach: Infinity });
  }

  #turn(): void {
    this.#hasTurn = true;
    const turn = { reach: REACH_OF_TURN };
    try {
      this.#tell(turn);
    } finally {
      // Where the turn is used up, what comes in it has to wait as well.
      this.#hasTurn = !this.empty || turn.reach <= 0;
      if (this.#hasTurn) setImmediate(() => this.#turn());
    }
    if (this.empty) this.done();
  }

  #tell(turn: Turn): void {
    for (let next = this.#waiting.peek(); next !== undefined; next = this.#waiting.peek()) {
      if (turn.reach <= 0 || !next.tell(turn)) return;
      this.#waiting.shift();
    }
  }
}
