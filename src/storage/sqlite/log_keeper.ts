import type { Clock } from "../../platform/clock.ts";
import { errorText, type Log } from "../../platform/log.ts";
import type { Copied } from "./keeper.ts";
import type { Answer, KeeperRequest, Sizes } from "./messages.ts";
import type { WorkerLink } from "./worker_link.ts";

const MIB = 1024 * 1024;

/** Growth of the log after which the keeper copies it into the file. */
const COPY_AFTER_BYTES = 16 * MIB;
/** Size past which the writer starts the log again in a turn of its own. */
const RESET_AFTER_BYTES = 64 * MIB;
/** Growth after a reset that an outside reader prevented, before the next try. */
const RETRY_AFTER_BYTES = 16 * MIB;
/** What may be left for the writer to copy in its turn; more is copied by another pass first. */
const LEFT_FOR_WRITER_BYTES = 4 * MIB;
const MOST_PASSES = 3;
/** Between two copies because of a full file. */
const FULL_AGAIN_MS = 1000;

export interface LogKeeperOptions {
  readonly provider: string;
  readonly pageSize: number;
  /** The worker that copies, started and opened when it is first needed. */
  keeper(): Promise<WorkerLink<KeeperRequest>>;
  readonly clock: Clock;
  readonly log: Log;
  /** Gives the writer a turn to start the log again; reads are held back meanwhile. */
  resetLog(answered: (answer: Answer | undefined) => void): void;
}

/**
 * Decides when the write-ahead log is copied and started again (DESIGN 2). Light load: the keeper's
 * copy catches up and the writer starts again by itself. Under load it never quite does, so past a
 * bound the writer gets one turn for the little that is left.
 */
export class LogKeeper {
  #copiedAtFrames = 0;
  #resetAfterFrames: number;
  #notFullBefore = -Infinity;
  #failing = false;
  #busy = false;
  #closed = false;

  constructor(private readonly options: LogKeeperOptions) {
    this.#resetAfterFrames = RESET_AFTER_BYTES / options.pageSize;
  }

  looked({ logFrames }: Sizes): void {
    if (logFrames < this.#copiedAtFrames) this.#started();
    if (this.#busy || this.#closed) return;
    if (logFrames >= this.#resetAfterFrames) this.#copy(1, true);
    else if (logFrames - this.#copiedAtFrames >= COPY_AFTER_BYTES / this.options.pageSize) {
      this.#copy(1, false);
    }
  }

  /**
   * The file took no more: where that is the disk, copying the log gives its blocks back to be written
   * over. Tried again after a while at the earliest, since at `max_bytes` it helps nothing.
   */
  full(): void {
    const now = this.options.clock.monotonic();
    if (this.#busy || this.#closed || now < this.#notFullBefore) return;
    this.#notFullBefore = now + FULL_AGAIN_MS;
    this.#copy(MOST_PASSES, true);
  }

  close(): void {
    this.#closed = true;
  }

  /** The log began again. */
  #started(): void {
    this.#copiedAtFrames = 0;
    this.#resetAfterFrames = RESET_AFTER_BYTES / this.options.pageSize;
  }

  #copy(pass: number, thenReset: boolean): void {
    this.#busy = true;
    this.options.keeper().then(
      (keeper) =>
        keeper.ask<Answer>({ ask: "checkpoint" }, [], (answer, death) => {
          this.#busy = false;
          if (death !== undefined || this.#closed) return;
          if ("failure" in answer) this.#notCopied(answer.failure.text);
          else this.#copied(answer.value as Copied, pass, thenReset);
        }),
      (error) => {
        this.#busy = false;
        if (!this.#closed) this.#notCopied(errorText(error));
      },
    );
  }

  /** Said once until a copy succeeds. */
  #notCopied(why: string): void {
    if (this.#failing) return;
    this.#failing = true;
    this.options.log.warn("cannot copy the log of a storage provider into its file", {
      provider: this.options.provider,
      error: why,
    });
  }

  #copied({ log, copied }: Copied, pass: number, thenReset: boolean): void {
    this.#failing = false;
    this.#copiedAtFrames = copied;
    if (!thenReset) return;
    const left = (log - copied) * this.options.pageSize;
    if (left > LEFT_FOR_WRITER_BYTES && pass < MOST_PASSES) this.#copy(pass + 1, true);
    else this.#reset();
  }

  #reset(): void {
    this.#busy = true;
    this.options.resetLog((answer) => {
      this.#busy = false;
      if (answer === undefined) return;
      const outcome = "value" in answer ? answer.value as Sizes & { reset: boolean } : undefined;
      if (outcome?.reset) return this.#started();
      const frames = outcome?.logFrames ?? this.#resetAfterFrames;
      this.#resetAfterFrames = frames + RETRY_AFTER_BYTES / this.options.pageSize;
      if ("failure" in answer) this.#notCopied(answer.failure.text);
    });
  }
}
