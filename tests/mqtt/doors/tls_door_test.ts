import assert from "node:assert/strict";
import { connect } from "node:tls";
import {
  BrokerProcess,
  configurationText,
  type Place,
  runToEnd,
  temporaryPlace,
} from "../../support/broker_process.ts";
import { Certified } from "../../support/certificates.ts";
import { encodeConnect } from "../../support/mqtt_bytes.ts";
import { freePort } from "../../support/ports.ts";
import { sleep, until } from "../../support/wait.ts";
import { ConnectionEnded, WireClient } from "../../support/wire.ts";
import { readToEnd, sendAll, tcpConnection, tlsClient, tlsConnection } from "./clients.ts";

const authority = Certified.authority("servers");
const devices = Certified.authority("devices");

/** Writes a certificate and its key into the place's directory; the lines of a `tls` block. */
function tlsKeys(place: Place, name: string, certified: Certified): string[] {
  Deno.writeTextFileSync(`${place.directory}/${name}.crt`, certified.cert);
  Deno.writeTextFileSync(`${place.directory}/${name}.key`, certified.key);
  return [
    `cert_file: ${place.directory}/${name}.crt`,
    `key_file: ${place.directory}/${name}.key`,
  ];
}

/** The lines of a tcp door among several. */
function door(name: string, port: number, tls: readonly string[] = []): string {
  const lines = [`- name: ${name}`, `  address: 127.0.0.1:${port}`];
  if (tls.length > 0) lines.push("  tls:", ...tls.map((line) => `    ${line}`));
  return lines.map((line) => `  ${line}\n`).join("");
}

interface Doors {
  readonly [name: string]: (place: Place) => readonly string[];
}

/** A broker with a plain door and these TLS doors, and their ports. */
async function start(doors: Doors, limits?: string) {
  const ports = new Map(Object.keys(doors).map((name) => [name, freePort()]));
  const broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      provider: "memory",
      limits,
      listen: "tcp:\n" + door("plain", place.port) +
        Object.entries(doors).map(([name, tls]) => door(name, ports.get(name)!, tls(place)))
          .join(""),
    })
  );
  return { broker, port: (name: string) => ports.get(name)! };
}

function server(algorithm: "ecdsa" | "rsa" = "ecdsa"): Certified {
  return authority.issue({ commonName: "broker", dns: ["localhost"], algorithm });
}

/** A door that asks for certificates of `devices`. */
function mutual(required = true): (place: Place) => string[] {
  return (place) => {
    const file = `${place.directory}/devices.crt`;
    Deno.writeTextFileSync(file, devices.cert);
    return [
      ...tlsKeys(place, "server", server()),
      `client_ca_file: ${file}`,
      ...required ? [] : ["require_certificate: false"],
    ];
  };
}

/** MQTT that goes both ways. */
async function exchange(client: WireClient, clientId: string): Promise<void> {
  await client.connect({ clientId });
  await client.expectConnack();
  await client.subscribe({ packetId: 1, subscriptions: [{ filter: `${clientId}/#`, qos: 1 }] });
  await client.expectSuback(1, [1]);
  const payload = new Uint8Array(100_000).map((_, i) => i * 31 & 0xff);
  await client.publish({ topic: `${clientId}/t`, payload, qos: 1, packetId: 2 });
  const answers = [await client.next(), await client.next()];
  const delivery = answers.find((packet) => packet.type === "publish");
  assert.ok(delivery?.type === "publish");
  assert.deepEqual([...delivery.payload], [...payload]);
  await client.puback(delivery.packetId);
}

/** The connection ends without MQTT: in TLS 1.3 a client hears of a refusal after its handshake. */
async function assertRefused(port: number, certified?: Certified): Promise<void> {
  let client: WireClient;
  try {
    client = await tlsClient(port, { trust: authority, certified });
  } catch {
    return;
  }
  try {
    await client.connect({ clientId: "refused" });
    const packet = await client.next();
    assert.fail(`it was answered with ${packet.type}`);
  } catch (error) {
    if (error instanceof ConnectionEnded) return;
    if (error instanceof Error && /reset|broken pipe/i.test(error.message)) return;
    throw error;
  } finally {
    client.close();
  }
}

Deno.test("02a 16.3 MQTT runs over TLS, with RSA and with ECDSA certificates", async () => {
  const { broker, port } = await start({
    ecdsa: (place) => tlsKeys(place, "ecdsa", server("ecdsa")),
    rsa: (place) => tlsKeys(place, "rsa", server("rsa")),
  });
  await using _ = broker;
  for (const name of ["ecdsa", "rsa"]) {
    using client = await tlsClient(port(name), { trust: authority });
    await exchange(client, name);
    await client.disconnect();
    await broker.line(new RegExp(`msg="a client connected" client=${name} listener=${name} `));
  }
});

Deno.test("02a 16.3 06 13 the door sends exactly the chain of cert_file", async () => {
  const between = authority.issue({ commonName: "between", authority: true });
  const own = between.issue({ commonName: "broker", dns: ["localhost"] });
  const { broker, port } = await start({
    chain: (place) => {
      const keys = tlsKeys(place, "chain", own);
      Deno.writeTextFileSync(`${place.directory}/chain.crt`, own.cert + between.cert);
      return keys;
    },
  });
  await using _ = broker;
  using client = await tlsClient(port("chain"), { trust: authority });
  await exchange(client, "chained");
});

/** The protocol version that a client of at most `highest` gets; undefined when it is refused. */
function negotiated(port: number, highest: "TLSv1.2" | "TLSv1.3"): Promise<string | undefined> {
  return new Promise((resolve) => {
    const socket = connect({
      host: "localhost",
      port,
      ca: authority.cert,
      minVersion: "TLSv1.2",
      maxVersion: highest,
    });
    socket.on("secureConnect", () => {
      resolve(socket.getProtocol() ?? undefined);
      socket.destroy();
    });
    socket.on("error", () => resolve(undefined));
    socket.on("close", () => resolve(undefined));
  });
}

Deno.test("02a 16.3 min_version is the oldest TLS that is accepted", async () => {
  const { broker, port } = await start({
    usual: (place) => tlsKeys(place, "server", server()),
    strict: (place) => [...tlsKeys(place, "server", server()), 'min_version: "1.3"'],
  });
  await using _ = broker;
  assert.equal(await negotiated(port("usual"), "TLSv1.2"), "TLSv1.2");
  assert.equal(await negotiated(port("usual"), "TLSv1.3"), "TLSv1.3");
  assert.equal(await negotiated(port("strict"), "TLSv1.2"), undefined);
  assert.equal(await negotiated(port("strict"), "TLSv1.3"), "TLSv1.3");
});

Deno.test("02a 16.3 without client_ca_file client certificates are not asked for", async () => {
  const { broker, port } = await start({
    open: (place) => tlsKeys(place, "server", server()),
  });
  await using _ = broker;
  const foreign = Certified.authority("elsewhere").issue({ commonName: "a\u0007b" });
  using client = await tlsClient(port("open"), { trust: authority, certified: foreign });
  await exchange(client, "unexamined");
});

Deno.test("02a 16.3 06 13 with client_ca_file a client needs a certificate of its authorities", async () => {
  const { broker, port } = await start({ mutual: mutual() });
  await using _ = broker;
  for (const algorithm of ["ecdsa", "rsa"] as const) {
    const certified = devices.issue({ commonName: "device-1", algorithm });
    using client = await tlsClient(port("mutual"), { trust: authority, certified });
    await exchange(client, `mutual-${algorithm}`);
  }
  const day = 86_400_000;
  const device = devices.issue({ commonName: "device-1" });
  const refused: [Certified | undefined, RegExp][] = [
    [undefined, /certificate/],
    [Certified.authority("self-signed"), /was not verified/],
    [
      Certified.authority("elsewhere").issue({ commonName: "device-1" }),
      /was not verified: [A-Z_]+; it has to be of X\.509 version 3, not expired, and signed by an/,
    ],
    // The same name, another key.
    [Certified.authority("devices").issue({ commonName: "device-1" }), /was not verified/],
    [device.issue({ commonName: "admin" }), /was not verified/],
    [
      devices.issue({ commonName: "device-1", notAfter: new Date(Date.now() - day / 2) }),
      /was not verified/,
    ],
    [
      devices.issue({
        commonName: "device-1",
        notBefore: new Date(Date.now() + day / 2),
      }),
      /was not verified/,
    ],
  ];
  for (const [certified, reason] of refused) {
    const from = broker.lines.length;
    await assertRefused(port("mutual"), certified);
    const line = await until(
      "the refusal's line",
      () => broker.lines.slice(from).find((each) => each.includes("in its TLS handshake")),
    );
    assert.match(line, /level=WARN .* listener=mutual /);
    assert.match(line, reason);
  }
  assert.ok(!broker.lines.some((line) => line.includes("client=refused")));
});

Deno.test("02a 16.3 with require_certificate: false no certificate is needed, and a wrong one is refused", async () => {
  const { broker, port } = await start({ lenient: mutual(false) });
  await using _ = broker;
  using without = await tlsClient(port("lenient"), { trust: authority });
  await exchange(without, "without");
  const certified = devices.issue({ commonName: "device-1" });
  using withOne = await tlsClient(port("lenient"), { trust: authority, certified });
  await exchange(withOne, "with-one");
  await assertRefused(
    port("lenient"),
    Certified.authority("elsewhere").issue({ commonName: "device-1" }),
  );
});

Deno.test("02b 4.4 a certificate's name takes the place of the CONNECT's, control characters and all", async () => {
  const { broker, port } = await start({ mutual: mutual() });
  await using _ = broker;
  for (const subject of [{ commonName: "a\u0007b" }, { dns: ["a\u0085b"] }]) {
    const certified = devices.issue(subject);
    using client = await tlsClient(port("mutual"), { trust: authority, certified });
    await client.connect({ clientId: "c", userName: "harmless" });
    await client.expectConnack(0x86);
  }
  const certified = devices.issue({ commonName: "harmless" });
  using client = await tlsClient(port("mutual"), { trust: authority, certified });
  await client.connect({ clientId: "c", userName: "a\u0007b" });
  await client.expectConnack(0);
});

Deno.test("02b 4.4 a certificate's name is a full identity, for which permissions are granted", async () => {
  const port = freePort();
  await using _broker = await BrokerProcess.start((place) => {
    Deno.writeTextFileSync(
      `${place.directory}/acl.yaml`,
      "roles:\n  meter:\n    - topic: diag/%u/#\n      allow: [write]\nusers:\n  device-1: [meter]\n",
    );
    const listen = "tcp:\n" + door("plain", place.port) + door("mutual", port, mutual()(place));
    return configurationText(place, { provider: "memory", listen })
      .replace("    listen:", `    acl_file: ${place.directory}/acl.yaml\n    listen:`);
  });
  const certified = devices.issue({ dns: ["device-1"] });
  using client = await tlsClient(port, { trust: authority, certified });
  await client.connect({ clientId: "c", userName: "device-2" });
  await client.expectConnack();
  await client.publish({ topic: "diag/device-1/t", payload: "x", qos: 1, packetId: 1 });
  await client.expectPuback(1);
  await client.publish({ topic: "diag/device-2/t", payload: "x", qos: 1, packetId: 2 });
  await client.expectPuback(2, 0x87);
});

Deno.test("02b 4.4 a verified certificate that names nobody is let in, and said", async () => {
  const { broker, port } = await start({ mutual: mutual() });
  await using _ = broker;
  using client = await tlsClient(port("mutual"), {
    trust: authority,
    certified: devices.issue({}),
  });
  await exchange(client, "nameless");
  await broker.line(/names nobody" listener=mutual /);
});

Deno.test("02b 17 SIGHUP: the next handshake gets the new certificate, open connections stay", async () => {
  const { broker, port } = await start({ door: mutual() });
  await using _ = broker;
  const certified = devices.issue({ commonName: "device-1" });
  using old = await tlsClient(port("door"), { trust: authority, certified });
  await exchange(old, "old");

  const newAuthority = Certified.authority("new servers");
  const newDevices = Certified.authority("new devices");
  const own = newAuthority.issue({ commonName: "broker", dns: ["localhost"], algorithm: "rsa" });
  tlsKeys(broker.place, "server", own);
  Deno.writeTextFileSync(`${broker.directory}/devices.crt`, newDevices.cert);
  broker.signal("SIGHUP");
  await broker.line(/msg="certificate" listener=door expires=\d{4}-/);

  await old.publish({ topic: "old/t", payload: "still here", qos: 1, packetId: 9 });
  const packets = [await old.next(), await old.next()];
  assert.deepEqual(packets.map(({ type }) => type).sort(), ["puback", "publish"]);
  await assert.rejects(tlsConnection(port("door"), { trust: authority, certified }));
  const renewed = newDevices.issue({ commonName: "device-1" });
  using client = await tlsClient(port("door"), { trust: newAuthority, certified: renewed });
  await exchange(client, "renewed");
  const before = broker.lines.length;
  const conn = await tlsConnection(port("door"), { trust: newAuthority, certified });
  assert.equal((await readToEnd(conn)).length, 0);
  conn.close();
  await until(
    "the refusal's line",
    () => broker.lines.slice(before).some((line) => line.includes("was not verified")),
  );
});

Deno.test("02b 17 SIGHUP with one bad file changes nothing at any door", async () => {
  const { broker, port } = await start({
    first: (place) => tlsKeys(place, "first", server()),
    second: (place) => tlsKeys(place, "second", server()),
  });
  await using _ = broker;
  const other = Certified.authority("others").issue({ commonName: "x", dns: ["localhost"] });
  tlsKeys(broker.place, "first", other);
  Deno.writeTextFileSync(`${broker.directory}/second.key`, other.key);
  broker.signal("SIGHUP");
  const line = await broker.line(/level=ERROR .*msg="nothing was reloaded"/);
  assert.match(line, /broker\.mqtt\.listen\.tcp\[second\]\.tls\.key_file: .*is not the key/);
  for (const name of ["first", "second"]) {
    using client = await tlsClient(port(name), { trust: authority });
    await exchange(client, `kept-${name}`);
  }
});

Deno.test("a client that leaves, or speaks no TLS, in its handshake costs a line and no more", async () => {
  const { broker, port } = await start({ door: (place) => tlsKeys(place, "server", server()) });
  await using _ = broker;
  (await tcpConnection(port("door"))).close();
  await broker.line(/in its TLS handshake" listener=door /);
  const plain = [
    new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    encodeConnect({ level: 4, clientId: "plain" }),
  ];
  for (const [i, bytes] of plain.entries()) {
    const conn = await tcpConnection(port("door"));
    await sendAll(conn, bytes);
    assert.equal((await readToEnd(conn)).length, 0);
    conn.close();
    const said = /reason="the client does not speak TLS: /;
    await until("the line", () => broker.lines.filter((line) => said.test(line)).length > i);
  }
  using client = await tlsClient(port("door"), { trust: authority });
  await exchange(client, "afterwards");
});

Deno.test("02a 13.3 connect_timeout runs over the handshake and the CONNECT together", async () => {
  const { broker, port } = await start(
    { door: (place) => tlsKeys(place, "server", server()) },
    "connect_timeout: 3s",
  );
  await using _ = broker;
  const closed: string[] = [];
  const closes = async (what: string, conn: Deno.Conn) => {
    assert.equal((await readToEnd(conn)).length, 0);
    closed.push(what);
    conn.close();
  };
  const begun = performance.now();
  const silent = closes("silent", await tcpConnection(port("door")));
  const late = await tcpConnection(port("door"));
  await sleep(800);
  const opened = closes("opened after it", await tcpConnection(port("door")));
  await sleep(800);
  const secured = await Deno.startTls(late, { hostname: "localhost", caCerts: [authority.cert] });
  await secured.handshake();
  // A time of its own for the CONNECT would let it outlive whoever was opened before the handshake.
  await closes("late with its handshake", secured);
  const first = performance.now() - begun;
  assert.ok(first > 2_800, `the late one was closed after ${first} ms`);
  await Promise.all([silent, opened]);
  assert.equal(closed.at(-1), "opened after it", closed.join(", "));
});

Deno.test("the end of a connection is said in TLS too", async () => {
  const { broker, port } = await start({ door: (place) => tlsKeys(place, "server", server()) });
  await using _ = broker;
  const conn = await tlsConnection(port("door"), { trust: authority });
  const client = WireClient.over(conn);
  await client.connect({ clientId: "c" });
  await client.expectConnack();
  await client.pingreq();
  await client.expectPingresp();
  await client.connect({ clientId: "c" });
  assert.equal((await client.expect("disconnect")).reasonCode, 0x82);
  // A stream cut without its end would reject.
  assert.equal(await conn.read(new Uint8Array(8)), null);
  conn.close();
});

Deno.test("02a 13.2 a client that stops reading holds its backlog here, is timed out, and costs no memory", async () => {
  const { broker, port } = await start(
    { door: (place) => tlsKeys(place, "server", server()) },
    "write_timeout: 1s",
  );
  await using _ = broker;
  using stuck = await tlsClient(port("door"), { trust: authority });
  await stuck.connect({ clientId: "stuck" });
  await stuck.expectConnack();
  await stuck.subscribe({ packetId: 1, subscriptions: [{ filter: "flood", qos: 0 }] });
  await stuck.expectSuback(1, [0]);
  using publisher = await WireClient.connected(broker.port, { clientId: "publisher" });
  const before = broker.residentBytes();
  const payload = new Uint8Array(256 * 1024);
  let packetId = 0;
  const end = performance.now() + 30_000;
  while (!broker.lines.some((line) => line.includes("stopped reading"))) {
    assert.ok(performance.now() < end, "the stuck client was not timed out");
    await publisher.publish({ topic: "flood", payload, qos: 1, packetId: ++packetId });
    await publisher.expectPuback(packetId);
  }
  await broker.line(/msg="disconnected a consumer that stopped reading" client=stuck /);
  const grown = (broker.residentBytes() - before) / 1024 / 1024;
  assert.ok(grown < 100, `memory grew by ${grown} MiB over ${packetId} messages`);
});

Deno.test("a client whose publishes wait is not read ahead of, over TLS as over TCP", async () => {
  const { broker, port } = await start({ door: (place) => tlsKeys(place, "server", server()) });
  await using _ = broker;
  const conn = await tlsConnection(port("door"), { trust: authority });
  const client = WireClient.over(conn);
  await client.connect({ clientId: "fast" });
  await client.expectConnack();
  const before = broker.residentBytes();
  const payload = new Uint8Array(512 * 1024);
  for (let i = 0; i < 100; i++) {
    await client.publish({ topic: "nobody", payload, qos: 1, packetId: i + 1 });
    await client.expectPuback(i + 1);
  }
  const grown = (broker.residentBytes() - before) / 1024 / 1024;
  assert.ok(grown < 80, `memory grew by ${grown} MiB`);
  client.close();
});

Deno.test("02a 16.3 a bad file stops the start before a port opens, naming door, key and file", async () => {
  const place = temporaryPlace();
  const write = (name: string, text: string) => {
    Deno.writeTextFileSync(`${place.directory}/${name}`, text);
    return `${place.directory}/${name}`;
  };
  const good = server();
  const cert = write("good.crt", good.cert);
  const key = write("good.key", good.key);
  const text = write("text", "no PEM\n");
  const broken = write("broken", good.cert.replace("MI", "AA"));
  const missing = `${place.directory}/missing`;
  const other = write("other.key", server().key);
  const cases: [string[], RegExp][] = [
    [
      [`cert_file: ${missing}`, `key_file: ${key}`],
      /CERT "[^"]*\/missing" cannot be read: No such/,
    ],
    [[`cert_file: ${text}`, `key_file: ${key}`], /CERT "[^"]*\/text" holds no certificate/],
    [[`cert_file: ${broken}`, `key_file: ${key}`], /CERT "[^"]*" has no readable certificate 1: /],
    [
      [`cert_file: ${cert}`, `key_file: ${missing}`],
      /KEY "[^"]*\/missing" cannot be read: No such/,
    ],
    [[`cert_file: ${cert}`, `key_file: ${text}`], /KEY "[^"]*\/text" holds no private key/],
    [[`cert_file: ${cert}`, `key_file: ${other}`], /KEY "[^"]*" is not the key of the first cert/],
    [
      [`cert_file: ${cert}`, `key_file: ${key}`, `client_ca_file: ${text}`],
      /CA "[^"]*\/text" holds no certificate in PEM/,
    ],
    // All of them at once.
    [
      [`cert_file: ${missing}`, `key_file: ${text}`, `client_ca_file: ${broken}`],
      /CERT "[^"]*" cannot be read(.|\n)*KEY "[^"]*" holds(.|\n)*CA "[^"]*" has no readable/,
    ],
  ];
  const named = (says: RegExp) => {
    const door = "\\n {2}- \\d+:\\d+ broker\\.mqtt\\.listen\\.tcp\\[secure\\]\\.tls\\.";
    const source = says.source.replaceAll("CERT", door + "cert_file")
      .replaceAll("KEY", door + "key_file").replaceAll("CA ", door + "client_ca_file ");
    return new RegExp(source);
  };
  for (const [tls, says] of cases) {
    const file = write(
      "saguin.yaml",
      configurationText(place, {
        listen: "tcp:\n" + door("plain", place.port) + door("secure", freePort(), tls),
      }),
    );
    const { code, stdout, stderr } = await runToEnd(["--config", file]);
    assert.notEqual(code, 0);
    assert.match(stderr, named(says));
    const checked = await runToEnd(["--check-config", file]);
    assert.deepEqual([checked.code, checked.stderr], [code, stderr], "a check refuses alike");
    assert.ok(!stdout.includes("listening"));
    assert.ok(!stderr.includes(good.key.slice(30, 60)), "no key in the message");
  }
  await Deno.remove(place.directory, { recursive: true });
});
