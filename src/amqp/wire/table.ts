import { Reply } from "../reply.ts";
import type { Reader } from "./reader.ts";
import { decodeText, encodeText } from "./text.ts";

/**
 * Field tables (A2). A value keeps the type letter it came with:
 *
 * ```
 * t bool   b i8   B u8   s i16   u u16   I i32   i u32   l i64   L u64   f f32   d f64
 * D decimal (scale, value)   S bytes   A array   T u64 seconds   F table   V nothing   x bytes
 * ```
 */
export type FieldValue =
  | { readonly type: "t"; readonly value: boolean }
  | { readonly type: "b" | "B" | "s" | "u" | "I" | "i" | "f" | "d"; readonly value: number }
  | { readonly type: "l" | "L" | "T"; readonly value: bigint }
  | { readonly type: "D"; readonly scale: number; readonly value: number }
  | { readonly type: "S" | "x"; readonly value: Uint8Array }
  | { readonly type: "A"; readonly value: readonly FieldValue[] }
  | { readonly type: "F"; readonly value: FieldTable }
  | { readonly type: "V" };

/** Of two fields with one name the later counts. */
export type FieldTable = ReadonlyMap<string, FieldValue>;

export const EMPTY_TABLE: FieldTable = new Map();

/** Tables and arrays inside each other; what is deeper is refused, since each level is a call. */
const DEEPEST_NESTING = 64;

/** Fixed sizes by type letter; the rest carry their length. */
const SIZES: Readonly<Record<string, number>> = {
  t: 1,
  b: 1,
  B: 1,
  s: 2,
  u: 2,
  I: 4,
  i: 4,
  l: 8,
  L: 8,
  f: 4,
  d: 8,
  D: 5,
  T: 8,
  V: 0,
};

/** Decodes a table, its length first. @throws WireFault 502 */
export function readTable(reader: Reader): FieldTable {
  return within(reader, () => table(reader, 1));
}

/** Moves past a table that is well-formed, without making anything of it. @throws WireFault 502 */
export function skipTable(reader: Reader): void {
  within(reader, () => skip(reader, "F", 1));
}

function within<T>(reader: Reader, run: () => T): T {
  const { code } = reader;
  reader.code = Reply.SyntaxError;
  const result = run();
  reader.code = code;
  return result;
}

/** Narrows the reader to `length` bytes; answers where it ended before. */
function enter(reader: Reader, depth: number): number {
  if (depth > DEEPEST_NESTING) {
    reader.fail(`tables are nested more than ${DEEPEST_NESTING} deep`);
  }
  const length = reader.long();
  const { end } = reader;
  if (length > end - reader.at) reader.fail("a table or an array reaches beyond its frame");
  reader.end = reader.at + length;
  return end;
}

function table(reader: Reader, depth: number): FieldTable {
  const outer = enter(reader, depth);
  if (reader.at === reader.end) {
    reader.end = outer;
    return EMPTY_TABLE;
  }
  const fields = new Map<string, FieldValue>();
  while (reader.at < reader.end) fields.set(reader.shortstr(), value(reader, depth));
  reader.end = outer;
  return fields;
}

function array(reader: Reader, depth: number): FieldValue[] {
  const outer = enter(reader, depth);
  const values: FieldValue[] = [];
  while (reader.at < reader.end) values.push(value(reader, depth));
  reader.end = outer;
  return values;
}

function value(reader: Reader, depth: number): FieldValue {
  const type = String.fromCharCode(reader.octet());
  switch (type) {
    case "t":
      return { type, value: reader.octet() !== 0 };
    case "b":
      return { type, value: reader.octet() << 24 >> 24 };
    case "B":
      return { type, value: reader.octet() };
    case "s":
      return { type, value: reader.short() << 16 >> 16 };
    case "u":
      return { type, value: reader.short() };
    case "I":
      return { type, value: reader.long() | 0 };
    case "i":
      return { type, value: reader.long() };
    case "l":
      return { type, value: BigInt.asIntN(64, reader.bigint()) };
    case "L":
    case "T":
      return { type, value: reader.bigint() };
    case "f":
    case "d":
      return { type, value: float(reader, type) };
    case "D": {
      const scale = reader.octet();
      return { type, scale, value: reader.long() | 0 };
    }
    case "S":
    case "x":
      return { type, value: reader.longstr() };
    case "A":
      return { type, value: array(reader, depth + 1) };
    case "F":
      return { type, value: table(reader, depth + 1) };
    case "V":
      return { type };
    default:
      return unknown(reader, type);
  }
}

function float(reader: Reader, type: "f" | "d"): number {
  const size = SIZES[type];
  const at = reader.skip(size);
  const { buffer, byteOffset } = reader.bytes;
  const view = new DataView(buffer, byteOffset + at, size);
  return type === "f" ? view.getFloat32(0) : view.getFloat64(0);
}

function unknown(reader: Reader, type: string): never {
  reader.fail(`a field has the unknown type 0x${type.charCodeAt(0).toString(16)}`);
}

function skip(reader: Reader, type: string, depth: number): void {
  switch (type) {
    case "S":
    case "x":
      reader.skip(reader.long());
      return;
    case "A":
    case "F": {
      const outer = enter(reader, depth);
      while (reader.at < reader.end) {
        if (type === "F") reader.skipShortstr();
        skip(reader, String.fromCharCode(reader.octet()), depth + 1);
      }
      reader.end = outer;
      return;
    }
    default: {
      const size = SIZES[type];
      if (size === undefined) unknown(reader, type);
      reader.skip(size);
    }
  }
}

// -------------------------------------------------------------------------------------- encoding

/** Encodes a table, its length first. */
export function encodeTable(fields: FieldTable): Uint8Array {
  const bytes: number[] = [];
  pushTable(bytes, fields);
  return Uint8Array.from(bytes);
}

function pushTable(bytes: number[], fields: FieldTable): void {
  withLength(bytes, () => {
    for (const [name, field] of fields) {
      const text = encodeText(name);
      bytes.push(text.length, ...text);
      pushValue(bytes, field);
    }
  });
}

/** Writes what `run` pushes behind its length. */
function withLength(bytes: number[], run: () => void): void {
  const start = bytes.length;
  bytes.push(0, 0, 0, 0);
  run();
  const length = bytes.length - start - 4;
  for (let i = 0; i < 4; i++) bytes[start + i] = length >>> 8 * (3 - i) & 0xff;
}

function pushInteger(bytes: number[], value: bigint, size: number): void {
  for (let i = size - 1; i >= 0; i--) bytes.push(Number(value >> BigInt(8 * i) & 0xffn));
}

function pushValue(bytes: number[], field: FieldValue): void {
  bytes.push(field.type.charCodeAt(0));
  switch (field.type) {
    case "t":
      bytes.push(field.value ? 1 : 0);
      return;
    case "f":
    case "d": {
      const view = new DataView(new ArrayBuffer(SIZES[field.type]));
      if (field.type === "f") view.setFloat32(0, field.value);
      else view.setFloat64(0, field.value);
      bytes.push(...new Uint8Array(view.buffer));
      return;
    }
    case "D":
      bytes.push(field.scale);
      pushInteger(bytes, BigInt(field.value), 4);
      return;
    case "S":
    case "x":
      withLength(bytes, () => {
        for (const byte of field.value) bytes.push(byte);
      });
      return;
    case "A":
      withLength(bytes, () => {
        for (const each of field.value) pushValue(bytes, each);
      });
      return;
    case "F":
      pushTable(bytes, field.value);
      return;
    case "V":
      return;
    default:
      pushInteger(bytes, BigInt(field.value), SIZES[field.type]);
  }
}

// -------------------------------------------------------------------------------------- comparing

/**
 * The form in which tables are stored and compared: names in order, and every integer as `l`, since
 * clients choose the width of an integer by its value.
 */
export function canonicalTable(fields: FieldTable): FieldTable {
  const names = [...fields.keys()].sort();
  return new Map(names.map((name) => [name, canonicalValue(fields.get(name)!)]));
}

function canonicalValue(field: FieldValue): FieldValue {
  switch (field.type) {
    case "b":
    case "B":
    case "s":
    case "u":
    case "I":
    case "i":
      return { type: "l", value: BigInt(field.value) };
    case "A":
      return { type: "A", value: field.value.map(canonicalValue) };
    case "F":
      return { type: "F", value: canonicalTable(field.value) };
    default:
      return field;
  }
}

/** A field's text for a message: what a human wrote, as far as it can be shown. */
export function fieldText(field: FieldValue | undefined): string {
  if (field === undefined) return "nothing";
  switch (field.type) {
    case "S":
    case "x":
      return decodeText(field.value, 0, field.value.length) ?? `${field.value.length} bytes`;
    case "F":
      return "a table";
    case "A":
      return "an array";
    case "V":
      return "void";
    default:
      return String(field.value);
  }
}

/** A text as a field. */
export function textField(text: string): FieldValue {
  return { type: "S", value: encodeText(text) };
}
