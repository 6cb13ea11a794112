interface Turn {
  /** Set once the publication is settled. */
  deliver: (() => void) | undefined;
}

/**
 * Keeps the live deliveries of each client's broadcasts in the order of their publishes
 * (MQTT-4.6.0-5): one that has to be stored first is not overtaken by the next one, which has not. A
 * client that has nothing at a store costs nothing.
 */
export class LiveOrder {
  readonly #turns = new Map<string, Turn[]>();

  /** Nothing of the client waits: what it publishes now may be delivered at once. */
  idle(clientId: string): boolean {
    return !this.#turns.has(clientId);
  }

  /** Takes the next turn of the client. The function is called once, with what the turn delivers. */
  enter(clientId: string): (deliver: () => void) => void {
    const turn: Turn = { deliver: undefined };
    const turns = this.#turns.get(clientId);
    if (turns === undefined) this.#turns.set(clientId, [turn]);
    else turns.push(turn);
    return (deliver) => {
      turn.deliver = deliver;
      this.#run(clientId);
    };
  }

  #run(clientId: string): void {
    const turns = this.#turns.get(clientId)!;
    let done = 0;
    while (done < turns.length && turns[done].deliver !== undefined) done++;
    if (done === 0) return;
    const ready = turns.splice(0, done);
    if (turns.length === 0) this.#turns.delete(clientId);
    for (const { deliver } of ready) deliver!();
  }
}
