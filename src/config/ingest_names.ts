/** What ingest calls things in a database, so that the configuration can be held against it. */

/** The column of a payload key: `pos.lat` is `pos_lat`. */
export function columnName(key: string): string {
  return key.replaceAll(".", "_");
}

/** The columns every ingest table begins with. */
export const FIXED_COLUMNS: readonly string[] = [
  "_id",
  "_topic",
  "_received_at",
  "_message_id",
  "doc",
];

/** An identifier in SQL, whatever it is. */
export function quoted(name: string): string {
  return `"${name.replaceAll('"', '""')}"`;
}

export function topicIndex(table: string): string {
  return `${table}__tt`;
}

export function timeIndex(table: string): string {
  return `${table}__t`;
}

/** Columns named `t` and `tt` give way to the two indexes above. */
export function columnIndex(table: string, key: string): string {
  const column = columnName(key);
  const name = `${table}__${column}`;
  const lower = column.toLowerCase();
  return lower === "t" || lower === "tt" ? `${name}_column` : name;
}

export function documentView(table: string): string {
  return `${table}_doc`;
}

/** Every name that `table` takes in the schema: table, indexes and view share one space in SQLite. */
export function namesOf(
  { name, index }: { readonly name: string; readonly index: readonly string[] },
): string[] {
  return [
    name,
    topicIndex(name),
    timeIndex(name),
    documentView(name),
    ...index.map((key) => columnIndex(name, key)),
  ];
}
