import { StorageFailure } from "../contract.ts";
import { Fifo } from "./fifo.ts";
import type { Answer, Read, ReaderRequest, ReadRequest } from "./messages.ts";
import type { WorkerLink } from "./worker_link.ts";

interface QueuedRead {
  readonly read: Read;
  resolve(value: unknown): void;
  reject(failure: StorageFailure): void;
}

/**
 * Hands reads to whichever read worker is free, one at a time each; with none, to the writer, where a
 * read waits for the running commit only (S112, S116).
 */
export class ReadPool {
  #waiting = new Fifo<QueuedRead>();
  #idle: WorkerLink<ReaderRequest>[];
  #paused = false;
  #closed: StorageFailure | undefined;
  #running = 0;
  #onceIdle: (() => void) | undefined;

  constructor(
    private readonly filePath: string,
    readers: readonly WorkerLink<ReaderRequest>[],
    private readonly writer: Pick<WorkerLink<ReadRequest>, "ask">,
  ) {
    this.#idle = [...readers];
    this.readers = readers.length;
  }

  private readonly readers: number;

  /** @throws StorageFailure */
  read<T>(read: Read): Promise<T> {
    return new Promise((resolve, reject) => {
      if (this.#closed !== undefined) return reject(this.#closed);
      const queued = { read, resolve: resolve as (value: unknown) => void, reject };
      if (this.readers === 0) return this.#ask(this.writer, queued, () => {});
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
      if (death !== undefined) {
        const text = `storage ${this.filePath}: a read worker ended: ${death.message}`;
        reject(this.#closed ?? new StorageFailure("failed", text));
      } else if ("value" in answer) resolve(answer.value);
      else reject(new StorageFailure(answer.failure.kind, answer.failure.text));
      if (this.#running === 0) this.#onceIdle?.();
    });
  }
}
