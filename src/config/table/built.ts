/**
 * What this version does not do yet. A key listed here is refused by name, with everything under it;
 * building its room takes the line away and adds a reader of the resolved value, nothing else.
 */
export const NOT_BUILT: readonly string[] = [
  "bridges",
];
