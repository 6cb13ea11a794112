/**
 * The brokers that the benches compare: saguin in the shapes the promises of speed are about, Debian's
 * mosquitto, npm's aedes. Each is a process of its own on a port of its own.
 */
import {
  BrokerProcess,
  configurationText,
  type Parts,
} from "../../tests/support/broker_process.ts";
import { freePort } from "../../tests/support/ports.ts";
import { until } from "../../tests/support/wait.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const START_MS = 60_000;

/** A broker that runs and can be loaded. */
export interface Running extends AsyncDisposable {
  readonly name: string;
  readonly port: number;
  readonly pid: number;
}

export interface Contender {
  readonly name: string;
  /** Speaks MQTT 5, not only 3.1.1. */
  readonly mqtt5: boolean;
  start(): Promise<Running>;
}

const APPEND = "bench:\n  type: append";
/** Some benches open many connections, as fast as they can. */
const EASY_LIMITS = "max_connect_rate: none\nmax_connections: 20000";

/** Saguin as a contender: the executable with `parts` of a configuration. */
export function saguin(name: string, parts: Parts): Contender {
  return {
    name,
    mqtt5: true,
    async start() {
      const broker = await BrokerProcess.start((place) =>
        configurationText(place, { logLevel: "warn", limits: EASY_LIMITS, ...parts })
      );
      return {
        name,
        port: broker.port,
        pid: broker.pid,
        [Symbol.asyncDispose]: () => broker[Symbol.asyncDispose](),
      };
    },
  };
}

/** Starts `command` and waits until `port` takes connections. */
async function start(
  name: string,
  port: number,
  command: string,
  args: readonly string[],
): Promise<Running> {
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(command, {
      args: [...args],
      stdin: "null",
      stdout: "null",
      stderr: "null",
    }).spawn();
  } catch (error) {
    throw new Error(
      `cannot start ${name}: ${(error as Error).message}; see bench/support/peers.sh`,
    );
  }
  let ended = false;
  const gone = child.status.then(() => ended = true);
  await until(`${name} on port ${port}`, async () => {
    if (ended) throw new Error(`${name} exited; see bench/support/peers.sh`);
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return true;
    } catch {
      return false;
    }
  }, START_MS);
  return {
    name,
    port,
    pid: child.pid,
    async [Symbol.asyncDispose]() {
      if (!ended) child.kill("SIGKILL");
      await gone;
    },
  };
}

/**
 * Debian's mosquitto, keeping nothing, and holding nothing back from a subscriber, with the listeners of
 * `listeners`, one of which has `port`.
 */
export async function mosquittoWith(listeners: string, port: number): Promise<Running> {
  const file = await Deno.makeTempFile({ suffix: ".conf" });
  await Deno.writeTextFile(
    file,
    `${listeners}set_tcp_nodelay true\npersistence false\nmax_connections -1\nlog_type none\n` +
      `max_inflight_messages 0\nmax_queued_messages 0\n`,
  );
  const path = Deno.env.get("MOSQUITTO") ?? "/usr/sbin/mosquitto";
  try {
    return await start("mosquitto", port, path, ["-c", file]);
  } finally {
    await Deno.remove(file);
  }
}

export const mosquitto: Contender = {
  name: "mosquitto",
  mqtt5: true,
  start() {
    const port = freePort();
    return mosquittoWith(`listener ${port} 0.0.0.0\nallow_anonymous true\n`, port);
  },
};

const aedes: Contender = {
  name: "aedes",
  mqtt5: false,
  start() {
    const port = freePort();
    const script = ROOT + "bench/support/aedes.mjs";
    return start("aedes", port, "node", [script, ROOT + ".bench", String(port)]);
  },
};

/** Every contender by name, in the order of the table. */
export const CONTENDERS: readonly Contender[] = [
  mosquitto,
  aedes,
  saguin("committed", { acknowledge: "committed", channels: APPEND }),
  saguin("synced", { acknowledge: "synced", channels: APPEND }),
  saguin("memory", { provider: "memory", channels: APPEND }),
  saguin("broadcast", {}),
];

/**
 * The contenders with these names.
 * @throws Error on a name that is none
 */
export function contenders(names: readonly string[]): readonly Contender[] {
  return names.map((name) => {
    const found = CONTENDERS.find((contender) => contender.name === name);
    if (found === undefined) {
      throw new Error(
        `"${name}" is not a contender; there are ${CONTENDERS.map((c) => c.name).join(", ")}`,
      );
    }
    return found;
  });
}

/** A helper script of this room, run on the Deno that runs the bench. */
function script(name: string, args: readonly string[]): Deno.Command {
  return new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--quiet",
      "--cached-only",
      "--allow-all",
      ROOT + "bench/support/" + name,
      ...args,
    ],
    stdin: "null",
    stdout: "piped",
    stderr: "inherit",
  });
}

/**
 * Runs a load to its end: a helper script of this room that is given `options` and prints one line.
 * @throws Error when it fails; its own words are on standard error by then
 */
export async function load<T>(
  broker: Pick<Running, "name" | "port">,
  file: string,
  options: Readonly<Record<string, string | number | undefined>>,
): Promise<T> {
  const args = Object.entries({ port: broker.port, ...options }).flatMap(([name, value]) =>
    value === undefined ? [] : [`--${name}`, String(value)]
  );
  const output = await script(file, args).output();
  if (!output.success) throw new Error(`the load on ${broker.name} failed`);
  return JSON.parse(new TextDecoder().decode(output.stdout));
}

/** The trivial sink, for the generator's own ceiling. */
export async function startSink(
  level: number,
  topic: string,
  payloadBytes: number,
  window: number,
): Promise<Running> {
  const port = freePort();
  const file = ROOT + "bench/support/sink.ts";
  const args = ["run", "--quiet", "--cached-only", "--allow-all", file];
  return await start("sink", port, Deno.execPath(), [
    ...args,
    ...[port, level, topic, payloadBytes, window].map(String),
  ]);
}
