/** Queries of ingest tables: what they find, in which pieces, and what they cannot do (07 N12). */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { type Provider, StorageFailure } from "../../../src/storage/contract.ts";
import { openForReading } from "../../../src/storage/sqlite/connection.ts";
import { readIngested } from "../../../src/storage/sqlite/ingest_reads.ts";
import { type AmqpHouse, openProvider } from "./support/amqp_provider.ts";
import { filled, PLAIN, rowOf, stored, WITH_COLUMNS } from "./support/ingest.ts";

Deno.test("N12 a query answers the newest rows that meet its conditions, and where they go on", async () => {
  await using house = await openProvider({ ingest: [WITH_COLUMNS] });
  await filled(house, 10);
  const store = house.provider.ingest();
  const query = {
    table: 0,
    topic: "t/1",
    from: 2,
    to: 9,
    conditions: [
      { column: "value", is: ">=", value: 3 },
      { column: "unit", is: "=", value: "C" },
    ],
    limit: 2,
  } as const;
  const row = (i: number) => ({
    id: i + 1,
    topic: "t/1",
    receivedAt: i,
    messageId: `m${i}`,
    doc: `{"value":${i},"unit":"C"}`,
    isJson: true,
  });
  const first = await store.query(query);
  assert.deepEqual(first, { rows: [row(7), row(5)], next: { receivedAt: 5, id: 6 } });
  assert.deepEqual(await store.query({ ...query, before: first.next! }), {
    rows: [row(3)],
    next: undefined,
  });
});

/** Every row of a query, page by page. */
async function allIds(
  house: AmqpHouse,
  query: Parameters<ReturnType<Provider["ingest"]>["query"]>[0],
): Promise<number[]> {
  const ids: number[] = [];
  let before = query.before;
  for (;;) {
    const { rows, next } = await house.provider.ingest().query({
      ...query,
      ...before === undefined ? {} : { before },
    });
    ids.push(...rows.map(({ id }) => id));
    if (next === undefined) return ids;
    before = next;
  }
}

for (const readConnections of [0, 1]) {
  Deno.test(`N12 pages hold every row once, by index or by time, over ${readConnections} readers`, async () => {
    await using house = await openProvider({ ingest: [WITH_COLUMNS], readConnections });
    // Fifty rows of each moment: pages and pieces end among them.
    const count = 5_000;
    await stored(
      house,
      ...Array.from(
        { length: count },
        (_, i) =>
          rowOf(house.provider, `{"value":${i % 100},"unit":"${i % 7}"}`, {
            topic: `t/${i % 3}`,
            at: Math.floor(i / 50),
          }),
      ),
    );
    const newest = (meets: (i: number) => boolean) =>
      Array.from({ length: count }, (_, i) => i).filter(meets).map((i) => i + 1).reverse();
    const conditions = (column: string, is: "=" | ">=" | "<", value: string | number) => [
      { column, is, value },
    ];
    const all = { table: 0, conditions: [], limit: 333 };
    assert.deepEqual(await allIds(house, all), newest(() => true));
    assert.deepEqual(await allIds(house, { ...all, topic: "t/2" }), newest((i) => i % 3 === 2));
    // Few rows of the index, many rows of it, a column without one.
    const few = { ...all, conditions: conditions("value", "=", 42), limit: 7 };
    assert.deepEqual(await allIds(house, few), newest((i) => i % 100 === 42));
    const many = { ...all, conditions: conditions("value", ">=", 10) };
    assert.deepEqual(await allIds(house, many), newest((i) => i % 100 >= 10));
    const plain = { ...all, conditions: conditions("unit", "=", "3"), from: 7, to: 90 };
    assert.deepEqual(
      await allIds(house, plain),
      newest((i) => i % 7 === 3 && i >= 7 * 50 && i < 90 * 50),
    );
  });
}

Deno.test("N12 a column leads where its index leaves few rows, and nowhere else: a piece has its price", async () => {
  await using house = await openProvider({ ingest: [WITH_COLUMNS] });
  await filled(house, 4_000);
  await house.close();
  using database = openForReading(house.filePath);
  const piece = (from: number) =>
    readIngested(database, {
      table: "readings",
      conditions: [
        { column: "value", is: ">=", value: from },
        { column: "unit", is: "=", value: "none" },
      ],
      indexes: new Map([["value", "readings__value"]]),
      limit: 5,
      scan: 10,
      room: 1_000,
    });
  assert.deepEqual(piece(2_000), { rows: [], next: undefined, full: false });
  assert.deepEqual(piece(1_999), {
    rows: [],
    next: { receivedAt: 3_990, id: 3_991 },
    full: false,
  });
});

Deno.test("N12 values are values: SQL in one finds nothing and changes nothing", async () => {
  await using house = await openProvider({ ingest: [WITH_COLUMNS] });
  await filled(house, 3);
  const store = house.provider.ingest();
  for (
    const value of [
      "' OR 1=1 --",
      "C'; DROP TABLE readings; --",
      "C' UNION SELECT 1,2,3,4,5,6 --",
      '"unit"',
      "x'43'",
    ]
  ) {
    const conditions = [{ column: "unit", is: "=", value }] as const;
    assert.deepEqual(await store.query({ table: 0, conditions, limit: 10 }), {
      rows: [],
      next: undefined,
    });
    assert.deepEqual(
      (await store.query({ table: 0, topic: value, conditions: [], limit: 9 })).rows,
      [],
    );
  }
  await house.close();
  assert.equal(house.rows("SELECT 1 FROM readings").length, 3);
});

Deno.test("N12 the connection that reads refuses to write", () => {
  const path = Deno.makeTempFileSync({ dir: "/var/tmp", suffix: ".db" });
  try {
    using writing = new DatabaseSync(path);
    writing.exec("CREATE TABLE t (a)");
    using reading = openForReading(path);
    for (const sql of ["INSERT INTO t VALUES (1)", "DROP TABLE t", "CREATE TABLE u (a)"]) {
      assert.throws(() => reading.exec(sql), /readonly/, sql);
    }
    assert.equal(writing.prepare("SELECT count(*) AS n FROM t").get()!.n, 0);
  } finally {
    Deno.removeSync(path);
  }
});

Deno.test("N12 an answer is bounded in size, and queries that fail leave the next one alone", async () => {
  await using house = await openProvider({ ingest: [PLAIN] });
  const { provider } = house;
  for (let i = 0; i < 3; i++) {
    await stored(house, rowOf(provider, "x".repeat(3_000_000), { at: i }));
  }
  const store = provider.ingest();
  const failing = store.query({
    table: 0,
    conditions: [{ column: "no_such", is: "=", value: 1 }],
    limit: 1,
  });
  const { rows, next } = await store.query({ table: 0, conditions: [], limit: 10 });
  assert.deepEqual([rows.length, next], [1, { receivedAt: 2, id: 3 }]);
  await assert.rejects(failing, StorageFailure);
  assert.deepEqual(await allIds(house, { table: 0, conditions: [], limit: 10 }), [3, 2, 1]);
});

Deno.test("N12 a query that finds nothing for long says how far it came", async () => {
  // Every look at the clock is a second later.
  let now = 0;
  const clock = { monotonic: () => now += 1_000, wall: () => 0n };
  await using house = await openProvider({ ingest: [WITH_COLUMNS], clock });
  await filled(house, 3_000);
  const conditions = [{ column: "unit", is: "=", value: "none" }] as const;
  const { rows, next } = await house.provider.ingest().query({ table: 0, conditions, limit: 1 });
  assert.deepEqual(rows, []);
  // The first piece, of 500 rows; it took a second, and the second one found the time was up.
  assert.deepEqual(next, { receivedAt: 2_500, id: 2_501 });
});
