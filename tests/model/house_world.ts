/**
 * A broker in the process of the test, without sockets, threads or waiting: the real core, the real front
 * door over pipes, the real providers. A storage worker is an object here that does one request a turn, so
 * that a crash can come between the commit and the answer; the clock stands still unless a step moves it.
 */
import { setImmediate } from "node:timers";
import { setTimeout } from "node:timers/promises";
import { Broker } from "../../src/broker/broker.ts";
import type { Context } from "../../src/broker/context.ts";
import { Counters } from "../../src/broker/counters.ts";
import { AckDrain } from "../../src/broker/drain.ts";
import { pumpTurns } from "../../src/broker/pump_turns.ts";
import type { Configuration } from "../../src/config/configuration.ts";
import { loadConfiguration } from "../../src/config/load.ts";
import { REAL_SURROUNDINGS } from "../../src/config/walk.ts";
import { type ConnectionContext, MqttConnection } from "../../src/mqtt/connection.ts";
import type { Provider } from "../../src/storage/contract.ts";
import { MemoryProvider } from "../../src/storage/memory/provider.ts";
import { SqliteProvider } from "../../src/storage/sqlite/provider.ts";
import { ForgetfulDirectory } from "../storage/snapshot/forgetful_directory.ts";
import { configurationText } from "../support/broker_process.ts";
import { LastLines } from "./last_lines.ts";
import { LifeTime } from "./life_time.ts";
import { Pipe } from "./pipe.ts";
import type { StorageKind } from "./schedule.ts";
import { TurnWorker } from "./turn_worker.ts";
import { type ClientWire, CONFIGURATION, type WireEvents, type World } from "./world.ts";

const REVISION = "0".repeat(40);
/** A schedule that never comes to rest is a fault of its own. */
const MOST_TURNS = 20_000;
/** A start or a stop asks the system for names of files, which takes as long as the machine likes. */
const MOST_START_MS = 30_000;
/** Turns of a start or a stop before this process waits for the machine rather than spins. */
const EAGER_TURNS = 2_000;

/** Files that need not survive this machine: a memory disk where there is one. */
function parentDirectory(): string {
  try {
    if (Deno.statSync("/dev/shm").isDirectory) return "/dev/shm";
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const run = new URL("../../run/tests", import.meta.url).pathname;
  Deno.mkdirSync(run, { recursive: true });
  return run;
}

const configurations = new Map<StorageKind, Configuration>();

function configurationOf(storage: StorageKind): Configuration {
  let configuration = configurations.get(storage);
  if (configuration === undefined) {
    const place = { directory: "/", port: 1, database: "/model.db" };
    const text = configurationText(place, { provider: storage, ...CONFIGURATION });
    const bytes = new TextEncoder().encode(text);
    const loading = loadConfiguration("model.yaml", {
      ...REAL_SURROUNDINGS,
      readFile: () => bytes,
    });
    if ("findings" in loading) throw new Error(loading.findings);
    configuration = loading.configuration;
    configurations.set(storage, configuration);
  }
  return configuration;
}

function turn(): Promise<void> {
  return new Promise((resolve) => setImmediate(resolve));
}

/** One life of the broker. */
interface Life {
  readonly time: LifeTime;
  readonly broker: Broker;
  readonly provider: Provider;
  readonly context: ConnectionContext;
}

export class HouseWorld implements World {
  readonly slackMs = 0;
  readonly deafness = true;
  readonly log = new LastLines();
  readonly #directory = Deno.makeTempDirSync({ dir: parentDirectory(), prefix: "saguin-model-" });
  readonly #snapshots = new ForgetfulDirectory(this.#directory);
  readonly #configuration: Configuration;
  #life!: Life;
  #workers: TurnWorker[] = [];
  #pipes: Pipe[] = [];
  #connections: MqttConnection[] = [];
  #file = 0;
  #ids = 0;
  #fatal: unknown;

  private constructor(private readonly storage: StorageKind) {
    this.#configuration = configurationOf(storage);
  }

  static async open(storage: StorageKind): Promise<HouseWorld> {
    const world = new HouseWorld(storage);
    await world.#start(0);
    return world;
  }

  get now(): number {
    return this.#life.time.ms;
  }

  #path(): string {
    return `${this.#directory}/${this.#file}.db`;
  }

  #provider(time: LifeTime): Provider {
    const { limits } = this.#configuration;
    const common = {
      name: "store",
      maxBytes: undefined,
      reserveBytes: limits.maxMessageSize + limits.maxHeaderBytes,
      clock: time,
      log: this.log,
    };
    if (this.storage === "memory") {
      return new MemoryProvider({
        ...common,
        snapshots: { directory: this.#snapshots, revision: REVISION },
      });
    }
    return new SqliteProvider({
      ...common,
      filePath: this.#path(),
      acknowledge: "committed",
      publishCommit: { kind: "collecting" },
      readConnections: 0,
      flushIntervalMs: 150,
      timers: time,
      revision: REVISION,
      spawn: (name) => {
        const worker = new TurnWorker(name);
        this.#workers.push(worker);
        return worker as unknown as Worker;
      },
      openLog: () => ({ syncData: () => Promise.resolve(), close: () => {} }),
      onFatal: (failure) => this.#fatal = failure,
    });
  }

  async #start(ms: number): Promise<void> {
    const time = new LifeTime(ms);
    const provider = this.#provider(time);
    const { limits, session, mqtt } = this.#configuration;
    const context: Context = {
      clock: time,
      timers: time,
      log: this.log,
      ids: {
        messageId: () => `00000000-0000-7000-8000-${String(++this.#ids).padStart(12, "0")}`,
        token: (bytes) => (++this.#ids).toString(16).padStart(2 * bytes, "0"),
      },
      limits,
      counters: new Counters(),
      ackCommitIntervalMs: session.ackCommitIntervalMs,
      drain: new AckDrain(session.ackCommitIntervalMs, time, this.log),
    };
    const providers = new Map([["store", provider]]);
    const broker = await this.#drive(Broker.open(context, this.#configuration, providers));
    this.#life = {
      time,
      broker,
      provider,
      context: {
        broker,
        listener: "tcp",
        rules: {
          minProtocolVersion: mqtt.minProtocolVersion,
          maxClientIdLength: limits.maxClientIdLength,
          token: (bytes) => context.ids.token(bytes),
        },
        identify: ({ proved }) => Promise.resolve({ user: proved ?? "" }),
      },
    };
  }

  open(events: WireEvents, deaf = false): Promise<ClientWire> {
    const pipe = new Pipe(events, deaf);
    this.#pipes.push(pipe);
    const connection = new MqttConnection(this.#life.context, pipe, {
      address: "127.0.0.1:1",
      proved: undefined,
      opened: () => {},
      ending: () => {},
    });
    this.#connections.push(connection);
    void connection.run();
    return Promise.resolve({
      send: (bytes) => pipe.send(bytes),
      close: () => pipe.leave(),
    });
  }

  // ------------------------------------------------------------------------------------- turns

  /** One turn of the event loop; false when nothing happened in it. */
  async #turn(): Promise<boolean> {
    // Workers come first: what is asked of them in this turn is done in the next, and answered in the one
    // after, so that a crash may come before the commit as well as after it.
    let worked = false;
    for (const worker of this.#workers) worked = worker.turn() || worked;
    await turn();
    for (const worker of this.#workers) worked ||= worker.busy;
    worked ||= pumpTurns.due;
    for (const pipe of this.#pipes) {
      worked ||= pipe.moved;
      pipe.moved = false;
    }
    if (this.#fatal !== undefined) throw this.#fatal;
    return worked;
  }

  /** Turns until `promise` has settled. */
  async #drive<T>(promise: Promise<T>): Promise<T> {
    let settled = false;
    promise.then(() => settled = true, () => settled = true);
    const begun = performance.now();
    for (let turns = 0; !settled; turns++) {
      if (performance.now() - begun > MOST_START_MS) {
        throw new Error("the broker hangs in a start or a stop");
      }
      if (turns > EAGER_TURNS) await setTimeout(1);
      await this.#turn();
    }
    return await promise;
  }

  async turns(count: number): Promise<void> {
    for (let i = 0; i < count; i++) await this.#turn();
  }

  async settle(): Promise<void> {
    for (let turns = 0, still = 0; still < 2; turns++) {
      if (turns > MOST_TURNS) throw new Error("the broker does not come to rest");
      still = await this.#turn() ? 0 : still + 1;
    }
  }

  async pass(ms: number): Promise<void> {
    const { time } = this.#life;
    const end = time.ms + ms;
    await this.settle();
    while (time.fireNext(end)) await this.settle();
    time.ms = end;
  }

  // ------------------------------------------------------------------------------ death and birth

  async crash(downMs: number): Promise<void> {
    const { time, provider } = this.#life;
    for (const pipe of this.#pipes.splice(0)) pipe.die();
    this.#connections = [];
    time.stop();
    if (this.storage === "sqlite") {
      const from = this.#path();
      this.#file++;
      for (const suffix of ["", "-wal"]) Deno.copyFileSync(from + suffix, this.#path() + suffix);
      // The dead one is buried on its own files, which nobody looks at any more.
      await this.#drive(provider.close());
      for (const suffix of ["", "-wal", "-shm", ".lock"]) removeIfThere(from + suffix);
      this.#workers = [];
    } else await provider.abandon();
    await this.#start(time.ms + downMs);
  }

  async restart(downMs: number): Promise<void> {
    const { time } = this.#life;
    await this.#stop();
    await this.#start(time.ms + downMs);
  }

  async #stop(): Promise<void> {
    const { time, broker } = this.#life;
    await this.#drive(broker.stopSessions());
    await this.#drive(Promise.all(this.#connections.map((connection) => {
      connection.cut();
      return connection.closed;
    })));
    for (const pipe of this.#pipes.splice(0)) pipe.die();
    this.#connections = [];
    if (!await this.#drive(broker.close())) throw new Error("the broker did not close cleanly");
    this.#workers = [];
    time.stop();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { time, provider } = this.#life;
    time.stop();
    for (const pipe of this.#pipes.splice(0)) pipe.leave();
    if (this.storage === "sqlite") await this.#drive(provider.close());
    else await provider.abandon();
    Deno.removeSync(this.#directory, { recursive: true });
  }
}

function removeIfThere(path: string): void {
  try {
    Deno.removeSync(path);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
}
