/** The Castagnoli polynomial, reflected (S48; not zlib's CRC-32). */
const POLYNOMIAL = 0x82f63b78;

const STEP = 16;

/**
 * Sixteen tables of 256 in one: the k-th advances the checksum over one byte that k more bytes follow, so
 * that sixteen bytes are one step. In one array, half as many loads as from sixteen.
 */
const TABLE = new Int32Array(STEP * 256);

for (let byte = 0; byte < 256; byte++) {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  TABLE[byte] = crc;
}
for (let at = 256; at < TABLE.length; at++) {
  const crc = TABLE[at - 256];
  TABLE[at] = (crc >>> 8) ^ TABLE[crc & 0xff];
}

/** Bytes of one call: the compiler improves what is called often sooner than what runs long. */
const CALL_BYTES = 16 * 1024;

/** CRC32C of `bytes`; `before` is the checksum of what came before them. */
export function crc32c(bytes: Uint8Array, before = 0): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let crc = ~before;
  for (let from = 0; from < bytes.byteLength; from += CALL_BYTES) {
    crc = advance(crc, view, from, Math.min(from + CALL_BYTES, bytes.byteLength));
  }
  return ~crc >>> 0;
}

function advance(before: number, view: DataView, from: number, end: number): number {
  const t = TABLE;
  let crc = before;
  let i = from;
  for (; i + STEP <= end; i += STEP) {
    const a = crc ^ view.getInt32(i, true);
    const b = view.getInt32(i + 4, true);
    const c = view.getInt32(i + 8, true);
    const d = view.getInt32(i + 12, true);
    crc = t[0xf00 | a & 0xff] ^ t[0xe00 | (a >>> 8) & 0xff] ^ t[0xd00 | (a >>> 16) & 0xff] ^
      t[0xc00 | a >>> 24] ^
      t[0xb00 | b & 0xff] ^ t[0xa00 | (b >>> 8) & 0xff] ^ t[0x900 | (b >>> 16) & 0xff] ^
      t[0x800 | b >>> 24] ^
      t[0x700 | c & 0xff] ^ t[0x600 | (c >>> 8) & 0xff] ^ t[0x500 | (c >>> 16) & 0xff] ^
      t[0x400 | c >>> 24] ^
      t[0x300 | d & 0xff] ^ t[0x200 | (d >>> 8) & 0xff] ^ t[0x100 | (d >>> 16) & 0xff] ^
      t[d >>> 24];
  }
  for (; i < end; i++) crc = (crc >>> 8) ^ t[(crc ^ view.getUint8(i)) & 0xff];
  return crc;
}
