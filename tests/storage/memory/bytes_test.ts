import assert from "node:assert/strict";
import { systemClock } from "../../../src/platform/clock.ts";
import { RETAINED, type SessionRecord } from "../../../src/storage/contract.ts";
import { ByteCount } from "../../../src/storage/memory/byte_count.ts";
import { sessionCharge } from "../../../src/storage/memory/session_charge.ts";
import { MemorySessionStore } from "../../../src/storage/memory/session_store.ts";
import {
  appended,
  enqueued,
  held,
  kindOf,
  message,
  retained,
  set,
  submit,
} from "../conformance/subject.ts";
import { memory } from "../conformance/memory_subject.ts";

function session(clientId: string, filters: string[] = []): SessionRecord {
  return {
    clientId,
    expiry: 60,
    awaySince: 0n,
    subscriptions: filters.map((filter) => ({
      filter,
      qos: 1,
      noLocal: false,
      retainAsPublished: false,
      retainHandling: 0,
      logOffset: 1,
    })),
    will: undefined,
    willDue: 0n,
    window: 10,
  };
}

Deno.test("S177 S183 one counter for every store, and every removal gives its bytes back", async () => {
  await using opened = await memory.open();
  const { provider } = opened;
  const used = () => provider.statistics().bytes;
  const x = message("t", "x");
  await submit(provider, [
    appended(provider.append("events"), x),
    set(provider.latest("state"), x),
    retained(provider.latest(RETAINED), x),
    enqueued(provider.queue("jobs"), x),
    held(provider.append("events"), "c", 1, x),
  ]);
  assert.equal(used(), 20);
  await submit(provider, [set(provider.latest("state"), message("t", "longer"))]);
  assert.equal(used(), 25);
  await submit(provider, [set(provider.latest("state"), message("t", ""))]);
  assert.equal(used(), 19);
  await provider.latest("state").trim(0n, 2n ** 62n);
  assert.equal(used(), 16);
  await submit(provider, [retained(provider.latest(RETAINED), message("t", ""))]);
  assert.equal(used(), 12);
  assert.equal((await provider.append("events").releaseHold("c", 1))?.offset, 2);
  assert.equal(used(), 12);
  const offer = await provider.queue("jobs").offer(0);
  const letters = provider.append("jobs__dlq");
  await provider.queue("jobs").deadLetter(1, offer, message("t", "letter"), letters);
  assert.equal(used(), 17);
  await letters.trim(0n, 0);
  await provider.append("events").trim(0n, 0);
  assert.equal(used(), 0);
  await submit(provider, [held(provider.latest("state"), "c", 2, x)]);
  assert.equal(await provider.latest("state").abandonHold("c", 2, "departed"), true);
  assert.equal(used(), 0);
});

Deno.test("S22 S184 S188 publishes stop at the reserve, relief does not ask", () => {
  const count = new ByteCount(100, 20, () => false);
  assert.equal(count.charge(80), true);
  assert.equal(count.charge(1), false);
  assert.equal(count.charge(0), true);
  assert.equal(count.charge(-5), true);
  count.adjust(30);
  assert.equal(count.used, 105);
  assert.equal(count.charge(-10), true);
  assert.equal(count.charge(1), false);
});

Deno.test("S109 room is asked for only when it is missing, and no more than that", () => {
  const asked: number[] = [];
  const count = new ByteCount(100, 0, (bytes) => {
    asked.push(bytes);
    count.adjust(-bytes);
    return true;
  });
  count.charge(100);
  assert.deepEqual(asked, []);
  assert.equal(count.charge(30), true);
  assert.deepEqual(asked, [30]);
  assert.equal(count.charge(101), false);
  assert.deepEqual(asked, [30]);
});

Deno.test("a session is charged by its filters, levels, shares and Will", () => {
  assert.equal(sessionCharge(session("c1")), 3_502);
  assert.equal(sessionCharge(session("c1", ["a"])), 3_502 + 801);
  assert.equal(sessionCharge(session("c1", ["a/b/+"])), 3_502 + 800 + 2 * 600 + 5);
  assert.equal(sessionCharge(session("c1", ["$share/g/a/b"])), 3_502 + 800 + 400 + 600 + 12);
  const will = {
    topic: "w",
    payload: new Uint8Array(10),
    qos: 1 as const,
    retain: false,
    delay: 0,
    properties: { contentType: "ab", correlationData: new Uint8Array(3) },
    headers: [["n", "v"] as const],
    user: "",
  };
  assert.equal(sessionCharge({ ...session("c1"), will }), 3_502 + 1 + 10 + 2 + 3 + 2);
});

Deno.test("S185 a full session store refuses what grows it and takes what does not", async () => {
  const count = new ByteCount(8_000, 0, () => false);
  const store = new MemorySessionStore(count, systemClock, () => 10);
  await store.begin(session("a"), 1, "answering");
  await store.begin(session("b"), 1, "answering");
  assert.equal(await kindOf(store.begin(session("c"), 1, "answering")), "full");
  assert.equal(await kindOf(store.save(session("a", ["t/u"]), "answering")), "full");
  await store.begin(session("a"), 2, "answering");
  await store.save({ ...session("a"), awaySince: 7n }, "departed");
  const entry = { packetId: 1, offset: 1, qos: 1 as const, state: "sent" as const, group: "" };
  await store.change({ clientId: "a", put: [entry], drop: [] }, "connected");
  assert.equal(store.isOnWire(1), true);
  await store.end("a", "departed");
  assert.equal(store.isOnWire(1), false);
  assert.equal(count.used, 3_501);
  await store.begin(session("c"), 1, "answering");
});

Deno.test("D6.5 a session begun anew ends the group it was the last member of", async () => {
  const store = new MemorySessionStore(
    new ByteCount(undefined, 0, () => false),
    systemClock,
    () => 10,
  );
  const group = "$share/g/t";
  const cursor = { name: group, cursor: 1, returned: [] };
  await store.begin(session("a", [group]), 1, "answering", [cursor]);
  await store.begin(session("b", [group]), 1, "answering");
  await store.begin(session("a"), 1, "answering");
  assert.equal((await store.load()).groups.length, 1);
  await store.begin(session("b", [group]), 1, "answering");
  assert.equal((await store.load()).groups.length, 0);
});

Deno.test("D14.22 a dead letter for another provider's channel is refused, and the job stays", async () => {
  await using opened = await memory.open();
  await using other = await memory.open();
  const queue = opened.provider.queue("jobs");
  await submit(opened.provider, [enqueued(queue, message("t", "a"))]);
  const foreign = other.provider.append("jobs__dlq");
  const letter = message("t", "x");
  assert.equal(await kindOf(queue.deadLetter(1, undefined, letter, foreign)), "failed");
  assert.equal(queue.depth(), 1);
  assert.equal(foreign.next(), 1);
  assert.equal((await queue.offer(0))?.offset, 1);
});

Deno.test("an entry whose publisher throws is kept, and the next one is served", async () => {
  await using opened = await memory.open();
  const { provider } = opened;
  const store = provider.append("events");
  const rows = [appended(store, message("t", "a"))];
  provider.submit({
    rows,
    bytes: 4,
    settled: () => {
      throw new Error("gone");
    },
  });
  assert.equal(rows[0].offset, 1);
  assert.deepEqual(await submit(provider, [appended(store, message("t", "b"))]), [2]);
});
