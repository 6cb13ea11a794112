import type { Nanoseconds } from "../../platform/clock.ts";
import { type AppendStore, type Job, type JobSketch, StorageFailure } from "../contract.ts";
import { FirstFew } from "../first_few.ts";
import type { JobRows } from "../queue_leases.ts";
import {
  type Message,
  type Offset,
  ownedMessage,
  recordSize,
  type StoredRecord,
} from "../record.ts";
import { MemoryAppendStore } from "./append_store.ts";
import { MemoryStore, overBound } from "./memory_store.ts";
import { RecordList } from "./record_list.ts";
import type { ChannelState } from "./state.ts";
import { ENTRIES_A_TURN, nextTurn } from "./turns.ts";

/** The jobs of a queue, kept in process. Who holds them is the business of `QueueLeases`. */
export class MemoryJobRows extends MemoryStore implements JobRows {
  #jobs = new RecordList<Job>();
  #bytes = 0;
  #maxBytes: number | undefined;

  bytes(): number {
    return this.#bytes;
  }

  depth(): number {
    return this.#jobs.length;
  }

  setMaxBytes(bytes: number | undefined): void {
    this.#maxBytes = bytes;
  }

  refusal(bytes: number, pending: number): StorageFailure | undefined {
    if (this.#maxBytes === undefined || this.#bytes + pending + bytes <= this.#maxBytes) {
      return undefined;
    }
    return overBound(this.channel, this.#maxBytes);
  }

  growth(_message: Message, bytes: number): number {
    return bytes;
  }

  put(message: Message, bytes: number): StoredRecord {
    const job = {
      offset: this.nextOffset++,
      message: ownedMessage(message),
      attempts: 0,
      firstDelivered: 0n,
      lastDelivered: 0n,
    };
    this.#jobs.push(job);
    this.#bytes += bytes;
    return job;
  }

  read(from: Offset, max: number, maxBytes: number): Promise<readonly Job[]> {
    const jobs: Job[] = [];
    let bytes = 0;
    this.#jobs.walk(from, (job) => {
      bytes += recordSize(job.message);
      if (bytes > maxBytes && jobs.length > 0) return false;
      jobs.push(job);
      return jobs.length < max;
    });
    return Promise.resolve(jobs);
  }

  async overdue(
    before: Nanoseconds,
    spentAttempts: number,
    from: Offset,
    max: number,
  ): Promise<readonly Job[]> {
    const jobs: Job[] = [];
    for (;;) {
      let looked = 0;
      this.#jobs.walk(from, (job) => {
        from = job.offset + 1;
        const { timestamp } = job.message;
        if ((timestamp !== 0n && timestamp < before) || job.attempts >= spentAttempts) {
          jobs.push(job);
        }
        return jobs.length < max && ++looked < ENTRIES_A_TURN;
      });
      if (jobs.length >= max || looked < ENTRIES_A_TURN) return jobs;
      await nextTurn();
    }
  }

  async worst(max: number): Promise<readonly JobSketch[]> {
    const worst = new FirstFew<Job>(max, (a, b) => b.attempts - a.attempts || a.offset - b.offset);
    for (let from = 0;;) {
      let looked = 0;
      this.#jobs.walk(from, (job) => {
        from = job.offset + 1;
        worst.add(job);
        return ++looked < ENTRIES_A_TURN;
      });
      if (looked < ENTRIES_A_TURN) break;
      await nextTurn();
    }
    return worst.values().map(({ offset, message, attempts, lastDelivered }) => ({
      offset,
      topic: message.topic,
      storedAt: message.timestamp,
      attempts,
      lastDelivered,
    }));
  }

  recordAttempt(offset: Offset, attempts: number, at: Nanoseconds): Promise<void> {
    const job = this.#jobs.get(offset);
    if (job !== undefined) {
      const firstDelivered = job.firstDelivered === 0n ? at : job.firstDelivered;
      this.#jobs.replace({ ...job, attempts, firstDelivered, lastDelivered: at });
    }
    return Promise.resolve();
  }

  remove(offset: Offset): Promise<void> {
    const job = this.#jobs.remove(offset);
    if (job !== undefined) {
      const bytes = recordSize(job.message);
      this.#bytes -= bytes;
      this.count.adjust(-bytes);
    }
    return Promise.resolve();
  }

  /** Queue first, then log, in one turn (S23). */
  deadLetter(
    offset: Offset,
    letter: Message,
    into: AppendStore,
  ): Promise<StoredRecord | undefined> {
    if (!(into instanceof MemoryAppendStore) || into.count !== this.count) {
      const message = `${into.channel} is not kept by the provider of queue ${this.channel}`;
      return Promise.reject(new StorageFailure("failed", message));
    }
    const job = this.#jobs.remove(offset);
    if (job === undefined) return Promise.resolve(undefined);
    const freed = recordSize(job.message);
    const bytes = recordSize(letter);
    this.#bytes -= freed;
    this.count.adjust(bytes - freed);
    return Promise.resolve(into.put(letter, bytes));
  }

  copy(): ChannelState {
    return {
      name: this.channel,
      kind: "queue",
      next: this.nextOffset,
      floor: this.floorOffset,
      records: [],
      jobs: this.#jobs.toArray(),
      positions: [],
      holds: this.holds(),
    };
  }

  override restore(state: ChannelState): void {
    super.restore(state);
    let bytes = 0;
    for (const job of state.jobs) {
      this.#jobs.push({ ...job, message: ownedMessage(job.message) });
      bytes += recordSize(job.message);
    }
    this.#bytes = bytes;
    this.count.adjust(bytes);
  }
}
