import { type Message, ownedMessage } from "../record.ts";

/** Payloads up to this share a slab: an ArrayBuffer of their own costs about 400 bytes more. */
const LARGEST_SHARED = 1024;
const SLAB_BYTES = 64 * 1024;

/**
 * Copies payloads out of read buffers, the small ones next to each other. A slab lives as long as the
 * last payload in it, so this is for stores that lose their records from the front: one slab at most is
 * held for the records before the first one.
 */
export class PayloadSlabs {
  #slab = new Uint8Array(0);
  #used = 0;

  own(message: Message): Message {
    const { payload } = message;
    const length = payload.byteLength;
    if (length === 0 || length > LARGEST_SHARED) return ownedMessage(message);
    if (this.#used + length > this.#slab.byteLength) {
      this.#slab = new Uint8Array(SLAB_BYTES);
      this.#used = 0;
    }
    const start = this.#used;
    this.#used += length;
    this.#slab.set(payload, start);
    return { ...message, payload: this.#slab.subarray(start, this.#used) };
  }
}
