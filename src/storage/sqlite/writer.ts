import type { DatabaseSync } from "node:sqlite";
import { BROADCAST_LOG } from "../contract.ts";
import { AmqpRows } from "./amqp_rows.ts";
import { createAmqpTables } from "./amqp_schema.ts";
import {
  BUSY_TIMEOUT_MS,
  cannotWrite,
  failureOf,
  isFull,
  pragma,
  Transactions,
} from "./connection.ts";
import {
  type Answer,
  type Failure,
  FIRST_OF_ENTRY,
  type Opened,
  type OpenWriter,
  type Outcome,
  type PublishAnswer,
  type PublishGroup,
  type Sizes,
  type Write,
  type WriteAnswer,
  type WriteGroup,
  type WriterRequest,
} from "./messages.ts";
import { IngestRows } from "./ingest_rows.ts";
import { createIngestTables } from "./ingest_schema.ts";
import { LogRoom } from "./log_room.ts";
import { openStore } from "./opening.ts";
import { type Pack, Unpacker } from "./packing.ts";
import { PublishRows } from "./publish_rows.ts";
import { Reads } from "./reads.ts";
import { Refused } from "./refused.ts";
import { mayUseReserve, Writes } from "./writes.ts";
import { countersOf, type StoredChannel, StoredChannels } from "./stored_channels.ts";

/** A session transaction commits what it has after this long, though nobody else waits (S130). */
const LONGEST_SESSION_TURN_MS = 5;

/**
 * A publish that waits lets a session transaction run this long. Giving way after every single write made
 * a transaction of each of them where publishes never pause, and the publishes wait behind all of those.
 */
const SHORTEST_SESSION_TURN_MS = 1;

/** What the log is asked to give for writes other than publishes, which are small. */
const ROOM_FOR_WRITES = 64 * 1024;

/** How long the log's start waits for an outside program that reads it, while nobody writes. */
const RESET_TIMEOUT_MS = 50;

/** Transactions between two looks at the sizes of file and log. */
const TRANSACTIONS_PER_LOOK = 16;

/**
 * The one thread that writes a sqlite provider's file (S110). Does one request after another, each
 * to its end; what comes next is decided on the event loop.
 */
export class Writer {
  #filePath = "";
  #database!: DatabaseSync;
  #transactions!: Transactions;
  #channels!: StoredChannels;
  #rows!: PublishRows;
  #writes!: Writes;
  #reads!: Reads;
  #publishWaits!: Int32Array;
  #logRoom!: LogRoom;
  #untilLook = 0;

  /** `now`: milliseconds of a clock that never goes back. */
  constructor(private readonly now: () => number = () => performance.now()) {}

  /** @throws whatever a broken request or a transaction that cannot be ended throws: fatal (S119) */
  handle(request: WriterRequest): PublishAnswer | WriteAnswer | Answer {
    switch (request.ask) {
      case "publish":
        return this.#publish(request);
      case "write":
        return this.#write(request);
      case "read":
        return this.#attempt(() => this.#reads.read(request.read));
      case "resetLog":
        return this.#attempt(() => this.#resetLog());
      case "open":
        this.#filePath = request.filePath;
        return this.#attempt(() => this.#open(request));
      case "close":
        return this.#attempt(() => this.#close());
      default:
        throw new Error(`unknown request ${JSON.stringify(request)}`);
    }
  }

  #attempt(run: () => unknown): Answer {
    try {
      return { value: run() };
    } catch (error) {
      return { failure: failureOf(error, this.#filePath) };
    }
  }

  #open(request: OpenWriter): Opened {
    const { database, channels, opened } = openStore(request);
    this.#database = database;
    this.#channels = channels;
    this.#transactions = new Transactions(database, opened.ceiling);
    this.#rows = new PublishRows(database, channels);
    if (request.amqp) {
      createAmqpTables(database);
      this.#rows.amqp = new AmqpRows(database);
    }
    if (request.ingest !== undefined && request.ingest.length > 0) {
      createIngestTables(database, request.ingest);
      this.#rows.ingest = new IngestRows(database, request.ingest);
    }
    this.#writes = new Writes(database, channels, this.#rows);
    this.#logRoom = new LogRoom(database, channels);
    this.#reads = new Reads(database, request.stores.map((store) => store.channel));
    this.#publishWaits = new Int32Array(request.publishWaits);
    return opened;
  }

  // ------------------------------------------------------------------------------ publish groups

  #publish({ pack }: PublishGroup): PublishAnswer {
    const rows = new Unpacker(pack);
    const touched = new Set<StoredChannel>();
    for (let room = pack.buffer.byteLength;; room *= 2) {
      const offsets = new Float64Array(rows.rows);
      rows.rewind();
      try {
        this.#transactions.begin();
        for (let i = 0; rows.next(); i++) {
          offsets[i] = this.#rows.write(rows, rows.kind & ~FIRST_OF_ENTRY);
        }
        this.#rows.flush();
        this.#commit(touched);
        return { offsets, counters: countersOf(touched), sizes: this.#look() };
      } catch (error) {
        this.#rollback();
        if (isFull(error) && this.#makeRoom(room, touched)) continue;
        const failure = failureOf(error, this.#filePath);
        if (!cannotWrite(error)) return this.#publishOneByOne(pack, failure);
        return { failure, counters: countersOf(touched) };
      }
    }
  }

  /** One row that SQLite does not take must not fail its neighbours: each entry answers for itself. */
  #publishOneByOne(pack: Pack, failure: Failure): PublishAnswer {
    const rows = new Unpacker(pack);
    const entries: number[] = [];
    for (let i = 0; rows.next(); i++) if (rows.kind & FIRST_OF_ENTRY) entries.push(i);
    if (entries.length <= 1) return { failure, counters: [] };
    const offsets = new Float64Array(rows.rows);
    const failures = new Map<number, Failure>();
    const touched = new Set<StoredChannel>();
    rows.rewind();
    for (let entry = 0; entry < entries.length; entry++) {
      const first = entries[entry];
      const end = entries[entry + 1] ?? rows.rows;
      let taken = first;
      try {
        this.#transactions.begin();
        while (taken < end) {
          rows.next();
          offsets[taken++] = this.#rows.write(rows, rows.kind & ~FIRST_OF_ENTRY);
        }
        this.#rows.flush();
        this.#commit(touched);
      } catch (error) {
        this.#rollback();
        failures.set(first, failureOf(error, this.#filePath));
        for (; taken < end; taken++) rows.next();
        offsets.fill(0, first, end);
      }
    }
    return { offsets, failures, counters: countersOf(touched) };
  }

  /** Takes room from the broadcast log (S109). False when it has none to give. */
  #makeRoom(bytes: number, touched: Set<StoredChannel>): boolean {
    const log = this.#channels.named(BROADCAST_LOG);
    const offsets = this.#logRoom.candidates(bytes);
    if (log === undefined || offsets.length === 0) return false;
    try {
      this.#transactions.begin();
      this.#writes.removeRecords(log, offsets);
      this.#commit(touched);
      return true;
    } catch {
      // The write that needed the room answers with its own error.
      this.#rollback();
      return false;
    }
  }

  #commit(touched: Set<StoredChannel>): void {
    this.#channels.write();
    this.#transactions.commit();
    this.#channels.keep(touched);
  }

  #rollback(): void {
    this.#rows.drop();
    this.#channels.revert();
    this.#transactions.rollback();
  }

  // -------------------------------------------------------------------------------- other writes

  /**
   * One shared transaction. A write that the file refuses ends it for all: they run again without
   * that one, together, once; then each of those left alone (S138).
   */
  #write({ writes, yields }: WriteGroup): WriteAnswer {
    const outcomes: Outcome[] = [];
    const touched = new Set<StoredChannel>();
    try {
      this.#transactions.begin();
    } catch (error) {
      // Nobody's write: an outside program holds the file, or it cannot be written at all.
      const failure = failureOf(error, this.#filePath);
      return { outcomes: writes.map(() => ({ failure })), counters: [] };
    }
    let failed = this.#together(writes, yields, outcomes, touched);
    if (failed !== undefined && isFull(failed.error) && this.#makeRoom(ROOM_FOR_WRITES, touched)) {
      failed = this.#runAgain(writes, outcomes, touched);
    }
    if (failed !== undefined) {
      const { place } = failed;
      const others = writes.filter((_, i) => i !== place);
      const again: Outcome[] = [];
      const shared = others.length > 0 && this.#runAgain(others, again, touched) === undefined;
      for (let i = 0; i < writes.length; i++) {
        outcomes[i] = shared && i !== place
          ? again[i < place ? i : i - 1]
          : this.#alone(writes[i], touched);
      }
    }
    return { outcomes, counters: countersOf(touched), sizes: this.#look() };
  }

  /**
   * Runs writes in the transaction that was begun; the one that ended it and why, undefined when it
   * committed.
   */
  #together(
    writes: readonly Write[],
    yields: boolean,
    outcomes: Outcome[],
    touched: Set<StoredChannel>,
  ): { readonly place: number; readonly error: unknown } | undefined {
    const began = yields ? this.now() : 0;
    let running = 0;
    try {
      for (; running < writes.length; running++) {
        if (running > 0 && yields && this.#givesWay(began)) break;
        outcomes.push(this.#decide(writes[running]));
      }
      this.#commit(touched);
      return undefined;
    } catch (error) {
      this.#rollback();
      outcomes.length = 0;
      return { place: Math.min(running, writes.length - 1), error };
    }
  }

  /** Another shared attempt, which gives way to nobody. */
  #runAgain(
    writes: readonly Write[],
    outcomes: Outcome[],
    touched: Set<StoredChannel>,
  ): { readonly place: number; readonly error: unknown } | undefined {
    try {
      this.#transactions.begin();
    } catch (error) {
      return { place: 0, error };
    }
    return this.#together(writes, false, outcomes, touched);
  }

  #alone(write: Write, touched: Set<StoredChannel>): Outcome {
    try {
      this.#transactions.begin();
      const outcome = this.#decide(write);
      this.#commit(touched);
      return outcome;
    } catch (error) {
      this.#rollback();
      return { failure: failureOf(error, this.#filePath) };
    }
  }

  /** Runs a write. A refusal is decided by reads, before anything of it is written (S137). */
  #decide(write: Write): Outcome {
    this.#transactions.useReserve(mayUseReserve(write));
    try {
      return { value: this.#writes.run(write) };
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      const text = `storage ${this.#filePath}: ${error.message}`;
      return { failure: { kind: error.kind, text, decided: true } };
    }
  }

  #givesWay(began: number): boolean {
    const ran = this.now() - began;
    return ran >= LONGEST_SESSION_TURN_MS ||
      ran >= SHORTEST_SESSION_TURN_MS && Atomics.load(this.#publishWaits, 0) !== 0;
  }

  // ------------------------------------------------------------------------------- file and log

  #look(): Sizes | undefined {
    if (--this.#untilLook > 0) return undefined;
    this.#untilLook = TRANSACTIONS_PER_LOOK;
    return this.#sizes();
  }

  #sizes(): Sizes {
    return {
      pages: Number(pragma(this.#database, "page_count").page_count),
      logFrames: Number(pragma(this.#database, "wal_checkpoint(NOOP)").log),
    };
  }

  /** What the keeper left is copied, and the next commit writes the log from its beginning. */
  #resetLog(): Sizes & { readonly reset: boolean } {
    pragma(this.#database, `busy_timeout=${RESET_TIMEOUT_MS}`);
    const { busy } = pragma(this.#database, "wal_checkpoint(RESTART)");
    pragma(this.#database, `busy_timeout=${BUSY_TIMEOUT_MS}`);
    return { ...this.#sizes(), reset: busy === 0 };
  }

  /** True when the main file alone is the whole database now (S147, S148). */
  #close(): boolean {
    try {
      return pragma(this.#database, "wal_checkpoint(TRUNCATE)").busy === 0;
    } finally {
      this.#database.close();
    }
  }
}
