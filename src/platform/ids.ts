/** Makes identifiers. Injected, so that tests can name what the broker will mint. */
export interface Ids {
  /** A Message ID: UUIDv7 (RFC 9562 5.7), lower case, 36 characters. */
  messageId(): string;
  /** `bytes` random bytes as lower-case hexadecimal. */
  token(bytes: number): string;
}

const HEX = Array.from({ length: 256 }, (_, i) => i.toString(16).padStart(2, "0"));
const POOL_BYTES = 4096;
const RANDOM_BYTES_PER_ID = 10;

/** UUIDv7 from one pool of random bytes, refilled as it runs out; the time part once a millisecond. */
export function randomIds(nowMs: () => number = Date.now): Ids {
  const pool = new Uint8Array(POOL_BYTES);
  let used = POOL_BYTES;
  let timeMs = -1;
  let timeText = "";

  function take(count: number): number {
    if (used + count > POOL_BYTES) {
      crypto.getRandomValues(pool);
      used = 0;
    }
    const at = used;
    used += count;
    return at;
  }

  return {
    messageId() {
      const now = nowMs();
      if (now !== timeMs) {
        timeMs = now;
        const hex = Math.trunc(now).toString(16).padStart(12, "0");
        timeText = hex.slice(0, 8) + "-" + hex.slice(8) + "-7";
      }
      const at = take(RANDOM_BYTES_PER_ID);
      return timeText + HEX[pool[at]][1] + HEX[pool[at + 1]] + "-" +
        HEX[0x80 | (pool[at + 2] & 0x3f)] + HEX[pool[at + 3]] + "-" +
        HEX[pool[at + 4]] + HEX[pool[at + 5]] + HEX[pool[at + 6]] +
        HEX[pool[at + 7]] + HEX[pool[at + 8]] + HEX[pool[at + 9]];
    },
    token(bytes) {
      const random = crypto.getRandomValues(new Uint8Array(bytes));
      let text = "";
      for (const byte of random) text += HEX[byte];
      return text;
    },
  };
}
