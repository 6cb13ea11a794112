import { type Clock, toMilliseconds } from "./clock.ts";

export type LogLevel = "debug" | "info" | "warn" | "error";

const RANK: Record<LogLevel, number> = { debug: 0, info: 1, warn: 2, error: 3 };

/** The longest value of one field, in UTF-8 bytes; client-chosen strings are cut here. */
const LONGEST_VALUE_BYTES = 256;

export type LogFields = Readonly<Record<string, string | number | bigint | boolean | undefined>>;

/**
 * Structured log of the broker: one logfmt line a call, on standard output (spec README, "log line").
 * `msg` is a constant sentence; whatever varies is a field, so equal lines can be counted.
 */
export interface Log {
  debug(msg: string, fields?: LogFields): void;
  info(msg: string, fields?: LogFields): void;
  warn(msg: string, fields?: LogFields): void;
  error(msg: string, fields?: LogFields): void;
  /** True when a line of `level` would be written; asked before building costly fields. */
  enabled(level: LogLevel): boolean;
}

/**
 * A line that cannot be written, on a full disk or into a pipe that nobody holds any more, stops nobody:
 * it is counted, and the next line that can be written says how many are missing.
 */
export class LogfmtLog implements Log {
  #rank: number;
  #lost = 0;

  constructor(
    private readonly brokerId: string,
    level: LogLevel,
    private readonly clock: Clock,
    private readonly write: (line: string) => void,
  ) {
    this.#rank = RANK[level];
  }

  setLevel(level: LogLevel): void {
    this.#rank = RANK[level];
  }

  enabled(level: LogLevel): boolean {
    return RANK[level] >= this.#rank;
  }

  debug(msg: string, fields?: LogFields): void {
    this.#line("debug", msg, fields);
  }
  info(msg: string, fields?: LogFields): void {
    this.#line("info", msg, fields);
  }
  warn(msg: string, fields?: LogFields): void {
    this.#line("warn", msg, fields);
  }
  error(msg: string, fields?: LogFields): void {
    this.#line("error", msg, fields);
  }

  #line(level: LogLevel, msg: string, fields: LogFields | undefined): void {
    if (!this.enabled(level)) return;
    try {
      if (this.#lost > 0) {
        this.write(this.#text("warn", "log lines could not be written", { lines: this.#lost }));
        this.#lost = 0;
      }
      this.write(this.#text(level, msg, fields));
    } catch {
      // There is nowhere else to say it: the next line that can be written does.
      this.#lost++;
    }
  }

  #text(level: LogLevel, msg: string, fields: LogFields | undefined): string {
    const time = new Date(toMilliseconds(this.clock.wall())).toISOString();
    let line = `time=${time} level=${level.toUpperCase()} broker=${value(this.brokerId)} msg=${
      quoted(msg)
    }`;
    if (fields !== undefined) {
      for (const key of Object.keys(fields)) {
        const field = fields[key];
        if (field !== undefined) line += ` ${key}=${value(field)}`;
      }
    }
    return line + "\n";
  }
}

const BARE = /^[A-Za-z0-9_.:/+\-@%$#]+$/;

function value(field: string | number | bigint | boolean): string {
  if (typeof field !== "string") return String(field);
  const text = cut(field);
  return BARE.test(text) ? text : quoted(text);
}

function cut(text: string): string {
  if (text.length * 3 <= LONGEST_VALUE_BYTES) return text;
  const bytes = new TextEncoder().encode(text);
  if (bytes.length <= LONGEST_VALUE_BYTES) return text;
  let end = LONGEST_VALUE_BYTES;
  while ((bytes[end] & 0xc0) === 0x80) end--;
  return new TextDecoder().decode(bytes.subarray(0, end)) + "...";
}

/** Quotes, control characters, and what a terminal does not show or reorders the line by. */
// deno-lint-ignore no-control-regex
const ESCAPED = /[\\"\x00-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]/g;

function quoted(text: string): string {
  const escaped = text.replace(ESCAPED, (c) => {
    if (c === '"' || c === "\\") return "\\" + c;
    if (c === "\n") return "\\n";
    if (c === "\r") return "\\r";
    if (c === "\t") return "\\t";
    return "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0");
  });
  return `"${escaped}"`;
}

/**
 * Writes each line to `output` at once. A line of which only the beginning could be written is closed
 * before the next, so that the next is whole.
 * @throws what `output` throws, the line being lost
 */
export function lineWriter(
  output: { writeSync(bytes: Uint8Array): number },
): (line: string) => void {
  const encoder = new TextEncoder();
  let torn = false;
  return (line) => {
    const bytes = encoder.encode(torn ? "\n" + line : line);
    let written = 0;
    try {
      while (written < bytes.length) written += output.writeSync(bytes.subarray(written));
    } finally {
      if (written > 0) torn = written < bytes.length;
    }
  };
}

/** The sentence of an error, for a log field. */
export function errorText(error: unknown): string {
  // The runtime's own words advise flags that no operator of this program has.
  if (error instanceof Deno.errors.NotCapable) {
    return "files under /proc, /sys and /dev are closed to this program";
  }
  return error instanceof Error ? error.message : String(error);
}
