import { StorageFailure } from "../contract.ts";
import { Fifo } from "../../platform/fifo.ts";
import type { Answer, Read, ReaderRequest, ReadRequest } from "./messages.ts";
import type { WorkerLink } from "./worker_link.ts";

interface QueuedRead {
  readonly read: Read;
  resolve(value: unknown): void;
  reject(failure: StorageFailure): void;
}

export interface ReadPoolOptions {
  readonly filePath: string;
  /** Read workers that may run at once; 0: the writer reads (S112, S116). */
  readonly most: number;
  /** The first of them, opened. */
  readonly reader: WorkerLink<ReaderRequest> | undefined;
  /** Starts and opens another one. */
  another(): Promise<WorkerLink<ReaderRequest>>;
  readonly writer: Pick<WorkerLink<ReadRequest>, "ask">;
  /** Another one could not be started; those that run go on. */
  notStarted(error: unknown): void;
}

/**
 * Hands reads to whichever read worker is free, one at a time each; with none, to the writer, where a
 * read waits for the running commit only (S112, S116). Workers past the first start when a read has to
 * wait: each costs some 10 MB.
 */
export class ReadPool {
  /** Reads that failed since the start (`saguin_storage_errors_total`). */
  failures = 0;
  #waiting = new Fifo<QueuedRead>();
  #idle: WorkerLink<ReaderRequest>[] = [];
  #started = 0;
  #starting = false;
  #paused = false;
  #closed: StorageFailure | undefined;
  #running = 0;
  #onceIdle: (() => void) | undefined;

  constructor(private readonly options: ReadPoolOptions) {
    if (options.reader === undefined) return;
    this.#idle.push(options.reader);
    this.#started = 1;
  }

  /** @throws StorageFailure */
  read<T>(read: Read): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#closed !== undefined) return reject(this.#closed);
      const queued = { read, resolve: resolve as (value: unknown) => void, reject };
      if (this.#started === 0) return this.#ask(this.options.writer, queued, () => {});
      this.#waiting.push(queued);
      this.#next();
    });
  }

  /** Holds new reads back while the log is started again, which waits for those that run. */
  pause(): void {
    this.#paused = true;
  }

  resume(): void {
    this.#paused = false;
    this.#next();
  }

  /** Refuses new reads; resolves when those that run are answered. */
  drain(closed: StorageFailure): Promise<void> {
    this.#closed = closed;
    for (let queued = this.#waiting.shift(); queued; queued = this.#waiting.shift()) {
      queued.reject(closed);
    }
    if (this.#running === 0) return Promise.resolve();
    return new Promise((resolve) => this.#onceIdle = resolve);
  }

  #next(): void {
    while (!this.#paused && this.#idle.length > 0 && this.#waiting.length > 0) {
      const reader = this.#idle.pop()!;
      this.#ask(reader as Pick<WorkerLink<ReadRequest>, "ask">, this.#waiting.shift()!, () => {
        this.#idle.push(reader);
        this.#next();
      });
    }
    if (this.#waiting.length > 0 && this.#idle.length === 0) this.#startAnother();
  }

  #startAnother(): void {
    if (this.#starting || this.#started >= this.options.most) return;
    this.#starting = true;
    this.options.another().then((reader) => {
      this.#starting = false;
      this.#started++;
      this.#idle.push(reader);
      this.#next();
    }, (error) => {
      // Not tried again: what runs serves all.
      if (this.#closed === undefined) this.options.notStarted(error);
    });
  }

  #ask(
    worker: Pick<WorkerLink<ReadRequest>, "ask">,
    { read, resolve, reject }: QueuedRead,
    freed: () => void,
  ): void {
    this.#running++;
    worker.ask<Answer>({ ask: "read", read }, [], (answer, death) => {
      this.#running--;
      if (death === undefined) freed();
      if (death !== undefined || !("value" in answer)) this.failures++;
      if (death !== undefined) {
        const text = `storage ${this.options.filePath}: a read worker ended: ${death.message}`;
        reject(this.#closed ?? new StorageFailure("failed", text));
      } else if ("value" in answer) resolve(answer.value);
      else reject(new StorageFailure(answer.failure.kind, answer.failure.text));
      if (this.#running === 0) this.#onceIdle?.();
    });
  }
}
