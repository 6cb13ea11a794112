import assert from "node:assert/strict";
import type { StoreSpec } from "../../../src/storage/contract.ts";
import type {
  Answer,
  Opened,
  PublishAnswer,
  Write,
  WriteAnswer,
} from "../../../src/storage/sqlite/messages.ts";
import { FIRST_OF_ENTRY, RowKind } from "../../../src/storage/sqlite/messages.ts";
import { Packer } from "../../../src/storage/sqlite/packing.ts";
import { Writer } from "../../../src/storage/sqlite/writer.ts";
import { inTempDir, message } from "./support/provider.ts";

const SPECS: StoreSpec[] = [{ channel: "readings", kind: "append" }];

/** The writer itself, in this thread. */
async function withWriter(
  use: (writer: Writer, publishWaits: Int32Array, opened: Opened) => void,
  writer = new Writer(),
): Promise<void> {
  await inTempDir((filePath) => {
    const publishWaits = new SharedArrayBuffer(4);
    const answer = writer.handle({
      ask: "open",
      filePath,
      revision: "test",
      now: 1n,
      stores: SPECS,
      maxBytes: undefined,
      reserveBytes: 0,
      publishWaits,
    }) as Answer;
    assert.ok("value" in answer);
    try {
      use(writer, new Int32Array(publishWaits), answer.value as Opened);
    } finally {
      writer.handle({ ask: "close" });
    }
    return Promise.resolve();
  });
}

function position(i: number): Write {
  const reader = `mqtt:c${i}`;
  return {
    op: "savePosition",
    store: 0,
    position: { reader, offset: i + 1, expiry: 60, lastSeen: 5n },
  };
}

function storedPositions(writer: Writer): number {
  const answer = writer.handle({ ask: "read", read: { op: "sessionPositions", after: ["", ""] } });
  return (answer as { value: unknown[] }).value.length;
}

/** A writer whose clock goes on by so much with every look at it. */
function ticking(stepMs: number): Writer {
  let at = 0;
  return new Writer(() => at += stepMs);
}

Deno.test("S130 a session transaction gives way to a waiting publish after a millisecond, else after five", () =>
  withWriter((writer, publishWaits) => {
    const writes = Array.from({ length: 100 }, (_, i) => position(i));
    const run = (yields: boolean) =>
      (writer.handle({ ask: "write", writes, yields }) as WriteAnswer).outcomes.length;
    Atomics.store(publishWaits, 0, 1);
    assert.equal(run(true), 4);
    assert.equal(storedPositions(writer), 4);
    Atomics.store(publishWaits, 0, 0);
    assert.equal(run(true), 20);
    assert.equal(storedPositions(writer), 20);
    // Those who do not give way run to their end.
    Atomics.store(publishWaits, 0, 1);
    assert.equal(run(false), 100);
  }, ticking(0.25)));

Deno.test("S130 a write that takes long is the only one of its transaction while a publish waits", () =>
  withWriter((writer, publishWaits) => {
    Atomics.store(publishWaits, 0, 1);
    const { outcomes } = writer.handle({
      ask: "write",
      writes: [0, 1, 2].map(position),
      yields: true,
    }) as WriteAnswer;
    assert.equal(outcomes.length, 1);
    assert.equal(storedPositions(writer), 1);
  }, ticking(1)));

Deno.test("S16 offsets of a group that failed are taken again, counters as before", () =>
  withWriter((writer) => {
    const packer = new Packer();
    const add = (kind: number, packetId: number) =>
      packer.add(message("t", "x"), kind | FIRST_OF_ENTRY, 0, packetId, 38, 1n);
    add(RowKind.Append, 0);
    add(RowKind.Hold, 7);
    const first = writer.handle({ ask: "publish", pack: packer.finish() }) as PublishAnswer;
    assert.deepEqual([...first.offsets!], [1, 0]);
    assert.deepEqual(first.counters, [0, 2, 1, 38, 0]);
    // A group of nothing but a second hold of that identifier: one entry, so it fails as a whole.
    add(RowKind.Append, 0);
    packer.add(message("t", "x"), RowKind.Hold, 0, 7, 38, 1n);
    const refused = writer.handle({ ask: "publish", pack: packer.finish() }) as PublishAnswer;
    assert.equal(refused.failure?.kind, "failed");
    assert.deepEqual(refused.counters, []);
    add(RowKind.Append, 0);
    const next = writer.handle({ ask: "publish", pack: packer.finish() }) as PublishAnswer;
    assert.deepEqual([...next.offsets!], [2]);
    assert.deepEqual(next.counters, [0, 3, 1, 76, 0]);
  }));

Deno.test("S124 records past one INSERT of eight keep their order and their fields", () =>
  withWriter((writer) => {
    const packer = new Packer();
    for (let i = 0; i < 21; i++) {
      const more = { headers: [["n", `${i}`]] as [string, string][], onlyFor: i % 2 ? "c" : "" };
      packer.add(message(`t/${i}`, `p${i}`, more), RowKind.Append | FIRST_OF_ENTRY, 0, 0, 10, 0n);
    }
    writer.handle({ ask: "publish", pack: packer.finish() });
    const answer = writer.handle({
      ask: "read",
      read: { op: "window", store: 0, from: 1, max: 100, maxBytes: 1e6 },
    }) as { value: { records: { rows: number; text: string; offsets: Float64Array } } };
    const { rows, offsets, text } = answer.value.records;
    assert.equal(rows, 21);
    assert.deepEqual([...offsets], Array.from({ length: 21 }, (_, i) => i + 1));
    assert.ok(text.includes('t/20[["n","20"]]'));
  }));
