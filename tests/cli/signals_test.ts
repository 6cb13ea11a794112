/** What the process does on each signal, with real files (02b section 17). */
import assert from "node:assert/strict";
import { AmqpClient } from "../amqp/support/client.ts";
import { cheapHash } from "../auth/cheap_hash.ts";
import { BrokerProcess, configurationText } from "../support/broker_process.ts";
import { Certified } from "../support/certificates.ts";
import { ask, basic } from "../support/http.ts";
import { published } from "../support/clients.ts";
import { freePort } from "../support/ports.ts";
import { sleep, until, within } from "../support/wait.ts";
import { tcpConnection, upgradeRequest } from "../mqtt/doors/clients.ts";
import { WireClient } from "../support/wire.ts";

const authority = Certified.authority("servers");
const newAuthority = Certified.authority("servers that come later");

/** Everything that a reload takes over, in its first or its second state. */
type Files = Readonly<
  Record<"saguin.yaml" | "users" | "operators" | "acl" | "c.pem" | "c.key", string>
>;

function acl(topic: string): string {
  return `roles: {r: [{topic: ${topic}, allow: [write]}]}\nusers: {"*": [r]}\n`;
}

/** A broker whose every reloaded part shows which state it is in. */
class Reloaded implements AsyncDisposable {
  private constructor(
    readonly broker: BrokerProcess,
    readonly first: Files,
    readonly second: Files,
    private readonly ws: number,
    private readonly tls: number,
    private readonly operations: number,
  ) {}

  static async start(): Promise<Reloaded> {
    const [ws, tls, operations] = [freePort(), freePort(), freePort()];
    let first!: Files;
    let second!: Files;
    const broker = await BrokerProcess.start((place) => {
      // Which files are read was settled at the start: what the second one names is not even there.
      const text = (level: "info" | "error", origin: string, elsewhere = "") =>
        configurationText(place, {
          provider: "memory",
          logLevel: level,
          listen: [
            "tcp:",
            `  - {name: plain, address: "127.0.0.1:${place.port}"}`,
            `  - {name: tls, address: "127.0.0.1:${tls}", tls: {cert_file: ${place.directory}/c.pem${elsewhere}, ` +
            `key_file: ${place.directory}/c.key}}`,
            `ws: {address: "127.0.0.1:${ws}", same_origin: false, allowed_origins: [${origin}]}`,
          ].join("\n"),
          broker: `operations:\n  password_file: ${place.directory}/operators${elsewhere}\n` +
            `  listen: {tcp: {address: "127.0.0.1:${operations}"}}`,
        }).replace(
          "  mqtt:\n",
          `  mqtt:\n    password_file: ${place.directory}/users${elsewhere}\n` +
            `    acl_file: ${place.directory}/acl${elsewhere}\n`,
        );
      const own = authority.issue({ commonName: "b", dns: ["localhost"] });
      const next = newAuthority.issue({ commonName: "b", dns: ["localhost"] });
      first = {
        "saguin.yaml": text("info", "https://first.example"),
        users: `u:${cheapHash("first")}\n`,
        operators: `o:${cheapHash("first")}\n`,
        acl: acl("first"),
        "c.pem": own.cert,
        "c.key": own.key,
      };
      second = {
        "saguin.yaml": text("error", "https://second.example", ".elsewhere"),
        users: `u:${cheapHash("second")}\n`,
        operators: `o:${cheapHash("second")}\n`,
        acl: acl("second"),
        "c.pem": next.cert,
        "c.key": next.key,
      };
      write(place.directory, first);
      return first["saguin.yaml"];
    });
    return new Reloaded(broker, first, second, ws, tls, operations);
  }

  write(files: Partial<Files>): void {
    write(this.broker.directory, files);
  }

  /** Each part by itself: `first`, `second`, or something that it never should be. */
  async state(): Promise<Record<string, string>> {
    const { broker } = this;
    const admitted: string[] = [];
    const published: string[] = [];
    const opened: string[] = [];
    const answered: string[] = [];
    const trusted: string[] = [];
    for (const state of ["first", "second"]) {
      using client = await WireClient.open(broker.port);
      await client.connect({ clientId: "c", userName: "u", password: state });
      if ((await client.expect("connack")).reasonCode !== 0) continue;
      admitted.push(state);
      for (const topic of ["first", "second"]) {
        await client.publish({ topic, payload: "x", qos: 1, packetId: 1 });
        if ((await client.expect("puback")).reasonCode === 0) published.push(topic);
      }
    }
    for (const state of ["first", "second"]) {
      const conn = await tcpConnection(this.ws);
      await conn.write(upgradeRequest({ Origin: `https://${state}.example` }));
      const buffer = new Uint8Array(512);
      const count = await conn.read(buffer);
      if (new TextDecoder().decode(buffer.subarray(0, count ?? 0)).startsWith("HTTP/1.1 101 ")) {
        opened.push(state);
      }
      conn.close();
      const where = { hostname: "127.0.0.1", port: this.operations };
      const { status } = await ask(where, "/v1/operations/users", basic("o", state));
      if (status === 200) answered.push(state);
    }
    for (const [state, { cert }] of [["first", authority], ["second", newAuthority]] as const) {
      const options = { hostname: "localhost", port: this.tls, caCerts: [cert] };
      const conn = await Deno.connectTls(options);
      try {
        await conn.handshake();
        trusted.push(state);
      } catch (error) {
        assert.match(String(error), /UnknownIssuer|invalid peer certificate/);
      } finally {
        conn.close();
      }
    }
    return {
      passwords: admitted.join(),
      permissions: published.join(),
      origins: opened.join(),
      operators: answered.join(),
      certificates: trusted.join(),
    };
  }

  /** Sends SIGHUP and waits for the line that ends the reload. */
  async reload(outcome: RegExp): Promise<void> {
    const count = () => this.broker.lines.filter((line) => outcome.test(line)).length;
    const before = count();
    this.broker.signal("SIGHUP");
    await until(`a line like ${outcome}`, () => count() > before);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.broker[Symbol.asyncDispose]();
  }
}

function write(directory: string, files: Partial<Files>): void {
  for (const [name, text] of Object.entries(files)) {
    Deno.writeTextFileSync(`${directory}/${name}`, text);
  }
}

function all(state: string): Record<string, string> {
  const parts = ["passwords", "permissions", "origins", "operators", "certificates"];
  return Object.fromEntries(parts.map((part) => [part, state]));
}

Deno.test("02b 17 SIGHUP takes everything over, and with any one file bad nothing of it", async () => {
  await using reloaded = await Reloaded.start();
  const { broker, first, second } = reloaded;
  assert.deepEqual(await reloaded.state(), all("first"));
  const bad: [keyof Files, string][] = [
    ["saguin.yaml", second["saguin.yaml"].replace("log_level", "loglevel")],
    ["users", "u:plain\n"],
    ["users", "# nobody\n"],
    ["operators", "o\n"],
    ["acl", acl("a/#/b")],
    ["c.pem", "no certificate\n"],
    ["c.key", first["c.key"]],
  ];
  for (const [name, text] of bad) {
    reloaded.write({ ...second, [name]: text });
    await reloaded.reload(/level=ERROR .*nothing was reloaded/);
    assert.deepEqual(await reloaded.state(), all("first"), name);
  }
  const named = broker.lines.filter((line) => line.includes("level=ERROR")).join("\n");
  for (const name of ["loglevel", "/users", "/operators", "/acl", "broker.mqtt.listen.tcp[tls]"]) {
    assert.ok(named.includes(name), `${name} is named in ${named}`);
  }
  const limited = first["saguin.yaml"].replace(
    "  mqtt:\n",
    "  limits: {max_keepalive: 9m}\n  mqtt:\n",
  );
  reloaded.write({ ...first, "saguin.yaml": limited });
  await reloaded.reload(/msg="log level" from=info to=info/);
  const waits = /level=WARN .* waits for a restart" keys=1 first=limits\.max_keepalive$/;
  await broker.line(waits);
  using connected = await WireClient.connected(broker.port, {
    clientId: "stays",
    userName: "u",
    password: "first",
  });
  reloaded.write(second);
  assert.deepEqual(await reloaded.state(), all("first"), "files are read at a signal alone");
  await reloaded.reload(/msg="log level" from=info to=error/);
  assert.equal(broker.lines.filter((line) => waits.test(line)).length, 1);
  for (
    const said of [
      /msg="reloaded; addresses, channels, routes, limits and storage change with a restart only"/,
      /msg="password file" file=\S+\/users users=1$/,
      /msg="password file of operators" file=\S+\/operators users=1$/,
      /msg="acl file" file=\S+\/acl users=1 roles=1$/,
      /msg="certificate" listener=tls expires=\d{4}-/,
      /msg="pages that may connect" listener=ws same_origin=false allowed_origins=1$/,
    ]
  ) await broker.line(said);
  assert.deepEqual(await reloaded.state(), all("second"));
  // A password is asked for at CONNECT: who is in stays, with what the user may do from now on.
  await published(connected, "second", "x");
  const before = broker.lines.length;
  (await WireClient.connected(broker.port, { clientId: "c", userName: "u", password: "second" }))
    .close();
  await sleep(200);
  assert.deepEqual(broker.lines.slice(before), [], "the level is error now");
});

Deno.test("02b 17 a first SIGTERM or SIGINT stops in order, a second one of either at once", async () => {
  for (const [signal, again] of [["SIGTERM", "SIGINT"], ["SIGINT", "SIGINT"]] as const) {
    const amqp = freePort();
    await using broker = await BrokerProcess.start((place) =>
      configurationText(place, {
        broker: `amqp: {listen: {tcp: {address: "127.0.0.1:${amqp}"}}}`,
      })
    );
    // Does not answer that it is closed, which the broker waits five seconds for.
    const silent = await AmqpClient.connected(amqp);
    broker.signal(signal);
    await broker.line(/the broker is stopping/);
    assert.ok(broker.running);
    broker.signal(again);
    // A stop that ended in order, five seconds later, would end with 0.
    assert.deepEqual(await within("the end", broker.ended), { code: 1, signal: null });
    await broker.line(/level=ERROR .*a second signal: the broker ends at once/);
    silent[Symbol.dispose]();
    await broker.startAgain();
    assert.equal((await broker.stop()).code, 0, "and what it left starts again");
  }
});

Deno.test("02b 17 SIGUSR1 changes nothing but says what does", async () => {
  await using reloaded = await Reloaded.start();
  reloaded.write(reloaded.second);
  reloaded.broker.signal("SIGUSR1");
  await reloaded.broker.line(/level=WARN .*SIGUSR1 does nothing; SIGHUP is the reload signal/);
  assert.deepEqual(await reloaded.state(), all("first"));
});

/** Resolves as soon as the port is open, which is long before the broker runs. */
async function opened(port: number): Promise<void> {
  await until("the port", async () => {
    try {
      (await Deno.connect({ hostname: "127.0.0.1", port })).close();
      return true;
    } catch (error) {
      if (error instanceof Deno.errors.ConnectionRefused) return false;
      throw error;
    }
  });
}

Deno.test("02b 17 signals that come while the broker starts are obeyed once it runs, and kill nothing", async () => {
  await using broker = await BrokerProcess.start((place) => configurationText(place));
  assert.equal((await broker.stop()).code, 0);
  const before = broker.lines.length;
  broker.launch();
  await opened(broker.port);
  broker.signal("SIGHUP");
  await broker.line(/level=INFO .*msg="reloaded; /);
  broker.signal("SIGTERM");
  assert.deepEqual(await broker.ended, { code: 0, signal: null });

  broker.launch();
  await opened(broker.port);
  broker.signal("SIGTERM");
  assert.deepEqual(await broker.ended, { code: 0, signal: null });
  const stops = broker.lines.slice(before).filter((line) =>
    line.includes("the broker has stopped")
  );
  assert.equal(stops.length, 2);
});
