/** What the rules of 02b section 7 grant and refuse, one sentence a line. */
import assert from "node:assert/strict";
import { AccessControl } from "../../../src/auth/acl/access.ts";
import type { ClientRules } from "../../../src/auth/acl/client_rules.ts";
import { FEATURES } from "../../../src/auth/acl/document.ts";
import type { Configuration } from "../../../src/config/configuration.ts";
import { acl, everybody, oneRole, PLANT } from "../support.ts";

function rules(...written: readonly string[]): ClientRules {
  return everybody(...written).rules("u1", "c1");
}

type Question =
  | readonly ["publish" | "delete" | "read", topic: string, channel: string | undefined]
  | readonly ["subscribe", filter: string]
  | readonly ["consume" | "seek", channel: string];

function ask(of: ClientRules, [act, name, channel]: Question): boolean {
  switch (act) {
    case "publish":
      return of.mayPublish(name, channel, false);
    case "delete":
      return of.mayPublish(name, channel, true);
    case "read":
      return of.mayRead(name, channel);
    case "subscribe":
      return of.maySubscribe(name);
    case "consume":
      return of.mayConsume(name);
    case "seek":
      return of.maySeek(name);
  }
}

type Case = readonly [
  says: string,
  rules: readonly string[],
  granted: readonly Question[],
  refused: readonly Question[],
];

const BROADCAST = undefined;

const CASES: readonly Case[] = [
  [
    "7.5.2 without a rule nothing is granted",
    [],
    [],
    [
      ["publish", "plant/pump/p1/rpm", "pump-log"],
      ["publish", "x", BROADCAST],
      ["read", "x", BROADCAST],
      ["subscribe", "x"],
      ["subscribe", "#"],
      ["consume", "welds"],
      ["seek", "pump-log"],
      ["delete", "plant/pump/p1/state", "pump-state"],
    ],
  ],
  [
    "7.2 a channel rule grants its verbs on its channel and nowhere else",
    ["{channel: pump-log, allow: [write]}"],
    [["publish", "plant/pump/p1/rpm", "pump-log"]],
    [
      ["read", "plant/pump/p1/rpm", "pump-log"],
      ["publish", "plant/pump/p1/state", "pump-state"],
      ["publish", "plant/pump/p1/rpm", BROADCAST],
      ["seek", "pump-log"],
      ["subscribe", "plant/pump/p1/rpm"],
    ],
  ],
  [
    "7.5.3 a narrowed rule is held against the whole topic",
    ["{channel: pump-log, filter: plant/pump/p1/+, allow: [write]}"],
    [["publish", "plant/pump/p1/rpm", "pump-log"]],
    [
      ["publish", "plant/pump/p2/rpm", "pump-log"],
      ["publish", "plant/pump/p1/rpm/raw", "pump-log"],
    ],
  ],
  [
    "7.2 write and delete on a latest channel are separate, and an empty payload is the one",
    ["{channel: pump-state, allow: [write]}"],
    [["publish", "plant/pump/p1/state", "pump-state"]],
    [["delete", "plant/pump/p1/state", "pump-state"]],
  ],
  [
    "7.2 delete without write",
    ["{channel: pump-state, allow: [delete]}"],
    [["delete", "plant/pump/p1/state", "pump-state"]],
    [["publish", "plant/pump/p1/state", "pump-state"]],
  ],
  [
    "7.2 an empty payload elsewhere is written like any other",
    [
      "{channel: pump-log, allow: [write]}",
      "{channel: tasks, allow: [write]}",
      "{topic: x, allow: [write]}",
    ],
    [["delete", "plant/pump/p1/rpm", "pump-log"], ["delete", "tasks/a", "tasks"], [
      "delete",
      "x",
      BROADCAST,
    ]],
    [],
  ],
  [
    "7.2 a topic rule is about broadcast, and reaches into no channel",
    ['{topic: "#", allow: [write, read]}'],
    [["publish", "x/y", BROADCAST], ["read", "x/y", BROADCAST], ["subscribe", "x/#"]],
    [
      ["publish", "plant/pump/p1/rpm", "pump-log"],
      ["read", "plant/pump/p1/rpm", "pump-log"],
      ["subscribe", "plant/pump/p1/rpm"],
      ["subscribe", "#"],
      ["consume", "welds"],
      ["publish", "$x/y", BROADCAST],
      ["subscribe", "$x/#"],
    ],
  ],
  [
    "7.5.2 grants are the union over rules",
    [
      "{topic: a/+, allow: [write]}",
      "{topic: a/b, allow: [read]}",
      "{channel: pump-log, filter: plant/pump/p1/#, allow: [read]}",
      "{channel: pump-log, filter: plant/pump/p2/#, allow: [read]}",
    ],
    [
      ["publish", "a/b", BROADCAST],
      ["read", "a/b", BROADCAST],
      ["read", "plant/pump/p1/rpm", "pump-log"],
      ["read", "plant/pump/p2/rpm", "pump-log"],
      ["publish", "a/c", BROADCAST],
    ],
    [["read", "a/c", BROADCAST], ["read", "plant/pump/p3/rpm", "pump-log"]],
  ],
  [
    "7.5.4 a filter inside one channel needs that channel and every other it touches",
    ["{channel: pump-log, allow: [read]}"],
    [["subscribe", "plant/pump/p9/rpm"], ["subscribe", "plant/pump/+/rpm/#"]],
    [["subscribe", "plant/pump/p9/state"], ["subscribe", "plant/pump/+/+/#"]],
  ],
  [
    "7.5.4 with both it is granted, and without a topic rule not beyond them",
    ["{channel: pump-log, allow: [read]}", "{channel: pump-state, allow: [read]}"],
    [["subscribe", "plant/pump/p9/state"], ["subscribe", "plant/pump/+/+/#"]],
    [["subscribe", "plant/pump/#"], ["subscribe", "plant/#"]],
  ],
  [
    "7.5.4 a filter that several channels cover jointly still needs the topic rule",
    [
      "{channel: tank-log, allow: [read]}",
      "{topic: plant/tank/t1/temp, allow: [read]}",
    ],
    [["subscribe", "plant/tank/t1/level"], ["subscribe", "plant/tank/+/alarm"], [
      "subscribe",
      "plant/tank/t1/temp",
    ]],
    [["subscribe", "plant/tank/t1/+"]],
  ],
  [
    "7.5.4 with channels and a covering topic rule everything is granted",
    [
      "{channel: pump-log, allow: [read]}",
      "{channel: pump-state, allow: [read]}",
      "{channel: tank-log, allow: [read]}",
      "{channel: welds__dlq, allow: [read]}",
      "{channel: tasks__dlq, allow: [read]}",
      '{topic: "#", allow: [read]}',
    ],
    [["subscribe", "#"], ["subscribe", "+/+"], ["subscribe", "plant/#"]],
    [["consume", "welds"]],
  ],
  [
    "7.5.4 one channel missing refuses the whole filter",
    [
      "{channel: pump-log, allow: [read]}",
      "{channel: tank-log, allow: [read]}",
      '{topic: "#", allow: [read]}',
    ],
    [["subscribe", "plant/tank/#"], ["subscribe", "other/#"]],
    [["subscribe", "plant/#"], ["subscribe", "shop/#"]],
  ],
  [
    "19 a queue that is crossed asks for nothing; its dead letters do",
    ["{topic: shop/#, allow: [read]}"],
    [["subscribe", "shop/+/+"], ["subscribe", "shop/s1/paint"]],
    [["subscribe", "shop/#"], ["subscribe", "shop/+/weld/__dlq"]],
  ],
  [
    "5 a shared filter inside a queue is granted to whoever has to do with the queue",
    ["{channel: welds, allow: [write]}"],
    [["subscribe", "shop/+/weld"]],
    [["subscribe", "tasks/a"]],
  ],
  [
    "19 a narrowed rule must cover the part of the subscription inside the channel",
    [
      "{channel: pump-log, filter: plant/pump/p1/#, allow: [read]}",
      "{topic: plant/#, allow: [read]}",
    ],
    [
      ["subscribe", "plant/pump/p1/rpm"],
      ["subscribe", "plant/pump/p1/rpm/#"],
      ["subscribe", "plant/pump/p1/rpm/+"],
    ],
    [
      ["subscribe", "plant/pump/+/rpm"],
      ["subscribe", "plant/pump/p1/#"],
      ["subscribe", "plant/pump/p2/rpm"],
    ],
  ],
  [
    "19 the part inside the channel may be narrower than the subscription",
    [
      "{channel: tank-log, filter: plant/tank/+/level, allow: [read]}",
      "{channel: tank-log, filter: plant/+/+/alarm, allow: [read]}",
      "{topic: plant/tank/#, allow: [read]}",
    ],
    [["subscribe", "plant/tank/#"], ["subscribe", "plant/tank/t1/+"]],
    [["subscribe", "plant/#"]],
  ],
  [
    "7.2 consume is one verb for taking work and for answering it",
    ["{channel: welds, allow: [consume]}"],
    [["consume", "welds"], ["subscribe", "$saguin/queue/welds"]],
    [
      ["publish", "shop/s1/weld", "welds"],
      ["consume", "tasks"],
      ["subscribe", "$saguin/queue/tasks"],
      ["read", "shop/s1/weld/__dlq", "welds__dlq"],
    ],
  ],
  [
    "7.5.4 half a queue cannot be consumed, since its jobs go to whoever is free",
    ["{channel: tasks, filter: tasks/a/#, allow: [consume, write]}"],
    [["publish", "tasks/a/1", "tasks"]],
    [["consume", "tasks"], ["subscribe", "$saguin/queue/tasks"], ["publish", "tasks/b", "tasks"]],
  ],
  [
    "7.5.4 a filter that holds the whole queue narrows nothing",
    ['{channel: tasks, filter: "tasks/#", allow: [consume]}'],
    [["consume", "tasks"]],
    [],
  ],
  [
    "7.2 seek, and the topic of its answers",
    ["{channel: pump-log, filter: plant/pump/p1/#, allow: [seek]}"],
    [["seek", "pump-log"], ["subscribe", "$saguin/consumer/pump-log/seek/reply"]],
    [["seek", "tank-log"], ["subscribe", "$saguin/consumer/tank-log/seek/reply"], [
      "seek",
      "nosuch",
    ]],
  ],
  [
    "7.2 a dead-letter channel is read by its own name",
    ["{channel: welds__dlq, allow: [read, seek]}"],
    [
      ["read", "shop/s1/weld/__dlq", "welds__dlq"],
      ["subscribe", "shop/+/weld/__dlq"],
      ["seek", "welds__dlq"],
    ],
    [["consume", "welds"], ["read", "x", "welds"]],
  ],
  [
    "7.3 braces stand for every spelling",
    ['{channel: tank-log, filter: "plant/tank/{t1,t2}/{level,alarm}", allow: [write]}'],
    [["publish", "plant/tank/t1/level", "tank-log"], [
      "publish",
      "plant/tank/t2/alarm",
      "tank-log",
    ]],
    [["publish", "plant/tank/t3/level", "tank-log"]],
  ],
  [
    "7.3 %u is the identity and %c the client id, whole levels or parts of one",
    ['{topic: "{diag,dev-%u}/%c/#", allow: [write]}'],
    [["publish", "diag/c1/x", BROADCAST], ["publish", "dev-u1/c1", BROADCAST]],
    [["publish", "diag/c2/x", BROADCAST], ["publish", "dev-%u/c1", BROADCAST]],
  ],
];

for (const [says, written, granted, refused] of CASES) {
  Deno.test(`02b ${says}`, () => {
    const of = rules(...written);
    for (const question of granted) assert.equal(ask(of, question), true, question.join(" "));
    for (const question of refused) assert.equal(ask(of, question), false, question.join(" "));
  });
}

Deno.test("02b 7.3 what is put in is looked at no second time", () => {
  const template = everybody('{topic: "a/%u/%c", allow: [write]}');
  const of = (user: string, clientId: string) => template.rules(user, clientId);
  assert.ok(of("%c", "x").mayPublish("a/%c/x", BROADCAST, false));
  assert.ok(!of("%c", "x").mayPublish("a/x/x", BROADCAST, false));
  assert.ok(of("{x,y}", "$&").mayPublish("a/{x,y}/$&", BROADCAST, false));
  assert.ok(!of("{x,y}", "z").mayPublish("a/x/z", BROADCAST, false));
  assert.ok(of("", "c").mayPublish("a//c", BROADCAST, false), "an empty name is an empty level");
});

Deno.test("02b 7.3 a value with + # or / withholds its rule and leaves the others", () => {
  const file = everybody(
    '{topic: "user/{%u,all}/#", allow: [write]}',
    "{topic: id/%c, allow: [write]}",
    "{topic: x, allow: [write]}",
  );
  for (const value of ["+", "#", "a/b", "a+", "#b"]) {
    const byUser = file.rules(value, "c");
    assert.ok(!byUser.mayPublish("user/all/x", BROADCAST, false), "the whole rule");
    assert.ok(!byUser.mayPublish(`user/${value}/x`, BROADCAST, false));
    assert.ok(!byUser.mayPublish("user/other/x", BROADCAST, false));
    assert.ok(byUser.mayPublish("id/c", BROADCAST, false));
    assert.ok(byUser.mayPublish("x", BROADCAST, false));
    assert.deepEqual(byUser.withheld.map(({ role, rule }) => [role, rule.place.line]), [["r", 3]]);
    const byId = file.rules("u", value);
    assert.ok(byId.mayPublish("user/u/x", BROADCAST, false));
    assert.ok(!byId.mayPublish("id/other", BROADCAST, false));
    assert.deepEqual(byId.withheld.map(({ rule }) => rule.place.line), [4]);
  }
  assert.deepEqual(file.rules("u", "c").withheld, []);
});

const ENTRIES = acl(`roles:
  everything: [{topic: "#", allow: [write, read]}]
  device: [{topic: dev/#, allow: [write]}]
  one: [{topic: one/#, allow: [write]}]
  quiet: [{broker: features, deny: [will]}]
users:
  "*": {roles: [everything, quiet], limits: {publish_rate: 7}}
  "device-*": [device]
  device-1: {roles: [one], client_ids: ["%u", "%u-*"], limits: {publish_bytes: 5}}
  "*-star*": {roles: [], client_ids: "x%u*"}
`);

Deno.test("02b 7.4 the most literal pattern supplies everything, and nothing merges", () => {
  const may = (user: string, topic: string) =>
    ENTRIES.rules(user, "c").mayPublish(topic, BROADCAST, false);
  assert.deepEqual([may("anna", "x"), may("anna", "dev/1")], [true, true]);
  assert.deepEqual([may("device-2", "dev/1"), may("device-2", "x")], [true, false]);
  assert.deepEqual([may("device-1", "one/1"), may("device-1", "dev/1")], [true, false]);
  assert.equal(ENTRIES.rules("anna", "c").denies("will"), true);
  assert.equal(ENTRIES.rules("device-2", "c").denies("will"), false);
  assert.deepEqual(ENTRIES.matching("device-1").map(({ pattern }) => pattern.text), [
    "device-1",
    "device-*",
    "*",
  ]);
});

Deno.test("02b 7.4 limits come from the entry in force or from the broker, never from a shadowed one", () => {
  const rates = (user: string) => ENTRIES.rules(user, "c").rates;
  assert.deepEqual(rates("anna"), { messagesPerSecond: 7, bytesPerSecond: undefined });
  assert.deepEqual(rates("device-2"), { messagesPerSecond: undefined, bytesPerSecond: undefined });
  assert.deepEqual(rates("device-1"), { messagesPerSecond: undefined, bytesPerSecond: 5 });
  const limited: Configuration = {
    ...PLANT,
    limits: { ...PLANT.limits, publishRate: 3, publishBytes: 4 },
  };
  const few = acl("users:\n  a: []\n  b: {roles: [], limits: {publish_rate: 9}}\n", limited);
  assert.deepEqual(few.rules("a", "c").rates, { messagesPerSecond: 3, bytesPerSecond: 4 });
  assert.deepEqual(few.rules("b", "c").rates, { messagesPerSecond: 9, bytesPerSecond: undefined });
  assert.deepEqual(few.rules("nobody", "c").rates, { messagesPerSecond: 3, bytesPerSecond: 4 });
  assert.deepEqual(new AccessControl(limited, undefined).rules("", "c").rates, {
    messagesPerSecond: 3,
    bytesPerSecond: 4,
  });
});

Deno.test("02b 7.4 a user that no pattern matches is granted nothing and connects", () => {
  const few = acl("roles: {r: [{topic: x, allow: [write]}]}\nusers: {a: [r]}\n");
  const nobody = few.rules("b", "c");
  assert.equal(few.admits("b", "c"), true);
  assert.equal(nobody.mayPublish("x", BROADCAST, false), false);
  assert.equal(nobody.mayRead("x", BROADCAST), false);
  assert.equal(nobody.maySubscribe("x"), false);
  assert.equal(nobody.mayConsume("welds"), false);
  assert.equal(nobody.mayDisconnect, false);
  assert.equal(nobody.mayConnectAmqp, false);
  assert.deepEqual(nobody.verbs("welds"), []);
  for (const feature of FEATURES) assert.equal(nobody.denies(feature), false);
});

Deno.test("02b 7.4 client_ids admit by pattern with %u put in, and a starred name by none", () => {
  const cases: readonly (readonly [string, string, boolean])[] = [
    ["device-1", "device-1", true],
    ["device-1", "device-1-a", true],
    ["device-1", "device-2", false],
    ["device-1", "", false],
    ["device-2", "anything", true],
    ["anna", "", true],
    ["a-star", "xa-star", true],
    ["a-star", "xa-stars", true],
    ["a-star", "a-star", false],
    ["a-star*", "xa-star*", false],
    ["a-star*", "xa-starb", false],
  ];
  for (const [user, clientId, admitted] of cases) {
    assert.equal(ENTRIES.admits(user, clientId), admitted, `${user} ${clientId}`);
  }
});

Deno.test("02b 7.4 a client id that the broker makes is matched as the empty one that was sent", () => {
  const few = acl(
    'users:\n  a: {roles: [], client_ids: "*"}\n  b: {roles: [], client_ids: "b*"}\n',
  );
  assert.deepEqual([few.admits("a", ""), few.admits("b", "")], [true, false]);
});

Deno.test("02b 8.2 any role that denies a feature denies it", () => {
  for (const feature of FEATURES) {
    const of = acl(
      `roles:\n  a: [{broker: features, deny: [${feature}]}]\n  b: [{topic: x, allow: [read]}]\n` +
        "users: {u: [a, b]}\n",
    ).rules("u", "c");
    for (const other of FEATURES) assert.equal(of.denies(other), other === feature);
    assert.equal(of.mayRead("x", BROADCAST), true);
  }
});

Deno.test("02b 8.1 only broker: sessions confers disconnect, and broker: amqp the AMQP login", () => {
  assert.equal(rules('{topic: "#", allow: [write, read]}').mayDisconnect, false);
  const sessions = rules("{broker: sessions, allow: [disconnect]}");
  assert.deepEqual([sessions.mayDisconnect, sessions.mayConnectAmqp], [true, false]);
  const amqp = rules("{broker: amqp, allow: [connect]}");
  assert.deepEqual([amqp.mayDisconnect, amqp.mayConnectAmqp], [false, true]);
});

Deno.test("06 3 verbs are those held on any part of a channel, in the catalogue's order", () => {
  const of = rules(
    "{channel: pump-log, filter: plant/pump/p1/#, allow: [seek]}",
    "{channel: pump-log, allow: [read]}",
    "{channel: welds, allow: [consume, write]}",
    "{channel: tasks, filter: tasks/a, allow: [consume]}",
    "{channel: pump-state, filter: plant/pump/%u/#, allow: [delete, read]}",
  );
  assert.deepEqual(of.verbs("pump-log"), ["read", "seek"]);
  assert.deepEqual(of.verbs("welds"), ["write", "consume"]);
  assert.deepEqual(of.verbs("tasks"), []);
  assert.deepEqual(of.verbs("pump-state"), ["read", "delete"]);
  assert.deepEqual(of.verbs("tank-log"), []);
  assert.deepEqual(of.verbs("nosuch"), []);
});

Deno.test("02b 7.1 without an ACL file everybody may do everything", () => {
  const of = new AccessControl(PLANT, undefined).rules("", "c");
  assert.ok(
    of.mayPublish("x", undefined, true) && of.maySubscribe("#") && of.mayRead("x", "welds"),
  );
  assert.equal(of.mayDisconnect && of.mayConnectAmqp, true);
  assert.deepEqual(of.verbs("pump-log"), ["write", "read", "seek"]);
  assert.deepEqual(of.verbs("pump-state"), ["write", "read", "delete"]);
  assert.deepEqual(of.verbs("welds"), ["write", "consume"]);
  assert.deepEqual(of.verbs("welds__dlq"), ["write", "read", "seek"]);
  assert.deepEqual(of.verbs("nosuch"), []);
  for (const feature of FEATURES) assert.equal(of.denies(feature), false);
});

Deno.test("02b 7.5.7 a re-read file holds for a connected client from its next question", () => {
  const control = new AccessControl(PLANT, acl(oneRole("{topic: a, allow: [read]}")));
  const client = control.client("u", "c");
  const heard: number[] = [];
  control.onReplaced(() => heard.push(control.version));
  const { rules } = client;
  assert.equal(client.rules, rules, "the same until the file is read again");
  assert.ok(rules.mayRead("a", BROADCAST));
  control.replace(acl(oneRole("{topic: b, allow: [read]}")));
  assert.ok(!client.rules.mayRead("a", BROADCAST));
  assert.ok(client.rules.mayRead("b", BROADCAST));
  assert.equal(client.rules, client.rules, "made anew once, not for each question");
  assert.deepEqual(heard, [1]);
  assert.equal(control.admits("u", "c"), true);
});
