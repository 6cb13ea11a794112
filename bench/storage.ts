/**
 * What storage costs, beside a plain baseline of the same run: the benchmarks of 04-storage.md section 23
 * by their names, and a table of what was promised.
 *
 *     make bench ARGS="..."
 *     deno run -A --v8-flags=--expose-gc bench/storage.ts --only BenchmarkAppend --rounds 5
 */
import { parseArgs } from "node:util";
import { table } from "./support/measure.ts";
import { benchmarkAppend } from "./storage/commits.ts";
import { benchmarkConsumers } from "./storage/consumers.ts";
import { benchmarkMemory } from "./storage/memory.ts";
import { benchmarkSweeps, benchmarkTrim } from "./storage/removal.ts";
import {
  benchmarkOpening,
  benchmarkSelection,
  benchmarkShutdown,
  benchmarkSnapshot,
} from "./storage/snapshots.ts";
import { PAYLOAD_BYTES, type Scale, type Target } from "./storage/support.ts";

const BENCHMARKS: readonly (readonly [name: string, run: (scale: Scale) => Promise<Target[]>])[] = [
  ["BenchmarkAppend", benchmarkAppend],
  ["BenchmarkPublishWithConsumers", benchmarkConsumers],
  ["BenchmarkTrimOnALongChannel", benchmarkTrim],
  ["BenchmarkRetentionSweepBySize, BenchmarkRetentionSweepByAge", benchmarkSweeps],
  [
    "BenchmarkSnapshotCopyUnderLock, BenchmarkSnapshotWrite, and the start after it",
    benchmarkSnapshot,
  ],
  ["BenchmarkSnapshotChannelSelection", benchmarkSelection],
  ["BenchmarkShutdownSnapshotAcrossChannels", benchmarkShutdown],
  ["Opening a sqlite provider", benchmarkOpening],
  ["Records in memory", benchmarkMemory],
];

const HELP = `bench/storage.ts [options]
  --only NAME        benchmarks whose heading has NAME in it, of:
${BENCHMARKS.map(([name]) => `                       ${name}`).join("\n")}
  --rounds 3         rounds of a row, of which the median is shown
  --seconds 0.5      of a round, where it is measured by time
  --directory PATH   on real storage (/var/tmp)
  --smoke            seconds, to see that everything runs`;

const { values } = parseArgs({
  options: {
    only: { type: "string", default: "" },
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "0.5" },
    directory: { type: "string", default: "/var/tmp" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(HELP);
  Deno.exit(0);
}

const directory = await Deno.makeTempDir({ dir: values.directory, prefix: "saguin-bench-" });
const scale: Scale = {
  smoke: values.smoke,
  rounds: values.smoke ? 1 : Number(values.rounds),
  ms: values.smoke ? 100 : Number(values.seconds) * 1_000,
  directory,
};
const targets: Target[] = [];
console.log(`Storage, records of ${PAYLOAD_BYTES} bytes, medians of ${scale.rounds}`);
try {
  for (const [name, run] of BENCHMARKS) {
    if (!name.includes(values.only)) continue;
    console.log(`\n## ${name}\n`);
    targets.push(...await run(scale));
  }
} finally {
  await Deno.remove(directory, { recursive: true });
}
if (targets.length > 0 && !scale.smoke) {
  console.log("\n## Targets\n");
  console.log(table(
    ["", "measured", "promised", "kept"],
    targets.map(({ what, measured, promised, kept }) => [
      what,
      measured,
      promised,
      kept === undefined ? "" : kept ? "yes" : "no",
    ]),
  ));
}
