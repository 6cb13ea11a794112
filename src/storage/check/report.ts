/**
 * Who hears of a check. A finding is what no run of a broker leaves behind, or what refuses a start; a note
 * is what a start would warn of and go on.
 */
export interface CheckReport {
  finding(sentence: string): void;
  note(sentence: string): void;
  /** What is being looked at; called often. */
  progress(text: string): void;
}

/** How much was looked at. */
export interface Checked {
  readonly channels: number;
  /** Records, values, jobs and rows of ingest tables. */
  readonly entries: number;
  readonly sessions: number;
}

/** Findings of one kind that are named one by one. */
const MOST_NAMED = 5;

/** Findings about one thing; of many alike only the first are named. */
export class Findings {
  #counts = new Map<string, number>();

  constructor(private readonly report: CheckReport, private readonly about: string) {}

  /** @param kind what is wrong, the same for all that are alike */
  add(kind: string, detail: string): void {
    const count = (this.#counts.get(kind) ?? 0) + 1;
    this.#counts.set(kind, count);
    if (count <= MOST_NAMED) this.report.finding(`${this.about} ${kind}: ${detail}`);
  }

  /** Counts what was not named. */
  end(): void {
    for (const [kind, count] of this.#counts) {
      if (count > MOST_NAMED) {
        this.report.finding(`${this.about} ${kind}: ${count - MOST_NAMED} more like these`);
      }
    }
  }
}
