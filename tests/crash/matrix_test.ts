/**
 * The crash matrix (04-storage.md section 22) against the tests: every row has one that carries its name.
 *
 * | Rows | Where the point is reached | Tests |
 * |---|---|---|
 * | X1 to X5, X16, X21, X27 | a kill at named statements and commits, in the executable | `publish_points_test.ts` |
 * | X6 to X15, X31 | the same; X31 also over the wire | `exactly_once_points_test.ts`, `wire/bounds_test.ts` |
 * | X17 to X26 | the same | `session_points_test.ts` |
 * | X28 to X30, X34 | the same, at schema and checkpoints; a refused start; files of two moments | `file_points_test.ts` |
 * | X1 to X5, X17 | a kill at any moment under load | `publishes_test.ts`, `storage/sqlite/kill_test.ts` |
 * | X32, X33 | the log cut at any byte; the main file alone | `storage/sqlite/power_cut_test.ts`, `open_test.ts` |
 * | X35, X36 | a flush that fails, a writer that dies | `log_flusher_test.ts`, `live_file_test.ts` |
 * | Y1 to Y11, Y14 | a directory that forgets and fails at every call | `storage/snapshot/crash_test.ts` |
 * | Y8, Y12, Y13 | spoiled files | `storage/snapshot/load_test.ts`, `fuzz_test.ts` |
 * | Y1, Y10 to Y12, Y15 | the executable and real signals | `snapshots_test.ts` |
 * | Z1, Z2 | the executable | `migration_test.ts` |
 */
import assert from "node:assert/strict";

const ROWS: readonly (readonly [letter: string, rows: number])[] = [["X", 36], ["Y", 15], ["Z", 2]];
const TESTS = new URL("../", import.meta.url).pathname;

/** Names of tests that are declared anywhere, `${...}` and all. */
function* testNames(directory: string): Generator<string> {
  for (const { name, isDirectory } of Deno.readDirSync(directory)) {
    if (isDirectory) yield* testNames(`${directory}${name}/`);
    else if (name.endsWith("_test.ts")) {
      const text = Deno.readTextFileSync(directory + name);
      for (const [, , says] of text.matchAll(/\bDeno\.test\(\s*(["`])(.*?)\1/gs)) yield says;
    }
  }
}

/** Rows a name carries: `X4`, and those between with `Y1 to Y7`. */
function* rowsOf(name: string): Generator<string> {
  for (const [, letter, from, to] of name.matchAll(/\b([XYZ])(\d+)(?: to \1(\d+))?\b/g)) {
    for (let row = Number(from); row <= Number(to ?? from); row++) yield `${letter}${row}`;
  }
}

Deno.test("every row of the crash matrix has a test that carries its name", () => {
  const proved = new Set<string>();
  for (const name of testNames(TESTS)) for (const row of rowsOf(name)) proved.add(row);
  const all = ROWS.flatMap(([letter, rows]) =>
    Array.from({ length: rows }, (_, i) => `${letter}${i + 1}`)
  );
  assert.deepEqual(all.filter((row) => !proved.has(row)), []);
  assert.deepEqual([...proved].filter((row) => !all.includes(row)), []);
});
