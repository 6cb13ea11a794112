/** Unmodified clients against a running broker. `clients.sh` puts them in place before. */
import assert from "node:assert/strict";
import { BrokerProcess, type Place } from "../support/broker_process.ts";
import { within } from "../support/wait.ts";
import { matches, readTour } from "./tour.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const STEP_MS = 120_000;
const CLIENT_MS = 120_000;

/** The quickstart with a port of its own instead of 1883, and its files in `place`. */
function quickstart(place: Place): string {
  const text = Deno.readTextFileSync(ROOT + "fixtures/quickstart.yaml")
    .replaceAll("/var/lib/saguin", place.directory + "/run");
  const door = `  mqtt:\n    listen:\n      tcp:\n        address: 127.0.0.1:${place.port}\n`;
  const changed = text.replace(/^broker:\n/m, "broker:\n" + door);
  assert.notEqual(changed, text, "fixtures/quickstart.yaml has no broker block");
  Deno.mkdirSync(place.directory + "/run", { recursive: true });
  return changed;
}

/** Runs a command to its end; Debian's Python comes first, since that is where its paho is. */
async function run(
  command: string,
  args: readonly string[],
  options: { cwd: string; port: number; timeoutMs: number },
): Promise<{ code: number; stdout: string; stderr: string }> {
  // The mosquitto clients read defaults from files of their name: this is how "no -p" means our port.
  const defaults = `-p ${options.port}\n`;
  for (const name of ["mosquitto_pub", "mosquitto_sub", "mosquitto_rr"]) {
    await Deno.writeTextFile(`${options.cwd}/${name}`, defaults);
  }
  const child = new Deno.Command(command, {
    args: [...args],
    cwd: options.cwd,
    env: {
      PATH: `/usr/bin:${Deno.env.get("PATH")}`,
      XDG_CONFIG_HOME: options.cwd,
      MQTT_PORT: String(options.port),
    },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  try {
    const output = await within(
      `the end of ${command} ${args.join(" ")}`,
      child.output(),
      options.timeoutMs,
    );
    const decoder = new TextDecoder();
    return {
      code: output.code,
      stdout: decoder.decode(output.stdout),
      stderr: decoder.decode(output.stderr),
    };
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

/** Types what a page says to type, and compares what is printed with what the page says. */
async function replay(page: string, section?: string): Promise<void> {
  await using broker = await BrokerProcess.start(quickstart);
  await Deno.symlink(ROOT + "tests", broker.directory + "/tests");
  const options = { cwd: broker.directory, port: broker.port, timeoutMs: STEP_MS };
  for (const stop of readTour(await Deno.readTextFile(ROOT + page), section)) {
    if (stop === "kill") {
      await broker.kill();
      await broker.startAgain();
      continue;
    }
    const { stdout, stderr } = await run("bash", ["-c", stop.command], options);
    const printed = stdout.split("\n").slice(0, -1);
    assert.ok(
      matches(printed, stop.expected),
      `${page}:${stop.line} $ ${stop.command}\nsays:\n${stop.expected.join("\n")}\n` +
        `printed:\n${stdout}${stderr}`,
    );
  }
}

Deno.test("the README's tour prints what the README says", () => replay("README.md", "Tour"));

Deno.test("the examples for authors of clients print what rfcs/clients.md says", () =>
  replay("rfcs/clients.md"));

/** A client script prints "ok <check>" a line; every one of these, in this order, and nothing else. */
async function checks(command: string, args: string[], names: readonly string[]): Promise<void> {
  await using broker = await BrokerProcess.start(quickstart);
  const options = { cwd: broker.directory, port: broker.port, timeoutMs: CLIENT_MS };
  const all = args.map((arg) => arg === "PORT" ? String(broker.port) : arg);
  const { code, stdout, stderr } = await run(command, all, options);
  assert.equal(stdout, names.map((name) => `ok ${name}\n`).join(""), stderr);
  assert.equal(code, 0, stderr);
}

Deno.test("paho (Debian's python3-paho-mqtt) works unmodified over MQTT 3.1.1 and 5", () => {
  return checks("python3", [ROOT + "tests/interop/paho_client.py", "PORT"], [
    "every_qos",
    "properties_verbatim",
    "retained",
    "will",
    "away_on_broadcast",
    "exactly_once",
    "shared_group",
    "seek",
    "append_replay",
    "latest_state",
    "latest_resume",
    "queue_jobs",
  ]);
});

Deno.test("MQTT.js (npm's mqtt) works unmodified over MQTT 3.1.1 and 5", () => {
  return checks("node", [
    ROOT + "tests/interop/mqttjs_client.mjs",
    ROOT + ".interop",
    "PORT",
  ], [
    "every_qos",
    "retained",
    "will",
    "away_on_broadcast",
    "exactly_once",
    "shared_group",
    "seek",
    "append_replay",
    "latest_state",
    "latest_resume",
    "queue_jobs",
  ]);
});
