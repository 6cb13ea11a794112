/** Rows of ingest tables over HTTP (07 N12). */
import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { START } from "../broker/rig.ts";
import type { WireClient } from "../support/wire.ts";
import { OperationsHouse } from "./house.ts";

const INGEST = "routes:\n" +
  "  - filter: plant/#\n    table: readings\n" +
  "    columns: {value: REAL, unit: TEXT, n: INTEGER, pos.lat: REAL, topic: TEXT}\n" +
  "    index: [value]\n" +
  "  - plant/#:bare\n";

async function publish(client: WireClient, topic: string, payload: string): Promise<void> {
  await client.publish({ topic, payload, qos: 1, packetId: 1 });
  await client.expectPuback(1);
}

interface Body {
  readonly table: string;
  readonly rows: readonly { readonly id: number; readonly doc: unknown }[];
  readonly returned: number;
  readonly next: string | null;
}

/** An operations listener, and what a request for the table's rows answers. */
async function open(): Promise<{
  readonly ops: OperationsHouse;
  readonly ids: (query: string, table?: string) => Promise<number[]>;
  [Symbol.asyncDispose](): Promise<void>;
}> {
  const ops = await OperationsHouse.open({ ingest: INGEST });
  return {
    ops,
    ids: async (query, table = "readings") => {
      const body: Body = await ops.json(`ingest/${table}?${query}`);
      assert.equal(body.returned, body.rows.length);
      return body.rows.map(({ id }) => id);
    },
    [Symbol.asyncDispose]: () => ops[Symbol.asyncDispose](),
  };
}

const at = (ms: number) => new Date(START + ms).toISOString();

Deno.test("N12 rows come newest first, as topic, receipt, Message ID and document", async () => {
  await using house = await open();
  const { ops } = house;
  using client = await ops.house.client();
  await publish(client, "plant/kiln/t", '{"value":412,"unit":"C"}');
  await ops.house.time.pass(1_500);
  await client.publish({
    topic: "plant/kiln/rpm",
    payload: "1480",
    qos: 1,
    packetId: 1,
    properties: { userProperties: [["saguin-id", 'an "id"']] },
  });
  await client.expectPuback(1);
  assert.deepEqual(await ops.json("ingest/readings"), {
    table: "readings",
    rows: [
      {
        id: 2,
        topic: "plant/kiln/rpm",
        received_at: at(1_500),
        message_id: 'an "id"',
        doc: { payload: 1480 },
      },
      {
        id: 1,
        topic: "plant/kiln/t",
        received_at: at(0),
        message_id: null,
        doc: { value: 412, unit: "C" },
      },
    ],
    returned: 2,
    next: null,
  });
});

Deno.test("N7, N12 a document leaves with the digits it came with", async () => {
  await using house = await open();
  const { ops } = house;
  using client = await ops.house.client();
  await publish(client, "plant/a", '{"n":12345678901234567890, "a":1.50, "a":2}');
  const { body } = await ops.get("/v1/operations/ingest/readings");
  assert.ok(body.includes('"doc":{"n":12345678901234567890, "a":1.50, "a":2}}'), body);
});

Deno.test("N12 conditions on topic, time and columns", async () => {
  await using house = await open();
  const { ops, ids } = house;
  using client = await ops.house.client();
  for (let i = 0; i < 6; i++) {
    await publish(
      client,
      i % 2 === 0 ? "plant/even" : "plant/odd",
      `{"value":${i}.5,"unit":"${
        i < 3 ? "C" : "F & more"
      }","n":${i},"pos":{"lat":${i}},"topic":"t${i}"}`,
    );
    await ops.house.time.pass(1_000);
  }
  await publish(client, "plant/text", '{"value":"much"}');
  const cases: [query: string, ids: number[]][] = [
    ["", [7, 6, 5, 4, 3, 2, 1]],
    ["topic=plant%2Fodd", [6, 4, 2]],
    ["topic=plant/nowhere", []],
    [`from=${at(2_000)}&to=${at(4_000)}`, [4, 3]],
    [`from=${START + 2_000}&to=${START + 4_000}`, [4, 3]],
    [`from=${at(2_000).replace("Z", "%2B00:00")}&limit=2`, [7, 6]],
    ["value.gte=2.5", [6, 5, 4, 3]],
    ["value.gt=2.5&value.lte=4.5", [5, 4]],
    ["value.lt=1.5", [1]],
    ["value=3.5", [4]],
    ["value.eq=3.5", [4]],
    ["unit=C", [3, 2, 1]],
    ["unit=F+%26+more&topic=plant/odd", [6, 4]],
    ["n.gte=-1&n.lte=9223372036854775807&pos_lat.gte=4", [6, 5]],
    // A column that is called like a parameter.
    ["topic.eq=t4", [5]],
    ["value.gte=1e0&unit.gt=D", [6, 5, 4]],
  ];
  for (const [query, expected] of cases) assert.deepEqual(await ids(query), expected, query);
  assert.deepEqual(await ids("limit=3", "bare"), [7, 6, 5]);
});

Deno.test("N12 an answer says where the next one goes on", async () => {
  await using house = await open();
  const { ops } = house;
  using client = await ops.house.client();
  for (let i = 0; i < 25; i++) await publish(client, "plant/a", `{"value":${i}}`);
  const ids: number[] = [];
  let next: string | null = "";
  while (next !== null) {
    const before: string = next === "" ? "" : `&before=${next}`;
    const body: Body = await ops.json(`ingest/readings?limit=10&value.gte=3${before}`);
    ids.push(...body.rows.map(({ id }) => id));
    next = body.next;
  }
  assert.deepEqual(ids, Array.from({ length: 22 }, (_, i) => 25 - i));
});

Deno.test("N12 what is no query of a configured table is refused, and says why", async () => {
  await using house = await open();
  const { ops } = house;
  const cases: [path: string, status: number, says: RegExp][] = [
    ["nothing", 404, /no such ingest table/],
    ["records", 404, /no such ingest table/],
    ["sqlite_schema", 404, /no such ingest table/],
    ["readings_doc", 404, /no such ingest table/],
    ["readings%22%3B%20DROP%20TABLE%20readings%3B%20--", 404, /no such ingest table/],
    ["%FF", 404, /no such ingest table/],
    ["readings?doc=1", 400, /no such parameter; write .*value, unit, n, pos_lat, topic/],
    ["readings?_id.gte=1", 400, /no such parameter/],
    ["readings?pos.lat=1", 400, /no such parameter/],
    ["readings?value%22%3D1%20OR%201%3D1--=1", 400, /no such parameter/],
    ["bare?value=1", 400, /one of the table's columns \(none\)/],
    ["readings?value.like=1", 400, /value is compared with \.eq, \.gte, \.gt, \.lte or \.lt/],
    ["readings?value.gte=much", 400, /value is compared with a number/],
    ["readings?n=1%3B%20PRAGMA%20writable_schema%3D1", 400, /n is compared with a number/],
    ["readings?n=0x10", 400, /n is compared with a number/],
    ["readings?n=", 400, /n is compared with a number/],
    ["readings?topic=plant/%23", 400, /wildcards do not go here/],
    ["readings?from=yesterday", 400, /from is no moment; write 2026-/],
    ["readings?to=2026-13-40T00:00:00Z", 400, /to is no moment/],
    ["readings?before=1", 400, /before is not what an answer's next was/],
    ["readings?limit=0", 400, /limit is no whole number from 1 to 1000/],
    ["readings?limit=1001", 400, /limit is no whole number from 1 to 1000/],
    ["readings?limit=1;SELECT", 400, /limit is no whole number/],
    ["readings?limit=1&limit=2", 400, /limit is written twice/],
    ["", 404, /no such route; there are:\n\/\n\/health\n[^]*\n\/v1\/operations\/ingest\/<name>\n/],
  ];
  for (const [path, status, says] of cases) {
    const answer = await ops.get(`/v1/operations/ingest/${path}`);
    assert.equal(answer.status, status, path);
    assert.match(answer.body, says, path);
  }
  await using none = await OperationsHouse.open();
  assert.equal((await none.get("/v1/operations/ingest/readings")).status, 404);
});

Deno.test("N12 SQL in a value is a value: it matches nothing, attaches nothing, changes nothing", async () => {
  await using house = await open();
  const { ops, ids } = house;
  using client = await ops.house.client();
  await publish(client, "plant/a", '{"unit":"C"}');
  const hostile = [
    "' OR '1'='1",
    "C'; DELETE FROM readings; --",
    "C'; ATTACH DATABASE '/tmp/stolen.db' AS x; --",
    "C'; PRAGMA query_only=0; --",
    "'||load_extension('/tmp/evil.so')||'",
    "' UNION WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n) SELECT i FROM n --",
    '" OR 1=1 --',
    "%",
    "\0",
  ];
  const before = ops.house.rows("SELECT * FROM sqlite_schema");
  for (const value of hostile) {
    const encoded = encodeURIComponent(value);
    assert.deepEqual(await ids(`unit=${encoded}`), [], value);
    assert.deepEqual(await ids(`topic=${encoded.replaceAll("%2B", "")}`), [], value);
  }
  assert.deepEqual(await ids("unit=C"), [1]);
  assert.deepEqual(ops.house.rows("SELECT * FROM sqlite_schema"), before);
});

Deno.test("N12 a document that another program broke leaves as text", async () => {
  await using house = await open();
  const { ops } = house;
  {
    using database = new DatabaseSync(ops.house.database);
    database.exec("INSERT INTO bare (_topic, _received_at, doc) VALUES ('t', 1, '{broken')");
  }
  const body: Body = await ops.json("ingest/bare");
  assert.equal(body.rows[0].doc, "{broken");
});

Deno.test("N12 a long answer is cut and goes on; requests beyond a queue of eight are sent away", async () => {
  await using house = await OperationsHouse.open({
    ingest: INGEST,
    limits: "max_message_size: 2MiB\nsession_queue_bytes: 4MiB",
  });
  using client = await house.house.client();
  for (let i = 0; i < 4; i++) await publish(client, "plant/a", "x".repeat(1_500_000));
  const first: Body = await house.json("ingest/bare");
  assert.equal(first.returned, 2);
  const second: Body = await house.json(`ingest/bare?before=${first.next}`);
  assert.deepEqual([second.returned, second.next], [2, null]);
  const answers = await Promise.all(
    Array.from({ length: 20 }, () => house.get("/v1/operations/ingest/bare")),
  );
  const statuses = answers.map(({ status }) => status);
  assert.ok(statuses.filter((status) => status === 200).length >= 8, String(statuses));
  assert.ok(statuses.includes(503), String(statuses));
  const refused = answers.find(({ status }) => status === 503)!;
  assert.equal(refused.headers.get("retry-after"), "1");
  assert.match(refused.body, /too many queries wait/);
  assert.equal((await house.get("/v1/operations/ingest/bare")).status, 200);
});
