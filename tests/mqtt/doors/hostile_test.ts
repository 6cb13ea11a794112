/**
 * Doors under clients that mean no good: memory stays bounded, everybody else is served, and whoever was
 * refused is in the metrics.
 */
import assert from "node:assert/strict";
import { cheapHash } from "../../auth/cheap_hash.ts";
import { proxyHeader } from "../../doors/proxy_bytes.ts";
import { BrokerProcess, configurationText } from "../../support/broker_process.ts";
import { Certified } from "../../support/certificates.ts";
import { ask } from "../../support/http.ts";
import { openDescriptors } from "../../support/listening.ts";
import { Metrics } from "../../support/metrics.ts";
import { encodeConnect, join } from "../../support/mqtt_bytes.ts";
import { freePort } from "../../support/ports.ts";
import { seeded } from "../../support/random.ts";
import { sleep, until } from "../../support/wait.ts";
import { clientFrame, Opcode } from "../../support/web_socket_bytes.ts";
import { type Carriage, WireClient } from "../../support/wire.ts";
import { readToEnd, sendAll, tcpConnection, tlsConnection, WebSocketCarriage } from "./clients.ts";

const MIB = 1024 * 1024;
/** Code that is compiled and garbage not yet collected, beside what a client could make us keep. */
const GROWTH_MIB = 64;
const CONNECT_TIMEOUT_MS = 3_000;

const authority = Certified.authority("servers");

/** Why a connection was refused, in the words of the metric. */
const LATE = "maximum connect time";
const NO_PROTOCOL = "protocol error";
const TOO_LARGE = "packet too large";
const WRONG_PASSWORD = "bad user name or password";

/** A broker with doors of every kind, and somebody who uses it properly all along. */
class Siege implements AsyncDisposable {
  trips = 0;
  #stopped = false;
  #trips: Promise<void> | undefined;

  private constructor(
    readonly broker: BrokerProcess,
    readonly tls: number,
    readonly ws: number,
    /** A door for users with passwords. */
    readonly guarded: number,
    private readonly operations: number,
    readonly before: number,
    readonly descriptors: number,
  ) {}

  static async begin(): Promise<Siege> {
    const [tls, ws, guarded, operations] = [freePort(), freePort(), freePort(), freePort()];
    const own = authority.issue({ commonName: "broker", dns: ["localhost"] });
    const broker = await BrokerProcess.start((place) => {
      Deno.writeTextFileSync(`${place.directory}/c.crt`, own.cert);
      Deno.writeTextFileSync(`${place.directory}/c.key`, own.key);
      Deno.writeTextFileSync(`${place.directory}/users`, `alice:${cheapHash("right")}\n`);
      return configurationText(place, {
        provider: "memory",
        logLevel: "error",
        limits: `connect_timeout: ${CONNECT_TIMEOUT_MS / 1_000}s\nmax_connect_rate: none`,
        broker: `operations: {listen: {tcp: {address: "127.0.0.1:${operations}"}}}`,
        listen: [
          "tcp:",
          `  - {name: plain, address: "127.0.0.1:${place.port}"}`,
          "  - name: secure",
          `    address: 127.0.0.1:${tls}`,
          `    tls: {cert_file: ${place.directory}/c.crt, key_file: ${place.directory}/c.key}`,
          "  - name: guarded",
          `    address: 127.0.0.1:${guarded}`,
          `    password_file: ${place.directory}/users`,
          "ws:",
          `  address: 127.0.0.1:${ws}`,
          "unix:",
          `  path: ${place.directory}/proxied`,
          "  proxy_protocol: true",
        ].join("\n"),
      });
    });
    // Every kind of door once, so that what is loaded on first use is not counted as growth.
    (await tlsConnection(tls, { trust: authority })).close();
    (await WebSocketCarriage.open(await tcpConnection(ws))).close();
    await sleep(200);
    const siege = new Siege(
      broker,
      tls,
      ws,
      guarded,
      operations,
      broker.residentBytes(),
      openDescriptors(broker.pid),
    );
    siege.#trips = siege.#roundTrips();
    await until("the first round trip", () => siege.trips > 0);
    return siege;
  }

  async #roundTrips(): Promise<void> {
    using client = await WireClient.connected(this.broker.port, { clientId: "proper" });
    while (!this.#stopped) {
      await client.publish({ topic: "proper", payload: "x", qos: 1, packetId: 1 });
      await client.expectPuback(1);
      this.trips++;
      await sleep(2);
    }
    await client.disconnect();
  }

  /** Memory as it is now is within bounds. */
  assertBounded(what: string): void {
    const grown = (this.broker.residentBytes() - this.before) / MIB;
    assert.ok(grown < GROWTH_MIB, `memory grew by ${grown.toFixed()} MiB under ${what}`);
  }

  /**
   * Everybody who was refused so far is counted, under these reasons and no others. Where the machine has
   * other work the deadline may come before the reason does, for half of them at most. Once a siege: a
   * second scrape within the minute would be answered with the first.
   */
  async assertRefused(expected: Readonly<Record<string, number | "some">>): Promise<number> {
    const { body } = await ask({ hostname: "127.0.0.1", port: this.operations }, "/metrics");
    const metrics = Metrics.parse(body);
    const name = "saguin_connections_refused_total";
    const counted = new Map(
      metrics.families.get(name)?.samples.map(({ labels, value }) => [labels.reason, value]),
    );
    const shown = JSON.stringify([...counted]);
    let late = expected[LATE] ?? 0;
    for (const reason of new Set([...counted.keys(), ...Object.keys(expected)])) {
      const count = counted.get(reason) ?? 0;
      const wanted = expected[reason] ?? 0;
      if (wanted === "some") assert.ok(count > 0, shown);
      else if (reason !== LATE) {
        assert.ok(count <= wanted && count >= wanted / 2, shown);
        if (late !== "some") late += wanted - count;
      }
    }
    if (late !== "some") assert.equal(counted.get(LATE) ?? 0, late, shown);
    return metrics.sum(name);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#stopped = true;
    try {
      await this.#trips;
      assert.ok(this.trips > 10, `only ${this.trips} proper round trips`);
      await until(
        "the connections to be gone",
        () => openDescriptors(this.broker.pid) <= this.descriptors + 4,
        CONNECT_TIMEOUT_MS + 5_000,
      );
      assert.deepEqual(this.broker.lines.filter((line) => line.includes("level=ERROR")), []);
    } finally {
      await this.broker[Symbol.asyncDispose]();
    }
  }
}

/** Sends on until the peer has had enough; the bytes that it took. */
async function pour(conn: Carriage, bytes: Uint8Array, most: number): Promise<number> {
  let sent = 0;
  try {
    while (sent < most) {
      await sendAll(conn, bytes);
      sent += bytes.length;
    }
  } catch {
    // It was closed, which is what this is about.
  }
  return sent;
}

async function many<T>(count: number, each: (i: number) => Promise<T>): Promise<T[]> {
  return await Promise.all(Array.from({ length: count }, (_, i) => each(i)));
}

Deno.test("a CONNECT that drips in from 500 sockets is cut at connect_timeout", async () => {
  await using siege = await Siege.begin();
  const connect = encodeConnect({ level: 5, clientId: "x".repeat(200) });
  await many(500, async (i) => {
    const conn = await tcpConnection(siege.broker.port);
    const closed = readToEnd(conn);
    let open = true;
    void closed.then(() => open = false);
    for (let at = 0; open && at < connect.length; at++) {
      await pour(conn, connect.slice(at, at + 1), 1);
      await sleep(400 + i % 100);
    }
    assert.equal((await closed).length, 0);
    conn.close();
  });
  siege.assertBounded("500 dripping CONNECTs");
  await siege.assertRefused({ [LATE]: 500 });
});

Deno.test("300 CONNECTs that announce 100 KiB and bring most of it keep no more than they brought", async () => {
  await using siege = await Siege.begin();
  const head = join(
    [0x10],
    [0xf0, 0x9f, 0x06],
    encodeConnect({ level: 5, clientId: "" }).slice(2, 12),
  );
  await many(300, async () => {
    const conn = await tcpConnection(siege.broker.port);
    const closed = readToEnd(conn);
    await pour(conn, join(head, new Uint8Array(20_000)), 1);
    await closed;
    conn.close();
  });
  siege.assertBounded("300 large CONNECTs");
  await siege.assertRefused({ [LATE]: 300 });
});

Deno.test("half-open handshakes: silence, half a hello, and noise cost little and end in time", async () => {
  await using siege = await Siege.begin();
  const random = seeded("handshakes");
  // A record header and a ClientHello that say there is much more to come.
  const hello = join([0x16, 3, 1, 0x40, 0], [1, 0, 0x3f, 0xfc], random.bytes(200));
  await many(400, async (i) => {
    const conn = await tcpConnection(siege.tls);
    const closed = readToEnd(conn);
    if (i % 4 === 1) await pour(conn, hello, 1);
    if (i % 4 === 2) await pour(conn, random.bytes(300), 1);
    if (i % 4 === 3) {
      // Handshake records without end, none of which completes a message.
      const record = join([0x16, 3, 3, 0x40, 0], new Uint8Array(16_384).fill(1));
      await pour(conn, record, 2 * MIB);
    }
    await closed;
    conn.close();
  });
  siege.assertBounded("400 half-open handshakes");
  // Noise may look like the beginning of something.
  const refused = await siege.assertRefused({ [LATE]: "some", [NO_PROTOCOL]: "some" });
  assert.equal(refused, 400);
});

Deno.test("a TLS client may stop anywhere in its handshake", async () => {
  await using siege = await Siege.begin();
  // What a real client says, learned from one that talks to nobody.
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr as Deno.NetAddr;
  const talking = tlsConnection(port, { trust: authority }).catch(() => undefined);
  const heard = await listener.accept();
  const buffer = new Uint8Array(4_096);
  const hello = buffer.slice(0, (await heard.read(buffer))!);
  heard.close();
  listener.close();
  await talking;
  await many(200, async (i) => {
    const conn = await tcpConnection(siege.tls);
    await pour(conn, hello.slice(0, 1 + i * hello.length / 200 | 0), 1);
    if (i % 2 === 0) await readToEnd(conn);
    conn.close();
  });
  siege.assertBounded("200 handshakes that stop");
  // Whoever left is no refusal, unless that was heard of after the deadline only.
  const refused = await siege.assertRefused({ [LATE]: "some" });
  assert.ok(refused >= 100 && refused < 200, `${refused} were refused`);
});

Deno.test("WebSocket fragments without end, of a byte or of none, are not collected", async () => {
  await using siege = await Siege.begin();
  for (const length of [0, 1]) {
    const fragment = clientFrame({
      opcode: Opcode.Continuation,
      final: false,
      // Of one byte: the body of a CONNECT that never ends; see the first frame below.
      payload: new Uint8Array(length),
    });
    const block = join(...Array.from({ length: 8_000 }, () => fragment));
    const took = await many(6, async () => {
      const carriage = await WebSocketCarriage.open(await tcpConnection(siege.ws));
      const closed = readToEnd(carriage.conn);
      const connect = encodeConnect({ level: 5, clientId: "x".repeat(30_000) });
      const first = clientFrame({ final: false, payload: connect.slice(0, 40) });
      await pour(carriage.conn, first, 1);
      const sent = await pour(carriage.conn, block, 20 * MIB);
      await closed;
      carriage.close();
      return sent;
    });
    siege.assertBounded(`fragments of ${length}, up to ${Math.max(...took)} bytes of them`);
  }
  await siege.assertRefused({ [LATE]: 6, "malformed packet": 6 });
});

Deno.test("WebSocket frames that announce everything there is are not believed in advance", async () => {
  await using siege = await Siege.begin();
  await many(100, async (i) => {
    const carriage = await WebSocketCarriage.open(await tcpConnection(siege.ws));
    const closed = readToEnd(carriage.conn);
    await pour(carriage.conn, clientFrame({ length: (1n << 53n) - 1n }), 1);
    if (i % 2 === 0) await pour(carriage.conn, new Uint8Array(50_000), 1);
    await closed;
    carriage.close();
  });
  siege.assertBounded("100 endless frames");
  await siege.assertRefused({ [LATE]: 50, [NO_PROTOCOL]: 50 });
});

Deno.test("pings without end from a client that reads nothing are not queued", async () => {
  await using siege = await Siege.begin();
  const ping = clientFrame({ opcode: Opcode.Ping, payload: new Uint8Array(125) });
  const block = join(...Array.from({ length: 500 }, () => ping));
  await many(4, async (i) => {
    const carriage = await WebSocketCarriage.open(await tcpConnection(siege.ws));
    const client = WireClient.over(carriage);
    await client.connect({ clientId: `pinger-${i}` });
    await client.expectConnack();
    await Promise.race([pour(carriage.conn, block, 30 * MIB), sleep(3_000)]);
    siege.assertBounded("pings");
    carriage.close();
  });
});

Deno.test("HTTP heads without end are refused, and slow ones are cut", async () => {
  await using siege = await Siege.begin();
  const line = new TextEncoder().encode(`X-Filler: ${"f".repeat(1_000)}\r\n`);
  const request = new TextEncoder().encode("GET /mqtt HTTP/1.1\r\nHost: x\r\n");
  await many(200, async (i) => {
    const conn = await tcpConnection(siege.ws);
    const closed = readToEnd(conn);
    await pour(conn, request, 1);
    if (i % 2 === 0) await pour(conn, line, 4 * MIB);
    else await pour(conn, line.slice(0, 900), 10_000);
    const answer = new TextDecoder().decode(await closed);
    // Whoever sends on after the answer may lose it to the reset.
    assert.ok(answer === "" || answer.startsWith("HTTP/1.1 431 "), answer);
    conn.close();
  });
  siege.assertBounded("200 endless heads");
  await siege.assertRefused({ [LATE]: 100, [TOO_LARGE]: 100 });
});

Deno.test("WebSocket clients that break the protocol are refused one by one", async () => {
  await using siege = await Siege.begin();
  const breaches = [
    clientFrame({ opcode: Opcode.Text, payload: new Uint8Array(10) }),
    clientFrame({ opcode: Opcode.Continuation, payload: new Uint8Array(10) }),
    clientFrame({ opcode: Opcode.Ping, payload: new Uint8Array(126) }),
    Uint8Array.of(0xc2, 0x80, 1, 2, 3, 4),
  ];
  await many(400, async (i) => {
    const carriage = await WebSocketCarriage.open(await tcpConnection(siege.ws));
    const closed = readToEnd(carriage.conn);
    await pour(carriage.conn, breaches[i % breaches.length], 1);
    await closed;
    carriage.close();
  });
  siege.assertBounded("400 breaches");
  await until("proper round trips", () => siege.trips > 10);
  await siege.assertRefused({ [NO_PROTOCOL]: 400 });
});

Deno.test("PROXY headers: too long, unfinished, of version 1, and none at all", async () => {
  await using siege = await Siege.begin();
  const path = `${siege.broker.directory}/proxied`;
  const oversize = proxyHeader({ entries: [new Uint8Array(65_535 - 12)] });
  const unfinished = proxyHeader({ entries: [new Uint8Array(16_000)] }).slice(0, 12_000);
  const version1 = new TextEncoder().encode("PROXY TCP4 192.0.2.1 192.0.2.2 1 2\r\n");
  await many(200, async (i) => {
    const conn = await Deno.connect({ transport: "unix", path });
    const closed = readToEnd(conn);
    if (i % 4 === 0) await pour(conn, oversize, 1);
    if (i % 4 === 1) await pour(conn, unfinished, 1);
    if (i % 4 === 2) await pour(conn, version1, 1);
    if (i % 4 === 3) await pour(conn, encodeConnect({ level: 5, clientId: "bare" }), 1);
    assert.equal((await closed).length, 0);
    conn.close();
  });
  siege.assertBounded("200 PROXY headers");
  await siege.assertRefused({ [LATE]: 50, [NO_PROTOCOL]: 150 });
});

Deno.test("ten thousand connects with wrong passwords: each refused, counted and forgotten", async () => {
  await using siege = await Siege.begin();
  const tries = 10_000;
  const { trips } = siege;
  let next = 0;
  await many(50, async () => {
    for (let i = next++; i < tries; i = next++) {
      using client = await WireClient.open(siege.guarded);
      const userName = i % 2 === 0 ? "alice" : `stranger-${i}`;
      const password = new TextEncoder().encode(`guess-${i}`);
      await client.connect({ clientId: `guesser-${i}`, userName, password });
      await client.expectConnack(0x86);
    }
  });
  assert.ok(siege.trips > trips + 20, "others were served meanwhile");
  siege.assertBounded("10,000 wrong passwords");
  await siege.assertRefused({ [WRONG_PASSWORD]: tries });
  using alice = await WireClient.open(siege.guarded);
  const password = new TextEncoder().encode("right");
  await alice.connect({ clientId: "alice", userName: "alice", password });
  await alice.expectConnack();
  await alice.disconnect();
});

Deno.test("connecting and leaving, thousands of times over every door, leaves nothing behind", async () => {
  await using siege = await Siege.begin();
  for (let round = 0; round < 50; round++) {
    const { trips } = siege;
    await many(60, async (i) => {
      const conn = await tcpConnection([siege.broker.port, siege.tls, siege.ws][i % 3]);
      if (i % 2 === 0) await pour(conn, Uint8Array.of(0x16), 1);
      conn.close();
    });
    await until("a proper round trip", () => siege.trips > trips);
  }
  siege.assertBounded("3000 visits");
});
