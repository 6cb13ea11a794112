/**
 * A broker in the test's own process: the real core, the real stores, a real TCP door, and a clock that
 * a test moves by hand. For rules of time, for stores that fail, and for what only counters tell; the
 * executable itself is driven by `broker_process.ts`.
 *
 * ```ts
 * await using house = await House.open({ provider: "sqlite", channels: "log:\n  type: append" });
 * using client = await house.client({ clientId: "a" });
 * await house.time.pass(60_000);
 * ```
 */
import { DatabaseSync } from "node:sqlite";
import { Amqp } from "../../src/amqp/amqp.ts";
import { Broker } from "../../src/broker/broker.ts";
import type { Context } from "../../src/broker/context.ts";
import { Counters } from "../../src/broker/counters.ts";
import { AckDrain } from "../../src/broker/drain.ts";
import { IngestService } from "../../src/cli/ingest.ts";
import { makeProviders } from "../../src/cli/providers.ts";
import type { Configuration } from "../../src/config/configuration.ts";
import { loadConfiguration } from "../../src/config/load.ts";
import { REAL_SURROUNDINGS } from "../../src/config/walk.ts";
import { Admission } from "../../src/doors/admission.ts";
import { Door } from "../../src/mqtt/doors/door.ts";
import { systemClock } from "../../src/platform/clock.ts";
import { randomIds } from "../../src/platform/ids.ts";
import { HeapTimers } from "../../src/platform/timers.ts";
import { BROADCAST_LOG, type Provider, RETAINED } from "../../src/storage/contract.ts";
import { ManualTime, RecordingLog } from "../broker/rig.ts";
import { configurationText, type Parts, type Place } from "./broker_process.ts";
import { Faults } from "./faults.ts";
import type { ConnectOptions } from "./mqtt_bytes.ts";
import { until } from "./wait.ts";
import { WireClient } from "./wire.ts";

const RUN = new URL("../../run/tests/", import.meta.url).pathname;
const WORKER = new URL("../storage/sqlite/support/worker_entry.ts", import.meta.url);

export type ProviderKind = "memory" | "sqlite";

/** Parts of a configuration, and whether a memory provider keeps snapshots over a graceful stop. */
export interface HouseParts extends Parts {
  readonly snapshots?: boolean;
}

export class House implements AsyncDisposable {
  readonly time = new ManualTime();
  readonly log = new RecordingLog();
  readonly counters = new Counters();
  readonly faults = new Faults();
  broker!: Broker;
  configuration!: Configuration;
  /** Undefined where none is configured. */
  ingest: IngestService | undefined;
  /** Undefined where none is configured; its door and its end are `AmqpHouse`'s. */
  amqp: Amqp | undefined;
  providers!: ReadonlyMap<string, Provider>;
  #door!: Door;
  #storageTimers!: HeapTimers;
  #open = false;
  readonly #database: string;

  private constructor(private parts: HouseParts, private readonly directory: string) {
    // Workers cost more than what these tests read; the executable's tests have them.
    if (parts.provider !== "memory" && parts.providerKeys?.includes("read_connections") !== true) {
      this.parts = { ...parts, providerKeys: `read_connections: 0\n${parts.providerKeys ?? ""}` };
    }
    this.#database = `${directory}/broker.db`;
  }

  /** Opens a broker on fresh files. What `parts` leaves out is the least that loads. */
  static async open(parts: HouseParts = {}): Promise<House> {
    Deno.mkdirSync(RUN, { recursive: true });
    const house = new House(parts, Deno.makeTempDirSync({ dir: RUN }));
    await house.#start();
    return house;
  }

  async #start(): Promise<void> {
    const { snapshots, ...parts } = this.parts;
    const snapshotDir = snapshots === true ? `${this.directory}/snapshots` : undefined;
    if (snapshotDir !== undefined) Deno.mkdirSync(snapshotDir, { recursive: true });
    this.configuration = load({ ...parts, snapshotDir }, {
      directory: this.directory,
      port: 0,
      database: this.#database,
    });
    this.#storageTimers = new HeapTimers(systemClock, (error) => {
      throw error;
    });
    // Storage runs on real time, but stores the moments of the test.
    const clock = { monotonic: systemClock.monotonic, wall: () => this.time.wall() };
    this.providers = makeProviders(this.configuration, {
      clock,
      timers: this.#storageTimers,
      log: this.log,
      revision: "0".repeat(40),
      spawn: (name) => new Worker(WORKER, { type: "module", name }),
      onFatal: (error) => {
        throw error;
      },
    });
    const context: Context = {
      clock: this.time,
      timers: this.time,
      log: this.log,
      ids: randomIds(),
      limits: this.configuration.limits,
      counters: this.counters,
      ackCommitIntervalMs: this.configuration.session.ackCommitIntervalMs,
      drain: new AckDrain(this.configuration.session.ackCommitIntervalMs, this.time, this.log),
    };
    const { configuration, providers } = this;
    this.ingest = configuration.ingest && new IngestService(configuration.ingest);
    this.broker = await Broker.open(
      context,
      configuration,
      providers,
      undefined,
      async (broker) => {
        this.ingest?.join(broker, providers);
        const { amqp } = configuration;
        if (amqp === undefined) return;
        this.amqp = await Amqp.open(amqp, context, providers.get(amqp.storage)!, broker);
      },
    );
    this.ingest?.start();
    this.#watch();
    const [door] = this.configuration.mqtt.doors;
    if (door.kind !== "tcp") throw new Error("a house has one tcp door");
    this.#door = new Door(door);
    this.#door.bind();
    this.#door.serve(this.broker, {
      minProtocolVersion: this.configuration.mqtt.minProtocolVersion,
      maxClientIdLength: this.configuration.limits.maxClientIdLength,
      token: (bytes) => context.ids.token(bytes),
    }, new Admission(this.configuration.limits.maxConnections));
    this.#open = true;
  }

  #watch(): void {
    const { channels, session, retained } = this.configuration;
    for (const [name, provider] of this.providers) {
      const stores: [string, object][] = channels.filter(({ storage }) => storage === name)
        .map((channel) => [channel.name, storeOf(provider, channel.name, channel.type)]);
      if (session.storage === name) stores.push(["log", provider.append(BROADCAST_LOG)]);
      if (retained.storage === name) stores.push(["retained", provider.latest(RETAINED)]);
      this.faults.watch(provider, stores, session.storage === name);
    }
  }

  /** The file of a SQLite provider. */
  get database(): string {
    return this.#database;
  }

  /** Replaces what the next start is configured with. */
  configure(parts: Parts): void {
    this.parts = parts;
  }

  get port(): number {
    return Number(this.#door.address.split(":").pop());
  }

  /** A connection that was admitted. */
  client(options: ConnectOptions = {}): Promise<WireClient> {
    return WireClient.connected(this.port, options);
  }

  /** A connection and what its CONNACK said. */
  async connect(options: ConnectOptions = {}): Promise<{ client: WireClient; present: boolean }> {
    const client = await WireClient.open(this.port, options.level ?? 5);
    await client.connect(options);
    const { sessionPresent } = await client.expectConnack();
    return { client, present: sessionPresent };
  }

  /** Waits until the broker noticed that the client's connection is gone. */
  async away(clientId: string): Promise<void> {
    await until(`${clientId} to be away`, () => {
      return this.broker.sessions.get(clientId)?.link === undefined;
    });
    await this.settled();
  }

  /** Waits until no storage write that a test can hold up is under way. */
  async settled(): Promise<void> {
    await until("the writes to settle", () => {
      const providers = [...this.providers.values()];
      return this.faults.underWay === 0 &&
        providers.every((provider) => provider.statistics().waitingEntries === 0);
    });
    await new Promise((resolve) => setTimeout(resolve, 0));
  }

  /** Other parts of the configuration, from the next start on. */
  change(parts: HouseParts): void {
    this.parts = { ...this.parts, ...parts };
  }

  /** A graceful stop; the files stay. */
  async stop(): Promise<void> {
    if (!this.#open) return;
    this.#open = false;
    this.faults.clear();
    this.#door.stopAccepting();
    this.ingest?.stop();
    await this.broker.stopSessions();
    await this.#door.drain(500);
    await this.broker.close();
    this.#storageTimers.stop();
    this.time.stop();
  }

  /** A graceful stop and another start on the same files; the clock goes on from where it was. */
  async restart(downtimeMs = 0): Promise<void> {
    await this.stop();
    await this.time.leap(downtimeMs);
    await this.#start();
  }

  /**
   * The end of a process that nobody asked to stop, and another start: memory is gone, locks are free.
   * Memory providers only; `killed` is for a database.
   */
  async crash(): Promise<void> {
    this.#open = false;
    this.#door.stopAccepting();
    for (const provider of this.providers.values()) await provider.abandon();
    this.#storageTimers.stop();
    this.time.stop();
    await this.#start();
  }

  /**
   * The broker that starts on what is committed at this instant, as after a `kill -9`, `downtimeMs`
   * later. This one goes on, and is not seen by that one. SQLite only.
   */
  async killed(downtimeMs = 0): Promise<House> {
    const directory = Deno.makeTempDirSync({ dir: RUN });
    const database = new DatabaseSync(this.#database, { readOnly: true });
    database.exec(`VACUUM INTO '${directory}/broker.db'`);
    database.close();
    const house = new House(this.parts, directory);
    house.time.begin(this.time.monotonic() + downtimeMs);
    await house.#start();
    return house;
  }

  /** Messages in the broadcast log, as the broker counts who is owed them. */
  logLength(): number {
    return this.broker.logLength;
  }

  /** Rows of the database as an operator would see them. SQLite only. */
  rows(sql: string, ...values: (string | number)[]): Record<string, unknown>[] {
    const database = new DatabaseSync(this.#database, { readOnly: true });
    try {
      return database.prepare(sql).all(...values).map((row) => ({ ...row }));
    } finally {
      database.close();
    }
  }

  /** Log lines of a level that say `msg`. */
  lines(msg: string) {
    return this.log.lines.filter((line) => line.msg === msg);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await Deno.remove(this.directory, { recursive: true });
  }
}

function load(parts: Parts, place: Place): Configuration {
  const bytes = new TextEncoder().encode(configurationText(place, parts));
  const loading = loadConfiguration("house.yaml", { ...REAL_SURROUNDINGS, readFile: () => bytes });
  if ("findings" in loading) throw new Error(loading.findings);
  return loading.configuration;
}

function storeOf(provider: Provider, channel: string, kind: "append" | "latest" | "queue"): object {
  return provider[kind](channel);
}

export type Rule = (house: House, provider: ProviderKind) => Promise<void>;

const BOTH: readonly ProviderKind[] = ["memory", "sqlite"];

/** Declares the same test over both providers, each on a broker of its own; the name says which. */
export function overBoth(name: string, parts: HouseParts, test: Rule, providers = BOTH): void {
  for (const provider of providers) {
    Deno.test(`${name} (${provider})`, async () => {
      await using house = await House.open({ ...parts, provider });
      await test(house, provider);
    });
  }
}

/**
 * Declares rules that share one broker, over each provider. They run one after another, so each takes
 * client ids and topics of its own.
 */
export function rules(
  title: string,
  parts: HouseParts,
  tests: Readonly<Record<string, Rule>>,
  providers = BOTH,
): void {
  for (const provider of providers) {
    Deno.test(`${title} (${provider})`, async (context) => {
      await using house = await House.open({ ...parts, provider });
      for (const [name, test] of Object.entries(tests)) {
        // What the broker does after an answer may outlast the step.
        await context.step({
          name,
          fn: () => test(house, provider),
          sanitizeOps: false,
          sanitizeResources: false,
        });
      }
    });
  }
}

/** Payload of a packet as text. */
export function text({ payload }: { readonly payload: Uint8Array }): string {
  return new TextDecoder().decode(payload);
}

/** The values of one User Property, in order. */
export function property(
  packet: {
    readonly properties: { readonly userProperties?: readonly (readonly [string, string])[] };
  },
  name: string,
): string[] {
  return (packet.properties.userProperties ?? []).filter(([each]) => each === name)
    .map(([, value]) => value);
}
