import assert from "node:assert/strict";
import { BROADCAST_LOG } from "../../../src/storage/contract.ts";
import {
  appended,
  counters,
  held,
  kindOf,
  message,
  set,
  type Subject,
  submit,
  text,
  window,
} from "./subject.ts";

const SIZE = 4;

export function holdsScript(subject: Subject): void {
  const { name } = subject;

  Deno.test(`${name}: S103 S104 a hold is invisible until its release writes the record and drops it`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const store = provider.append("events");
    assert.deepEqual(await submit(provider, [held(store, "c1", 7, message("t", "h"))]), [0]);
    assert.equal(counters(store), "next=1 floor=1 bytes=0");
    assert.equal(await window(store, 1), "");
    await submit(provider, [appended(store, message("t", "a"))]);
    assert.equal(text((await store.held("c1", 7))!), "h");
    assert.equal(await store.held("c1", 8), undefined);
    assert.equal(await store.held("c2", 7), undefined);
    const record = await store.releaseHold("c1", 7);
    assert.deepEqual([record?.offset, text(record!.message)], [2, "h"]);
    assert.equal(await store.held("c1", 7), undefined);
    assert.equal(await store.releaseHold("c1", 7), undefined);
    assert.equal(await store.abandonHold("c1", 7, "departed"), false);
    assert.equal(await window(store, 1), "1:a 2:h");
    assert.equal(counters(store), `next=3 floor=1 bytes=${2 * SIZE}`);
  });

  Deno.test(`${name}: D20.1 a release is heard of before what is stored after it`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const store = provider.append("events");
    const heard: number[] = [];
    const all: Promise<unknown>[] = [];
    for (let packetId = 1; packetId <= 20; packetId++) {
      await submit(provider, [held(store, "c1", packetId, message("t", "h"))]);
    }
    for (let packetId = 1; packetId <= 20; packetId++) {
      all.push(store.releaseHold("c1", packetId, [], ({ offset }) => heard.push(offset)));
      const row = appended(store, message("t", "a"));
      all.push(
        new Promise<void>((resolve) =>
          provider.submit({
            rows: [row],
            bytes: SIZE,
            settled: () => {
              heard.push(row.offset);
              resolve();
            },
          })
        ),
      );
    }
    await Promise.all(all);
    assert.deepEqual(heard, Array.from({ length: 40 }, (_, i) => i + 1));
    // Nothing is held any more, so there is nothing to hear of.
    await store.releaseHold("c1", 1, [], ({ offset }) => heard.push(offset));
    assert.equal(heard.length, 40);
  });

  Deno.test(`${name}: D5.8 expiry and release of one hold: one of them finds it`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const store = provider.append("events");
    await submit(provider, [held(store, "c1", 7, message("t", "h"))]);
    assert.equal(await store.abandonHold("c1", 7, "connected"), true);
    assert.equal(await store.releaseHold("c1", 7), undefined);
    assert.equal(counters(store), "next=1 floor=1 bytes=0");
  });

  Deno.test(`${name}: D5.9 there is one hold of an identifier, and it is the first`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const store = provider.append("events");
    await submit(provider, [held(store, "c1", 7, message("t", "h"))]);
    assert.equal(await submit(provider, [held(store, "c1", 7, message("t", "i"))]), "failed");
    assert.deepEqual(await submit(provider, [held(store, "c2", 7, message("t", "j"))]), [0]);
    assert.equal(text((await store.releaseHold("c1", 7))!.message), "h");
    assert.equal(await store.releaseHold("c1", 7), undefined);
    assert.equal(text((await store.releaseHold("c2", 7))!.message), "j");
  });

  Deno.test(`${name}: D5.4 D5.5 a release refused by the channel's bound keeps the hold`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    // A channel that is full takes no hold; one that fills afterwards refuses the release (D5.2).
    for (const store of [provider.append("events"), provider.queue("jobs")]) {
      store.setMaxBytes(SIZE - 1);
      assert.equal(await submit(provider, [held(store, "c1", 7, message("t", "h"))]), "full");
      assert.equal(await store.held("c1", 7), undefined);
      store.setMaxBytes(SIZE);
      assert.deepEqual(await submit(provider, [held(store, "c1", 7, message("t", "h"))]), [0]);
      store.setMaxBytes(SIZE - 1);
      assert.equal(await kindOf(store.releaseHold("c1", 7)), "full");
      assert.equal(store.next(), 1);
      store.setMaxBytes(100);
      assert.equal((await store.releaseHold("c1", 7))?.offset, 1);
      assert.equal(store.bytes(), SIZE);
    }
    assert.equal(provider.queue("jobs").depth(), 1);
    assert.equal(text((await provider.queue("jobs").offer(0))!.message), "h");
  });

  Deno.test(`${name}: D5.3 a hold of a latest channel becomes its topic's value`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const store = provider.latest("state");
    await submit(provider, [held(store, "c1", 1, message("t", "h"))]);
    await submit(provider, [held(store, "c1", 2, message("t", ""))]);
    await submit(provider, [held(store, "c1", 3, message("u", ""))]);
    await submit(provider, [set(store, message("t", "a"))]);
    assert.equal((await store.releaseHold("c1", 1))?.offset, 2);
    assert.equal(text((await store.get("t"))!.message), "h");
    assert.equal((await store.releaseHold("c1", 2))?.offset, 3);
    assert.equal((await store.get("t"))?.message.payload.byteLength, 0);
    // A deletion that deletes nothing ends its exchange and takes no offset.
    assert.equal((await store.releaseHold("c1", 3))?.offset, 0);
    assert.equal(await store.releaseHold("c1", 3), undefined);
    assert.equal(store.next(), 4);
  });

  Deno.test(`${name}: S66 S105 S106 holds are recovered at the start, those refused abandoned`, async () => {
    await using opened = await subject.open();
    let { provider } = opened;
    await submit(provider, [held(provider.append("events"), "kept", 1, message("t", "a"))]);
    await submit(provider, [held(provider.append(BROADCAST_LOG), "kept", 2, message("t", "b"))]);
    await submit(provider, [held(provider.queue("jobs"), "gone", 3, message("t", "c"))]);
    await opened.restart();
    ({ provider } = opened);
    const { kept, abandoned } = await provider.recoverHolds((_, hold) => hold.clientId === "kept");
    assert.equal(abandoned, 1);
    assert.deepEqual(
      kept.map(({ channel, clientId, packetId, heldAt }) => [channel, clientId, packetId, heldAt])
        .sort(),
      [[BROADCAST_LOG, "kept", 2, 5n], ["events", "kept", 1, 5n]],
    );
    assert.equal(text((await provider.append("events").releaseHold("kept", 1))!.message), "a");
    assert.equal(await provider.queue("jobs").releaseHold("gone", 3), undefined);
  });
}
