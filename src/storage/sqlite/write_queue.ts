import type { PublishCommit } from "../../config/configuration.ts";
import type { Timer, Timers } from "../../platform/timers.ts";
import { type ClosedBy, type PublishEntry, StorageFailure, type Urgency } from "../contract.ts";
import { applyCounters, type ChannelState } from "./channel_state.ts";
import { Fifo } from "../../platform/fifo.ts";
import type {
  Answer,
  Failure,
  Outcome,
  PublishAnswer,
  Sizes,
  Write,
  WriteAnswer,
  WriterRequest,
} from "./messages.ts";
import { Outcomes } from "./outcomes.ts";
import { Packer } from "./packing.ts";
import { PublishGroup } from "./publish_group.ts";
import { type QueuedWrite, SessionTurns } from "./session_turns.ts";
import type { WorkerLink } from "./worker_link.ts";

/** Entries of one transaction where `publish_commit_max_records` says nothing (S121). */
const ENTRIES_PER_GROUP = 256;
/** Bytes of records after which a group is closed: what one group may copy. */
const BYTES_PER_GROUP = 8 * 1024 * 1024;
/** Writes that relieve, or releases, of one transaction. */
const RELIEFS_PER_GROUP = 64;

/** Bounds on what waits (DESIGN 2): past either, publishers are not read; at half they are again. */
export const MOST_WAITING_ENTRIES = 16_384;
export const MOST_WAITING_BYTES = 32 * 1024 * 1024;

/** Where a write stands that is no publish: sessions by urgency, the rest in publish turns (S139). */
export type WriteClass = Urgency | "release" | "relief" | "maintenance";

export interface WriteQueueOptions {
  readonly filePath: string;
  readonly writer: WorkerLink<WriterRequest>;
  readonly states: readonly ChannelState[];
  readonly publishCommit: PublishCommit;
  /** Shared with the writer: not 0 while a publish turn waits (S130). */
  readonly publishWaits: Int32Array;
  readonly timers: Timers;
  /** A transaction has committed; runs in the turn of its answer, before anybody hears of it. */
  committed(): void;
  /** Calls back once everything committed so far may be answered; undefined: at once. */
  readonly answerable: ((then: (failure: StorageFailure | undefined) => void) => void) | undefined;
  looked(sizes: Sizes): void;
  /** The file did not take a transaction; once for each of them. */
  failed(failure: Failure): void;
  /** A `settled` threw. */
  thrown(error: unknown): void;
}

type PublishTurn = "release" | "publishes" | "ungrouped";

/**
 * What a provider's writer does next. Everything here runs on the event loop; the writer gets one
 * request at a time, whole, and what arrives while it commits is the next group.
 *
 * ```
 * submit ----> publishes --+
 * write  ----> releases  --+--> publish turn --+
 *              ungrouped --+                   +--> writer (turns alternate, S129)
 *              sessions -------> session turn -+
 * ```
 */
export class WriteQueue {
  #publishes = new Fifo<PublishEntry>();
  #releases = new Fifo<QueuedWrite>();
  #ungrouped = new Fifo<QueuedWrite & { readonly alone: boolean }>();
  readonly sessions = new SessionTurns();

  #running = false;
  #pumpIsDue = false;
  #lastTurn: "publish" | "session" = "session";
  #releasesRanLast = false;
  #lastButReleases: PublishTurn = "ungrouped";
  #resets: ((answer: Answer | undefined) => void)[] = [];
  #packer = new Packer();
  #closed: StorageFailure | undefined;
  /** Why nothing new is taken for the time being. */
  #refusing: StorageFailure | undefined;
  #onceIdle: (() => void) | undefined;

  /** Set while an interval batch is open; `#intervalIsOver` once it may commit unfilled. */
  #intervalTimer: Timer | undefined;
  #intervalIsOver = false;

  waitingEntries = 0;
  waitingBytes = 0;
  commits = 0;
  entries = 0;
  /** Publish transactions by what closed them, and the entries they stored. */
  readonly publishCommits: Record<ClosedBy, number> = {
    records: 0,
    interval: 0,
    commit: 0,
    unbatched: 0,
  };
  publishRecords = 0;
  accepting = true;
  #onceAccepting: (() => void)[] = [];
  #groupsUnanswered = 0;
  /** Publish groups and releases, which are told in the order of their commits. */
  readonly #outcomes = new Outcomes(() => {
    if (this.#onceIdle !== undefined) this.#pumpSoon();
  });
  readonly #heard = (entry: PublishEntry) => this.#settled(1, entry.bytes);

  constructor(private readonly options: WriteQueueOptions) {}

  /** Most entries of one publish transaction; 0 where each has its own. */
  get publishMost(): number {
    const { publishCommit } = this.options;
    if (publishCommit.kind === "each") return 0;
    return publishCommit.kind === "interval" ? publishCommit.maxRecords : ENTRIES_PER_GROUP;
  }

  submit(entry: PublishEntry): void {
    const refusal = this.#closed ?? this.#refusing;
    if (refusal !== undefined) return entry.settled(refusal);
    this.#publishes.push(entry);
    this.waitingEntries++;
    this.waitingBytes += entry.bytes;
    if (this.waitingEntries >= MOST_WAITING_ENTRIES || this.waitingBytes >= MOST_WAITING_BYTES) {
      this.accepting = false;
    }
    this.#signal();
    this.#pumpSoon();
  }

  /**
   * Queues a write and answers with what it came to. `heard` is told first, in the turn of the writer's
   * answer; what it throws is what the write came to.
   * @throws StorageFailure
   */
  write<T>(
    place: WriteClass,
    write: Write,
    clientId?: string,
    heard?: (value: T) => void,
  ): Promise<T> {
    return new Promise((resolve, reject) => {
      const refusal = this.#closed ?? this.#refusing;
      if (refusal !== undefined) return reject(refusal);
      const answered = (outcome: Outcome | undefined) => {
        if (outcome === undefined) reject(this.#closed);
        else if ("value" in outcome) {
          try {
            heard?.(outcome.value as T);
            resolve(outcome.value as T);
          } catch (error) {
            reject(error);
          }
        } else reject(new StorageFailure(outcome.failure.kind, outcome.failure.text));
      };
      const queued = { write, clientId, answered, alone: place === "maintenance" };
      if (place === "release") this.#releases.push(queued);
      else if (place === "relief" || place === "maintenance") this.#ungrouped.push(queued);
      else this.sessions.push(queued, place);
      this.#signal();
      this.#pumpSoon();
    });
  }

  /** Asks for the writer's next turn to start the log again from its beginning. */
  resetLog(answered: (answer: Answer | undefined) => void): void {
    if (this.#closed !== undefined) return answered(undefined);
    this.#resets.push(answered);
    this.#pumpSoon();
  }

  onceAccepting(resume: () => void): void {
    if (this.accepting) queueMicrotask(resume);
    else this.#onceAccepting.push(resume);
  }

  /** Refuses new work, and resolves when all that is queued has been answered. */
  drain(closed: StorageFailure): Promise<void> {
    this.#closed = closed;
    this.#intervalIsOver = true;
    return new Promise((resolve) => {
      this.#onceIdle = resolve;
      this.#pumpSoon();
    });
  }

  /** Nothing that is written from now on is kept, until this is called with undefined. */
  refuse(failure: StorageFailure | undefined): void {
    this.#refusing = failure;
    if (failure === undefined) return;
    this.#dismiss(failure);
    this.#signal();
  }

  /** The writer is gone: nothing that waits was kept (S119). */
  fail(failure: StorageFailure): void {
    this.#closed = failure;
    this.#intervalTimer?.cancel();
    this.#outcomes.finish();
    this.#dismiss(failure);
    for (const answered of this.#resets.splice(0)) answered(undefined);
    this.#onceIdle?.();
  }

  /** Answers all that waits and was not handed to the writer. */
  #dismiss(failure: StorageFailure): void {
    const refused: Outcome = { failure: { kind: failure.kind, text: failure.message } };
    for (let entry = this.#publishes.shift(); entry; entry = this.#publishes.shift()) {
      this.#settled(1, entry.bytes);
      this.#hear(() => entry!.settled(failure));
    }
    for (const list of [this.#releases, this.#ungrouped]) {
      for (let queued = list.shift(); queued; queued = list.shift()) queued.answered(refused);
    }
    for (let turn = this.sessions.next(); turn; turn = this.sessions.next()) {
      for (const queued of turn.group) queued.answered(refused);
    }
  }

  // -------------------------------------------------------------------------------------- turns

  /** All that is submitted in this turn of the loop joins one group. */
  #pumpSoon(): void {
    if (this.#pumpIsDue || this.#running) return;
    this.#pumpIsDue = true;
    queueMicrotask(() => {
      this.#pumpIsDue = false;
      this.#pump();
    });
  }

  #pump(): void {
    if (this.#running) return;
    if (this.#resets.length > 0) return this.#runReset();
    const publish = this.#publishTurnWaits();
    const session = this.sessions.waiting > 0;
    if (publish && (!session || this.#lastTurn === "session")) {
      this.#lastTurn = "publish";
      this.#runPublishTurn();
    } else if (session) {
      this.#lastTurn = "session";
      this.#runSessionTurn();
    } else this.#idle();
  }

  #idle(): void {
    if (this.#onceIdle === undefined || this.#publishes.length > 0) return;
    if (this.#groupsUnanswered > 0 || !this.#outcomes.empty) return;
    const idle = this.#onceIdle;
    this.#onceIdle = undefined;
    idle();
  }

  #publishTurnWaits(): boolean {
    return this.#publishesAreDue() || this.#releases.length > 0 || this.#ungrouped.length > 0;
  }

  #publishesAreDue(): boolean {
    const waiting = this.#publishes.length;
    if (waiting === 0) return false;
    const { publishCommit } = this.options;
    if (publishCommit.kind !== "interval") return true;
    if (waiting >= publishCommit.maxRecords || this.#intervalIsOver) return true;
    if (this.#intervalTimer === undefined) {
      this.#intervalTimer = this.options.timers.after(publishCommit.intervalMs, () => {
        this.#intervalIsOver = true;
        this.#signal();
        this.#pump();
      });
    }
    return false;
  }

  #signal(): void {
    const waits = this.#publishTurnWaits() ? 1 : 0;
    Atomics.store(this.options.publishWaits, 0, waits);
  }

  #runPublishTurn(): void {
    const turn = this.#choosePublishTurn();
    this.#releasesRanLast = turn === "release";
    if (turn !== "release") this.#lastButReleases = turn;
    if (turn === "publishes") this.#runPublishes();
    else if (turn === "release") this.#runWrites(take(this.#releases, RELIEFS_PER_GROUP));
    else this.#runWrites(this.#takeUngrouped());
  }

  /** Releases go ahead, but never twice in a row past something else; the others take turns. */
  #choosePublishTurn(): PublishTurn {
    const publishes = this.#publishesAreDue();
    const ungrouped = this.#ungrouped.length > 0;
    if (this.#releases.length > 0 && (!this.#releasesRanLast || !publishes && !ungrouped)) {
      return "release";
    }
    if (publishes && (!ungrouped || this.#lastButReleases === "ungrouped")) return "publishes";
    return "ungrouped";
  }

  #takeUngrouped(): QueuedWrite[] {
    const group = [this.#ungrouped.shift()!];
    if (group[0].alone) return group;
    while (group.length < RELIEFS_PER_GROUP && this.#ungrouped.peek()?.alone === false) {
      group.push(this.#ungrouped.shift()!);
    }
    return group;
  }

  // ----------------------------------------------------------------------------------- requests

  #runPublishes(): void {
    this.#intervalTimer?.cancel();
    this.#intervalTimer = undefined;
    this.#intervalIsOver = this.#closed !== undefined;
    const group = new PublishGroup(this.#packer);
    const { kind } = this.options.publishCommit;
    const most = this.publishMost || 1;
    let bytes = 0;
    let full = false;
    for (let entry = this.#publishes.peek(); entry !== undefined; entry = this.#publishes.peek()) {
      full = group.length > 0 && bytes + entry.bytes > BYTES_PER_GROUP;
      if (group.length >= most || full) break;
      this.#publishes.shift();
      bytes += entry.bytes;
      group.add(entry);
    }
    const closedBy = kind === "each"
      ? "unbatched"
      : full || group.length >= most
      ? "records"
      : kind === "interval"
      ? "interval"
      : "commit";
    this.#signal();
    if (group.rows === 0) {
      this.#settleGroup(group, undefined, undefined);
      return this.#pumpSoon();
    }
    const pack = group.pack();
    this.#groupsUnanswered++;
    this.#ask<PublishAnswer>({ ask: "publish", pack }, [pack.buffer], (answer) => {
      group.discharge();
      this.#groupsUnanswered--;
      if (answer === undefined) {
        return this.#settleGroup(group, undefined, this.#closed);
      }
      const { failure, counters, sizes } = answer;
      applyCounters(this.options.states, counters);
      if (failure === undefined) {
        this.#committed(sizes, group.length);
        this.publishCommits[closedBy]++;
        this.publishRecords += group.length - group.refused - (answer.failures?.size ?? 0);
      } else this.options.failed(failure);
      const refusal = failure === undefined
        ? this.#refusing
        : new StorageFailure(failure.kind, failure.text);
      const { answerable } = this.options;
      if (refusal !== undefined || answerable === undefined) {
        // The writer works on what waited while this group hears its outcome.
        this.#groupsUnanswered++;
        this.#pump();
        this.#groupsUnanswered--;
        return this.#settleGroup(group, answer, refusal);
      }
      this.#groupsUnanswered++;
      answerable((unsynced) => {
        this.#groupsUnanswered--;
        this.#settleGroup(group, answer, unsynced);
        this.#pumpSoon();
      });
      this.#pump();
    });
  }

  #settleGroup(
    group: PublishGroup,
    answer: PublishAnswer | undefined,
    failure: StorageFailure | undefined,
  ): void {
    this.#outcomes.add(group.decided(answer, failure, this.#heard, this.options.thrown));
  }

  /** Entries that wait no longer; counted before they hear of it, so that they may submit again. */
  #settled(entries: number, bytes: number): void {
    this.waitingEntries -= entries;
    this.waitingBytes -= bytes;
    if (
      this.accepting || this.waitingEntries > MOST_WAITING_ENTRIES / 2 ||
      this.waitingBytes > MOST_WAITING_BYTES / 2
    ) return;
    this.accepting = true;
    const resumes = this.#onceAccepting;
    this.#onceAccepting = [];
    for (const resume of resumes) queueMicrotask(resume);
  }

  #runWrites(group: QueuedWrite[]): void {
    this.#signal();
    this.#askWrites(group, false, () => {});
  }

  #runSessionTurn(): void {
    const { group, urgency } = this.sessions.next()!;
    this.#askWrites(group, true, (left) => this.sessions.putBack(left, urgency));
  }

  #askWrites(
    group: QueuedWrite[],
    yields: boolean,
    putBack: (left: readonly QueuedWrite[]) => void,
  ): void {
    const writes = group.map((queued) => queued.write);
    this.#ask<WriteAnswer>({ ask: "write", writes, yields }, [], (answer) => {
      if (answer === undefined) {
        for (const queued of group) queued.answered(undefined);
        return;
      }
      const { outcomes, counters, sizes } = answer;
      applyCounters(this.options.states, counters);
      if (outcomes.some((outcome) => "value" in outcome)) this.#committed(sizes, 0);
      const failed = outcomes.find((outcome) => "failure" in outcome && !outcome.failure.decided);
      if (failed !== undefined) this.options.failed((failed as { failure: Failure }).failure);
      putBack(group.slice(outcomes.length));
      this.#answer(group, outcomes);
      this.#pump();
    });
  }

  /**
   * Hands outcomes out. Those of a release keep their place among the publishes, and where answers wait for
   * the disk they do too (S197).
   */
  #answer(group: readonly QueuedWrite[], outcomes: readonly Outcome[]): void {
    if (group[0].write.op !== "releaseHold") return tellAll(group, outcomes);
    const { answerable } = this.options;
    if (answerable === undefined) return this.#answerReleases(group, outcomes);
    this.#groupsUnanswered++;
    answerable((unsynced) => {
      this.#groupsUnanswered--;
      const { kind = "failed" as const, message: text = "" } = unsynced ?? {};
      this.#answerReleases(
        group,
        unsynced === undefined ? outcomes : outcomes.map(() => ({ failure: { kind, text } })),
      );
      this.#pumpSoon();
    });
  }

  #answerReleases(group: readonly QueuedWrite[], outcomes: readonly Outcome[]): void {
    this.#outcomes.add({
      tell: () => {
        tellAll(group, outcomes);
        return true;
      },
    });
  }

  #runReset(): void {
    const asked = this.#resets.splice(0);
    this.#ask<Answer>({ ask: "resetLog" }, [], (answer) => {
      for (const answered of asked) answered(answer);
      this.#pump();
    });
  }

  #ask<A>(
    request: WriterRequest,
    transfer: Transferable[],
    answered: (answer: A | undefined) => void,
  ): void {
    this.#running = true;
    this.options.writer.ask<A>(request, transfer, (answer, death) => {
      this.#running = false;
      if (death !== undefined) this.#closed ??= this.#deathOf(death);
      answered(death === undefined ? answer : undefined);
    });
  }

  #deathOf(cause: Error): StorageFailure {
    const { filePath } = this.options;
    return new StorageFailure("failed", `storage ${filePath}: the writer ended: ${cause.message}`);
  }

  #committed(sizes: Sizes | undefined, entries: number): void {
    this.commits++;
    this.entries += entries;
    this.options.committed();
    if (sizes !== undefined) this.options.looked(sizes);
  }

  #hear(run: () => void): void {
    try {
      run();
    } catch (error) {
      this.options.thrown(error);
    }
  }
}

function tellAll(group: readonly QueuedWrite[], outcomes: readonly Outcome[]): void {
  for (let i = 0; i < outcomes.length; i++) group[i].answered(outcomes[i]);
}

function take<T>(list: Fifo<T>, most: number): T[] {
  const taken: T[] = [];
  while (taken.length < most && list.length > 0) taken.push(list.shift()!);
  return taken;
}
