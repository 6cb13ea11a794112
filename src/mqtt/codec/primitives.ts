import { MalformedPacket } from "./fault.ts";
import { decodeText, hasWildcard, type TopicCache } from "./text.ts";
import { Reason, type ReasonCode } from "../../broker/reason.ts";

/** The largest Variable Byte Integer (1.5.5). */
export const LARGEST_VARIABLE_BYTE_INTEGER = 268_435_455;
/** The longest UTF-8 string or binary value, in bytes (1.5.4, 1.5.6). */
export const LONGEST_FIELD_BYTES = 65_535;

/** Below this a loop copies faster than the call that would. */
const FEW_BYTES = 64;

export const NO_BYTES: Uint8Array = new Uint8Array(0);

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
    const { bytes } = this;
    const end = this.#fieldEnd();
    const start = this.at;
    this.at = end;
    if (end - start > FEW_BYTES) return bytes.slice(start, end);
    const copy = new Uint8Array(end - start);
    for (let i = start; i < end; i++) copy[i - start] = bytes[i];
    return copy;
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
    const end = this.#fieldEnd();
    const start = this.at;
    this.at = end;
    return decodeText(this.bytes, start, end);
  }

  /** The same for a Topic Name; one that has wildcards fails. */
  topicOrUndefined(topics: TopicCache): string | undefined {
    const end = this.#fieldEnd();
    const start = this.at;
    this.at = end;
    const known = topics.find(this.bytes, start, end);
    if (known !== undefined) return known;
    const topic = decodeText(this.bytes, start, end);
    if (topic === undefined) return undefined;
    if (hasWildcard(topic)) this.fail(Reason.ProtocolError, "a PUBLISH topic has a wildcard");
    topics.keep(topic, end - start);
    return topic;
  }

  /** Reads the length of a string or of Binary Data; answers where the field ends. */
  #fieldEnd(): number {
    const end = this.twoByteInteger() + this.at;
    if (end > this.end) this.overrun();
    return end;
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

/** Bytes that `value` takes as a Variable Byte Integer. */
export function variableByteIntegerSize(value: number): number {
  return value < 0x80 ? 1 : value < 0x4000 ? 2 : value < 0x200000 ? 3 : 4;
}
