/**
 * The generator of jobs and their workers, a process of its own: a producer keeps `backlog` jobs in the
 * queue, `workers` take one at a time and answer it at once. Prints one JSON line, a WorkersResult.
 * With a filter that is no queue's, workers are subscribers at Receive Maximum 1 that publish an answer
 * to every message: what a broker without queues can do at best.
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { BenchClient } from "./client.ts";
import { PublishRing, subscribePacket } from "./packets.ts";

export interface WorkersResult {
  /** Jobs a second, from offer to acknowledged answer. */
  readonly rate: number;
  /** The generator's own processor time while it measured, as a share of one core. */
  readonly generatorCpu: number;
}

const PUBLISH = 3;
const PUBACK = 4;
const SUBACK = 9;
const RESPONSE_TOPIC = 0x08;
const CORRELATION_DATA = 0x09;
const USER_PROPERTY = 0x26;
const PRODUCED_AT_ONCE = 256;
const ACK = new TextEncoder().encode("ack");

const { values } = parseArgs({
  options: {
    port: { type: "string" },
    workers: { type: "string" },
    filter: { type: "string" },
    topic: { type: "string" },
    backlog: { type: "string" },
    payload: { type: "string" },
    warmup: { type: "string" },
    measure: { type: "string" },
  },
});
const port = Number(values.port);
const backlog = Number(values.backlog);
const answerElsewhere = new TextEncoder().encode("answers");

let done = 0;
let produced = 0;
let stopped = false;

class Worker {
  granted!: () => void;
  readonly subscribed = new Promise<void>((resolve) => this.granted = resolve);
  #packetId = 0;
  #answers: Uint8Array<ArrayBuffer>[] = [];

  constructor(private readonly client: BenchClient) {}

  async run(): Promise<void> {
    await this.client.write(subscribePacket(5, values.filter!, 1));
    await this.client.run(
      (first, bytes, at, end) => this.#packet(first, bytes, at, end),
      async () => {
        const answers = this.#answers;
        this.#answers = [];
        for (const answer of answers) await this.client.write(answer);
        produce();
      },
    );
  }

  #packet(first: number, bytes: Uint8Array, at: number, end: number): void {
    if (first >> 4 === SUBACK) this.granted();
    else if (first >> 4 === PUBACK) {
      if (end - at > 2 && bytes[at + 2] >= 0x80) throw new Error("an answer was refused");
      done++;
    } else if (first >> 4 === PUBLISH) this.#job(bytes, at);
    else throw new Error(`a worker got a packet of type ${first >> 4}`);
  }

  #job(bytes: Uint8Array, at: number): void {
    const topicEnd = at + 2 + (bytes[at] << 8 | bytes[at + 1]);
    const { topic, correlation } = reply(bytes, topicEnd + 2);
    this.#packetId = this.#packetId % 60_000 + 1;
    this.#answers.push(
      answer(bytes[topicEnd], bytes[topicEnd + 1], topic, correlation, this.#packetId),
    );
  }

  close(): void {
    this.client.close();
  }
}

/** Where an offer wants its answer, and under what. */
function reply(bytes: Uint8Array, from: number) {
  let topic: Uint8Array = answerElsewhere;
  let correlation: Uint8Array | undefined;
  let at = from;
  let length = 0;
  for (let shift = 0;; shift += 7) {
    const byte = bytes[at++];
    length |= (byte & 0x7f) << shift;
    if (byte < 0x80) break;
  }
  const text = () => {
    const begin = at + 2;
    at = begin + (bytes[at] << 8 | bytes[at + 1]);
    return bytes.subarray(begin, at);
  };
  for (const end = at + length; at < end;) {
    const id = bytes[at++];
    if (id === RESPONSE_TOPIC) topic = text();
    else if (id === CORRELATION_DATA) correlation = text();
    else if (id === USER_PROPERTY) {
      text();
      text();
    } else throw new Error(`property ${id} on an offer`);
  }
  return { topic, correlation };
}

/** PUBACK of the offer, and the answer to it. */
function answer(
  high: number,
  low: number,
  topic: Uint8Array,
  correlation: Uint8Array | undefined,
  packetId: number,
): Uint8Array<ArrayBuffer> {
  const properties = correlation === undefined
    ? []
    : [CORRELATION_DATA, 0, correlation.length, ...correlation];
  const length = 2 + topic.length + 2 + 1 + properties.length + ACK.length;
  if (length > 127) throw new Error("an answer of more than 127 bytes");
  return Uint8Array.from([
    ...[PUBACK << 4, 2, high, low],
    ...[0x32, length, topic.length >> 8, topic.length & 0xff, ...topic],
    ...[packetId >> 8, packetId & 0xff, properties.length, ...properties, ...ACK],
  ]);
}

const payload = new Uint8Array(Number(values.payload)).fill(0x78);
const ring = new PublishRing(5, values.topic!, 2 * backlog, payload);
const producer = await BenchClient.open(port, { level: 5, clientId: "producer" });
let producing = false;

function produce(): void {
  if (producing || stopped) return;
  const room = backlog - (produced - done);
  if (room < Math.min(PRODUCED_AT_ONCE, backlog / 4)) return;
  producing = true;
  produced += room;
  producer.write(ring.take(room)).then(() => {
    producing = false;
    produce();
  });
}

function cpuMicroseconds(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

function after(ms: number): Promise<void> {
  return Promise.race([failed, new Promise<void>((resolve) => setTimeout(resolve, ms))]);
}

const workers: Worker[] = [];
for (let i = 0; i < Number(values.workers); i++) {
  const wish = { level: 5, clientId: `worker-${i}`, receiveMaximum: 1 } as const;
  workers.push(new Worker(await BenchClient.open(port, wish)));
}
const runs = workers.map((worker) => worker.run());
const failed = Promise.all([...runs, producer.run(() => {})]).then(() => {});
await Promise.race([failed, Promise.all(workers.map(({ subscribed }) => subscribed))]);
produce();
// New workers are served on a tick, and a broker that has just started takes its time.
while (done < workers.length) await after(20);
await after(Number(values.warmup));
const before = done;
const cpuBefore = cpuMicroseconds();
const start = performance.now();
await after(Number(values.measure));
const elapsedMs = performance.now() - start;
const result: WorkersResult = {
  rate: (done - before) / elapsedMs * 1_000,
  generatorCpu: (cpuMicroseconds() - cpuBefore) / 1_000 / elapsedMs,
};
stopped = true;
producer.close();
for (const worker of workers) worker.close();
await failed;
console.log(JSON.stringify(result));
