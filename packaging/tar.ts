/** Tar files (POSIX ustar) that depend on nothing but what is put into them. */
import { Buffer } from "node:buffer";

export interface TarEntry {
  /** At most 100 bytes, without a leading slash. */
  readonly path: string;
  readonly mode: number;
  readonly bytes: Uint8Array;
}

const BLOCK = 512;
const LONGEST_PATH = 100;

/** A tar file of regular files owned by root, all of one time (seconds since 1970). */
export function tar(entries: readonly TarEntry[], time: number): Uint8Array {
  const pieces: Uint8Array[] = [];
  for (const entry of entries) {
    pieces.push(header(entry, time), entry.bytes);
    const behind = entry.bytes.length % BLOCK;
    if (behind > 0) pieces.push(Buffer.alloc(BLOCK - behind));
  }
  pieces.push(Buffer.alloc(2 * BLOCK));
  return Buffer.concat(pieces);
}

function header({ path, mode, bytes }: TarEntry, time: number): Buffer {
  const block = Buffer.alloc(BLOCK);
  if (Buffer.byteLength(path) > LONGEST_PATH) throw new Error(`${path} is too long for a tar file`);
  const octal = (value: number, at: number, width: number) =>
    block.write(`${value.toString(8).padStart(width - 1, "0")}\0`, at);
  block.write(path, 0);
  octal(mode, 100, 8);
  octal(0, 108, 8);
  octal(0, 116, 8);
  octal(bytes.length, 124, 12);
  octal(time, 136, 12);
  block.write("        ", 148);
  block.write("0", 156);
  block.write("ustar\x0000", 257, "latin1");
  block.write("root", 265);
  block.write("root", 297);
  octal(0, 329, 8);
  octal(0, 337, 8);
  const sum = block.reduce((sum, byte) => sum + byte, 0);
  block.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148);
  return block;
}
