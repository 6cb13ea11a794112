/** Exchanges, bindings and routing (07 section 7). */
import assert from "node:assert/strict";
import { Exchange, type ExchangeType } from "../../src/amqp/exchanges/exchange.ts";
import { TopicKeys } from "../../src/amqp/exchanges/topic_keys.ts";
import { EMPTY_TABLE } from "../../src/amqp/wire/table.ts";
import { type Random, seeded } from "../support/random.ts";
import * as amqp from "./support/amqp_bytes.ts";
import { AmqpHouse } from "./support/house.ts";

function routed(pattern: string, key: string): boolean {
  const keys = new TopicKeys<string>();
  keys.add(pattern, "q");
  let found = false;
  keys.match(key, () => found = true);
  return found;
}

Deno.test("A31, A32 the table of patterns: what matches and what does not", () => {
  const table: [pattern: string, matches: string[], not: string[]][] = [
    ["line.*.alarm", ["line.7.alarm"], ["line.alarm", "line.7.press.alarm"]],
    ["line.#", ["line", "line.7", "line.7.press"], ["lines.7"]],
    ["#.alarm", ["alarm", "line.7.alarm"], ["alarm.off"]],
    ["a.#.z", ["a.z", "a.b.c.z"], ["a.z.q"]],
    ["*.*.#", ["a.b", "a.b.c"], ["a"]],
    ["a.*.b", ["a.x.b", "a..b"], ["a.b"]],
    ["#", ["", "a", "a.b.c", "."], []],
    ["*", ["a"], ["", "a.b"]],
    ["", [""], ["a", "."]],
    ["a*", ["a*"], ["ab"]],
    ["a.b#", ["a.b#"], ["a.b", "a.b.c"]],
    ["#.#", ["", "a", "a.b"], []],
    ["*.#.*", ["a.b", "a.b.c"], ["a", ""]],
  ];
  for (const [pattern, matches, not] of table) {
    for (const key of matches) assert.ok(routed(pattern, key), `${pattern} takes ${key}`);
    for (const key of not) assert.ok(!routed(pattern, key), `${pattern} does not take ${key}`);
  }
});

/** The rule as the specification writes it, for patterns short enough. */
function matches(pattern: readonly string[], words: readonly string[]): boolean {
  if (pattern.length === 0) return words.length === 0;
  const [first, ...rest] = pattern;
  if (first === "#") {
    return matches(rest, words) || words.length > 0 && matches(pattern, words.slice(1));
  }
  return words.length > 0 && (first === "*" || first === words[0]) &&
    matches(rest, words.slice(1));
}

function key(random: Random, letters: readonly string[], most: number): string {
  return Array.from({ length: random.below(most) }, () => random.pick(letters)).join(".");
}

Deno.test("A32 many bindings at once match as each would alone, and removed ones do not", () => {
  const random = seeded("topic keys");
  for (let round = 0; round < 60; round++) {
    const keys = new TopicKeys<string>();
    const bound = new Map<string, string>();
    for (let i = 0; i < 40; i++) {
      const pattern = key(random, ["a", "b", "*", "#", ""], 6);
      const value = String(i);
      keys.add(pattern, value);
      bound.set(value, pattern);
    }
    for (const value of [...bound.keys()]) {
      if (!random.chance(0.4)) continue;
      keys.remove(bound.get(value)!, value);
      bound.delete(value);
    }
    for (let i = 0; i < 60; i++) {
      const text = key(random, ["a", "b", "c", ""], 7);
      const words = text === "" ? [] : text.split(".");
      const found = new Set<string>();
      keys.match(text, (value) => found.add(value));
      const expected = [...bound].filter(([, pattern]) =>
        matches(pattern === "" ? [] : pattern.split("."), words)
      ).map(([value]) => value);
      assert.deepEqual([...found].sort(), expected.sort(), text);
    }
  }
});

Deno.test("A32 twenty # words against a key of sixty words take well under a millisecond", () => {
  const keys = new TopicKeys<string>();
  const pattern = Array.from({ length: 20 }, (_, i) => i % 2 ? "a" : "#").join(".") + ".#.b";
  keys.add(pattern, "q");
  keys.add(new Array(20).fill("#").join("."), "r");
  const text = new Array(60).fill("a").join(".");
  for (let i = 0; i < 100; i++) keys.match(text, () => {});
  let found = 0;
  let best = Infinity;
  for (let i = 0; i < 100; i++) {
    const started = performance.now();
    keys.match(text, () => found++);
    best = Math.min(best, performance.now() - started);
  }
  assert.ok(best < 1, `the fastest of a hundred took ${best} ms`);
  assert.ok(found >= 100);
});

Deno.test("A31 a queue gets one copy whatever number of bindings match, by type", () => {
  const expected: Record<ExchangeType, string[]> = {
    direct: ["one"],
    fanout: ["one", "two"],
    topic: ["one", "two"],
  };
  for (const type of ["direct", "fanout", "topic"] as const) {
    const options = { type, durable: false, autoDelete: false, args: EMPTY_TABLE };
    const exchange = new Exchange<string>("x", options);
    const bind = (queue: string, routingKey: string) =>
      exchange.bind({ exchange, queue, routingKey, args: EMPTY_TABLE, stored: false });
    bind("one", "a.b");
    bind("one", "#");
    bind("one", "*.b");
    bind("two", "a.#");
    bind("three", "nothing");
    const queues = [...exchange.route("a.b")].sort();
    assert.deepEqual(queues.filter((queue) => queue !== "three"), expected[type]);
    assert.equal(queues.includes("three"), type === "fanout");
  }
});

Deno.test("A31 what an exchange remembers of its keys is bounded by the queues they lead to", () => {
  const made = (type: ExchangeType) => {
    const options = { type, durable: false, autoDelete: false, args: EMPTY_TABLE };
    const exchange = new Exchange<number>("x", options);
    for (let queue = 0; queue < 2_000; queue++) {
      exchange.bind({ exchange, queue, routingKey: "#", args: EMPTY_TABLE, stored: false });
    }
    return exchange;
  };
  const fanout = made("fanout");
  assert.equal(fanout.route("a"), fanout.route("b"), "every key is the same");
  const topic = made("topic");
  const first = topic.route("key");
  assert.equal(topic.route("key"), first, "remembered");
  for (let i = 0; i < 20; i++) assert.equal(topic.route(`other.${i}`).length, 2_000);
  assert.notEqual(topic.route("key"), first, "and forgotten");
  assert.deepEqual(topic.route("key"), first);
});

Deno.test("A26 the pre-declared exchanges are there; others beginning amq. are not", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  for (const [name, type] of [["direct", "direct"], ["fanout", "fanout"], ["topic", "topic"]]) {
    await client.call(
      amqp.exchangeDeclare(1, `amq.${name}`, type, { durable: true }),
      "exchange.declare-ok",
    );
    await client.call(
      amqp.exchangeDeclare(1, `amq.${name}`, "", { passive: true }),
      "exchange.declare-ok",
    );
  }
  for (const name of ["amq.headers", "amq.match"]) {
    await client.send(amqp.exchangeDeclare(1, name, "", { passive: true }));
    await client.expectChannelClose(404);
    await client.openChannel(1);
  }
  await client.send(amqp.exchangeDeclare(1, "amq.mine", "topic"));
  await client.expectChannelClose(403);
  await client.openChannel(1);
  await client.send(amqp.exchangeDelete(1, "amq.topic"));
  await client.expectChannelClose(403);
});

Deno.test("A27 the default exchange takes publishes and nothing else", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q");
  for (
    const bytes of [
      amqp.exchangeDeclare(1, "", "direct"),
      amqp.exchangeDeclare(1, "", "direct", { passive: true }),
      amqp.exchangeDelete(1, ""),
      amqp.queueBind(1, "q", ""),
      amqp.queueUnbind(1, "q", "", "q"),
    ]
  ) {
    await client.send(bytes);
    await client.expectChannelClose(403);
    await client.openChannel(1);
  }
  await client.send(amqp.publish(1, "", "q", "m"));
  assert.deepEqual(await client.drain("q"), ["m"]);
});

Deno.test("A28 declaring again has to say the same", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  const declare = (type: string, options: amqp.ExchangeDeclare = {}) =>
    amqp.exchangeDeclare(1, "x", type, options);
  await client.call(declare("direct", { args: { a: 1, b: "c" } }), "exchange.declare-ok");
  await client.call(declare("direct", { args: { b: "c", a: 1 } }), "exchange.declare-ok");
  await client.call(declare("other", { passive: true, durable: true }), "exchange.declare-ok");
  const others: [Uint8Array, RegExp][] = [
    [
      declare("fanout", { args: { a: 1, b: "c" } }),
      /^PRECONDITION_FAILED - inequivalent arg 'type' for exchange 'x' in vhost '\/': received 'fanout' but current is 'direct'$/,
    ],
    [
      declare("direct", { durable: true, args: { a: 1, b: "c" } }),
      /arg 'durable'.*'true'.*'false'/,
    ],
    [declare("direct", { autoDelete: true, args: { a: 1, b: "c" } }), /arg 'auto_delete'/],
    [declare("direct", { args: { a: 2, b: "c" } }), /arg 'a'.*received '2' but current is '1'/],
    [declare("direct"), /arg 'a'/],
  ];
  for (const [bytes, says] of others) {
    await client.send(bytes);
    assert.match((await client.expectChannelClose(406)).text, says);
    await client.openChannel(1);
  }
});

Deno.test("A22 exchange types, internal and alternate exchanges are refused by name", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  const cases: [Uint8Array, RegExp][] = [
    [
      amqp.exchangeDeclare(1, "x", "headers"),
      /'headers' is not supported; .*direct, fanout, topic/,
    ],
    [amqp.exchangeDeclare(1, "x", "x-delayed-message"), /x-delayed-message/],
    [amqp.exchangeDeclare(1, "x", "direct", { internal: true }), /internal exchanges/],
    [
      amqp.exchangeDeclare(1, "x", "direct", { args: { "alternate-exchange": "y" } }),
      /alternate-exchange/,
    ],
  ];
  for (const [bytes, says] of cases) {
    await client.send(bytes);
    assert.match((await client.expectChannelClose(540)).text, says);
    await client.openChannel(1);
  }
});

Deno.test("A29 delete: idempotent, if-unused looks at bindings, bindings go too", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.call(amqp.exchangeDelete(1, "nothing"), "exchange.delete-ok");
  await client.call(amqp.exchangeDeclare(1, "x", "fanout"), "exchange.declare-ok");
  await client.declare("q");
  await client.call(amqp.queueBind(1, "q", "x"), "bind-ok");
  await client.send(amqp.exchangeDelete(1, "x", { ifUnused: true }));
  assert.match((await client.expectChannelClose(406)).text, /exchange 'x' .*in use/);
  await client.openChannel(1);
  await client.call(amqp.exchangeDelete(1, "x"), "exchange.delete-ok");
  await client.call(amqp.exchangeDeclare(1, "x", "fanout"), "exchange.declare-ok");
  await client.call(amqp.exchangeDelete(1, "x", { ifUnused: true }), "exchange.delete-ok");
});

Deno.test("A29 an auto-delete exchange goes with its last binding, if it had one", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.call(
    amqp.exchangeDeclare(1, "x", "topic", { autoDelete: true }),
    "exchange.declare-ok",
  );
  await client.declare("q");
  await client.declare("r");
  await client.call(amqp.queueBind(1, "q", "x", "a"), "bind-ok");
  await client.call(amqp.queueBind(1, "r", "x", "a"), "bind-ok");
  await client.call(amqp.queueUnbind(1, "q", "x", "a"), "unbind-ok");
  const passive = amqp.exchangeDeclare(1, "x", "", { passive: true });
  await client.call(passive, "exchange.declare-ok");
  await client.call(amqp.queueDelete(1, "r"), "queue.delete-ok");
  await client.send(passive);
  await client.expectChannelClose(404);
});

Deno.test("A30 binding twice is once, unbinding what is not bound succeeds, missing ends are 404", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.declare("q");
  await client.call(amqp.exchangeDeclare(1, "x", "direct"), "exchange.declare-ok");
  await client.call(amqp.queueUnbind(1, "q", "x", "k"), "unbind-ok");
  await client.call(amqp.queueBind(1, "q", "x", "k"), "bind-ok");
  await client.call(amqp.queueBind(1, "q", "x", "k"), "bind-ok");
  await client.call(amqp.queueBind(1, "q", "x", "k", { args: { a: 1 } }), "bind-ok");
  await client.send(amqp.publish(1, "x", "k", "one"));
  assert.deepEqual(await client.drain("q"), ["one"]);
  await client.call(amqp.queueUnbind(1, "q", "x", "k"), "unbind-ok");
  await client.send(amqp.publish(1, "x", "k", "two"));
  assert.deepEqual(await client.drain("q"), ["two"], "the binding with arguments is another one");
  for (const bytes of [amqp.queueBind(1, "q", "no", "k"), amqp.queueBind(1, "no", "x", "k")]) {
    await client.send(bytes);
    await client.expectChannelClose(404);
    await client.openChannel(1);
  }
});

Deno.test("A33 a publish to a missing exchange is 404, one that matches nothing is dropped", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.call(amqp.confirmSelect(1), "select-ok");
  await client.call(amqp.exchangeDeclare(1, "x", "direct"), "exchange.declare-ok");
  await client.send(amqp.publish(1, "x", "nobody", "m"));
  assert.equal((await client.expect("ack")).delivery, 1);
  await client.send(amqp.publish(1, "nowhere", "k", "m"));
  const closed = await client.expectChannelClose(404);
  assert.deepEqual([closed.classId, closed.methodId], [60, 40]);
  assert.equal(closed.text, "NOT_FOUND - no exchange 'nowhere' in vhost '/'");
});

Deno.test("A30, A59 durable exchanges and bindings survive, transient ones do not", async () => {
  await using house = await AmqpHouse.open();
  using client = await house.client();
  await client.call(
    amqp.exchangeDeclare(1, "lasting", "topic", { durable: true, args: { a: 1 } }),
    "exchange.declare-ok",
  );
  await client.call(amqp.exchangeDeclare(1, "passing", "topic"), "exchange.declare-ok");
  await client.declare("q", { durable: true });
  await client.declare("t");
  for (const exchange of ["lasting", "passing", "amq.topic"]) {
    for (const queue of ["q", "t"]) {
      await client.call(amqp.queueBind(1, queue, exchange, "a.#"), "bind-ok");
    }
  }
  assert.deepEqual(
    house.rows("SELECT exchange, rkey FROM amqp_bind ORDER BY exchange"),
    [{ exchange: "amq.topic", rkey: "a.#" }, { exchange: "lasting", rkey: "a.#" }],
  );
  await using after = await house.killed();
  using other = await after.client();
  await other.call(
    amqp.exchangeDeclare(1, "lasting", "topic", { durable: true, args: { a: 1 } }),
    "exchange.declare-ok",
  );
  for (const exchange of ["lasting", "amq.topic"]) {
    await other.send(amqp.publish(1, exchange, "a.b", exchange));
  }
  assert.deepEqual(await other.drain("q"), ["lasting", "amq.topic"]);
  await other.send(amqp.exchangeDeclare(1, "passing", "", { passive: true }));
  await other.expectChannelClose(404);
});
