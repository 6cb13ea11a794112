/** The ingest tables of a sqlite provider: what a payload becomes, columns, indexes, removal, checks. */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { checkDatabase } from "../../../src/storage/check/check_database.ts";
import { StorageFailure } from "../../../src/storage/contract.ts";
import type { IngestTable } from "../../../src/storage/ingest.ts";
import { sqliteToSnapshots } from "../../../src/storage/migrate/sqlite_to_snapshots.ts";
import { documentOf } from "../../../src/storage/sqlite/ingest_document.ts";
import { IngestRows } from "../../../src/storage/sqlite/ingest_rows.ts";
import { createIngestTables } from "../../../src/storage/sqlite/ingest_schema.ts";
import { openProvider } from "./support/amqp_provider.ts";
import { bytes, filled, PLAIN, rowOf, stored, submit, WITH_COLUMNS } from "./support/ingest.ts";

Deno.test("N6, 11.3 a row keeps topic, receipt in ms, Message ID and document; _id is never used again", async () => {
  await using house = await openProvider({ ingest: [PLAIN] });
  const { provider } = house;
  await stored(house, rowOf(provider, '{"value":412,"unit":"C"}', { messageId: "m-1" }));
  await stored(house, rowOf(provider, "1480", { topic: "plant/kiln/rpm", at: 1_500 }));
  await house.close();
  assert.deepEqual(house.rows("SELECT * FROM readings ORDER BY _id"), [
    {
      _id: 1,
      _topic: "plant/kiln/t",
      _received_at: 1_000,
      _message_id: "m-1",
      doc: '{"value":412,"unit":"C"}',
    },
    {
      _id: 2,
      _topic: "plant/kiln/rpm",
      _received_at: 1_500,
      _message_id: null,
      doc: '{"payload":1480}',
    },
  ]);
  assert.deepEqual(
    house.rows("SELECT sql FROM sqlite_schema WHERE name LIKE 'readings%' ORDER BY name")
      .map(({ sql }) => sql),
    [
      'CREATE TABLE "readings"(_id INTEGER PRIMARY KEY AUTOINCREMENT, _topic TEXT NOT NULL, ' +
      "_received_at INTEGER NOT NULL, _message_id TEXT, doc TEXT NOT NULL)",
      'CREATE INDEX "readings__t" ON "readings"(_received_at)',
      'CREATE INDEX "readings__tt" ON "readings"(_topic,_received_at)',
      'CREATE VIEW "readings_doc" AS SELECT _id, ' +
      "json_set(doc,'$._topic',_topic,'$._received_at',_received_at) AS doc FROM \"readings\"",
    ],
  );
  assert.equal(house.rows("PRAGMA user_version")[0].user_version, 20);
});

Deno.test("11.2 every kind of payload becomes the document it says", () => {
  using database = new DatabaseSync(":memory:");
  const valid = database.prepare("SELECT json_valid(?) AS valid");
  const isValid = (json: string) => valid.get(json)!.valid === 1;
  const deep = (depth: number) => "[".repeat(depth) + "]".repeat(depth);
  const cases: [string | Uint8Array, string][] = [
    ['{"value":412,"unit":"C"}', '{"value":412,"unit":"C"}'],
    [' \r\n\t{ "a" : 1.50 } ', ' \r\n\t{ "a" : 1.50 } '],
    ['{"n":12345678901234567890}', '{"n":12345678901234567890}'],
    ['{"a":1,"a":2}', '{"a":1,"a":2}'],
    ["\u{feff}" + '{"a":1}', '{"a":1}'],
    ["1480", '{"payload":1480}'],
    ["9007199254740993", '{"payload":9007199254740993}'],
    ['"text"', '{"payload":"text"}'],
    ["true", '{"payload":true}'],
    ["null", '{"payload":null}'],
    ['[1,{"a":"[{"}]', '{"payload":[1,{"a":"[{"}]}'],
    ["up", '{"payload":"up"}'],
    ['a "quote" and \\ and \u0000', String.raw`{"payload":"a \"quote\" and \\ and \u0000"}`],
    ["Überdruck", '{"payload":"Überdruck"}'],
    ['{"a":1', String.raw`{"payload":"{\"a\":1"}`],
    ["{'a':1}", `{"payload":"{'a':1}"}`],
    ["NaN", '{"payload":"NaN"}'],
    ["01", '{"payload":"01"}'],
    ["{a:1}", '{"payload":"{a:1}"}'],
    ["[1,]", '{"payload":"[1,]"}'],
    ["", '{"payload":""}'],
    ["   ", '{"payload":"   "}'],
    [deep(256), `{"payload":${deep(256)}}`],
    [deep(257), `{"payload":"${deep(257)}"}`],
    [deep(100_000), `{"payload":"${deep(100_000)}"}`],
    [Uint8Array.of(0xff, 0xfe, 0), '{"payload_b64":"//4A"}'],
    [Uint8Array.of(0x7b, 0x22, 0xc3, 0x22, 0x7d), '{"payload_b64":"eyLDIn0="}'],
  ];
  for (const [payload, doc] of cases) {
    const given = typeof payload === "string" ? bytes(payload) : payload;
    const made = documentOf(given).doc;
    assert.equal(made, doc);
    assert.ok(isValid(made));
  }
});

Deno.test("N7, N8 what SQLite calls no JSON is kept as text", () => {
  using database = new DatabaseSync(":memory:");
  createIngestTables(database, [PLAIN]);
  // As a version of SQLite that has its own opinion.
  database.function("json_valid", {}, (json) => json === '{"payload":7}' ? 1 : 0);
  const rows = new IngestRows(database, [PLAIN]);
  for (const payload of ['{"a":1}', "7", "text"]) {
    rows.publish({ tag: 0, topic: "t", timestamp: 0n, messageId: "", payload: bytes(payload) });
  }
  assert.deepEqual(database.prepare("SELECT doc FROM readings").all().map(({ doc }) => doc), [
    String.raw`{"payload":"{\"a\":1}"}`,
    '{"payload":7}',
    '{"payload":"text"}',
  ]);
});

Deno.test("N7 integers above 2^53 keep their digits in the table", async () => {
  await using house = await openProvider({
    ingest: [{ ...PLAIN, columns: new Map([["n", "INTEGER"]]), index: ["n"] }],
  });
  await stored(house, rowOf(house.provider, '{"n":9007199254740993}'));
  await house.close();
  const found = house.rows("SELECT doc, CAST(n AS TEXT) AS n FROM readings");
  assert.deepEqual(found, [{ doc: '{"n":9007199254740993}', n: "9007199254740993" }]);
});

Deno.test("N6 the broker's _topic and _received_at win in the document view", async () => {
  await using house = await openProvider({ ingest: [PLAIN] });
  await stored(house, rowOf(house.provider, '{"_topic":"forged","_received_at":1,"v":2}'));
  await house.close();
  const [{ doc }] = house.rows("SELECT doc FROM readings_doc");
  assert.deepEqual(JSON.parse(doc as string), {
    _topic: "plant/kiln/t",
    _received_at: 1_000,
    v: 2,
  });
});

Deno.test("N10, N11 columns are typed keys of the payload, and a condition on one uses its index", async () => {
  await using house = await openProvider({ ingest: [WITH_COLUMNS] });
  const { provider } = house;
  await stored(house, rowOf(provider, '{"value":412,"unit":"C","pos":{"lat":48.5}}'));
  await stored(house, rowOf(provider, '{"value":"much","pos":7}'));
  await stored(house, rowOf(provider, "no object"));
  await stored(house, rowOf(provider, Uint8Array.of(0xff)));
  await house.close();
  assert.deepEqual(house.rows("SELECT value, unit, pos_lat FROM readings ORDER BY _id"), [
    { value: 412, unit: "C", pos_lat: 48.5 },
    { value: "much", unit: null, pos_lat: null },
    { value: null, unit: null, pos_lat: null },
    { value: null, unit: null, pos_lat: null },
  ]);
  const [{ detail }] = house.rows("EXPLAIN QUERY PLAN SELECT * FROM readings WHERE value >= 25");
  assert.match(detail as string, /USING INDEX readings__value/);
});

Deno.test("N10 columns and indexes follow the configuration over a table with rows", async () => {
  await using house = await openProvider({ ingest: [PLAIN] });
  await stored(house, rowOf(house.provider, '{"value":1,"pos":{"lat":2},"pos_lat":3}'));
  await house.again({ ingest: [WITH_COLUMNS] });
  await house.close();
  assert.deepEqual(house.rows("SELECT value, pos_lat FROM readings"), [{ value: 1, pos_lat: 2 }]);
  // Another key under the same column, another type, another index.
  const changed: IngestTable = {
    name: "readings",
    columns: new Map([["value", "INTEGER"], ["pos_lat", "REAL"]]),
    index: ["pos_lat"],
  };
  await house.again({ ingest: [changed] });
  await house.close();
  assert.deepEqual(house.rows("SELECT value, pos_lat FROM readings"), [{ value: 1, pos_lat: 3 }]);
  const names = () =>
    house.rows("SELECT name FROM sqlite_schema WHERE tbl_name = 'readings' ORDER BY name")
      .map(({ name }) => name);
  assert.deepEqual(names(), ["readings", "readings__pos_lat", "readings__t", "readings__tt"]);
  await house.again({ ingest: [PLAIN] });
  await house.close();
  assert.deepEqual(names(), ["readings", "readings__t", "readings__tt"]);
  const columns = house.rows("PRAGMA table_xinfo(readings)").map(({ name }) => name);
  assert.deepEqual(columns, ["_id", "_topic", "_received_at", "_message_id", "doc"]);
});

Deno.test("N10 what an operator added to a table stays", async () => {
  await using house = await openProvider({ ingest: [PLAIN] });
  await house.close();
  {
    using database = new DatabaseSync(house.filePath);
    database.exec(
      "ALTER TABLE readings ADD COLUMN mine GENERATED ALWAYS AS (length(doc)) VIRTUAL",
    );
    database.exec('CREATE INDEX "readings__mine" ON "readings"("mine")');
    database.exec("CREATE INDEX theirs ON readings(_message_id)");
  }
  await house.again();
  await stored(house, rowOf(house.provider, "{}"));
  await house.close();
  assert.deepEqual(house.rows("SELECT mine FROM readings"), [{ mine: 2 }]);
  assert.equal(house.rows("SELECT 1 FROM sqlite_schema WHERE name = 'theirs'").length, 1);
});

for (
  const [what, sql, says] of [
    ["is another table", "CREATE TABLE readings (a)", /no such column: _id/],
    ["is a view", "CREATE VIEW readings AS SELECT 1 AS a", /no such column: _id/],
    [
      "has a column of its own",
      "CREATE TABLE readings (_id INTEGER PRIMARY KEY, _topic, _received_at, _message_id, doc, Value)",
      /its column value is somebody else's/,
    ],
    [
      "has another index of that name",
      "CREATE TABLE other (a); CREATE INDEX readings__tt ON other(a)",
      /an index readings__tt is there that is somebody else's/,
    ],
    [
      "shares a name with a table",
      "CREATE TABLE readings__value (a)",
      /already a table named readings__value/,
    ],
  ] as const
) {
  Deno.test(`N2, N10 a table that ${what} refuses the start by name, and nothing is changed`, async () => {
    await using house = await openProvider({ ingest: [] });
    await house.close();
    {
      using database = new DatabaseSync(house.filePath);
      database.exec(sql);
    }
    const schema = () => house.rows("SELECT * FROM sqlite_schema ORDER BY name");
    const before = schema();
    await assert.rejects(
      house.again({ ingest: [WITH_COLUMNS] }),
      (error: Error) =>
        error instanceof StorageFailure && says.test(error.message) &&
        /plant\.db: table "readings" is not what ingest makes of it: .*; name another table in/
          .test(error.message),
    );
    await house.close();
    assert.deepEqual(schema(), before);
  });
}

Deno.test("columns t and tt have an index beside those of the table", async () => {
  const table: IngestTable = {
    name: "readings",
    columns: new Map([["t", "REAL"], ["TT", "TEXT"]]),
    index: ["t", "TT"],
  };
  await using house = await openProvider({ ingest: [table] });
  await house.again();
  await house.close();
  for (const [column, index] of [["t", "readings__t_column"], ["TT", "readings__TT_column"]]) {
    const [{ detail }] = house.rows(
      `EXPLAIN QUERY PLAN SELECT * FROM readings WHERE ${column} = 1`,
    );
    assert.match(detail as string, new RegExp(`USING INDEX ${index}`));
  }
});

Deno.test("N9 rows of one publish are one transaction, whatever tables they are in", async () => {
  const other: IngestTable = { ...PLAIN, name: "fixes" };
  await using house = await openProvider({ ingest: [PLAIN, other] });
  const { provider } = house;
  const before = provider.statistics().commits;
  await stored(house, rowOf(provider, "1"), rowOf(provider, "1", { table: 1 }));
  assert.equal(provider.statistics().commits, before + 1);
  await house.close();
  assert.equal(house.rows("SELECT * FROM fixes").length, 1);
});

Deno.test("N9 a row that cannot be inserted fails its publish and no other one", async () => {
  await using house = await openProvider({ ingest: [PLAIN] });
  await house.close();
  {
    using database = new DatabaseSync(house.filePath);
    database.exec(
      "CREATE TRIGGER no BEFORE INSERT ON readings WHEN NEW._topic = 'bad' " +
        "BEGIN SELECT RAISE(ABORT, 'not that one'); END",
    );
  }
  await house.again();
  const { provider } = house;
  const outcomes = await Promise.all([
    submit(provider, rowOf(provider, "1")),
    submit(provider, rowOf(provider, "2", { topic: "bad" })),
    submit(provider, rowOf(provider, "3")),
  ]);
  assert.deepEqual(outcomes.map((outcome) => outcome?.kind), [undefined, "failed", undefined]);
  await house.close();
  assert.deepEqual(house.rows("SELECT doc FROM readings ORDER BY _id"), [
    { doc: '{"payload":1}' },
    { doc: '{"payload":3}' },
  ]);
});

Deno.test("N5 a trim takes the oldest rows, a thousand at a time", async () => {
  await using house = await openProvider({ ingest: [PLAIN] });
  const { provider } = house;
  const rows = Array.from({ length: 1_500 }, (_, i) => rowOf(provider, String(i), { at: i }));
  await stored(house, ...rows);
  const store = provider.ingest();
  assert.equal(await store.trim(0, 1_400), 1_000);
  assert.equal(await store.trim(0, 1_400), 400);
  assert.equal(await store.trim(0, 1_400), 0);
  const { rows: left, next } = await store.query({ table: 0, conditions: [], limit: 1_000 });
  assert.deepEqual([left.length, next], [100, undefined]);
  assert.equal(left[0].receivedAt, 1_499);
  assert.equal(left[99].receivedAt, 1_400);
});
Deno.test("S198 the checker counts rows of ingest tables, and names what another program broke", async () => {
  await using house = await openProvider({ ingest: [PLAIN] });
  await filled(house, 3);
  await house.close();
  const checked = () => {
    const findings: string[] = [];
    const report = {
      finding: (says: string) => void findings.push(says),
      note: () => {},
      progress: () => {},
    };
    return { entries: checkDatabase(house.filePath, report).entries, findings };
  };
  assert.deepEqual(checked(), { entries: 3, findings: [] });
  {
    using database = new DatabaseSync(house.filePath);
    database.exec(
      "INSERT INTO readings (_id, _topic, _received_at, doc) VALUES (7, 't', 1, '{broken'), " +
        "(8, 'a/+', 1, '{}'), (9, 't', 'now', '{}')",
    );
  }
  assert.deepEqual(checked(), {
    entries: 6,
    findings: [
      "table readings has documents that are no JSON: _id 7",
      "table readings has rows of no topic: _id 8",
      "table readings has rows without a time of receipt: _id 9",
    ],
  });
});

Deno.test("S160, S198 a migration leaves rows of ingest tables behind and says so", async () => {
  await using house = await openProvider({ ingest: [PLAIN], amqp: false });
  await filled(house, 3);
  await house.close();
  const notes: string[] = [];
  const into = `${house.filePath}.snapshots`;
  await sqliteToSnapshots(house.filePath, into, { revision: "r", now: 1n }, {
    moved: () => {},
    note: (says: string) => void notes.push(says),
    failed: (says: string) => assert.fail(says),
    progress: () => {},
  });
  assert.deepEqual(notes.filter((note) => note.includes("readings")), [
    `${house.filePath}: 3 rows of readings stay behind`,
  ]);
});
