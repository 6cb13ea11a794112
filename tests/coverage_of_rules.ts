/**
 * Which invariants, rules of delivery, of storage and of AMQP, and which sections on operations and on what clients
 * are owed, no test names. Prints them, and ends with code 1 when one is missing that the lists below do
 * not excuse, or when an excuse has become needless.
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

/** How many rules each letter of AMQP, of ingest and of storage has, `A1` to `A60`: ids without sections. */
const LETTERS: Readonly<Record<string, number>> = { A: 60, B: 9, C: 6, N: 12, P: 9, S: 198, T: 8 };

/** Sections on operations: what they say has no ids, so a test names the section, as in `05 4.3`. */
const OPERATIONS: readonly string[] = [
  ["1", 0],
  ["2", 4],
  ["3", 0],
  ["4", 5],
  ["5", 0],
  ["6", 0],
  ["7", 8],
  ["8", 3],
  ["9", 0],
  ["10", 3],
  ["11", 0],
  ["12", 4],
  ["13", 0],
  ["14", 0],
  ["15", 0],
  ["16", 0],
].flatMap(([section, parts]) =>
  parts === 0
    ? [`05 ${section}`]
    : Array.from({ length: parts as number }, (_, i) => `05 ${section}.${i + 1}`)
);

/**
 * The contract towards clients: sections 2, 6 and 9 number their rules, as in `06 9.4`; of the others a test
 * names the section.
 */
const CLIENTS: readonly string[] = Array.from({ length: 16 }, (_, i) => i + 1).flatMap(
  (section) => {
    const count = { 2: 10, 6: 12, 9: 13 }[section];
    return count === undefined
      ? [`06 ${section}`]
      : Array.from({ length: count }, (_, i) => `06 ${section}.${i + 1}`);
  },
);

/** The invariants, by their numbers. */
const INVARIANTS = Array.from({ length: 18 }, (_, i) => `I${i + 1}`);

/** What a rule of AMQP or of storage says of MQTT alone, and the rule of delivery under which it is proved. */
const SAID_TWICE: readonly (readonly [id: string, rule: string])[] = [
  ["P3", "D8.9"],
  ["P4", "D8.14"],
  ["P6", "D8.10"],
  ["P7", "D6.18"],
  ["P8", "D6.5"],
  ["S19", "D11.5"],
  ["S26", "D6.1"],
  ["S39", "D11.14"],
  ["S41", "D6.14"],
  ["S107", "D8.5"],
];

const NOT_SEEN = "which thread reads is not to be seen; what it sees is proved under S113";
const ADVICE = "advice to operators, in rfcs/0007-moving-and-restoring.md";

/** Rules of storage without a test, and why. */
const STORAGE: readonly (readonly [id: string, why: string])[] = [
  ["S73", "Darwin alone: the runtime's sync is the full one there"],
  ["S74", "a figure for supervisors: BenchmarkShutdownSnapshotAcrossChannels"],
  ["S111", NOT_SEEN],
  ["S114", NOT_SEEN],
  ["S115", NOT_SEEN],
  ["S136", NOT_SEEN],
  ["S150", ADVICE],
  ["S151", ADVICE],
  ["S171", "bridges are not built yet"],
  ["S172", ADVICE],
  ["S173", ADVICE],
  ["S174", ADVICE],
];

/** Rules without a test, and why. */
const EXCUSED: ReadonlyMap<string, string> = new Map([
  ...Array.from({ length: RULES.D18 }, (_, i): [string, string] => [
    `D18.${i + 1}`,
    "bridges are not built yet; their keys are refused by name",
  ]),
  ["05 12.4", "it says that another runtime's collector is set by its environment"],
  ...STORAGE,
  ...SAID_TWICE.map(([id, rule]): [string, string] => [id, `${rule} says the same and has one`]),
]);

const NAMED = /\b(D\d+)\.(\d+)(?: to D\d+\.(\d+))?/g;
/** Letters stand for much else too: they count in what a test is called, and nowhere beside. */
const NAMED_BY_LETTER = new RegExp(
  `\\b([${Object.keys(LETTERS).join("")}])([1-9]\\d{0,2})\\b`,
  "g",
);
const TEST_NAMES = /Deno\.test\(\s*("(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`)/g;
const NAMED_OPERATIONS = /\b05 \d+(?:\.\d+)?\b/g;
/** Steps of a shared broker are properties of a literal, so any literal counts. */
const NAMED_CLIENTS = /\b06 (?:section )?(\d+(?:\.\d+)?)\b/g;
const STEP_NAMES = /(?:Deno\.test|t\.step)\(\s*("(?:[^"\\\n]|\\.)*"|`(?:[^`\\]|\\.)*`)/g;
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
      for (const [, place] of literal.matchAll(NAMED_CLIENTS)) ids.add(`06 ${place}`);
      for (const [id] of literal.matchAll(/\bI[1-9]\d?\b/g)) ids.add(id);
    }
    // Cases of one test are called by their rules too.
    for (const [, id] of text.matchAll(/["`](S[1-9]\d{0,2}) /g)) ids.add(id);
    for (const [, name] of text.matchAll(TEST_NAMES)) {
      for (const [id] of name.matchAll(NAMED_BY_LETTER)) ids.add(id);
    }
    for (const [, name] of text.matchAll(STEP_NAMES)) {
      for (const [id] of name.matchAll(NAMED_OPERATIONS)) ids.add(id);
    }
  }
  return ids;
}

const directory = new URL(".", import.meta.url).pathname.replace(/\/$/, "");
const ownPath = new URL(import.meta.url).pathname;
const proved = named(directory);
const rules = new Set([
  ...OPERATIONS,
  ...CLIENTS,
  ...INVARIANTS,
  ...Object.entries(RULES).flatMap(([section, count]) =>
    Array.from({ length: count }, (_, i) => `${section}.${i + 1}`)
  ),
  ...Object.entries(LETTERS).flatMap(([letter, count]) =>
    Array.from({ length: count }, (_, i) => `${letter}${i + 1}`)
  ),
]);
let missing = 0;
for (const id of rules) {
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
for (const id of proved) {
  // A test of a whole section names it, whatever its parts are.
  if (rules.has(id) || rules.has(`${id}.1`)) continue;
  console.log(`${id} is in the name of a test and is no rule`);
  missing++;
}
console.log(`${rules.size} rules, ${EXCUSED.size} excused, ${missing} to be mended`);
Deno.exit(missing === 0 ? 0 : 1);
