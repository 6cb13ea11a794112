import assert from "node:assert/strict";
import { BrokerProcess, configurationText, type Parts } from "../../support/broker_process.ts";
import { Certified } from "../../support/certificates.ts";
import { freePort } from "../../support/ports.ts";
import { sleep, until } from "../../support/wait.ts";
import { encodeConnect } from "../../support/mqtt_bytes.ts";
import { type Carriage, WireClient } from "../../support/wire.ts";
import {
  readToEnd,
  request,
  sendAll,
  tcpConnection,
  tlsClient,
  upgradeRequest,
  webSocketClient,
} from "./clients.ts";

/** What is to happen within 50 ms does so in one of these tries, on a machine that has other things to do. */
const TRIES = 40;
/** Far from every deadline but that of 50 ms. */
const SOON_MS = 5_000;

function start(limits: string, parts: Parts = {}): Promise<BrokerProcess> {
  return BrokerProcess.start((place) =>
    configurationText(place, { provider: "memory", limits, ...parts })
  );
}

/** Waits until the connection that asked whether the broker is ready has given its slot back. */
async function allFree(broker: BrokerProcess): Promise<void> {
  await broker.line(/msg="a client disconnected" client=is-it-ready /);
  await sleep(20);
}

function connected(broker: BrokerProcess, clientId: string): Promise<WireClient> {
  return WireClient.connected(broker.port, { clientId });
}

/** Milliseconds until the peer closes, and what it said before. */
async function untilClosed(conn: Carriage) {
  const begun = performance.now();
  const bytes = await readToEnd(conn);
  return { ms: performance.now() - begun, bytes };
}

Deno.test("02a 13.3 with every slot taken a CONNECT gets 0x89, or 0x03 in MQTT 3.1.1, unasked who it is", async () => {
  await using broker = await start("max_connections: 2");
  await allFree(broker);
  using first = await connected(broker, "first");
  using second = await connected(broker, "second");
  const begun = performance.now();
  using five = await WireClient.open(broker.port);
  await five.connect({ clientId: "five", userName: "a\u0007b" });
  await five.expectConnack(0x89);
  await five.expectClose();
  const elapsed = performance.now() - begun;
  assert.ok(elapsed > 40 && elapsed < SOON_MS, `answered after ${elapsed} ms`);

  using three = await WireClient.open(broker.port, 4);
  await three.connect({ level: 4, clientId: "three" });
  await three.expectConnack(0x03);
  await three.expectClose();
  await broker.line(/msg="refused a connection" listener=tcp .* code=137 reason=/);

  await first.disconnect();
  using next = await connected(broker, "next");
  await next.pingreq();
  await next.expectPingresp();
  await second.pingreq();
  await second.expectPingresp();
});

Deno.test("02a 13.3 the opening bytes are enough for the answer, and needed for it", async () => {
  await using broker = await start("max_connections: 1");
  await allFree(broker);
  using _first = await connected(broker, "first");
  const connect = encodeConnect({ level: 5, clientId: "x".repeat(200) });
  const opening = await tcpConnection(broker.port);
  await sendAll(opening, connect.slice(0, 14));
  const { bytes } = await untilClosed(opening);
  assert.deepEqual([bytes[0], bytes[3]], [0x20, 0x89]);
  opening.close();
  for (const said of [new Uint8Array(0), connect.slice(0, 6), new Uint8Array(20).fill(0x47)]) {
    const conn = await tcpConnection(broker.port);
    await sendAll(conn, said);
    const { ms, bytes } = await untilClosed(conn);
    assert.equal(bytes.length, 0);
    assert.ok(ms < SOON_MS, `closed after ${ms} ms`);
    conn.close();
  }
});

Deno.test("02a 13.3 a slot that comes free within 50 ms goes to whoever waits", async () => {
  await using broker = await start("max_connections: 1");
  await allFree(broker);
  let given = 0;
  for (let tries = 0; given < 5; tries++) {
    assert.ok(tries < TRIES, `whoever waited got a slot ${given} times in ${tries}`);
    const holder = await connected(broker, "holder");
    using waiting = await WireClient.open(broker.port);
    await waiting.connect({ clientId: "waiting" });
    await holder.disconnect();
    const { reasonCode } = await waiting.expect("connack");
    if (reasonCode === 0) {
      given++;
      await waiting.disconnect();
    } else assert.equal(reasonCode, 0x89);
    // The last one's slot has to be free before the next round's first.
    await sleep(20);
  }
});

Deno.test("02a 13.3 beyond the overflow places a socket is closed at once", async () => {
  await using broker = await start("max_connections: 1");
  await allFree(broker);
  using _holder = await connected(broker, "holder");
  for (let tries = 1;; tries++) {
    const one = await tcpConnection(broker.port);
    const order: string[] = [];
    const first = untilClosed(one).then(() => order.push("the one with a place"));
    const two = await tcpConnection(broker.port);
    const { bytes } = await untilClosed(two);
    order.push("the one without");
    assert.equal(bytes.length, 0);
    await first;
    one.close();
    two.close();
    // Where the second came late, the place was free again.
    if (order[0] === "the one without") break;
    assert.ok(tries < TRIES, "the one without a place was kept as long as the one with it");
  }
});

Deno.test("02a 13.3 all doors share the count; a ws socket without a slot is closed bare", async () => {
  const port = freePort();
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      provider: "memory",
      limits: "max_connections: 2",
      listen: `tcp:\n  address: 127.0.0.1:${place.port}\nws:\n  address: 127.0.0.1:${port}`,
    })
  );
  await allFree(broker);
  const overWs = await webSocketClient(port);
  await overWs.connect({ clientId: "ws" });
  await overWs.expectConnack();
  using _overTcp = await connected(broker, "tcp");
  const conn = await tcpConnection(port);
  await sendAll(conn, upgradeRequest());
  const { ms, bytes } = await untilClosed(conn);
  assert.equal(bytes.length, 0, new TextDecoder().decode(bytes));
  assert.ok(ms > 30 && ms < SOON_MS, `closed after ${ms} ms`);
  conn.close();
  overWs.close();
  await broker.line(/client disconnected" client=ws /);
  // A request that is answered has given its slot back before that.
  for (let i = 0; i < 5; i++) {
    const asking = await tcpConnection(port);
    const { head } = await request(
      asking,
      new TextEncoder().encode("GET / HTTP/1.1\r\nHost: x\r\n\r\n"),
    );
    assert.match(head, /^HTTP\/1\.1 426 /);
    const next = await connected(broker, "after the answer");
    await next.disconnect();
    asking.close();
    await sleep(20);
  }
});

Deno.test("02a 13.3 a TLS client without a slot is told in TLS", async () => {
  const authority = Certified.authority("servers");
  const own = authority.issue({ commonName: "broker", dns: ["localhost"] });
  const port = freePort();
  await using broker = await BrokerProcess.start((place) => {
    Deno.writeTextFileSync(`${place.directory}/c.crt`, own.cert);
    Deno.writeTextFileSync(`${place.directory}/c.key`, own.key);
    return configurationText(place, {
      provider: "memory",
      limits: "max_connections: 1",
      listen: [
        "tcp:",
        `  - {name: plain, address: "127.0.0.1:${place.port}"}`,
        "  - name: secure",
        `    address: 127.0.0.1:${port}`,
        `    tls: {cert_file: ${place.directory}/c.crt, key_file: ${place.directory}/c.key}`,
      ].join("\n"),
    });
  });
  await allFree(broker);
  using _holder = await connected(broker, "holder");
  // The handshake has 50 ms; on a busy machine not every one makes it.
  await until("an answer", async () => {
    let client: WireClient;
    try {
      client = await tlsClient(port, { trust: authority });
    } catch {
      return false;
    }
    try {
      await client.connect({ clientId: "told" });
      return (await client.expect("connack")).reasonCode === 0x89;
    } catch {
      return false;
    } finally {
      client.close();
    }
  }, 10_000);
});

Deno.test("02a 13.3 a slot is free before the refusing CONNACK and the DISCONNECT are written", async () => {
  await using broker = await start("max_connections: 1");
  await allFree(broker);
  for (let round = 0; round < 10; round++) {
    using refused = await WireClient.open(broker.port);
    await refused.connect({ clientId: "a\u0007b" });
    await refused.expectConnack(0x85);
    // No wait: whoever has read the refusal knows that there is room.
    using ended = await connected(broker, "ended");
    await ended.connect({ clientId: "ended" });
    await ended.expectClose(0x82);
  }
});

Deno.test("02a 13.3 max_connect_rate: the excess waits in the accept queue, per door, and nobody is refused", async () => {
  const other = freePort();
  await using broker = await BrokerProcess.start((place) =>
    configurationText(place, {
      provider: "memory",
      limits: "max_connect_rate: 10",
      listen: [
        "tcp:",
        `  - {name: one, address: "127.0.0.1:${place.port}"}`,
        `  - {name: two, address: "127.0.0.1:${other}"}`,
      ].join("\n"),
    })
  );
  await sleep(500);
  const begun = performance.now();
  const opened = Array.from({ length: 40 }, async (_, i) => {
    const client = await connected(broker, `c-${i}`);
    const at = performance.now() - begun;
    client.close();
    return at;
  });
  await sleep(300);
  for (let i = 0; i < 10; i++) (await WireClient.connected(other, { clientId: `o-${i}` })).close();
  const otherAt = performance.now() - begun;
  const times = (await Promise.all(opened)).sort((a, b) => a - b);
  const last = times[39];
  assert.ok(last > 1_500, `the last one came in after ${last} ms`);
  // At the rate alone the sixteenth would be as far along as sixteen is in forty.
  assert.ok(times[15] < last / 3, `the burst took ${times[15]} of ${last} ms`);
  assert.ok(otherAt < last, `the other door was behind this one: ${otherAt} ms of ${last}`);
});

Deno.test("02a 13.3 connect_timeout closes who has sent no whole CONNECT, and only those", async () => {
  await using broker = await start("connect_timeout: 1s");
  using good = await WireClient.connected(broker.port, { clientId: "good", keepAlive: 0 });
  const silent = await tcpConnection(broker.port);
  const slow = await tcpConnection(broker.port);
  const connect = encodeConnect({ level: 5, clientId: "slow" });
  const dripping = (async () => {
    for (const byte of connect) {
      await slow.write(Uint8Array.of(byte));
      await sleep(200);
    }
  })().catch(() => {});
  const [first, second] = await Promise.all([untilClosed(silent), untilClosed(slow)]);
  for (const { ms, bytes } of [first, second]) {
    // The slow one's CONNECT would be whole, and answered, after three seconds.
    assert.equal(bytes.length, 0);
    assert.ok(ms > 900, `closed after ${ms} ms`);
  }
  await dripping;
  silent.close();
  slow.close();
  await sleep(300);
  await good.pingreq();
  await good.expectPingresp();
});

Deno.test("02a 13.3 a stopping broker closes those who have sent no CONNECT", async () => {
  await using broker = await start("max_connections: 2");
  await allFree(broker);
  const silent = await tcpConnection(broker.port);
  using held = await connected(broker, "held");
  const ended = broker.stop();
  assert.equal((await untilClosed(silent)).bytes.length, 0);
  await held.expectClose(0x8b);
  assert.deepEqual(await ended, { code: 0, signal: null });
  silent.close();
});
