import { type Offset, recordSize, type StoredRecord } from "../../storage/record.ts";

/** Charged for a waiting value beside the size of its message (02a 13.1). */
const WAITING_BYTES = 80;

interface WaitingValue {
  readonly record: StoredRecord;
  /** Its place among the changes of its topic: the offset, or past one for what took none. */
  readonly order: number;
  readonly bytes: number;
}

/** Changes that wait for room on a session's wire: one for each topic (D13.11), and bounded in bytes. */
export class WaitingValues {
  readonly #values = new Map<string, WaitingValue>();
  #bytes = 0;

  constructor(private readonly maximumBytes: number) {}

  get size(): number {
    return this.#values.size;
  }

  get bytes(): number {
    return this.#bytes;
  }

  get(topic: string): WaitingValue | undefined {
    return this.#values.get(topic);
  }

  /** The one whose topic waits longest. */
  first(): WaitingValue | undefined {
    for (const value of this.#values.values()) return value;
    return undefined;
  }

  /**
   * Waits in the place of an older value of the topic, or at the end. False: there is no room, and
   * nothing of the topic waits now. One always has room, whatever its size.
   */
  put(record: StoredRecord, order: number): boolean {
    const { topic } = record.message;
    const bytes = recordSize(record.message) + WAITING_BYTES;
    const old = this.#values.get(topic);
    const others = this.#bytes - (old?.bytes ?? 0);
    if (others > 0 && others + bytes > this.maximumBytes) {
      this.delete(topic);
      return false;
    }
    this.#values.set(topic, { record, order, bytes });
    this.#bytes = others + bytes;
    return true;
  }

  /** True when a value of the topic waited. */
  delete(topic: string): boolean {
    const old = this.#values.get(topic);
    if (old === undefined) return false;
    this.#values.delete(topic);
    this.#bytes -= old.bytes;
    return true;
  }

  /** The lowest offset among them; infinite when none of them has one. */
  lowest(): Offset {
    let lowest = Infinity;
    for (const { record: { offset } } of this.#values.values()) {
      if (offset > 0 && offset < lowest) lowest = offset;
    }
    return lowest;
  }

  clear(): void {
    this.#values.clear();
    this.#bytes = 0;
  }
}
