/**
 * Ten thousand durable sessions lose their connections at one moment and connect again at once, while
 * ten publishers send. Prints what their PUBACKs took before and during the storm, how long CONNACKs
 * took, and what it cost in memory; ends with code 1 when an acknowledged publish is lost, or a CONNACK
 * came later than promised.
 *
 *     deno run -A bench/reconnect_storm.ts --sessions 10000 --providers sqlite
 */
import { parseArgs } from "node:util";
import { saguin } from "./support/brokers.ts";
import { table, whole } from "./support/measure.ts";
import { runStorm, STORM_CHANNELS, type StormResult } from "./support/storm.ts";

const MIB = 1024 * 1024;
/** The slowest CONNACK of a storm. */
const CONNACK_MS = 10_000;

const { values } = parseArgs({
  options: {
    sessions: { type: "string" },
    publishers: { type: "string", default: "10" },
    rate: { type: "string", default: "2000" },
    before: { type: "string" },
    providers: { type: "string", default: "sqlite,memory" },
    smoke: { type: "boolean", default: false },
    help: { type: "boolean", default: false },
  },
});
if (values.help) {
  console.log(
    "bench/reconnect_storm.ts [--sessions 10000] [--publishers 10] [--rate 2000 publishes a second] " +
      "[--before 5 seconds] [--providers sqlite,memory] [--smoke]",
  );
  Deno.exit(0);
}
const sessions = Number(values.sessions ?? (values.smoke ? 500 : 10_000));
const beforeMs = Number(values.before ?? (values.smoke ? 0.5 : 5)) * 1_000;

async function storm(provider: string): Promise<StormResult> {
  const broker = saguin(provider, {
    provider: provider === "memory" ? "memory" : "sqlite",
    channels: STORM_CHANNELS,
    // Everybody at once, and a slow CONNACK shall be seen as slow, not as a connection that was cut.
    limits: "max_connect_rate: none\nmax_connections: 20000\nconnect_timeout: 60s",
  });
  await using running = await broker.start();
  return await runStorm({
    port: running.port,
    pid: running.pid,
    sessions,
    publishers: Number(values.publishers),
    rate: Number(values.rate),
    beforeMs,
  });
}

const ms = (value: number) => value < 10 ? value.toFixed(2) : whole(value);
const mib = (value: number) => whole(value / MIB);

let broken = false;
for (const provider of values.providers.split(",")) {
  console.error(`${provider}: ${whole(sessions)} sessions ...`);
  const result = await storm(provider);
  const { before, during, connack, rss } = result;
  console.log(
    `\n${
      whole(sessions)
    } durable sessions reconnect on ${provider}, ${values.publishers} publishers at ` +
      `${whole(Number(values.rate))} a second in all\n`,
  );
  console.log(table(["milliseconds", "count", "p50", "p99", "worst"], [
    [
      "PUBACK before the storm",
      whole(before.count),
      ms(before.p50),
      ms(before.p99),
      ms(before.worst),
    ],
    [
      "PUBACK during the storm",
      whole(during.count),
      ms(during.p50),
      ms(during.p99),
      ms(during.worst),
    ],
    ["CONNACK", whole(connack.count), ms(connack.p50), ms(connack.p99), ms(connack.worst)],
  ]));
  console.log(
    `\nThe last CONNACK came after ${ms(result.lengthMs)} ms; ${
      whole(result.resumed)
    } sessions resumed, ` +
      `the last had what it was owed after ${ms(result.caughtUpMs)} ms.\n` +
      `${whole(result.acknowledged)} publishes acknowledged, ${
        whole(result.lost)
      } lost. Resident MiB: ` +
      `${mib(rss.before)} before, ${mib(rss.peak)} at most, ${mib(rss.after)} after.`,
  );
  if (result.lost > 0 || result.resumed < sessions || connack.worst > CONNACK_MS) broken = true;
}
if (broken) {
  console.error("\nA session was not resumed, a publish was lost, or a CONNACK took over 10 s.");
  Deno.exit(1);
}
