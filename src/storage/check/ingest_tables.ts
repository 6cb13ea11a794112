import type { DatabaseSync } from "node:sqlite";
import { FIXED_COLUMNS, quoted } from "../../config/ingest_names.ts";
import { type CheckReport, Findings } from "./report.ts";

/**
 * Ingest tables, known by the columns that every one begins with: the checker reads no configuration. Of a
 * row it asks what every insert of the broker gives, which another program may have broken: a time, a topic
 * without wildcards, and JSON, without which the columns of the payload cannot be read.
 *
 * @return rows looked at
 */
export function checkIngestTables(database: DatabaseSync, report: CheckReport): number {
  const tables = database.prepare(
    "SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name",
  ).all().map(({ name }) => name as string).filter((name) => isIngestTable(database, name));
  let rows = 0;
  for (const table of tables) {
    report.progress(`table ${table}`);
    const findings = new Findings(report, `table ${table}`);
    const { n } = database.prepare(`SELECT count(*) AS n FROM ${quoted(table)}`)
      .get() as { n: number };
    rows += n;
    for (const [kind, wrong] of FAULTS) {
      const faulty = database.prepare(`SELECT _id FROM ${quoted(table)} WHERE ${wrong}`);
      for (const { _id } of faulty.iterate()) findings.add(kind, `_id ${_id}`);
    }
    findings.end();
  }
  return rows;
}

const FAULTS: readonly (readonly [kind: string, where: string])[] = [
  ["has documents that are no JSON", "NOT json_valid(doc)"],
  ["has rows of no topic", "typeof(_topic) <> 'text' OR _topic = '' OR _topic GLOB '*[+#]*'"],
  ["has rows without a time of receipt", "typeof(_received_at) <> 'integer'"],
];

function isIngestTable(database: DatabaseSync, name: string): boolean {
  const columns = database.prepare("SELECT name FROM pragma_table_xinfo(?) ORDER BY cid").all(name);
  return FIXED_COLUMNS.every((column, i) => columns[i]?.name === column);
}
