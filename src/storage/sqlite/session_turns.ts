import type { Urgency } from "../contract.ts";
import { Fifo } from "../../platform/fifo.ts";
import type { Outcome, Write } from "./messages.ts";

/** Writes of one session transaction (S128). */
const WRITES_PER_GROUP = 8;
/** Answering groups before one of the others, and departed ones before a connected one (S134). */
const TURNS_IN_A_ROW = 4;

export interface QueuedWrite {
  readonly write: Write;
  /** Whose write it is, where a session's packet may wait for it (S133). */
  readonly clientId: string | undefined;
  /** Called once; undefined when the writer is gone. */
  answered(outcome: Outcome | undefined): void;
  /** The class it waits in; undefined while it runs. */
  waitsAs?: Urgency;
}

/**
 * Session writes that wait for their turn, in three classes (S132 to S135).
 *
 * ```
 * mark(client): its writes in "departed" and "connected" ---> "answering", as do those that join
 * ```
 */
export class SessionTurns {
  #lists: Record<Urgency, Fifo<QueuedWrite>> = {
    answering: new Fifo(),
    departed: new Fifo(),
    connected: new Fifo(),
  };
  #counts: Record<Urgency, number> = { answering: 0, departed: 0, connected: 0 };
  /** Packets pending per client. */
  #marks = new Map<string, number>();
  /** Writes that wait in a class a mark would move them out of. */
  #movable = new Map<string, Set<QueuedWrite>>();
  #answeringInARow = 0;
  #departedInARow = 0;

  get waiting(): number {
    return this.#counts.answering + this.#counts.departed + this.#counts.connected;
  }

  push(queued: QueuedWrite, urgency: Urgency): void {
    this.#lists[this.#place(queued, urgency)].push(queued);
  }

  /** What a transaction that gave way did not run: first in line again (S131). */
  putBack(left: readonly QueuedWrite[], urgency: Urgency): void {
    const byPlace: Record<Urgency, QueuedWrite[]> = { answering: [], departed: [], connected: [] };
    for (const queued of left) byPlace[this.#place(queued, urgency)].push(queued);
    for (const place of ["answering", "departed", "connected"] as const) {
      if (byPlace[place].length > 0) this.#lists[place].unshift(byPlace[place]);
    }
  }

  /** The next group and its class; undefined when nothing waits. */
  next(): { readonly group: QueuedWrite[]; readonly urgency: Urgency } | undefined {
    const urgency = this.#choose();
    if (urgency === undefined) return undefined;
    const list = this.#lists[urgency];
    const group: QueuedWrite[] = [];
    while (group.length < WRITES_PER_GROUP && this.#counts[urgency] > 0) {
      const queued = list.shift()!;
      // One that a mark moved up left its old place behind.
      if (queued.waitsAs !== urgency) continue;
      this.#leave(queued);
      group.push(queued);
    }
    return { group, urgency };
  }

  mark(clientId: string): void {
    this.#marks.set(clientId, (this.#marks.get(clientId) ?? 0) + 1);
    const movable = this.#movable.get(clientId);
    if (movable === undefined) return;
    for (const queued of [...movable]) {
      this.#leave(queued);
      this.push(queued, "answering");
    }
  }

  unmark(clientId: string): void {
    const marks = (this.#marks.get(clientId) ?? 0) - 1;
    if (marks > 0) this.#marks.set(clientId, marks);
    else this.#marks.delete(clientId);
  }

  #choose(): Urgency | undefined {
    const { answering, departed, connected } = this.#counts;
    const others = departed + connected;
    if (answering > 0 && (others === 0 || this.#answeringInARow < TURNS_IN_A_ROW)) {
      this.#answeringInARow = others === 0 ? 0 : this.#answeringInARow + 1;
      return "answering";
    }
    if (others === 0) return undefined;
    this.#answeringInARow = 0;
    if (departed > 0 && (connected === 0 || this.#departedInARow < TURNS_IN_A_ROW)) {
      this.#departedInARow = connected === 0 ? 0 : this.#departedInARow + 1;
      return "departed";
    }
    this.#departedInARow = 0;
    return "connected";
  }

  #place(queued: QueuedWrite, urgency: Urgency): Urgency {
    const { clientId } = queued;
    const place = clientId !== undefined && this.#marks.has(clientId) ? "answering" : urgency;
    queued.waitsAs = place;
    this.#counts[place]++;
    if (clientId !== undefined && place !== "answering") {
      let movable = this.#movable.get(clientId);
      if (movable === undefined) this.#movable.set(clientId, movable = new Set());
      movable.add(queued);
    }
    return place;
  }

  #leave(queued: QueuedWrite): void {
    const { clientId, waitsAs } = queued;
    this.#counts[waitsAs!]--;
    queued.waitsAs = undefined;
    if (clientId === undefined || waitsAs === "answering") return;
    const movable = this.#movable.get(clientId)!;
    movable.delete(queued);
    if (movable.size === 0) this.#movable.delete(clientId);
  }
}
