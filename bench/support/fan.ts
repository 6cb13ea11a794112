/**
 * The fan-out generator, a process of its own: one publisher of QoS 1 (or QoS 0) and `consumers`
 * subscribers of its topic that acknowledge what they get. At most `window` messages are between the
 * publisher and the slowest subscriber, so nothing piles up in any broker and nothing is dropped.
 * Prints one JSON line, a FanResult.
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { BenchClient } from "./client.ts";
import { type Level, PublishRing, subscribePacket } from "./packets.ts";

export interface FanResult {
  /** Deliveries a second, over all subscribers. */
  readonly rate: number;
  /** The generator's own processor time while it measured, as a share of one core. */
  readonly generatorCpu: number;
}

const PUBLISH = 3;
const PUBACK = 4;
const SUBACK = 9;
/** No delivery for so long is a message that was dropped. */
const STALLED_MS = 30_000;

const { values } = parseArgs({
  options: {
    port: { type: "string" },
    consumers: { type: "string" },
    qos: { type: "string" },
    window: { type: "string" },
    level: { type: "string" },
    topic: { type: "string" },
    payload: { type: "string" },
    warmup: { type: "string" },
    measure: { type: "string" },
  },
});
const port = Number(values.port);
const level = Number(values.level) as Level;
const qos = Number(values.qos) as 0 | 1;
const window = Number(values.window);
const consumers = Number(values.consumers);

let deliveries = 0;
/** Subscribers that have message number `i`, at `i % places.length`. */
const places = new Uint32Array(2 * window);
let published = 0;
let complete = 0;
let acknowledged = 0;
/** Everybody is subscribed: what is published before that is not for all of them. */
let started = false;
let stopped = false;

class Subscriber {
  #count = 0;
  #acks = new Uint8Array(4 * 1_024);
  #ackBytes = 0;
  granted!: () => void;
  readonly subscribed = new Promise<void>((resolve) => this.granted = resolve);

  constructor(private readonly client: BenchClient) {}

  async run(): Promise<void> {
    await this.client.write(subscribePacket(level, `${values.topic}/#`, qos));
    await this.client.run(
      (first, bytes, at) => this.#packet(first, bytes, at),
      () => this.#flush(),
    );
  }

  #packet(first: number, bytes: Uint8Array, at: number): void {
    if (first >> 4 === SUBACK) return this.granted();
    if (first >> 4 !== PUBLISH) throw new Error(`a subscriber got a packet of type ${first >> 4}`);
    if ((first & 6) !== 0) this.#acknowledge(bytes, at + 2 + (bytes[at] << 8 | bytes[at + 1]));
    deliveries++;
    const place = this.#count++ % places.length;
    if (++places[place] === consumers) {
      places[place] = 0;
      complete++;
    }
  }

  #acknowledge(bytes: Uint8Array, idAt: number): void {
    if (this.#ackBytes === this.#acks.length) {
      const larger = new Uint8Array(2 * this.#acks.length);
      larger.set(this.#acks);
      this.#acks = larger;
    }
    this.#acks[this.#ackBytes] = 0x40;
    this.#acks[this.#ackBytes + 1] = 2;
    this.#acks[this.#ackBytes + 2] = bytes[idAt];
    this.#acks[this.#ackBytes + 3] = bytes[idAt + 1];
    this.#ackBytes += 4;
  }

  async #flush(): Promise<void> {
    publishMore();
    const bytes = this.#ackBytes;
    this.#ackBytes = 0;
    if (bytes > 0) await this.client.write(this.#acks.subarray(0, bytes));
  }

  close(): void {
    this.client.close();
  }
}

const payload = new Uint8Array(Number(values.payload)).fill(0x78);
// More identifiers than the window: one is not used again while its first use is still out.
const ring = new PublishRing(level, `${values.topic}/0`, 2 * window, payload, qos);
const publisher = await BenchClient.open(port, { level, clientId: "fan-publisher" });
let writing = false;

function publishMore(): void {
  if (writing || !started || stopped) return;
  const out = published - Math.min(complete, qos === 0 ? complete : acknowledged);
  // A quarter at a time, as an application that has something to say would.
  if (window - out < window / 4) return;
  writing = true;
  published += window - out;
  publisher.write(ring.take(window - out)).then(() => {
    writing = false;
    publishMore();
  });
}

function cpuMicroseconds(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

let lastDelivery = Infinity;

async function after(ms: number): Promise<void> {
  lastDelivery = Math.min(lastDelivery, performance.now());
  for (const end = performance.now() + ms; performance.now() < end;) {
    const before = deliveries;
    await Promise.race([failed, new Promise((resolve) => setTimeout(resolve, 20))]);
    if (deliveries !== before) lastDelivery = performance.now();
    else if (performance.now() - lastDelivery > STALLED_MS) {
      throw new Error("a message was dropped");
    }
  }
}

const subscribers: Subscriber[] = [];
for (let i = 0; i < consumers; i++) {
  const wish = { level, clientId: `fan-${i}` };
  subscribers.push(new Subscriber(await BenchClient.open(port, wish)));
}
const runs = subscribers.map((subscriber) => subscriber.run());
const acks = publisher.run((first) => {
  if (first >> 4 === PUBACK) acknowledged++;
}, publishMore);
const failed = Promise.all([...runs, acks]).then(() => {});
await Promise.race([failed, Promise.all(subscribers.map(({ subscribed }) => subscribed))]);
started = true;
publishMore();
// A broker that has just started may take its time over the first ones.
while (complete < window) await after(20);
await after(Number(values.warmup));
const before = deliveries;
const cpuBefore = cpuMicroseconds();
const start = performance.now();
await after(Number(values.measure));
const elapsedMs = performance.now() - start;
const result: FanResult = {
  rate: (deliveries - before) / elapsedMs * 1_000,
  generatorCpu: (cpuMicroseconds() - cpuBefore) / 1_000 / elapsedMs,
};
stopped = true;
publisher.close();
for (const subscriber of subscribers) subscriber.close();
await failed;
console.log(JSON.stringify(result));
