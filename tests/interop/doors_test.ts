/** Every kind of door under unmodified clients: MQTT.js on Node, mosquitto's, and openssl. */
import assert from "node:assert/strict";
import { BrokerProcess, configurationText, type Place } from "../support/broker_process.ts";
import { Certified } from "../support/certificates.ts";
import { freePort } from "../support/ports.ts";
import { within } from "../support/wait.ts";

const ROOT = new URL("../../", import.meta.url).pathname;
const CLIENT_MS = 120_000;

const servers = Certified.authority("servers", "rsa");
const devices = Certified.authority("devices");
const others = Certified.authority("others");

function write(place: Place, name: string, text: string): string {
  const path = `${place.directory}/${name}`;
  Deno.writeTextFileSync(path, text);
  return path;
}

/** The `tls` block of a door, in one line. */
function tls(place: Place, algorithm: "rsa" | "ecdsa", clients?: Certified): string {
  const own = servers.issue({ commonName: "broker", dns: ["localhost"], algorithm });
  const keys = [
    `cert_file: ${write(place, `${algorithm}.crt`, own.cert)}`,
    `key_file: ${write(place, `${algorithm}.key`, own.key)}`,
  ];
  if (clients !== undefined) {
    const name = clients === devices ? "devices" : "others";
    keys.push(`client_ca_file: ${write(place, `${name}.crt`, clients.cert)}`);
  }
  return `tls: {${keys.join(", ")}}`;
}

async function run(command: string, args: readonly string[]) {
  const child = new Deno.Command(command, {
    args: [...args],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  try {
    const { code, stdout, stderr } = await within(
      `the end of ${command}`,
      child.output(),
      CLIENT_MS,
    );
    const text = new TextDecoder();
    return { code, stdout: text.decode(stdout), stderr: text.decode(stderr) };
  } catch (error) {
    child.kill("SIGKILL");
    throw error;
  }
}

Deno.test("MQTT.js over tcp, tls, mutual tls, ws, wss and a Unix socket", async () => {
  const [secure, mutual, ws, wss] = [freePort(), freePort(), freePort(), freePort()];
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      provider: "memory",
      listen: [
        "tcp:",
        `  - {name: plain, address: "127.0.0.1:${place.port}"}`,
        `  - {name: secure, address: "127.0.0.1:${secure}", ${tls(place, "rsa")}}`,
        `  - {name: mutual, address: "127.0.0.1:${mutual}", ${tls(place, "ecdsa", devices)}}`,
        "ws:",
        `  - {name: ws, address: "127.0.0.1:${ws}"}`,
        `  - {name: wss, address: "127.0.0.1:${wss}", ${tls(place, "rsa", devices)}}`,
        "unix:",
        `  path: ${place.directory}/socket`,
      ].join("\n"),
    })
  );
  const device = devices.issue({ commonName: "device-1" });
  const files = write(
    broker.place,
    "clients.json",
    JSON.stringify({
      trust: write(broker.place, "trust.crt", servers.cert),
      cert: write(broker.place, "device.crt", device.cert),
      key: write(broker.place, "device.key", device.key),
      doors: [
        { name: "plain", url: `mqtt://localhost:${broker.port}` },
        { name: "secure", url: `mqtts://localhost:${secure}` },
        { name: "mutual", url: `mqtts://localhost:${mutual}` },
        { name: "ws", url: `ws://localhost:${ws}/mqtt` },
        { name: "wss", url: `wss://localhost:${wss}/` },
        { name: "unix", path: `${broker.directory}/socket` },
      ],
    }),
  );
  const { code, stdout, stderr } = await run("node", [
    `${ROOT}tests/interop/mqttjs_doors.mjs`,
    `${ROOT}.interop`,
    files,
  ]);
  const names = ["plain", "secure", "mutual", "ws", "wss", "unix"];
  assert.equal(stdout, names.map((name) => `ok ${name}\n`).join(""), stderr);
  assert.equal(code, 0, stderr);
  for (const name of names) {
    await broker.line(new RegExp(`client=mqttjs-${name} listener=${name} `));
  }
});

Deno.test("mosquitto_pub and mosquitto_sub over mutual TLS, and without a certificate not at all", async () => {
  const mutual = freePort();
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      channels: "log:\n  type: append",
      listen: [
        "tcp:",
        `  - {name: plain, address: "127.0.0.1:${place.port}"}`,
        `  - {name: mutual, address: "127.0.0.1:${mutual}", ${tls(place, "ecdsa", devices)}}`,
      ].join("\n"),
    })
  );
  const device = devices.issue({ commonName: "device-1" });
  const trust = ["--cafile", write(broker.place, "trust.crt", servers.cert)];
  const own = [
    ...["--cert", write(broker.place, "device.crt", device.cert)],
    ...["--key", write(broker.place, "device.key", device.key)],
  ];
  const to = ["-h", "localhost", "-p", String(mutual)];
  const publish = ["-q", "1", "-t", "log/a", "-m", "hello"];
  const published = await run("mosquitto_pub", [...to, ...trust, ...own, ...publish]);
  assert.equal(published.code, 0, published.stderr);
  const read = ["-t", "log/#", "-C", "1", "-W", "20"];
  const received = await run("mosquitto_sub", [...to, ...trust, ...own, ...read]);
  assert.equal(received.stdout, "hello\n", received.stderr);
  const without = await run("mosquitto_pub", [...to, ...trust, ...publish]);
  assert.notEqual(without.code, 0);
});

/** Handshakes as openssl does them, with the session kept between them. */
class Handshakes {
  readonly #files: string[];

  constructor(private readonly place: Place, private readonly name: string, own: Certified) {
    this.#files = [
      ...["-CAfile", write(place, "trust.crt", servers.cert)],
      ...["-cert", write(place, `${name}.crt`, own.cert)],
      ...["-key", write(place, `${name}.key`, own.key)],
    ];
  }

  /** How the handshake went, and whether a CONNECT was answered: 0x20 is the CONNACK's first byte. */
  async connect(port: number, version: string, session: "keep" | "resume" | "none") {
    const kept = `${this.place.directory}/${this.name}.session`;
    const options = { keep: ["-sess_out", kept], resume: ["-sess_in", kept], none: [] }[session];
    const connect = "\x10\x0d\x00\x04MQTT\x04\x02\x00\x00\x00\x01s";
    const args = ["s_client", "-connect", `localhost:${port}`, `-${version}`];
    const child = new Deno.Command("openssl", {
      args: [...args, ...this.#files, ...options],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(connect));
    let text = "";
    const decoder = new TextDecoder("latin1");
    const reader = child.stdout.getReader();
    // Until the CONNACK (3.1.1: 20 02 00 00) is there, or the broker has closed.
    const reading = (async () => {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) return;
        text += decoder.decode(value);
        if (text.includes("\x20\x02\x00\x00")) break;
      }
    })();
    await within("the answer to openssl", reading, CLIENT_MS);
    const admitted = text.includes("\x20\x02\x00\x00");
    // Its session is written at the end of its input.
    await writer.close().catch(() => {});
    while (!(await reader.read()).done);
    await child.stderr.cancel();
    await child.status;
    return { admitted, reused: /^Reused, /m.test(text) };
  }
}

for (const version of ["tls1_2", "tls1_3"]) {
  Deno.test(`a resumed session (${version}) counts only at the door that verified its certificate`, async () => {
    const [first, second, open] = [freePort(), freePort(), freePort()];
    await using broker = await BrokerProcess.start((place) =>
      configurationText(place, {
        provider: "memory",
        listen: [
          "tcp:",
          `  - {name: plain, address: "127.0.0.1:${place.port}"}`,
          `  - {name: first, address: "127.0.0.1:${first}", ${tls(place, "ecdsa", devices)}}`,
          `  - {name: second, address: "127.0.0.1:${second}", ${tls(place, "ecdsa", others)}}`,
          `  - {name: open, address: "127.0.0.1:${open}", ${tls(place, "ecdsa")}}`,
        ].join("\n"),
      })
    );
    const device = new Handshakes(
      broker.place,
      "device",
      devices.issue({ commonName: "device-1" }),
    );
    assert.deepEqual(await device.connect(first, version, "keep"), {
      admitted: true,
      reused: false,
    });
    assert.deepEqual(await device.connect(first, version, "resume"), {
      admitted: true,
      reused: true,
    });
    // The door of other authorities has never verified this certificate, and would not.
    assert.equal((await device.connect(second, version, "resume")).admitted, false);
    await broker.line(/listener=second .*has not verified/);
    // Nor does a session without a certificate stand for one.
    const nobody = new Handshakes(broker.place, "nobody", others.issue({ commonName: "x" }));
    assert.equal((await nobody.connect(open, version, "keep")).admitted, true);
    assert.equal((await nobody.connect(first, version, "resume")).admitted, false);

    // Authorities that are no longer in force vouch for no session either.
    assert.equal((await device.connect(first, version, "keep")).admitted, true);
    write(broker.place, "devices.crt", others.cert);
    broker.signal("SIGHUP");
    await broker.line(/msg="certificate" listener=first /);
    assert.equal((await device.connect(first, version, "resume")).admitted, false);
    await broker.line(/listener=first .*has not verified/);
  });
}
