import type { Provider } from "../storage/contract.ts";
import type { Answers } from "./answers.ts";
import type { KeepAlive } from "./keep_alive.ts";

/** Publishes of one connection that may wait for their stores before it is read no further. */
const WAITING_PACKETS = 1_024;
const WAITING_BYTES = 1024 * 1024;

/**
 * When one connection is read: not while a packet is handled that others wait behind, nor past what may
 * wait for its stores, nor while a provider it publishes into wants no more.
 */
export class Pacing {
  /** What is handled before the next packet is decoded. */
  busy: Promise<void> | undefined;
  /** The provider of a publish of this connection wants no more for now. */
  saturated: Provider | undefined;
  /** PUBRELs whose releases are not stored yet; a client may repeat one for as long as that takes. */
  #releases = 0;
  #waiter: { readonly done: () => boolean; readonly go: () => void } | undefined;
  #ended = false;

  constructor(private readonly answers: Answers, private readonly keepAlive: KeepAlive) {}

  get mustWait(): boolean {
    return this.busy !== undefined || this.saturated !== undefined || this.full;
  }

  get #waiting(): number {
    return this.answers.outstanding + this.#releases;
  }

  get full(): boolean {
    return this.#waiting >= WAITING_PACKETS ||
      this.answers.outstandingBytes >= WAITING_BYTES;
  }

  get #halfEmpty(): boolean {
    return this.#waiting <= WAITING_PACKETS / 2 &&
      this.answers.outstandingBytes <= WAITING_BYTES / 2;
  }

  /** Resolves when the connection may be read on. The client's silence meanwhile says nothing. */
  async untilReady(): Promise<void> {
    this.keepAlive.hold();
    while (this.mustWait) {
      if (this.busy !== undefined) {
        await this.busy;
        this.busy = undefined;
      } else if (this.saturated !== undefined) {
        const { saturated } = this;
        this.saturated = undefined;
        if (saturated.accepting) continue;
        await new Promise<void>((resolve) => saturated.onceAccepting(resolve));
      } else {
        await this.#until(() => this.#halfEmpty);
        if (this.#ended) break;
      }
    }
    this.keepAlive.resume();
  }

  /** Resolves once every publish that came before is answered, or the connection ended. */
  allAnswered(): Promise<void> {
    return this.#until(() => this.answers.outstanding === 0);
  }

  #until(done: () => boolean): Promise<void> {
    if (done() || this.#ended) return Promise.resolve();
    return new Promise((go) => this.#waiter = { done, go });
  }

  /** A PUBREL waits for its release. */
  releases(): void {
    this.#releases++;
  }

  /** Its release is settled. */
  released(): void {
    this.#releases--;
    this.answered();
  }

  /** A publish was answered. */
  answered(): void {
    if (this.#waiter?.done()) this.#wake();
  }

  /** The connection ends: whoever waits goes on. */
  end(): void {
    this.#ended = true;
    this.#wake();
  }

  #wake(): void {
    const waiter = this.#waiter;
    this.#waiter = undefined;
    waiter?.go();
  }
}
