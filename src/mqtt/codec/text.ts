import { Buffer } from "node:buffer";

/** Fatal, and a byte order mark is a character like any other (1.5.4-3). */
const utf8Decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/**
 * What every Buffer in Node and in Deno can do and the type declarations leave out, on any Uint8Array:
 * strings in a sixth of the time of a TextDecoder. `utf8Slice` puts U+FFFD where bytes are no UTF-8.
 */
const { latin1Slice, utf8Slice } = Buffer.prototype as unknown as {
  latin1Slice(this: Uint8Array, start: number, end: number): string;
  utf8Slice(this: Uint8Array, start: number, end: number): string;
};

/** Up to this a string is put together faster than any call makes it. */
const SHORT_TEXT_BYTES = 12;

/** The string in `bytes[start, end)`, or undefined when 1.5.4 forbids it. */
export function decodeText(bytes: Uint8Array, start: number, end: number): string | undefined {
  for (let i = start; i < end; i++) {
    // One comparison for both that ASCII without U+0000 excludes.
    if (((bytes[i] - 1) & 0xff) >= 0x7f) return decodeOtherText(bytes, start, end);
  }
  if (end - start > SHORT_TEXT_BYTES) return latin1Slice.call(bytes, start, end);
  let text = "";
  let i = start;
  for (; i + 4 <= end; i += 4) {
    text += String.fromCharCode(bytes[i], bytes[i + 1], bytes[i + 2], bytes[i + 3]);
  }
  for (; i < end; i++) text += String.fromCharCode(bytes[i]);
  return text;
}

function decodeOtherText(bytes: Uint8Array, start: number, end: number): string | undefined {
  const text = utf8Slice.call(bytes, start, end);
  if (text.includes("\0")) return undefined;
  // U+FFFD may have been sent as such: only the fatal decoder knows.
  return text.includes("\ufffd") ? decodeOrRefuse(bytes.subarray(start, end)) : text;
}

function decodeOrRefuse(bytes: Uint8Array): string | undefined {
  try {
    return utf8Decoder.decode(bytes);
  } catch {
    return undefined; // The only error a fatal decoder knows: these bytes are no UTF-8.
  }
}

/** True when `topic` cannot be a Topic Name (4.7.1). */
export function hasWildcard(topic: string): boolean {
  return topic.includes("#") || topic.includes("+");
}

/** Topics one connection keeps, and how long they may be: 4 KiB, and only where it publishes. */
const CACHED_TOPICS = 32;
const LONGEST_CACHED_BYTES = 128;
/** Misses in a row after which a connection counts as one whose topics do not repeat. */
const MOST_MISSES = 64;
/** How many topics such a connection then sends before it is asked again. */
const LOOKUPS_SKIPPED = 1024;

/**
 * The last topics of one connection, found again by their bytes: most connections publish to few. Besides
 * the decoding it saves everybody downstream a new string to hash. ASCII only, so that characters
 * compare with bytes.
 */
export class TopicCache {
  #topics: string[] | undefined = undefined;
  /** Where the topic asked for last belongs, the one it displaces behind it; -1 when it is not to be kept. */
  #slot = -1;
  #misses = 0;
  #skip = 0;

  /** The topic in `bytes[start, end)` if it was kept. */
  find(bytes: Uint8Array, start: number, end: number): string | undefined {
    const length = end - start;
    this.#slot = -1;
    if (length > LONGEST_CACHED_BYTES) return undefined;
    if (this.#skip > 0) {
      this.#skip--;
      return undefined;
    }
    let hash = length;
    for (let i = start; i < end; i++) hash = ((hash << 5) - hash + bytes[i]) | 0;
    const slot = (hash ^ (hash >>> 5) ^ (hash >>> 10)) & (CACHED_TOPICS - 2);
    const topics = this.#topics;
    this.#slot = slot;
    if (topics === undefined) return undefined;
    const topic = isText(topics[slot], bytes, start, length)
      ? topics[slot]
      : isText(topics[slot + 1], bytes, start, length)
      ? topics[slot + 1]
      : undefined;
    if (topic !== undefined) this.#misses = 0;
    return topic;
  }

  /** Keeps the valid topic that `find` did not know; `size` is its length in bytes. */
  keep(topic: string, size: number): void {
    if (this.#slot < 0 || topic.length !== size || size === 0) return;
    this.#topics ??= new Array(CACHED_TOPICS).fill("");
    this.#topics[this.#slot + 1] = this.#topics[this.#slot];
    this.#topics[this.#slot] = topic;
    if (++this.#misses > MOST_MISSES) {
      this.#misses = 0;
      this.#skip = LOOKUPS_SKIPPED;
    }
  }
}

function isText(text: string, bytes: Uint8Array, start: number, length: number): boolean {
  if (text.length !== length) return false;
  for (let i = 0; i < length; i++) {
    if (text.charCodeAt(i) !== bytes[start + i]) return false;
  }
  return true;
}

/** UTF-8 length of `text` as an encoder writes it: a lone surrogate counts as U+FFFD. */
export function textSize(text: string): number {
  const length = text.length;
  let size = length;
  for (let i = 0; i < length; i++) {
    const code = text.charCodeAt(i);
    if (code < 0x80) continue;
    if (code < 0x800) {
      size += 1;
    } else {
      size += 2;
      if (code >= 0xd800 && code <= 0xdbff && i + 1 < length) {
        const next = text.charCodeAt(i + 1);
        if (next >= 0xdc00 && next <= 0xdfff) i++; // a pair: two units, four bytes
      }
    }
  }
  return size;
}
