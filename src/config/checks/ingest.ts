/** Ingest routes against each other, and against the names that a database has taken (07 C3, N2). */
import { filterFault } from "../../topics/filter.ts";
import type { Place } from "../configuration.ts";
import { at, type Findings, quoted } from "../finding.ts";
import { columnName, FIXED_COLUMNS, namesOf } from "../ingest_names.ts";
import { list } from "../reading.ts";
import type { Block, Setting, Settings } from "../settings.ts";

/** Tables of the broker's own in the same database; a test compares them with its schema. */
export const BROKER_TABLES: readonly string[] = [
  "meta",
  "channels",
  "records",
  "latest_values",
  "queue_items",
  "positions",
  "held_publishes",
  "sessions",
  "session_inflight",
  "share_groups",
  "share_returned",
];

/** Tables of SQLite, of AMQP, and of what this broker may keep in times to come. */
const RESERVED_PREFIXES: readonly string[] = ["sqlite_", "amqp_", "saguin_"];

type ColumnType = "TEXT" | "REAL" | "INTEGER";

/** The columns that a route writes down, by payload key. */
export function columnsOf(route: Block): ReadonlyMap<string, ColumnType> {
  return new Map(
    route.texts("columns").map((text) => {
      const colon = text.lastIndexOf(": ");
      return [text.slice(0, colon), text.slice(colon + 2) as ColumnType];
    }),
  );
}

export function checkIngest(settings: Settings, findings: Findings): void {
  const ingest = settings.blocks.get("ingest");
  if (ingest === undefined) return;
  const providers = settings.blocks.get("broker")?.blocks.get("storage")?.list("providers") ?? [];
  checkStorage(ingest, providers, findings);
  const tables = new Map<string, Table>();
  for (const route of ingest.list("routes")) {
    const filter = route.settings.get("filter");
    if (filter !== undefined) checkFilter(filter, findings);
    checkColumns(route, findings);
    const table = route.settings.get("table");
    if (table === undefined) continue;
    const fault = tableFault(table.text);
    if (fault !== undefined) findings.add(table.place, table.path, fault, table.text);
    else addRoute(tables, table, route, findings);
  }
  for (const table of tables.values()) checkIndex(table, findings);
  checkNames([...tables.values()], findings);
}

function checkStorage(ingest: Block, providers: readonly Block[], findings: Findings): void {
  const setting = ingest.settings.get("storage");
  const provider = providers.find(({ name }) => name === setting?.value);
  if (setting === undefined || provider?.text("type") !== "memory") return;
  const says = "is a memory provider, which has no tables; " +
    "name a provider of type sqlite in ingest.storage";
  findings.add(setting.place, setting.path, says, setting.text);
}

function checkFilter({ text, place, path }: Setting, findings: Findings): void {
  const fault = filterFault(text);
  if (fault !== undefined) {
    const says = `is no topic filter: ${fault}; write whole levels, + for one, # for the rest`;
    findings.add(place, path, says, text);
  } else if (/[{}]/.test(text)) {
    findings.add(place, path, "holds braces; write one route for each spelling", text);
  }
}

function tableFault(name: string): string | undefined {
  if (!/^[A-Za-z][A-Za-z0-9_]{0,62}$/.test(name)) {
    return "is no table name; write a letter, then letters, digits and _, at most 63 characters";
  }
  const lower = name.toLowerCase();
  const prefix = RESERVED_PREFIXES.find((each) => lower.startsWith(each));
  if (prefix !== undefined) return `begins with ${prefix}, which is reserved; write another name`;
  if (BROKER_TABLES.includes(lower)) return "is a table of the broker's own; write another name";
  return undefined;
}

/** Each key an identifier, or several with dots between; each column once. */
function checkColumns(route: Block, findings: Findings): void {
  const setting = route.settings.get("columns");
  if (setting === undefined) return;
  const taken = new Map(FIXED_COLUMNS.map((column) => [column, "every ingest table"]));
  for (const key of columnsOf(route).keys()) {
    const path = `${setting.path}.${key}`;
    if (!/^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$/.test(key)) {
      const says = "is no payload key; write letters, digits and _, with a dot between levels";
      findings.add(setting.place, path, says);
      continue;
    }
    const column = columnName(key);
    const other = taken.get(column.toLowerCase());
    if (other === undefined) taken.set(column.toLowerCase(), quoted(key));
    else {
      const says = `would be column ${column}, which ${other} has; leave one of the two out`;
      findings.add(setting.place, path, says);
    }
  }
}

/** A table as its routes describe it together. */
interface Table {
  readonly name: string;
  readonly place: Place;
  columns: Setting | undefined;
  index: Setting | undefined;
  retention: Setting | undefined;
  /** By payload key; undefined when what was written is refused. */
  types: ReadonlyMap<string, ColumnType> | undefined;
}

/** Any route may say what its table is; two that do must say the same. */
function addRoute(
  tables: Map<string, Table>,
  { text: name, place, path }: Setting,
  route: Block,
  findings: Findings,
): void {
  const lower = name.toLowerCase();
  const table = tables.get(lower) ?? {
    name,
    place,
    columns: undefined,
    index: undefined,
    retention: undefined,
    types: new Map(),
  };
  tables.set(lower, table);
  if (table.name !== name) {
    const says = `is table ${quoted(table.name)} at ${at(table.place)} in other letters, and ` +
      "SQLite takes both for one; spell it the same way";
    findings.add(place, path, says, name);
  }
  const join = (earlier: Setting | undefined, key: string, order: (texts: string[]) => string[]) =>
    agreed(earlier, route.settings.get(key), order, findings);
  table.columns = join(table.columns, "columns", (texts) => texts.sort());
  table.index = join(table.index, "index", (texts) => texts.sort());
  table.retention = join(table.retention, "retention_period", (texts) => texts);
  if (route.refused("columns")) table.types = undefined;
  else if (table.columns === route.settings.get("columns") && table.columns !== undefined) {
    table.types = columnsOf(route);
  }
}

/** What is in force of two settings, either of which may be missing. */
function agreed(
  earlier: Setting | undefined,
  setting: Setting | undefined,
  order: (texts: string[]) => string[],
  findings: Findings,
): Setting | undefined {
  if (earlier === undefined || setting === undefined) return earlier ?? setting;
  const form = ({ value }: Setting) =>
    JSON.stringify(Array.isArray(value) ? order([...value]) : value);
  if (form(earlier) !== form(setting)) {
    const says = `is another one than ${earlier.path} at ${at(earlier.place)}, for the same ` +
      "table; write it with one of the two routes";
    findings.add(setting.place, setting.path, says, setting.text);
  }
  return earlier;
}

function checkIndex({ index, types }: Table, findings: Findings): void {
  if (index === undefined || types === undefined || !Array.isArray(index.value)) return;
  const keys = [...types.keys()];
  const seen = new Set<string>();
  for (const key of index.value as readonly string[]) {
    if (seen.has(key)) {
      findings.add(index.place, index.path, "names a column twice; write it once", key);
    } else if (!types.has(key)) {
      const says = keys.length === 0
        ? "is no column of the table; write it under columns too"
        : `is no column of the table; write ${list(keys)}, or add the column`;
      findings.add(index.place, index.path, says, key);
    }
    seen.add(key);
  }
}

/** Tables, views and indexes share one space of names. */
function checkNames(tables: readonly Table[], findings: Findings): void {
  const taken = new Map<string, Table>();
  for (const table of tables) {
    const index = table.index?.value;
    const names = namesOf({
      name: table.name,
      index: Array.isArray(index) ? [...new Set(index as readonly string[])] : [],
    });
    for (const name of names.map((each) => each.toLowerCase())) {
      const other = taken.get(name);
      if (other === undefined) taken.set(name, table);
      else {
        const says = `needs the name ${name} in the database, and so does ` +
          (other === table
            ? "another index of it"
            : `table ${quoted(other.name)} at ${at(other.place)}`) +
          "; rename one of the two";
        findings.add(table.place, "ingest.routes", says, table.name);
      }
    }
  }
}
