/**
 * How fast one publisher's messages reach many subscribers: to 1, 10, 50 and 500 that acknowledge, and
 * to subscribers at QoS 0, beside Debian's mosquitto in the same run.
 *
 *     make bench ARGS="..."
 *     deno run -A bench/fanout.ts --consumers 50 --rounds 5
 */
import { parseArgs } from "node:util";
import type { FanResult } from "./support/fan.ts";
import { CONTENDERS, contenders, load, type Running } from "./support/brokers.ts";
import { median, table, whole } from "./support/measure.ts";

const HELP = `bench/fanout.ts [options]
  --consumers 1,10,50,500  subscribers that acknowledge (QoS 1)
  --casual 50              subscribers at QoS 0, of publishes at QoS 0
  --contenders a,b,...     of ${CONTENDERS.map((c) => c.name).join(", ")}
  --window 256             messages between the publisher and the slowest subscriber
  --rounds 3               runs per contender and load, alternating
  --seconds 1.5            measured per run, after half as long again
  --payload 128            bytes
  --level 4                protocol level; 5 leaves out contenders that only speak 3.1.1
  --smoke                  one short round of two loads, to see that everything runs`;

const { values } = parseArgs({
  options: {
    consumers: { type: "string", default: "1,10,50,500" },
    casual: { type: "string", default: "50" },
    contenders: { type: "string", default: "mosquitto,committed,memory,broadcast" },
    window: { type: "string", default: "256" },
    rounds: { type: "string", default: "3" },
    seconds: { type: "string", default: "1.5" },
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
  readonly consumers: number;
  readonly qos: 0 | 1;
}

const numbers = (text: string) => text === "" ? [] : text.split(",").map(Number);
const loads: Load[] = values.smoke ? [{ consumers: 10, qos: 1 }, { consumers: 10, qos: 0 }] : [
  ...numbers(values.consumers).map((consumers): Load => ({ consumers, qos: 1 })),
  ...numbers(values.casual).map((consumers): Load => ({ consumers, qos: 0 })),
];
const rounds = values.smoke ? 1 : Number(values.rounds);
const measureMs = values.smoke ? 200 : Number(values.seconds) * 1_000;
const level = Number(values.level);
const chosen = contenders(values.contenders.split(",")).filter((c) => level === 4 || c.mqtt5);

function fan(broker: Running, { consumers, qos }: Load): Promise<FanResult> {
  return load(broker, "fan.ts", {
    consumers,
    qos,
    window: values.window,
    level,
    topic: "bench",
    payload: values.payload,
    warmup: measureMs / 2,
    measure: measureMs,
  });
}

/** Medians over the rounds, by contender. */
async function measure(load: Load): Promise<Map<string, FanResult>> {
  const results = new Map<string, FanResult[]>(chosen.map(({ name }) => [name, []]));
  for (let round = 0; round < rounds; round++) {
    for (const contender of chosen) {
      await using broker = await contender.start();
      results.get(contender.name)!.push(await fan(broker, load));
    }
  }
  return new Map(
    [...results].map(([name, each]) => [name, {
      rate: median(each.map(({ rate }) => rate)),
      generatorCpu: median(each.map(({ generatorCpu }) => generatorCpu)),
    }]),
  );
}

const measured: { readonly load: Load; readonly cells: Map<string, FanResult> }[] = [];
for (const load of loads) {
  console.error(`${load.consumers} subscribers at QoS ${load.qos} ...`);
  measured.push({ load, cells: await measure(load) });
}

const heads = ["subscribers", ...chosen.map(({ name }) => name)];
const rows = (cell: (cell: FanResult, base: FanResult | undefined) => string) =>
  measured.map(({ load: { consumers, qos }, cells }) => [
    `${consumers}, QoS ${qos}`,
    ...chosen.map(({ name }) => cell(cells.get(name)!, cells.get("mosquitto"))),
  ]);

console.log(
  `\nDeliveries a second (${values.payload} bytes, MQTT ${level === 5 ? "5" : "3.1.1"}, medians ` +
    `of ${rounds}); in brackets the ratio to mosquitto\n`,
);
console.log(table(
  heads,
  rows(({ rate }, base) =>
    whole(rate) + (base === undefined ? "" : ` (${(rate / base.rate).toFixed(2)}x)`)
  ),
));
console.log("\nProcessor time of the load generator, share of one core\n");
console.log(table(heads, rows(({ generatorCpu }) => generatorCpu.toFixed(2))));

const fifty = measured.find(({ load }) => load.consumers === 50 && load.qos === 1)?.cells;
const [ours, theirs] = [fifty?.get("committed"), fifty?.get("mosquitto")];
if (!values.smoke && ours !== undefined && theirs !== undefined) {
  console.log("\nPromises\n");
  console.log(table(["", "measured", "promised"], [[
    "sqlite committed / mosquitto, 50 that acknowledge",
    (ours.rate / theirs.rate).toFixed(2),
    "at least 3",
  ]]));
}
