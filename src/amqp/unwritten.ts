import { Fifo } from "../platform/fifo.ts";
import type { QueueItem } from "./queues/source.ts";

/** Deliveries that need no acknowledgement, until the socket has taken them (A57). */
export class Unwritten {
  readonly #items = new Fifo<{ readonly item: QueueItem; readonly position: number }>();

  /** @param position the count of bytes written once the delivery has left */
  add(item: QueueItem, position: number): void {
    this.#items.push({ item, position });
  }

  /** Those that have left by now. */
  *upTo(written: number): Iterable<QueueItem> {
    for (let next = this.#items.peek(); next !== undefined; next = this.#items.peek()) {
      if (next.position > written) return;
      this.#items.shift();
      yield next.item;
    }
  }

  /** Those that never left. */
  *all(): Iterable<QueueItem> {
    yield* this.upTo(Infinity);
  }
}
