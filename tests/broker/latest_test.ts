import assert from "node:assert/strict";
import type { StoredRecord } from "../../src/storage/record.ts";
import { acknowledgeAll, LatestRig, offsetOf, shown, taken } from "./latest_rig.ts";
import { linkOf, quiet, RecordingLink, START } from "./rig.ts";

// ------------------------------------------------------------------------- values and deletions

Deno.test("D13.8 a subscriber gets the state with RETAIN, then changes without", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "old");
  rig.publish("s/a", "1");
  rig.publish("s/b", "2", { retain: true });
  rig.publish("other", "x");
  const session = rig.client("c");
  rig.subscribe(session, "s/#");
  await quiet();
  assert.deepEqual(taken(session), ["R s/a=1", "R s/b=2"]);
  rig.publish("s/b", "3", { retain: true });
  rig.publish("s/c", "4");
  rig.publish("other", "y");
  assert.deepEqual(taken(session), ["s/b=3", "s/c=4"]);
});

Deno.test("D13.8 Retain As Published shows the publisher's flag on changes only", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1", { retain: false });
  const session = rig.client("c");
  rig.subscribe(session, "s/#", { retainAsPublished: true });
  await quiet();
  rig.publish("s/a", "2", { retain: true });
  rig.publish("s/a", "3", { retain: false });
  assert.deepEqual(taken(session), ["R s/a=1", "R s/a=2", "s/a=3"]);
});

Deno.test("D13.9 without a state pass only changes are served", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  const session = rig.client("c");
  rig.subscribe(session, "s/#", { statePass: false });
  await quiet();
  rig.publish("s/a", "2");
  assert.deepEqual(taken(session), ["s/a=2"]);
});

Deno.test("D13.2 D13.3 D13.5 a deletion is live to everybody and state only to who asks", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  rig.publish("s/b", "2");
  const early = rig.client("early");
  rig.subscribe(early, "s/#");
  await acknowledgeAll(early);
  taken(early);
  const offset = rig.publish("s/a", "");
  assert.deepEqual(taken(early), ["s/a="]);

  const late = rig.client("late");
  rig.subscribe(late, "s/#");
  const asking = rig.client("asking");
  rig.subscribe(asking, "s/#", { deletions: true });
  await quiet();
  const [first] = linkOf(asking).deliveries;
  assert.equal(offsetOf(first), offset);
  assert.deepEqual(taken(asking), ["R s/a=", "R s/b=2"]);
  assert.deepEqual(taken(late), ["R s/b=2"]);
});

Deno.test("D13.4 a deletion of nothing is delivered live, without an offset", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c");
  rig.subscribe(session, "s/#");
  await quiet();
  assert.equal(rig.publish("s/a", ""), 0);
  const [delivery] = linkOf(session).deliveries;
  assert.deepEqual(shown([delivery]), ["s/a="]);
  assert.deepEqual(delivery.labels.map(([name]) => name), ["saguin-id", "saguin-timestamp"]);
});

Deno.test("D13.2 a waiting value gives way to a deletion of nothing, and that to a new value", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { receiveMaximum: 1 });
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/x", "fills the window");
  rig.publish("s/a", "1");
  await rig.provider.latest("state").removeMany([{ topic: "s/a", offset: 2 }]);
  assert.equal(rig.publish("s/a", ""), 0);
  rig.publish("s/b", "1");
  await rig.provider.latest("state").removeMany([{ topic: "s/b", offset: 3 }]);
  rig.publish("s/b", "");
  rig.publish("s/b", "2");
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), ["s/x=fills the window", "s/a=", "s/b=2"]);
});

Deno.test("D4.1 D4.2 D4.10 a value carries its labels; an expiry that ran out is not sent", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c");
  rig.publish("s/a", "1", { properties: { messageExpiry: 10 }, messageId: "m1" });
  await rig.time.pass(4_000);
  rig.subscribe(session, "s/a", { identifier: 7 });
  await quiet();
  await rig.time.pass(7_000);
  rig.subscribe(session, "s/a", { identifier: 7 });
  await quiet();
  const [first, second] = linkOf(session).deliveries;
  assert.equal(first.expiry, 6);
  assert.equal(second.expiry, undefined);
  assert.deepEqual(second.identifiers, [7]);
  assert.deepEqual(second.labels, [
    ["saguin-id", "m1"],
    ["saguin-offset", "1"],
    ["saguin-timestamp", String(START)],
    ["saguin-expires", String(START + 10_000)],
  ]);
});

Deno.test("D4.8 a 3.1.1 subscriber gets no labels and no expiry", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { link: new RecordingLink(4) });
  rig.publish("s/a", "1", { properties: { messageExpiry: 10 } });
  rig.subscribe(session, "s/#");
  await quiet();
  const [delivery] = linkOf(session).deliveries;
  assert.deepEqual(shown([delivery]), ["R s/a=1"]);
  assert.deepEqual(delivery.labels, []);
  assert.equal(delivery.expiry, undefined);
});

Deno.test("D4.6 a topic that several filters reach comes once, at the best of them", async () => {
  const rig = await LatestRig.make();
  for (const topic of ["s/a", "s/b", "t/a"]) rig.publish(topic, "1", { qos: 2 });
  const session = rig.client("c");
  rig.subscribe(session, "s/a", { qos: 1, statePass: false });
  rig.subscribe(session, ["s/a", "s/+", "+/a", "#"], { qos: 2 });
  await quiet();
  const { deliveries } = linkOf(session);
  assert.deepEqual(deliveries.map(({ qos }) => qos), [2, 2, 2]);
  assert.deepEqual(taken(session).sort(), ["R s/a=1", "R s/b=1", "R t/a=1"]);
  rig.publish("s/a", "2", { qos: 0 });
  assert.deepEqual(deliveries.map(({ qos }) => qos), [0]);
});

Deno.test("D10.2 D10.5 the session's own values are withheld by No Local, in both halves", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "mine", { clientId: "c" });
  rig.publish("s/b", "theirs");
  const session = rig.client("c");
  rig.subscribe(session, "s/#", { noLocal: true });
  await quiet();
  rig.publish("s/b", "mine too", { clientId: "c" });
  rig.publish("s/a", "theirs too");
  assert.deepEqual(taken(session), ["R s/b=theirs", "s/a=theirs too"]);
});

Deno.test("06 9.9 nothing is delivered under a filter that was unsubscribed, pass or change", async () => {
  const rig = await LatestRig.make();
  for (let i = 0; i < 100; i++) rig.publish(`s/${i}`, "1");
  rig.publish("t/a", "1");
  const session = rig.client("c", { receiveMaximum: 2 });
  rig.subscribe(session, ["s/#", "t/#"]);
  await quiet();
  assert.equal(taken(session).length, 2);
  session.unsubscribe("s/#");
  const pages = rig.read.length;
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), ["R t/a=1"]);
  assert.ok(rig.read.length <= pages + 2, "the rest of s/# was read for nobody");
  rig.publish("s/1", "2");
  assert.deepEqual(taken(session), []);
  rig.channel.leave(session);
  rig.publish("t/a", "2");
  assert.deepEqual(taken(session), []);
  assert.equal(rig.channel.view(session), undefined);
});

Deno.test("D10.5 what waits of a topic goes when the session's own change replaces it", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { receiveMaximum: 1 });
  rig.subscribe(session, "s/#", { noLocal: true });
  await quiet();
  rig.publish("s/x", "fills the window");
  rig.publish("s/a", "theirs");
  rig.publish("s/a", "mine", { clientId: "c" });
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), ["s/x=fills the window"]);
});

Deno.test("I13 filters that come and go leave nothing behind", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c");
  rig.subscribe(session, "s/kept");
  for (let i = 0; i < 100; i++) {
    rig.subscribe(session, `s/${i}`);
    session.unsubscribe(`s/${i}`);
  }
  assert.deepEqual([...rig.channel.view(session)!.filters], ["s/kept", "s/99"]);
  await quiet();
});

// ------------------------------------------------------------------------------ window and memory

Deno.test("D13.11 what waits for the window is one value a topic, in the order topics began to wait", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { receiveMaximum: 1 });
  rig.subscribe(session, "s/#");
  await quiet();
  for (const [topic, payload] of [["a", "1"], ["a", "2"], ["b", "1"], ["a", "3"], ["b", "2"]]) {
    rig.publish(`s/${topic}`, payload);
  }
  const view = rig.channel.view(session);
  assert.equal(view?.waiting, 2);
  assert.deepEqual(taken(session), ["s/a=1"]);
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), ["s/a=3", "s/b=2"]);
  assert.equal(rig.channel.superseded, 2);
  assert.equal(view?.mark, Infinity);
});

Deno.test("D13.11 a QoS 0 subscriber whose socket is slow gets the newest values when it drains", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c");
  rig.subscribe(session, "s/#", { qos: 0 });
  await quiet();
  linkOf(session).buffered = 1024 * 1024;
  for (let i = 0; i < 10; i++) rig.publish("s/a", String(i));
  await quiet();
  assert.deepEqual(taken(session), []);
  linkOf(session).buffered = 0;
  session.drained();
  await quiet();
  assert.deepEqual(taken(session), ["s/a=9"]);
});

Deno.test("I13 changes past the memory bound are read back from the store, deletions among them", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { receiveMaximum: 1, queueBytes: 16 * 1024 });
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/first", "fills the window");
  for (let round = 0; round < 3; round++) {
    for (let i = 0; i < 200; i++) rig.publish(`s/${i}`, i === 150 && round === 2 ? "" : `${round}`);
  }
  const view = rig.channel.view(session);
  assert.ok(view!.waiting < 60, `${view?.waiting} values wait in memory`);
  await acknowledgeAll(session);
  const got = taken(session).slice(1);
  assert.equal(got.length, 200);
  assert.deepEqual(
    got.toSorted(),
    Array.from({ length: 200 }, (_, i) => i === 150 ? "s/150=" : `s/${i}=2`).toSorted(),
  );
  assert.equal(view?.mark, Infinity);
  rig.publish("s/1", "live again");
  assert.deepEqual(taken(session), ["s/1=live again"]);
});

Deno.test("I13 D13.15 what memory had no room for is owed when the connection goes", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { receiveMaximum: 1, queueBytes: 4 * 1024 });
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/first", "fills the window");
  rig.publish("s/a", "x".repeat(1_000));
  rig.publish("s/b", "read back");
  rig.publish("s/a", "read back too");
  assert.equal(rig.channel.view(session)?.waiting, 0);
  assert.equal(rig.channel.view(session)?.mark, 3);
  await rig.reconnect(session);
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), [
    "s/first=fills the window",
    "R s/a=read back too",
    "R s/b=read back",
  ]);
});

Deno.test("I13 a replacement that is too large for the bound leaves the room it had", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { receiveMaximum: 1, queueBytes: 16 * 1024 });
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/first", "fills the window");
  rig.publish("s/a", "small");
  rig.publish("s/b", "small");
  rig.publish("s/a", "x".repeat(6_000));
  assert.equal(rig.channel.view(session)?.waiting, 1);
  await acknowledgeAll(session);
  assert.deepEqual(taken(session).map((each) => each.length), [
    "s/first=fills the window".length,
    "s/b=small".length,
    6_004,
  ]);
});

Deno.test("D13.11 a state pass reads no further than the window lets it", async () => {
  const rig = await LatestRig.make();
  for (let i = 0; i < 1_000; i++) rig.publish(`s/${i}`, "v");
  const session = rig.client("c", { receiveMaximum: 10 });
  rig.subscribe(session, "s/#");
  await quiet();
  assert.equal(taken(session).length, 10);
  assert.ok(rig.read.length <= 2, `${rig.read.length} pages were read`);
  await acknowledgeAll(session);
  assert.equal(taken(session).length, 990);
  assert.ok(Math.max(...rig.read) <= 64);
});

Deno.test("I13 pages of large values hold few of them", async () => {
  const rig = await LatestRig.make();
  for (let i = 0; i < 40; i++) rig.publish(`s/${i}`, "v".repeat(100_000));
  const session = rig.client("c");
  rig.subscribe(session, "s/#", { qos: 0 });
  await quiet();
  assert.equal(taken(session).length, 40);
  assert.ok(Math.max(...rig.read) <= 8 && rig.read.slice(1).every((values) => values <= 2));
});

Deno.test("I13 SUBSCRIBEs that come faster than they are served queue one pass", async () => {
  const rig = await LatestRig.make();
  for (let i = 0; i < 10; i++) rig.publish(`s/${i}`, "v");
  const session = rig.client("c", { receiveMaximum: 1 });
  for (let i = 0; i < 50; i++) {
    rig.subscribe(session, "s/#");
    await quiet();
  }
  const before = taken(session).length;
  await acknowledgeAll(session);
  assert.equal(taken(session).length, 10);
  assert.ok(before <= 2);
});

Deno.test("06 9.10 a SUBSCRIBE during a pass is served the whole state, from the start", async () => {
  const rig = await LatestRig.make();
  for (let i = 0; i < 10; i++) rig.publish(`s/${i}`, "v");
  const session = rig.client("c", { receiveMaximum: 5 });
  rig.subscribe(session, "s/#");
  await quiet();
  assert.equal(taken(session).length, 5);
  rig.subscribe(session, "s/#");
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), Array.from({ length: 10 }, (_, i) => `R s/${i}=v`));
});

// ----------------------------------------------------------------------------------- never backwards

Deno.test("D13.12 a change reported after a newer one of its topic is let go", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c");
  rig.subscribe(session, "s/#");
  await quiet();
  const [, late] = rig.store("s/a", "1");
  const [, other] = rig.store("s/b", "1");
  const [, newer] = rig.store("s/a", "2");
  newer();
  other();
  late();
  rig.publish("s/a", "3");
  assert.deepEqual(taken(session), ["s/a=2", "s/b=1", "s/a=3"]);
});

Deno.test("D13.12 a page that is older than a change that waits is not handed over", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  rig.publish("s/b", "1");
  const session = rig.client("c");
  const values = [(await rig.provider.latest("state").get("s/a"))!];
  values.push((await rig.provider.latest("state").get("s/b"))!);
  rig.held = true;
  rig.subscribe(session, "s/#");
  await quiet();
  rig.publish("s/a", "2");
  assert.deepEqual(taken(session), [], "changes follow the state");
  await rig.pages[0].answer(values);
  await rig.pages[1].answer([]);
  assert.deepEqual(taken(session), ["R s/b=1", "s/a=2"]);
});

Deno.test("D13.12 S18 a value read before its commit was reported is handed over once", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  const session = rig.client("c");
  rig.held = true;
  rig.subscribe(session, "s/#");
  await quiet();
  const [, second] = rig.store("s/a", "2");
  const [, third] = rig.store("s/a", "3");
  const value = (await rig.provider.latest("state").get("s/a")) as StoredRecord;
  await rig.pages[0].answer([value]);
  await rig.pages[1].answer([]);
  second();
  third();
  rig.publish("s/a", "4");
  assert.deepEqual(taken(session), ["R s/a=3", "s/a=4"]);
});

Deno.test("D13.12 a change reported after a deletion of nothing that followed it is let go", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { receiveMaximum: 1 });
  rig.subscribe(session, "s/#");
  await quiet();
  const [offset, late] = rig.store("s/a", "1");
  await rig.provider.latest("state").removeMany([{ topic: "s/a", offset }]);
  rig.publish("s/x", "fills the window");
  assert.equal(rig.publish("s/a", ""), 0);
  late();
  await acknowledgeAll(session);
  assert.deepEqual(taken(session), ["s/x=fills the window", "s/a="]);
});

Deno.test("D13.12 a page that was on its way when its filter was subscribed anew is dropped", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  const value = (await rig.provider.latest("state").get("s/a"))!;
  const session = rig.client("c");
  rig.held = true;
  rig.subscribe(session, "s/#");
  await quiet();
  rig.subscribe(session, "s/#");
  await rig.pages[0].answer([value]);
  assert.deepEqual(taken(session), []);
  await rig.pages[1].answer([value]);
  await rig.pages[2].answer([]);
  assert.deepEqual(taken(session), ["R s/a=1"]);
  assert.equal(rig.pages.length, 3);
});

// ----------------------------------------------------------------------------------------- failures

Deno.test("S6 a read that fails is said, counted and tried again a second later", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  const value = (await rig.provider.latest("state").get("s/a"))!;
  const session = rig.client("c");
  rig.held = true;
  rig.subscribe(session, "s/#");
  await quiet();
  await rig.pages[0].fail(new Error("the card is gone"));
  assert.equal(rig.counters.storageErrors.get("state"), 1);
  rig.publish("s/b", "1");
  await quiet();
  assert.equal(rig.pages.length, 1, "a change does not hurry it");
  await rig.time.pass(1_000);
  await rig.pages[1].answer([value]);
  await rig.pages[2].answer([]);
  assert.deepEqual(taken(session), ["R s/a=1", "s/b=1"]);
});

Deno.test("a page that comes after the connection went, or after the view, is nobody's", async () => {
  const rig = await LatestRig.make();
  rig.publish("s/a", "1");
  const value = (await rig.provider.latest("state").get("s/a"))!;
  const session = rig.client("c");
  rig.held = true;
  rig.subscribe(session, "s/#");
  await quiet();
  const link = await rig.reconnect(session);
  await rig.pages[0].answer([value]);
  assert.deepEqual(shown(link.deliveries), []);
  rig.channel.leave(session);
  await rig.pages[1].answer([value]);
  assert.deepEqual(shown(link.deliveries), []);
});

Deno.test("payloads that wait or are unacknowledged share no memory with a read buffer", async () => {
  const rig = await LatestRig.make();
  const session = rig.client("c", { receiveMaximum: 1 });
  rig.subscribe(session, "s/#");
  await quiet();
  const buffer = new Uint8Array(16).fill(0x61);
  for (const topic of ["s/a", "s/b"]) {
    rig.channel.recorded(
      topic === "s/a" ? 1 : 2,
      rig.message(topic, buffer.subarray(0, 3)),
    );
  }
  buffer.fill(0x62);
  await rig.time.pass(0);
  session.onPuback(1);
  await quiet();
  assert.deepEqual(taken(session), ["s/a=aaa", "s/b=aaa"]);
});
