/** Passwords and permissions as clients of the executable meet them (02b sections 5 to 8). */
import assert from "node:assert/strict";
import { BrokerProcess, temporaryPlace } from "../support/broker_process.ts";
import { acl, configuration, EVERYTHING, Guarded, write } from "../support/guarded.ts";
import { ask } from "../support/http.ts";
import { Metrics } from "../support/metrics.ts";
import { freePort } from "../support/ports.ts";
import type { WireClient } from "../support/wire.ts";

const SILENCE_MS = 300;

// ------------------------------------------------------------------------------------- who comes in

Deno.test("02b 6 a user of the password file comes in, others get 0x86 and no reason to tell apart", async () => {
  await using guarded = await Guarded.start({ users: ["ann"] });
  using _ann = await guarded.client("ann");
  const wrong = await guarded.refused(0x86, "ann", { password: "wrong-horse" });
  const unknown = await guarded.refused(0x86, "bob");
  const missing = await guarded.refused(0x86, "ann", { password: undefined });
  const nameless = await guarded.refused(0x86, undefined, { clientId: "x" });
  for (const connack of [unknown, missing, nameless]) {
    assert.equal(connack.properties.reasonString, wrong.properties.reasonString);
  }
  await guarded.refused(0x04, "ann", { level: 4, password: "wrong-horse" });
  await guarded.broker.line(/refused a connection.* user=ann .*the password is wrong/);
  await guarded.broker.line(/refused a connection.* user=bob .*no such user/);
  assert.ok(!guarded.broker.lines.join("\n").includes("wrong-horse"));
  guarded.assertDiscreet();
});

Deno.test("02b 6 allow_anonymous beside a file admits whoever offers no name, and checks the others", async () => {
  await using guarded = await Guarded.start({
    users: ["ann"],
    mqtt: "allow_anonymous: true",
  });
  const { connack } = await guarded.offer(undefined, { clientId: "nobody" });
  assert.equal(connack.reasonCode, 0);
  await guarded.refused(0x86, "ann", { password: "wrong" });
});

Deno.test("02b 6 a door's own password file stands in place of the broker's", async () => {
  await using guarded = await Guarded.start({
    users: ["ann"],
    mqtt: "allow_anonymous: true",
    door: "password_file: $DIR/passwords",
  });
  // The broker's allow_anonymous is not inherited by a door with a file.
  await guarded.refused(0x86, undefined, { clientId: "nobody" });
  using _ann = await guarded.client("ann");
});

Deno.test("02b 5 without a password file everybody comes in, whatever name they type", async () => {
  await using guarded = await Guarded.start({});
  using client = await guarded.client("whoever");
  await guarded.subscribe(client, "log/#");
  await guarded.publish(client, "log/a", "1");
});

// --------------------------------------------------------------------------------- what they may do

Deno.test("02b 7.5.3 a publish needs a grant on its channel, or on its broadcast topic", async () => {
  await using guarded = await Guarded.start({
    users: ["dev", "old"],
    acl: acl({
      dev: [
        "{channel: log, filter: log/%u/#, allow: [write]}",
        "{channel: state, allow: [write]}",
        "{topic: free/#, allow: [write]}",
      ],
      old: ["{topic: free/#, allow: [write]}"],
    }),
  });
  using dev = await guarded.client("dev");
  await guarded.publish(dev, "log/dev/a", "1");
  await guarded.publish(dev, "log/other/a", "1", 0x87);
  await guarded.publish(dev, "free/a", "1");
  await guarded.publish(dev, "taken/a", "1", 0x87);
  await guarded.publish(dev, "jobs/a", "1", 0x87);
  await guarded.publish(dev, "state/a", "1");
  // Deleting is a verb of its own.
  await guarded.publish(dev, "state/a", "", 0x87);
  await dev.publish({ topic: "log/other/a", payload: "x", qos: 2, packetId: 900 });
  await dev.expectPubrec(900, 0x87);
  // At QoS 0 it is dropped, and the connection stays.
  await dev.publish({ topic: "log/other/a", payload: "x" });
  await guarded.publish(dev, "log/dev/b", "2");

  using old = await guarded.client("old", { level: 4 });
  await old.publish({ topic: "log/old/a", payload: "x", qos: 1, packetId: 1 });
  await old.expectClose();
});

Deno.test("02b 7.5.4 a filter is granted whole or refused, structural faults first", async () => {
  await using guarded = await Guarded.start({
    users: ["dev", "all"],
    acl: acl({
      dev: ["{channel: log, filter: log/%u/#, allow: [read]}", "{topic: free/#, allow: [read]}"],
      all: EVERYTHING,
    }),
  });
  using dev = await guarded.client("dev");
  await guarded.subscribe(dev, "log/dev/+");
  await guarded.subscribe(dev, "log/#", 0x87);
  await guarded.subscribe(dev, "free/a");
  await guarded.subscribe(dev, "$share/g/free/a");
  await guarded.subscribe(dev, "$share/g/other", 0x87);
  await guarded.subscribe(dev, "#", 0x87);
  await guarded.subscribe(dev, "$saguin/queue/jobs", 0x87);
  await guarded.subscribe(dev, "jobs/a", 0x8f);
  using all = await guarded.client("all");
  await guarded.subscribe(all, "#");
  await guarded.subscribe(all, "$saguin/queue/jobs");
  using old = await guarded.client("dev", { level: 4, clientId: "old" });
  await guarded.subscribe(old, "log/#", 0x80);
});

Deno.test("02b 7.4 client_ids of the entry in force, as the CONNECT has the id", async () => {
  await using guarded = await Guarded.start({
    users: ["dev"],
    acl: 'roles: {r: []}\nusers:\n  dev: {roles: [r], client_ids: ["%u-*"]}\n',
  });
  using _dev = await guarded.client("dev", { clientId: "dev-1" });
  const wrong = await guarded.refused(0x86, "dev", { clientId: "other" });
  await guarded.refused(0x86, "dev", { clientId: "" });
  const password = await guarded.refused(0x86, "dev", { clientId: "dev-2", password: "no" });
  assert.equal(wrong.properties.reasonString, password.properties.reasonString);
  await guarded.broker.line(/the user may not have this client id/);
});

Deno.test("02b 7.3 a name with a wildcard gets nothing of the rule that holds it, which is logged", async () => {
  await using guarded = await Guarded.start({
    users: ["a/b"],
    acl: 'roles: {r: [{topic: "x/%u/#", allow: [write]}, {topic: y, allow: [write]}]}\n' +
      'users: {"*": {roles: [r]}}\n',
  });
  using client = await guarded.client("a/b", { clientId: "c" });
  await guarded.publish(client, "x/a/b/c", "1", 0x87);
  await guarded.publish(client, "y", "1");
  await guarded.broker.line(/a rule grants this client nothing.*acl.yaml:1/);
});

Deno.test("02b 7.4 figures of a user stand in place of the broker's", async () => {
  await using guarded = await Guarded.start({
    users: ["slow", "dev"],
    acl: 'roles: {r: [{topic: "#", allow: [write]}]}\n' +
      "users:\n  slow: {roles: [r], limits: {publish_rate: 1}}\n  dev: {roles: [r]}\n",
  });
  using slow = await guarded.client("slow");
  await guarded.publish(slow, "a", "1");
  await guarded.publish(slow, "a", "2", 0x97);
  using dev = await guarded.client("dev");
  for (let i = 0; i < 5; i++) await guarded.publish(dev, "a", "1");
});

// ------------------------------------------------------------------------------------------- Wills

Deno.test("02b 7.5.5 D19.3 D19.6 a Will is checked at CONNECT and again, as its client, when it fires", async () => {
  const granted = { dev: ["{topic: will/#, allow: [write]}"], all: EVERYTHING };
  const users = ["dev", "all"];
  await using guarded = await Guarded.start({ users, acl: acl(granted) });
  const will = { topic: "will/dev", payload: "gone" };
  await guarded.refused(0x87, "dev", { will: { topic: "other", payload: "" } });
  await guarded.refused(0x05, "dev", { level: 4, will: { topic: "other", payload: "" } });
  using all = await guarded.client("all");
  await guarded.subscribe(all, "will/#");
  const first = await guarded.client("dev", { will });
  first.close();
  await all.expectPublish("will/dev", "gone");

  const second = await guarded.client("dev", { will });
  await guarded.reload({ acl: acl({ ...granted, dev: ["{topic: not/#, allow: [write]}"] }) });
  second.close();
  await guarded.broker.line(/a Will could not be published/);
  await all.expectSilence(SILENCE_MS);
});

// ------------------------------------------------------------------------------- delivery and reload

Deno.test("02b 7.5.6 D11.9 a consumer is held at a record it may not read, and a reload that grants it wakes it", async () => {
  const users = ["dev", "all"];
  const open = acl({ dev: ["{channel: log, allow: [read]}"], all: EVERYTHING });
  const narrow = acl({
    dev: ["{channel: log, filter: log/open/#, allow: [read]}"],
    all: EVERYTHING,
  });
  await using guarded = await Guarded.start({ users, acl: open });
  using all = await guarded.client("all");
  using dev = await guarded.client("dev");
  await guarded.subscribe(dev, "log/#");
  await guarded.publish(all, "log/open/a", "1");
  await dev.expectPublish("log/open/a", "1");
  await dev.puback(1);

  await guarded.reload({ acl: narrow });
  await guarded.publish(all, "log/open/a", "2");
  await dev.expectPublish("log/open/a", "2");
  await dev.puback(2);
  await guarded.publish(all, "log/shut/a", "3");
  await guarded.publish(all, "log/open/a", "4");
  // Nothing overtakes the record it is held at.
  await dev.expectSilence(SILENCE_MS);
  await guarded.broker.line(/held a consumer at a record/);

  await guarded.reload({ acl: open });
  await dev.expectPublish("log/shut/a", "3");
  await dev.expectPublish("log/open/a", "4");
  guarded.assertDiscreet();
});

Deno.test("02b 7.5.6 a record unacknowledged from before is not sent again to whom it is closed now", async () => {
  const users = ["dev", "all"];
  const open = acl({ dev: ["{channel: log, allow: [read]}"], all: EVERYTHING });
  await using guarded = await Guarded.start({ users, acl: open });
  using all = await guarded.client("all");
  const kept = { cleanStart: false, properties: { sessionExpiry: 600 } };
  const first = await guarded.client("dev", kept);
  await guarded.subscribe(first, "log/#");
  await guarded.publish(all, "log/a", "1");
  await guarded.publish(all, "log/b", "2");
  await first.expectPublish("log/a", "1");
  await first.expectPublish("log/b", "2");
  first.close();
  await guarded.reload({
    acl: acl({ dev: ["{channel: log, filter: log/a, allow: [read]}"], all: EVERYTHING }),
  });
  using second = await guarded.client("dev", kept);
  const again = await second.expectPublish("log/a", "1");
  assert.equal(again.dup, true);
  await second.puback(again.packetId);
  await second.expectSilence(SILENCE_MS);
  await guarded.reload({ acl: open });
  await second.expectPublish("log/b", "2");
});

Deno.test("02b 7.5.6 D8.12 D13.15 a latest value stays owed until it may be read, a broadcast is let go", async () => {
  const users = ["dev", "all"];
  const open = acl({
    dev: ["{channel: state, allow: [read]}", "{topic: news, allow: [read]}"],
    all: EVERYTHING,
  });
  const shut = acl({
    dev: ["{channel: state, filter: state/open, allow: [read]}"],
    all: EVERYTHING,
  });
  await using guarded = await Guarded.start({ users, acl: open });
  using all = await guarded.client("all");
  using dev = await guarded.client("dev");
  await guarded.subscribe(dev, "state/#");
  await guarded.subscribe(dev, "news");
  await guarded.reload({ acl: shut });
  await guarded.publish(all, "state/shut", "1");
  await guarded.publish(all, "state/shut", "2");
  await guarded.publish(all, "news", "lost");
  await dev.expectSilence(SILENCE_MS);
  await guarded.publish(all, "state/open", "3");
  const { packetId } = await dev.expectPublish("state/open", "3");
  await dev.puback(packetId);
  await guarded.reload({ acl: open });
  await dev.expectPublish("state/shut", "2");
  await guarded.publish(all, "news", "heard");
  for (;;) {
    const next = await dev.expectPublish();
    if (next.topic !== "news") continue;
    assert.equal(new TextDecoder().decode(next.payload), "heard");
    break;
  }
});

Deno.test("02b 7.5.6 D14.5 a job goes to no worker that may not consume, until a reload lets it", async () => {
  const users = ["dev", "all"];
  const open = acl({ dev: ["{channel: jobs, allow: [consume]}"], all: EVERYTHING });
  await using guarded = await Guarded.start({ users, acl: open });
  using all = await guarded.client("all");
  using dev = await guarded.client("dev");
  await guarded.subscribe(dev, "$saguin/queue/jobs");
  await guarded.reload({ acl: acl({ dev: ["{topic: x, allow: [read]}"], all: EVERYTHING }) });
  await guarded.publish(all, "jobs/a", "1");
  await dev.expectSilence(2 * SILENCE_MS);
  await dev.publish({ topic: "$saguin/queue/jobs/response", payload: "ack", qos: 1, packetId: 7 });
  await dev.expectPuback(7, 0x87);
  await guarded.reload({ acl: open });
  const job = await dev.expectPublish("jobs/a", "1");
  const attempt = job.properties.userProperties?.find(([name]) => name === "saguin-attempt");
  assert.deepEqual(attempt, ["saguin-attempt", "1"]);
});

Deno.test("02b 7.5.6 what waits for a session that is away, and retained values, are asked for as they go", async () => {
  const users = ["dev", "all"];
  const dev = (topics: readonly string[]) =>
    acl({ dev: topics.map((topic) => `{topic: ${topic}, allow: [read]}`), all: EVERYTHING });
  await using guarded = await Guarded.start({ users, acl: dev(["a/#"]) });
  using all = await guarded.client("all");
  const kept = { cleanStart: false, properties: { sessionExpiry: 600 } };
  const first = await guarded.client("dev", kept);
  await guarded.subscribe(first, "a/#");
  await guarded.publish(all, "a/shut", "on the wire");
  await guarded.publish(all, "a/open", "on the wire");
  await first.expectPublish("a/shut");
  await first.expectPublish("a/open");
  first.close();
  await guarded.publish(all, "a/shut", "while away");
  await guarded.publish(all, "a/open", "while away");
  await all.publish({ topic: "a/shut", payload: "kept", qos: 1, packetId: 90, retain: true });
  await all.expectPuback(90);
  await guarded.reload({ acl: dev(["a/open", "b"]) });

  using second = await guarded.client("dev", kept);
  await second.expectPublish("a/open", "on the wire");
  await second.expectPublish("a/open", "while away");
  await guarded.subscribe(second, "a/open");
  await second.expectSilence(SILENCE_MS);
});

Deno.test("02b 7.5.6 05 9 what no member of a shared group may read is dropped, and holds up nothing", async () => {
  const operations = freePort();
  const users = ["dev", "all"];
  const dev = (topic: string) =>
    acl({ dev: [`{topic: ${topic}, allow: [read]}`], all: EVERYTHING });
  await using guarded = await Guarded.start({ users, acl: dev("a/#") }, {
    broker: `operations: {listen: {tcp: {address: "127.0.0.1:${operations}"}}}`,
  });
  using all = await guarded.client("all");
  using member = await guarded.client("dev", {
    cleanStart: false,
    properties: { sessionExpiry: 600 },
  });
  await guarded.subscribe(member, "$share/g/a/#");
  await guarded.reload({ acl: dev("a/open") });
  await guarded.publish(all, "a/shut", "for nobody");
  await guarded.publish(all, "a/open", "for the member");
  const { packetId } = await member.expectPublish("a/open", "for the member");
  await member.puback(packetId);
  const { body } = await ask({ hostname: "127.0.0.1", port: operations }, "/metrics");
  const metrics = Metrics.parse(body);
  assert.equal(metrics.get("saguin_shares_dropped_total", { cause: "not_authorized" }), 1);
  assert.equal(metrics.get("saguin_shares_held_total"), 2);
  assert.equal(metrics.get("saguin_shares_drained_total"), 1);
});

Deno.test("02b 7.5.6 a retained value is not for whom its topic is closed", async () => {
  const users = ["dev", "all"];
  const open = acl({ dev: ["{topic: a/#, allow: [read]}"], all: EVERYTHING });
  await using guarded = await Guarded.start({ users, acl: open });
  using all = await guarded.client("all");
  for (const name of ["open", "shut"]) {
    await all.publish({ topic: `a/${name}`, payload: "v", qos: 1, packetId: 9, retain: true });
    await all.expectPuback(9);
  }
  using dev = await guarded.client("dev", { properties: { receiveMaximum: 1 } });
  await guarded.subscribe(dev, "a/#");
  const first = await dev.expectPublish();
  const other = first.topic === "a/open" ? "a/shut" : "a/open";
  await guarded.reload({
    acl: acl({ dev: [`{topic: ${first.topic}, allow: [read]}`], all: EVERYTHING }),
  });
  await dev.puback(first.packetId);
  await dev.expectSilence(SILENCE_MS);
  await guarded.reload({ acl: open });
  await guarded.publish(all, other, "live");
  await dev.expectPublish(other, "live");
});

Deno.test("02b 7.5.6 a shared group hands a message to a member that may read it, as long as there is one", async () => {
  const users = ["dev", "two", "all"];
  const grants = (dev: string, two: string) =>
    acl({
      dev: [`{channel: log, filter: log/${dev}, allow: [read]}`],
      two: [`{channel: log, filter: log/${two}, allow: [read]}`],
      all: EVERYTHING,
    });
  await using guarded = await Guarded.start({ users, acl: grants("#", "#") });
  using all = await guarded.client("all");
  const kept = { properties: { sessionExpiry: 600 } };
  using dev = await guarded.client("dev", kept);
  using two = await guarded.client("two", kept);
  for (const member of [dev, two]) await guarded.subscribe(member, "$share/g/log/#");
  await guarded.reload({ acl: grants("x", "#") });
  for (const payload of ["1", "2", "3"]) {
    await guarded.publish(all, "log/a", payload);
    const { packetId } = await two.expectPublish("log/a", payload);
    await two.puback(packetId);
  }
  await dev.expectSilence(SILENCE_MS);
  await guarded.reload({ acl: grants("x", "x") });
  await guarded.publish(all, "log/a", "4");
  await two.expectSilence(SILENCE_MS);
  await guarded.reload({ acl: grants("#", "x") });
  await guarded.publish(all, "log/a", "5");
  await dev.expectPublish("log/a", "5");
});

Deno.test("02b 17 a reload takes all files or none", async () => {
  const users = ["dev", "all"];
  const granted = acl({ dev: ["{topic: a, allow: [write]}"], all: EVERYTHING });
  await using guarded = await Guarded.start({ users, acl: granted });
  using dev = await guarded.client("dev");
  await guarded.reload({
    users: [...users, "new"],
    acl: acl({ dev: ["{channel: nothing, allow: [write]}"], all: [] }),
  }, /nothing was reloaded/);
  await guarded.broker.line(/nothing was reloaded.*acl\.yaml:2:.*not configured/);
  await guarded.publish(dev, "a", "1");
  await guarded.refused(0x86, "new");

  await guarded.reload({ users: ["new", "all"], acl: granted });
  using _new = await guarded.client("new");
  // A user who is gone stays until somebody hangs up (02b 8.4).
  await guarded.publish(dev, "a", "1");
  await guarded.refused(0x86, "dev");
  guarded.assertDiscreet();
});

// --------------------------------------------------------------------------------- the broker's own

Deno.test("02b 8.1 8.3 control topics answer what the client may do", async () => {
  const users = ["dev", "boss"];
  await using guarded = await Guarded.start({
    users,
    acl: acl({
      dev: [
        "{channel: state, filter: state/open, allow: [read]}",
        "{channel: log, allow: [read]}",
      ],
      boss: ["{broker: sessions, allow: [disconnect]}", "{channel: log, allow: [seek]}"],
    }),
  });
  using dev = await guarded.client("dev", { properties: { sessionExpiry: 60 } });
  using boss = await guarded.client("boss", { properties: { sessionExpiry: 60 } });
  const ask = async (client: WireClient, topic: string, payload: string) => {
    const properties = { responseTopic: "reply" };
    await client.publish({ topic, payload, qos: 1, packetId: 50, properties });
    const first = await client.next();
    if (first.type === "puback") return first.reasonCode;
    assert.equal(first.type, "publish");
    await client.expectPuback(50);
    return first.type === "publish" ? new TextDecoder().decode(first.payload) : undefined;
  };
  assert.match(String(await ask(dev, "$saguin/catalogue/log", "")), /"verbs":\["read"\]/);
  assert.equal(await ask(dev, "$saguin/catalogue/jobs", ""), "");
  assert.equal(await ask(dev, "$saguin/kv/get", "state/open"), "");
  assert.equal(await ask(dev, "$saguin/kv/get", "state/shut"), 0x87);
  assert.equal(await ask(dev, "$saguin/consumer/log/seek", "0"), 0x87);
  assert.equal(await ask(boss, "$saguin/consumer/log/seek", "0"), "1");
  assert.equal(await ask(dev, "$saguin/sessions/disconnect", "boss"), 0x87);
  assert.equal(await ask(boss, "$saguin/sessions/disconnect", "dev"), "hung-up");
  await dev.expectClose(0x98);
});

Deno.test("02b 8.2 D17.11 features that roles deny", async () => {
  const users = ["dev"];
  const deny = "{broker: features, deny: [persistent, will, share, retained, qos2]}";
  await using guarded = await Guarded.start({
    users,
    acl: acl({ dev: [...EVERYTHING, deny] }),
  });
  const { client: dev, connack } = await guarded.offer("dev", {
    properties: { sessionExpiry: 600 },
  });
  assert.equal(connack.reasonCode, 0);
  assert.equal(connack.properties.sessionExpiry, 0);
  assert.equal(connack.properties.maximumQoS, 1);
  assert.equal(connack.properties.sharedSubscriptionAvailable, 0);
  assert.equal(connack.properties.retainAvailable ?? 1, 1);
  await guarded.subscribe(dev, "log/#", 1, 2);
  await dev.publish({ topic: "state/a", payload: "x", qos: 1, packetId: 3, retain: true });
  await dev.expectPuback(3);
  await dev.publish({ topic: "free", payload: "x", retain: true });
  await dev.expectClose(0x9a);

  const sharing = await guarded.client("dev");
  await sharing.subscribe({ subscriptions: [{ filter: "$share/g/a", qos: 1 }] });
  await sharing.expectClose(0x9e);
  const twice = await guarded.client("dev");
  await twice.publish({ topic: "log/a", payload: "x", qos: 2, packetId: 1 });
  await twice.expectClose(0x9b);
  await guarded.refused(0x87, "dev", { will: { topic: "a", payload: "" } });
  await guarded.refused(0x05, "dev", { level: 4, will: { topic: "a", payload: "" } });
  // QoS 0 has nothing to be refused with, and ends the connection all the same.
  const flagged: [level: 4 | 5, qos: 0 | 1 | 2, retain: boolean, code?: number][] = [
    [5, 1, true, 0x9a],
    [4, 0, true],
    [4, 1, true],
    [4, 2, false],
  ];
  for (const [level, qos, retain, code] of flagged) {
    const client = await guarded.client("dev", { level });
    const packetId = qos === 0 ? undefined : 1;
    await client.publish({ topic: "free", payload: "x", qos, packetId, retain });
    await client.expectClose(code);
  }
  const old = await guarded.client("dev", { level: 4 });
  await old.subscribe({
    subscriptions: [{ filter: "log/#", qos: 2 }, { filter: "$share/g/a", qos: 1 }],
  });
  await old.expectSuback(1, [1, 0x80]);
  old.close();
  // A wrong password is told as one, whatever the roles would deny.
  await guarded.refused(0x86, "dev", { password: "no", will: { topic: "a", payload: "" } });
});

Deno.test("02b 8.2 D19.4 a Will that is retained or of QoS 2 where those are denied", async () => {
  await using guarded = await Guarded.start({
    users: ["dev"],
    acl: acl({ dev: [...EVERYTHING, "{broker: features, deny: [retained, qos2, persistent]}"] }),
  });
  await guarded.refused(0x9a, "dev", { will: { topic: "a", payload: "", retain: true } });
  await guarded.refused(0x9b, "dev", { will: { topic: "a", payload: "", qos: 2 } });
  await guarded.refused(0x05, "dev", { level: 4, will: { topic: "a", payload: "", retain: true } });
  await guarded.refused(0x05, "dev", { level: 4, will: { topic: "a", payload: "", qos: 2 } });
  using _kept = await guarded.client("dev", {
    will: { topic: "state/a", payload: "", retain: true },
  });
  // A 3.1.1 session that asks to be kept is a clean one.
  for (let i = 0; i < 2; i++) {
    const { client, connack } = await guarded.offer("dev", {
      level: 4,
      clientId: "old",
      cleanStart: false,
    });
    assert.deepEqual([connack.reasonCode, connack.sessionPresent], [0, false]);
    await client.disconnect();
  }
});

Deno.test("02b 7.1 a door without identities beside an ACL file is warned of at the start", async () => {
  const place = temporaryPlace();
  const listen = `tcp:
  - {name: known, address: "127.0.0.1:${place.port}", password_file: ${place.directory}/passwords}
  - {name: unknown, address: "127.0.0.1:0"}`;
  const files = { users: ["dev"], acl: acl({ dev: [] }) };
  write(place, files);
  await using broker = await BrokerProcess.start(
    (place) => configuration(place, { acl: files.acl }, { listen }),
    place,
  );
  const warning = await broker.line(/level=WARN.*not asked who they are/);
  assert.match(warning, /listener=unknown/);
});
