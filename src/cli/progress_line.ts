import { plain } from "../config/finding.ts";

/** A command that is over by then shows nothing. */
const FIRST_AFTER_MS = 500;
const EVERY_MS = 100;
const COLUMNS = 79;

/** One line at the bottom of a terminal that says what is under way; nothing where there is none. */
export class ProgressLine {
  #next: number;
  #shown = false;

  constructor(
    private readonly write: (text: string) => void,
    private readonly isTerminal: boolean,
    private readonly now: () => number = () => performance.now(),
  ) {
    this.#next = now() + FIRST_AFTER_MS;
  }

  /** Called as often as there is something new; shown ten times a second. */
  show(text: string): void {
    if (!this.isTerminal) return;
    const now = this.now();
    if (now < this.#next) return;
    this.#next = now + EVERY_MS;
    this.#shown = true;
    this.write(`\r\x1b[K${plain(text).slice(0, COLUMNS)}`);
  }

  /** Takes the line away, before anything else is written. */
  clear(): void {
    if (!this.#shown) return;
    this.#shown = false;
    this.write("\r\x1b[K");
  }
}
