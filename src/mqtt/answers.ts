import type { Answerer } from "../broker/publish.ts";
import type { Refusal } from "../broker/reason.ts";

/** What a publish is answered with: nothing at QoS 0, PUBACK at 1, PUBREC at 2. */
export type AnswerKind = 0 | 1 | 2;

const PENDING: unique symbol = Symbol("pending");

const NO_KINDS = new Uint8Array(0);
const NO_IDS = new Uint16Array(0);
const NO_SIZES = new Float64Array(0);
const NO_OUTCOMES: never[] = [];

/** First size of the ring; it doubles up to what the connection lets wait. */
const FIRST_SLOTS = 8;

/**
 * The publishes of one connection that are not answered yet, in order of arrival: answers leave in
 * that order whatever order the stores settle them in (MQTT-4.6.0-2, DESIGN section 2).
 */
export class Answers implements Answerer {
  // Nothing is allocated before the first publish: most connections of a fleet are idle subscribers.
  #kinds = NO_KINDS;
  #packetIds = NO_IDS;
  #sizes = NO_SIZES;
  #outcomes: (Refusal | undefined | typeof PENDING)[] = NO_OUTCOMES;
  /** Token of the oldest unanswered publish, and of the next one to come. */
  #head = 0;
  #next = 0;
  #bytes = 0;

  /**
   * `write` puts one answer into the output. Called in order of arrival, within the turn in which the
   * oldest outstanding publish is settled.
   */
  constructor(
    private readonly write: (
      kind: AnswerKind,
      packetId: number,
      refusal: Refusal | undefined,
    ) => void,
  ) {}

  get outstanding(): number {
    return this.#next - this.#head;
  }

  get outstandingBytes(): number {
    return this.#bytes;
  }

  /** Takes a place in the order; the token goes to `answered`. */
  push(kind: AnswerKind, packetId: number, bytes: number): number {
    if (this.outstanding === this.#kinds.length) this.#grow();
    const token = this.#next++;
    const slot = token & (this.#kinds.length - 1);
    this.#kinds[slot] = kind;
    this.#packetIds[slot] = packetId;
    this.#sizes[slot] = bytes;
    this.#outcomes[slot] = PENDING;
    this.#bytes += bytes;
    return token;
  }

  answered(token: number, refusal: Refusal | undefined): void {
    const mask = this.#kinds.length - 1;
    this.#outcomes[token & mask] = refusal;
    if (token !== this.#head) return;
    while (this.#head < this.#next) {
      const slot = this.#head & mask;
      const outcome = this.#outcomes[slot];
      if (outcome === PENDING) return;
      this.#outcomes[slot] = undefined;
      this.#bytes -= this.#sizes[slot];
      this.#head++;
      this.write(this.#kinds[slot] as AnswerKind, this.#packetIds[slot], outcome);
    }
  }

  #grow(): void {
    const size = this.#kinds.length;
    const grown = size === 0 ? FIRST_SLOTS : size * 2;
    const kinds = new Uint8Array(grown);
    const packetIds = new Uint16Array(grown);
    const sizes = new Float64Array(grown);
    const outcomes = new Array(grown).fill(undefined);
    for (let token = this.#head; token < this.#next; token++) {
      const from = token & (size - 1);
      const to = token & (grown - 1);
      kinds[to] = this.#kinds[from];
      packetIds[to] = this.#packetIds[from];
      sizes[to] = this.#sizes[from];
      outcomes[to] = this.#outcomes[from];
    }
    this.#kinds = kinds;
    this.#packetIds = packetIds;
    this.#sizes = sizes;
    this.#outcomes = outcomes;
  }
}
