import assert from "node:assert/strict";
import { BrokerProcess, configurationText, type Place } from "../../support/broker_process.ts";
import { Certified } from "../../support/certificates.ts";
import { encodeConnect, encodePublish, join } from "../../support/mqtt_bytes.ts";
import { freePort } from "../../support/ports.ts";
import { clientFrame, Opcode } from "../../support/web_socket_bytes.ts";
import { until } from "../../support/wait.ts";
import { WireClient } from "../../support/wire.ts";
import {
  readToEnd,
  request,
  sendAll,
  tcpConnection,
  tlsConnection,
  upgradeRequest,
  WebSocketCarriage,
  webSocketClient,
} from "./clients.ts";
import { pieces } from "../../doors/pipe.ts";

const authority = Certified.authority("servers");

interface Options {
  readonly keys?: readonly string[];
  readonly limits?: string;
}

function listenText(place: Place, port: number, keys: readonly string[]): string {
  return [
    `tcp:\n  address: 127.0.0.1:${place.port}`,
    `ws:\n  address: 127.0.0.1:${port}`,
    ...keys.map((key) => `  ${key}`),
  ].join("\n");
}

/** A broker with a plain door and one ws door. */
async function start({ keys = [], limits }: Options = {}) {
  const port = freePort();
  const text = (place: Place, keys: readonly string[]) =>
    configurationText(place, {
      provider: "memory",
      limits,
      listen: listenText(place, port, keys),
    });
  const broker = await BrokerProcess.start((place) => text(place, keys));
  return {
    broker,
    port,
    rewrite: (keys: readonly string[]) => broker.configure((place) => text(place, keys)),
  };
}

/** A carriage and the client on it, admitted. */
async function connected(port: number, clientId: string) {
  const carriage = await WebSocketCarriage.open(await tcpConnection(port));
  const client = WireClient.over(carriage);
  await client.connect({ clientId });
  await client.expectConnack();
  return { carriage, client };
}

Deno.test("MQTT-6.0.0 MQTT runs over WebSocket, packets split and joined across frames", async () => {
  const { broker, port } = await start();
  await using _ = broker;
  const carriage = await WebSocketCarriage.open(await tcpConnection(port));
  const client = WireClient.over(carriage);
  for (const piece of pieces(encodeConnect({ level: 5, clientId: "split" }), 1)) {
    await client.send(piece);
  }
  await client.expectConnack();
  await client.subscribe({ packetId: 1, subscriptions: [{ filter: "t", qos: 0 }] });
  await client.expectSuback(1, [0]);
  const publishes = [1, 2, 3].map((i) =>
    encodePublish({ level: 5, topic: "t", payload: `${i}`, qos: 1, packetId: i })
  );
  const joined = join(...publishes);
  await sendAll(
    carriage.conn,
    join(
      clientFrame({ payload: joined.slice(0, 5), final: false }),
      clientFrame({ opcode: Opcode.Ping, payload: Uint8Array.of(7) }),
      clientFrame({ opcode: Opcode.Continuation, payload: joined.slice(5) }),
    ),
  );
  const packets = [];
  for (let i = 0; i < 6; i++) packets.push(await client.next());
  assert.equal(packets.filter(({ type }) => type === "puback").length, 3);
  assert.equal(packets.filter(({ type }) => type === "publish").length, 3);
  assert.deepEqual(carriage.pongs, [Uint8Array.of(7)]);
  await broker.line(/msg="a client connected" client=split listener=ws address=127\.0\.0\.1:/);
  client.close();
});

Deno.test("bytes that come with the request are part of the stream", async () => {
  const { broker, port } = await start();
  await using _ = broker;
  const conn = await tcpConnection(port);
  const connect = clientFrame({ payload: encodeConnect({ level: 5, clientId: "eager" }) });
  await sendAll(conn, join(upgradeRequest(), connect));
  await broker.line(/msg="a client connected" client=eager /);
  conn.close();
});

Deno.test("wss: MQTT over WebSocket over TLS, whose pages are https", async () => {
  const own = authority.issue({ commonName: "broker", dns: ["localhost"] });
  const port = freePort();
  await using broker = await BrokerProcess.start((place) => {
    Deno.writeTextFileSync(`${place.directory}/c.crt`, own.cert);
    Deno.writeTextFileSync(`${place.directory}/c.key`, own.key);
    const keys = [
      "tls:",
      `  cert_file: ${place.directory}/c.crt`,
      `  key_file: ${place.directory}/c.key`,
    ];
    return configurationText(place, { provider: "memory", listen: listenText(place, port, keys) });
  });
  const conn = await tlsConnection(port, { trust: authority });
  const host = { "Host": `localhost:${port}` };
  const carriage = await WebSocketCarriage.open(conn, {
    ...host,
    "Origin": `https://localhost:${port}`,
  });
  const client = WireClient.over(carriage);
  await client.connect({ clientId: "secure" });
  await client.expectConnack();
  const payload = new Uint8Array(200_000).fill(0x61);
  await client.publish({ topic: "t", payload, qos: 1, packetId: 1 });
  await client.expectPuback(1);
  await client.disconnect();
  assert.equal(carriage.closeCode, 1000);
  const plainPage = await tlsConnection(port, { trust: authority });
  const { head } = await request(
    plainPage,
    upgradeRequest({ ...host, "Origin": `http://localhost:${port}` }),
  );
  assert.match(head, /^HTTP\/1\.1 403 Forbidden\r\n/);
  plainPage.close();
  await broker.line(/msg="a client connected" client=secure listener=ws /);
});

Deno.test("MQTT-6.0.0-1 a text frame closes the connection", async () => {
  const { broker, port } = await start();
  await using _ = broker;
  const { carriage, client } = await connected(port, "texting");
  await sendAll(carriage.conn, clientFrame({ opcode: Opcode.Text, payload: Uint8Array.of(0x61) }));
  await client.expectClose();
  assert.equal(carriage.closeCode, 1003);
  await broker.line(/msg="a client disconnected" client=texting listener=ws how=lost/);
});

Deno.test("the broker's end of a connection is said in MQTT, then in WebSocket", async () => {
  const { broker, port } = await start();
  await using _ = broker;
  const { carriage, client } = await connected(port, "twice");
  await client.connect({ clientId: "twice" });
  await client.expectClose(0x82);
  assert.equal(carriage.closeCode, 1000);
});

Deno.test("02b 4.3 06 13 pages of other origins get 403 and a line with their origin", async () => {
  const { broker, port, rewrite } = await start();
  await using _ = broker;
  const host = { "Host": `127.0.0.1:${port}` };
  const page = async (origin: string) => {
    const conn = await tcpConnection(port);
    const { head } = await request(conn, upgradeRequest({ ...host, "Origin": origin }));
    conn.close();
    return Number(head.slice(9, 12));
  };
  assert.equal(await page("http://panel.example"), 403);
  const line = await broker.line(/without opening a WebSocket/);
  assert.match(
    line,
    /level=WARN .* listener=ws .* allowed_origins of the door .* origin="?http:\/\/panel\.example"?$/,
  );
  assert.equal(await page(`http://127.0.0.1:${port}`), 101);
  await page("http://" + "x".repeat(4_000) + ".example");
  const long = await broker.line(/origin="?http:\/\/xxx/);
  assert.ok(long.length < 600, "the origin is cut");

  // 02b 17: both keys are read again, everything else is not.
  rewrite(["same_origin: false", 'allowed_origins: ["http://panel.example"]']);
  broker.signal("SIGHUP");
  await broker.line(/msg="reloaded;/);
  assert.equal(await page("http://panel.example"), 101);
  assert.equal(await page(`http://127.0.0.1:${port}`), 403);
});

Deno.test("02a 13.3 a request that is not upgraded is answered and closed", async () => {
  const { broker, port } = await start();
  await using _ = broker;
  const requests: [string, number][] = [
    ["GET / HTTP/1.1\r\nHost: x\r\n\r\n", 426],
    ["POST / HTTP/1.1\r\nHost: x\r\n\r\n", 405],
    ["PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505],
    ["nonsense\r\n\r\n", 400],
    [`GET / HTTP/1.1\r\nHost: x\r\nCookie: ${"c".repeat(20_000)}\r\n\r\n`, 431],
  ];
  for (const [text, status] of requests) {
    const conn = await tcpConnection(port);
    await sendAll(conn, new TextEncoder().encode(text));
    const answer = new TextDecoder().decode(await readToEnd(conn));
    assert.ok(answer.startsWith(`HTTP/1.1 ${status} `), answer);
    conn.close();
  }
  const plain = await tcpConnection(port);
  await sendAll(plain, encodeConnect({ level: 5, clientId: "no WebSocket" }));
  await plain.closeWrite();
  assert.equal((await readToEnd(plain)).length, 0);
  plain.close();
});

Deno.test("a packet over max_message_size is refused however it is framed", async () => {
  const { broker, port } = await start({ limits: "max_message_size: 1MiB" });
  await using _ = broker;
  const { carriage, client } = await connected(port, "large");
  const packet = encodePublish({ level: 5, topic: "t", payload: new Uint8Array(1_100_000) });
  const sending = (async () => {
    for (const [i, payload] of pieces(packet, 1_000).entries()) {
      const opcode = i === 0 ? Opcode.Binary : Opcode.Continuation;
      await sendAll(carriage.conn, clientFrame({ opcode, final: false, payload }));
    }
  })().catch(() => {});
  await client.expectClose(0x95);
  await sending;
});

Deno.test("a message of any length passes, since MQTT alone says what a packet is", async () => {
  const { broker, port } = await start({ limits: "max_message_size: 64KiB" });
  await using _ = broker;
  const { carriage, client } = await connected(port, "streaming");
  const one = encodePublish({
    level: 5,
    topic: "t",
    payload: new Uint8Array(60_000),
    qos: 1,
    packetId: 1,
  });
  // Fifty packets, one message, one frame.
  const all = join(...Array.from({ length: 50 }, () => one));
  const sending = sendAll(carriage.conn, clientFrame({ payload: all }));
  for (let i = 0; i < 50; i++) await client.expectPuback(1);
  await sending;
  client.close();
});

Deno.test("02a 13.2 a client that stops reading is timed out over WebSocket too", async () => {
  const { broker, port } = await start({ limits: "write_timeout: 1s" });
  await using _ = broker;
  const { client } = await connected(port, "stuck");
  await client.subscribe({ packetId: 1, subscriptions: [{ filter: "flood", qos: 0 }] });
  await client.expectSuback(1, [0]);
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
  const grown = (broker.residentBytes() - before) / 1024 / 1024;
  assert.ok(grown < 100, `memory grew by ${grown} MiB over ${packetId} messages`);
  client.close();
});

Deno.test("a stopping broker tells its WebSocket clients", async () => {
  const { broker, port } = await start();
  await using _ = broker;
  const { carriage, client } = await connected(port, "told");
  const upgraded = await webSocketClient(port);
  const half = await tcpConnection(port);
  const ended = broker.stop();
  await client.expectClose(0x8b);
  assert.equal(carriage.closeCode, 1000);
  await upgraded.expectClose();
  assert.equal((await readToEnd(half)).length, 0);
  assert.deepEqual(await ended, { code: 0, signal: null });
  half.close();
  await until("the port to be closed", async () => {
    try {
      (await tcpConnection(port)).close();
      return false;
    } catch {
      return true;
    }
  });
});
