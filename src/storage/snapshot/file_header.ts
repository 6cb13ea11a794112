import { NANOSECONDS_PER_MS } from "../../platform/clock.ts";
import { crc32c } from "./crc32c.ts";
import {
  BODY_AT,
  CHECKSUM_BYTES,
  FileKind,
  FORMAT_VERSION,
  type Header,
  KIND_AT,
  KIND_NAMES,
  MAGIC,
  SMALLEST_FILE,
  SnapshotFault,
  VERSION_AT,
  WRITER_AT,
  WRITER_BYTES,
  WRITTEN_AT_AT,
} from "./format.ts";

/** The bytes in front of a body. */
export function headerBytes(header: Header): Uint8Array {
  const bytes = new Uint8Array(BODY_AT);
  const view = new DataView(bytes.buffer);
  bytes.set(MAGIC);
  view.setUint32(VERSION_AT, FORMAT_VERSION, true);
  bytes[KIND_AT] = header.kind;
  new TextEncoder().encodeInto(header.writer, bytes.subarray(WRITER_AT, WRITER_AT + WRITER_BYTES));
  view.setBigInt64(WRITTEN_AT_AT, header.writtenAt, true);
  return bytes;
}

/**
 * The header and the body of a whole file, in the order of checks of S53: length, magic, checksum,
 * version, kind. `kind` undefined accepts any that exists.
 *
 * @throws SnapshotFault
 */
export function openFile(
  file: Uint8Array,
  kind: FileKind | undefined,
): { readonly header: Header; readonly body: Uint8Array } {
  if (file.byteLength < SMALLEST_FILE) {
    throw new SnapshotFault(
      `is damaged: it has ${file.byteLength} bytes, and a snapshot has ${SMALLEST_FILE} at least`,
    );
  }
  if (MAGIC.some((byte, i) => file[i] !== byte)) {
    throw new SnapshotFault("is no snapshot: it does not begin with SAGUSNAP");
  }
  const end = file.byteLength - CHECKSUM_BYTES;
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  if (crc32c(file.subarray(0, end)) !== view.getUint32(end, true)) {
    throw new SnapshotFault("is damaged: its checksum does not match its contents");
  }
  const writer = writerText(file.subarray(WRITER_AT, WRITER_AT + WRITER_BYTES));
  const writtenAt = view.getBigInt64(WRITTEN_AT_AT, true);
  const version = view.getUint32(VERSION_AT, true);
  if (version !== FORMAT_VERSION) {
    throw new SnapshotFault(
      `is in format ${version}, written by saguin ${writer} at ${moment(writtenAt)}; ` +
        `this broker reads format ${FORMAT_VERSION}: ` +
        "drain the provider with the build that wrote it",
    );
  }
  const found = file[KIND_AT];
  if (!(found in KIND_NAMES)) throw new SnapshotFault(`is of an unknown kind, ${found}`);
  if (kind !== undefined && found !== kind) {
    throw new SnapshotFault(
      `holds ${KIND_NAMES[found as FileKind]} where ${KIND_NAMES[kind]} should be`,
    );
  }
  const header = { kind: found as FileKind, writer, writtenAt };
  return { header, body: file.subarray(BODY_AT, end) };
}

function writerText(bytes: Uint8Array): string {
  const end = bytes.indexOf(0);
  return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
}

/** RFC 3339, UTC; the raw number where it lies outside what a date can say. */
export function moment(at: bigint): string {
  const date = new Date(Number(at / NANOSECONDS_PER_MS));
  return Number.isNaN(date.getTime()) ? `${at} ns` : date.toISOString();
}
