/**
 * AMQP beside Debian's RabbitMQ, where that is installed, and the crossing by itself: W1 to W12 of the
 * specification, in both acknowledgement modes. Contenders take turns, each warmed up before its figures
 * count; what is printed are medians.
 *
 * RabbitMQ's classic queues flush on an interval: its confirm of a persistent message says less than
 * ours does with `acknowledge: synced`, and about as much as with `committed`.
 *
 *     deno run -A bench/amqp.ts --rounds 3 --scenarios W1,W5
 */
import { parseArgs } from "node:util";
import {
  BrokerProcess,
  configurationText,
  temporaryPlace,
} from "../tests/support/broker_process.ts";
import { freePort } from "../tests/support/ports.ts";
import { sleep } from "../tests/support/wait.ts";
import { percentile } from "./support/amqp_load.ts";
import { type Figure, INGEST, type Running, SCENARIOS } from "./support/amqp_scenarios.ts";
import { median, table, whole } from "./support/measure.ts";
import { rabbitmq } from "./support/rabbitmq.ts";

const HELP = `bench/amqp.ts [options]
  --scenarios W1,W2,...   all by default
  --contenders a,b,...    of committed, synced, rabbitmq
  --rounds 2              runs of each scenario, contenders alternating
  --smoke                 one short round, to see that everything runs`;

const { values } = parseArgs({
  options: {
    scenarios: { type: "string", default: SCENARIOS.map(({ name }) => name).join(",") },
    contenders: { type: "string", default: "committed,synced,rabbitmq" },
    rounds: { type: "string", default: "2" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(HELP);
  Deno.exit(0);
}
const rounds = values.smoke ? 1 : Number(values.rounds);
/** Of the specification's counts. */
const scale = (share: number) => (count: number) => Math.max(1, Math.round(count * share));
const full = scale(values.smoke ? 0.02 : 1);
/** A run-time that compiles what is hot has to have been hot. */
const WARM_UP = scale(0.5);
const WARMED_BY = ["W1", "W5", "W7"];

interface Contender {
  readonly name: string;
  start(): Promise<Running>;
}

function saguin(acknowledge: "committed" | "synced"): Contender {
  return {
    name: acknowledge,
    async start() {
      const port = freePort();
      const operations = freePort();
      const broker = await BrokerProcess.start((place) =>
        configurationText(place, {
          acknowledge,
          logLevel: "warn",
          broker:
            `amqp:\n  max_ready: 1000000\n  listen:\n    tcp:\n      address: 127.0.0.1:${port}\n` +
            `operations:\n  listen:\n    tcp:\n      address: 127.0.0.1:${operations}`,
        }) + INGEST
      );
      return {
        amqp: port,
        database: broker.database,
        mqtt: broker.port,
        commits: () => commitsOf(operations),
        async restart() {
          await broker.kill();
          const started = performance.now();
          await broker.startAgain();
          return performance.now() - started;
        },
        [Symbol.asyncDispose]: () => broker[Symbol.asyncDispose](),
      };
    },
  };
}

/** Publish groups that the broker has committed; its overview is made anew every second. */
async function commitsOf(operations: number): Promise<number> {
  await sleep(1_100);
  const overview = await fetch(`http://127.0.0.1:${operations}/v1/operations/overview`);
  const { providers } = await overview.json();
  return providers[0].commits;
}

const CONTENDERS: readonly Contender[] = [saguin("committed"), saguin("synced"), rabbitmq];

/** Milliseconds of one fdatasync after a small append, on the disk that the brokers use. */
function oneSync(): number {
  const { directory } = temporaryPlace();
  try {
    using file = Deno.openSync(`${directory}/sync`, { create: true, write: true, append: true });
    const piece = new Uint8Array(4_096);
    const took: number[] = [];
    for (let i = 0; i < (values.smoke ? 10 : 100); i++) {
      file.writeSync(piece);
      const started = performance.now();
      file.syncDataSync();
      took.push(performance.now() - started);
    }
    return percentile(took, 0.5);
  } finally {
    Deno.removeSync(directory, { recursive: true });
  }
}

const chosen = SCENARIOS.filter(({ name }) => values.scenarios.split(",").includes(name));
const wanted = values.contenders.split(",");
const contenders = CONTENDERS.filter(({ name }) => wanted.includes(name)).filter((contender) => {
  if (contender !== rabbitmq || rabbitmq.installed) return true;
  console.log("rabbitmq-server is not installed: nothing to compare with");
  return false;
});

/** Figures by scenario and contender. */
const measured = new Map<string, Figure[]>();
const key = (scenario: string, contender: string) => `${scenario} ${contender}`;
const syncs: number[] = [];

for (let round = 0; round < rounds; round++) {
  for (const contender of contenders) {
    syncs.push(oneSync());
    await using broker = await contender.start();
    if (!values.smoke) {
      for (const { name, run } of SCENARIOS) {
        if (WARMED_BY.includes(name)) await run(broker, WARM_UP);
      }
    }
    for (const { name, once, run } of chosen) {
      if (once && (round > 0 || values.smoke && contender === rabbitmq)) continue;
      const figure = await run(broker, full);
      if (figure === undefined) continue;
      const place = key(name, contender.name);
      measured.set(place, [...measured.get(place) ?? [], figure]);
    }
  }
}

/** The median of one figure of a scenario; undefined where it was not measured. */
function of(scenario: string, contender: string, pick: keyof Figure): number | undefined {
  const figures = measured.get(key(scenario, contender))?.map((figure) => figure[pick]);
  return figures === undefined || figures[0] === undefined
    ? undefined
    : median(figures as number[]);
}

function text(scenario: string, contender: string): string {
  const [p50, p99] = [of(scenario, contender, "p50"), of(scenario, contender, "p99")];
  if (p50 !== undefined) return `${p50.toFixed(2)} / ${p99!.toFixed(2)} ms`;
  const rate = of(scenario, contender, "rate");
  if (rate === undefined) return "-";
  const commits = of(scenario, contender, "commitsPerMessage");
  return `${whole(rate)} /s${commits === undefined ? "" : ` (${commits.toFixed(3)} commits each)`}`;
}

/** How many times better than RabbitMQ: more a second, or less time. */
function ratio(scenario: string, contender: string): string {
  for (const pick of ["p50", "rate"] as const) {
    const [mine, theirs] = [of(scenario, contender, pick), of(scenario, "rabbitmq", pick)];
    if (mine !== undefined && theirs !== undefined) {
      return (pick === "rate" ? mine / theirs : theirs / mine).toFixed(2);
    }
  }
  return "-";
}

const ours = contenders.filter(({ name }) => name !== "rabbitmq").map(({ name }) => name);
const beside = contenders.some(({ name }) => name === "rabbitmq");
console.log(`\nAMQP and the crossing, bodies of 100 bytes; rates, or p50 / p99\n`);
console.log(table(
  [
    "",
    "scenario",
    ...contenders.map(({ name }) => name),
    ...beside ? ours.map((name) => `${name} : rabbitmq`) : [],
  ],
  chosen.map(({ name, what }) => [
    name,
    what,
    ...contenders.map((contender) => text(name, contender.name)),
    ...beside ? ours.map((contender) => ratio(name, contender)) : [],
  ]),
));
const sync = median(syncs);
console.log(`\none fdatasync of this disk: ${sync.toFixed(2)} ms at the median\n`);

/** `a` times `b`, where both were measured. */
function quotient(a: number | undefined, b: number | undefined): number | undefined {
  return a === undefined || b === undefined ? undefined : a / b;
}

/** What is promised: the figure, its bound, and on which side of it the figure belongs. */
type Target = readonly [
  what: string,
  value: number | undefined,
  side: "≥" | "≤",
  bound: number,
];
const TARGETS: readonly Target[] = [
  ...["W1", "W5"].map((name) =>
    [
      `${name} committed : rabbitmq`,
      quotient(of(name, "committed", "rate"), of(name, "rabbitmq", "rate")),
      "≥",
      1,
    ] as const
  ),
  [
    "W3 synced : one sync a message",
    quotient(of("W3", "synced", "rate"), of("W3-1", "synced", "rate")),
    "≥",
    10,
  ],
  ["W4 synced : W3", quotient(of("W4", "synced", "rate"), of("W3", "synced", "rate")), "≥", 1],
  ["W6 committed, p50 ms", of("W6", "committed", "p50"), "≤", 0.5],
  ["W6 synced, p50 ms", of("W6", "synced", "p50"), "≤", 0.5],
  ["W7 committed, p50 ms", of("W7", "committed", "p50"), "≤", 0.2],
  ["W7 synced, p50 ms", of("W7", "synced", "p50"), "≤", 0.2],
  ["W8 committed, p50 ms", of("W8", "committed", "p50"), "≤", 1],
  ["W8 synced, p50 ms (one fdatasync + 1)", of("W8", "synced", "p50"), "≤", sync + 1],
  ["W9-64 synced, commits a message", of("W9-64", "synced", "commitsPerMessage"), "≤", 0.1],
  ...["committed", "synced"].map((mode) =>
    [
      `W10 ${mode} : W8, in turn`,
      of("W10", mode, "overhead"),
      "≤",
      1.2,
    ] as const
  ),
];
// A smoke run is too short to hold anybody to a figure.
const judged = TARGETS.filter(([, value]) => value !== undefined && !values.smoke);
if (judged.length > 0) {
  console.log(table(
    ["target", "measured", "promised", "kept"],
    judged.map(([what, value, side, bound]) => [
      what,
      value!.toFixed(2),
      `${side} ${bound.toFixed(2)}`,
      (side === "≥" ? value! >= bound : value! <= bound) ? "yes" : "no",
    ]),
  ));
}
