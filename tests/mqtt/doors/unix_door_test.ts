import assert from "node:assert/strict";
import {
  BrokerProcess,
  configurationText,
  type Place,
  runToEnd,
  temporaryPlace,
} from "../../support/broker_process.ts";
import { encodeConnect, join } from "../../support/mqtt_bytes.ts";
import { freePort } from "../../support/ports.ts";
import { until } from "../../support/wait.ts";
import { WireClient } from "../../support/wire.ts";
import { readToEnd, sendAll, webSocketClient } from "./clients.ts";
import { haproxy, nginx, proxyHeader, ssl, text } from "../../doors/proxy_bytes.ts";

/** The lines of a broker with a plain door and Unix doors. */
function withSockets(place: Place, doors: readonly string[][]): string {
  const keys = doors.flatMap(([first, ...rest]) => [
    `  - ${first}`,
    ...rest.map((line) => `    ${line}`),
  ]);
  return configurationText(place, {
    provider: "memory",
    listen: [`tcp:\n  address: 127.0.0.1:${place.port}`, "unix:", ...keys].join("\n"),
  });
}

function socketPath(place: Place): string {
  return `${place.directory}/s`;
}

function start(keys: readonly string[] = []): Promise<BrokerProcess> {
  return BrokerProcess.start((place) =>
    withSockets(place, [["path: " + socketPath(place), ...keys]])
  );
}

function open(path: string): Promise<Deno.UnixConn> {
  return Deno.connect({ transport: "unix", path: path.replace(/^@/, "\0") });
}

async function connected(path: string, clientId: string): Promise<WireClient> {
  const client = WireClient.over(await open(path));
  await client.connect({ clientId });
  await client.expectConnack();
  return client;
}

function exists(path: string): boolean {
  try {
    Deno.lstatSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}

Deno.test("02b 4.2 MQTT runs over a Unix socket, whose permissions are those of its mode", async () => {
  for (
    const [mode, bits] of [[undefined, 0o660], ['mode: "0600"', 0o600], ['mode: "0666"', 0o666]]
  ) {
    await using broker = await start(mode === undefined ? [] : [mode as string]);
    const path = socketPath(broker.place);
    assert.equal(Deno.statSync(path).mode! & 0o777, bits);
    using client = await connected(path, "local");
    await client.subscribe({ packetId: 1, subscriptions: [{ filter: "t", qos: 1 }] });
    await client.expectSuback(1, [1]);
    await client.publish({ topic: "t", payload: "x", qos: 0 });
    await client.expectPublish("t", "x");
    await broker.line(/msg="a client connected" client=local listener=unix address=\//);
  }
});

Deno.test("02b 4.2 at the stop the socket goes and the lock file stays", async () => {
  await using broker = await start();
  const path = socketPath(broker.place);
  assert.ok(exists(path) && exists(path + ".lock"));
  assert.deepEqual(await broker.stop(), { code: 0, signal: null });
  assert.ok(!exists(path) && exists(path + ".lock"));
  await broker.startAgain();
  (await connected(path, "again")).close();
});

Deno.test("02b 4.2 a socket that a killed broker left is replaced", async () => {
  await using broker = await start();
  const path = socketPath(broker.place);
  await broker.kill();
  assert.ok(exists(path));
  await broker.startAgain();
  (await connected(path, "again")).close();
});

/** Starts a second broker on `path`, beside whatever is there. */
async function refused(path: string, more: string[][] = []) {
  const place = temporaryPlace();
  const file = place.directory + "/saguin.yaml";
  const doors = [["name: taken", "path: " + path], ...more];
  Deno.writeTextFileSync(file, withSockets(place, doors));
  const outcome = await runToEnd(["--config", file]);
  await Deno.remove(place.directory, { recursive: true });
  assert.notEqual(outcome.code, 0);
  assert.equal(outcome.stderr.trimEnd().split("\n").length, 1, outcome.stderr);
  return outcome.stderr;
}

Deno.test("02b 4.2 a socket in use refuses the start, naming the lock", async () => {
  await using broker = await start();
  const path = socketPath(broker.place);
  const says = await refused(path);
  assert.match(says, /^saguin: broker\.mqtt\.listen\.unix\[taken\]: cannot listen on \//);
  assert.ok(says.includes(`${path}.lock is held by another broker`), says);
  (await connected(path, "undisturbed")).close();
});

Deno.test("02b 4.2 anything else at the path refuses the start and is left alone", async () => {
  const { directory } = temporaryPlace();
  const path = directory + "/thing";
  Deno.writeTextFileSync(path, "precious");
  assert.match(await refused(path), /something that is not a socket; it was left alone/);
  assert.equal(Deno.readTextFileSync(path), "precious");
  Deno.removeSync(path);
  Deno.mkdirSync(path);
  assert.match(await refused(path), /something that is not a socket; it was left alone/);
  Deno.removeSync(path);
  // A link is not followed to a socket elsewhere.
  Deno.symlinkSync(directory + "/elsewhere", path);
  assert.match(await refused(path), /something that is not a socket; it was left alone/);
  assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), ["thing"]);
  await Deno.remove(directory, { recursive: true });
});

Deno.test("a refused start leaves neither socket nor lock of the doors it had opened", async () => {
  const { directory } = temporaryPlace();
  Deno.writeTextFileSync(directory + "/thing", "precious");
  const good = directory + "/good";
  const place = temporaryPlace();
  const file = place.directory + "/saguin.yaml";
  Deno.writeTextFileSync(
    file,
    withSockets(place, [
      ["name: good", "path: " + good],
      ["name: bad", `path: ${directory}/thing`],
    ]),
  );
  const { code, stderr } = await runToEnd(["--config", file]);
  assert.notEqual(code, 0);
  assert.match(stderr, /unix\[bad\]/);
  assert.deepEqual([...Deno.readDirSync(directory)].map(({ name }) => name), ["thing"]);
  await Deno.remove(directory, { recursive: true });
  await Deno.remove(place.directory, { recursive: true });
});

Deno.test("02b 4.2 an abstract name takes no file and no lock", async () => {
  const name = `@saguin-test-${crypto.randomUUID()}`;
  await using broker = await BrokerProcess.start((place) =>
    withSockets(place, [[`path: "${name}"`]])
  );
  (await connected(name, "abstract")).close();
  const files = [...Deno.readDirSync(broker.directory)].map(({ name }) => name);
  assert.ok(!files.some((file) => file.includes("saguin-test")), files.join());
  assert.match(await refused(`"${name}"`), /cannot listen on @saguin-test-.* in use/);
});

Deno.test("several doors of every kind serve one broker", async () => {
  const [ws1, ws2, tcp] = [freePort(), freePort(), freePort()];
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      provider: "memory",
      listen: [
        "tcp:",
        `  - {name: one, address: "127.0.0.1:${place.port}"}`,
        `  - {name: two, address: "127.0.0.1:${tcp}"}`,
        "ws:",
        `  - {name: three, address: "127.0.0.1:${ws1}"}`,
        `  - {name: four, address: "127.0.0.1:${ws2}"}`,
        "unix:",
        `  - {name: five, path: ${place.directory}/a}`,
        `  - {name: six, path: ${place.directory}/b}`,
      ].join("\n"),
    })
  );
  const clients = [
    await WireClient.open(broker.port),
    await WireClient.open(tcp),
    await webSocketClient(ws1),
    await webSocketClient(ws2),
    WireClient.over(await open(`${broker.directory}/a`)),
    WireClient.over(await open(`${broker.directory}/b`)),
  ];
  for (const [i, client] of clients.entries()) {
    await client.connect({ clientId: `client-${i}` });
    await client.expectConnack();
    await client.subscribe({ packetId: 1, subscriptions: [{ filter: "all", qos: 0 }] });
    await client.expectSuback(1, [0]);
  }
  await clients[5].publish({ topic: "all", payload: "hello", qos: 0 });
  for (const client of clients) await client.expectPublish("all", "hello");
  for (const [i, name] of ["one", "two", "three", "four", "five", "six"].entries()) {
    await broker.line(new RegExp(`msg="listening" listener=${name} `));
    await broker.line(new RegExp(`msg="a client connected" client=client-${i} listener=${name} `));
  }
  for (const client of clients) client.close();
});

// ------------------------------------------------------------------------------ PROXY headers

const PROXY = ["proxy_protocol: true"];

async function behind(broker: BrokerProcess, header: Uint8Array): Promise<WireClient> {
  const conn = await open(socketPath(broker.place));
  await sendAll(conn, header);
  return WireClient.over(conn);
}

Deno.test("02a 18.1 the address in the header is the client's in the log", async () => {
  await using broker = await start(PROXY);
  for (
    const [header, address] of [
      [haproxy("device-1"), "192.0.2.7:49152"],
      [nginx("device-2"), "[2001:db8::5]:49152"],
      [proxyHeader({ command: 0 }), socketPath(broker.place)],
    ] as const
  ) {
    const from = broker.lines.length;
    using client = await behind(broker, header);
    await client.connect({ clientId: "c" });
    await client.expectConnack();
    const shown = await until(
      "the client's line",
      () =>
        broker.lines.slice(from).find((line) => line.includes('msg="a client connected" client=c')),
    );
    await client.disconnect();
    assert.ok(
      shown.includes(`address=${address} `) || shown.includes(`address="${address}" `),
      shown,
    );
  }
  await broker.line(/vouches for a client" listener=unix .* principal=device-1$/);
  await broker.line(/vouches for a client" listener=unix .* principal=device-2$/);
});

Deno.test("02a 18.1 header and CONNECT may come in one piece, or byte by byte", async () => {
  await using broker = await start(PROXY);
  const bytes = join(nginx("device-1"), encodeConnect({ level: 5, clientId: "c" }));
  using whole = await behind(broker, bytes);
  await whole.expectConnack();
  const conn = await open(socketPath(broker.place));
  for (const byte of bytes) await conn.write(Uint8Array.of(byte));
  using drip = WireClient.over(conn);
  await drip.expectConnack();
});

Deno.test("02b 4.5 a believed name takes the place of the CONNECT's, an unbelieved one does not", async () => {
  await using broker = await start(PROXY);
  const answered = async (header: Uint8Array, userName?: string) => {
    using client = await behind(broker, header);
    await client.connect({ clientId: "c", userName });
    return (await client.expect("connack")).reasonCode;
  };
  assert.equal(await answered(haproxy("a\u0007b"), "harmless"), 0x86);
  assert.equal(await answered(haproxy("harmless"), "a\u0007b"), 0);
  assert.equal(await answered(haproxy("a\u0007b", 21), "harmless"), 0);
  await broker.line(/could not verify .* listener=unix .* verify_result=21$/);
  const notShown = proxyHeader({ entries: [ssl(0x01, 0, text(0x22, "a\u0007b"))] });
  assert.equal(await answered(notShown, "harmless"), 0);
});

Deno.test("02a 18.1 no header, a version 1 header and a spoiled one are refused", async () => {
  await using broker = await start(PROXY);
  const cases: [Uint8Array, RegExp][] = [
    [encodeConnect({ level: 4, clientId: "" }), /does not begin with a PROXY protocol version 2/],
    [
      new TextEncoder().encode("PROXY TCP4 192.0.2.7 198.51.100.1 49152 8883\r\n"),
      /version 1 header; set it to version 2 \(HAProxy: send-proxy-v2-ssl-cn; nginx/,
    ],
    [proxyHeader({ addresses: new Uint8Array(3) }), /ends inside its addresses/],
  ];
  for (const [bytes, says] of cases) {
    const from = broker.lines.length;
    const conn = await open(socketPath(broker.place));
    await sendAll(conn, bytes);
    assert.equal((await readToEnd(conn)).length, 0);
    conn.close();
    const line = await broker.line(says);
    assert.ok(broker.lines.indexOf(line) >= from);
    assert.match(line, /level=WARN .*msg="refused a connection by its PROXY header" listener=unix/);
  }
});

Deno.test("02a 18.1 a header that is not complete in five seconds closes the connection", async () => {
  await using broker = await start(PROXY);
  const begun = performance.now();
  const conn = await open(socketPath(broker.place));
  await sendAll(conn, haproxy("device-1").slice(0, 30));
  assert.equal((await readToEnd(conn)).length, 0);
  const elapsed = performance.now() - begun;
  assert.ok(elapsed > 4_800 && elapsed < 10_000, `closed after ${elapsed} ms`);
  conn.close();
});
