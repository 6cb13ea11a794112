/** The scenarios of AMQP and of its crossing with MQTT, W1 to W12, on one running broker. */
import { DatabaseSync } from "node:sqlite";
import * as amqp from "../../tests/amqp/support/amqp_bytes.ts";
import { until } from "../../tests/support/wait.ts";
import { WireClient } from "../../tests/support/wire.ts";
import { AmqpLoad, percentile, publishes } from "./amqp_load.ts";

/** A broker under load. */
export interface Running extends AsyncDisposable {
  readonly amqp: number;
  /** MQTT's port; undefined where there is none to compare. */
  readonly mqtt: number | undefined;
  /** The file that its queues and ingest tables are in; undefined where it is none of ours. */
  readonly database?: string;
  /** Commits of its database so far, each one an fsync where it acknowledges `synced`. */
  commits?(): Promise<number>;
  /** Kills it and starts it again; resolves with the milliseconds until it serves. */
  restart(): Promise<number>;
}

/** What a scenario came to. */
export interface Figure {
  /** Messages a second. */
  readonly rate?: number;
  /** Milliseconds. */
  readonly p50?: number;
  readonly p99?: number;
  readonly commitsPerMessage?: number;
  /** Times of what it is held against, in the same seconds. */
  readonly overhead?: number;
}

export interface Scenario {
  readonly name: string;
  readonly what: string;
  /** Takes long: one round is enough. */
  readonly once?: boolean;
  /** Undefined: there is nothing of the kind in this broker. */
  run(broker: Running, times: (count: number) => number): Promise<Figure | undefined>;
}

const BODY_BYTES = 100;

/** What the scenarios need of the configuration, at its top level. */
export const INGEST = `ingest:
  routes:
    - "bench/crossed:crossed"
    - filter: rows/#
      table: readings
      columns: {value: REAL}
      index: [value]
`;

async function timed(run: () => Promise<void>): Promise<number> {
  const started = performance.now();
  await run();
  return performance.now() - started;
}

/** `count` turns one after another. */
async function each(count: number, run: (i: number) => Promise<void>): Promise<Figure> {
  const took: number[] = [];
  for (let i = 0; i < count; i++) took.push(await timed(() => run(i)));
  const sum = took.reduce((total, ms) => total + ms, 0);
  return {
    rate: count / sum * 1_000,
    p50: percentile(took, 0.5),
    p99: percentile(took, 0.99),
  };
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

/** Messages a second of one connection whose confirms come as they come. */
async function pipelined(port: number, count: number, durable: boolean): Promise<number> {
  const { load, queue } = await publisher(port, durable);
  using _ = load;
  const writes = publishes(queue, count, durable);
  const took = await timed(async () => {
    void load.send(...writes);
    await load.until(() => load.confirmed >= count);
  });
  await load.call(amqp.queueDelete(1, queue), 50, 41);
  return count / took * 1_000;
}

/** The next publish leaves when the one before is confirmed. */
async function oneByOne(port: number, count: number, durable: boolean): Promise<Figure> {
  const { load, queue } = await publisher(port, durable);
  using _ = load;
  const [one] = publishes(queue, 1, durable);
  const figure = await each(count, async (i) => {
    await load.send(one);
    await load.until(() => load.confirmed > i);
  });
  await load.call(amqp.queueDelete(1, queue), 50, 41);
  return figure;
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

async function sequentialPubacks(
  port: number,
  count: number,
  topic = "bench/t",
  payload?: Uint8Array,
): Promise<Figure> {
  using client = await WireClient.connected(port, { clientId: `pub-${names++}` });
  return await each(count, (i) => acknowledged(client, topic, i, payload));
}

async function acknowledged(
  client: WireClient,
  topic: string,
  i: number,
  payload: Uint8Array = new Uint8Array(BODY_BYTES),
): Promise<void> {
  const packetId = i % 60_000 + 1;
  await client.publish({ topic, payload, qos: 1, packetId });
  await client.expectPuback(packetId);
}

/**
 * Publishes to two topics in turn, so that whatever else happens to the disk happens to both: the figure
 * of the first, and how many times the median of the second its median is.
 */
async function inTurn(
  port: number,
  count: number,
  topic: string,
  reference: string,
): Promise<Figure> {
  using client = await WireClient.connected(port, { clientId: `pub-${names++}` });
  const took: number[] = [];
  const beside: number[] = [];
  for (let i = 0; i < count; i++) {
    took.push(await timed(() => acknowledged(client, topic, i)));
    beside.push(await timed(() => acknowledged(client, reference, i)));
  }
  const p50 = percentile(took, 0.5);
  return { p50, p99: percentile(took, 0.99), overhead: p50 / percentile(beside, 0.5) };
}

/** W9: the offline subscriber and this many publishers at once. */
async function owedFromMany(
  broker: Running,
  publishers: number,
  count: number,
): Promise<Figure | undefined> {
  if (broker.mqtt === undefined) return undefined;
  await offlineSubscriber(broker.mqtt);
  return await fromMany(broker, publishers, count, "bench/t");
}

async function fromMany(
  { mqtt, commits }: Running,
  publishers: number,
  count: number,
  topic: string,
  payload?: Uint8Array,
): Promise<Figure | undefined> {
  if (mqtt === undefined) return undefined;
  const before = await commits?.() ?? 0;
  const took = await timed(async () => {
    await Promise.all(
      Array.from({ length: publishers }, () => sequentialPubacks(mqtt, count, topic, payload)),
    );
  });
  const made = (await commits?.() ?? 0) - before;
  return {
    rate: publishers * count / took * 1_000,
    commitsPerMessage: made / (publishers * count),
  };
}

/** One publish to a queue, taken by a consumer of another connection. */
async function consumed(
  port: number,
  run: (load: AmqpLoad, consumer: AmqpLoad, queue: string) => Promise<Figure>,
): Promise<Figure> {
  const { load, queue } = await publisher(port, false);
  using _ = load;
  using consumer = await AmqpLoad.connect(port);
  await consumer.call(amqp.consume(1, queue, { noAck: true }), 60, 21);
  return await run(load, consumer, queue);
}

/** Reads ranges of an indexed column as any client of the file may, among `rows` rows. */
async function ranges(path: string, rows: number): Promise<Figure> {
  const database = new DatabaseSync(path);
  try {
    database.exec("PRAGMA busy_timeout = 10000");
    // As they are stored; a million publishes would only measure W11 for longer.
    database.prepare(
      "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) " +
        "INSERT INTO readings (_topic, _received_at, doc) " +
        "SELECT 'rows/' || i % 100, i, json_object('value', i / 10.0, 'unit', 'C') FROM n",
    ).run(rows);
    const read = database.prepare(
      "SELECT _topic, doc FROM readings WHERE value >= ? AND value < ? LIMIT 100",
    );
    return await each(100, (i) => {
      const from = rows / 10 / 100 * i;
      read.all(from, from + 1_000);
      return Promise.resolve();
    });
  } finally {
    database.close();
  }
}

export const SCENARIOS: readonly Scenario[] = [
  {
    name: "W1",
    what: "transient, confirms pipelined",
    run: async ({ amqp }, times) => ({ rate: await pipelined(amqp, times(20_000), false) }),
  },
  {
    name: "W2",
    what: "transient, confirm awaited",
    run: ({ amqp }, times) => oneByOne(amqp, times(300), false),
  },
  {
    name: "W3",
    what: "persistent, confirms pipelined",
    run: async ({ amqp }, times) => ({ rate: await pipelined(amqp, times(5_000), true) }),
  },
  {
    name: "W3-1",
    what: "persistent, confirm awaited",
    run: ({ amqp }, times) => oneByOne(amqp, times(200), true),
  },
  {
    name: "W4",
    what: "W3 from 8 connections",
    async run({ amqp }, times) {
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
    run: ({ amqp }, times) =>
      consumed(amqp, async (load, consumer, queue) => {
        const count = times(20_000);
        const writes = publishes(queue, count, false);
        const took = await timed(async () => {
          void load.send(...writes);
          await consumer.until(() => consumer.delivered >= count);
        });
        return { rate: count / took * 1_000 };
      }),
  },
  {
    name: "W6",
    what: "publish to delivery",
    run: ({ amqp }, times) =>
      consumed(amqp, async (load, consumer, queue) => {
        const [one] = publishes(queue, 1, false);
        return await each(times(300), async (i) => {
          await load.send(one);
          await consumer.until(() => consumer.delivered > i);
        });
      }),
  },
  {
    name: "W7",
    what: "MQTT QoS 1, nobody durable",
    async run({ mqtt }, times) {
      return mqtt === undefined ? undefined : await sequentialPubacks(mqtt, times(500));
    },
  },
  {
    name: "W8",
    what: "W7, one durable subscriber away",
    async run({ mqtt }, times) {
      if (mqtt === undefined) return undefined;
      await offlineSubscriber(mqtt);
      return await sequentialPubacks(mqtt, times(500));
    },
  },
  {
    name: "W9-8",
    what: "W8 from 8 publishers",
    run: (broker, times) => owedFromMany(broker, 8, times(100)),
  },
  {
    name: "W9-64",
    what: "W8 from 64 publishers",
    run: (broker, times) => owedFromMany(broker, 64, times(100)),
  },
  {
    name: "W10",
    what: "W8 with a bound durable queue and an ingest route",
    async run({ mqtt, amqp: port }, times) {
      if (mqtt === undefined) return undefined;
      await offlineSubscriber(mqtt);
      using load = await AmqpLoad.connect(port);
      await load.call(amqp.queueDeclare(1, "crossed", { durable: true }), 50, 11);
      await load.call(amqp.queueBind(1, "crossed", "amq.topic", "bench.crossed"), 50, 21);
      const figure = await inTurn(mqtt, times(500), "bench/crossed", "bench/t");
      await load.call(amqp.queueDelete(1, "crossed"), 50, 41);
      return figure;
    },
  },
  {
    name: "W11",
    what: "ingest alone, 32 publishers",
    run(broker, times) {
      const reading = new TextEncoder().encode(JSON.stringify({
        value: 21.5,
        unit: "C",
        note: "x".repeat(BODY_BYTES - 42),
      }));
      return fromMany(broker, 32, times(200), "rows/t", reading);
    },
  },
  {
    name: "W12",
    what: "100,000 persistent, kill -9, until ready",
    once: true,
    async run(broker, times) {
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
  {
    name: "W11-q",
    what: "100 of a range of a column, 1,000,000 rows",
    once: true,
    run: ({ database }, times) =>
      Promise.resolve(database === undefined ? undefined : ranges(database, times(1_000_000))),
  },
];
