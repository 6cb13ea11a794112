/** The Castagnoli polynomial, reflected (S48; not zlib's CRC-32). */
const POLYNOMIAL = 0x82f63b78;

/** `TABLES[k]` advances the checksum over one byte that k more bytes follow: eight bytes a step. */
const TABLES = Array.from({ length: 8 }, () => new Uint32Array(256));

for (let byte = 0; byte < 256; byte++) {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ POLYNOMIAL : crc >>> 1;
  TABLES[0][byte] = crc;
}
for (let k = 1; k < 8; k++) {
  for (let byte = 0; byte < 256; byte++) {
    const crc = TABLES[k - 1][byte];
    TABLES[k][byte] = (crc >>> 8) ^ TABLES[0][crc & 0xff];
  }
}
const [T0, T1, T2, T3, T4, T5, T6, T7] = TABLES;

/** CRC32C of `bytes`; `before` is the checksum of what came before them. */
export function crc32c(bytes: Uint8Array, before = 0): number {
  let crc = ~before;
  const { length } = bytes;
  let i = 0;
  for (; i + 8 <= length; i += 8) {
    crc = T7[(crc ^ bytes[i]) & 0xff] ^
      T6[((crc >>> 8) ^ bytes[i + 1]) & 0xff] ^
      T5[((crc >>> 16) ^ bytes[i + 2]) & 0xff] ^
      T4[(crc >>> 24) ^ bytes[i + 3]] ^
      T3[bytes[i + 4]] ^ T2[bytes[i + 5]] ^ T1[bytes[i + 6]] ^ T0[bytes[i + 7]];
  }
  for (; i < length; i++) crc = (crc >>> 8) ^ T0[(crc ^ bytes[i]) & 0xff];
  return ~crc >>> 0;
}
