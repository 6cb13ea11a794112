/** The keys of ingest: what they resolve to, and what is refused (07 section 1, N1, N2). */
import assert from "node:assert/strict";
import { BROKER_TABLES } from "../../src/config/checks/ingest.ts";
import { TABLE_NAMES } from "../../src/storage/sqlite/schema.ts";
import { accepted, findings, LEAST, load } from "./support.ts";

/** `LEAST` with `ingest`; the first of `routes` is on line 12. */
function routes(...lines: readonly string[]): string {
  return `${LEAST}ingest:\n  routes:\n` + lines.map((line) => `    ${line}\n`).join("");
}

/** Findings without their places. */
function refusals(text: string): string[] {
  return findings(load(text)).map((finding) => finding.replace(/^\d+:\d+ /, ""));
}

function assertRefused(route: string, says: RegExp): void {
  const found = refusals(routes(route));
  assert.equal(found.length, 1, `${route}: ${found.join("\n")}`);
  assert.match(found[0], says);
}

Deno.test("C1 a route alone gives ingest every default of the table", () => {
  assert.equal(accepted(load(LEAST)).ingest, undefined);
  assert.deepEqual(accepted(load(routes("- plant/#:readings"))).ingest, {
    storage: "disk",
    includeAmqp: false,
    routes: [{ filter: "plant/#", table: "readings" }],
    tables: [{
      name: "readings",
      columns: new Map(),
      index: [],
      retentionPeriodMs: undefined,
    }],
  });
});

Deno.test("C1 every key of ingest reaches the broker", () => {
  const text = LEAST.replace("default_retention_period: none", "default_retention_period: 7d") +
    "ingest:\n  storage: disk\n  include_amqp: true\n  routes:\n" +
    "    - filter: plant/#\n      table: readings\n      retention_period: 90d\n" +
    "      columns: {value: REAL, unit: TEXT, pos.lat: INTEGER}\n      index: [value, pos.lat]\n" +
    "    - {filter: a/+, table: Kept, retention_period: none}\n" +
    "    - {filter: b, table: swept}\n";
  const DAY = 86_400_000;
  assert.deepEqual(accepted(load(text)).ingest, {
    storage: "disk",
    includeAmqp: true,
    routes: [
      { filter: "plant/#", table: "readings" },
      { filter: "a/+", table: "Kept" },
      { filter: "b", table: "swept" },
    ],
    tables: [
      {
        name: "readings",
        columns: new Map([["value", "REAL"], ["unit", "TEXT"], ["pos.lat", "INTEGER"]]),
        index: ["value", "pos.lat"],
        retentionPeriodMs: 90 * DAY,
      },
      { name: "Kept", columns: new Map(), index: [], retentionPeriodMs: undefined },
      { name: "swept", columns: new Map(), index: [], retentionPeriodMs: 7 * DAY },
    ],
  });
});

Deno.test("N1 a route in one string is split at its last colon, blanks around both parts aside", () => {
  const { ingest } = accepted(load(routes('- "trucks/+/gps:v1 : fixes "', "- '#:everything'")));
  assert.deepEqual(ingest!.routes, [
    { filter: "trucks/+/gps:v1", table: "fixes" },
    { filter: "#", table: "everything" },
  ]);
});

Deno.test("N2 a route without a filter or a table is refused", () => {
  assertRefused("- plant/#", /^ingest\.routes\[1\]\.table is missing; write /);
  assertRefused("- 'plant/#:'", /^ingest\.routes\[1\]\.table "" is empty; write /);
  assertRefused("- ':readings'", /^ingest\.routes\[1\]\.filter "" is empty; write /);
  assertRefused("- {table: readings}", /^ingest\.routes\[1\]\.filter is missing; write /);
  assertRefused("- {filter: plant/#}", /^ingest\.routes\[1\]\.table is missing; write /);
});

Deno.test("N2 wildcards stand alone in their level, # in the last; braces are refused", () => {
  for (const filter of ["a/#/b", "a#", "a/b#", "a+/b", "a/+b"]) {
    assertRefused(`- ${filter}:t`, /filter ".*" is no topic filter: .*; write whole levels/);
  }
  assertRefused("- 'plant/{a,b}:t'", /filter "plant\/\{a,b\}" holds braces; write one route for/);
});

Deno.test("N2 ingest without a route is refused", () => {
  assert.match(refusals(`${LEAST}ingest: {}\n`)[0], /^ingest\.routes is missing; write a list/);
  assert.match(refusals(`${LEAST}ingest: {routes: []}\n`)[0], /^ingest\.routes is empty; write /);
});

Deno.test("N2 the list of the broker's tables is that of its schema", () => {
  assert.deepEqual([...BROKER_TABLES].sort(), [...TABLE_NAMES].sort());
});

Deno.test("N2 a table has a name that nobody else has a claim to", () => {
  const refused = (table: string, says: RegExp) =>
    assertRefused(`- {filter: a, table: ${table}}`, says);
  for (const name of ["1st", "_t", "a-b", "a b", "ö", "a.b", "a".repeat(64), `'a"b'`]) {
    refused(name, /table ".*" is no table name; write a letter, then/);
  }
  for (const name of ["sqlite_x", "SQLite_x", "amqp_msg", "saguin_x"]) {
    refused(name, /begins with \w+_, which is reserved; write another name/);
  }
  for (const name of [...TABLE_NAMES, "Records"]) {
    refused(name, /is a table of the broker's own; write another name/);
  }
  assert.deepEqual(refusals(routes(`- a:${"a".repeat(63)}`, "- a:r2_D2")), []);
});

Deno.test("N2 a table is spelled one way, and its names are not those of another", () => {
  assert.match(
    refusals(routes("- a:Fixes", "- b:fixes"))[0],
    /routes\[2\]\.table "fixes" is table "Fixes" at .*:12 in other letters, and SQLite takes both/,
  );
  for (const other of ["readings_doc", "Readings__t", "readings__tt", "readings__value"]) {
    const found = refusals(routes(
      "- {filter: a, table: readings, columns: {value: REAL}, index: [value]}",
      `- b:${other}`,
    ));
    assert.equal(found.length, 1, other);
    assert.match(found[0], /needs the name \w+ in the database, and so does table "readings" at /);
  }
});

Deno.test("N2 a column key is dotted identifiers, and makes a column that is not there yet", () => {
  const columns = (text: string, says: RegExp) =>
    assertRefused(`- {filter: a, table: t, columns: {${text}}}`, says);
  for (const key of ["a b", "a..b", ".a", "a.", "1a", "a-b", `"a'b"`, "ä", '""', `"a[0]"`]) {
    columns(`${key}: REAL`, /^ingest\.routes\[1\]\.columns\..* is no payload key; write letters/);
  }
  columns("pos.lat: REAL, pos_lat: REAL", /would be column pos_lat, which "pos\.lat" has/);
  columns("Value: REAL, value: TEXT", /would be column value, which "Value" has; leave one/);
  for (const fixed of ["_id", "_topic", "_received_at", "_message_id", "doc", "DOC"]) {
    columns(`${fixed}: TEXT`, /which every ingest table has/);
  }
  columns("a: BLOB", /columns\.a "BLOB" is not a column type; write TEXT, REAL or INTEGER/);
});

Deno.test("N2 an index is of a column of the table, once", () => {
  const index = (text: string, says: RegExp) =>
    assertRefused(`- {filter: a, table: t, columns: {v: REAL, p.x: REAL}, index: [${text}]}`, says);
  index("w", /index "w" is no column of the table; write v or p\.x, or add the column/);
  index("p_x", /index "p_x" is no column of the table/);
  index("v, v", /index "v" names a column twice; write it once/);
  assertRefused(
    "- {filter: a, table: t, index: [v]}",
    /index "v" is no column of the table; write it under columns too/,
  );
});

Deno.test("N2 two routes into one table agree on what it is, whichever of them says it", () => {
  const { ingest } = accepted(load(routes(
    "- a:t",
    "- {filter: b, table: t, columns: {v: REAL}, index: [v], retention_period: 1h}",
    "- {filter: c, table: t, columns: {v: REAL}, retention_period: 60m}",
  )));
  assert.deepEqual(ingest!.tables, [
    { name: "t", columns: new Map([["v", "REAL"]]), index: ["v"], retentionPeriodMs: 3_600_000 },
  ]);
  const first =
    "- {filter: a, table: t, columns: {v: REAL, w: REAL}, index: [v], retention_period: 1h}";
  for (
    const [second, key] of [
      ["columns: {v: REAL}", "columns"],
      ["columns: {v: REAL, w: TEXT}", "columns"],
      ["index: [w]", "index"],
      ["retention_period: none", "retention_period"],
    ]
  ) {
    const found = refusals(routes(first, `- {filter: b, table: t, ${second}}`));
    assert.equal(found.length, 1, second);
    assert.match(
      found[0],
      new RegExp(
        `^ingest\\.routes\\[2\\]\\.${key} ".*" is another one than ingest\\.routes\\[1\\]\\.${key} at`,
      ),
    );
  }
});

Deno.test("C3 a memory provider under ingest is refused", () => {
  assert.deepEqual(refusals(`${LEAST}ingest: {storage: ram, routes: ["a:t"]}\n`), [
    'ingest.storage "ram" is a memory provider, which has no tables; ' +
    "name a provider of type sqlite in ingest.storage",
  ]);
  const [says] = refusals(
    `${LEAST.replace("default: disk", "default: ram")}ingest: {routes: ["a:t"]}\n`,
  );
  assert.match(says, /^ingest\.storage "ram" is a memory provider/);
});

Deno.test("C1 every fault of ingest is found at once", () => {
  const found = findings(load(
    `${LEAST}ingest:\n  storage: ram\n  speed: 3\n  include_amqp: maybe\n  routes:\n` +
      "    - a#:records\n    - b\n    - {filter: c, table: t, columns: {doc: X}, index: [y]}\n",
  ));
  assert.deepEqual(found.map((finding) => finding.split(" ", 2).join(" ")), [
    "11:12 ingest.storage",
    "12:3 ingest.speed",
    "13:17 ingest.include_amqp",
    "15:7 ingest.routes[1].filter",
    "15:7 ingest.routes[1].table",
    "16:7 ingest.routes[2].table",
    "17:44 ingest.routes[3].columns.doc",
  ]);
});
