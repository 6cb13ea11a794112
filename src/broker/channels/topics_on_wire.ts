interface Topic {
  entries: number;
  /** Highest order among them. */
  sent: number;
  /** Newest change known of the topic, sent or not. */
  newest: number;
}

/**
 * The topics with unacknowledged values on one session's wire, and how far each has moved since.
 * Bounded by the window.
 */
export class TopicsOnWire {
  readonly #topics = new Map<string, Topic>();

  /** The value at `order` of the topic was put on the wire. */
  enter(topic: string, order: number): void {
    const held = this.#topics.get(topic);
    if (held === undefined) {
      this.#topics.set(topic, { entries: 1, sent: order, newest: order });
      return;
    }
    held.entries++;
    if (order > held.sent) held.sent = order;
    if (order > held.newest) held.newest = order;
  }

  /** A value of the topic was acknowledged or dropped. */
  leave(topic: string): void {
    const held = this.#topics.get(topic);
    if (held !== undefined && --held.entries === 0) this.#topics.delete(topic);
  }

  /** The topic changed. */
  changed(topic: string, order: number): void {
    const held = this.#topics.get(topic);
    if (held !== undefined && order > held.newest) held.newest = order;
  }

  /** True when the value at `order`, or a newer one, was sent and the topic is not off the wire yet. */
  carries(topic: string, order: number): boolean {
    const held = this.#topics.get(topic);
    return held !== undefined && held.sent >= order;
  }

  /** True when something newer than `order` is known of a topic on the wire. */
  supersedes(topic: string, order: number): boolean {
    const held = this.#topics.get(topic);
    return held !== undefined && held.newest > order;
  }

  clear(): void {
    this.#topics.clear();
  }
}
