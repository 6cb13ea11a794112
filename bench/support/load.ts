/**
 * The load generator, a process of its own: `connections` publishers, each with `window` QoS 1
 * publishes out, every PUBACK answered by the next publish. Prints one JSON line, a LoadResult.
 */
import process from "node:process";
import { parseArgs } from "node:util";
import { connectPacket, type Level, PubackCounter, PublishRing } from "./packets.ts";

export interface LoadResult {
  /** Acknowledged publishes a second. */
  readonly rate: number;
  /** Acknowledged publishes over the whole run, warm-up included. */
  readonly acknowledged: number;
  /** The generator's own processor time while it measured, as a share of one core. */
  readonly generatorCpu: number;
  /** PUBACK latency in microseconds; only with one connection and window 1. */
  readonly p50: number | undefined;
  readonly p99: number | undefined;
}

const READ_BYTES = 16 * 1024;
/** Latencies kept; a lone publisher does not send more in any run that one waits for. */
const MOST_LATENCIES = 1_000_000;

interface Options {
  readonly host: string;
  readonly port: number;
  readonly connections: number;
  readonly window: number;
  readonly level: Level;
  readonly topic: string;
  readonly payloadBytes: number;
  readonly warmupMs: number;
  readonly measureMs: number;
}

class Publisher {
  acknowledged = 0;
  #stopped = false;

  private constructor(
    private readonly socket: Deno.TcpConn,
    private readonly ring: PublishRing,
    private readonly window: number,
  ) {}

  static async open(options: Options, number: number): Promise<Publisher> {
    const socket = await Deno.connect({ hostname: options.host, port: options.port });
    socket.setNoDelay(true);
    await writeAll(socket, connectPacket({ level: options.level, clientId: `load-${number}` }));
    // CONNACK: the second byte is the length of what follows (3.2), below 128 from every broker here.
    const answer = new Uint8Array(256);
    let have = 0;
    while (have < 2 || have < 2 + answer[1]) {
      const read = await socket.read(answer.subarray(have));
      if (read === null) throw new Error("closed before CONNACK");
      have += read;
    }
    if (answer[0] !== 0x20 || answer[3] !== 0) throw new Error(`CONNACK said ${answer[3]}`);
    const payload = new Uint8Array(options.payloadBytes).map((_, i) => 33 + (number + i) % 90);
    // More identifiers than the window: one is not used again while its first use is still out.
    const ring = new PublishRing(
      options.level,
      `${options.topic}/${number}`,
      2 * options.window,
      payload,
    );
    return new Publisher(socket, ring, options.window);
  }

  /** Publishes until `stop`; `latencies`, when given, takes the time of every PUBACK in us. */
  async run(latencies?: Float64Array, count?: { n: number }): Promise<void> {
    const buffer = new Uint8Array(READ_BYTES);
    const counter = new PubackCounter();
    let sent = performance.now();
    await writeAll(this.socket, this.ring.take(this.window));
    while (!this.#stopped) {
      const read = await this.socket.read(buffer);
      if (read === null) throw new Error("the broker closed the connection");
      const ended = counter.take(buffer, read);
      if (ended === 0) continue;
      this.acknowledged += ended;
      if (latencies !== undefined && count!.n < latencies.length) {
        latencies[count!.n++] = (performance.now() - sent) * 1000;
        sent = performance.now();
      }
      await writeAll(this.socket, this.ring.take(ended));
    }
    this.socket.close();
  }

  stop(): void {
    this.#stopped = true;
  }
}

async function writeAll(socket: Deno.TcpConn, bytes: Uint8Array): Promise<void> {
  for (let written = 0; written < bytes.length;) {
    written += await socket.write(bytes.subarray(written));
  }
}

function sleep(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

async function run(options: Options): Promise<LoadResult> {
  const publishers: Publisher[] = [];
  for (let i = 0; i < options.connections; i++) publishers.push(await Publisher.open(options, i));
  const lone = options.connections === 1 && options.window === 1;
  const latencies = lone ? new Float64Array(MOST_LATENCIES) : undefined;
  const count = { n: 0 };
  const acknowledged = () => publishers.reduce((sum, p) => sum + p.acknowledged, 0);

  const runs = publishers.map((publisher) => publisher.run(latencies, count));
  const failed = Promise.all(runs).then(() => {});
  await Promise.race([sleep(options.warmupMs), failed]);
  const before = acknowledged();
  const latenciesBefore = count.n;
  const cpuBefore = cpuMicroseconds();
  const start = performance.now();
  await Promise.race([sleep(options.measureMs), failed]);
  const elapsedMs = performance.now() - start;
  const cpu = cpuMicroseconds() - cpuBefore;
  const after = acknowledged();
  const latenciesAfter = count.n;
  for (const publisher of publishers) publisher.stop();
  await failed;

  const sorted = latencies?.slice(latenciesBefore, latenciesAfter).sort();
  const quantile = (q: number) =>
    sorted === undefined || sorted.length === 0
      ? undefined
      : sorted[Math.min(sorted.length - 1, Math.floor(q * sorted.length))];
  return {
    rate: (after - before) / elapsedMs * 1000,
    acknowledged: acknowledged(),
    generatorCpu: cpu / 1000 / elapsedMs,
    p50: quantile(0.5),
    p99: quantile(0.99),
  };
}

function cpuMicroseconds(): number {
  const { user, system } = process.cpuUsage();
  return user + system;
}

const { values } = parseArgs({
  options: {
    host: { type: "string", default: "127.0.0.1" },
    port: { type: "string" },
    connections: { type: "string", default: "1" },
    window: { type: "string", default: "1" },
    level: { type: "string", default: "5" },
    topic: { type: "string", default: "bench" },
    payload: { type: "string", default: "128" },
    warmup: { type: "string", default: "500" },
    measure: { type: "string", default: "1500" },
  },
});

const result = await run({
  host: values.host,
  port: Number(values.port),
  connections: Number(values.connections),
  window: Number(values.window),
  level: Number(values.level) as Level,
  topic: values.topic,
  payloadBytes: Number(values.payload),
  warmupMs: Number(values.warmup),
  measureMs: Number(values.measure),
});
console.log(JSON.stringify(result));
