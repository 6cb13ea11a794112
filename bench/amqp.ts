/**
 * AMQP beside Debian's RabbitMQ, where that is installed, and the crossing by itself: the scenarios W1
 * to W10 and W12 of the specification. Contenders take turns; what is printed are medians.
 *
 *     deno run -A bench/amqp.ts --rounds 3 --scenarios W1,W5
 */
import { parseArgs } from "node:util";
import * as amqp from "../tests/amqp/support/amqp_bytes.ts";
import { BrokerProcess, configurationText } from "../tests/support/broker_process.ts";
import { freePort } from "../tests/support/ports.ts";
import { until } from "../tests/support/wait.ts";
import { WireClient } from "../tests/support/wire.ts";
import { AmqpLoad, percentile, publishes } from "./support/amqp_load.ts";
import { median, table, whole } from "./support/measure.ts";
import { rabbitmq } from "./support/rabbitmq.ts";

const HELP = `bench/amqp.ts [options]
  --scenarios W1,W2,...   all by default
  --contenders a,b,...    of saguin-committed, saguin-synced, rabbitmq
  --rounds 3              runs of each scenario, contenders alternating
  --smoke                 one short round, to see that everything runs`;

const { values } = parseArgs({
  options: {
    scenarios: { type: "string", default: "W1,W2,W3,W4,W5,W6,W7,W8,W9,W10,W12" },
    contenders: { type: "string", default: "saguin-committed,saguin-synced,rabbitmq" },
    rounds: { type: "string", default: "3" },
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
const scale = values.smoke ? 0.02 : 1;
const times = (count: number) => Math.max(1, Math.round(count * scale));

interface Running extends AsyncDisposable {
  readonly amqp: number;
  /** MQTT's port; undefined where there is none to compare. */
  readonly mqtt: number | undefined;
  /** Kills it and starts it again; resolves with the milliseconds until it serves. */
  restart(): Promise<number>;
}

interface Contender {
  readonly name: string;
  start(): Promise<Running>;
}

function saguin(acknowledge: "committed" | "synced"): Contender {
  return {
    name: `saguin-${acknowledge}`,
    async start() {
      const port = freePort();
      const broker = await BrokerProcess.start((place) =>
        configurationText(place, {
          acknowledge,
          logLevel: "warn",
          broker:
            `amqp:\n  max_ready: 1000000\n  listen:\n    tcp:\n      address: 127.0.0.1:${port}`,
        })
      );
      return {
        amqp: port,
        mqtt: broker.port,
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

const CONTENDERS: readonly Contender[] = [saguin("committed"), saguin("synced"), rabbitmq];

/** A figure of a scenario: messages a second, or milliseconds at p50 and p99. */
interface Figure {
  readonly rate?: number;
  readonly p50?: number;
  readonly p99?: number;
}

async function timed(run: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await run();
  return performance.now() - started;
}

/** `count` turns one after another, in milliseconds each. */
async function each(count: number, run: (i: number) => Promise<void>): Promise<Figure> {
  const took: number[] = [];
  for (let i = 0; i < count; i++) took.push(await timed(() => run(i)));
  return { p50: percentile(took, 0.5), p99: percentile(took, 0.99) };
}

let names = 0;

async function publisher(
  port: number,
  durable: boolean,
): Promise<{ load: AmqpLoad; queue: string }> {
  const load = await AmqpLoad.connect(port);
  const queue = `bench-${names++}-${Date.now()}`;
  await load.call(amqp.queueDeclare(1, queue, { durable }), 50, 11);
  await load.call(amqp.confirmSelect(1), 85, 11);
  return { load, queue };
}

async function pipelined(port: number, count: number, durable: boolean): Promise<number> {
  const { load, queue } = await publisher(port, durable);
  using _ = load;
  const writes = publishes(queue, count, durable);
  const took = await timed(async () => {
    void load.send(...writes);
    await load.until(() => load.confirmed >= count);
  });
  await load.call(amqp.queueDelete(1, queue), 50, 41);
  return took;
}

async function mqttClient(port: number, clientId: string): Promise<WireClient> {
  return await WireClient.connected(port, { clientId });
}

/** A session that is owed everything under `bench/` and is away. */
async function offlineSubscriber(port: number): Promise<void> {
  using client = await WireClient.connected(port, {
    clientId: "away",
    cleanStart: true,
    properties: { sessionExpiry: 3_600 },
  });
  await client.subscribe({ packetId: 1, subscriptions: [{ filter: "bench/#", qos: 1 }] });
  await client.expectSuback(1, [1]);
  await client.disconnect();
}

async function sequentialPubacks(port: number, count: number): Promise<Figure> {
  using client = await mqttClient(port, `pub-${names++}`);
  const payload = new Uint8Array(100);
  return await each(count, async (i) => {
    const packetId = i % 60_000 + 1;
    await client.publish({ topic: "bench/t", payload, qos: 1, packetId });
    await client.expectPuback(packetId);
  });
}

interface Scenario {
  readonly name: string;
  readonly what: string;
  run(broker: Running): Promise<Figure | undefined>;
}

const SCENARIOS: readonly Scenario[] = [
  {
    name: "W1",
    what: "transient, confirms pipelined",
    async run({ amqp }) {
      const count = times(20_000);
      return { rate: count / await pipelined(amqp, count, false) * 1_000 };
    },
  },
  {
    name: "W2",
    what: "transient, confirm awaited",
    async run({ amqp }) {
      const { load, queue } = await publisher(amqp, false);
      using _ = load;
      const [one] = publishes(queue, 1, false);
      return await each(times(300), async (i) => {
        await load.send(one);
        await load.until(() => load.confirmed > i);
      });
    },
  },
  {
    name: "W3",
    what: "persistent, confirms pipelined",
    async run({ amqp }) {
      const count = times(5_000);
      return { rate: count / await pipelined(amqp, count, true) * 1_000 };
    },
  },
  {
    name: "W4",
    what: "W3 from 8 connections",
    async run({ amqp }) {
      const count = times(5_000);
      const took = await timed(async () => {
        await Promise.all(Array.from({ length: 8 }, () => pipelined(amqp, count, true)));
      });
      return { rate: 8 * count / took * 1_000 };
    },
  },
  {
    name: "W5",
    what: "publisher to no-ack consumer",
    async run({ amqp: port }) {
      const count = times(20_000);
      const { load, queue } = await publisher(port, false);
      using _ = load;
      using consumer = await AmqpLoad.connect(port);
      await consumer.call(amqp.consume(1, queue, { noAck: true }), 60, 21);
      const writes = publishes(queue, count, false);
      const took = await timed(async () => {
        void load.send(...writes);
        await consumer.until(() => consumer.delivered >= count);
      });
      return { rate: count / took * 1_000 };
    },
  },
  {
    name: "W6",
    what: "publish to delivery",
    async run({ amqp: port }) {
      const { load, queue } = await publisher(port, false);
      using _ = load;
      using consumer = await AmqpLoad.connect(port);
      await consumer.call(amqp.consume(1, queue, { noAck: true }), 60, 21);
      const [one] = publishes(queue, 1, false);
      return await each(times(300), async (i) => {
        await load.send(one);
        await consumer.until(() => consumer.delivered > i);
      });
    },
  },
  {
    name: "W7",
    what: "MQTT QoS 1, nobody durable",
    async run({ mqtt }) {
      return mqtt === undefined ? undefined : await sequentialPubacks(mqtt, times(500));
    },
  },
  {
    name: "W8",
    what: "W7, one durable subscriber away",
    async run({ mqtt }) {
      if (mqtt === undefined) return undefined;
      await offlineSubscriber(mqtt);
      return await sequentialPubacks(mqtt, times(500));
    },
  },
  {
    name: "W9",
    what: "W8 from 64 publishers",
    async run({ mqtt }) {
      if (mqtt === undefined) return undefined;
      await offlineSubscriber(mqtt);
      const count = times(100);
      const took = await timed(async () => {
        await Promise.all(Array.from({ length: 64 }, () => sequentialPubacks(mqtt, count)));
      });
      return { rate: 64 * count / took * 1_000 };
    },
  },
  {
    name: "W10",
    what: "W8 with a bound durable queue",
    async run({ mqtt, amqp: port }) {
      if (mqtt === undefined) return undefined;
      await offlineSubscriber(mqtt);
      using load = await AmqpLoad.connect(port);
      await load.call(amqp.queueDeclare(1, "crossed", { durable: true }), 50, 11);
      await load.call(amqp.queueBind(1, "crossed", "amq.topic", "bench.#"), 50, 21);
      const figure = await sequentialPubacks(mqtt, times(500));
      await load.call(amqp.queueDelete(1, "crossed"), 50, 41);
      return figure;
    },
  },
  {
    name: "W12",
    what: "100,000 persistent, kill -9, ready (ms)",
    async run(broker) {
      const count = times(100_000);
      const { load, queue } = await publisher(broker.amqp, true);
      void load.send(...publishes(queue, count, true));
      await load.until(() => load.confirmed >= count);
      load[Symbol.dispose]();
      const took = await broker.restart();
      await until("the queue", async () => {
        using again = await AmqpLoad.connect(broker.amqp);
        await again.call(amqp.queueDeclare(1, queue, { durable: true }), 50, 11);
        await again.call(amqp.queueDelete(1, queue), 50, 41);
        return true;
      }, 60_000);
      return { p50: took, p99: took };
    },
  },
];

const chosen = SCENARIOS.filter(({ name }) => values.scenarios.split(",").includes(name));
const wanted = values.contenders.split(",");
const contenders: Contender[] = [];
for (const contender of CONTENDERS) {
  if (!wanted.includes(contender.name)) continue;
  if (contender === rabbitmq && !rabbitmq.installed) {
    console.log("rabbitmq-server is not installed: nothing to compare with");
  } else contenders.push(contender);
}

function text(figures: readonly Figure[]): string {
  if (figures.length === 0) return "-";
  const of = (pick: (figure: Figure) => number | undefined) => median(figures.map((f) => pick(f)!));
  if (figures[0].rate !== undefined) return `${whole(of(({ rate }) => rate))} /s`;
  return `${of(({ p50 }) => p50).toFixed(2)} / ${of(({ p99 }) => p99).toFixed(2)} ms`;
}

const measured = new Map<string, Map<string, Figure[]>>();
for (let round = 0; round < rounds; round++) {
  for (const contender of contenders) {
    await using broker = await contender.start();
    for (const scenario of chosen) {
      const figure = await scenario.run(broker);
      if (figure === undefined) continue;
      const byContender = measured.get(scenario.name) ?? new Map<string, Figure[]>();
      measured.set(scenario.name, byContender);
      byContender.set(contender.name, [...byContender.get(contender.name) ?? [], figure]);
    }
  }
}
const rows = chosen.map(({ name, what }) => {
  const figures = contenders.map((contender) => measured.get(name)?.get(contender.name) ?? []);
  const reference = figures[contenders.indexOf(rabbitmq as Contender)] ?? [];
  const ratio = (of: readonly Figure[]): string => {
    if (of.length === 0 || reference.length === 0) return "-";
    const rate = of[0].rate !== undefined;
    const mine = median(of.map((figure) => (rate ? figure.rate : figure.p50)!));
    const theirs = median(reference.map((figure) => (rate ? figure.rate : figure.p50)!));
    return (rate ? mine / theirs : theirs / mine).toFixed(2);
  };
  return [name, what, ...figures.map(text), ...figures.slice(0, -1).map(ratio)];
});
console.log(table(
  [
    "",
    "scenario",
    ...contenders.map(({ name }) => name),
    ...contenders.slice(0, -1).map(({ name }) => `${name} : ${contenders.at(-1)!.name}`),
  ],
  rows,
));
