import assert from "node:assert/strict";
import type { AppendStore, Provider } from "../../../src/storage/contract.ts";
import { type Message, recordSize } from "../../../src/storage/record.ts";
import { appended, counters, message, type Subject, submit, text, window } from "./subject.ts";

async function fill(provider: Provider, store: AppendStore, count: number): Promise<void> {
  for (let i = 0; i < count; i++) {
    await submit(provider, [appended(store, message("t", String.fromCharCode(97 + i)))]);
  }
}

/** `message("t", "a")`: payload 1, topic 1, message id 2. */
const SIZE = 4;

export function appendScript(subject: Subject): void {
  const { name } = subject;

  Deno.test(`${name}: S28 offsets start at 1 and rise by one, and the counters follow`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const store = provider.append("events");
    assert.equal(counters(store), "next=1 floor=1 bytes=0");
    assert.deepEqual(await submit(provider, [appended(store, message("t", "a"))]), [1]);
    assert.equal(counters(store), `next=2 floor=1 bytes=${SIZE}`);
    assert.deepEqual(
      await submit(provider, [
        appended(store, message("t", "b")),
        appended(provider.append("audit"), message("t", "x")),
        appended(store, message("t", "c")),
      ]),
      [2, 1, 3],
    );
    assert.equal(counters(store), `next=4 floor=1 bytes=${3 * SIZE}`);
    assert.equal(counters(provider.append("audit")), `next=2 floor=1 bytes=${SIZE}`);
    assert.equal(await window(provider.append("audit"), 1), "1:x");
  });

  Deno.test(`${name}: S12 a channel's store is one object, however often it is asked for`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    assert.equal(provider.append("events"), provider.append("events"));
    assert.equal(provider.latest("state"), provider.latest("state"));
    assert.equal(provider.queue("jobs"), provider.queue("jobs"));
  });

  Deno.test(`${name}: S10 a window is bounded by records and by bytes, and has one record at least`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.append("events");
    await fill(opened.provider, store, 5);
    assert.equal(await window(store, 1), "1:a 2:b 3:c 4:d 5:e");
    assert.equal(await window(store, 3), "3:c 4:d 5:e");
    assert.equal(await window(store, 2, 2), "2:b 3:c");
    assert.equal(await window(store, 2, 100, 1), "2:b");
    assert.equal(await window(store, 6), "");
  });

  Deno.test(`${name}: S43 S44 a record comes back as it was published`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.append("events");
    const whole: Message = message("a/b\u{1f600}", "payload", {
      messageId: "018f3c0e-0000-7000-8000-000000000001",
      timestamp: 1_789_012_345_678_901_234n,
      headers: [["b", "2"], ["a", "1"], ["b", "3"], ["__proto__", "\u{feff}x"]],
      properties: {
        contentType: "text/plain",
        responseTopic: "r/t",
        correlationData: new Uint8Array([0, 255, 128]),
        payloadFormat: 1,
        messageExpiry: 4_294_967_295,
      },
      retain: true,
      bridge: "uplink",
      clientId: "publisher",
      qos: 2,
      groupCopy: true,
      onlyFor: "reader",
    });
    const bare = message("t", "", { timestamp: 0n, messageId: "m", qos: 0 });
    const binary = { ...bare, payload: new Uint8Array([0, 255, 10, 13, 0]) };
    await submit(opened.provider, [
      appended(store, whole),
      appended(store, bare),
      appended(store, binary),
    ]);
    const answer = await store.readFrom(1, 10, 1_000_000);
    assert.ok(!answer.belowFloor);
    assert.deepEqual(answer.records.map(plain), [
      plain({ offset: 1, message: whole }),
      plain({ offset: 2, message: bare }),
      plain({ offset: 3, message: binary }),
    ]);
  });

  Deno.test(`${name}: S9 S28 a trimmed log refuses reads below its floor and keeps its counters`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.append("events");
    await fill(opened.provider, store, 6);
    assert.deepEqual(await store.trim(0n, 3 * SIZE), { removed: 3, freed: 3 * SIZE });
    assert.equal(counters(store), `next=7 floor=4 bytes=${3 * SIZE}`);
    assert.equal(await window(store, 3), "below 4");
    assert.equal(await window(store, 4), "4:d 5:e 6:f");
    assert.deepEqual(await store.trim(0n, 3 * SIZE), { removed: 0, freed: 0 });
    assert.deepEqual(await store.trim(0n, 0), { removed: 3, freed: 3 * SIZE });
    assert.equal(counters(store), "next=7 floor=7 bytes=0");
    assert.equal(await window(store, 6), "below 7");
    assert.equal(await window(store, 7), "");
    assert.deepEqual(await submit(opened.provider, [appended(store, message("t", "g"))]), [7]);
    assert.equal(await window(store, 7), "7:g");
    await store.trim(0n, 0);
    await opened.restart();
    assert.equal(counters(opened.provider.append("events")), "next=8 floor=8 bytes=0");
  });

  Deno.test(`${name}: S190 S191 an age trim stops at the first record that stays`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.append("events");
    for (const timestamp of [10n, 20n, 0n, 5n, 40n]) {
      await submit(opened.provider, [appended(store, message("t", `${timestamp}`, { timestamp }))]);
    }
    assert.equal((await store.trim(20n, undefined)).removed, 1);
    assert.equal(await window(store, store.floor()), "2:20 3:0 4:5 5:40");
    assert.equal((await store.trim(30n, undefined)).removed, 1);
    assert.equal(await window(store, store.floor()), "3:0 4:5 5:40");
    assert.equal((await store.trim(1_000n, undefined)).removed, 0);
    assert.equal((await store.trim(1_000n, 6)).removed, 3);
    assert.equal(counters(store), "next=6 floor=6 bytes=0");
  });

  Deno.test(`${name}: S11 the first record at or after a moment, with times running backwards`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.append("events");
    assert.deepEqual(await store.firstAtOrAfter(0n), { offset: 1, found: false });
    for (const timestamp of [100n, 300n, 200n, 0n, 250n, 150n, 400n]) {
      await submit(opened.provider, [appended(store, message("t", "x", { timestamp }))]);
    }
    assert.deepEqual(await store.firstAtOrAfter(50n), { offset: 1, found: true });
    assert.deepEqual(await store.firstAtOrAfter(101n), { offset: 2, found: true });
    assert.deepEqual(await store.firstAtOrAfter(300n), { offset: 2, found: true });
    assert.deepEqual(await store.firstAtOrAfter(301n), { offset: 7, found: true });
    assert.deepEqual(await store.firstAtOrAfter(401n), { offset: 8, found: false });
    await store.trim(0n, 5 * SIZE);
    assert.deepEqual(await store.firstAtOrAfter(201n), { offset: 5, found: true });
  });

  Deno.test(`${name}: S9 invariant 9 everything keeps its offset over a restart`, async () => {
    await using opened = await subject.open();
    await fill(opened.provider, opened.provider.append("events"), 4);
    await opened.provider.append("events").trim(0n, 2 * SIZE);
    await opened.restart();
    const store = opened.provider.append("events");
    assert.equal(counters(store), `next=5 floor=3 bytes=${2 * SIZE}`);
    assert.equal(await window(store, 3), "3:c 4:d");
    assert.equal(await window(store, 2), "below 3");
  });
}

/** A record with its payloads as numbers, so that views and arrays of their own compare equal. */
function plain({ offset, message }: { offset: number; message: Message }): unknown {
  const { payload, properties, headers, ...rest } = message;
  return {
    offset,
    ...rest,
    size: recordSize(message),
    text: text(message),
    payload: [...payload],
    headers: headers.map(([name, value]) => [name, value]),
    properties: { ...properties, correlationData: [...properties.correlationData ?? []] },
  };
}
