import assert from "node:assert/strict";
import { acknowledgeAll, LatestRig, shown, taken } from "./latest_rig.ts";
import { linkOf, quiet, RecordingLink } from "./rig.ts";

Deno.test("D13.14 D13.21 a resumed session gets what changed while it was away, both protocols", async () => {
  for (const level of [4, 5] as const) {
    const rig = await LatestRig.make();
    rig.publish("s/a", "1");
    rig.publish("s/b", "1");
    const session = rig.client("c", { link: new RecordingLink(level) });
    rig.subscribe(session, "s/#");
    await acknowledgeAll(session);
    session.detach();
    rig.publish("s/b", "2");
    rig.publish("s/b", "3");
    rig.publish("s/c", "1");
    await rig.reconnect(session, new RecordingLink(level));
    assert.deepEqual(taken(session), ["R s/b=3", "R s/c=1"]);
    await acknowledgeAll(session);
    await rig.reconnect(session, new RecordingLink(level));
    assert.deepEqual(taken(session), []);
  }
});

Deno.test("D13.15 what waited when the connection went is served at the resume, state or change", async () => {
  const rig = await LatestRig.make();
  for (const topic of ["s/a", "s/b", "s/c"]) rig.publish(topic, "1");
  const session = rig.client("c", { receiveMaximum: 2 });
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/d", "1");
  assert.deepEqual(taken(session), ["R s/a=1", "R s/b=1"]);
  const link = await rig.reconnect(session);
  assert.deepEqual(link.deliveries.map(({ dup }) => dup), [true, true]);
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), ["R s/a=1", "R s/b=1", "R s/c=1", "R s/d=1"]);
  await rig.reconnect(session);
  assert.deepEqual(taken(session), [], "the mark moved on");

  rig.publish("s/a", "2");
  rig.publish("s/b", "2");
  rig.publish("s/c", "2");
  assert.equal(rig.channel.view(session)?.mark, 7);
  await rig.reconnect(session);
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), ["R s/c=2"].toSpliced(0, 0, "s/a=2", "s/b=2"));
});

Deno.test("D7.1 D13.16 a value that is too large ends the connection, until a SUBSCRIBE is served", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  rig.publish("s/b", "x".repeat(200));
  rig.publish("s/c", "1");
  const session = rig.client("c", { link: new RecordingLink(5, 100) });
  rig.subscribe(session, "s/#");
  await quiet();
  assert.equal(linkOf(session).ended?.code, 0x95);
  assert.deepEqual(taken(session), ["R s/a=1"]);
  assert.equal(rig.channel.view(session)?.mark, 1);
  const [line] = rig.log.lines.filter(({ level }) => level === "warn");
  assert.deepEqual(
    [line.fields.channel, line.fields.client, line.fields.topic, line.fields.offset],
    ["state", "c", "s/b", 2],
  );

  session.onPuback(1);
  const again = await rig.reconnect(session, new RecordingLink(5, 100));
  assert.equal(again.ended?.code, 0x95);
  assert.equal(rig.channel.view(session)?.mark, 1);
  await rig.reconnect(session);
  await acknowledgeAll(session);
  assert.deepEqual(taken(session).map((each) => each.slice(0, 6)), ["R s/a=", "R s/b=", "R s/c="]);

  await rig.reconnect(session);
  await acknowledgeAll(session);
  assert.deepEqual(taken(session).map((each) => each.slice(0, 6)), ["R s/b=", "R s/c="]);
  rig.subscribe(session, "s/#");
  await acknowledgeAll(session);
  assert.equal(rig.channel.view(session)?.mark, Infinity);
  await rig.reconnect(session);
  assert.deepEqual(taken(session).length, 0);
});

Deno.test("D7.1 a live change that is too large is noted, and what follows is owed", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { link: new RecordingLink(5, 100) });
  rig.subscribe(session, "s/#", { qos: 0 });
  await quiet();
  rig.publish("s/a", "x".repeat(200), { qos: 0 });
  rig.publish("s/b", "1", { qos: 0 });
  assert.equal(linkOf(session).ended?.code, 0x95);
  assert.equal(rig.channel.view(session)?.mark, 1);
  await rig.reconnect(session);
  assert.equal(taken(session).length, 2);
});

Deno.test("D7.1 an unacknowledged value that a later connection cannot take stays on the wire", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c");
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/a", "x".repeat(200));
  const small = await rig.reconnect(session, new RecordingLink(5, 100));
  assert.equal(small.ended?.code, 0x95);
  const large = await rig.reconnect(session);
  assert.deepEqual(large.deliveries.map(({ dup, packetId }) => [dup, packetId]), [[true, 1]]);
});

Deno.test("D13.17 a superseded value is not sent again; a current one is, under its identifier", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c");
  rig.subscribe(session, "s/#", { qos: 2 });
  await quiet();
  for (const topic of ["s/a", "s/b", "s/c", "s/d"]) rig.publish(topic, "1");
  rig.publish("s/e", "1", { qos: 2 });
  session.detach();
  rig.publish("s/b", "2");
  rig.publish("s/c", "");
  rig.publish("s/e", "2", { qos: 2 });
  const link = await rig.reconnect(session);
  assert.deepEqual(shown(link.deliveries.filter(({ dup }) => dup)), ["s/a=1", "s/d=1"]);
  assert.deepEqual(link.deliveries.slice(0, 2).map(({ packetId }) => packetId), [1, 4]);
  assert.deepEqual(
    shown(link.deliveries.filter(({ dup }) => !dup)),
    ["R s/b=2", "R s/e=2"],
  );
  // The client may hold identifier 5: it is ended, not used for another message.
  assert.deepEqual(link.released, [5]);
  assert.ok(!link.deliveries.some(({ packetId }) => packetId === 5));
  session.onPubcomp(5);
  await acknowledgeAll(session);
  await rig.reconnect(session);
  assert.deepEqual(taken(session), []);
});

Deno.test("D13.17 a value superseded while connected, by a newer one acknowledged before it", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c");
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/a", "1");
  rig.publish("s/a", "2");
  session.onPuback(2);
  taken(session);
  await rig.reconnect(session);
  assert.deepEqual(taken(session), ["R s/a=2"]);
});

Deno.test("D13.18 a QoS 0 subscriber gets the whole state at every resume", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  rig.publish("t/a", "1");
  const session = rig.client("c");
  rig.subscribe(session, "s/#", { qos: 0 });
  rig.subscribe(session, "t/#", { qos: 1 });
  await acknowledgeAll(session);
  taken(session);
  for (let i = 0; i < 2; i++) {
    await rig.reconnect(session);
    assert.deepEqual(taken(session), ["R s/a=1"]);
  }
});

Deno.test("D13.18 a QoS 0 pass that was cut moves no mark of a QoS 1 filter", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  rig.publish("t/a", "1");
  const session = rig.client("c");
  rig.subscribe(session, "t/#", { qos: 1 });
  await acknowledgeAll(session);
  linkOf(session).buffered = 1024 * 1024;
  rig.subscribe(session, "s/#", { qos: 0 });
  await quiet();
  assert.deepEqual(taken(session), ["R t/a=1"]);
  await rig.reconnect(session);
  assert.deepEqual(taken(session), ["R s/a=1"]);
});

Deno.test("D13.19 a deletion made while away is not reported, one that waited is", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { receiveMaximum: 1 });
  rig.publish("s/gone", "1");
  rig.publish("s/gone", "");
  rig.publish("s/a", "1");
  rig.publish("s/b", "1");
  rig.subscribe(session, "s/#");
  await acknowledgeAll(session);
  taken(session);
  rig.publish("s/c", "1");
  rig.publish("s/a", "");
  assert.deepEqual(taken(session), ["s/c=1"]);
  session.detach();
  rig.publish("s/b", "");
  await rig.reconnect(session);
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), ["s/c=1", "R s/a="]);
  await rig.reconnect(session);
  assert.deepEqual(taken(session), []);
});

Deno.test("D13.20 a session that came back from a restart gets the whole state", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  const session = rig.client("c", { link: null });
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/b", "1");
  await rig.reconnect(session);
  assert.deepEqual(taken(session), ["R s/a=1", "R s/b=1"]);
});

Deno.test("D6.21 a connection that is replaced before it was served loses no mark", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c");
  rig.subscribe(session, "s/#");
  await acknowledgeAll(session);
  session.detach();
  rig.publish("s/a", "1");
  session.resume(new RecordingLink());
  rig.publish("s/b", "1");
  session.detach();
  rig.publish("s/c", "1");
  await rig.reconnect(session);
  assert.deepEqual(taken(session), ["R s/a=1", "R s/b=1", "R s/c=1"]);
});

Deno.test("a session that unsubscribed and came back is not sent what a newer view superseded", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c");
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/a", "1");
  session.unsubscribe("s/#");
  rig.channel.leave(session);
  await rig.reconnect(session);
  assert.deepEqual(taken(session), ["s/a=1"], "what was sent is completed (MQTT-3.10.4-3)");
  rig.subscribe(session, "s/#", { statePass: false });
  rig.publish("s/a", "2");
  session.onPuback(2);
  taken(session);
  await rig.reconnect(session);
  assert.deepEqual(taken(session), []);
});

// ---------------------------------------------------------------------------------------- retention

Deno.test("D13.6 D13.7 a value that grew too old while it waited is not sent", async () => {
  const rig = await LatestRig.make({
    retentionPeriodMs: 1_000,
    deletionRetentionPeriodMs: 5_000,
  });
  const session = rig.client("c", { receiveMaximum: 1 });
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/x", "fills the window");
  rig.publish("s/a", "1");
  rig.publish("s/b", "1");
  rig.publish("s/b", "");
  await rig.time.pass(1_001);
  rig.publish("s/c", "1");
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), ["s/x=fills the window", "s/b=", "s/c=1"]);
});

Deno.test("D13.7 S196 the sweep removes values and deletions past their periods, and says so", async () => {
  const rig = await LatestRig.make({
    retentionPeriodMs: 1_000,
    deletionRetentionPeriodMs: 5_000,
  });
  rig.publish("s/a", "1");
  rig.publish("s/b", "1");
  rig.publish("s/b", "");
  await rig.channel.sweep(rig.time.wall());
  const said = () => rig.log.lines.filter(({ level }) => level !== "debug");
  assert.equal(said().length, 0);
  await rig.time.pass(1_001);
  await rig.channel.sweep(rig.time.wall());
  const store = rig.provider.latest("state");
  assert.equal(await store.get("s/a"), undefined);
  assert.notEqual(await store.get("s/b"), undefined);
  await rig.time.pass(4_000);
  await rig.channel.sweep(rig.time.wall());
  assert.equal(await store.get("s/b"), undefined);
  assert.deepEqual(
    said().map(({ level, fields }) => [level, fields.channel, fields.removed]),
    [["info", "state", 1], ["info", "state", 1]],
  );
  assert.equal(rig.channel.retentionRemoved, 2);
});

Deno.test("D13.7 without periods nothing ever ends", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  await rig.time.pass(365 * 86_400_000);
  await rig.channel.sweep(rig.time.wall());
  const session = rig.client("c");
  rig.subscribe(session, "s/#");
  await quiet();
  assert.deepEqual(taken(session), ["R s/a=1"]);
});
