import assert from "node:assert/strict";
import {
  BROADCAST_LOG,
  type Provider,
  type RecordRow,
  type SessionRecord,
} from "../../../src/storage/contract.ts";
import {
  appended,
  counters,
  enqueued,
  held,
  kindOf,
  message,
  set,
  type Subject,
  submit,
  window,
} from "./subject.ts";

const SIZE = 4;
const KILOBYTE = "x".repeat(1_000);
const AT = 1_700_000_000_000_000_000n;

/** Publishes records of a kilobyte until one is refused, and answers how many were kept. */
function fill(provider: Provider): Promise<number> {
  const store = provider.append("events");
  return untilFull(provider, () => appended(store, message("t", KILOBYTE)));
}

async function untilFull(provider: Provider, row: (count: number) => RecordRow): Promise<number> {
  for (let count = 0;; count++) {
    const outcome = await submit(provider, [row(count)]);
    if (outcome === "full") return count;
    assert.ok(count < 10_000, "the bound was never reached");
  }
}

export function boundsScript(subject: Subject): void {
  const { name } = subject;

  Deno.test(`${name}: S125 a record over its channel's bound is refused alone`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const store = provider.append("events");
    const audit = provider.append("audit");
    store.setMaxBytes(2 * SIZE);
    const outcomes = await Promise.all([
      submit(provider, [appended(store, message("t", "a"))]),
      submit(provider, [appended(audit, message("t", "b"))]),
      submit(provider, [appended(store, message("t", "c"))]),
      submit(provider, [appended(store, message("t", "d"))]),
      submit(provider, [appended(audit, message("t", "e"))]),
      submit(provider, [appended(store, message("t", "f")), appended(audit, message("t", "g"))]),
      submit(provider, [appended(audit, message("t", "h"))]),
    ]);
    assert.deepEqual(outcomes, [[1], [1], [2], "full", [2], "full", [3]]);
    assert.equal(await window(store, 1), "1:a 2:c");
    assert.equal(await window(audit, 1), "1:b 2:e 3:h");
    assert.equal(counters(store), `next=3 floor=1 bytes=${2 * SIZE}`);
    await store.trim(0n, SIZE);
    assert.deepEqual(await submit(provider, [appended(store, message("t", "i"))]), [3]);
    store.setMaxBytes(undefined);
    assert.deepEqual(await submit(provider, [appended(store, message("t", "j"))]), [4]);
  });

  Deno.test(`${name}: S125 the rows of one entry count together against a bound`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const store = provider.append("events");
    store.setMaxBytes(2 * SIZE);
    const rows = ["a", "b", "c"].map((payload) => appended(store, message("t", payload)));
    assert.equal(await submit(provider, rows), "full");
    assert.equal(counters(store), "next=1 floor=1 bytes=0");
    assert.deepEqual(await submit(provider, rows.slice(0, 2)), [1, 2]);
  });

  Deno.test(`${name}: D14.20 a full queue takes jobs again as work resolves`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const queue = provider.queue("jobs");
    queue.setMaxBytes(2 * SIZE);
    const enqueue = () => submit(provider, [enqueued(queue, message("t", "a"))]);
    assert.deepEqual(await enqueue(), [1]);
    assert.deepEqual(await enqueue(), [2]);
    assert.equal(await enqueue(), "full");
    const offer = await queue.offer(0);
    assert.ok(offer !== undefined);
    assert.equal(await enqueue(), "full");
    assert.equal(await queue.resolve(offer), true);
    assert.deepEqual(await enqueue(), [3]);
  });

  Deno.test(`${name}: S178 S185 a full provider refuses publishes and lets relief through`, async () => {
    await using opened = await subject.open(subject.bound);
    const { provider } = opened;
    const queue = provider.queue("jobs");
    const letters = provider.append("jobs__dlq");
    queue.setMaxAttempts(1);
    for (const payload of ["a", "b", "c"]) {
      await submit(provider, [enqueued(queue, message("t", payload))]);
    }
    await submit(provider, [held(provider.append("audit"), "c1", 7, message("t", "held"))]);
    const kept = await fill(provider);
    assert.ok(kept > 50, `only ${kept} records fitted`);
    const full = message("t", KILOBYTE);
    // A file has room in the pages of each table until they are full too.
    const state = provider.latest("state");
    const others = [
      await untilFull(provider, () => enqueued(queue, full)),
      await untilFull(provider, (count) => set(state, message(`t${count}`, KILOBYTE))),
      await untilFull(provider, (count) => held(queue, "c1", 100 + count, full)),
      await fill(provider),
    ];
    for (const count of others) assert.ok(count < 10, `${others}`);
    const before = counters(provider.append("events"));

    const [a, b] = [await queue.offer(0), await queue.offer(0)];
    assert.ok(a !== undefined && b !== undefined);
    assert.equal(await queue.lease(a, AT, 100), true);
    assert.equal(await queue.release(a, { spend: false, at: AT, gapFrom: 0 }), "spent");
    const letter = message("t/__dlq", "a", { headers: [["saguin-dlq-reason", "attempts"]] });
    assert.equal((await queue.deadLetter(a.offset, a, letter, letters))?.offset, 1);
    assert.equal(await queue.resolve(b), true);
    const position = { reader: "bridge:up", offset: 2, expiry: 0, lastSeen: 0n };
    await provider.append("events").savePosition(position, "connected");
    assert.equal((await provider.append("audit").releaseHold("c1", 7))?.offset, 1);

    assert.equal(await submit(provider, [appended(provider.append("events"), full)]), "full");
    assert.equal(counters(provider.append("events")), before);
    const { removed } = await provider.append("events").trim(0n, 20_000);
    assert.ok(removed > 0);
    const next = provider.append("events").next();
    assert.deepEqual(await submit(provider, [appended(provider.append("events"), full)]), [next]);
  });

  Deno.test(`${name}: S109 the broadcast log makes room for other writes, sparing what is on a wire`, async () => {
    await using opened = await subject.open(subject.bound);
    const { provider } = opened;
    const log = provider.append(BROADCAST_LOG);
    const session: SessionRecord = {
      clientId: "c1",
      expiry: 60,
      awaySince: 1n,
      subscriptions: [],
      will: undefined,
      willDue: 0n,
      window: 10,
    };
    await provider.sessions().begin(session, 1, "answering");
    for (let i = 0; i < 20; i++) {
      await submit(provider, [appended(log, message("t", KILOBYTE))]);
    }
    const put = [{ packetId: 1, offset: 2, qos: 1 as const, state: "sent" as const, group: "" }];
    await provider.sessions().change({ clientId: "c1", put, drop: [] }, "connected");
    while (
      await submit(provider, [appended(provider.append("events"), message("t", KILOBYTE))]) !==
        "full"
    );
    const answer = await log.readFrom(log.floor(), 100, 1_000_000);
    assert.ok(!answer.belowFloor);
    assert.deepEqual(answer.records.map(({ offset }) => offset), [2]);
    assert.equal(log.floor(), 2);
    assert.equal(log.next(), 21);
    assert.equal(await submit(provider, [appended(log, message("t", KILOBYTE))]), "full");
  });

  Deno.test(`${name}: S6 a refused entry leaves nothing, whichever of its rows is refused`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const queue = provider.queue("jobs");
    queue.setMaxBytes(1);
    const rows = [
      appended(provider.append("events"), message("t", "a")),
      set(provider.latest("state"), message("t", "b")),
      held(provider.append("audit"), "c1", 1, message("t", "c")),
      enqueued(queue, message("t", "d")),
    ];
    assert.equal(await kindOf(submit(provider, rows)), "full");
    assert.equal(counters(provider.append("events")), "next=1 floor=1 bytes=0");
    assert.equal(await provider.latest("state").get("t"), undefined);
    assert.equal(provider.latest("state").next(), 1);
    assert.equal(await provider.append("audit").held("c1", 1), undefined);
  });
}
