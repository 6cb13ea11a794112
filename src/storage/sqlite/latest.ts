import type { Nanoseconds } from "../../platform/clock.ts";
import type { LatestStore, Removed, Scan, TopicScan } from "../contract.ts";
import type { Offset, StoredRecord } from "../record.ts";
import type { TopicsAnswer, ValuesAnswer } from "./messages.ts";
import type { PackedRecords } from "./packing.ts";
import { SqliteRecordStore } from "./record_store.ts";

/** Values one removal takes in one transaction. */
const VALUES_PER_REMOVAL = 500;

/** A latest channel, or the retained store, in a sqlite file. */
export class SqliteLatest extends SqliteRecordStore implements LatestStore {
  readonly kind = "latest";

  size(): number {
    return this.state.depth;
  }

  async get(topic: string): Promise<StoredRecord | undefined> {
    const found = await this.parts.reads.read<PackedRecords>({
      op: "value",
      store: this.state.index,
      topic,
    });
    return this.unpack(found)[0];
  }

  scan(filter: string, from: Offset, deletions: boolean): Scan {
    let after: string | undefined = "";
    const page = async (max: number): Promise<readonly StoredRecord[]> => {
      // A pass that found nothing among the rows it looked at is followed by the next one.
      while (after !== undefined) {
        const answer: ValuesAnswer = await this.parts.reads.read<ValuesAnswer>({
          op: "values",
          store: this.state.index,
          filter,
          from,
          deletions,
          after,
          max,
        });
        after = answer.after;
        if (answer.records.rows > 0) return this.unpack(answer.records);
      }
      return [];
    };
    return { next: page };
  }

  topics(outside: readonly string[]): TopicScan {
    let after: string | undefined = "";
    const page = async (max: number): Promise<readonly string[]> => {
      while (after !== undefined) {
        const answer: TopicsAnswer = await this.parts.reads.read<TopicsAnswer>({
          op: "topics",
          store: this.state.index,
          outside,
          after,
          max,
        });
        after = answer.after;
        if (answer.topics.length > 0) return answer.topics;
      }
      return [];
    };
    return { next: page };
  }

  /** Looks on a read worker, and writes only what is to go, if it is still the value seen. */
  async trim(valuesBefore: Nanoseconds, deletionsBefore: Nanoseconds): Promise<Removed> {
    let removed = 0;
    let freed = 0;
    for (let after = "";;) {
      const old = await this.parts.reads.read<readonly (readonly [string, Offset])[]>({
        op: "oldValues",
        store: this.state.index,
        valuesBefore,
        deletionsBefore,
        after,
      });
      if (old.length === 0) return { removed, freed };
      const went = await this.removeMany(old.map(([topic, offset]) => ({ topic, offset })));
      removed += went.removed;
      freed += went.freed;
      after = old[old.length - 1][0];
    }
  }

  async removeMany(
    values: readonly { topic: string; offset: Offset }[],
  ): Promise<Removed> {
    let removed = 0;
    let freed = 0;
    for (let at = 0; at < values.length; at += VALUES_PER_REMOVAL) {
      const went = await this.parts.writes.write<Removed>("maintenance", {
        op: "removeValues",
        store: this.state.index,
        values: values.slice(at, at + VALUES_PER_REMOVAL),
      });
      removed += went.removed;
      freed += went.freed;
    }
    return { removed, freed };
  }
}
