import assert from "node:assert/strict";
import { AppendChannel } from "../../src/broker/channels/append.ts";
import { QueueChannel, type QueuePolicy } from "../../src/broker/channels/queue.ts";
import type { Sent } from "../support/generate_deliveries.ts";
import type { Session } from "../../src/broker/session.ts";
import { StorageFailure } from "../../src/storage/contract.ts";
import type { Message, StoredRecord } from "../../src/storage/record.ts";
import { bytes, linkOf, quiet, RecordingLink, Rig, START, text } from "./rig.ts";

const TICK = 200;

/** A queue `jobs` on `jobs/#`, its dead-letter channel, and the test's words for what happens to it. */
class QueueRig extends Rig {
  queue!: QueueChannel;
  letters!: AppendChannel;

  static async open(policy: Partial<QueuePolicy> = {}, filter = "jobs/#"): Promise<QueueRig> {
    const rig = new QueueRig();
    await rig.open({ channel: "jobs", kind: "queue" }, { channel: "jobs__dlq", kind: "append" });
    rig.start(policy, filter);
    return rig;
  }

  /** The channels at work on what is stored; again for a restart. */
  start(policy: Partial<QueuePolicy> = {}, filter = "jobs/#"): void {
    const { provider, context } = this;
    const store = provider.append("jobs__dlq");
    const start = { start: "floor" } as const;
    const readers = () => [...this.letters.consumers.keys()];
    this.letters = new AppendChannel("jobs__dlq", store, provider, start, context, readers);
    this.queue = new QueueChannel(
      "jobs",
      provider.queue("jobs"),
      provider,
      {
        visibilityTimeoutMs: 30_000,
        jobExpiresAfterMs: undefined,
        maxAttempts: 3,
        backoff: { kind: "none" },
        ...policy,
      },
      filter,
      this.letters,
      context,
    );
  }

  publish(name: string, rest: Partial<Message> = {}): void {
    const { queue } = this;
    const message = this.message(`jobs/${name}`, name, rest);
    const row = { kind: "enqueue" as const, store: queue.store, message, offset: 0 };
    this.provider.submit({
      rows: [row],
      bytes: 1,
      settled: (failure) => {
        assert.equal(failure, undefined);
        queue.recorded(row.offset, message);
      },
    });
  }

  worker(clientId: string, link = new RecordingLink()): Session {
    const session = this.session(clientId, { link, expiry: 60 });
    this.queue.join(session);
    return session;
  }

  async answer(session: Session, offer: Sent, verdict: string): Promise<void> {
    await this.queue.answer(session, offer.reply!.correlationData, bytes(verdict));
    await quiet();
  }

  async puback(session: Session, offer: Sent): Promise<void> {
    session.onPuback(offer.packetId);
    await this.queue.settled();
  }

  /** What the registry does when a connection ends. */
  async cut(session: Session): Promise<void> {
    session.detach();
    this.queue.connectionEnded(session);
    await this.queue.settled();
  }

  async deadLetters(): Promise<readonly StoredRecord[]> {
    await this.queue.settled();
    const window = await this.letters.store.readFrom(1, 1_000, 1e9);
    assert.ok(!window.belowFloor);
    return window.records;
  }
}

/** Names of the jobs a session was offered. */
function offered(session: Session): string[] {
  return linkOf(session).deliveries.map(({ message }) => text(message.payload));
}

function last(session: Session): Sent {
  const { deliveries } = linkOf(session);
  assert.ok(deliveries.length > 0, "nothing was offered");
  return deliveries[deliveries.length - 1];
}

function labels({ labels }: Sent): Map<string, string> {
  return new Map(labels);
}

// ------------------------------------------------------------------------------------------ offers

Deno.test("D14.8 an offer keeps what was published and adds what an answer needs", async () => {
  const rig = await QueueRig.open();
  const worker = rig.worker("w");
  worker.subscribe({
    filter: "$saguin/queue/jobs",
    qos: 1,
    noLocal: false,
    retainAsPublished: true,
    retainHandling: 0,
    identifier: 7,
    logOffset: 1,
  }, false);
  rig.publish("a", {
    headers: [["k", "1"], ["k", "1"]],
    properties: {
      responseTopic: "theirs",
      correlationData: bytes("theirs"),
      contentType: "x",
      messageExpiry: 10,
    },
  });
  await rig.time.pass(TICK);
  const offer = last(worker);
  assert.equal(offer.message.topic, "jobs/a");
  assert.equal(offer.message.properties.contentType, "x");
  assert.deepEqual(offer.message.headers, [["k", "1"], ["k", "1"]]);
  assert.equal(offer.qos, 1);
  assert.equal(offer.retain, false);
  assert.deepEqual(offer.identifiers, [7]);
  assert.equal(offer.reply?.responseTopic, "$saguin/queue/jobs/response");
  assert.ok(offer.reply.correlationData.byteLength <= 32);
  assert.deepEqual(offer.labels, [
    ["saguin-id", offer.message.messageId],
    ["saguin-offset", "1"],
    ["saguin-timestamp", String(START)],
    ["saguin-expires", String(START + 10_000)],
    ["saguin-attempt", "1"],
  ]);
  assert.equal(offer.expiry, 10);
});

Deno.test("D14.7 new jobs and new workers are served on the tick, so workers share a backlog", async () => {
  const rig = await QueueRig.open();
  for (const name of ["a", "b", "c"]) rig.publish(name);
  const first = rig.worker("first");
  const second = rig.worker("second");
  await rig.time.pass(TICK - 1);
  assert.deepEqual([offered(first), offered(second)], [[], []]);
  await rig.time.pass(1);
  assert.deepEqual([offered(first), offered(second)], [["a"], ["b"]]);
});

Deno.test("D14.7 an answer brings the next job in the same turn", async () => {
  const rig = await QueueRig.open();
  for (const name of ["a", "b", "c"]) rig.publish(name);
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  await rig.answer(worker, last(worker), "ack");
  await rig.answer(worker, last(worker), "return");
  assert.deepEqual(offered(worker), ["a", "b", "c"]);
  assert.equal(rig.time.monotonic(), TICK);
});

Deno.test("D14.6 one job a worker, whatever its window", async () => {
  const rig = await QueueRig.open();
  for (const name of ["a", "b"]) rig.publish(name);
  const worker = rig.worker("w");
  await rig.time.pass(10 * TICK);
  await rig.puback(worker, last(worker));
  await rig.time.pass(10 * TICK);
  assert.deepEqual(offered(worker), ["a"]);
});

Deno.test("D14.5 free workers take turns", async () => {
  const rig = await QueueRig.open();
  const workers = ["x", "y", "z"].map((clientId) => rig.worker(clientId));
  for (const name of ["a", "b", "c", "d"]) {
    rig.publish(name);
    await rig.time.pass(TICK);
    for (const worker of workers) {
      const { deliveries } = linkOf(worker);
      if (deliveries.length > 0) await rig.answer(worker, last(worker), "ack");
    }
  }
  assert.deepEqual(workers.map(offered), [["a", "d"], ["b"], ["c"]]);
  assert.equal(rig.queue.store.depth(), 0);
});

Deno.test("D14.5 a worker with a full window is skipped, and served when it has room", async () => {
  const rig = await QueueRig.open();
  const full = rig.worker("full");
  full.window.receiveMaximum = 1;
  rig.publish("a");
  await rig.time.pass(TICK);
  const offer = last(full);
  // Answered before its PUBACK: the packet identifier is still taken.
  await rig.answer(full, offer, "ack");
  rig.publish("b");
  await rig.time.pass(5 * TICK);
  assert.deepEqual(offered(full), ["a"]);
  const other = rig.worker("other");
  await rig.time.pass(TICK);
  assert.deepEqual(offered(other), ["b"]);
  rig.publish("c");
  full.onPuback(offer.packetId);
  await quiet();
  assert.deepEqual(offered(full), ["a", "c"], "D14.7: the PUBACK that reopens a full window");
});

Deno.test("a job larger than the room of a worker goes to another, and does not spin", async () => {
  const rig = await QueueRig.open();
  const narrow = rig.worker("narrow");
  const blob = new Uint8Array(300 * 1024);
  rig.publish("a", { payload: blob });
  await rig.time.pass(TICK);
  await rig.answer(narrow, last(narrow), "ack");
  rig.publish("b", { payload: blob });
  await rig.time.pass(TICK);
  assert.equal(linkOf(narrow).deliveries.length, 1, "half of session_queue_bytes is on the wire");
  const wide = rig.worker("wide");
  await rig.time.pass(TICK);
  assert.equal(last(wide).message.topic, "jobs/b");
  rig.publish("c");
  narrow.onPuback(linkOf(narrow).deliveries[0].packetId);
  await quiet();
  assert.equal(last(narrow).message.topic, "jobs/c");
});

Deno.test("a worker whose socket is full is served when it drains", async () => {
  const rig = await QueueRig.open();
  const worker = rig.worker("w");
  linkOf(worker).buffered = 1_000_000;
  rig.publish("a");
  await rig.time.pass(5 * TICK);
  assert.deepEqual(offered(worker), []);
  linkOf(worker).buffered = 0;
  worker.drained();
  await quiet();
  assert.deepEqual(offered(worker), ["a"]);
});

Deno.test("D7.3 a worker the job is too large for is disconnected, the attempt unspent", async () => {
  const rig = await QueueRig.open({ maxAttempts: 1 });
  const small = rig.worker("small", new RecordingLink(5, 50));
  const large = rig.worker("large");
  rig.publish("a", { payload: new Uint8Array(100) });
  rig.publish("b");
  await rig.time.pass(TICK);
  assert.equal(linkOf(small).ended?.code, 0x95);
  assert.deepEqual(offered(small), []);
  assert.equal(last(large).message.topic, "jobs/a");
  assert.equal(labels(last(large)).get("saguin-attempt"), "1");
  rig.queue.join(small);
  small.roomMade();
  await rig.time.pass(5 * TICK);
  assert.deepEqual(offered(small), [], "nothing more on a connection that was told to end");
  assert.equal(rig.queue.inFlight, 1);
  await rig.cut(small);
  small.resume(new RecordingLink(5, 50));
  await rig.time.pass(TICK);
  assert.deepEqual(offered(small), ["b"], "on its next connection it takes work again");
});

Deno.test("06 section 6 a session resumed by a 3.1.1 connection is offered nothing", async () => {
  const rig = await QueueRig.open();
  const worker = rig.worker("w");
  await rig.cut(worker);
  worker.resume(new RecordingLink(4));
  rig.publish("a");
  await rig.time.pass(5 * TICK);
  assert.deepEqual(offered(worker), []);
});

Deno.test("the tick runs only while there is a job with nobody and a worker for it", async () => {
  const rig = await QueueRig.open();
  rig.publish("a");
  await quiet();
  assert.equal(rig.time.armed, 0, "a job and no worker");
  const worker = rig.worker("w");
  assert.equal(rig.time.armed, 1);
  await rig.time.pass(TICK);
  assert.equal(rig.time.armed, 0, "the only job is out");
  rig.publish("b");
  assert.equal(rig.time.armed, 0, "the only worker has one");
  await rig.answer(worker, last(worker), "ack");
  await rig.answer(worker, last(worker), "ack");
  assert.equal(rig.time.armed, 0, "a worker and no job");
  rig.publish("c");
  assert.equal(rig.time.armed, 1);
});

Deno.test("06 section 6 UNSUBSCRIBE ends offers at once, and a job held may still be answered", async () => {
  const rig = await QueueRig.open();
  rig.publish("a");
  rig.publish("b");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  rig.queue.leave(worker);
  await rig.time.pass(5 * TICK);
  await rig.answer(worker, last(worker), "ack");
  await rig.time.pass(5 * TICK);
  assert.deepEqual(offered(worker), ["a"]);
  assert.equal(rig.queue.store.depth(), 1, "a is resolved");
  assert.equal(rig.queue.workers, 0);
  rig.queue.join(worker);
  await rig.time.pass(TICK);
  assert.deepEqual(offered(worker), ["a", "b"]);
});

Deno.test("06 section 6 no offer goes out after a leave that overtook it", async () => {
  const rig = await QueueRig.open();
  const worker = rig.worker("w");
  rig.publish("a");
  const { store } = rig.queue;
  const offer = store.offer.bind(store);
  store.offer = async (now) => {
    const found = await offer(now);
    if (found !== undefined) rig.queue.leave(worker);
    return found;
  };
  await rig.time.pass(TICK);
  assert.deepEqual(offered(worker), []);
  store.offer = offer;
  const other = rig.worker("other");
  await rig.time.pass(TICK);
  assert.equal(labels(last(other)).get("saguin-attempt"), "1", "D14.2: returned unspent");
});

// ----------------------------------------------------------------------------------------- answers

Deno.test("D14.9 every attempt has a Sent ID of its own, and D14.3 the old one is dead", async () => {
  const rig = await QueueRig.open();
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  const first = last(worker);
  await rig.answer(worker, first, "return");
  await rig.time.pass(TICK);
  const second = last(worker);
  assert.notEqual(text(first.reply!.correlationData), text(second.reply!.correlationData));
  await rig.answer(worker, first, "ack");
  assert.equal(rig.queue.store.depth(), 1);
  await rig.answer(worker, second, "ack");
  assert.equal(rig.queue.store.depth(), 0);
});

Deno.test("D14.12 D14.13 an answer that fits nothing is ignored and logged", async () => {
  const rig = await QueueRig.open();
  rig.publish("a");
  const worker = rig.worker("w");
  const thief = rig.session("thief");
  await rig.time.pass(TICK);
  const { correlationData } = last(worker).reply!;
  const ignored: [Session, Uint8Array | undefined, string][] = [
    [thief, correlationData, "ack"],
    [worker, undefined, "ack"],
    [worker, bytes(""), "ack"],
    [worker, bytes("x".repeat(32)), "ack"],
    [worker, correlationData, "ACK"],
    [worker, correlationData, "ack\n"],
    [worker, correlationData, ""],
    [worker, correlationData, "returns"],
  ];
  for (const [session, id, payload] of ignored) {
    const before = rig.log.lines.length;
    await rig.queue.answer(session, id, bytes(payload));
    assert.equal(rig.log.lines[before]?.msg, "ignored an answer to a queue", payload);
    assert.equal(rig.queue.store.depth(), 1, payload);
    assert.equal(rig.queue.inFlight, 1, payload);
  }
  await rig.answer(worker, last(worker), "ack");
  assert.equal(rig.queue.store.depth(), 0);
  assert.deepEqual(rig.queue.statistics, {
    delivered: 1,
    acknowledged: 1,
    returned: 0,
    redelivered: 0,
  });
});

Deno.test("D14.14 an attempt counts at PUBACK or at the answer, whichever comes first, once", async () => {
  const orders: ("puback" | "return")[][] = [["return"], ["return", "puback"], [
    "puback",
    "return",
  ]];
  for (const order of orders) {
    const rig = await QueueRig.open();
    rig.publish("a");
    const worker = rig.worker("w");
    await rig.time.pass(TICK);
    const offer = last(worker);
    for (const step of order) {
      if (step === "puback") await rig.puback(worker, offer);
      else await rig.answer(worker, offer, "return");
    }
    await rig.time.pass(TICK);
    assert.equal(labels(last(worker)).get("saguin-attempt"), "2", order.join());
  }
});

Deno.test("D14.14 PUBACK and return in one turn count once", async () => {
  const rig = await QueueRig.open();
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  const offer = last(worker);
  worker.onPuback(offer.packetId);
  await rig.answer(worker, offer, "return");
  await rig.time.pass(TICK);
  assert.equal(labels(last(worker)).get("saguin-attempt"), "2");
});

Deno.test("06 section 6 a late PUBACK of an answered job does not touch the next one", async () => {
  const rig = await QueueRig.open({ visibilityTimeoutMs: 1_000 });
  rig.publish("a");
  rig.publish("b");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  const first = last(worker);
  await rig.answer(worker, first, "ack");
  worker.onPuback(first.packetId);
  await rig.time.pass(60_000);
  assert.deepEqual(offered(worker), ["a", "b"], "the second is not acknowledged: no deadline");
  assert.equal(rig.queue.inFlight, 1);
});

Deno.test("D14.3 a late PUBACK of an earlier delivery does not count for the job's next one", async () => {
  const rig = await QueueRig.open({ visibilityTimeoutMs: 1_000 });
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  const first = last(worker);
  await rig.answer(worker, first, "return");
  await rig.time.pass(TICK);
  await rig.puback(worker, first);
  await rig.time.pass(60_000);
  assert.deepEqual(offered(worker), ["a", "a"]);
  assert.equal(rig.queue.inFlight, 1, "the second is not acknowledged: no deadline");
});

// ------------------------------------------------------------------------------ timeouts and returns

Deno.test("D14.1 the deadline of an answered job is not that of the worker's next one", async () => {
  const rig = await QueueRig.open({ visibilityTimeoutMs: 1_000 });
  rig.publish("a");
  rig.publish("b");
  rig.publish("c");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  await rig.puback(worker, last(worker));
  await rig.answer(worker, last(worker), "ack");
  await rig.time.pass(60_000);
  assert.deepEqual(offered(worker), ["a", "b"]);
});

Deno.test("D14.1 the visibility timeout starts at PUBACK, and without one there is none", async () => {
  const rig = await QueueRig.open({ visibilityTimeoutMs: 1_000 });
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  await rig.time.pass(3_600_000);
  assert.equal(offered(worker).length, 1, "delivering has no deadline");
  await rig.puback(worker, last(worker));
  await rig.time.pass(999);
  assert.equal(rig.queue.inFlight, 1);
  const dead = last(worker);
  await rig.time.pass(1 + TICK);
  assert.equal(offered(worker).length, 2);
  assert.equal(labels(last(worker)).get("saguin-attempt"), "2");
  assert.equal(rig.queue.statistics.redelivered, 1);
  await rig.answer(worker, dead, "ack");
  assert.equal(rig.queue.store.depth(), 1, "D14.3: its Sent ID died with the lease");
});

Deno.test("D14.19 a connection's end returns its jobs at once, unspent without PUBACK or answer", async () => {
  const rig = await QueueRig.open({ maxAttempts: 2 });
  rig.publish("a");
  const worker = rig.worker("w");
  const other = rig.worker("other");
  await rig.time.pass(TICK);
  const offer = last(worker);
  await rig.cut(worker);
  await rig.time.pass(TICK);
  assert.equal(labels(last(other)).get("saguin-attempt"), "1");
  await rig.puback(other, last(other));
  await rig.cut(other);
  // Resumed: the unacknowledged packet goes again, and its answer does nothing.
  const link = new RecordingLink();
  worker.resume(link);
  await quiet();
  assert.deepEqual(link.deliveries.map(({ dup }) => dup), [true]);
  await rig.answer(worker, offer, "ack");
  assert.equal(rig.queue.store.depth(), 1);
  await rig.time.pass(TICK);
  assert.equal(labels(link.deliveries[1]).get("saguin-attempt"), "2");
});

Deno.test("D14.16 D14.17 a returned job waits its gap, from the answer", async () => {
  const rows = [
    { backoff: { kind: "none" as const }, gaps: [0, 0, 0] },
    { backoff: { kind: "linear" as const, baseMs: 1_000 }, gaps: [1_000, 2_000, 3_000] },
    { backoff: { kind: "exponential" as const, baseMs: 1_000 }, gaps: [1_000, 2_000, 4_000] },
  ];
  for (const { backoff, gaps } of rows) {
    const rig = await QueueRig.open({ backoff, maxAttempts: 9 });
    rig.publish("a");
    const worker = rig.worker("w");
    await rig.time.pass(TICK);
    for (const gap of gaps) {
      await rig.time.pass(5_000);
      const before = offered(worker).length;
      await rig.answer(worker, last(worker), "return");
      assert.equal(offered(worker).length, before, "never back in the turn of its return");
      await rig.time.pass(Math.max(gap - 1, TICK - 1));
      assert.equal(offered(worker).length, before, `${backoff.kind} ${gap}`);
      await rig.time.pass(TICK + 1);
      assert.equal(offered(worker).length, before + 1, `${backoff.kind} ${gap}`);
    }
  }
});

Deno.test("D14.17 after a timeout or a lost connection the time held counts", async () => {
  const rig = await QueueRig.open({
    backoff: { kind: "linear", baseMs: 10_000 },
    visibilityTimeoutMs: 8_000,
  });
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  await rig.puback(worker, last(worker));
  await rig.time.pass(8_000 + 1_999);
  assert.equal(offered(worker).length, 1);
  await rig.time.pass(1 + TICK);
  assert.equal(offered(worker).length, 2);
  const other = rig.worker("other");
  await rig.puback(worker, last(worker));
  await rig.time.pass(7_000);
  await rig.cut(worker);
  await rig.time.pass(13_000 - 2 * TICK);
  assert.deepEqual(offered(other), []);
  await rig.time.pass(3 * TICK);
  assert.deepEqual(offered(other), ["a"]);
});

Deno.test("D14.18 a job in backoff is stepped over", async () => {
  const rig = await QueueRig.open({ backoff: { kind: "linear", baseMs: 60_000 } });
  rig.publish("a");
  rig.publish("b");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  await rig.answer(worker, last(worker), "return");
  await rig.answer(worker, last(worker), "ack");
  rig.publish("c");
  await rig.time.pass(TICK);
  assert.deepEqual(offered(worker), ["a", "b", "c"]);
});

// ------------------------------------------------------------------------------------- dead letters

Deno.test("D14.15 D14.23 D14.24 the last attempt returned is dead-lettered at once", async () => {
  const rig = await QueueRig.open({ maxAttempts: 2 });
  rig.publish("a", { headers: [["k", "v"]], properties: { contentType: "x" } });
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  const { message } = last(worker);
  await rig.puback(worker, last(worker));
  await rig.time.pass(1_000);
  await rig.answer(worker, last(worker), "return");
  await rig.time.pass(TICK);
  await rig.answer(worker, last(worker), "return");
  const [letter] = await rig.deadLetters();
  assert.equal(rig.queue.store.depth(), 0);
  assert.equal(letter.message.topic, "jobs/__dlq/a");
  assert.equal(letter.message.messageId, message.messageId);
  assert.equal(letter.message.timestamp, message.timestamp);
  assert.equal(letter.message.properties.contentType, "x");
  assert.equal(text(letter.message.payload), "a");
  const second = new Date(START + TICK + 1_000 + TICK).toISOString();
  assert.deepEqual(letter.message.headers, [
    ["k", "v"],
    ["saguin-dlq-channel", "jobs"],
    ["saguin-dlq-offset", "1"],
    ["saguin-dlq-attempts", "2"],
    ["saguin-dlq-reason", "attempts_exhausted"],
    ["saguin-dlq-at", second],
    ["saguin-dlq-first", new Date(START + TICK).toISOString()],
    ["saguin-dlq-last", second],
  ]);
  assert.match(second, /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  assert.deepEqual([rig.queue.moves.moved, rig.queue.moves.expired], [1, 0]);
  assert.deepEqual(rig.queue.statistics, {
    delivered: 2,
    acknowledged: 0,
    returned: 1,
    redelivered: 0,
  });
});

Deno.test("D14.26 a dead letter reaches a reader of its channel live, its headers with it", async () => {
  const rig = await QueueRig.open({ maxAttempts: 1 });
  const reader = rig.session("reader");
  reader.subscribe({
    filter: "jobs/__dlq/#",
    qos: 1,
    noLocal: false,
    retainAsPublished: false,
    retainHandling: 0,
    logOffset: 1,
  }, false);
  rig.letters.join(reader, undefined, false);
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  await rig.answer(worker, last(worker), "return");
  await quiet();
  const letter = last(reader);
  assert.equal(letter.message.topic, "jobs/__dlq/a");
  const headers = new Map(letter.message.headers);
  assert.equal(headers.get("saguin-dlq-channel"), "jobs");
  assert.equal(labels(letter).get("saguin-offset"), "1");
});

Deno.test("D14.1 a timeout of the last attempt is dead-lettered too", async () => {
  const rig = await QueueRig.open({ maxAttempts: 1, visibilityTimeoutMs: 1_000 });
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  await rig.puback(worker, last(worker));
  await rig.time.pass(1_000);
  assert.equal((await rig.deadLetters()).length, 1);
  assert.equal(rig.queue.statistics.redelivered, 0);
});

Deno.test("D14.25 the sweep moves jobs too old, attempts made or none, without another delivery", async () => {
  const rig = await QueueRig.open({ jobExpiresAfterMs: 60_000 });
  rig.publish("old");
  rig.publish("untimed", { timestamp: 0n });
  await rig.time.pass(60_000);
  rig.publish("young");
  await rig.queue.sweep(rig.time.wall());
  assert.equal((await rig.deadLetters()).length, 0, "exactly as old is not older");
  await rig.time.pass(1);
  await rig.queue.sweep(rig.time.wall());
  const letters = await rig.deadLetters();
  assert.deepEqual(letters.map(({ message }) => text(message.payload)), ["old"]);
  const headers = new Map(letters[0].message.headers);
  assert.equal(headers.get("saguin-dlq-reason"), "expired");
  assert.equal(headers.get("saguin-dlq-attempts"), "0");
  assert.equal(headers.has("saguin-dlq-first"), false, "absent if never handed over");
  assert.equal(headers.has("saguin-dlq-last"), false);
  assert.equal(rig.queue.moves.expired, 1);
  assert.equal(rig.queue.store.depth(), 2);
});

Deno.test("D14.25 a sweep moves more jobs than it reads at once", async () => {
  const rig = await QueueRig.open({ jobExpiresAfterMs: 1_000 });
  for (let job = 0; job < 100; job++) rig.publish(`j${job}`);
  await rig.time.pass(1_001);
  await rig.queue.sweep(rig.time.wall());
  const letters = await rig.deadLetters();
  assert.equal(letters.length, 100);
  assert.deepEqual(letters.map(({ offset }) => offset), letters.map((_, i) => i + 1));
});

Deno.test("D14.25 a job too old at hand-over is moved, and the worker gets the next", async () => {
  const rig = await QueueRig.open({ jobExpiresAfterMs: 1_000 });
  rig.publish("old");
  await rig.time.pass(1_001);
  rig.publish("young");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  assert.deepEqual(offered(worker), ["young"]);
  assert.equal((await rig.deadLetters()).length, 1);
});

Deno.test("D14.25 a job exactly as old as allowed, or without a receipt time, is offered", async () => {
  const rig = await QueueRig.open({ jobExpiresAfterMs: 1_000 });
  rig.publish("edge");
  rig.publish("untimed", { timestamp: 0n });
  await rig.time.pass(1_000 - TICK);
  const workers = [rig.worker("v"), rig.worker("w")];
  await rig.time.pass(TICK);
  assert.deepEqual(workers.map(offered), [["edge"], ["untimed"]]);
});

Deno.test("D14.25 a job with a worker expires on hand-back, this attempt counted", async () => {
  const rig = await QueueRig.open({ jobExpiresAfterMs: 1_000 });
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  await rig.time.pass(5_000);
  await rig.queue.sweep(rig.time.wall());
  assert.equal((await rig.deadLetters()).length, 0, "out with a worker");
  await rig.answer(worker, last(worker), "return");
  const [letter] = await rig.deadLetters();
  const headers = new Map(letter.message.headers);
  assert.equal(headers.get("saguin-dlq-reason"), "expired");
  assert.equal(headers.get("saguin-dlq-attempts"), "1");
  assert.equal(headers.get("saguin-dlq-first"), new Date(START + TICK + 5_000).toISOString());
  assert.equal(rig.queue.statistics.returned, 0);
});

Deno.test("D4.11 the publisher's own expiry neither withholds nor ends a job", async () => {
  const rig = await QueueRig.open();
  rig.publish("a", { properties: { messageExpiry: 1 } });
  await rig.time.pass(5_000);
  await rig.queue.sweep(rig.time.wall());
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  assert.equal(last(worker).expiry, undefined, "run out: no interval is sent");
  assert.equal(labels(last(worker)).get("saguin-expires"), String(START + 1_000));
});

// ------------------------------------------------------------------------- restarts and failing stores

Deno.test("D14.28 after a restart jobs held are available, attempts kept, exhausted ones moved", async () => {
  const rig = await QueueRig.open({ maxAttempts: 2 });
  rig.publish("a");
  rig.publish("b");
  const worker = rig.worker("w");
  const other = rig.worker("other");
  await rig.time.pass(TICK);
  await rig.puback(worker, last(worker));
  await rig.puback(other, last(other));
  await rig.answer(worker, last(worker), "return");
  await rig.time.pass(TICK);
  await rig.puback(worker, last(worker));
  await rig.queue.stop();
  // Second run, on what the first one stored: a was attempted twice, b once.
  const stored = rig.provider.copy();
  const again = new QueueRig();
  await again.open({ channel: "jobs", kind: "queue" }, { channel: "jobs__dlq", kind: "append" });
  const jobs = stored.channels.find(({ name }) => name === "jobs")!;
  const rows = (again.provider.queue("jobs") as unknown as {
    rows: { restore(state: typeof jobs): void };
  }).rows;
  rows.restore(jobs);
  again.start({ maxAttempts: 2 });
  const late = again.worker("late");
  await again.time.pass(TICK);
  assert.deepEqual(offered(late), ["b"], "an exhausted job is not offered");
  assert.equal(labels(last(late)).get("saguin-attempt"), "2");
  await again.queue.sweep(again.time.wall());
  const [letter] = await again.deadLetters();
  assert.equal(text(letter.message.payload), "a");
  const headers = new Map(letter.message.headers);
  assert.equal(headers.get("saguin-dlq-reason"), "attempts_exhausted");
  assert.equal(headers.get("saguin-dlq-attempts"), "2");
});

const refuse = () => Promise.reject(new StorageFailure("failed", "disk"));

Deno.test("D14.22 a move that fails leaves the job, and is tried again", async () => {
  const rig = await QueueRig.open({ maxAttempts: 1 });
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  const { store } = rig.queue;
  const rows = (store as unknown as { rows: { deadLetter: unknown } }).rows;
  const deadLetter = rows.deadLetter;
  rows.deadLetter = refuse;
  await rig.answer(worker, last(worker), "return");
  await rig.time.pass(3_000);
  assert.equal((await rig.deadLetters()).length, 0);
  assert.equal(store.depth(), 1);
  assert.ok(rig.counters.storageErrors.get("jobs") > 1);
  assert.deepEqual(
    offered(worker),
    ["a"],
    "a job without an attempt left is not offered meanwhile",
  );
  rows.deadLetter = deadLetter;
  await rig.time.pass(1_000);
  const [letter] = await rig.deadLetters();
  assert.equal(new Map(letter.message.headers).get("saguin-dlq-attempts"), "1");
  assert.equal(store.depth(), 0);
});

Deno.test("an ack that cannot be stored brings the job back instead of losing or blocking it", async () => {
  const rig = await QueueRig.open();
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  const rows = (rig.queue.store as unknown as { rows: Record<string, unknown> }).rows;
  const { remove, recordAttempt } = rows;
  rows.remove = refuse;
  rows.recordAttempt = refuse;
  await rig.answer(worker, last(worker), "ack");
  assert.equal(rig.queue.inFlight, 0);
  rows.remove = remove;
  rows.recordAttempt = recordAttempt;
  await rig.time.pass(2_000);
  assert.deepEqual(offered(worker), ["a", "a"]);
  await rig.answer(worker, last(worker), "ack");
  assert.equal(rig.queue.store.depth(), 0);
});

Deno.test("a queue whose store cannot be read rests a second and goes on", async () => {
  const rig = await QueueRig.open();
  const { store } = rig.queue;
  const offer = store.offer.bind(store);
  let asked = 0;
  store.offer = () => {
    asked++;
    return Promise.reject(new StorageFailure("failed", "disk"));
  };
  rig.publish("a");
  const worker = rig.worker("w");
  await rig.time.pass(TICK + 999);
  assert.equal(asked, 1);
  store.offer = offer;
  await rig.time.pass(1 + TICK);
  assert.deepEqual(offered(worker), ["a"]);
});

Deno.test("an expired job that cannot be moved does not keep the queue busy", async () => {
  const rig = await QueueRig.open({ jobExpiresAfterMs: 10_000 });
  for (const name of ["a", "b", "c"]) rig.publish(name);
  await rig.time.pass(10_001);
  rig.publish("young");
  const rows = (rig.queue.store as unknown as { rows: Record<string, unknown> }).rows;
  const { deadLetter } = rows;
  rows.deadLetter = refuse;
  const worker = rig.worker("w");
  await rig.time.pass(TICK);
  assert.equal(rig.counters.storageErrors.get("jobs"), 1);
  rows.deadLetter = deadLetter;
  await rig.time.pass(3_000);
  assert.deepEqual(offered(worker), ["young"]);
  assert.equal((await rig.deadLetters()).length, 3);
});

Deno.test("a worker that joins before its connection is there is served once it is", async () => {
  const rig = await QueueRig.open();
  rig.publish("a");
  const session = rig.session("w", { expiry: 60 });
  session.detach();
  rig.queue.join(session);
  await rig.time.pass(5 * TICK);
  const link = new RecordingLink();
  session.resume(link);
  await rig.time.pass(TICK);
  assert.deepEqual(offered(session), ["a"]);
});
