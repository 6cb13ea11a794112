import type { IngestAnswer, IngestQuery, IngestStore, IngestTable } from "../ingest.ts";
import type { ReadPool } from "./read_pool.ts";
import type { WriteQueue } from "./write_queue.ts";

/** The ingest tables of a sqlite provider as the broker knows them. */
export class SqliteIngest implements IngestStore {
  /** One query at a time: nobody can say what it costs, and channels are read by the same workers. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    readonly tables: readonly IngestTable[],
    private readonly writes: WriteQueue,
    private readonly reads: ReadPool,
  ) {}

  trim(table: number, before: number): Promise<boolean> {
    return this.writes.write("maintenance", { op: "trimIngested", table, before });
  }

  query({ table, conditions, limit }: IngestQuery): Promise<IngestAnswer> {
    const read = { table: this.tables[table].name, conditions, limit };
    const run = () => this.reads.read<IngestAnswer>({ op: "ingested", read });
    const answer = this.#last.then(run, run);
    this.#last = answer;
    return answer;
  }
}
