import { MalformedPacket } from "./fault.ts";
import { Reason, type ReasonCode } from "../../broker/reason.ts";

/** The largest Variable Byte Integer (1.5.5). */
export const LARGEST_VARIABLE_BYTE_INTEGER = 268_435_455;
/** The longest UTF-8 string or binary value, in bytes (1.5.4, 1.5.6). */
export const LONGEST_FIELD_BYTES = 65_535;

export const NO_BYTES: Uint8Array = new Uint8Array(0);

/** Fatal, and a byte order mark is a character like any other (1.5.4-3). */
const utf8Decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** Reads the fields of one packet (1.5) between `at` and `end`; throws `MalformedPacket`. */
export class Reader {
  bytes: Uint8Array = NO_BYTES;
  at = 0;
  end = 0;
  /** What a fault says about its connection; see `MalformedPacket`. */
  level: number | undefined = undefined;
  inConnect = true;
  /** Set by `rest`: something outside now shares memory with `bytes`. */
  viewed = false;

  /** Ends decoding of this connection. */
  fail(code: ReasonCode, reason: string, returnCode?: number): never {
    throw new MalformedPacket(code, reason, this.level, this.inConnect, returnCode);
  }

  byte(): number {
    if (this.at >= this.end) this.overrun();
    return this.bytes[this.at++];
  }

  twoByteInteger(): number {
    const at = this.at;
    if (at + 2 > this.end) this.overrun();
    this.at = at + 2;
    return (this.bytes[at] << 8) | this.bytes[at + 1];
  }

  fourByteInteger(): number {
    const at = this.at;
    if (at + 4 > this.end) this.overrun();
    this.at = at + 4;
    const { bytes } = this;
    return bytes[at] * 0x1000000 +
      ((bytes[at + 1] << 16) | (bytes[at + 2] << 8) | bytes[at + 3]);
  }

  /** 1.5.5: at most four bytes, and no more of them than the value needs. */
  variableByteInteger(): number {
    let value = 0;
    for (let shift = 0; shift <= 21; shift += 7) {
      const byte = this.byte();
      value |= (byte & 0x7f) << shift;
      if (byte < 0x80) {
        if (byte === 0 && shift > 0) {
          this.fail(
            Reason.MalformedPacket,
            "a Variable Byte Integer is longer than its value needs",
          );
        }
        return value;
      }
    }
    this.fail(Reason.MalformedPacket, "a Variable Byte Integer is longer than four bytes");
  }

  /** Binary Data, copied: it outlives the read buffer. */
  binary(): Uint8Array {
    const length = this.twoByteInteger();
    const start = this.at;
    if (start + length > this.end) this.overrun();
    this.at = start + length;
    return this.bytes.slice(start, start + length);
  }

  /** A UTF-8 Encoded String; `what` names it in the fault. */
  text(what: string): string {
    const text = this.textOrUndefined();
    if (text === undefined) {
      this.fail(Reason.MalformedPacket, `the ${what} is not a UTF-8 string without U+0000`);
    }
    return text;
  }

  /** The same, for a caller with a fault of its own: undefined when 1.5.4 forbids the bytes. */
  textOrUndefined(): string | undefined {
    const length = this.twoByteInteger();
    const start = this.at;
    if (start + length > this.end) this.overrun();
    this.at = start + length;
    return decodeText(this.bytes, start, start + length);
  }

  /** A view of everything that is left. */
  rest(): Uint8Array {
    const { bytes, at, end } = this;
    this.at = end;
    this.viewed = true;
    return bytes.subarray(at, end);
  }

  /** Every field was read and nothing may follow. */
  finish(): void {
    if (this.at !== this.end) {
      this.fail(Reason.MalformedPacket, "bytes follow the last field of the packet");
    }
  }

  overrun(): never {
    this.fail(Reason.MalformedPacket, "a field runs past the end of the packet");
  }
}

/** The string in `bytes[start, end)`, or undefined when 1.5.4 forbids it. */
export function decodeText(bytes: Uint8Array, start: number, end: number): string | undefined {
  if (start === end) return "";
  let text: string;
  try {
    text = utf8Decoder.decode(bytes.subarray(start, end));
  } catch {
    return undefined; // The only error a fatal decoder knows: these bytes are no UTF-8.
  }
  return text.includes("\0") ? undefined : text;
}

/** Bytes that `value` takes as a Variable Byte Integer. */
export function variableByteIntegerSize(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : 4;
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
