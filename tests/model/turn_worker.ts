/** The writer and the keeper of a SQLite provider, without their threads. */
import { Keeper } from "../../src/storage/sqlite/keeper.ts";
import { roleOf } from "../../src/storage/sqlite/worker_name.ts";
import { Writer } from "../../src/storage/sqlite/writer.ts";

type Handler = { handle(request: never): unknown };

/** A storage worker without a thread: a turn does what was asked, the next one answers. */
export class TurnWorker {
  onmessage: ((event: { data: unknown }) => void) | null = null;
  onmessageerror: (() => void) | null = null;
  onerror: ((event: ErrorEvent) => void) | null = null;
  readonly #part: Handler;
  #asked: unknown[] = [];
  #answers: unknown[] = [];

  constructor(name: string) {
    this.#part = roleOf(name) === "writer" ? new Writer() : new Keeper();
  }

  postMessage(request: { ask: string }, transfer: Transferable[]): void {
    // The first request carries memory that both sides share.
    this.#asked.push(
      request.ask === "open" ? request : structuredClone(request, { transfer }),
    );
  }

  terminate(): void {}

  /** Something was asked and is not answered. */
  get busy(): boolean {
    return this.#asked.length > 0 || this.#answers.length > 0;
  }

  /** False: there was nothing to do. */
  turn(): boolean {
    if (this.#answers.length > 0) {
      for (const data of this.#answers.splice(0)) this.onmessage?.({ data });
      return true;
    }
    if (this.#asked.length === 0) return false;
    for (const request of this.#asked.splice(0)) {
      this.#answers.push(structuredClone(this.#part.handle(request as never)));
    }
    return true;
  }
}
