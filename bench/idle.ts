/**
 * What an idle connection costs: resident memory of a broker with and without ten thousand clients
 * that connected and say nothing, beside mosquitto and aedes.
 *
 *     deno run -A bench/idle.ts --connections 10000 --contenders mosquitto,committed
 */
import { parseArgs } from "node:util";
import { CONTENDERS, contenders, type Running } from "./support/brokers.ts";
import { residentBytes, table, whole } from "./support/measure.ts";

const ROOT = new URL("../", import.meta.url).pathname;
/** Garbage of the connecting itself may still be there; brokers get this long to let go of it. */
const SETTLE_MS = 3_000;
/** By then a runtime that collects garbage has seen that nothing happens, and given back what it can. */
const IDLE_MS = 30_000;
/** Descriptors beyond the sockets: libraries, databases, pipes. */
const OTHER_DESCRIPTORS = 200;
const MIB = 1024 * 1024;

const { values } = parseArgs({
  options: {
    connections: { type: "string" },
    contenders: { type: "string", default: "mosquitto,aedes,committed" },
    level: { type: "string", default: "4" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(
    `bench/idle.ts [--connections 10000] [--contenders ${
      CONTENDERS.map((c) => c.name).join(",")
    }] [--level 4] [--smoke]`,
  );
  Deno.exit(0);
}
const connections = Number(values.connections ?? (values.smoke ? 100 : 10_000));
const settleMs = values.smoke ? 100 : SETTLE_MS;
const idleMs = values.smoke ? 100 : IDLE_MS;

const limit = openFilesLimit();
if (limit < connections + OTHER_DESCRIPTORS) {
  console.error(
    `${connections} connections need an open files limit of ${connections + OTHER_DESCRIPTORS}; ` +
      `it is ${limit}. Raise it with "ulimit -n ${connections + OTHER_DESCRIPTORS}" and run again.`,
  );
  Deno.exit(1);
}

/** The soft limit, which every process started from here inherits. */
function openFilesLimit(): number {
  const line = /^Max open files\s+(\d+)/m.exec(Deno.readTextFileSync("/proc/self/limits"));
  if (line === null) throw new Error("/proc/self/limits has no line of open files");
  return Number(line[1]);
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** Resident bytes of `broker` before it holds the connections, at once and idle; and how long they took. */
async function hold(broker: Running) {
  await sleep(settleMs);
  const before = residentBytes(broker.pid);
  const start = performance.now();
  const holder = new Deno.Command(Deno.execPath(), {
    args: ["run", "--quiet", "--cached-only", "--allow-all", ROOT + "bench/support/hold.ts"].concat(
      [broker.port, connections, Number(values.level)].map(String),
    ),
    stdin: "piped",
    stdout: "piped",
    stderr: "inherit",
  }).spawn();
  const reader = holder.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const said = (await reader.read()).value ?? "";
  if (said.trim() !== `held ${connections}`) {
    throw new Error(`${broker.name} did not admit ${connections} connections`);
  }
  const openedMs = performance.now() - start;
  await sleep(settleMs);
  const opened = residentBytes(broker.pid);
  await sleep(idleMs);
  const idle = residentBytes(broker.pid);
  await holder.stdin.close();
  await reader.cancel();
  await holder.status;
  return { before, opened, idle, openedMs };
}

const rows: string[][] = [];
for (const contender of contenders(values.contenders.split(","))) {
  console.error(`${contender.name} ...`);
  await using broker = await contender.start();
  const { before, opened, idle, openedMs } = await hold(broker);
  rows.push([
    contender.name,
    (before / MIB).toFixed(1),
    (opened / MIB).toFixed(1),
    (idle / MIB).toFixed(1),
    whole((idle - before) / connections),
    (openedMs / 1000).toFixed(1),
  ]);
}
console.log(`\nResident memory with ${whole(connections)} idle connections\n`);
console.log(
  table(["", "MB before", "MB at once", "MB idle", "bytes each", "seconds to open"], rows),
);
