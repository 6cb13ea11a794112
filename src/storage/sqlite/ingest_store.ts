import { columnIndex, columnName } from "../../config/ingest_names.ts";
import type { Clock } from "../../platform/clock.ts";
import type {
  IngestAnswer,
  IngestedRow,
  IngestQuery,
  IngestStore,
  IngestTable,
} from "../ingest.ts";
import type { IngestPiece } from "./ingest_reads.ts";
import type { ReadPool } from "./read_pool.ts";
import type { WriteQueue } from "./write_queue.ts";

/** Documents of one answer, in characters: what a query may cost the heap. */
const MOST_CHARACTERS = 4 * 1024 * 1024;

/** How long a query may look for rows before it says how far it came. */
const LONGEST_QUERY_MS = 2_000;

/** How long a piece should take: others that read wait for it, and so does the start of a new log. */
const PIECE_MS = 20;
const FIRST_SCAN = 500;
const LEAST_SCAN = 16;
const MOST_SCAN = 20_000;

const NO_INDEXES: ReadonlyMap<string, string> = new Map();

/** The ingest tables of a sqlite provider as the broker knows them. */
export class SqliteIngest implements IngestStore {
  /** One query at a time: channels are read by the same workers. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(
    readonly tables: readonly IngestTable[],
    private readonly writes: WriteQueue,
    private readonly reads: ReadPool,
    private readonly clock: Pick<Clock, "monotonic">,
  ) {}

  trim(table: number, before: number): Promise<number> {
    return this.writes.write("maintenance", { op: "trimIngested", table, before });
  }

  query(query: IngestQuery): Promise<IngestAnswer> {
    const run = () => this.#run(query);
    const answer = this.#last.then(run, run);
    this.#last = answer;
    return answer;
  }

  async #run(query: IngestQuery): Promise<IngestAnswer> {
    const { clock, reads } = this;
    const { name, index } = this.tables[query.table];
    const began = clock.monotonic();
    const rows: IngestedRow[] = [];
    let indexes: ReadonlyMap<string, string> = new Map(
      index.map((key) => [columnName(key), columnIndex(name, key)]),
    );
    let room = MOST_CHARACTERS;
    let scan = FIRST_SCAN;
    let { before } = query;
    for (;;) {
      const limit = query.limit - rows.length;
      const asked = clock.monotonic();
      const read = { ...query, table: name, before, limit, scan, room, indexes };
      const piece = await reads.read<IngestPiece>({ op: "ingested", read });
      const now = clock.monotonic();
      rows.push(...piece.rows);
      for (const { doc } of piece.rows) room -= doc.length;
      const enough = piece.full || rows.length === query.limit || room <= 0;
      if (piece.next === undefined || enough || now - began >= LONGEST_QUERY_MS) {
        return { rows, next: piece.next };
      }
      before = piece.next;
      indexes = NO_INDEXES;
      const fits = PIECE_MS / Math.max(now - asked, 0.5);
      scan = Math.min(MOST_SCAN, Math.max(LEAST_SCAN, Math.floor(scan * Math.min(fits, 4))));
    }
  }
}
