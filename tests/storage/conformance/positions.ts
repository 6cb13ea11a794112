import assert from "node:assert/strict";
import { type Position, type Provider, sessionReader } from "../../../src/storage/contract.ts";
import { appended, message, type Subject, submit } from "./subject.ts";

/** Ten records: positions do not lead. */
async function fill(provider: Provider): Promise<void> {
  for (const log of ["events", "audit"]) {
    for (let i = 0; i < 10; i++) {
      await submit(provider, [appended(provider.append(log), message("t", "x"))]);
    }
  }
}

function at(reader: string, offset: number, expiry = 60, lastSeen = 1_000_000_000n): Position {
  return { reader, offset, expiry, lastSeen };
}

export function positionsScript(subject: Subject): void {
  const { name } = subject;

  Deno.test(`${name}: S36 S88 a position is set, replaced, read and dropped by its reader`, async () => {
    await using opened = await subject.open();
    await fill(opened.provider);
    const store = opened.provider.append("events");
    assert.equal(await store.position(sessionReader("c1")), undefined);
    assert.equal(store.lowestPosition(), 0);
    await store.savePosition(at(sessionReader("c1"), 5), "connected");
    await store.savePosition(at(sessionReader("c2"), 3), "answering");
    await store.savePosition(at("bridge:up", 9, 0, 0n), "departed");
    assert.deepEqual(await store.position(sessionReader("c1")), at(sessionReader("c1"), 5));
    assert.equal(store.lowestPosition(), 3);
    await store.savePosition(at(sessionReader("c2"), 7, 30, 2n), "connected");
    assert.deepEqual(await store.position(sessionReader("c2")), at(sessionReader("c2"), 7, 30, 2n));
    assert.equal(store.lowestPosition(), 5);
    assert.equal(await store.dropPosition(sessionReader("c1"), "departed"), true);
    assert.equal(await store.dropPosition(sessionReader("c1"), "departed"), false);
    assert.equal(store.lowestPosition(), 7);
    assert.equal(await opened.provider.append("audit").position(sessionReader("c2")), undefined);
  });

  Deno.test(`${name}: S40 positions of ended sessions go, those held and those of bridges stay`, async () => {
    await using opened = await subject.open();
    await fill(opened.provider);
    const { provider } = opened;
    const events = provider.append("events");
    const audit = provider.append("audit");
    const second = 1_000_000_000n;
    await events.savePosition(at(sessionReader("over"), 1, 10, 100n * second), "connected");
    await events.savePosition(at(sessionReader("running"), 1, 10, 101n * second), "connected");
    await events.savePosition(at(sessionReader("held"), 1, 10, 1n), "connected");
    await events.savePosition(at(sessionReader("never"), 1, 0, 110n * second), "connected");
    await events.savePosition(at("bridge:up", 1, 0, 1n), "connected");
    await audit.savePosition(at(sessionReader("over"), 1, 10, 100n * second), "connected");
    const now = 111n * second;
    assert.equal(await provider.sweepPositions((clientId) => clientId === "held", now), 3);
    assert.equal(await events.position(sessionReader("over")), undefined);
    assert.equal(await audit.position(sessionReader("over")), undefined);
    assert.equal(await events.position(sessionReader("never")), undefined);
    assert.equal((await events.position(sessionReader("running")))?.offset, 1);
    assert.equal((await events.position(sessionReader("held")))?.offset, 1);
    assert.equal((await events.position("bridge:up"))?.offset, 1);
  });

  Deno.test(`${name}: 05 7.3 positions are counted, and listed from the one furthest behind`, async () => {
    await using opened = await subject.open();
    await fill(opened.provider);
    const store = opened.provider.append("events");
    assert.equal(store.positionCount(), 0);
    assert.deepEqual(await store.lowestPositions(10), []);
    for (const [reader, offset] of [["d", 4], ["b", 9], ["c", 2], ["a", 4]] as const) {
      await store.savePosition(at(sessionReader(reader), offset, 60, 7n), "connected");
    }
    await opened.provider.append("audit").savePosition(at("bridge:up", 1, 0, 0n), "connected");
    assert.equal(store.positionCount(), 4);
    const lowest = await store.lowestPositions(3);
    assert.deepEqual(lowest.map(({ reader }) => reader), ["mqtt:c", "mqtt:a", "mqtt:d"]);
    assert.deepEqual(lowest[0], at("mqtt:c", 2, 60, 7n));
    await store.savePosition(at(sessionReader("c"), 10), "connected");
    await store.dropPosition(sessionReader("d"), "connected");
    assert.equal(store.positionCount(), 3);
    assert.deepEqual(
      (await store.lowestPositions(10)).map(({ reader }) => reader),
      ["mqtt:a", "mqtt:b", "mqtt:c"],
    );
  });

  Deno.test(`${name}: S38 positions outlive a graceful stop`, async () => {
    await using opened = await subject.open();
    await fill(opened.provider);
    const kept = at("bridge:up", 4, 0, 1_789_012_345_678_901_234n);
    await opened.provider.append("events").savePosition({ ...kept, offset: 1 }, "connected");
    await opened.provider.append("audit").savePosition({ ...kept, offset: 1 }, "connected");
    await opened.provider.append("audit").dropPosition(kept.reader, "connected");
    await opened.restart();
    const store = opened.provider.append("events");
    assert.deepEqual(await store.position(kept.reader), { ...kept, offset: 1 });
    assert.equal(store.lowestPosition(), 1);
    assert.equal(await opened.provider.append("audit").position(kept.reader), undefined);
  });
}
