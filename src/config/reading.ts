/** Reads one written text as the table says, or says what is wrong with it and what to write. */
import { addressFault } from "./address.ts";
import type { ScalarNode } from "./document.ts";
import { type Key, type Kind, NONE, type Value } from "./table/key.ts";
import { readDuration, readSize, writeDuration, writeSize } from "./units.ts";

export type Reading = { readonly value: Value } | { readonly fault: string };

/** Shown as an example, where the key can take it. */
const EXAMPLE_MS = 90_000;
const EXAMPLE_BYTES = 64 * 1024 ** 2;

type KindOf<Of extends Kind["of"]> = Extract<Kind, { of: Of }>;

/** Reads `node` as a value of `key`. The fault is the end of a sentence: what is wrong; what to write. */
export function read(key: Key, node: Pick<ScalarNode, "text" | "quoted">): Reading {
  const { kind, why } = key;
  const { text, quoted } = node;
  switch (kind.of) {
    case "text":
      return checked(text, kind.fault?.(text));
    case "word":
      if (kind.words.includes(text)) return { value: text };
      return fault(`is not ${kind.noun}`, why, `write ${list(kind.words)}${orLeaveOut(key)}`);
    case "flag":
      if (!quoted && (text === "true" || text === "false")) return { value: text === "true" };
      return fault(
        quoted && /^(true|false)$/.test(text) ? "is a text in quotes" : "is neither true nor false",
        why,
        "write true or false",
      );
    case "count":
      return readCount(kind, text, quoted, why);
    case "size":
      return readBytes(kind, text, why);
    case "duration":
      return readMs(kind, text, why);
    case "path":
      return readPath(kind, text);
    case "address":
      return checked(text, addressFault(text));
    case "filter":
    case "provider":
      return checked(text, text === "" ? `is empty; write ${wanted(kind)}` : undefined);
    case "mode":
      return readMode(text, quoted);
    case "words":
    case "texts":
    case "block":
    case "doors":
    case "named":
    case "rows":
      throw new TypeError(`${key.path} holds no single text`);
  }
}

/** Whether a key of this kind holds one text. */
export function isScalarKind(kind: Kind): boolean {
  return !["texts", "words", "block", "doors", "named", "rows"].includes(kind.of);
}

/** What to write for a key that holds nothing: `an address as host:port`. */
export function wanted(kind: Kind): string {
  switch (kind.of) {
    case "text":
      return "a text";
    case "word":
      return list(kind.words);
    case "flag":
      return "true or false";
    case "count":
    case "size":
    case "duration":
      return range(kind);
    case "path":
      return pathWanted(kind);
    case "address":
      return "host:port";
    case "filter":
      return "a topic filter";
    case "provider":
      return "the name of a provider";
    case "mode":
      return 'octal digits in quotes, such as "0660"';
    case "texts":
      return "a list of texts";
    case "words":
      return `a mapping of names to ${list(kind.words)}`;
    case "block":
      return "a mapping of keys";
    case "doors":
      return "a mapping of keys, or a list of them";
    case "named":
      return `a mapping of ${kind.noun} names`;
    case "rows":
      return "a list of mappings";
  }
}

function readCount(kind: KindOf<"count">, text: string, quoted: boolean, why?: string): Reading {
  if (text === NONE) return orNone(kind.none, kind, why);
  if (!/^\d+$/.test(text)) {
    const says = /^-\d+$/.test(text) ? "is below zero" : "is not a whole number";
    return fault(says, why, `write ${range(kind)}`);
  }
  if (quoted) return fault("is a text in quotes", undefined, "write the number without quotes");
  return within(Number(text), kind, why);
}

function readBytes(kind: KindOf<"size">, text: string, why?: string): Reading {
  if (text === NONE) return orNone(kind.none, kind, why);
  const reading = readSize(text);
  if (!("fault" in reading)) return within(reading.bytes, kind, why);
  if (reading.fault === "range") return within(Infinity, kind, why);
  const example = writeSize(Math.min(Math.max(kind.min, EXAMPLE_BYTES), kind.max));
  return fault(
    "is not a size",
    undefined,
    `write one whole number of bytes, or one with KiB, MiB or GiB, such as ${example}`,
  );
}

function readMs(kind: KindOf<"duration">, text: string, why?: string): Reading {
  if (text === NONE) return orNone(kind.none, kind, why);
  const reading = readDuration(text);
  const units = kind.subsecond ? "ms, s, m, h or d" : "s, m, h or d";
  if (!("fault" in reading)) {
    if (reading.unit === "ms" && !kind.subsecond) {
      const says = "is in milliseconds, and this key is held in whole seconds";
      return fault(says, undefined, `write it in ${units}`);
    }
    return within(reading.ms, kind, why);
  }
  if (reading.fault === "range") return within(Infinity, kind, why);
  const says = reading.fault === "unit" ? "has no unit" : "is not a duration";
  const example = writeDuration(Math.min(Math.max(kind.min, EXAMPLE_MS), kind.max));
  const remedy = `write one whole number and one unit of ${units}, such as ${example}`;
  return fault(says, undefined, remedy);
}

function orNone(
  none: string | undefined,
  kind: KindOf<"count" | "size" | "duration">,
  why: string | undefined,
): Reading {
  return none === undefined
    ? fault("cannot be none", why, `write ${range(kind)}`)
    : { value: NONE };
}

function within(
  value: number,
  kind: KindOf<"count" | "size" | "duration">,
  why: string | undefined,
): Reading {
  if (value < kind.min) {
    const says = value === 0 ? "is zero" : `is below ${unit(kind, kind.min)}`;
    return fault(says, why, `write ${range(kind)}`);
  }
  if (value > kind.max) {
    return fault(`is above ${unit(kind, kind.max)}`, why, `write ${range(kind)}`);
  }
  return { value };
}

/** `a duration from 10ms to 1s, or none for no deadline`. */
export function range(kind: KindOf<"count" | "size" | "duration">): string {
  const noun = kind.of === "count"
    ? "a whole number"
    : kind.of === "size"
    ? "a size"
    : kind.subsecond
    ? "a duration"
    : "a duration in whole seconds";
  const from = unit(kind, kind.min);
  const bounds = isOpen(kind) ? `of at least ${from}` : `from ${from} to ${unit(kind, kind.max)}`;
  const none = kind.none === undefined ? "" : `, or none for: ${kind.none}`;
  return `${noun} ${bounds}${none}`;
}

/** Whether the highest value is only what a Number or MQTT can hold. */
export function isOpen(kind: KindOf<"count" | "size" | "duration">): boolean {
  return kind.max === Number.MAX_SAFE_INTEGER ||
    (kind.of === "duration" && kind.max >= 0xffff_fffe * 1000);
}

function unit(kind: KindOf<"count" | "size" | "duration">, value: number): string {
  if (kind.of === "count") return String(value);
  return kind.of === "size" ? writeSize(value) : writeDuration(value);
}

function readPath(kind: KindOf<"path">, text: string): Reading {
  if (kind.none !== undefined && text === NONE) return { value: NONE };
  if (text.includes("\0")) {
    return fault("holds a NUL character", undefined, `write ${pathWanted(kind)}`);
  }
  if (kind.abstract && text.startsWith("@") && text.length > 1) return { value: text };
  if (text.startsWith("/")) return { value: text };
  return fault("is not an absolute path", undefined, `write ${pathWanted(kind)}`);
}

function pathWanted(kind: KindOf<"path">): string {
  if (kind.none !== undefined) return `a path that begins with /, or none`;
  if (kind.abstract) return "a path that begins with /, or @name for a socket without a file";
  return "a path that begins with /";
}

function readMode(text: string, quoted: boolean): Reading {
  if (/^0?[0-7]{3}$/.test(text) && quoted) return { value: text };
  return fault(
    quoted ? "is not a socket's permissions" : "stands without quotes, where it could be a decimal",
    undefined,
    'write three octal digits in quotes, such as "0660"',
  );
}

function checked(text: string, faultOf: string | undefined): Reading {
  if (faultOf !== undefined) return { fault: faultOf };
  return text === "" ? { fault: "is empty; write a text" } : { value: text };
}

function fault(says: string, why: string | undefined, remedy: string): Reading {
  return { fault: `${says}${why === undefined ? "" : `: ${why}`}; ${remedy}` };
}

function orLeaveOut(key: Key): string {
  return typeof key.default === "string" ? `, or leave the key out for ${key.default}` : "";
}

/** `a, b or c`. */
export function list(words: readonly string[]): string {
  if (words.length < 2) return words.join("");
  return `${words.slice(0, -1).join(", ")} or ${words[words.length - 1]}`;
}
