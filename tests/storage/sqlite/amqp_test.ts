/** The AMQP tables of a sqlite provider: rows of publishes, changes of what is declared, and a crash. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { INDEX_NUMBERS } from "../../../src/storage/amqp.ts";
import type { AmqpStore } from "../../../src/storage/amqp.ts";
import { type Provider, type PublishRow, StorageFailure } from "../../../src/storage/contract.ts";
import { openProvider } from "./support/amqp_provider.ts";

const bytes = (text: string) => new TextEncoder().encode(text);
const text = (content: Uint8Array) => new TextDecoder().decode(content);
const NO_ARGS = Uint8Array.of(0, 0, 0, 0);

function copy(store: AmqpStore, queue: number, seq: number, body: string): PublishRow {
  return {
    kind: "amqp-copy",
    store,
    queue,
    seq,
    exchange: "ex",
    routingKey: "a.b",
    content: bytes("\x10\x00\x02" + body),
    propertyBytes: 3,
    offset: 0,
  };
}

function drop(store: AmqpStore, queue: number, seq: number): PublishRow {
  return { kind: "amqp-drop", store, queue, seq, offset: 0 };
}

function submit(provider: Provider, ...rows: PublishRow[]): Promise<StorageFailure | undefined> {
  return new Promise((settled) => provider.submit({ rows, bytes: 100, settled }));
}

function declare(store: AmqpStore, id: number, name: string, autoDelete = false): Promise<void> {
  return store.change({
    change: "declare-queue",
    queue: { id, name, autoDelete, args: NO_ARGS },
  });
}

async function seqs(store: AmqpStore): Promise<number[][]> {
  const index = await store.index({ queue: 0, seq: 0 }, 1_000);
  const found: number[][] = [];
  for (let at = 0; at < index.length; at += INDEX_NUMBERS) {
    found.push([...index.subarray(at, at + INDEX_NUMBERS)]);
  }
  return found;
}

Deno.test("T7, A59 what is declared and stored is found again, byte for byte and in order", async () => {
  await using house = await openProvider();
  const { provider, store } = house;
  assert.deepEqual(await store.load(), {
    exchanges: [],
    queues: [],
    bindings: [],
    lastSeq: 0,
    orphans: 0,
  });
  await store.change({
    change: "declare-exchange",
    exchange: { name: "x", type: "topic", autoDelete: true, args: Uint8Array.of(1) },
  });
  await declare(store, 1, "one", true);
  await declare(store, 2, "two");
  const binding = { exchange: "x", queue: 2, routingKey: "a.*", args: NO_ARGS };
  await store.change({ change: "bind", binding });
  await store.change({ change: "bind", binding });
  const rows = [copy(store, 2, 5, "five"), copy(store, 1, 6, ""), copy(store, 2, 7, "\0\xff")];
  assert.equal(await submit(provider, ...rows), undefined);
  assert.ok(rows.every(({ offset }) => offset === 0));
  await house.again();
  const again = house.store;
  const loaded = await again.load();
  assert.deepEqual(loaded.exchanges, [
    { name: "x", type: "topic", autoDelete: true, args: Uint8Array.of(1) },
  ]);
  assert.deepEqual(loaded.queues.map(({ id, name, autoDelete }) => [id, name, autoDelete]), [
    [1, "one", true],
    [2, "two", false],
  ]);
  assert.deepEqual(loaded.bindings, [binding]);
  assert.equal(loaded.lastSeq, 7);
  assert.deepEqual(await seqs(again), [[1, 6, 0], [2, 5, 4], [2, 7, bytes("\0\xff").length]]);
  const messages = await again.read(2, 0, 10, 1_000);
  assert.deepEqual(messages.map(({ seq, exchange, routingKey }) => [seq, exchange, routingKey]), [
    [5, "ex", "a.b"],
    [7, "ex", "a.b"],
  ]);
  assert.equal(text(messages[0].content.subarray(messages[0].propertyBytes)), "five");
  assert.deepEqual(messages[1].content, bytes("\x10\x00\x02\0\xff"));
});

Deno.test("a read gives at least one message and stops near its bound", async () => {
  await using house = await openProvider();
  const { provider, store } = house;
  await declare(store, 1, "q");
  const body = "x".repeat(1_000);
  await submit(provider, ...[1, 2, 3, 4].map((seq) => copy(store, 1, seq, body)));
  assert.equal((await store.read(1, 0, 10, 1)).length, 1);
  assert.deepEqual((await store.read(1, 2, 10, 2_100)).map(({ seq }) => seq), [2, 3]);
  assert.equal((await store.read(1, 0, 3, 1_000_000)).length, 3);
  assert.equal((await store.read(1, 5, 3, 1_000_000)).length, 0);
});

Deno.test("A46 a copy for a queue that is gone is left out, and its neighbours are kept", async () => {
  await using house = await openProvider();
  const { provider, store } = house;
  await declare(store, 1, "q");
  const rows = [copy(store, 9, 1, "nowhere"), copy(store, 1, 2, "here")];
  assert.equal(await submit(provider, ...rows), undefined);
  assert.deepEqual(await seqs(store), [[1, 2, 4]]);
});

Deno.test("A42 a drop goes with the publish that causes it, and is counted on its queue", async () => {
  await using house = await openProvider();
  const { provider, store } = house;
  await declare(store, 1, "q");
  await submit(provider, copy(store, 1, 1, "a"));
  const before = provider.statistics().commits;
  await submit(provider, copy(store, 1, 2, "b"), drop(store, 1, 1));
  assert.equal(provider.statistics().commits, before + 1);
  await submit(provider, drop(store, 1, 77));
  assert.deepEqual(await seqs(store), [[1, 2, 1]]);
  await store.remove({ queues: [1], seqs: [2], dropped: true }, "connected");
  await house.again();
  assert.equal((await house.store.load()).queues[0].dropped, 2);
});

Deno.test("removals and deletions take rows, and a deletion takes bindings and messages along", async () => {
  await using house = await openProvider();
  const { provider, store } = house;
  await declare(store, 1, "q");
  await declare(store, 2, "r");
  await store.change({
    change: "declare-exchange",
    exchange: { name: "x", type: "direct", autoDelete: false, args: NO_ARGS },
  });
  for (const queue of [1, 2]) {
    for (const exchange of ["x", "amq.topic"]) {
      await store.change({
        change: "bind",
        binding: { exchange, queue, routingKey: "k", args: NO_ARGS },
      });
    }
  }
  await submit(provider, ...[1, 2, 3, 4].map((seq) => copy(store, 1 + seq % 2, seq, "m")));
  await store.remove({ queues: [2, 1], seqs: [1, 2], dropped: false }, "answering");
  assert.deepEqual(await seqs(store), [[1, 4, 1], [2, 3, 1]]);
  assert.equal(await store.clear(2), false);
  assert.deepEqual(await seqs(store), [[1, 4, 1]]);
  await store.change({ change: "delete-queue", id: 1 });
  await store.change({ change: "delete-exchange", name: "x" });
  await house.again();
  const { queues, bindings, exchanges } = await house.store.load();
  assert.deepEqual(queues.map(({ name }) => name), ["r"]);
  assert.deepEqual(exchanges, []);
  assert.deepEqual(bindings, [
    { exchange: "amq.topic", queue: 2, routingKey: "k", args: NO_ARGS },
  ]);
  assert.deepEqual(await seqs(house.store), []);
});

Deno.test("T8 a queue left over under another number gives way to the one declared now", async () => {
  await using house = await openProvider();
  const { provider, store } = house;
  await declare(store, 1, "q");
  await submit(provider, copy(store, 1, 1, "old"));
  await declare(store, 2, "q");
  await declare(store, 2, "q");
  assert.deepEqual(await seqs(store), []);
  assert.deepEqual((await store.load()).queues.map(({ id }) => id), [2]);
});

Deno.test("A59 a message whose queue was taken away is deleted and counted", async () => {
  await using house = await openProvider();
  await declare(house.store, 1, "q");
  await submit(house.provider, copy(house.store, 1, 1, "m"), copy(house.store, 1, 2, "n"));
  await house.close();
  const database = new DatabaseSync(house.filePath);
  database.exec("PRAGMA foreign_keys=0; DELETE FROM amqp_queue");
  database.close();
  await house.again();
  assert.equal((await house.store.load()).orphans, 2);
  assert.deepEqual(await seqs(house.store), []);
});

Deno.test("A17, T3 a probe fails while publishes have no room, and passes once an ack has made some", async () => {
  await using house = await openProvider({ maxBytes: 400 * 1024, reserveBytes: 64 * 1024 });
  const { provider, store } = house;
  await declare(store, 1, "q");
  await store.probe(16 * 1024);
  let stored = 0;
  const body = "x".repeat(8_000);
  while (await submit(provider, copy(store, 1, stored + 1, body)) === undefined) stored++;
  await assert.rejects(store.probe(16 * 1024), (error) => {
    return error instanceof StorageFailure && error.kind === "full";
  });
  const taken = Array.from({ length: stored }, (_, i) => i + 1);
  await store.remove({ queues: taken.map(() => 1), seqs: taken, dropped: false }, "connected");
  await store.probe(16 * 1024);
});

Deno.test("T1, S198 a file without AMQP has none of its tables, and the version stays 20", async () => {
  await using house = await openProvider({ amqp: false });
  assert.throws(() => house.provider.amqp(), /without the AMQP tables/);
  const names = () =>
    house.rows("SELECT name FROM sqlite_schema WHERE name LIKE 'amqp%'").map(({ name }) => name);
  assert.deepEqual(names(), []);
  await house.again({ amqp: true });
  assert.ok(names().includes("amqp_msg"));
  assert.equal(house.rows("PRAGMA user_version")[0].user_version, 20);
});
