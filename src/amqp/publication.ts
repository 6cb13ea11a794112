import type { AmqpRow, AmqpStore } from "../storage/amqp.ts";
import type { Copies } from "../broker/copies.ts";
import type { Answerer } from "../broker/publish.ts";
import type { Refusal as MqttRefusal } from "../broker/reason.ts";
import type { Provider, PublishEntry, StorageFailure } from "../storage/contract.ts";
import type { AmqpMessage } from "./message.ts";
import type { AmqpQueue, QueueEntry } from "./queues/queue.ts";

/** Bytes of a row beside its message, for the provider's bound on what waits. */
const ROW_BYTES = 64;

const NO_ROWS: readonly AmqpRow[] = [];

/** What became of a publish: kept, not kept, or turned away by the rules of MQTT (B3). */
export type Outcome = "stored" | StorageFailure | MqttRefusal;

/**
 * One message on its way into the queues it was routed to: stored first where it has to be, then ready
 * in memory, or nothing of it at all (T4, T5).
 */
export class Publication implements PublishEntry, Copies, Answerer {
  /** Empty when nothing has to be stored. */
  rows: readonly AmqpRow[] = NO_ROWS;
  bytes = 0;
  /** Undefined until it is known. */
  outcome: Outcome | undefined;
  /** Somebody takes it who is no AMQP queue: a subscriber, a channel (B7). */
  takenElsewhere = false;
  readonly #entries: QueueEntry[] = [];
  readonly #pushedOut: QueueEntry[] = [];
  #written = false;

  /**
   * @param provider of the rows
   * @param decided runs once, in the turn in which the outcome is known
   */
  constructor(
    readonly message: AmqpMessage,
    readonly provider: Provider,
    private readonly decided: () => void,
  ) {}

  /** Whether anybody takes it. */
  get routed(): boolean {
    return this.#entries.length > 0 || this.takenElsewhere;
  }

  /** Takes a place in `queue`. Before the publish is submitted. */
  enter(queue: AmqpQueue, seq: number, persistent: boolean, store: AmqpStore): void {
    const { message } = this;
    const durable = persistent && queue.stored;
    const before = this.#pushedOut.length;
    this.#entries.push(queue.admit(message, seq, durable, this.#pushedOut));
    if (durable) {
      const { exchange, routingKey, content, propertyBytes } = message;
      this.#row({
        kind: "amqp-copy",
        store,
        queue: queue.id,
        seq,
        exchange,
        routingKey,
        content,
        propertyBytes,
        offset: 0,
      }, content.length);
    }
    for (let i = before; i < this.#pushedOut.length; i++) {
      const { durable, source, seq } = this.#pushedOut[i];
      if (durable) this.#row({ kind: "amqp-drop", store, queue: source.id, seq, offset: 0 }, 0);
    }
  }

  #row(row: AmqpRow, bytes: number): void {
    if (this.rows === NO_ROWS) this.rows = [row];
    else (this.rows as AmqpRow[]).push(row);
    this.bytes += bytes + ROW_BYTES;
  }

  settled(failure: StorageFailure | undefined): void {
    this.decide(failure ?? "stored");
  }

  decide(outcome: Outcome): void {
    this.outcome = outcome;
    this.decided();
  }

  // --------------------------------------------------- where it crosses over into MQTT (B3, B8)

  accepted(): void {}

  refused(written: boolean): void {
    this.#written = written;
  }

  answered(_token: number, refusal: MqttRefusal | undefined): void {
    this.decide(refusal ?? "stored");
  }

  // ------------------------------------------------------------------------------ the outcome

  /** Makes the copies ready; the caller keeps the order of publishes (A46). */
  enqueue(): void {
    for (const entry of this.#entries) entry.source.enqueue(entry);
    for (const entry of this.#pushedOut) entry.source.left(entry);
  }

  /**
   * Nothing was published. What was stored all the same, by a provider that could not know, goes again;
   * what that has pushed out is gone.
   */
  withdraw(): void {
    for (const entry of this.#entries) {
      if (this.#written) entry.source.remove(entry);
      entry.source.withdraw(entry);
    }
    for (const entry of this.#pushedOut) {
      if (this.#written) entry.source.left(entry);
      else entry.source.stays(entry);
    }
  }
}
