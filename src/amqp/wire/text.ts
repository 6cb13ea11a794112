import { Buffer } from "node:buffer";

/** Fatal, and a byte order mark is a character like any other. */
const utf8Decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** On any Uint8Array: strings in a fraction of the time of a TextDecoder. */
const { latin1Slice, utf8Slice } = Buffer.prototype as unknown as {
  latin1Slice(this: Uint8Array, start: number, end: number): string;
  utf8Slice(this: Uint8Array, start: number, end: number): string;
};

/** Up to this a string is put together faster than any call makes it. */
const QUICK_TEXT_BYTES = 12;

/** The string in `bytes[start, end)`; undefined when that is no UTF-8. U+0000 is a character. */
export function decodeText(bytes: Uint8Array, start: number, end: number): string | undefined {
  for (let i = start; i < end; i++) {
    if (bytes[i] >= 0x80) return decodeOtherText(bytes, start, end);
  }
  if (end - start > QUICK_TEXT_BYTES) return latin1Slice.call(bytes, start, end);
  let text = "";
  for (let i = start; i < end; i++) text += String.fromCharCode(bytes[i]);
  return text;
}

function decodeOtherText(bytes: Uint8Array, start: number, end: number): string | undefined {
  const text = utf8Slice.call(bytes, start, end);
  if (!text.includes("\ufffd")) return text;
  try {
    // U+FFFD may have been sent as such: only the fatal decoder knows.
    return utf8Decoder.decode(bytes.subarray(start, end));
  } catch {
    return undefined; // The only error a fatal decoder knows: these bytes are no UTF-8.
  }
}

/** A string with one character for each byte: equal for equal bytes, and not meant to be read. */
export function bytesText(bytes: Uint8Array, start: number, end: number): string {
  return latin1Slice.call(bytes, start, end);
}

const encoder = new TextEncoder();

export function encodeText(text: string): Uint8Array {
  return encoder.encode(text);
}

/** Writes `text` at `at` and answers how many bytes it took; the caller made room for 3 a unit. */
export function writeText(text: string, bytes: Uint8Array, at: number): number {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code >= 0x80) return encoder.encodeInto(text, bytes.subarray(at)).written;
    bytes[at + i] = code;
  }
  return text.length;
}
