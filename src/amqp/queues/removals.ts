import { errorText, type Log } from "../../platform/log.ts";
import type { Timer, Timers } from "../../platform/timers.ts";
import { type AmqpStore, MESSAGES_PER_REMOVAL } from "../../storage/amqp.ts";
import type { StorageFailure, Urgency } from "../../storage/contract.ts";

/** Settled messages waiting at which they are written without waiting any longer. */
const ENOUGH = 4 * MESSAGES_PER_REMOVAL;

/** How long a removal that failed waits for its next try. */
const RETRY_MS = 1_000;

/**
 * Stored messages that are settled and whose rows go (T6): they wait for each other for at most
 * `broker.session.ack_commit_interval`, and for no longer than somebody asks for them.
 */
export class Removals {
  #queues: number[] = [];
  #seqs: number[] = [];
  /** Messages added, and of those how many are gone, in order. */
  added = 0;
  #written = 0;
  #timer: Timer | undefined;
  #writing: Promise<void> | undefined;
  #failing = false;

  /** @param freed runs after every removal that was committed */
  constructor(
    private readonly store: AmqpStore,
    private readonly intervalMs: number,
    private readonly timers: Timers,
    private readonly log: Log,
    private readonly freed: () => void,
  ) {}

  add(queue: number, seq: number): void {
    this.#queues.push(queue);
    this.#seqs.push(seq);
    this.added++;
    if (this.#queues.length >= ENOUGH) void this.#write("connected").catch(() => {});
    else this.#arm(this.intervalMs);
  }

  #arm(delayMs: number): void {
    this.#timer ??= this.timers.after(delayMs, () => {
      this.#timer = undefined;
      void this.#write("connected").catch(() => {});
    });
  }

  /**
   * Resolves once the first `mark` messages added are gone from the store; undefined when they are.
   * @throws StorageFailure
   */
  gone(mark: number): Promise<void> | undefined {
    return this.#written >= mark ? undefined : this.#until(mark);
  }

  async #until(mark: number): Promise<void> {
    while (this.#written < mark) await this.#write("answering");
  }

  /** Writes all that waits; joins a write under way. */
  #write(urgency: Urgency): Promise<void> {
    this.#writing ??= this.#writeAll(urgency).finally(() => this.#writing = undefined);
    return this.#writing;
  }

  async #writeAll(urgency: Urgency): Promise<void> {
    this.#timer?.cancel();
    this.#timer = undefined;
    const queues = this.#queues;
    const seqs = this.#seqs;
    this.#queues = [];
    this.#seqs = [];
    for (let at = 0; at < queues.length; at += MESSAGES_PER_REMOVAL) {
      const end = at + MESSAGES_PER_REMOVAL;
      const removal = { queues: queues.slice(at, end), seqs: seqs.slice(at, end), dropped: false };
      try {
        await this.store.remove(removal, urgency);
      } catch (error) {
        this.#queues = [...queues.slice(at), ...this.#queues];
        this.#seqs = [...seqs.slice(at), ...this.#seqs];
        this.#failed(error as StorageFailure);
        throw error;
      }
      this.#written += removal.queues.length;
      this.#worked();
    }
  }

  #worked(): void {
    if (this.#failing) this.log.error("settled AMQP messages are removed again");
    this.#failing = false;
    this.freed();
  }

  #failed(error: StorageFailure): void {
    if (!this.#failing) {
      this.#failing = true;
      this.log.error("cannot remove settled AMQP messages; it is tried again", {
        error: errorText(error),
      });
    }
    this.#arm(RETRY_MS);
  }
}
