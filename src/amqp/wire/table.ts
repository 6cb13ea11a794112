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
  const writer = new TableWriter();
  writer.table(fields);
  return writer.written();
}

/** Room of a first piece; doubled as it fills. */
const FIRST_BYTES = 64;

class TableWriter {
  #bytes = new Uint8Array(FIRST_BYTES);
  #view = new DataView(this.#bytes.buffer);
  #at = 0;

  written(): Uint8Array {
    return this.#bytes.slice(0, this.#at);
  }

  /** Where `count` more bytes go. */
  #take(count: number): number {
    const at = this.#at;
    this.#at += count;
    if (this.#at > this.#bytes.length) {
      const grown = new Uint8Array(Math.max(this.#at, this.#bytes.length * 2));
      grown.set(this.#bytes.subarray(0, at));
      this.#bytes = grown;
      this.#view = new DataView(grown.buffer);
    }
    return at;
  }

  #octet(value: number): void {
    const at = this.#take(1);
    this.#bytes[at] = value;
  }

  #copy(bytes: Uint8Array): void {
    const at = this.#take(bytes.length);
    this.#bytes.set(bytes, at);
  }

  /** What `run` writes, behind its length. */
  #withLength(run: () => void): void {
    const start = this.#take(4);
    run();
    this.#view.setUint32(start, this.#at - start - 4);
  }

  table(fields: FieldTable): void {
    this.#withLength(() => {
      for (const [name, field] of fields) {
        const text = encodeText(name);
        this.#octet(text.length);
        this.#copy(text);
        this.#field(field);
      }
    });
  }

  #integer(value: bigint, size: number): void {
    for (let i = size - 1; i >= 0; i--) this.#octet(Number(value >> BigInt(8 * i) & 0xffn));
  }

  #field(field: FieldValue): void {
    this.#octet(field.type.charCodeAt(0));
    switch (field.type) {
      case "t":
        return this.#octet(field.value ? 1 : 0);
      case "f": {
        const at = this.#take(4);
        return this.#view.setFloat32(at, field.value);
      }
      case "d": {
        const at = this.#take(8);
        return this.#view.setFloat64(at, field.value);
      }
      case "D":
        this.#octet(field.scale);
        return this.#integer(BigInt(field.value), 4);
      case "S":
      case "x":
        return this.#withLength(() => this.#copy(field.value));
      case "A":
        return this.#withLength(() => {
          for (const each of field.value) this.#field(each);
        });
      case "F":
        return this.table(field.value);
      case "V":
        return;
      default:
        this.#integer(BigInt(field.value), SIZES[field.type]);
    }
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
