/**
 * Nothing that was given to the broker as a secret comes out of it again: not in a log line, an error, a
 * report, a document or an answer, and least of all where a secret stands in the wrong place.
 */
import assert from "node:assert/strict";
import { main } from "../../src/cli/main.ts";
import { REAL_SURROUNDINGS } from "../../src/config/walk.ts";
import { cheapHash } from "../auth/cheap_hash.ts";
import { HEADER, startOk } from "../amqp/support/amqp_bytes.ts";
import {
  BrokerProcess,
  configurationText,
  executable,
  type Place,
  runToEnd,
  temporaryPlace,
} from "../support/broker_process.ts";
import { Certified } from "../support/certificates.ts";
import { ask, basic } from "../support/http.ts";
import { encodeConnect, join } from "../support/mqtt_bytes.ts";
import { freePort } from "../support/ports.ts";
import { within } from "../support/wait.ts";
import { tcpConnection, tlsClient, upgradeRequest } from "../mqtt/doors/clients.ts";

/** Words that stand nowhere else. Each is also looked for in base64, as Basic and hashes carry them. */
const RIGHT = "right-Xa7qLw0e";
const WRONG = "wrong-Pd3kZt9u";
const OPERATOR = "operator-Jm5vRc2y";
const GUESSED = "guessed-Hn8bWs4i";
const TOKEN = "token-Fg6jYx1o";
/** Where a hash belongs. */
const PLAINTEXT = "plaintext-Vk2dQz7a";

const authority = Certified.authority("servers");
const own = authority.issue({ commonName: "broker", dns: ["localhost"] });

const HASH = cheapHash(RIGHT);
const OPERATOR_HASH = cheapHash(OPERATOR);

/** Everything that must not be seen: the words, every digest and salt, every line of the private key. */
function secrets(): readonly string[] {
  const words = [RIGHT, WRONG, OPERATOR, GUESSED, TOKEN, PLAINTEXT];
  const digests = [HASH, OPERATOR_HASH].flatMap((hash) => hash.split("$").slice(-2));
  const key = own.key.split("\n").filter((line) => line.length > 20 && !line.startsWith("-----"));
  assert.ok(key.length > 1);
  return [
    ...words,
    ...words.map((word) => btoa(word).replace(/=+$/, "").slice(0, -1)),
    ...digests,
    ...key,
  ];
}

function assertNone(said: string, by: string): void {
  for (const secret of secrets()) {
    const at = said.indexOf(secret);
    assert.equal(at, -1, `${by} shows ${secret}: ${said.slice(Math.max(0, at - 80), at + 80)}`);
  }
}

function write(place: Place, name: string, text: string): string {
  Deno.writeTextFileSync(`${place.directory}/${name}`, text);
  return `${place.directory}/${name}`;
}

const ACL = "roles:\n  all:\n    - topic: '#'\n      allow: [write, read]\n    - broker: amqp\n" +
  "      allow: [connect]\nusers:\n  '*': [all]\n";

/** A broker with a secret behind every door. */
function guarded(place: Place, ports: readonly number[]): string {
  const [tls, ws, amqp, operations] = ports;
  write(place, "users", `alice:${HASH}\n`);
  write(place, "operators", `ops:${OPERATOR_HASH}\n`);
  const keys = `cert_file: ${write(place, "c.pem", own.cert)}, key_file: ${
    write(place, "c.key", own.key)
  }`;
  const text = configurationText(place, {
    logLevel: "debug",
    channels: "log:\n  type: append\njobs:\n  type: queue",
    listen: [
      "tcp:",
      `  - {name: plain, address: "127.0.0.1:${place.port}"}`,
      `  - {name: tls, address: "127.0.0.1:${tls}", tls: {${keys}}}`,
      `ws: {address: "127.0.0.1:${ws}", allowed_origins: ["https://a.example"]}`,
    ].join("\n"),
    broker: [
      "operations:",
      `  password_file: ${place.directory}/operators`,
      `  listen: {tcp: {address: "127.0.0.1:${operations}"}}`,
      "amqp:",
      `  listen: {tcp: {address: "127.0.0.1:${amqp}", tls: {${keys}}}}`,
    ].join("\n"),
  });
  const files = `    password_file: ${place.directory}/users\n    acl_file: ${
    write(place, "acl", ACL)
  }\n`;
  return text.replace("  mqtt:\n", `  mqtt:\n${files}`);
}

/** Sends bytes and reads until the broker closes, or has been silent for a while; what it said. */
async function exchange(conn: Deno.Conn, ...parts: readonly Uint8Array[]): Promise<string> {
  let said = "";
  const reading = (async () => {
    const buffer = new Uint8Array(16_384);
    for (;;) {
      const count = await conn.read(buffer).catch(() => null);
      if (count === null) return;
      said += new TextDecoder("latin1").decode(buffer.subarray(0, count));
    }
  })();
  for (const part of parts) {
    await conn.write(part).catch(() => {});
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  await Promise.race([reading, new Promise((resolve) => setTimeout(resolve, 300))]);
  conn.close();
  await reading;
  return said;
}

/** Logins that should and should not be admitted, and CONNECTs that spoil what carries the password. */
async function logins(port: number): Promise<string> {
  let said = "";
  const connect = (password: string, userName = "alice") =>
    encodeConnect({ level: 5, clientId: "c", userName, password });
  const spoiled = join(connect(WRONG));
  spoiled[1] += 3;
  const requests = [
    connect(RIGHT),
    connect(WRONG),
    connect(WRONG, "nobody"),
    connect(WRONG, "a\u0001b"),
    join(spoiled, Uint8Array.of(1, 2, 3)),
    // 3.1.1: a password without a user name.
    encodeConnect({ level: 4, clientId: "c", password: WRONG }),
    // Where a client id belongs, which is too long for one.
    join(connect(RIGHT), connect(WRONG)),
  ];
  for (const request of requests) said += await exchange(await tcpConnection(port), request);
  return said;
}

const PATHS = ["/", "/health", "/metrics"].concat(
  ["acl?user=alice", "config", "consumers", "overview", "position-lost", "queues/jobs", "refused"]
    .concat(["sessions", "users", "nothing"]).map((name) => `/v1/operations/${name}`),
);

Deno.test("02b 2, 05 14 no secret that a running broker was given is in its log or its answers", async () => {
  const ports = [freePort(), freePort(), freePort(), freePort()];
  const [tls, ws, amqp, operations] = ports;
  await using broker = await BrokerProcess.start((place) => guarded(place, ports));
  let said = await logins(broker.port);

  const secured = await tlsClient(tls, { trust: authority });
  await secured.connect({ clientId: "t", userName: "alice", password: RIGHT });
  await secured.expectConnack();
  said += await exchange(
    await tcpConnection(tls),
    encodeConnect({ clientId: "x", password: WRONG }),
  );

  // What browsers and proxies carry.
  const carried = { Cookie: `session=${TOKEN}`, Authorization: `Bearer ${TOKEN}` };
  const requests: Record<string, string>[] = [
    carried,
    { ...carried, Origin: "https://b.example" },
    { Upgrade: TOKEN },
  ];
  for (const fields of requests) {
    said += await exchange(await tcpConnection(ws), upgradeRequest(fields));
  }
  said += await exchange(
    await tcpConnection(ws),
    new TextEncoder().encode(`GET /mqtt?token=${TOKEN} HTTP/1.1\r\nHost: x\r\n\r\n`),
  );

  for (
    const response of [`\0alice\0${RIGHT}`, `\0alice\0${WRONG}`, `${WRONG}`, `${WRONG}\0a\0b\0c`]
  ) {
    const conn = await Deno.connectTls({
      hostname: "localhost",
      port: amqp,
      caCerts: [authority.cert],
    });
    said += await exchange(conn, HEADER, startOk({ response }));
  }

  const where = { hostname: "127.0.0.1", port: operations };
  for (const path of PATHS) {
    for (const fields of [basic("ops", OPERATOR), basic("ops", GUESSED), {}]) {
      const answer = await ask(where, path, fields);
      said += `${JSON.stringify([...answer.headers])}\n${answer.body}\n`;
    }
  }
  const { body } = await ask(where, "/v1/operations/config", basic("ops", OPERATOR));
  assert.match(body, /password_file/, "what is looked through is what was asked for");
  said += (await ask(where, "/", { Authorization: `Basic ${TOKEN}` })).body;
  said += (await ask(where, `/v1/operations/acl?user=${GUESSED.slice(0, 3)}`, {})).body;

  await reload(broker);
  secured.close();
  assert.equal((await broker.stop()).code, 0);
  const log = broker.lines.join("\n");
  assert.match(log, /a client connected/);
  assert.match(log, /nothing was reloaded/);
  assertNone(log, "the log");
  assertNone(said, "an answer");
});

/** A reload of everything, then one for each file that somebody spoiled with a secret in it. */
async function reload(broker: BrokerProcess): Promise<void> {
  const again = async (line: RegExp) => {
    const before = broker.lines.filter((each) => line.test(each)).length;
    broker.signal("SIGHUP");
    await within(
      `a line like ${line}`,
      (async () => {
        while (broker.lines.filter((each) => line.test(each)).length === before) {
          await new Promise((resolve) => setTimeout(resolve, 20));
        }
      })(),
      10_000,
    );
  };
  await again(/msg="?reloaded/);
  const spoil = async (name: string, text: string) => {
    const path = `${broker.directory}/${name}`;
    const good = Deno.readTextFileSync(path);
    Deno.writeTextFileSync(path, text);
    await again(/nothing was reloaded/);
    Deno.writeTextFileSync(path, good);
  };
  await spoil("users", `alice:${PLAINTEXT}\n`);
  await spoil("users", `alice ${PLAINTEXT}\n`);
  await spoil("operators", `ops:${OPERATOR_HASH}:${PLAINTEXT}\n`);
  await spoil("c.key", own.cert);
  await spoil("c.key", own.key.replace("-----BEGIN", "---BEGIN"));
  await spoil("c.pem", own.key);
  await spoil("acl", `alice:${HASH}\n`);
  await spoil("acl", own.key);
}

async function* lines(): AsyncIterable<string> {
  yield "alice";
  yield "#";
}

Deno.test("02b 16 no secret comes out of a check, an explanation or a start that is refused", async () => {
  const place = temporaryPlace();
  const ports = [freePort(), freePort(), freePort(), freePort()];
  const good = guarded(place, ports);
  const file = write(place, "saguin.yaml", good);
  let said = "";
  const run = async (...args: readonly string[]) => {
    const take = (text: string) => said += text;
    return await main(args, {
      start: () => assert.fail("a broker was started"),
      stdout: take,
      stderr: take,
      input: { lines: lines, secrets: () => assert.fail("a password was asked for") },
      surroundings: REAL_SURROUNDINGS,
    });
  };
  assert.equal(await run("--check-config", file), 0);
  assert.equal(await run("--check-config", file, "--output"), 0);
  for (const json of [[], ["--json"]]) {
    assert.equal(await run("--acl", file, "alice", ...json), 0);
    assert.equal(await run("--acl", file, "alice", "client", ...json), 0);
    assert.equal(await run("--acl", file, ...json), 0);
    assert.equal(await run("--route", file, "#", ...json), 0);
  }

  // Each file in the place of another, and with a secret where none belongs.
  const key = `${place.directory}/c.key`;
  const users = `${place.directory}/users`;
  const cert = `${place.directory}/c.pem`;
  const mistaken = [
    good.replaceAll(users, key),
    good.replaceAll(`${place.directory}/operators`, key),
    good.replaceAll(`${place.directory}/acl`, key),
    good.replaceAll(`${place.directory}/acl`, users),
    good.replaceAll(`cert_file: ${cert}`, `cert_file: ${key}`),
    good.replaceAll(`key_file: ${key}`, `key_file: ${users}`),
    good.replaceAll(users, write(place, "plaintext", `alice:${PLAINTEXT}\nbob ${PLAINTEXT}\n`)),
    good.replace("channels:\n", `channels:\n  - !include ${key}\n  - !include ${users}\n`),
  ];
  for (const text of mistaken) {
    const wrong = write(place, "wrong.yaml", text);
    assert.equal(await run("--check-config", wrong), 1);
    assert.equal(await run("--check-config", wrong, "--output"), 1);
    assert.equal(await run("--config", wrong), 1);
    await run("--acl", wrong, "alice");
  }
  const started = await runToEnd(["--config", `${place.directory}/wrong.yaml`]);
  assert.equal(started.code, 1);
  said += started.stdout + started.stderr;
  for (const wrong of [key, users]) {
    assert.equal(await run("--check-config", wrong), 1);
    assert.equal(await run("--config", wrong), 1);
  }
  assertNone(said, "a command");
  Deno.removeSync(place.directory, { recursive: true });
});

Deno.test("02b 16 --passwd shows no password and no hash, whatever goes wrong", async () => {
  const place = temporaryPlace();
  const path = `${place.directory}/users`;
  let said = "";
  const run = async (args: readonly string[], typed = "") => {
    const child = new Deno.Command(executable(), {
      args: ["--passwd", ...args],
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    const writer = child.stdin.getWriter();
    await writer.write(new TextEncoder().encode(typed)).catch(() => {});
    await writer.close().catch(() => {});
    const { code, stdout, stderr } = await child.output();
    said += `${code} ${new TextDecoder().decode(stdout)}${new TextDecoder().decode(stderr)}\n`;
    return code;
  };
  assert.equal(await run(["add", path, "alice", RIGHT]), 0);
  assert.equal(await run(["add", path, "bob"], `${RIGHT}\n${RIGHT}\n`), 0);
  assert.equal(await run(["add", path, "bob"], `${RIGHT}\n${WRONG}\n`), 1);
  assert.equal(await run(["add", path, "alice", RIGHT, WRONG]), 1);
  assert.equal(await run(["add", path, "alice", `--${WRONG}`]), 0);
  assert.equal(await run(["insert", path, "alice", RIGHT]), 1);
  assert.equal(await run(["delete", path, "alice", RIGHT]), 1);
  assert.equal(await run(["add", `${place.directory}/missing/users`, "alice", RIGHT]), 1);
  assert.equal(await run(["list", path]), 0);
  Deno.writeTextFileSync(path, `alice:${PLAINTEXT}\nbob ${PLAINTEXT}\ncarol:${HASH}:x:y\n`);
  await run(["list", path]);
  await run(["add", path, "dave", RIGHT]);
  await run(["scope", path, "carol", "/metrics"]);
  assertNone(said, "--passwd");
  Deno.removeSync(place.directory, { recursive: true });
});
