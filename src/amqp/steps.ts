import { Fifo } from "../platform/fifo.ts";

/** A publish of a channel: begun as soon as only publishes are before it, ended in its turn. */
export interface PublishStep {
  readonly kind: "publish";
  /** Its outcome is known; `Steps.proceed` is called when that changes. */
  readonly ready: boolean;
  start(): void;
  finish(): void;
}

/** Anything else: done when everything before it is. A promise keeps what comes behind it waiting. */
export interface MethodStep {
  readonly kind: "method";
  run(): void | Promise<void>;
}

/**
 * The work of one channel in its order (A24, A45): a publish waits for its store while the next one is
 * read and begun, and a method waits for the publishes before it.
 *
 * ```
 * publish publish publish  method  publish ...
 * '-- begun: #started --'  '- waits for them; what is behind it is not begun
 * ```
 */
export class Steps {
  readonly #waiting = new Fifo<PublishStep | MethodStep>();
  #started = 0;
  #running = false;
  #proceeding = false;
  #failed = false;

  /** @param failed hears of a step that threw; what is behind it does not run */
  constructor(private readonly failed: (error: unknown) => void) {}

  get length(): number {
    return this.#waiting.length + (this.#running ? 1 : 0);
  }

  /** Nothing waits: what comes may be done without being added. */
  get idle(): boolean {
    return this.#waiting.length === 0 && !this.#running;
  }

  /** Adds a publish that was begun already, while `idle`. */
  addStarted(step: PublishStep): void {
    this.#waiting.push(step);
    this.#started++;
  }

  add(step: PublishStep | MethodStep): void {
    this.#waiting.push(step);
    this.proceed();
  }

  /** Begins and ends what can be. */
  proceed(): void {
    if (this.#proceeding || this.#running || this.#failed) return;
    this.#proceeding = true;
    try {
      while (!this.#running && this.#proceedOnce());
    } catch (error) {
      this.#fail(error);
    } finally {
      this.#proceeding = false;
    }
  }

  #proceedOnce(): boolean {
    const waiting = this.#waiting;
    for (let next = waiting.at(this.#started); next?.kind === "publish";) {
      this.#started++;
      next.start();
      next = waiting.at(this.#started);
    }
    const first = waiting.peek();
    if (first === undefined) return false;
    if (first.kind === "publish") {
      if (!first.ready) return false;
      waiting.shift();
      this.#started--;
      first.finish();
      return true;
    }
    waiting.shift();
    const work = first.run();
    if (work !== undefined) this.#wait(work);
    return true;
  }

  #wait(work: Promise<void>): void {
    this.#running = true;
    work.then(() => {
      this.#running = false;
      this.proceed();
    }, (error) => this.#fail(error));
  }

  #fail(error: unknown): void {
    this.#failed = true;
    this.failed(error);
  }
}
