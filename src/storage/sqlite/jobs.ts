import type { Nanoseconds } from "../../platform/clock.ts";
import type { AppendStore, Job, JobSketch } from "../contract.ts";
import type { JobRows } from "../queue_leases.ts";
import { type Message, type Offset, recordSize, type StoredRecord } from "../record.ts";
import { SqliteAppend } from "./append.ts";
import type { JobsAnswer } from "./messages.ts";
import { Packer } from "./packing.ts";
import { SqliteRecordStore } from "./record_store.ts";

/** The stored half of a queue in a sqlite file (S32); who holds a job is for `QueueLeases`. */
export class SqliteJobs extends SqliteRecordStore implements JobRows {
  depth(): number {
    return this.state.depth;
  }

  async read(from: Offset, max: number, maxBytes: number): Promise<readonly Job[]> {
    const { index: store } = this.state;
    return this.#jobs(await this.parts.reads.read({ op: "jobs", store, from, max, maxBytes }));
  }

  async overdue(
    before: Nanoseconds,
    spentAttempts: number,
    from: Offset,
    max: number,
  ): Promise<readonly Job[]> {
    const { index: store } = this.state;
    return this.#jobs(
      await this.parts.reads.read({ op: "overdueJobs", store, before, spentAttempts, from, max }),
    );
  }

  worst(max: number): Promise<readonly JobSketch[]> {
    return this.parts.reads.read({ op: "worstJobs", store: this.state.index, max });
  }

  async recordAttempt(offset: Offset, attempts: number, at: Nanoseconds): Promise<void> {
    const { index: store } = this.state;
    await this.parts.writes.write("relief", { op: "recordAttempt", store, offset, attempts, at });
  }

  async remove(offset: Offset): Promise<void> {
    await this.parts.writes.write("relief", { op: "removeJob", store: this.state.index, offset });
  }

  async deadLetter(
    offset: Offset,
    letter: Message,
    into: AppendStore,
  ): Promise<StoredRecord | undefined> {
    if (!(into instanceof SqliteAppend)) {
      throw new TypeError(`dead letters of "${this.channel}" go to a channel of the same file`);
    }
    const packer = new Packer();
    packer.add(letter, 0, into.state.index, 0, recordSize(letter), 0n);
    const taken = await this.parts.writes.write<Offset | undefined>("relief", {
      op: "deadLetter",
      store: this.state.index,
      offset,
      letter: packer.finish(),
    });
    return taken === undefined ? undefined : { offset: taken, message: letter };
  }

  #jobs(answer: JobsAnswer): Job[] {
    return this.unpack(answer.records).map((record, i) => ({
      ...record,
      attempts: answer.attempts[i],
      firstDelivered: answer.firstDelivered[i],
      lastDelivered: answer.lastDelivered[i],
    }));
  }
}
