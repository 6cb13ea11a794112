import { Reply, type ReplyCode } from "../reply.ts";
import { WireFault } from "./fault.ts";
import { decodeText } from "./text.ts";

export const NO_BYTES = new Uint8Array(0);

/**
 * Reads the primitives of AMQP 0-9-1 (4.2.5) from `bytes[at, end)`. Whatever would pass `end` is a
 * fault of the code in force: 501 in arguments, 502 inside tables and properties.
 */
export class Reader {
  bytes: Uint8Array = NO_BYTES;
  at = 0;
  end = 0;
  code: ReplyCode = Reply.FrameError;

  /** Takes up a frame's payload. */
  begin(bytes: Uint8Array, at: number, end: number): void {
    this.bytes = bytes;
    this.at = at;
    this.end = end;
    this.code = Reply.FrameError;
  }

  fail(detail: string): never {
    throw new WireFault(this.code, detail);
  }

  /** Moves past `count` bytes; answers where they begin. */
  skip(count: number): number {
    const start = this.at;
    if (count > this.end - start) this.fail("a value reaches beyond the end of its frame");
    this.at = start + count;
    return start;
  }

  octet(): number {
    return this.bytes[this.skip(1)];
  }

  short(): number {
    const at = this.skip(2);
    return this.bytes[at] << 8 | this.bytes[at + 1];
  }

  long(): number {
    const at = this.skip(4);
    const { bytes } = this;
    return (bytes[at] << 24 | bytes[at + 1] << 16 | bytes[at + 2] << 8 | bytes[at + 3]) >>> 0;
  }

  /** As a Number: exact up to 2^53, which no delivery tag and no size of ours passes. */
  longlong(): number {
    const high = this.long();
    return high * 2 ** 32 + this.long();
  }

  bigint(): bigint {
    const high = BigInt(this.long());
    return high << 32n | BigInt(this.long());
  }

  shortstr(): string {
    const length = this.octet();
    const start = this.skip(length);
    const text = decodeText(this.bytes, start, this.at);
    if (text === undefined) this.fail("a short string is not UTF-8");
    return text;
  }

  skipShortstr(): void {
    this.skip(this.octet());
  }

  /** A copy. */
  longstr(): Uint8Array {
    const length = this.long();
    const start = this.skip(length);
    return this.bytes.slice(start, this.at);
  }
}
