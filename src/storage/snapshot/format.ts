import type { Nanoseconds } from "../../platform/clock.ts";

/** What a snapshot file begins with in every format version, for ever (S47). */
export const MAGIC = new TextEncoder().encode("SAGUSNAP");
export const FORMAT_VERSION = 21;

export const VERSION_AT = 8;
export const KIND_AT = 12;
export const WRITER_AT = 13;
export const WRITER_BYTES = 24;
export const WRITTEN_AT_AT = 37;
export const BODY_AT = 45;
export const CHECKSUM_BYTES = 4;
export const SMALLEST_FILE = BODY_AT + CHECKSUM_BYTES;

export enum FileKind {
  Channels = 1,
  Manifest = 2,
  Sessions = 3,
}

export const KIND_NAMES: Record<FileKind, string> = {
  [FileKind.Channels]: "channels",
  [FileKind.Manifest]: "a manifest",
  [FileKind.Sessions]: "sessions",
};

export interface Header {
  readonly kind: FileKind;
  /** Build revision, at most 24 bytes. */
  readonly writer: string;
  /** The moment the stop began that wrote the file: the same in all of its files (S50). */
  readonly writtenAt: Nanoseconds;
}

/** One file of a stop, and the channels in it, as the manifest lists them. */
export interface ManifestEntry {
  readonly file: string;
  readonly channels: readonly string[];
}

/** What is wrong with the bytes of a snapshot file, as the rest of a sentence about the file. */
export class SnapshotFault extends Error {
  constructor(message: string, options?: { cause?: unknown }) {
    super(message, options);
    this.name = "SnapshotFault";
  }
}

/** Store kinds, QoS states and the like as they stand in a file. */
export const STORE_KINDS = ["append", "latest", "queue"] as const;
export const IN_FLIGHT_STATES = ["sent", "received"] as const;
