import assert from "node:assert/strict";
import type {
  InFlight,
  Provider,
  SessionImage,
  SessionRecord,
  SessionStore,
  StoredSubscription,
} from "../../../src/storage/contract.ts";
import { BROADCAST_LOG } from "../../../src/storage/contract.ts";
import { appended, kindOf, message, type Subject, submit } from "./subject.ts";

function session(clientId: string, fields: Partial<SessionRecord> = {}): SessionRecord {
  return {
    clientId,
    expiry: 3600,
    awaySince: 1n,
    subscriptions: [],
    will: undefined,
    willDue: 0n,
    window: 20,
    ...fields,
  };
}

function subscription(
  filter: string,
  fields: Partial<StoredSubscription> = {},
): StoredSubscription {
  return {
    filter,
    qos: 1,
    noLocal: false,
    retainAsPublished: false,
    retainHandling: 0,
    logOffset: 1,
    ...fields,
  };
}

function sent(packetId: number, offset: number, fields: Partial<InFlight> = {}): InFlight {
  return { packetId, offset, qos: 1, state: "sent", group: "", ...fields };
}

/** A log of twenty messages: windows and cursors point into it. */
async function fillLog(provider: Provider): Promise<void> {
  const log = provider.append(BROADCAST_LOG);
  for (let i = 0; i < 20; i++) await submit(provider, [appended(log, message("t", "x"))]);
}

/** Sessions by client id, with their windows by packet id. */
async function sessionsOf(store: SessionStore): Promise<readonly SessionImage[]> {
  const { sessions } = await store.load();
  return sessions.map((image) => ({
    ...image,
    inFlight: [...image.inFlight].sort((a, b) => a.packetId - b.packetId),
  })).sort((a, b) => a.record.clientId < b.record.clientId ? -1 : 1);
}

async function groupsOf(store: SessionStore): Promise<string> {
  const { groups } = await store.load();
  return groups.map(({ name, cursor, returned }) =>
    `${name}@${cursor}[${[...returned].sort((a, b) => a - b)}]`
  ).sort().join(" ");
}

const GROUP = "$share/workers/t/#";

export function sessionsScript(subject: Subject): void {
  const { name } = subject;

  Deno.test(`${name}: S97 a session that was connected when it was kept is away from the start`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.sessions();
    const before = BigInt(Date.now()) * 1_000_000n;
    await store.begin(session("a", { awaySince: 0n }), 1, "answering");
    await store.begin(session("b", { awaySince: 7n }), 1, "answering");
    const [a, b] = await sessionsOf(store);
    assert.ok(a.record.awaySince >= before);
    assert.equal(b.record.awaySince, 7n);
  });

  Deno.test(`${name}: S97 a session comes back as it was begun and saved`, async () => {
    await using opened = await subject.open();
    await fillLog(opened.provider);
    const store = opened.provider.sessions();
    const whole = session("c\u{e9}", {
      expiry: 4_294_967_295,
      awaySince: 1_789_012_345_678_901_234n,
      subscriptions: [
        subscription("a/+/#", {
          qos: 2,
          noLocal: true,
          retainAsPublished: true,
          retainHandling: 2,
          identifier: 268_435_455,
          partitions: { count: 8, indices: [0, 3] },
          logOffset: 77,
        }),
        subscription("b", { qos: 0 }),
      ],
      will: {
        topic: "w",
        payload: new Uint8Array([0, 255]),
        qos: 2,
        retain: true,
        delay: 30,
        properties: {
          contentType: "c",
          responseTopic: "r",
          correlationData: new Uint8Array([1, 2]),
          payloadFormat: 0,
          messageExpiry: 9,
        },
        headers: [["n", "1"], ["n", "2"]],
        user: "alice",
      },
      willDue: 1_789_012_375_678_901_234n,
      window: 65_535,
    });
    await store.begin(session("a"), 1, "answering");
    await store.begin(session("c\u{e9}"), 5, "answering");
    await store.save(whole, "answering");
    assert.deepEqual(await sessionsOf(store), [
      { record: session("a"), cursor: 1, inFlight: [] },
      { record: whole, cursor: 5, inFlight: [] },
    ]);
  });

  Deno.test(`${name}: S137 a write for a session that is not held is refused, its neighbours go on`, async () => {
    await using opened = await subject.open();
    await fillLog(opened.provider);
    const store = opened.provider.sessions();
    await store.begin(session("a", { window: 2 }), 1, "answering");
    const outcomes = await Promise.all([
      kindOf(store.save(session("b"), "answering")),
      kindOf(store.save(session("a", { window: 2, expiry: 1 }), "answering")),
      kindOf(store.change({ clientId: "b", put: [sent(1, 1)], drop: [] }, "connected")),
      kindOf(store.change({ clientId: "a", put: [sent(1, 1)], drop: [] }, "connected")),
      kindOf(store.change(
        { clientId: "a", put: [], drop: [], groups: [{ name: GROUP, cursor: 1 }] },
        "connected",
      )),
      kindOf(store.change({ clientId: "a", put: [sent(2, 2), sent(3, 3)], drop: [] }, "connected")),
      kindOf(store.change({ clientId: "a", put: [sent(4, 4)], drop: [] }, "connected")),
      kindOf(store.end("b", "departed")),
    ]);
    assert.deepEqual(outcomes, [
      "failed",
      undefined,
      "failed",
      undefined,
      "failed",
      "failed",
      undefined,
      undefined,
    ]);
    const [{ record, inFlight }] = await sessionsOf(store);
    assert.equal(record.expiry, 1);
    assert.deepEqual(inFlight, [sent(1, 1), sent(4, 4)]);
  });

  Deno.test(`${name}: S101 an acknowledgement drops the entry it names and moves the cursor`, async () => {
    await using opened = await subject.open();
    await fillLog(opened.provider);
    const store = opened.provider.sessions();
    await store.begin(session("a"), 10, "answering");
    await store.change(
      { clientId: "a", put: [sent(1, 10), sent(2, 11, { qos: 2 })], drop: [] },
      "connected",
    );
    await store.change({
      clientId: "a",
      put: [sent(2, 11, { qos: 2, state: "received" }), sent(3, 12)],
      drop: [{ packetId: 1, offset: 10 }, { packetId: 3, offset: 9 }],
      cursor: 11,
    }, "connected");
    const [image] = await sessionsOf(store);
    assert.equal(image.cursor, 11);
    assert.deepEqual(image.inFlight, [sent(2, 11, { qos: 2, state: "received" }), sent(3, 12)]);
    await store.change({
      clientId: "a",
      put: [sent(3, 13)],
      drop: [{ packetId: 3, offset: 12 }],
    }, "connected");
    assert.deepEqual((await sessionsOf(store))[0].inFlight, [
      sent(2, 11, { qos: 2, state: "received" }),
      sent(3, 13),
    ]);
  });

  Deno.test(`${name}: D6.5 a session begun anew inherits nothing of the one before`, async () => {
    await using opened = await subject.open();
    await fillLog(opened.provider);
    const store = opened.provider.sessions();
    await store.begin(session("a", { subscriptions: [subscription("x")] }), 3, "answering");
    await store.change({ clientId: "a", put: [sent(1, 3)], drop: [], cursor: 4 }, "connected");
    await store.begin(session("a", { expiry: 7 }), 9, "answering");
    assert.deepEqual(await sessionsOf(store), [
      { record: session("a", { expiry: 7 }), cursor: 9, inFlight: [] },
    ]);
    await store.end("a", "departed");
    assert.deepEqual(await sessionsOf(store), []);
  });

  Deno.test(`${name}: S98 a window that grew smaller under its messages does not refuse the next start`, async () => {
    await using opened = await subject.open();
    await fillLog(opened.provider);
    const store = opened.provider.sessions();
    await store.begin(session("a", { window: 3 }), 1, "answering");
    const put = [sent(1, 1), sent(2, 2), sent(3, 3)];
    await store.change({ clientId: "a", put, drop: [] }, "connected");
    await store.save(session("a", { window: 1 }), "answering");
    assert.equal(
      await kindOf(store.change({ clientId: "a", put: [sent(4, 4)], drop: [] }, "connected")),
      "failed",
    );
    await opened.restart();
    const [image] = await sessionsOf(opened.provider.sessions());
    assert.deepEqual(image.inFlight, put);
  });

  Deno.test(`${name}: S99 S100 a group's cursor moves by hand-overs, and returns come ahead of it`, async () => {
    await using opened = await subject.open();
    await fillLog(opened.provider);
    const store = opened.provider.sessions();
    const member = { subscriptions: [subscription(GROUP)] };
    await store.begin(session("a"), 1, "answering");
    await store.begin(session("b", member), 1, "answering", [
      { name: GROUP, cursor: 4, returned: [] },
    ]);
    await store.save(session("a", member), "answering", { found: [], end: [] });
    assert.equal(await groupsOf(store), `${GROUP}@4[]`);
    await store.change({
      clientId: "a",
      put: [sent(1, 4, { group: GROUP }), sent(2, 5, { group: GROUP })],
      drop: [],
      groups: [{ name: GROUP, cursor: 6 }],
    }, "connected");
    assert.equal(await groupsOf(store), `${GROUP}@6[]`);
    // Members' writes come in any order: a cursor never goes back.
    const late = [{ name: GROUP, cursor: 5 }];
    await store.change({ clientId: "b", put: [], drop: [], groups: late }, "connected");
    assert.equal(await groupsOf(store), `${GROUP}@6[]`);
    await store.end("a", "departed", {
      end: [],
      returned: [{ group: GROUP, offset: 5 }, { group: GROUP, offset: 4 }],
    });
    assert.equal(await groupsOf(store), `${GROUP}@6[4,5]`);
    await store.change({
      clientId: "b",
      put: [sent(9, 4, { group: GROUP })],
      drop: [],
      taken: [{ group: GROUP, offset: 4 }],
    }, "connected");
    assert.equal(await groupsOf(store), `${GROUP}@6[5]`);
    await store.begin(session("c", member), 1, "answering");
    await store.begin(session("b"), 1, "answering");
    assert.equal(await groupsOf(store), `${GROUP}@6[5]`);
    // One that ends with its connection holds no group.
    await store.begin(session("d", { ...member, expiry: 0 }), 1, "answering");
    await store.begin(session("c"), 1, "answering");
    assert.equal(await groupsOf(store), "");
    await store.save(session("c", member), "answering", {
      found: [{ name: GROUP, cursor: 7, returned: [] }],
      end: [],
    });
    assert.equal(await groupsOf(store), `${GROUP}@7[]`);
    await store.save(session("c"), "answering", { found: [], end: [GROUP] });
    assert.equal(await groupsOf(store), "");
    await store.save(session("c", member), "answering", {
      found: [{ name: GROUP, cursor: 8, returned: [] }],
      end: [],
    });
    await store.end("c", "departed", { end: [GROUP], returned: [] });
    assert.equal(await groupsOf(store), "");
  });

  Deno.test(`${name}: S65 S98 a restart drops what the cursor passed and keeps what a group handed over`, async () => {
    await using opened = await subject.open();
    await fillLog(opened.provider);
    const store = opened.provider.sessions();
    const record = session("a", { subscriptions: [subscription(GROUP)], awaySince: 5n });
    await store.begin(record, 1, "answering", [{ name: GROUP, cursor: 3, returned: [2] }]);
    await store.change({
      clientId: "a",
      put: [sent(1, 1), sent(2, 2, { group: GROUP }), sent(3, 3, { qos: 2, state: "received" })],
      drop: [],
      cursor: 3,
    }, "connected");
    await opened.restart();
    const loaded = opened.provider.sessions();
    assert.deepEqual(await sessionsOf(loaded), [{
      record,
      cursor: 3,
      inFlight: [sent(2, 2, { group: GROUP }), sent(3, 3, { qos: 2, state: "received" })],
    }]);
    assert.equal(await groupsOf(loaded), `${GROUP}@3[2]`);
  });
}
