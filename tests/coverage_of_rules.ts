/**
 * Which rules of delivery no test names. Prints them, and ends with code 1 when one is missing that the
 * list below does not excuse, or when an excuse has become needless.
 *
 *     deno run --allow-read=tests tests/coverage_of_rules.ts
 *
 * A rule counts as proved where its id stands in the name of a test, in a file that a test run reads.
 */

/** How many rules each section of the delivery rules has: `D2.1` to `D2.9`, and so on. */
const RULES: Readonly<Record<string, number>> = {
  D2: 9,
  D3: 14,
  D4: 13,
  D5: 23,
  D6: 24,
  D7: 5,
  D8: 16,
  D9: 15,
  D10: 7,
  D11: 22,
  D12: 23,
  D13: 26,
  D14: 28,
  D15: 10,
  D16: 2,
  D17: 12,
  D18: 7,
  D19: 16,
  D20: 4,
  D21: 2,
  D22: 10,
};

/** Rules without a test, and why. */
const EXCUSED: ReadonlyMap<string, string> = new Map(
  Array.from({ length: RULES.D18 }, (_, i): [string, string] => [
    `D18.${i + 1}`,
    "bridges are not built yet; their keys are refused by name",
  ]),
);

const NAMED = /\b(D\d+)\.(\d+)(?: to D\d+\.(\d+))?/g;
/** String and template literals of one line: names of tests are among them, comments are not. */
const LITERALS = /"(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`/g;

function* sources(directory: string): Generator<string> {
  for (const entry of Deno.readDirSync(directory)) {
    const path = `${directory}/${entry.name}`;
    if (entry.isDirectory) yield* sources(path);
    else if (entry.name.endsWith(".ts") && path !== ownPath) yield path;
  }
}

/** Ids in the names of the tests below `directory`. */
function named(directory: string): Set<string> {
  const ids = new Set<string>();
  for (const path of sources(directory)) {
    const text = Deno.readTextFileSync(path).replaceAll(/^\s*(?:\/\/|\*|\/\*).*$/gm, "");
    for (const [literal] of text.matchAll(LITERALS)) {
      for (const [, section, first, last] of literal.matchAll(NAMED)) {
        for (let number = Number(first); number <= Number(last ?? first); number++) {
          ids.add(`${section}.${number}`);
        }
      }
    }
  }
  return ids;
}

const directory = new URL(".", import.meta.url).pathname.replace(/\/$/, "");
const ownPath = new URL(import.meta.url).pathname;
const proved = named(directory);
let rules = 0;
let missing = 0;
for (const [section, count] of Object.entries(RULES)) {
  for (let number = 1; number <= count; number++) {
    rules++;
    const id = `${section}.${number}`;
    const excuse = EXCUSED.get(id);
    if (proved.has(id)) {
      if (excuse === undefined) continue;
      console.log(`${id} has a test: take it off the list of those without`);
      missing++;
    } else if (excuse === undefined) {
      console.log(`${id} is in the name of no test`);
      missing++;
    } else console.log(`${id} has no test: ${excuse}`);
  }
}
for (const id of proved) {
  const [section, number] = id.split(".");
  if (Number(number) >= 1 && Number(number) <= (RULES[section] ?? 0)) continue;
  console.log(`${id} is in the name of a test and is no rule`);
  missing++;
}
console.log(`${rules} rules of delivery, ${EXCUSED.size} excused, ${missing} to be mended`);
Deno.exit(missing === 0 ? 0 : 1);
