/** Handshake, tuning, heartbeats, and how a connection ends (07 section 4.1). */
import assert from "node:assert/strict";
import { until } from "../support/wait.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { AmqpClient } from "./support/client.ts";
import { AmqpHouse } from "./support/house.ts";

/** The start of a connection up to `tune`. */
async function tuned(house: AmqpHouse): Promise<AmqpClient> {
  const client = await AmqpClient.open(house.port);
  await client.send(amqp.HEADER, amqp.startOk());
  await client.expect("start");
  await client.expect("tune");
  return client;
}

Deno.test("A10 start offers PLAIN, en_US and what works; tune offers what is configured", async () => {
  await using house = await AmqpHouse.open({
    amqp: "channel_max: 100\nframe_max: 64KiB\nheartbeat: 30s",
  });
  using client = await AmqpClient.open(house.port);
  await client.send(amqp.HEADER);
  const start = await client.expect("start");
  assert.deepEqual([start.major, start.minor], [0, 9]);
  assert.equal(start.mechanisms, "PLAIN");
  assert.equal(start.locales, "en_US");
  const properties = new TextDecoder("latin1").decode(start.properties);
  for (const name of ["publisher_confirms", "basic.nack", "consumer_cancel_notify", "saguin"]) {
    assert.ok(properties.includes(name), name);
  }
  await client.send(amqp.startOk());
  const { channelMax, frameMax, heartbeat } = await client.expect("tune");
  assert.deepEqual({ channelMax, frameMax, heartbeat }, {
    channelMax: 100,
    frameMax: 65_536,
    heartbeat: 30,
  });
  await client.send(amqp.tuneOk(100, 65_536, 30), amqp.open());
  assert.equal((await client.expect("open-ok")).reserved, "");
});

Deno.test("section 4.1 another protocol is answered with our header and the end", async () => {
  await using house = await AmqpHouse.open();
  for (const bytes of ["AMQP\x01\x01\x00\x0a", "AMQP\x00\x00\x08\x00", "\x10\x20MQTT", "GET /"]) {
    using client = await AmqpClient.open(house.port);
    await client.send(new TextEncoder().encode(bytes));
    await client.expectHeader();
    await client.expectEnd();
  }
});

Deno.test("A8 a whole session one byte at a time", async () => {
  await using house = await AmqpHouse.open();
  using client = await AmqpClient.open(house.port);
  await client.trickle(amqp.HEADER, amqp.startOk(), amqp.tuneOk(), amqp.open());
  for (const name of ["start", "tune", "open-ok"]) await client.expect(name);
  await client.trickle(
    amqp.channelOpen(1),
    amqp.queueDeclare(1, "q", { args: { "x-queue-type": "classic", a: [1, "b"] } }),
    amqp.publish(1, "", "q", "hello", { properties: { contentType: "t", headers: { a: 1 } } }),
    amqp.get(1, "q", true),
    amqp.close(),
  );
  for (const name of ["channel.open-ok", "queue.declare-ok"]) await client.expect(name);
  const got = await client.expect("get-ok");
  assert.equal(new TextDecoder().decode(got.body), "hello");
  assert.deepEqual(got.properties, amqp.properties({ contentType: "t", headers: { a: 1 } }));
  await client.expect("close-ok");
  await client.expectEnd();
});

Deno.test("A24 everything from header to close in one write is answered in order", async () => {
  await using house = await AmqpHouse.open();
  using client = await AmqpClient.open(house.port);
  await client.send(
    amqp.HEADER,
    amqp.startOk(),
    amqp.tuneOk(),
    amqp.open(),
    amqp.channelOpen(1),
    amqp.confirmSelect(1),
    amqp.queueDeclare(1, "q", { durable: true }),
    amqp.publish(1, "", "q", "a", { properties: amqp.PERSISTENT }),
    amqp.publish(1, "", "q", "b"),
    amqp.get(1, "q"),
    amqp.ack(1, 1),
    amqp.queueDelete(1, "q"),
    amqp.channelClose(1),
    amqp.close(),
  );
  const names: string[] = [];
  while (names.at(-1) !== "close-ok") names.push((await client.next()).name);
  assert.deepEqual(names.filter((name) => name !== "ack"), [
    "start",
    "tune",
    "open-ok",
    "channel.open-ok",
    "select-ok",
    "queue.declare-ok",
    "get-ok",
    "queue.delete-ok",
    "channel.close-ok",
    "close-ok",
  ]);
  assert.ok(names.indexOf("ack") < names.indexOf("get-ok"), "the get sees what was confirmed");
});

Deno.test("A9 any step of the handshake out of order is 504", async () => {
  await using house = await AmqpHouse.open();
  for (
    const bytes of [
      amqp.tuneOk(),
      amqp.open(),
      amqp.channelOpen(1),
      amqp.publish(1, "", "q", ""),
      amqp.method(0, 10, 21, amqp.long("")),
    ]
  ) {
    using client = await AmqpClient.open(house.port);
    await client.send(amqp.HEADER, bytes);
    await client.expect("start");
    await client.expectClose(504);
  }
  using client = await tuned(house);
  await client.send(amqp.startOk());
  await client.expectClose(504);
  using running = await house.client();
  await running.send(amqp.tuneOk());
  await running.expectClose(504);
});

Deno.test("A9 the handshake has its time and no more", async () => {
  await using house = await AmqpHouse.open({ amqp: "handshake_timeout: 3s" });
  using silent = await AmqpClient.open(house.port);
  using halfway = await tuned(house);
  using running = await house.client();
  await house.connections(3);
  await house.time.pass(3_000);
  await silent.expectEnd();
  await halfway.expectEnd();
  await running.declare("still-here");
});

Deno.test("A9 what belongs to another channel: 503, 504 and 505", async () => {
  await using house = await AmqpHouse.open();
  const cases: [number, Uint8Array][] = [
    [503, amqp.frame(8, 1, new Uint8Array())],
    [503, amqp.method(1, 10, 51)],
    [503, amqp.method(1, 10, 50, amqp.u16(200), amqp.short(""), amqp.u16(0), amqp.u16(0))],
    [504, amqp.queueDeclare(0, "q")],
    [504, amqp.channelOpen(0)],
    [505, amqp.contentHeader(0, 0)],
    [505, amqp.frame(3, 0, Uint8Array.of(1))],
  ];
  for (const [code, bytes] of cases) {
    using client = await house.client();
    await client.send(bytes);
    await client.expectClose(code);
  }
});

Deno.test("A11 PLAIN: what is no PLAIN, another mechanism, and a wrong password", async () => {
  await using house = await AmqpHouse.open();
  const login = async (options: amqp.StartOk) => {
    const client = await AmqpClient.open(house.port);
    await client.send(amqp.HEADER, amqp.startOk(options));
    await client.expect("start");
    return client;
  };
  for (const response of ["guest", "\0guest", "\0a\0b\0c", amqp.join([0, 0xc3, 0x28, 0])]) {
    using client = await login({ response });
    await client.expectClose(502);
  }
  using external = await login({ mechanism: "EXTERNAL" });
  await external.expectClose(503);
  using wrong = await login({ user: "anna", password: "wrong" });
  assert.match((await wrong.expectClose(403)).text, /^ACCESS_REFUSED - login refused/);
  using denied = await login({ user: "denied" });
  assert.match((await denied.expectClose(403)).text, /may not connect to AMQP/);
  using right = await login({ response: "somebody\0anna\0secret" });
  await right.expect("tune");
  using blunt = await login({ user: "anna", password: "wrong", properties: {} });
  await blunt.expectSilence();
  await house.time.pass(1_000);
  await blunt.expectEnd();
});

Deno.test("A12 tune-ok above what was offered, and a frame_max below 4096, are 530", async () => {
  await using house = await AmqpHouse.open({ amqp: "channel_max: 10\nframe_max: 64KiB" });
  for (const ok of [amqp.tuneOk(11), amqp.tuneOk(1, 65_537), amqp.tuneOk(1, 4_095)]) {
    using client = await tuned(house);
    await client.send(ok);
    await client.expectClose(530);
  }
  using client = await house.client({ channelMax: 2, frameMax: 4_096 });
  await client.openChannel(2);
  await client.send(amqp.channelOpen(3));
  await client.expectClose(530);
});

Deno.test("A6, A12 after tuning a frame of frame_max is taken, and one byte more is 501", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ frameMax: 4_096 });
  await client.declare("q");
  const body = new Uint8Array(4_096 + 4_097);
  await client.send(
    amqp.publishMethod(1, "", "q"),
    amqp.contentHeader(1, body.length),
    amqp.frame(3, 1, body.subarray(0, 4_096)),
    amqp.frame(3, 1, body.subarray(4_096)),
  );
  await client.expectClose(501);
  using early = await AmqpClient.open(house.port);
  await early.send(amqp.HEADER, amqp.join([1], amqp.u16(0), amqp.u32(8_193)));
  await early.expect("start");
  await early.expectClose(501);
});

Deno.test("A13 another vhost is 530", async () => {
  await using house = await AmqpHouse.open({ amqp: "vhost: plant" });
  using client = await tuned(house);
  await client.send(amqp.tuneOk(), amqp.open("/"));
  assert.equal((await client.expectClose(530)).text, "NOT_ALLOWED - vhost / not found");
  using right = await AmqpClient.open(house.port);
  await right.handshake({ vhost: "plant" });
});

Deno.test("A14 heartbeats leave after half the interval of silence", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ heartbeat: 10 });
  await house.time.pass(4_900);
  await client.expectSilence(50);
  assert.equal(client.heartbeats, 0);
  await house.time.pass(200);
  await client.expectSilence(50);
  assert.equal(client.heartbeats, 1);
});

Deno.test("A14 a silence of twice the interval drops the socket, any octet counts as life", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client({ heartbeat: 10 });
  await client.declare("q");
  await client.send(amqp.publish(1, "", "q", "m"));
  assert.equal((await client.get("q")).name, "get-ok");
  await house.time.pass(19_000);
  await client.send(amqp.frame(8, 0, new Uint8Array()).subarray(0, 3));
  await until("the bytes to arrive", () => house.amqp.host.counters.connections === 1);
  await client.expectSilence(50);
  await house.time.pass(15_000);
  await client.expectSilence(50);
  await house.time.pass(6_000);
  await client.expectEnd();
  using other = await house.client();
  const again = await other.get("q");
  assert.equal(again.redelivered, true, "A47 what was out came back");
});

Deno.test("A14 a heartbeat with a payload is 501, heartbeat 0 sends none", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await house.time.pass(600_000);
  await client.expectSilence(50);
  assert.equal(client.heartbeats, 0);
  await client.send(amqp.frame(8, 0, Uint8Array.of(1)));
  await client.expectClose(501);
});

Deno.test("A15 both sides closing at once: ours is answered, so is theirs", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.send(amqp.queueDeclare(0, "q"), amqp.queueDeclare(1, "ignored"));
  await client.expect("close");
  await client.send(amqp.queueDeclare(1, "ignored"), amqp.close());
  await client.expect("close-ok");
  await client.expectEnd();
});

Deno.test("A15 our close waits five seconds for its answer", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.send(amqp.queueDeclare(0, "q"));
  await client.expect("close");
  await house.time.pass(4_900);
  await client.expectSilence(50);
  await house.time.pass(200);
  await client.expectEnd();
});

Deno.test("A16 at a stop every client is told 320", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  const stopped = house.restart();
  await client.expectClose(320);
  await stopped;
});

Deno.test("after an undecodable frame nothing more is looked at, but the close is answered", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  const bad = amqp.queueDeclare(1, "q");
  bad[bad.length - 1] = 0;
  await client.send(bad, amqp.queueDeclare(1, "never"));
  assert.match((await client.expectClose(501)).text, /^FRAME_ERROR - /);
  using other = await house.client();
  await other.send(amqp.queueDeclare(1, "never", { passive: true }));
  await other.expectChannelClose(404);
});

Deno.test("unknown methods, methods of servers and unsupported ones of channel 0", async () => {
  await using house = await AmqpHouse.open();
  const cases: [number, Uint8Array][] = [
    [503, amqp.method(1, 99, 1)],
    [503, amqp.method(1, 60, 72, amqp.short(""))],
    [503, amqp.method(0, 10, 61)],
    [540, amqp.method(0, 10, 70, amqp.long("new"), amqp.short("why"))],
  ];
  for (const [code, bytes] of cases) {
    using client = await house.client();
    await client.send(bytes);
    await client.expectClose(code);
  }
});

Deno.test("C4 AMQP connections count in limits.max_connections", async () => {
  await using house = await AmqpHouse.open({ limits: "max_connections: 2" });
  using one = await house.client();
  using two = await house.client();
  using three = await AmqpClient.open(house.port);
  await three.expectEnd();
  one.cut();
  await house.connections(1);
  using four = await house.client();
  await four.declare("q");
  await two.declare("q");
});
