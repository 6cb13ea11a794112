import { covers, matches } from "../../topics/filter.ts";

/** Fewer filters than these are compared anew each time: looking an answer up would not be faster. */
const FILTERS_WORTH_REMEMBERING = 4;
export const REMEMBERED_TOPICS = 1_024;

/** Topics of one verb on one channel, or of one verb on broadcast. */
export class Reach {
  /** The whole channel. */
  whole = false;
  readonly filters: string[] = [];
  readonly #remembered = new Map<string, boolean>();

  /** Answers kept. */
  get remembered(): number {
    return this.#remembered.size;
  }

  includes(topic: string): boolean {
    if (this.whole) return true;
    if (this.filters.length < FILTERS_WORTH_REMEMBERING) return this.#compare(topic);
    let found = this.#remembered.get(topic);
    if (found === undefined) {
      found = this.#compare(topic);
      if (this.#remembered.size >= REMEMBERED_TOPICS) this.#remembered.clear();
      this.#remembered.set(topic, found);
    }
    return found;
  }

  #compare(topic: string): boolean {
    for (const filter of this.filters) {
      if (matches(filter, topic)) return true;
    }
    return false;
  }

  /** Whether one grant reaches everything that `filter` matches. */
  covers(filter: string): boolean {
    return this.whole || this.filters.some((granted) => covers(granted, filter));
  }
}
