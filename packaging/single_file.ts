/**
 * The portable single file: a launcher, and behind it the runtime and the program. The layout is told
 * in launcher/package.h, which reads it; launcher/launcher.sh reads the simpler one of `writeShellFile`.
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { deflateRawSync, gzipSync } from "node:zlib";
import { ENTRY, type Program } from "./program.ts";
import { tar, type TarEntry } from "./tar.ts";

const MAGIC = "SAGUPACK";
/** Hexadecimal digits of a hash in the name of a directory. */
const NAME_DIGITS = 16;
const EXECUTABLE_MODE = 0o755;
const FILE_MODE = 0o644;

/** A runtime in its uncompressed and its deflated form. */
export interface Runtime {
  readonly bytes: Uint8Array;
  /** Raw deflate (RFC 1951). */
  readonly packed: Uint8Array;
}

interface PackedFile {
  /** `<directory>/<name>` below the directory it is unpacked to. */
  readonly path: string;
  readonly executable: boolean;
  readonly bytes: Uint8Array;
  readonly packed: Uint8Array;
}

export function packRuntime(bytes: Uint8Array): Uint8Array {
  return deflateRawSync(bytes, { level: 9 });
}

function sha256(...pieces: readonly Uint8Array[]): Buffer {
  const hash = createHash("sha256");
  for (const piece of pieces) hash.update(piece);
  return hash.digest();
}

/** Directories are named after what is in them, so that what is there under a name is always that. */
function unpacked(runtime: Runtime, program: Program): readonly PackedFile[] {
  const name = (hash: Buffer) => hash.toString("hex").slice(0, NAME_DIGITS);
  const sources = program.files.map((file) => ({
    file,
    bytes: Deno.readFileSync(`${program.directory}/${file}`),
  }));
  const identity = sources.flatMap(({ file, bytes }) => [Buffer.from(`${file}\0`), sha256(bytes)]);
  const programDirectory = `program-${name(sha256(...identity))}`;
  return [
    {
      path: `runtime-${name(sha256(runtime.bytes))}/saguin`,
      executable: true,
      ...runtime,
    },
    ...sources.map(({ file, bytes }) => ({
      path: `${programDirectory}/${file}`,
      executable: false,
      bytes,
      packed: deflateRawSync(bytes, { level: 9 }),
    })),
  ];
}

/** What is executed, paths below the unpacked directory beginning with "@/". */
function commandLine(files: readonly PackedFile[], flags: readonly string[]): string[] {
  const entry = files.find(({ path }) => path.endsWith(`/${ENTRY}`))!;
  return [
    `@/${files[0].path}`,
    ...["run", "--quiet", "--no-config", "--no-lock", "--no-remote", "--no-npm", "--cached-only"],
    ...flags,
    `@/${entry.path}`,
  ];
}

/** The bytes of a file that begins with a launcher of packaging/launcher/launcher.c. */
export function singleFile(
  launcher: Uint8Array,
  runtime: Runtime,
  program: Program,
  flags: readonly string[],
): Uint8Array {
  const files = unpacked(runtime, program);
  const pieces: Uint8Array[] = [launcher];
  let offset = launcher.length;
  const index: Buffer[] = [u32(files.length)];
  for (const { path, executable, bytes, packed } of files) {
    index.push(
      text(path),
      Buffer.from([executable ? 1 : 0]),
      u64(offset),
      u64(packed.length),
      u64(bytes.length),
      sha256(bytes),
    );
    pieces.push(packed);
    offset += packed.length;
  }
  const args = commandLine(files, flags);
  index.push(u32(args.length), ...args.map(text));
  const indexBytes = Buffer.concat(index);
  const footer = [Buffer.from(MAGIC), u64(offset), u32(indexBytes.length), sha256(indexBytes)];
  return Buffer.concat([...pieces, indexBytes, ...footer]);
}

/**
 * The bytes of a file that begins with packaging/launcher/launcher.sh, for systems whose executables
 * cannot be made here: the script with its blanks filled in, and a gzipped tar file.
 */
export function shellFile(
  script: string,
  runtime: Runtime,
  program: Program,
  flags: readonly string[],
): Uint8Array {
  const files = unpacked(runtime, program);
  const entries = files.map(({ path, executable, bytes }): TarEntry => ({
    path,
    mode: executable ? EXECUTABLE_MODE : FILE_MODE,
    bytes,
  }));
  const payload = gzipSync(tar(entries, 0), { level: 9 });
  const args = commandLine(files, flags);
  const directories = [...new Set(files.map(({ path }) => path.slice(0, path.indexOf("/"))))];
  const sums = files.map(({ path, bytes }) => `${sha256(bytes).toString("hex")}  ${path}`);
  const filled = fill(script, {
    "@RUNTIME@": args[0].slice(2),
    "@ENTRY@": args[args.length - 1].slice(2),
    "@ARGUMENTS@": args.slice(1, -1).join(" "),
    "@DIRECTORIES@": directories.join(" "),
    "@SUMS@": sums.join("\n"),
    "@MEBIBYTES@": String(
      Math.ceil(files.reduce((sum, { bytes }) => sum + bytes.length, 0) / 1024 / 1024),
    ),
  });
  // Its own length is in the script, always in as many digits.
  const blank = "@OFFSET@";
  const length = Buffer.byteLength(filled);
  if (!filled.includes(blank)) throw new Error(`launcher.sh has no ${blank}`);
  const header = filled.replace(blank, String(length + 1).padStart(blank.length, " "));
  return Buffer.concat([Buffer.from(header), payload]);
}

function fill(script: string, blanks: Readonly<Record<string, string>>): string {
  let filled = script;
  for (const [blank, value] of Object.entries(blanks)) {
    if (!filled.includes(blank)) throw new Error(`launcher.sh has no ${blank}`);
    filled = filled.replaceAll(blank, () => value);
  }
  return filled;
}

function u32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function u64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

/** u16 length and the bytes, a NUL at their end. */
function text(value: string): Buffer {
  const bytes = Buffer.from(`${value}\0`);
  const length = Buffer.alloc(2);
  length.writeUInt16LE(bytes.length);
  return Buffer.concat([length, bytes]);
}
