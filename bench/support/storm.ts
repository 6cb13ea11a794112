/**
 * A reconnect storm: many durable sessions lose their connections at one moment and connect again at
 * once, while publishers go on. Every acknowledged publish is accounted for: those to the `log` channel
 * by a durable subscriber that stays connected, those to a device by that device's session, and those to
 * `shared` by every hundredth session, all of which read that channel with a filter of their own.
 */
import { BenchClient } from "./client.ts";
import { residentBytes } from "./measure.ts";
import { publishPacket, subscribePacket } from "./packets.ts";

export interface StormOptions {
  readonly port: number;
  /** Of the broker, for its memory. */
  readonly pid: number;
  readonly sessions: number;
  readonly publishers: number;
  /** Publishes a second, over all publishers. */
  readonly rate: number;
  /** How long is measured with everybody connected, before the storm. */
  readonly beforeMs: number;
}

/** Milliseconds. */
export interface Spread {
  readonly count: number;
  readonly p50: number;
  readonly p99: number;
  readonly worst: number;
}

export interface StormResult {
  readonly before: Spread;
  readonly during: Spread;
  /** From the first byte of the connection to CONNACK. */
  readonly connack: Spread;
  /** From the cut to the last CONNACK. */
  readonly lengthMs: number;
  /** From the cut until the last session had what it was owed. */
  readonly caughtUpMs: number;
  readonly resumed: number;
  readonly acknowledged: number;
  /** Acknowledged publishes that did not arrive where they were owed: none, or the broker lost them. */
  readonly lost: number;
  readonly rss: { readonly before: number; readonly peak: number; readonly after: number };
}

/** What a broker under a storm is configured with; every topic that is no channel's is a device's. */
export const STORM_CHANNELS = "log:\n  type: append\nshared:\n  type: append";

const PUBLISH = 3;
const PUBACK = 4;
const EXPIRY_S = 3_600;
/** Connections being opened at a time while nobody measures. */
const ABREAST = 100;
/** Every so many publishes, one goes to a device, and one to the channel that sessions share. */
const DEVICE_EVERY = 10;
const SHARED_EVERY = 20;
/** Sessions that read the shared channel. */
const READERS_EVERY = 100;
const TICK_MS = 10;
const MOST_LATENCIES = 2_000_000;
/** How long what is owed may take to arrive once nothing more is published. */
const CATCH_UP_MS = 60_000;
const decoder = new TextDecoder();

export async function runStorm(options: StormOptions): Promise<StormResult> {
  const storm = new Storm(options);
  try {
    return await storm.run();
  } finally {
    storm.close();
  }
}

/** Who is owed a message: a session, or the subscriber of the log. */
class Reader {
  client: BenchClient | undefined;
  /** Resolves when the present connection is gone, its descriptor with it. */
  ended: Promise<void> = Promise.resolve();
  /** Payloads of acknowledged publishes that have not arrived. */
  readonly missing = new Set<string>();
  /** Payloads that arrived before their PUBACK did. */
  readonly early = new Set<string>();

  constructor(
    readonly clientId: string,
    readonly filter: string,
    private readonly failed: (error: unknown) => void,
  ) {}

  /** Connects; `subscribe` waits for the SUBACK. Answers whether the session was there. */
  async open(port: number, subscribe: boolean): Promise<boolean> {
    const client = await BenchClient.open(port, {
      level: 5,
      clientId: this.clientId,
      expiry: EXPIRY_S,
    });
    this.client = client;
    let granted: (() => void) | undefined;
    const subscribed = new Promise<void>((resolve) => granted = resolve);
    let acks: number[] = [];
    this.ended = client.run((first, bytes, at, end) => {
      if (first >> 4 !== PUBLISH) return granted?.();
      const topicEnd = at + 2 + (bytes[at] << 8 | bytes[at + 1]);
      acks.push(PUBACK << 4, 2, bytes[topicEnd], bytes[topicEnd + 1]);
      this.#arrived(payloadOf(bytes, topicEnd + 2, end));
    }, async () => {
      if (acks.length === 0) return;
      const packets = Uint8Array.from(acks);
      acks = [];
      await client.write(packets);
    }).catch(this.failed);
    if (subscribe) {
      await client.write(subscribePacket(5, this.filter, 1));
      await subscribed;
    }
    return client.sessionPresent;
  }

  #arrived(payload: string): void {
    if (!this.missing.delete(payload)) this.early.add(payload);
  }

  /** A publish that this reader is owed was acknowledged. */
  owe(payload: string): void {
    if (!this.early.delete(payload)) this.missing.add(payload);
  }
}

/** Behind the properties, which no more than 16,383 bytes long. */
function payloadOf(bytes: Uint8Array, at: number, end: number): string {
  const length = bytes[at] < 0x80 ? bytes[at] : (bytes[at] & 0x7f) + (bytes[at + 1] << 7);
  return decoder.decode(bytes.subarray(at + (bytes[at] < 0x80 ? 1 : 2) + length, end));
}

interface Out {
  readonly at: number;
  readonly payload: string;
  readonly owed: readonly Reader[];
}

class Storm {
  readonly #sessions: Reader[] = [];
  readonly #log: Reader;
  readonly #sharers: Reader[];
  readonly #publishers: { readonly client: BenchClient; readonly out: Map<number, Out> }[] = [];
  #latencies = new Float64Array(MOST_LATENCIES);
  #measured = 0;
  #acknowledged = 0;
  #published = 0;
  #publishing = true;
  #peak = 0;
  #fail!: (error: unknown) => void;
  readonly #failed = new Promise<never>((_, reject) => this.#fail = reject);

  constructor(private readonly options: StormOptions) {
    const failed = (error: unknown) => this.#fail(error);
    for (let i = 0; i < options.sessions; i++) {
      const filter = i % READERS_EVERY === 0 ? "shared/#" : `device/${i}/#`;
      this.#sessions.push(new Reader(`device-${i}`, filter, failed));
    }
    this.#sharers = this.#sessions.filter((_, i) => i % READERS_EVERY === 0);
    this.#log = new Reader("log-reader", "log/#", failed);
    this.#failed.catch(() => {});
  }

  async run(): Promise<StormResult> {
    const { options } = this;
    await this.#all(ABREAST, (session) => session.open(options.port, true));
    await this.#log.open(options.port, true);
    await this.#openPublishers();
    const publishing = this.#pace(options.rate);
    await this.#pause(options.beforeMs / 3);
    this.#measured = 0;
    await this.#pause(options.beforeMs);
    const before = this.#takeSpread();
    const rssBefore = residentBytes(options.pid);
    this.#peak = rssBefore;

    for (const { client } of this.#sessions) client!.close();
    // Twice the descriptors would be needed otherwise.
    await Promise.all(this.#sessions.map(({ ended }) => ended));
    const cut = performance.now();
    const connacks = new Float64Array(options.sessions);
    let resumed = 0;
    let answered = 0;
    await this.#all(options.sessions, async (session) => {
      const from = performance.now();
      if (await session.open(options.port, false)) resumed++;
      connacks[answered++] = performance.now() - from;
    });
    const lengthMs = performance.now() - cut;
    await this.#until(() => this.#owed() === 0, 200);
    const during = this.#takeSpread();
    this.#publishing = false;
    await Promise.race([publishing, this.#failed]);
    const caught = await this.#until(() => this.#out() + this.#owed() === 0, CATCH_UP_MS);
    const caughtUpMs = caught - cut;
    return {
      before,
      during,
      connack: spread(connacks),
      lengthMs,
      caughtUpMs,
      resumed,
      acknowledged: this.#acknowledged,
      lost: this.#out() + this.#owed(),
      rss: { before: rssBefore, peak: this.#peak, after: residentBytes(options.pid) },
    };
  }

  /** `work` for every session, so many at a time. */
  async #all(abreast: number, work: (session: Reader) => Promise<unknown>): Promise<void> {
    let next = 0;
    const worker = async () => {
      while (next < this.#sessions.length) await work(this.#sessions[next++]);
    };
    const workers = Array.from({ length: Math.min(abreast, this.#sessions.length) }, worker);
    await Promise.race([Promise.all(workers), this.#failed]);
  }

  async #openPublishers(): Promise<void> {
    const { port, publishers } = this.options;
    for (let i = 0; i < publishers; i++) {
      const client = await BenchClient.open(port, { level: 5, clientId: `publisher-${i}` });
      const out = new Map<number, Out>();
      client.run((first, bytes, at, end) => {
        if (first >> 4 !== PUBACK) {
          throw new Error(`a publisher got a packet of type ${first >> 4}`);
        }
        if (end - at > 2 && bytes[at + 2] >= 0x80) throw new Error("a publish was refused");
        this.#puback(out, bytes[at] << 8 | bytes[at + 1]);
      }).catch((error) => this.#fail(error));
      this.#publishers.push({ client, out });
    }
  }

  #puback(out: Map<number, Out>, packetId: number): void {
    const { at, payload, owed } = out.get(packetId)!;
    out.delete(packetId);
    this.#acknowledged++;
    if (this.#measured < MOST_LATENCIES) this.#latencies[this.#measured++] = performance.now() - at;
    for (const reader of owed) reader.owe(payload);
  }

  /** An open loop: whatever is acknowledged or not, so many publishes a second. */
  async #pace(rate: number): Promise<void> {
    const start = performance.now();
    const count = () => Math.floor((performance.now() - start) / 1_000 * rate);
    while (this.#publishing) {
      for (const due = count(); this.#published < due;) {
        const number = this.#published++;
        const { client, out } = this.#publishers[number % this.#publishers.length];
        const packetId = 1 + Math.floor(number / this.#publishers.length) % 60_000;
        const payload = `message ${number}`;
        const { topic, owed } = this.#target(number);
        out.set(packetId, { at: performance.now(), payload, owed });
        const packet = publishPacket(5, topic, packetId, new TextEncoder().encode(payload));
        void client.write(packet).catch((error) => this.#fail(error));
      }
      this.#peak = Math.max(this.#peak, residentBytes(this.options.pid));
      await new Promise((resolve) => setTimeout(resolve, TICK_MS));
    }
  }

  #target(number: number): { readonly topic: string; readonly owed: readonly Reader[] } {
    if (number % SHARED_EVERY === 1) return { topic: `shared/${number}`, owed: this.#sharers };
    if (number % DEVICE_EVERY === 0) {
      const device = Math.floor(Math.random() * this.#sessions.length);
      const session = this.#sessions[device];
      const owed = device % READERS_EVERY === 0 ? [] : [session];
      return { topic: `device/${device}/command`, owed };
    }
    return { topic: `log/${number % 100}`, owed: [this.#log] };
  }

  #out(): number {
    return this.#publishers.reduce((sum, { out }) => sum + out.size, 0);
  }

  #owed(): number {
    return this.#sessions.reduce((sum, { missing }) => sum + missing.size, this.#log.missing.size);
  }

  async #pause(ms: number): Promise<void> {
    await Promise.race([new Promise((resolve) => setTimeout(resolve, ms)), this.#failed]);
  }

  /** Waits for `condition`, at most so long; answers when that was. */
  async #until(condition: () => boolean, mostMs: number): Promise<number> {
    const end = performance.now() + mostMs;
    while (!condition() && performance.now() < end) await this.#pause(TICK_MS);
    return performance.now();
  }

  #takeSpread(): Spread {
    const taken = spread(this.#latencies.slice(0, this.#measured));
    this.#measured = 0;
    return taken;
  }

  close(): void {
    this.#publishing = false;
    for (const { client } of [...this.#sessions, this.#log, ...this.#publishers]) client?.close();
  }
}

function spread(values: Float64Array): Spread {
  values.sort();
  const at = (q: number) => values[Math.min(values.length - 1, Math.floor(q * values.length))];
  return { count: values.length, p50: at(0.5), p99: at(0.99), worst: values[values.length - 1] };
}
