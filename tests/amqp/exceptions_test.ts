/**
 * The table of reply codes (07 section 5), row by row: what raises each, what it ends, and which method
 * it names. Every case is played three times: by itself, one byte at a time, and in one write with
 * everything from the protocol header before it and more frames behind it.
 */
import assert from "node:assert/strict";
import { until } from "../support/wait.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { AmqpClient } from "./support/client.ts";
import { AmqpHouse } from "./support/house.ts";

/** What the exception ends; channel 2 lives on after one of channel 1. */
type Scope = "channel" | "connection";

interface Case {
  readonly code: number;
  readonly scope: Scope;
  /** Class and method that the close names; none where no method can be blamed. */
  readonly names?: readonly [classId: number, methodId: number];
  readonly what: string;
  /** What has to be there first, on channel 1. */
  readonly before?: readonly Uint8Array[];
  readonly bytes: Uint8Array;
}

const NOTHING = [0, 0] as const;
const PUBLISH = [60, 40] as const;

const channelCase =
  (code: number) =>
  (what: string, names: readonly [number, number], bytes: Uint8Array, ...before: Uint8Array[]) =>
    ({ code, scope: "channel", what, names, bytes, before }) as Case;
const connectionCase =
  (code: number) =>
  (what: string, names: readonly [number, number], bytes: Uint8Array, ...before: Uint8Array[]) =>
    ({ code, scope: "connection", what, names, bytes, before }) as Case;

const refused = channelCase(403);
const notFound = channelCase(404);
const locked = channelCase(405);
const precondition = channelCase(406);
const missing = channelCase(540);
const frameError = connectionCase(501);
const syntax = connectionCase(502);
const invalid = connectionCase(503);
const channelError = connectionCase(504);
const unexpected = connectionCase(505);
const notAllowed = connectionCase(530);

/** A frame with one byte replaced, counted from its end. */
function spoiled(bytes: Uint8Array, fromEnd: number, value: number): Uint8Array {
  const copy = bytes.slice();
  copy[copy.length - fromEnd] = value;
  return copy;
}

/** basic.publish with a content header whose flags and properties are these bytes. */
function publishWith(...properties: number[]): Uint8Array {
  return amqp.join(
    amqp.publishMethod(1, "", "mine"),
    amqp.contentHeader(1, 0, Uint8Array.from(properties)),
  );
}

/** A queue.declare whose argument table is these bytes. */
function declareWith(...table: number[]): Uint8Array {
  const bytes = Uint8Array.from(table);
  return amqp.method(1, 50, 10, amqp.u16(0), amqp.short("t"), [0], amqp.long(bytes));
}

const recoverAsync = amqp.method(1, 60, 100, [0]);
const exchangeBind = (methodId: number) =>
  amqp.method(
    1,
    40,
    methodId,
    amqp.u16(0),
    amqp.short("a"),
    amqp.short("b"),
    amqp.short(""),
    [0],
    amqp.table(),
  );

const CASES: readonly Case[] = [
  refused("a new queue amq.*", [50, 10], amqp.queueDeclare(1, "amq.mine")),
  refused("a new exchange amq.*", [40, 10], amqp.exchangeDeclare(1, "amq.mine", "direct")),
  refused("deleting amq.direct", [40, 20], amqp.exchangeDelete(1, "amq.direct")),
  refused("declaring the default exchange", [40, 10], amqp.exchangeDeclare(1, "", "direct")),
  refused("deleting the default exchange", [40, 20], amqp.exchangeDelete(1, "")),
  refused("binding to the default exchange", [50, 20], amqp.queueBind(1, "free", "", "k")),
  refused("unbinding from the default exchange", [50, 50], amqp.queueUnbind(1, "free", "", "k")),
  refused("beside an exclusive consumer", [60, 20], amqp.consume(1, "shared")),
  refused("exclusively, beside another", [60, 20], amqp.consume(1, "held", { exclusive: true })),
  notFound("passive queue", [50, 10], amqp.queueDeclare(1, "none", { passive: true })),
  notFound(
    "passive, no-wait",
    [50, 10],
    amqp.queueDeclare(1, "none", { passive: true, noWait: true }),
  ),
  notFound(
    "passive exchange",
    [40, 10],
    amqp.exchangeDeclare(1, "none", "direct", { passive: true }),
  ),
  notFound(
    "an exchange this broker lacks",
    [40, 10],
    amqp.exchangeDeclare(1, "amq.headers", "headers", { passive: true }),
  ),
  notFound("binding no queue", [50, 20], amqp.queueBind(1, "none", "amq.topic", "k")),
  notFound("binding to no exchange", [50, 20], amqp.queueBind(1, "free", "none", "k")),
  notFound("consuming", [60, 20], amqp.consume(1, "none")),
  notFound("getting", [60, 70], amqp.get(1, "none")),
  notFound("purging", [50, 30], amqp.queuePurge(1, "none")),
  notFound("publishing", PUBLISH, amqp.publish(1, "none", "k", "body")),
  notFound("an empty name: bind", [50, 20], amqp.queueBind(1, "", "amq.topic", "k")),
  notFound("an empty name: unbind", [50, 50], amqp.queueUnbind(1, "", "amq.topic", "k")),
  notFound("an empty name: consume", [60, 20], amqp.consume(1, "")),
  notFound("an empty name: get", [60, 70], amqp.get(1, "")),
  notFound("an empty name: purge", [50, 30], amqp.queuePurge(1, "")),
  notFound("an empty name: delete", [50, 40], amqp.queueDelete(1, "")),
  locked("declare", [50, 10], amqp.queueDeclare(1, "theirs", { exclusive: true })),
  locked("passive declare", [50, 10], amqp.queueDeclare(1, "theirs", { passive: true })),
  locked("bind", [50, 20], amqp.queueBind(1, "theirs", "amq.topic", "k")),
  locked("unbind", [50, 50], amqp.queueUnbind(1, "theirs", "amq.topic", "k")),
  locked("consume", [60, 20], amqp.consume(1, "theirs")),
  locked("get", [60, 70], amqp.get(1, "theirs")),
  locked("purge", [50, 30], amqp.queuePurge(1, "theirs")),
  locked("delete", [50, 40], amqp.queueDelete(1, "theirs")),
  locked("another exclusive flag", [50, 10], amqp.queueDeclare(1, "free", { exclusive: true })),
  precondition("queue: durable", [50, 10], amqp.queueDeclare(1, "free", { durable: true })),
  precondition("queue: auto-delete", [50, 10], amqp.queueDeclare(1, "free", { autoDelete: true })),
  precondition("queue: arguments", [50, 10], amqp.queueDeclare(1, "free", { args: { a: 1 } })),
  precondition("exchange: type", [40, 10], amqp.exchangeDeclare(1, "x", "fanout")),
  precondition(
    "exchange: durable",
    [40, 10],
    amqp.exchangeDeclare(1, "x", "direct", { durable: true }),
  ),
  precondition(
    "exchange: auto-delete",
    [40, 10],
    amqp.exchangeDeclare(1, "x", "direct", { autoDelete: true }),
  ),
  precondition(
    "exchange: arguments",
    [40, 10],
    amqp.exchangeDeclare(1, "x", "direct", { args: { a: 1 } }),
  ),
  precondition("exchange if-unused", [40, 20], amqp.exchangeDelete(1, "x", { ifUnused: true })),
  precondition("queue if-unused", [50, 40], amqp.queueDelete(1, "held", { ifUnused: true })),
  precondition("queue if-empty", [50, 40], amqp.queueDelete(1, "free", { ifEmpty: true })),
  precondition("ack of an unknown tag", [60, 80], amqp.ack(1, 9)),
  precondition("ack of tag 0", [60, 80], amqp.ack(1, 0)),
  precondition(
    "ack of what no counter reaches",
    [60, 80],
    amqp.method(1, 60, 80, new Uint8Array(8).fill(255), [0]),
  ),
  precondition("nack of an unknown tag", [60, 120], amqp.nack(1, 9, { multiple: true })),
  precondition("reject of an unknown tag", [60, 90], amqp.reject(1, 9, true)),
  precondition(
    "a body above max_message_size, at its header",
    PUBLISH,
    amqp.join(amqp.publishMethod(1, "", "free"), amqp.contentHeader(1, 2 ** 40)),
  ),
  missing("headers exchange", [40, 10], amqp.exchangeDeclare(1, "h", "headers")),
  missing("an exchange type nobody knows", [40, 10], amqp.exchangeDeclare(1, "h", "x-delayed")),
  missing(
    "internal exchange",
    [40, 10],
    amqp.exchangeDeclare(1, "h", "direct", { internal: true }),
  ),
  missing(
    "alternate-exchange",
    [40, 10],
    amqp.exchangeDeclare(1, "h", "direct", { args: { "alternate-exchange": "x" } }),
  ),
  missing("exchange.bind", [40, 30], exchangeBind(30)),
  missing("exchange.unbind", [40, 40], exchangeBind(40)),
  missing("tx.select", [90, 10], amqp.method(1, 90, 10)),
  missing("tx.commit", [90, 20], amqp.method(1, 90, 20)),
  missing("tx.rollback", [90, 30], amqp.method(1, 90, 30)),
  missing("immediate", PUBLISH, amqp.publish(1, "", "free", "b", { immediate: true })),
  missing("prefetch-size", [60, 10], amqp.qos(1, 1, false, 4_096)),
  missing("flow off", [20, 20], amqp.flow(1, false)),
  missing("recover without requeue", [60, 110], amqp.recover(1, false)),
  missing("recover-async without requeue", [60, 100], recoverAsync),
  missing(
    "a queue's x-max-length",
    [50, 10],
    amqp.queueDeclare(1, "l", { args: { "x-max-length": 1 } }),
  ),
  missing(
    "a quorum queue",
    [50, 10],
    amqp.queueDeclare(1, "l", { args: { "x-queue-type": "quorum" } }),
  ),
  missing(
    "a consumer's x-priority",
    [60, 20],
    amqp.consume(1, "free", { args: { "x-priority": 1 } }),
  ),
  missing(
    "expiration",
    PUBLISH,
    amqp.publish(1, "", "free", "b", { properties: { expiration: "10" } }),
  ),
  missing(
    "direct reply-to",
    PUBLISH,
    amqp.publish(1, "", "free", "b", { properties: { replyTo: "amq.rabbitmq.reply-to" } }),
  ),

  frameError("a bad end octet", NOTHING, spoiled(amqp.queueDeclare(1, "t"), 1, 0)),
  frameError("an unknown frame type", NOTHING, amqp.frame(4, 1, new Uint8Array())),
  frameError("a frame above frame_max", NOTHING, amqp.join([1], amqp.u16(1), amqp.u32(2 ** 31))),
  frameError("arguments that end early", NOTHING, amqp.method(1, 50, 30, amqp.u16(0))),
  frameError("arguments that end late", NOTHING, amqp.method(1, 20, 41, [0])),
  frameError("a text that is not UTF-8", NOTHING, amqp.method(1, 60, 30, [2, 0xc3, 0x28], [0])),
  frameError("a heartbeat with a payload", NOTHING, amqp.frame(8, 0, Uint8Array.of(0))),
  frameError(
    "a body longer than its header says",
    PUBLISH,
    amqp.join(
      amqp.publishMethod(1, "", "free"),
      amqp.contentHeader(1, 1),
      amqp.frame(3, 1, Uint8Array.of(1, 2)),
    ),
  ),
  frameError(
    "a content header of weight 1",
    PUBLISH,
    amqp.join(
      amqp.publishMethod(1, "", "free"),
      amqp.frame(2, 1, amqp.join(amqp.u16(60), amqp.u16(1), amqp.u64(0), amqp.u16(0))),
    ),
  ),
  syntax("a table of an unknown type", NOTHING, declareWith(1, 0x61, 0x51, 0)),
  syntax("a table past its end", NOTHING, declareWith(1, 0x61, 0x53, 0, 0, 1, 0)),
  syntax("properties with a second flags word", PUBLISH, publishWith(0, 1, 0, 0)),
  syntax("properties shorter than their flags say", PUBLISH, publishWith(0x80, 0)),
  syntax("properties longer than their flags say", PUBLISH, publishWith(0, 0, 1)),
  syntax("headers that are no table", PUBLISH, publishWith(0x20, 0, 0, 0, 0, 9)),
  invalid(
    "connection.close on a channel",
    [10, 50],
    amqp.method(1, 10, 50, amqp.u16(200), [0], amqp.u32(0)),
  ),
  invalid("connection.tune-ok on a channel", [10, 31], amqp.method(1, 10, 31, amqp.u64(0))),
  invalid("a heartbeat on a channel", NOTHING, amqp.frame(8, 1, new Uint8Array())),
  invalid("a class nobody knows", NOTHING, amqp.method(1, 70, 10)),
  invalid("a method nobody knows", NOTHING, amqp.method(1, 60, 41)),
  invalid("basic.get-empty from a client", [60, 72], amqp.method(1, 60, 72, amqp.short(""))),
  invalid("connection.unblocked from a client", [10, 61], amqp.method(0, 10, 61)),
  channelError("a method on a channel not open", [50, 10], amqp.queueDeclare(9, "t")),
  channelError("content on a channel not open", NOTHING, amqp.contentHeader(9, 0)),
  channelError("channel.close-ok on a channel not open", [20, 41], amqp.channelCloseOk(9)),
  channelError("opening channel 1 twice", [20, 10], amqp.channelOpen(1)),
  channelError("opening channel 0", [20, 10], amqp.channelOpen(0)),
  channelError("a method on channel 0", [50, 10], amqp.queueDeclare(0, "t")),
  channelError("tune-ok again", [10, 31], amqp.tuneOk()),
  channelError("open again", [10, 40], amqp.open()),
  channelError("secure-ok", [10, 21], amqp.method(0, 10, 21, amqp.long(""))),
  unexpected("a header without a method", NOTHING, amqp.contentHeader(1, 0)),
  unexpected("a body without a method", NOTHING, amqp.frame(3, 1, Uint8Array.of(1))),
  unexpected(
    "a body before its header",
    PUBLISH,
    amqp.join(amqp.publishMethod(1, "", "free"), amqp.frame(3, 1, Uint8Array.of(1))),
  ),
  unexpected(
    "a method inside content",
    [50, 30],
    amqp.join(amqp.publishMethod(1, "", "free"), amqp.queuePurge(1, "free")),
  ),
  unexpected(
    "a header of another class",
    PUBLISH,
    amqp.join(
      amqp.publishMethod(1, "", "free"),
      amqp.frame(2, 1, amqp.join(amqp.u16(50), amqp.u16(0), amqp.u64(0), amqp.u16(0))),
    ),
  ),
  unexpected("a header on channel 0", NOTHING, amqp.contentHeader(0, 0)),
  unexpected("a body on channel 0", NOTHING, amqp.frame(3, 0, Uint8Array.of(1))),
  notAllowed("a channel above channel_max", [20, 10], amqp.channelOpen(2_048)),
  notAllowed(
    "a consumer tag in use",
    [60, 20],
    amqp.consume(1, "free", { tag: "c" }),
    amqp.consume(1, "free", { tag: "c", noWait: true }),
  ),
  connectionCase(540)(
    "connection.update-secret",
    [10, 70],
    amqp.method(0, 10, 70, amqp.long("new"), amqp.short("why")),
  ),
];

/** What the cases find there. */
async function furnish(house: AmqpHouse): Promise<AmqpClient> {
  const client = await house.client();
  await client.declare("theirs", { exclusive: true });
  await client.declare("free");
  await client.declare("held");
  await client.call(amqp.consume(1, "held"), "consume-ok");
  await client.declare("shared");
  await client.call(amqp.consume(1, "shared", { exclusive: true }), "consume-ok");
  await client.call(amqp.exchangeDeclare(1, "x", "direct"), "exchange.declare-ok");
  await client.call(amqp.queueBind(1, "held", "x", "k"), "bind-ok");
  await client.send(amqp.publish(1, "", "free", "something"));
  return client;
}

/** The close that a case asks for, with whatever was answered before it. */
async function closed(client: AmqpClient): Promise<Record<string, unknown>> {
  for (;;) {
    const received = await client.next();
    if (received.name === "close" || received.name === "channel.close") return received;
  }
}

async function judge(client: AmqpClient, { code, scope, names, what }: Case): Promise<void> {
  const { name, channel, classId, methodId, code: raised, text } = await closed(client);
  const expected = scope === "channel" ? ["channel.close", 1] : ["close", 0];
  assert.deepEqual([name, channel, raised], [...expected, code], `${what}: ${text}`);
  assert.deepEqual([classId, methodId], names, `${what}: the method at fault`);
  assert.match(String(text), /^[A-Z]+_[A-Z]+ - ./, what);
  if (scope === "connection") {
    await client.send(amqp.closeOk);
    return await client.expectEnd();
  }
  await client.send(amqp.channelCloseOk(1));
  // Its neighbour is undisturbed, and its number is free.
  await client.declare("neighbour", {}, 2);
  await client.openChannel(1);
}

Deno.test("section 5, A20, A21 every row of the table: code, scope and method, by itself", async () => {
  await using house = await AmqpHouse.open();
  using _ = await furnish(house);
  for (const each of CASES) {
    using client = await house.client({ channels: 2 });
    await client.send(...each.before ?? [], each.bytes);
    await judge(client, each);
  }
  // A refusal is a warning (02b 3.1), so that the log counts what a client causes over and over.
  const { lines } = house.house.log;
  const said = lines.filter(({ msg }) => msg === "closed an AMQP channel");
  assert.equal(said.length, CASES.filter(({ scope }) => scope === "channel").length);
  assert.ok(said.every(({ level }) => level === "warn"));
});

Deno.test("section 5, A8 every row of the table, one byte at a time", async () => {
  await using house = await AmqpHouse.open();
  using _ = await furnish(house);
  for (const each of CASES) {
    using client = await house.client({ channels: 2 });
    try {
      await client.trickle(...each.before ?? [], each.bytes);
    } catch (error) {
      // An oversized frame is judged by its header.
      if (!(error instanceof Deno.errors.ConnectionReset)) throw error;
    }
    await judge(client, each);
  }
});

Deno.test("section 5, A8, A20 every row of the table, among many frames in one read", async () => {
  await using house = await AmqpHouse.open();
  using _ = await furnish(house);
  const greeting = [
    amqp.HEADER,
    amqp.startOk(),
    amqp.tuneOk(),
    amqp.open(),
    amqp.channelOpen(1),
    amqp.channelOpen(2),
    amqp.frame(8, 0, new Uint8Array()),
  ];
  for (const each of CASES) {
    using client = await AmqpClient.open(house.port);
    // Behind the fault nothing on its channel is heard, however much.
    const behind = Array.from({ length: 20 }, () => amqp.queueDeclare(1, "unheard"));
    await client.send(
      ...greeting,
      amqp.publish(2, "", "nowhere", "x"),
      ...each.before ?? [],
      each.bytes,
      ...behind,
    );
    await judge(client, each);
  }
  assert.ok(!house.amqp.host.queues.has("unheard"));
});

Deno.test("section 5 the rows of logins and of opening: 403, 502, 503, 504, 530, and whom they name", async () => {
  await using house = await AmqpHouse.open({ amqp: "channel_max: 10\nframe_max: 64KiB" });
  const startOk = [10, 11] as const;
  const tuneOk = [10, 31] as const;
  const cases: [number, readonly number[], Uint8Array[]][] = [
    [403, startOk, [amqp.startOk({ password: "wrong" })]],
    [403, startOk, [amqp.startOk({ user: "denied" })]],
    [502, startOk, [amqp.startOk({ response: "guest" })]],
    [503, startOk, [amqp.startOk({ mechanism: "EXTERNAL" })]],
    [504, [10, 40], [amqp.open()]],
    [504, [20, 10], [amqp.channelOpen(1)]],
    [530, tuneOk, [amqp.startOk(), amqp.tuneOk(11)]],
    [530, tuneOk, [amqp.startOk(), amqp.tuneOk(1, 65_537)]],
    [530, tuneOk, [amqp.startOk(), amqp.tuneOk(1, 4_095)]],
    [530, [10, 40], [amqp.startOk(), amqp.tuneOk(), amqp.open("/other")]],
  ];
  for (const [code, names, frames] of cases) {
    for (const way of ["whole", "trickle"] as const) {
      using client = await AmqpClient.open(house.port);
      await (way === "whole"
        ? client.send(amqp.HEADER, ...frames)
        : client.trickle(amqp.HEADER, ...frames));
      const { name, code: raised, classId, methodId } = await closed(client);
      assert.deepEqual([name, raised, classId, methodId], ["close", code, ...names], way);
      await client.send(amqp.closeOk);
      await client.expectEnd();
    }
  }
});

Deno.test("section 5 the rows of storage and of bounds: 506 and 541, and whom they name", async () => {
  await using house = await AmqpHouse.open({ amqp: "max_objects: 2" });
  using owner = await house.client({ properties: {} });
  await owner.declare("q", { durable: true });
  const persistent = amqp.publish(1, "", "q", "lost", { properties: amqp.PERSISTENT });
  const failing = async (kind: "full" | "failed", code: number) => {
    using client = await house.client({ properties: {} });
    house.house.faults.refuse("submit", kind, 1);
    await client.send(persistent);
    const closed = await client.expectClose(code);
    assert.deepEqual([closed.classId, closed.methodId], PUBLISH);
    await until("the probe", async () => {
      await house.time.pass(1_000);
      return house.amqp.host.alarm.reason === undefined;
    });
  };
  await failing("full", 506);
  await failing("failed", 541);
  await owner.declare("second");
  const full: [readonly number[], Uint8Array][] = [
    [[50, 10], amqp.queueDeclare(1, "third")],
    [[40, 10], amqp.exchangeDeclare(1, "third", "direct")],
    [[50, 20], amqp.queueBind(1, "second", "amq.topic", "k")],
  ];
  for (const [names, bytes] of full) {
    using client = await house.client();
    await client.send(bytes);
    const closed = await client.expectClose(506);
    assert.deepEqual([closed.classId, closed.methodId], names);
  }
  // 320 of a stop names nobody.
  const stopped = house.restart();
  const { classId, methodId } = await owner.expectClose(320);
  assert.deepEqual([classId, methodId], NOTHING);
  await stopped;
});
