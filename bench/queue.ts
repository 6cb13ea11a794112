/**
 * How fast jobs go through a queue: offered, acknowledged on the wire, answered, gone. Beside it, what
 * the same generator gets out of mosquitto with a shared subscription at one message a time, which keeps
 * nothing and redelivers nothing, and how many mere publishes the same broker acknowledges to as many
 * connections of one publish at a time.
 *
 *     deno run -A bench/queue.ts --workers 8 --rounds 5
 */
import { parseArgs } from "node:util";
import { type Contender, load, mosquitto, type Running, saguin } from "./support/brokers.ts";
import type { LoadResult } from "./support/load.ts";
import { median, table, whole } from "./support/measure.ts";
import type { WorkersResult } from "./support/workers.ts";

const HELP = `bench/queue.ts [options]
  --workers 1,8,64     workers, each with one job at a time
  --rounds 3           runs per contender and load, alternating
  --seconds 1.5        measured per run, after as long again
  --backlog 2000       jobs kept waiting
  --payload 128        bytes
  --smoke              one short round, to see that everything runs`;

const { values } = parseArgs({
  options: {
    workers: { type: "string", default: "1,8,64" },
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "1.5" },
    backlog: { type: "string", default: "2000" },
    payload: { type: "string", default: "128" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(HELP);
  Deno.exit(0);
}
const rounds = values.smoke ? 1 : Number(values.rounds);
const measureMs = values.smoke ? 300 : Number(values.seconds) * 1_000;
const loads = values.smoke ? [8] : values.workers.split(",").map(Number);

const CHANNELS = "jobs:\n  type: queue\nplain:\n  type: append";
const ours: readonly Contender[] = [
  saguin("sqlite", { provider: "sqlite", channels: CHANNELS }),
  saguin("memory", { provider: "memory", channels: CHANNELS }),
];

interface Cell {
  readonly jobs: number;
  readonly generatorCpu: number;
  /** Publishes acknowledged a second; only of brokers with queues. */
  readonly publishes: number | undefined;
}

function work(broker: Running, workers: number, filter: string): Promise<WorkersResult> {
  return load(broker, "workers.ts", {
    workers,
    filter,
    topic: "jobs",
    backlog: values.backlog,
    payload: values.payload,
    warmup: measureMs,
    measure: measureMs,
  });
}

async function publishes(broker: Running, connections: number): Promise<number> {
  const { rate } = await load<LoadResult>(broker, "load.ts", {
    connections,
    window: 1,
    topic: "plain",
    payload: values.payload,
    warmup: measureMs / 3,
    measure: measureMs / 3,
  });
  return rate;
}

async function round(contender: Contender, workers: number): Promise<Cell> {
  await using broker = await contender.start();
  const queues = contender !== mosquitto;
  const filter = queues ? "$saguin/queue/jobs" : "$share/workers/jobs/#";
  const { rate, generatorCpu } = await work(broker, workers, filter);
  return {
    jobs: rate,
    generatorCpu,
    publishes: queues ? await publishes(broker, workers) : undefined,
  };
}

async function measure(workers: number): Promise<Map<string, Cell>> {
  const contenders = [mosquitto, ...ours];
  const cells = new Map<string, Cell[]>(contenders.map(({ name }) => [name, []]));
  for (let i = 0; i < rounds; i++) {
    for (const contender of contenders) {
      cells.get(contender.name)!.push(await round(contender, workers));
    }
  }
  return new Map(
    [...cells].map(([name, each]) => [name, {
      jobs: median(each.map(({ jobs }) => jobs)),
      generatorCpu: median(each.map(({ generatorCpu }) => generatorCpu)),
      publishes: name === mosquitto.name
        ? undefined
        : median(each.map(({ publishes }) => publishes!)),
    }]),
  );
}

const rows: string[][] = [];
for (const workers of loads) {
  console.error(`${workers} workers ...`);
  const cells = await measure(workers);
  const base = cells.get(mosquitto.name)!.jobs;
  const jobs = (name: string) => {
    const { jobs } = cells.get(name)!;
    return `${whole(jobs)} (${(jobs / base).toFixed(2)}x)`;
  };
  rows.push([
    String(workers),
    whole(base),
    jobs("sqlite"),
    jobs("memory"),
    whole(cells.get("sqlite")!.publishes!),
    whole(cells.get("memory")!.publishes!),
    Math.max(...[...cells.values()].map(({ generatorCpu }) => generatorCpu)).toFixed(2),
  ]);
}
console.log(
  `\nJobs a second through lease and ack (${values.payload} bytes, MQTT 5, medians of ${rounds}); in ` +
    "brackets the ratio to mosquitto's shared subscription\n",
);
console.log(table([
  "workers",
  "mosquitto shared",
  "sqlite",
  "memory",
  "mere publishes, sqlite",
  "mere publishes, memory",
  "generator's share of a core",
], rows));
