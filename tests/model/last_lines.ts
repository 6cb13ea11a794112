/** A log for brokers that run by the thousand. */
import type { Log, LogFields } from "../../src/platform/log.ts";

/** Keeps what would have been said last: shown with a schedule that failed. */
export class LastLines implements Log {
  readonly lines: string[] = [];
  #say(level: string, msg: string, fields: LogFields = {}): void {
    this.lines.push(
      `${level} ${msg} ${
        JSON.stringify(fields, (_, value) => typeof value === "bigint" ? String(value) : value)
      }`,
    );
    if (this.lines.length > 400) this.lines.splice(0, 200);
  }
  debug(msg: string, fields?: LogFields): void {
    this.#say("debug", msg, fields);
  }
  info(msg: string, fields?: LogFields): void {
    this.#say("info", msg, fields);
  }
  warn(msg: string, fields?: LogFields): void {
    this.#say("warn", msg, fields);
  }
  error(msg: string, fields?: LogFields): void {
    this.#say("error", msg, fields);
  }
  enabled(): boolean {
    return true;
  }
}
