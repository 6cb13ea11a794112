import { errorText } from "../platform/log.ts";
import type { AppendStore, SessionStore } from "../storage/contract.ts";
import { type Message, type Offset, recordSize } from "../storage/record.ts";
import { Tail } from "./channels/tail.ts";
import type { Context } from "./context.ts";
import type { Owed } from "./owed.ts";
import { Watermark } from "./watermark.ts";

/** A full log is said this often at most (02b section 15). */
const NO_ROOM_SAID_MS = 10_000;

/** Log messages released in one removal at the latest when so many wait (S108). */
const RELEASE_BATCH = 500;

const RETRY_MS = 1_000;

/** Somebody a log message is owed to: a durable session, or a shared group. */
export interface Debt {
  /** One more message is owed. All who are owed it share what says so: there may be very many. */
  owe(owed: Owed): void;
  /** A message would have been owed, and the log had no room for it. */
  lost(): void;
}

/**
 * The broadcast log: one record for each message that durable sessions are owed, however many they are
 * (D8.5). Keeps count of who still owes what, and removes what nobody does (D8.13).
 */
export class BroadcastLog {
  readonly tail = new Tail();
  readonly #reported: Watermark;
  readonly #owers = new Map<Offset, number>();
  #released: Offset[] = [];
  #releaseArmed = false;
  #noRoom = { messages: 0, deliveries: 0, saidAt: -Infinity };

  constructor(
    readonly store: AppendStore,
    readonly sessions: SessionStore,
    readonly context: Context,
  ) {
    this.#reported = new Watermark(store.next());
  }

  /**
   * The lowest offset that may still be owed to somebody who is not known yet: what was committed and
   * not reported. A cursor never stands above it.
   */
  get end(): Offset {
    return this.#reported.next;
  }

  /** Messages that somebody is owed. */
  get owed(): number {
    return this.#owers.size;
  }

  /** A committed log record: kept in hand, and owed to each of `debts`. */
  recorded(offset: Offset, message: Message, debts: readonly Debt[]): void {
    this.tail.push(offset, message);
    this.#reported.report(offset);
    if (debts.length === 0) return this.#release(offset);
    const owed = { offset, bytes: recordSize(message) };
    this.#owers.set(offset, debts.length);
    for (const debt of debts) debt.owe(owed);
  }

  /** A message found no room, and the log nothing to give: it is kept for nobody (02b section 15). */
  noRoom(debts: readonly Debt[]): void {
    for (const debt of debts) debt.lost();
    const said = this.#noRoom;
    said.messages++;
    said.deliveries += debts.length;
    const now = this.context.clock.monotonic();
    if (now - said.saidAt < NO_ROOM_SAID_MS) return;
    said.saidAt = now;
    this.context.log.warn(
      "the session store is full: broadcasts are not kept for sessions and shared groups",
      {
        messages: said.messages,
        deliveries: said.deliveries,
        remedy: "a larger max_bytes of its provider, or a shorter limits.max_session_expiry",
      },
    );
  }

  /** At the start: `offset` is owed by `owers` sessions and groups (D5.19). */
  restore(offset: Offset, owers: number): void {
    if (owers === 0) this.#release(offset);
    else this.#owers.set(offset, owers);
  }

  /** One session or group less owes `offset`. */
  settle(offset: Offset): void {
    const owers = this.#owers.get(offset);
    if (owers === undefined) return;
    if (owers > 1) this.#owers.set(offset, owers - 1);
    else {
      this.#owers.delete(offset);
      this.#release(offset);
    }
  }

  #release(offset: Offset): void {
    this.#released.push(offset);
    if (this.#released.length >= RELEASE_BATCH) void this.flush();
    else if (!this.#releaseArmed) {
      this.#releaseArmed = true;
      this.context.timers.after(this.context.ackCommitIntervalMs, () => {
        this.#releaseArmed = false;
        void this.flush();
      });
    }
  }

  /** Removes what nobody owes any more. A refused removal is tried again with the next one. */
  async flush(): Promise<void> {
    if (this.#released.length === 0) return;
    const offsets = this.#released.sort((a, b) => a - b);
    this.#released = [];
    try {
      await this.store.removeMany(offsets);
    } catch (error) {
      this.context.counters.storageErrors.add(this.store.channel);
      this.context.log.error("cannot remove delivered messages from the broadcast log", {
        messages: offsets.length,
        error: errorText(error),
      });
      this.#released.push(...offsets);
      if (!this.#releaseArmed) {
        this.#releaseArmed = true;
        this.context.timers.after(RETRY_MS, () => {
          this.#releaseArmed = false;
          void this.flush();
        });
      }
    }
  }
}
