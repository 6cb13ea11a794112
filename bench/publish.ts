/**
 * How fast publishes are acknowledged: QoS 1, small payloads, over connections and windows, beside
 * Debian's mosquitto and npm's aedes under the same load in the same run. The machine is taken to be
 * noisy: contenders take turns, and what is printed are medians and ratios.
 *
 *     make bench ARGS="--connections 8 --windows 64 --rounds 5"
 */
import { parseArgs } from "node:util";
import {
  type Contender,
  CONTENDERS,
  contenders,
  load,
  type Running,
  startSink,
} from "./support/brokers.ts";
import type { LoadResult } from "./support/load.ts";
import { median, table, whole, writtenBytes } from "./support/measure.ts";

const TOPIC = "bench";
/** After the last run of a cell, before its written bytes are read: a flush and a checkpoint. */
const SETTLE_MS = 500;

const HELP = `bench/publish.ts [options]
  --connections 1,8,50   publishers
  --windows 1,20,64      publishes out per connection
  --contenders a,b,...   of ${CONTENDERS.map((c) => c.name).join(", ")}
  --rounds 3             runs per contender and load, alternating
  --seconds 1.5          measured per run, after --warmup 0.5
  --payload 128          bytes
  --level 4              protocol level; 5 leaves out contenders that only speak 3.1.1
  --smoke                one short round of two loads, to see that everything runs`;

const { values } = parseArgs({
  options: {
    connections: { type: "string", default: "1,8,50" },
    windows: { type: "string", default: "1,20,64" },
    contenders: { type: "string", default: CONTENDERS.map((c) => c.name).join(",") },
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "1.5" },
    warmup: { type: "string", default: "0.5" },
    payload: { type: "string", default: "128" },
    level: { type: "string", default: "4" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(HELP);
  Deno.exit(0);
}

interface Load {
  readonly connections: number;
  readonly window: number;
}

/** What one contender did under one load, over all rounds. */
interface Cell {
  readonly rate: number;
  readonly p50: number | undefined;
  readonly p99: number | undefined;
  readonly writtenPerMessage: number;
  readonly generatorCpu: number;
}

const numbers = (text: string) => text.split(",").map(Number);
const rounds = values.smoke ? 1 : Number(values.rounds);
const warmupMs = values.smoke ? 200 : Number(values.warmup) * 1000;
const measureMs = values.smoke ? 300 : Number(values.seconds) * 1000;
const level = Number(values.level);
const payload = Number(values.payload);
const loads: Load[] = values.smoke
  ? [{ connections: 1, window: 1 }, { connections: 8, window: 64 }]
  : numbers(values.connections).flatMap((connections) =>
    numbers(values.windows).map((window) => ({ connections, window }))
  );
const chosen = contenders(values.contenders.split(",")).filter((c) => level === 4 || c.mqtt5);

function run(broker: Running, { connections, window }: Load): Promise<LoadResult> {
  return load(broker, "load.ts", {
    connections,
    window,
    level,
    topic: TOPIC,
    payload,
    warmup: warmupMs,
    measure: measureMs,
  });
}

async function measure(each: Load): Promise<{ cells: Map<string, Cell>; ceiling: LoadResult }> {
  const brokers: Running[] = [];
  try {
    for (const contender of chosen) brokers.push(await contender.start());
    const before = brokers.map((broker) => writtenBytes(broker.pid));
    const results: LoadResult[][] = brokers.map(() => []);
    for (let round = 0; round < rounds; round++) {
      for (const [i, broker] of brokers.entries()) results[i].push(await run(broker, each));
    }
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    const cells = new Map(brokers.map((broker, i) => {
      const written = writtenBytes(broker.pid) - before[i];
      return [broker.name, summary(results[i], written)];
    }));
    await using sink = await startSink(level, TOPIC, payload, each.window);
    return { cells, ceiling: await run(sink, each) };
  } finally {
    for (const broker of brokers) await broker[Symbol.asyncDispose]();
  }
}

function summary(results: readonly LoadResult[], written: number): Cell {
  const middle = (of: (result: LoadResult) => number | undefined) => {
    const known = results.map(of).filter((value) => value !== undefined);
    return known.length === 0 ? undefined : median(known);
  };
  return {
    rate: median(results.map((result) => result.rate)),
    p50: middle((result) => result.p50),
    p99: middle((result) => result.p99),
    writtenPerMessage: written / results.reduce((sum, result) => sum + result.acknowledged, 0),
    generatorCpu: median(results.map((result) => result.generatorCpu)),
  };
}

const measured: { load: Load; cells: Map<string, Cell>; ceiling: LoadResult }[] = [];
for (const each of loads) {
  console.error(`${each.connections} connections, window ${each.window} ...`);
  measured.push({ load: each, ...await measure(each) });
}

const nameOf = ({ connections, window }: Load) => `${connections} x ${window}`;
const heads = ["connections x window", ...chosen.map((c: Contender) => c.name)];
const rows = (cell: (cell: Cell, base: Cell | undefined) => string) =>
  measured.map(({ load, cells }) => [
    nameOf(load),
    ...chosen.map((c) => cell(cells.get(c.name)!, cells.get("mosquitto"))),
  ]);

console.log(
  `\nAcknowledged publishes a second (QoS 1, ${payload} bytes, MQTT ${
    level === 5 ? "5" : "3.1.1"
  }, medians of ${rounds}); in brackets the ratio to mosquitto\n`,
);
console.log(table(
  [...heads, "generator alone"],
  rows((cell, base) =>
    whole(cell.rate) + (base === undefined ? "" : ` (${(cell.rate / base.rate).toFixed(2)}x)`)
  ).map((row, i) => [...row, whole(measured[i].ceiling.rate)]),
));

console.log("\nProcessor time of the load generator, share of one core\n");
console.log(table(heads, rows((cell) => cell.generatorCpu.toFixed(2))));

console.log("\nBytes written to disk a message\n");
console.log(table(heads, rows((cell) => whole(cell.writtenPerMessage))));

const lone = measured.find(({ load }) => load.connections === 1 && load.window === 1);
if (lone !== undefined) {
  const us = (value: number | undefined) => value === undefined ? "-" : `${whole(value)} us`;
  console.log("\nPUBACK latency of a lone sequential publisher\n");
  console.log(table(
    ["", "p50", "p99"],
    chosen.map(({ name }) => {
      const cell = lone.cells.get(name)!;
      return [name, us(cell.p50), us(cell.p99)];
    }),
  ));
}

/** The promises of speed, each as a ratio within this run. */
const heavy = measured.find(({ load }) => load.connections === 8 && load.window === 64)?.cells;
const promises: [string, number | undefined, string][] = [
  ["sqlite committed / mosquitto, 8 x 64", ratio("committed", "mosquitto"), "at least 3"],
  ["broadcast / mosquitto, 8 x 64", ratio("broadcast", "mosquitto"), "at least 5"],
  ["synced / committed, 8 x 64", ratio("synced", "committed"), "at least 0.70"],
  ["lone PUBACK on sqlite, p50 in ms", milliseconds("committed"), "at most 0.30"],
];

function ratio(name: string, base: string): number | undefined {
  const [above, below] = [heavy?.get(name), heavy?.get(base)];
  return above === undefined || below === undefined ? undefined : above.rate / below.rate;
}

function milliseconds(name: string): number | undefined {
  const p50 = lone?.cells.get(name)?.p50;
  return p50 === undefined ? undefined : p50 / 1000;
}

// A smoke run is too short to hold anybody to a figure.
const kept = promises.filter(([, value]) => !values.smoke && value !== undefined);
if (kept.length > 0) {
  console.log("\nPromises\n");
  console.log(table(
    ["", "measured", "promised"],
    kept.map(([what, value, promised]) => [what, value!.toFixed(2), promised]),
  ));
}
