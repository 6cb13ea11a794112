/** Answered handlers kept at the front of the list before it is moved up. */
const COMPACT_AT = 64;

/**
 * The event loop's end of one worker: requests go out in order, each answer goes to the handler of the
 * oldest request not answered. When the worker dies every handler still waiting hears of it.
 */
export class WorkerLink<Request> {
  #waiting: ((answer: unknown, death: Error | undefined) => void)[] = [];
  #head = 0;
  #death: Error | undefined;

  /** @param died called once, after the waiting handlers were, when the worker ended by itself */
  constructor(private readonly worker: Worker, died: (cause: Error) => void) {
    worker.onmessage = ({ data }) => this.#take()?.(data, undefined);
    worker.onmessageerror = () => this.#die(new Error("a message could not be read"), died);
    worker.onerror = (event) => {
      // Unhandled it would end the process before anybody was told.
      event.preventDefault();
      this.#die(new Error(event.message || "the worker ended"), died);
    };
  }

  /** Requests sent and not answered. */
  get outstanding(): number {
    return this.#waiting.length - this.#head;
  }

  /** `answered` runs in the turn of the answer; with `death` set the answer never comes. */
  ask<Answer>(
    request: Request,
    transfer: Transferable[],
    answered: (answer: Answer, death: Error | undefined) => void,
  ): void {
    if (this.#death !== undefined) {
      answered(undefined as Answer, this.#death);
      return;
    }
    this.#waiting.push(answered as (answer: unknown, death: Error | undefined) => void);
    this.worker.postMessage(request, transfer);
  }

  /** Ends the worker; nothing is asked any more. */
  terminate(): void {
    this.worker.onerror = null;
    this.worker.onmessage = null;
    this.worker.onmessageerror = null;
    this.worker.terminate();
  }

  #take(): ((answer: unknown, death: Error | undefined) => void) | undefined {
    const handler = this.#waiting[this.#head];
    if (handler === undefined) return undefined;
    this.#head++;
    if (this.#head === this.#waiting.length || this.#head >= COMPACT_AT) {
      this.#waiting.splice(0, this.#head);
      this.#head = 0;
    }
    return handler;
  }

  #die(cause: Error, died: (cause: Error) => void): void {
    if (this.#death !== undefined) return;
    this.#death = cause;
    for (let handler = this.#take(); handler !== undefined; handler = this.#take()) {
      handler(undefined, cause);
    }
    died(cause);
  }
}
