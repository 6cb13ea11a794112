/** Transactions of a SQLite database, as its write-ahead log tells them: nobody's counter but the file's. */

const LOG_HEADER = 32;
const FRAME_HEADER = 24;

/**
 * Frames that end a transaction, in the log beside `database` from where it was started last. A log that
 * starts again begins at 0.
 */
export function commitsInLog(database: string): number {
  const bytes = Deno.readFileSync(`${database}-wal`);
  if (bytes.byteLength < LOG_HEADER) return 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const frame = FRAME_HEADER + view.getUint32(8);
  let commits = 0;
  for (let at = LOG_HEADER; at + frame <= bytes.byteLength; at += frame) {
    // Left over from before the log was started again.
    if (view.getBigUint64(at + 8) !== view.getBigUint64(16)) break;
    if (view.getUint32(at + 4) !== 0) commits++;
  }
  return commits;
}
