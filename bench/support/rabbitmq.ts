/** Debian's RabbitMQ as a contender: a node of its own, on ports of its own, in a directory of its own. */
import { freePort } from "../../tests/support/ports.ts";
import { until } from "../../tests/support/wait.ts";

const SERVER = "/usr/lib/rabbitmq/bin/rabbitmq-server";
const START_MS = 120_000;

function installed(): boolean {
  try {
    Deno.statSync(SERVER);
    return true;
  } catch {
    return false;
  }
}

async function serves(port: number): Promise<boolean> {
  try {
    using socket = await Deno.connect({ hostname: "127.0.0.1", port });
    await socket.write(Uint8Array.of(65, 77, 81, 80, 0, 0, 9, 1));
    return await socket.read(new Uint8Array(8)) !== null;
  } catch {
    return false;
  }
}

export const rabbitmq = {
  name: "rabbitmq",
  installed: installed(),
  async start() {
    const directory = await Deno.makeTempDir({ dir: "/var/tmp", prefix: "saguin-rabbitmq-" });
    const port = freePort();
    await Deno.writeTextFile(
      `${directory}/rabbit.conf`,
      `listeners.tcp.default = 127.0.0.1:${port}\nlog.console = false\n`,
    );
    const environment = {
      HOME: directory,
      RABBITMQ_NODENAME: `bench${port}@localhost`,
      RABBITMQ_CONFIG_FILE: `${directory}/rabbit.conf`,
      RABBITMQ_MNESIA_BASE: `${directory}/mnesia`,
      RABBITMQ_LOG_BASE: `${directory}/log`,
      RABBITMQ_ENABLED_PLUGINS_FILE: `${directory}/plugins`,
      RABBITMQ_DIST_PORT: String(freePort()),
      ERL_EPMD_PORT: String(freePort()),
      RABBITMQ_PID_FILE: `${directory}/pid`,
    };
    let child: Deno.ChildProcess;
    const launch = async () => {
      child = new Deno.Command(SERVER, {
        env: environment,
        stdin: "null",
        stdout: "null",
        stderr: "null",
      }).spawn();
      await until("RabbitMQ to serve", () => serves(port), START_MS, 50);
    };
    // What was spawned is a script; the node is its child.
    const kill = async () => {
      Deno.kill(Number(await Deno.readTextFile(environment.RABBITMQ_PID_FILE)), "SIGKILL");
      await child.status;
      await until("RabbitMQ to be gone", async () => !await serves(port), START_MS);
    };
    await launch();
    return {
      amqp: port,
      mqtt: undefined,
      async restart() {
        await kill();
        const started = performance.now();
        await launch();
        return performance.now() - started;
      },
      async [Symbol.asyncDispose]() {
        await kill();
        // Its port mapper is a daemon.
        await new Deno.Command("epmd", {
          args: ["-port", environment.ERL_EPMD_PORT, "-kill"],
          stdout: "null",
          stderr: "null",
        }).output();
        await Deno.remove(directory, { recursive: true });
      },
    };
  },
};
