import assert from "node:assert/strict";
import type { PublishCommit } from "../../../src/config/configuration.ts";
import { HeapTimers } from "../../../src/platform/timers.ts";
import { type PublishEntry, StorageFailure } from "../../../src/storage/contract.ts";
import { ChannelState } from "../../../src/storage/sqlite/channel_state.ts";
import type {
  PublishAnswer,
  Write,
  WriteAnswer,
  WriterRequest,
} from "../../../src/storage/sqlite/messages.ts";
import { Unpacker } from "../../../src/storage/sqlite/packing.ts";
import type { WorkerLink } from "../../../src/storage/sqlite/worker_link.ts";
import {
  MOST_WAITING_ENTRIES,
  type WriteClass,
  WriteQueue,
} from "../../../src/storage/sqlite/write_queue.ts";
import { until } from "../../support/wait.ts";
import { message } from "./support/provider.ts";

type Answered = (answer: never, death: Error | undefined) => void;

/** A queue whose writer is the test: it sees each request and answers when it is told to. */
class Rig {
  requests: WriterRequest[] = [];
  #answers: Answered[] = [];
  now = 0;
  readonly timers = new HeapTimers(
    { monotonic: () => this.now, wall: () => 0n },
    (error) => {
      throw error;
    },
  );
  readonly state = new ChannelState(0, "readings", "append");
  readonly publishWaits = new Int32Array(new SharedArrayBuffer(4));
  readonly queue: WriteQueue;
  settled: string[] = [];
  #next = 1;

  constructor(publishCommit: PublishCommit = { kind: "collecting" }, answerable?: Answerable) {
    const writer = {
      ask: (request: WriterRequest, _: Transferable[], answered: Answered) => {
        this.requests.push(request);
        this.#answers.push(answered);
      },
    } as unknown as WorkerLink<WriterRequest>;
    this.queue = new WriteQueue({
      filePath: "/data/plant.db",
      writer,
      states: [this.state],
      publishCommit,
      publishWaits: this.publishWaits,
      timers: this.timers,
      committed() {},
      answerable,
      looked() {},
      failed() {},
      thrown(error) {
        throw error;
      },
    });
  }

  publish(name: string, bytes = 10, reach?: number): void {
    const row = {
      kind: "append" as const,
      store: { state: this.state } as never,
      message: message("t", name),
      offset: 0,
    };
    const entry: PublishEntry = {
      rows: [row],
      bytes,
      reach,
      settled: (failure) =>
        this.settled.push(
          failure === undefined ? `${name}@${row.offset}` : `${name}:${failure.kind}`,
        ),
    };
    this.queue.submit(entry);
  }

  /** A release that is among `settled` once it was heard of. */
  release(clientId: string): void {
    const write: Write = {
      op: "releaseHold",
      store: 0,
      clientId,
      packetId: 1,
      maxBytes: undefined,
    };
    void this.queue.write("release", write, clientId, () => this.settled.push(clientId));
  }

  write(place: WriteClass, clientId: string): Promise<unknown> {
    const write: Write = { op: "endSession", clientId, end: [], returned: [] };
    return this.queue.write(place, write, clientId);
  }

  /** What the writer was last asked: payloads of a publish group, client ids of other writes. */
  get asked(): string {
    const request = this.requests.at(-1)!;
    if (request.ask === "write") {
      return "write " +
        request.writes.map((write) => (write as { clientId: string }).clientId).join(" ");
    }
    if (request.ask !== "publish") return request.ask;
    const rows = new Unpacker(request.pack);
    const payloads: string[] = [];
    while (rows.next()) payloads.push(new TextDecoder().decode(rows.payload));
    return "publish " + payloads.join(" ");
  }

  /** Answers the running request as a commit of everything, or of the first `ran` writes. */
  async commit(ran = Infinity): Promise<void> {
    const request = this.requests.at(-1)!;
    let answer: PublishAnswer | WriteAnswer;
    if (request.ask === "publish") {
      const offsets = new Float64Array(request.pack.rows).map(() => this.#next++);
      answer = { offsets, counters: [0, this.#next, 1, 0, 0] };
    } else if (request.ask === "write") {
      const outcomes = request.writes.slice(0, ran).map(() => ({ value: undefined }));
      answer = { outcomes, counters: [] };
    } else throw new Error(`nothing to commit in ${request.ask}`);
    this.#answers.shift()!(answer as never, undefined);
    await turn();
  }

  async refuse(kind: "full" | "failed"): Promise<void> {
    this.#answers.shift()!({ failure: { kind, text: "no" }, counters: [] } as never, undefined);
    await turn();
  }

  get running(): boolean {
    return this.#answers.length > 0;
  }
}

type Answerable = (then: (failure: StorageFailure | undefined) => void) => void;

function turn(): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, 0));
}

Deno.test("S121 a lone publish is stored at once, and what arrives meanwhile shares the next transaction", async () => {
  const rig = new Rig();
  rig.publish("a");
  await turn();
  assert.equal(rig.asked, "publish a");
  rig.publish("b");
  await turn();
  rig.publish("c");
  await turn();
  assert.equal(rig.requests.length, 1);
  await rig.commit();
  assert.equal(rig.asked, "publish b c");
  await rig.commit();
  assert.deepEqual(rig.settled, ["a@1", "b@2", "c@3"]);
  assert.equal(rig.running, false);
});

Deno.test("S121 what is submitted in one turn of the loop is one group, of 256 entries at most", async () => {
  const rig = new Rig();
  for (let i = 0; i < 600; i++) rig.publish(String(i));
  const groups: number[] = [];
  await turn();
  while (rig.running) {
    groups.push(rig.asked.split(" ").length - 1);
    await rig.commit();
  }
  assert.deepEqual(groups, [256, 256, 88]);
  assert.equal(rig.settled.length, 600);
  assert.equal(rig.settled[599], "599@600");
});

Deno.test("S121 publish_commit_interval none is one transaction a publish", async () => {
  const rig = new Rig({ kind: "each" });
  rig.publish("a");
  rig.publish("b");
  await turn();
  assert.equal(rig.asked, "publish a");
  await rig.commit();
  assert.equal(rig.asked, "publish b");
  await rig.commit();
  assert.equal(rig.requests.length, 2);
});

Deno.test("S121 an interval closes a batch at its count or when it is over, counted from its opening", async () => {
  const rig = new Rig({ kind: "interval", intervalMs: 10, maxRecords: 3 });
  rig.publish("a");
  await turn();
  assert.equal(rig.requests.length, 0);
  rig.now = 6;
  rig.publish("b");
  await turn();
  rig.now = 9;
  rig.timers.runDue();
  assert.equal(rig.requests.length, 0);
  rig.now = 10;
  rig.timers.runDue();
  assert.equal(rig.asked, "publish a b");
  await rig.commit();
  for (const name of ["c", "d", "e", "f"]) rig.publish(name);
  await turn();
  assert.equal(rig.asked, "publish c d e");
  await rig.commit();
  assert.equal(rig.running, false);
  rig.now = 20;
  rig.timers.runDue();
  assert.equal(rig.asked, "publish f");
  await rig.commit();
  rig.timers.stop();
});

Deno.test("S8 S15 S122 the counters of an answer are applied before anybody hears of it, and outcomes follow in order", async () => {
  const rig = new Rig();
  const seen: number[] = [];
  const row = {
    kind: "append" as const,
    store: { state: rig.state } as never,
    message: message("t", "a"),
    offset: 0,
  };
  rig.queue.submit({ rows: [row], bytes: 1, settled: () => seen.push(rig.state.next) });
  rig.publish("b");
  await turn();
  await rig.commit();
  assert.deepEqual(seen, [3]);
  assert.equal(row.offset, 1);
  assert.deepEqual(rig.settled, ["b@2"]);
});

Deno.test("S125 a record over its channel's bound is turned away before the transaction, its neighbours commit", async () => {
  const rig = new Rig();
  const size = 1 + 1 + 36;
  rig.state.maxBytes = 2 * size;
  for (const name of ["a", "b", "c"]) rig.publish(name);
  await turn();
  assert.equal(rig.asked, "publish a b");
  // What is under way counts, though it is not stored yet.
  rig.publish("d");
  await rig.commit();
  assert.deepEqual(rig.settled, ["a@1", "b@2", "c:full"]);
});

Deno.test("S125 a failed transaction fails everybody in it, each as it would alone", async () => {
  const rig = new Rig();
  rig.publish("a");
  rig.publish("b");
  await turn();
  await rig.refuse("full");
  assert.deepEqual(rig.settled, ["a:full", "b:full"]);
  assert.equal(rig.state.formingBytes, 0);
  rig.publish("c");
  await turn();
  await rig.commit();
  assert.equal(rig.settled[2], "c@1");
});

Deno.test("S128 session writes that wait share a transaction of eight at most", async () => {
  const rig = new Rig();
  for (let i = 0; i < 10; i++) rig.write("connected", `c${i}`);
  await turn();
  assert.equal(rig.asked, "write c0 c1 c2 c3 c4 c5 c6 c7");
  await rig.commit();
  assert.equal(rig.asked, "write c8 c9");
  await rig.commit();
});

Deno.test("S110 S127 S129 publish groups and session groups take turns and share nothing", async () => {
  const rig = new Rig();
  for (let i = 0; i < 300; i++) rig.publish("p");
  for (let i = 0; i < 20; i++) rig.write("connected", `c${i}`);
  await turn();
  const order: string[] = [];
  while (rig.running) {
    order.push(rig.asked.split(" ")[0]);
    await rig.commit();
  }
  assert.deepEqual(order, ["publish", "write", "publish", "write", "write"]);
});

Deno.test("S130 the writer sees that a publish waits while a session transaction runs, and not otherwise", async () => {
  const rig = new Rig();
  rig.write("connected", "c");
  await turn();
  assert.equal(Atomics.load(rig.publishWaits, 0), 0);
  rig.publish("p");
  assert.equal(Atomics.load(rig.publishWaits, 0), 1);
  await rig.commit();
  assert.equal(rig.asked, "publish p");
  assert.equal(Atomics.load(rig.publishWaits, 0), 0);
  await rig.commit();
});

Deno.test("S131 what gave way is first in line at the next session turn, before what came meanwhile", async () => {
  const rig = new Rig();
  for (const id of ["a", "b", "c"]) rig.write("departed", id);
  await turn();
  rig.publish("p");
  rig.write("departed", "d");
  await rig.commit(1);
  assert.equal(rig.asked, "publish p");
  await rig.commit();
  assert.equal(rig.asked, "write b c d");
  await rig.commit();
});

Deno.test("S134 four answering groups for each of the others, four departed for each connected", async () => {
  const rig = new Rig();
  const classes = [["a", "answering"], ["d", "departed"], ["c", "connected"]] as const;
  for (const [letter, urgency] of classes) {
    for (let i = 0; i < 30 * 8; i++) rig.write(urgency, letter);
  }
  await turn();
  let order = "";
  while (rig.running) {
    order += rig.asked[6];
    await rig.commit();
  }
  // Once nobody waits for an answer the departed and the connected share all turns.
  assert.ok(order.startsWith("aaaadaaaadaaaadaaaadaaaacaaaadaaaad"), order);
  assert.equal(order.length, 90);
});

Deno.test("S133 a mark moves the client's queued writes ahead, and those that join; unmark ends it", async () => {
  const rig = new Rig();
  rig.write("answering", "busy");
  await turn();
  for (let i = 0; i < 9; i++) rig.write("departed", `gone${i}`);
  rig.write("departed", "back");
  rig.write("connected", "back");
  rig.queue.sessions.mark("back");
  rig.queue.sessions.mark("back");
  rig.queue.sessions.unmark("back");
  rig.write("connected", "back");
  await rig.commit();
  assert.equal(rig.asked, "write back back back");
  rig.queue.sessions.unmark("back");
  rig.write("connected", "back");
  await rig.commit();
  assert.equal(rig.asked, "write gone0 gone1 gone2 gone3 gone4 gone5 gone6 gone7");
  await rig.commit();
  assert.equal(rig.asked, "write gone8");
  await rig.commit();
  assert.equal(rig.asked, "write back");
  await rig.commit();
});

Deno.test("S120 S139 relief and maintenance take publish turns, releases ahead of both", async () => {
  const rig = new Rig();
  rig.publish("p");
  await turn();
  rig.publish("q");
  for (
    const [place, name] of [["maintenance", "sweep"], ["relief", "job"], [
      "release",
      "held",
    ]] as const
  ) {
    rig.write(place, name);
  }
  rig.write("relief", "job2");
  const order: string[] = [];
  await rig.commit();
  while (rig.running) {
    order.push(rig.asked);
    await rig.commit();
  }
  assert.deepEqual(order, ["write held", "write sweep", "publish q", "write job job2"]);
});

Deno.test("DESIGN 2 accepting ends at the bound on what waits and begins again at half", async () => {
  const rig = new Rig();
  let resumed = 0;
  for (let i = 0; i < MOST_WAITING_ENTRIES - 1; i++) rig.publish("p");
  assert.equal(rig.queue.accepting, true);
  rig.publish("p");
  assert.equal(rig.queue.accepting, false);
  rig.queue.onceAccepting(() => resumed++);
  await turn();
  while (rig.queue.waitingEntries > MOST_WAITING_ENTRIES / 2) {
    assert.equal(resumed, 0);
    await rig.commit();
  }
  assert.equal(rig.queue.accepting, true);
  assert.equal(resumed, 1);
  while (rig.running) await rig.commit();
  assert.equal(resumed, 1);
  assert.equal(rig.queue.waitingBytes, 0);
});

Deno.test("S197 with acknowledge synced a publish is settled when its commit is on the disk, session writes at once", async () => {
  const waiting: ((failure: StorageFailure | undefined) => void)[] = [];
  const rig = new Rig({ kind: "collecting" }, (then) => waiting.push(then));
  rig.publish("a");
  await turn();
  await rig.commit();
  assert.deepEqual(rig.settled, []);
  assert.equal(rig.state.next, 2);
  rig.publish("b");
  const write = rig.write("connected", "c");
  await turn();
  await rig.commit();
  await rig.commit();
  await write;
  assert.deepEqual(rig.settled, []);
  waiting[0](undefined);
  waiting[1](new StorageFailure("failed", "disk"));
  assert.deepEqual(rig.settled, ["a@1", "b:failed"]);
});

/** More sessions than are served in one turn. */
const MANY = 1_000_000;

Deno.test("I16 publishes that reach very many are settled in turns, and what was committed later after them", async () => {
  const rig = new Rig();
  for (const name of ["a", "b", "c"]) rig.publish(name, 10, MANY);
  await turn();
  rig.release("r");
  rig.publish("d");
  const commit = rig.commit();
  assert.deepEqual(rig.settled, ["a@1"], "the others have turns of their own");
  assert.deepEqual([rig.queue.waitingEntries, rig.queue.waitingBytes], [3, 30]);
  await commit;
  while (rig.running) await rig.commit();
  await until("all to be settled", () => rig.queue.waitingEntries === 0);
  assert.deepEqual(rig.settled, ["a@1", "b@2", "c@3", "r", "d@4"]);
});

Deno.test("S197 with acknowledge synced a release is heard of before what was committed after it", async () => {
  const waiting: ((failure: StorageFailure | undefined) => void)[] = [];
  const rig = new Rig({ kind: "collecting" }, (then) => waiting.push(then));
  rig.release("r");
  await turn();
  rig.publish("a");
  await rig.commit();
  await rig.commit();
  for (const then of waiting) then(undefined);
  await until("both", () => rig.settled.length === 2);
  assert.deepEqual(rig.settled, ["r", "a@1"]);
});

Deno.test("S147 a drain waits for publishes that are settled in turns", async () => {
  const rig = new Rig();
  for (const name of ["a", "b", "c"]) rig.publish(name, 10, MANY);
  await turn();
  const drained = rig.queue.drain(new StorageFailure("failed", "closed"))
    .then(() => rig.settled.push("drained"));
  void rig.commit();
  await drained;
  assert.deepEqual(rig.settled, ["a@1", "b@2", "c@3", "drained"]);
});

Deno.test("S119 a writer that is gone leaves nobody untold of what it had committed", async () => {
  const rig = new Rig();
  for (const name of ["a", "b", "c"]) rig.publish(name, 10, MANY);
  await turn();
  rig.publish("d");
  void rig.commit();
  rig.queue.fail(new StorageFailure("failed", "storage /data/plant.db: the writer ended"));
  assert.deepEqual(rig.settled.slice(0, 3), ["a@1", "b@2", "c@3"]);
});

Deno.test("S119 when the writer is gone everything queued and running fails", async () => {
  const rig = new Rig();
  rig.publish("a");
  await turn();
  rig.publish("b");
  const write = rig.write("connected", "c");
  const failure = new StorageFailure("failed", "storage /data/plant.db: the writer ended");
  rig.queue.fail(failure);
  await assert.rejects(write, failure);
  assert.deepEqual(rig.settled, ["b:failed"]);
  rig.publish("later");
  assert.deepEqual(rig.settled, ["b:failed", "later:failed"]);
  await assert.rejects(rig.write("answering", "later"), failure);
});

Deno.test("D20.1 a release is heard of before the publishes that one flush answers with it", async () => {
  const waiting: ((failure: StorageFailure | undefined) => void)[] = [];
  const rig = new Rig({ kind: "collecting" }, (then) => waiting.push(then));
  const heard = rig.settled;
  const write = { op: "releaseHold", clientId: "c" } as unknown as Write;
  const released = rig.queue.write("release", write, "c", () => heard.push("release"));
  await turn();
  await rig.commit();
  rig.publish("a");
  await turn();
  await rig.commit();
  assert.equal(waiting.length, 2);
  assert.deepEqual(heard, []);
  for (const then of waiting) then(undefined);
  assert.deepEqual(heard, ["release", "a@1"]);
  await released;
});
