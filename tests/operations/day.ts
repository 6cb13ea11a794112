/**
 * A scripted day of one broker, the executable as operators run it: everything that a metric or a route
 * can show happens once, and then everything is read.
 */
import { DatabaseSync } from "node:sqlite";
import * as amqp from "../amqp/support/amqp_bytes.ts";
import { AmqpClient } from "../amqp/support/client.ts";
import { BrokerProcess, configurationText, type Place } from "../support/broker_process.ts";
import { ask, type RawAnswer, type Where } from "../support/http.ts";
import { freePort } from "../support/ports.ts";
import { until } from "../support/wait.ts";
import { WireClient } from "../support/wire.ts";

/**
 * Stands in every client id, topic, filter, user name and payload of the day, and in the name of every
 * AMQP queue that goes with its connection.
 */
export const MARK = "zebra";
export const PAYLOAD = "zebra-payload";
const READER = `${MARK}-reader`;

const CHANNELS = `events:
  type: append
  filter: "ev/{a,b}/#"
  retention_bytes: 2KiB
state:
  type: latest
  filter: st/#
jobs:
  type: queue
  filter: jobs/#
  visibility_timeout: 1s
  retry: {max_attempts: 2}
`;

export interface Day extends AsyncDisposable {
  readonly broker: BrokerProcess;
  readonly where: { readonly hostname: string; readonly port: number };
  /** The one scrape of the day. */
  readonly metrics: string;
  /** Bodies of every route under `/v1`, by path. */
  readonly bodies: ReadonlyMap<string, string>;
}

const DURABLE = { cleanStart: false, properties: { sessionExpiry: 3600 } };

async function publish(client: WireClient, topic: string, extra = {}): Promise<void> {
  await client.publish({ topic, payload: PAYLOAD, qos: 1, packetId: 50, ...extra });
  await client.expectPuback(50);
}

async function subscribe(client: WireClient, filter: string, code = 1, extra = {}): Promise<void> {
  await client.subscribe({ packetId: 9, subscriptions: [{ filter, qos: 1 }], ...extra });
  await client.expectSuback(9, [code]);
}

/** Reads until what came satisfies `enough`; acknowledges everything. */
async function take(client: WireClient, count: number): Promise<void> {
  for (let taken = 0; taken < count; taken++) {
    const { packetId } = await client.expectPublish();
    if (packetId > 0) await client.puback(packetId);
  }
}

/**
 * Of three jobs one is done, one is returned until it is a dead letter, one is forgotten until it is
 * offered again.
 */
async function work(worker: WireClient, where: Where): Promise<void> {
  await until(
    "the outcomes of the jobs",
    async () => {
      await worker.pingreq();
      for (
        let packet = await worker.next();
        packet.type !== "pingresp";
        packet = await worker.next()
      ) {
        if (packet.type !== "publish") continue;
        await worker.puback(packet.packetId);
        const { correlationData, userProperties = [] } = packet.properties;
        const offset = Number(userProperties.find(([name]) => name === "saguin-offset")![1]);
        if (offset % 3 === 0) continue;
        await worker.publish({
          topic: "$saguin/queue/jobs/response",
          payload: offset % 3 === 1 ? "ack" : "return",
          properties: { correlationData },
        });
      }
      const { channels } = JSON.parse((await ask(where, "/v1/operations/overview")).body);
      const jobs = channels.find(({ channel }: { channel: string }) => channel === "jobs");
      return jobs.acknowledged > 0 && jobs.dead_lettered > 0 && jobs.redelivered > 0;
    },
    15_000,
    100,
  );
}

/** `half`: of the day; only the reader is the same client in both. */
async function traffic(port: number, where: Where, half: number): Promise<void> {
  const connect = (name: string, options = {}) => {
    const clientId = name === "reader" ? READER : `${MARK}-${name}-${half}`;
    return WireClient.connected(port, { clientId, ...options });
  };
  using publisher = await connect("publisher");
  using old = await connect("old", { level: 4 });
  await subscribe(old, `${MARK}/old`);

  // Channels: a consumer with a position, one with slices, values, jobs through all their outcomes.
  using reader = await connect("reader", DURABLE);
  await subscribe(reader, "ev/#");
  using slices = await connect("slices", DURABLE);
  await subscribe(slices, "ev/b/#", 1, {
    properties: { userProperties: [["saguin-filter", "topic_hash(4, 0)"]] },
  });
  await publish(publisher, `ev/a/${MARK}`);
  await publish(publisher, `ev/a/${MARK}`);
  await take(reader, 2);
  await publish(publisher, `st/${MARK}`);
  await publish(publisher, `st/${MARK}`, { retain: true });
  for (let i = 0; i < 3; i++) await publish(publisher, `jobs/${MARK}`, { retain: i === 0 });
  using worker = await connect("worker");
  await subscribe(worker, "$saguin/queue/jobs");
  await work(worker, where);
  await publish(publisher, `jobs/${MARK}`);

  // Broadcast: retained, for nobody, held at QoS 2, expired, too large, shared.
  await publish(publisher, `${MARK}/kept`, { retain: true });
  await publisher.publish({ topic: `${MARK}/held`, payload: PAYLOAD, qos: 2, packetId: 51 });
  await publisher.expectPubrec(51);
  using small = await connect("small", { properties: { maximumPacketSize: 60 } });
  await subscribe(small, `${MARK}/small/#`);
  await publish(publisher, `${MARK}/small/x`, { payload: PAYLOAD.repeat(10) });
  using away = await connect("away", DURABLE);
  await subscribe(away, `${MARK}/away/#`);
  await subscribe(away, `$share/${MARK}/${MARK}/shared-${half}/#`);
  await away.disconnect();
  await publish(publisher, `${MARK}/away/1`);
  await publish(publisher, `${MARK}/shared-${half}/1`);

  // Sessions and Wills.
  {
    using lost = await connect("lost", { will: { topic: `${MARK}/will`, payload: PAYLOAD } });
    void lost;
  }
  using late = await connect("late", {
    ...DURABLE,
    will: { topic: `${MARK}/will`, payload: PAYLOAD, properties: { willDelay: 600 } },
  });
  late[Symbol.dispose]();
  using longest = await connect("longest", {
    cleanStart: false,
    properties: { sessionExpiry: 0xffff_ffff },
  });
  void longest;

  // Refusals.
  await publisher.publish({ topic: `$saguin/${MARK}`, qos: 1, packetId: 52 });
  await publisher.expectPuback(52, 0x90);
  await subscribe(publisher, "$SYS/#", 0x87);
  for (let i = 0; i < 2; i++) {
    using refused = await WireClient.open(port);
    await refused.connect({ clientId: `${MARK}-\u0001`, userName: MARK });
    await refused.expectConnack(0x85);
  }

  // Retention passes the reader, which is away.
  reader[Symbol.dispose]();
  for (let i = 0; i < 12; i++) {
    await publish(publisher, `ev/a/${MARK}`, { payload: "x".repeat(400) });
  }
}

/** A queue that is full, a message nobody has a queue for, one that cannot cross, and a refusal. */
async function amqpTraffic(port: number): Promise<AmqpClient> {
  const client = await AmqpClient.connected(port);
  await client.declare("welds", { durable: true });
  await client.declare(`${MARK}-replies`, { exclusive: true });
  await client.call(amqp.confirmSelect(1), "select-ok");
  const stored = { properties: amqp.PERSISTENT };
  await client.send(
    ...Array.from({ length: 3 }, () => amqp.publish(1, "", "welds", PAYLOAD, stored)),
    amqp.publish(1, "", MARK, PAYLOAD, { mandatory: true }),
    amqp.publish(1, "amq.topic", `${MARK}.#`, PAYLOAD),
    amqp.publish(1, "", `${MARK}-replies`, PAYLOAD),
  );
  for (;;) {
    const received = await client.next();
    if (received.name === "ack" && received.delivery === 6) break;
  }
  using refused = await AmqpClient.connected(port);
  await refused.send(amqp.queueDeclare(1, `${MARK}-nowhere`, { passive: true }));
  await refused.expectChannelClose(404);
  return client;
}

/** Lives the day and reads it. */
export async function aDay(): Promise<Day> {
  const port = freePort();
  const amqpPort = freePort();
  const doors = `operations: {listen: {tcp: {address: "127.0.0.1:${port}"}}}\n` +
    `amqp: {max_ready: 2, listen: {tcp: {address: "127.0.0.1:${amqpPort}"}}}`;
  const broker = await BrokerProcess.start((place: Place) =>
    configurationText(place, {
      channels: CHANNELS,
      broker: doors,
      ingest: "routes:\n  - {filter: st/#, table: states}",
    })
  );
  const where = { hostname: "127.0.0.1", port };
  try {
    await traffic(broker.port, where, 1);
    await broker.stop();
    await broker.startAgain();
    await traffic(broker.port, where, 2);
    using worker = await amqpTraffic(amqpPort);
    void worker;
    await until("retention to pass the reader", async () => {
      const { channels } = JSON.parse((await ask(where, "/v1/operations/overview")).body);
      return channels.some(({ losing }: { losing?: boolean }) => losing);
    });
    using back = await WireClient.connected(broker.port, {
      clientId: READER,
      ...DURABLE,
    });
    await subscribe(back, "ev/#");
    await take(back, 1);
    await until("the reader's position", async () => {
      const { channels } = JSON.parse((await ask(where, "/v1/operations/consumers")).body);
      return channels[0].consumers > 0;
    });
    // The only member of a group leaves for good, with what the group still has.
    using gone = await WireClient.connected(broker.port, { clientId: `${MARK}-away-2` });
    await gone.disconnect();
    await fail(broker, back);
    const get = (path: string): Promise<RawAnswer> => ask(where, path);
    const bodies = new Map<string, string>();
    for (const route of ROUTES) bodies.set(route, (await get(`/v1/operations/${route}`)).body);
    const { body: metrics } = await get("/metrics");
    return {
      broker,
      where,
      metrics,
      bodies,
      [Symbol.asyncDispose]: () => broker[Symbol.asyncDispose](),
    };
  } catch (error) {
    await broker[Symbol.asyncDispose]();
    throw new Error(`${error}\n${broker.lines.slice(-20).join("\n")}`, { cause: error });
  }
}

export const ROUTES: readonly string[] = [
  `acl?user=${MARK}`,
  "config",
  "consumers",
  "ingest/states",
  "overview",
  "position-lost",
  "queues/jobs",
  "refused",
  "sessions",
  "users",
];

/** The last hour: a table of the database is gone, and a publish fails. */
async function fail(broker: BrokerProcess, client: WireClient): Promise<void> {
  const database = new DatabaseSync(broker.database);
  database.prepare("ALTER TABLE latest_values RENAME TO gone").run();
  await client.publish({ topic: `st/${MARK}`, payload: PAYLOAD, qos: 1, packetId: 60 });
  for (;;) {
    const packet = await client.next();
    if (packet.type !== "puback") continue;
    if (packet.reasonCode !== 0x83) throw new Error("a publish into a missing table was taken");
    break;
  }
  database.prepare("ALTER TABLE gone RENAME TO latest_values").run();
  database.close();
}
