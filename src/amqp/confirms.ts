/** Writes one confirm towards a publisher: basic.ack for `stored`, else basic.nack. */
export type WriteConfirm = (stored: boolean, deliveryTag: number, multiple: boolean) => void;

/**
 * Publisher confirms of one channel (A44, A45): tags come in order and leave in order; neighbours that
 * are acknowledged leave as one.
 */
export class Confirms {
  #tag = 0;
  #first = 0;
  #last = 0;

  /** @param wanted something waits for `flush` */
  constructor(private readonly write: WriteConfirm, private readonly wanted: () => void) {}

  /** The tag of the next completed publish, from 1. */
  next(): number {
    return ++this.#tag;
  }

  acknowledge(tag: number): void {
    if (this.#first === 0) {
      this.#first = tag;
      this.wanted();
    }
    this.#last = tag;
  }

  refuse(tag: number): void {
    this.flush();
    this.write(false, tag, false);
  }

  flush(): void {
    if (this.#first === 0) return;
    const multiple = this.#last > this.#first;
    this.#first = 0;
    this.write(true, this.#last, multiple);
  }
}
