/** The starting configurations as somebody uses them who types what their first lines say. */
import assert from "node:assert/strict";
import { BrokerProcess, executable, runToEnd, temporaryPlace } from "../support/broker_process.ts";
import { freePort } from "../support/ports.ts";
import { within } from "../support/wait.ts";

const FIXTURES = new URL("../../fixtures/", import.meta.url).pathname;
const STEP_MS = 120_000;
const PASSWORD = "correct horse";

/** One starting configuration in a directory of its own, with every port free. */
class Started implements AsyncDisposable {
  private constructor(
    readonly directory: string,
    readonly file: string,
    /** By the port in the fixture. */
    readonly ports: ReadonlyMap<number, number>,
    readonly broker: BrokerProcess,
  ) {}

  /** @param door the port, as the fixture has it, of the door that shows that the broker serves */
  static async begin(name: string, door: number): Promise<Started> {
    const place = temporaryPlace();
    const { directory } = place;
    const moved = (text: string) =>
      text.replaceAll("/etc/saguin", `${directory}/etc`)
        .replaceAll("/var/lib/saguin", `${directory}/lib`)
        .replaceAll("/run/saguin", `${directory}/run`);
    for (const { name } of Deno.readDirSync(FIXTURES)) {
      if (name.endsWith(".acl.yaml")) Deno.copyFileSync(FIXTURES + name, `${directory}/${name}`);
    }
    const ports = new Map<number, number>();
    const text = moved(Deno.readTextFileSync(FIXTURES + name)).replaceAll(
      /^( +(?:- )?address: "?[^"\s]*:)(\d+)/gm,
      (_, before: string, port: string) => {
        const free = freePort();
        ports.set(Number(port), free);
        return `${before}${free}`;
      },
    );
    const file = `${directory}/${name}`;
    Deno.writeTextFileSync(file, text);
    await typeFirst(text, directory);
    const checked = await runToEnd(["--check-config", file]);
    assert.equal(checked.stderr, "");
    assert.equal(checked.code, 0);
    assert.ok(checked.stdout.startsWith(`${file}: ok\n`));
    const broker = await BrokerProcess.start(
      () => text,
      { ...place, port: ports.get(door)! },
      undefined,
      accepts,
    );
    return new Started(directory, file, ports, broker);
  }

  /** mosquitto_pub at QoS 1 by way of a door; the exit code is 0 only when the broker took it. */
  async publish(door: number, topic: string, ...login: readonly string[]): Promise<number> {
    const args = ["-V", "5", "-h", "localhost", "-p", String(this.ports.get(door)), "-q", "1"];
    const child = new Deno.Command("mosquitto_pub", {
      args: [...args, "-t", topic, "-m", "1", ...login],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const { code, stderr } = await within("the end of mosquitto_pub", child.output(), STEP_MS);
    // It ends with 0 whatever the PUBACK says, and prints a refusal.
    const said = new TextDecoder().decode(stderr);
    return code !== 0 ? code : said === "" ? 0 : 1;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const ended = await this.broker.stop();
    await this.broker[Symbol.asyncDispose]();
    assert.deepEqual(ended, { code: 0, signal: null });
    assert.deepEqual(this.broker.lines.filter((line) => line.includes("level=ERROR")), []);
  }
}

/** Runs the commands that the head of the file says to type first, each password answered. */
async function typeFirst(text: string, directory: string): Promise<void> {
  const commands = [...text.matchAll(/^# {3}(\S.*)$/gm)].map(([, command]) => command);
  assert.ok(commands.length > 0, "there is nothing to type first");
  const child = new Deno.Command("sh", {
    args: [
      "-eu",
      "-c",
      [
        `saguin() { printf '%s\\n%s\\n' "$PASSWORD" "$PASSWORD" | "$SAGUIN" "$@"; }`,
        ...commands,
      ].join("\n"),
    ],
    cwd: directory,
    env: { SAGUIN: executable(), PASSWORD },
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const { code, stderr } = await within("what is to be typed first", child.output(), STEP_MS);
  assert.equal(code, 0, new TextDecoder().decode(stderr));
}

/** Whether the port is open: what comes before the broker serves waits for it. */
async function accepts(port: number): Promise<boolean> {
  try {
    (await Deno.connect({ hostname: "127.0.0.1", port })).close();
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.ConnectionRefused) return false;
    throw error;
  }
}

const as = (user: string) => ["-u", user, "-P", PASSWORD];

Deno.test("home-hub.yaml runs as its first lines say", async () => {
  await using hub = await Started.begin("home-hub.yaml", 1883);
  assert.equal(await hub.publish(1883, "home/hall/sensor/t", ...as("devices")), 0);
  assert.equal(await hub.publish(1883, "zigbee2mqtt/lamp", "-r", ...as("devices")), 0);
  assert.notEqual(await hub.publish(1883, "home/hall/sensor/t"), 0);
  const page = await fetch(`http://127.0.0.1:${hub.ports.get(9090)}/health`);
  assert.equal(page.status, 200);
  await page.body?.cancel();
});

Deno.test("plant-gateway.yaml runs as its first lines say", async () => {
  await using gateway = await Started.begin("plant-gateway.yaml", 8884);
  const trust = ["--insecure", "--cafile", `${gateway.directory}/etc/plant-ca.pem`];
  const own = ["--cert", `${gateway.directory}/etc/press-1.pem`];
  const key = ["--key", `${gateway.directory}/etc/press-1.key`];
  const reading = "plant/north/press-7/reading/force";
  assert.equal(await gateway.publish(8884, reading, ...trust, ...as("warehouse")), 0);
  assert.notEqual(await gateway.publish(8884, reading, ...trust), 0);
  assert.equal(await gateway.publish(8883, "plant/a/b/alarm/fire", ...trust, ...own, ...key), 0);
  assert.notEqual(await gateway.publish(8883, reading, ...trust, ...as("warehouse")), 0);
});

Deno.test("fleet-broker.yaml runs as its first lines say", async () => {
  await using fleet = await Started.begin("fleet-broker.yaml", 8883);
  const trust = ["--cafile", `${fleet.directory}/etc/fleet.pem`];
  const vehicle = ["-i", "vehicle-1", ...trust, ...as("vehicle-1")];
  assert.equal(await fleet.publish(8883, "fleet/vehicle-1/position", ...vehicle), 0);
  assert.notEqual(await fleet.publish(8883, "fleet/vehicle-2/position", ...vehicle), 0);
  const other = ["-i", "vehicle-2", ...trust, ...as("vehicle-1")];
  assert.notEqual(await fleet.publish(8883, "fleet/vehicle-1/position", ...other), 0);
  const explained = await runToEnd(["--acl", fleet.file, "vehicle-1", "vehicle-1"]);
  assert.match(explained.stdout, /fleet\/vehicle-1\/position/);
});

Deno.test("annotated.yaml runs as its first lines say", async () => {
  await using all = await Started.begin("annotated.yaml", 8883);
  const trust = ["--insecure", "--cafile", `${all.directory}/etc/clients-ca.pem`];
  const own = ["--cert", `${all.directory}/etc/press-7.pem`];
  const key = ["--key", `${all.directory}/etc/press-7.key`];
  const press = ["-i", "press-7", ...trust, ...own, ...key];
  assert.equal(await all.publish(8883, "plant/press-7/state", ...press), 0);
  assert.notEqual(await all.publish(8883, "plant/press-8/state", ...press), 0);
});
