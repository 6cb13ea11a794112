/**
 * How long a broker takes from exec to answering a CONNECT, and what it is resident then: of every kind
 * of executable there is, on an empty database and on one with a million records.
 *
 *     deno run -A bench/startup.ts --executables bin/saguin,dist/saguin-0.1.0-linux-x86_64/saguin
 *
 * Without --executables: bin/saguin, which runs from source, and what `make build` left for this machine.
 * A portable file unpacks at its first start: that has a row of its own, beside a later `--version`.
 */
import { parseArgs } from "node:util";
import { hostTarget } from "../packaging/targets.ts";
import { VERSION } from "../src/version.ts";
import {
  BrokerProcess,
  configurationText,
  runToEnd,
  temporaryPlace,
} from "../tests/support/broker_process.ts";
import type { LoadResult } from "./support/load.ts";
import { median, residentBytes, table, whole } from "./support/measure.ts";

const ROOT = new URL("../", import.meta.url).pathname;
const MIB = 1024 * 1024;
/** The start's own garbage may still be there; it gets this long to go. */
const SETTLE_MS = 1_000;
/** What unpacking may take on the slowest of machines. */
const UNPACK_MS = 120_000;
const CHANNELS = "bench:\n  type: append";
const TOPIC = "bench/startup";

const { values } = parseArgs({
  options: {
    executables: { type: "string" },
    records: { type: "string", default: "1000000" },
    rounds: { type: "string", default: "7" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(
    "bench/startup.ts [--executables FILE,...] [--records 1000000] [--rounds 7] [--smoke]",
  );
  Deno.exit(0);
}
const records = values.smoke ? 1_000 : Number(values.records);
const rounds = values.smoke ? 1 : Number(values.rounds);
const executables = values.executables?.split(",") ?? [
  `${ROOT}bin/saguin`,
  `${ROOT}dist/saguin-${VERSION}-${hostTarget()?.name}/saguin`,
].filter(exists);

function exists(path: string): boolean {
  try {
    return Deno.statSync(path).isFile;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

interface Measured {
  readonly startMs: number;
  readonly bytes: number;
}

/** One start on the files that are there; the broker is stopped again. */
async function start(broker: BrokerProcess): Promise<Measured> {
  const from = performance.now();
  await broker.startAgain();
  const startMs = performance.now() - from;
  await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
  const bytes = residentBytes(broker.pid);
  const { code } = await broker.stop();
  if (code !== 0) throw new Error(`the broker ended with ${code}`);
  return { startMs, bytes };
}

async function starts(broker: BrokerProcess): Promise<Measured> {
  const all: Measured[] = [];
  for (let round = 0; round < rounds; round++) all.push(await start(broker));
  return {
    startMs: median(all.map(({ startMs }) => startMs)),
    bytes: median(all.map(({ bytes }) => bytes)),
  };
}

/** Publishes until at least `records` are stored. */
async function fill(broker: BrokerProcess): Promise<number> {
  await broker.startAgain();
  let stored = 0;
  while (stored < records) {
    const options = {
      port: broker.port,
      connections: 8,
      window: 64,
      level: 4,
      topic: TOPIC,
      payload: 128,
      warmup: 100,
      measure: values.smoke ? 100 : 5_000,
    };
    const { success, stdout } = await new Deno.Command(Deno.execPath(), {
      args: [
        ...["run", "--quiet", "--allow-all", "--cached-only", `${ROOT}bench/support/load.ts`],
        ...Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]),
      ],
      stdout: "piped",
      stderr: "inherit",
    }).output();
    if (!success) throw new Error("the load failed");
    stored += (JSON.parse(new TextDecoder().decode(stdout)) as LoadResult).acknowledged;
  }
  await broker.stop();
  return stored;
}

const rows: string[][] = [];

/** Rows of one executable: the unpacking of a portable one, then on empty and on filled files. */
async function measure(executable: string): Promise<void> {
  Deno.env.set("SAGUIN_BIN", executable);
  const cache = temporaryPlace().directory;
  Deno.env.set("SAGUIN_CACHE", cache);
  try {
    const first = await version();
    const kind = /\(\S+, (\w+),/.exec(first.says)?.[1] ?? first.says;
    console.error(`${executable}: ${first.says}`);
    const add = (name: string, startMs: number, bytes?: number) =>
      rows.push([`${kind}, ${name}`, whole(startMs), bytes ? (bytes / MIB).toFixed(0) : ""]);
    if (kind === "portable") add("--version, which unpacks", first.ms);
    add("--version", median([(await version()).ms, (await version()).ms, (await version()).ms]));

    await using broker = await BrokerProcess.start((place) =>
      configurationText(place, { channels: CHANNELS, logLevel: "warn" })
    );
    await broker.stop();
    const empty = await starts(broker);
    add("empty", empty.startMs, empty.bytes);
    const stored = await fill(broker);
    const filled = await starts(broker);
    add(`${whole(stored)} records`, filled.startMs, filled.bytes);
  } finally {
    await Deno.remove(cache, { recursive: true });
  }
}

/** What `--version` says, and how long that takes: a start that opens and binds nothing. */
async function version(): Promise<{ readonly says: string; readonly ms: number }> {
  const from = performance.now();
  const { code, stdout, stderr } = await runToEnd(["--version"], UNPACK_MS);
  if (code !== 0) throw new Error(stderr);
  return { says: stdout.trim(), ms: performance.now() - from };
}

for (const executable of executables) await measure(executable);
console.log(table(["executable, database", "start ms", "resident MiB"], rows));
