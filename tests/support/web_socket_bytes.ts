/** WebSocket frames by hand (RFC 6455 section 5.2). */
import { join } from "./mqtt_bytes.ts";

export const Opcode = {
  Continuation: 0,
  Text: 1,
  Binary: 2,
  Close: 8,
  Ping: 9,
  Pong: 10,
} as const;

export interface FrameOptions {
  readonly opcode?: number;
  readonly payload?: Uint8Array;
  /** The last one of its message. */
  readonly final?: boolean;
  /** Absent: a mask of 1, 2, 3, 4; null: unmasked, as only servers send. */
  readonly mask?: readonly number[] | null;
  readonly reserved?: number;
  /** Bytes of the length field, more than are needed. */
  readonly lengthBytes?: 0 | 2 | 8;
  /** What the length field says, in place of the payload's length. */
  readonly length?: number | bigint;
}

/** One frame of a client. */
export function clientFrame(options: FrameOptions = {}): Uint8Array<ArrayBuffer> {
  const { opcode = Opcode.Binary, payload = new Uint8Array(0), final = true, reserved = 0 } =
    options;
  const mask = options.mask === undefined ? [1, 2, 3, 4] : options.mask;
  const length = BigInt(options.length ?? payload.length);
  const lengthBytes = options.lengthBytes ?? (length < 126n ? 0 : length < 0x1_0000n ? 2 : 8);
  const extended = new Uint8Array(lengthBytes);
  if (lengthBytes === 2) new DataView(extended.buffer).setUint16(0, Number(length));
  if (lengthBytes === 8) new DataView(extended.buffer).setBigUint64(0, length);
  const short = lengthBytes === 0 ? Number(length) : lengthBytes === 2 ? 126 : 127;
  const masked = mask === null ? payload : payload.map((byte, i) => byte ^ mask[i & 3]);
  return join(
    [(final ? 0x80 : 0) | reserved << 4 | opcode, (mask === null ? 0 : 0x80) | short],
    extended,
    mask ?? [],
    masked,
  );
}

export interface ServerFrame {
  readonly opcode: number;
  readonly final: boolean;
  readonly payload: Uint8Array<ArrayBuffer>;
  /** Bytes of the whole frame. */
  readonly size: number;
}

/** The frame that `bytes` begin with; undefined while it is not whole. @throws Error for a masked one */
export function parseServerFrame(bytes: Uint8Array): ServerFrame | undefined {
  if (bytes.length < 2) return undefined;
  if ((bytes[1] & 0x80) !== 0) throw new Error("a server's frame is masked");
  if ((bytes[0] & 0x70) !== 0) throw new Error("a server's frame has a reserved bit");
  const short = bytes[1] & 0x7f;
  const header = short === 126 ? 4 : short === 127 ? 10 : 2;
  if (bytes.length < header) return undefined;
  const view = new DataView(bytes.buffer, bytes.byteOffset);
  const length = short === 126
    ? view.getUint16(2)
    : short === 127
    ? Number(view.getBigUint64(2))
    : short;
  if (bytes.length < header + length) return undefined;
  return {
    opcode: bytes[0] & 0x0f,
    final: (bytes[0] & 0x80) !== 0,
    payload: bytes.slice(header, header + length),
    size: header + length,
  };
}
