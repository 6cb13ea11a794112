import assert from "node:assert/strict";
import { RETAINED } from "../../../src/storage/contract.ts";
import { message, retained, set, type Subject, submit, text, values } from "./subject.ts";

export function latestScript(subject: Subject): void {
  const { name } = subject;

  Deno.test(`${name}: D13.1 a value replaces its topic's value and takes a new offset`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.latest("state");
    const put = (topic: string, payload: string) =>
      submit(opened.provider, [set(store, message(topic, payload))]);
    assert.deepEqual(await put("a/b", "1"), [1]);
    assert.deepEqual(await put("a/c", "2"), [2]);
    assert.deepEqual(await put("a/b", "3"), [3]);
    assert.equal(store.next(), 4);
    assert.equal(store.floor(), 1);
    const value = await store.get("a/b");
    assert.equal(value?.offset, 3);
    assert.equal(text(value.message), "3");
    assert.equal(await store.get("a"), undefined);
    assert.equal(await values(store, "#"), "a/b=3@3 a/c=2@2");
  });

  Deno.test(`${name}: D13.3 D13.4 a deletion is stored where there was a value, and only there`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.latest("state");
    const put = (topic: string, payload: string) =>
      submit(opened.provider, [set(store, message(topic, payload))]);
    assert.deepEqual(await put("a", ""), [0]);
    assert.deepEqual(await put("a", "1"), [1]);
    assert.deepEqual(await put("b", "2"), [2]);
    assert.deepEqual(await put("a", ""), [3]);
    assert.deepEqual(await put("a", ""), [0]);
    assert.equal(store.next(), 4);
    assert.equal((await store.get("a"))?.message.payload.byteLength, 0);
    assert.equal(await values(store, "#"), "b=2@2");
    assert.equal(await values(store, "#", { deletions: true }), "a=@3 b=2@2");
    assert.deepEqual(await put("a", "4"), [4]);
    assert.equal(await values(store, "#", { deletions: true }), "a=4@4 b=2@2");
  });

  Deno.test(`${name}: 02b 11 the topics of values that none of some filters matches`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.latest("state");
    const topics = ["a", "a/b", "a/c", "b/b", "gone"];
    for (const topic of topics) await submit(opened.provider, [set(store, message(topic, "1"))]);
    await submit(opened.provider, [set(store, message("gone", ""))]);
    const listed = async (outside: readonly string[], max: number) => {
      const scan = store.topics(outside);
      const all: string[] = [];
      for (;;) {
        const page = await scan.next(max);
        assert.ok(page.length <= max);
        if (page.length === 0) return all.sort();
        all.push(...page);
      }
    };
    for (const max of [1, 2, 100]) {
      assert.deepEqual(await listed([], max), ["a", "a/b", "a/c", "b/b"]);
      assert.deepEqual(await listed(["a/+"], max), ["a", "b/b"]);
      assert.deepEqual(await listed(["a/#", "b/b"], max), []);
    }
  });

  Deno.test(`${name}: 05 8.3 topics are counted as values come and go, deletions included`, async () => {
    await using opened = await subject.open();
    const { provider } = opened;
    const store = provider.latest("state");
    const kept = provider.latest(RETAINED);
    await submit(provider, [set(store, message("a", "1"))]);
    await submit(provider, [set(store, message("b", "1"))]);
    await submit(provider, [set(store, message("a", "2"))]);
    assert.equal(store.size(), 2);
    await submit(provider, [set(store, message("a", ""))]);
    await submit(provider, [set(store, message("nothing", ""))]);
    assert.equal(store.size(), 2, "a stored deletion is still a topic's");
    await store.removeMany([{ topic: "a", offset: 4 }, { topic: "b", offset: 99 }]);
    assert.equal(store.size(), 1);
    for (const topic of ["r", "s"]) await submit(provider, [retained(kept, message(topic, "1"))]);
    await submit(provider, [retained(kept, message("r", ""))]);
    await submit(provider, [retained(kept, message("never", ""))]);
    assert.equal(kept.size(), 1);
    await opened.restart();
    assert.equal(opened.provider.latest("state").size(), 1);
    assert.equal(opened.provider.latest(RETAINED).size(), 1);
    await opened.provider.latest("state").trim(1_800_000_000_000_000_000n, 0n);
    assert.equal(opened.provider.latest("state").size(), 0);
  });

  Deno.test(`${name}: D13.14 a scan answers what its filter matches, at or above the mark, in pages`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.latest("state");
    const topics = ["a/b", "a/c", "a/b/d", "a%/b", "a_/b", "\u{e9}/b", "A/b", "a{b}"];
    for (const topic of topics) await submit(opened.provider, [set(store, message(topic, "x"))]);
    assert.equal(await values(store, "a/+"), "a/b=x@1 a/c=x@2");
    assert.equal(await values(store, "a/#"), "a/b/d=x@3 a/b=x@1 a/c=x@2");
    assert.equal(await values(store, "+/b"), "A/b=x@7 a%/b=x@4 a/b=x@1 a_/b=x@5 \u{e9}/b=x@6");
    assert.equal(await values(store, "a{b}"), "a{b}=x@8");
    assert.equal(await values(store, "a/b"), "a/b=x@1");
    assert.equal(await values(store, "a/b", { from: 2 }), "");
    assert.equal(await values(store, "a"), "");
    assert.equal(await values(store, "#", { from: 7 }), "A/b=x@7 a{b}=x@8");
    assert.equal(await values(store, "#", { page: 1 }), await values(store, "#"));
    assert.equal(await values(store, "#", { page: 3 }), await values(store, "#"));
  });

  Deno.test(`${name}: S196 values and stored deletions go at ages of their own`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.latest("state");
    const put = (topic: string, payload: string, timestamp: bigint) =>
      submit(opened.provider, [set(store, message(topic, payload, { timestamp }))]);
    await put("old", "1", 10n);
    await put("new", "2", 30n);
    await put("unset", "3", 0n);
    await put("gone", "4", 5n);
    await put("gone", "", 10n);
    await put("lately", "5", 5n);
    await put("lately", "", 30n);
    const { removed } = await store.trim(20n, 0n);
    assert.equal(removed, 1);
    assert.equal(
      await values(store, "#", { deletions: true }),
      "gone=@5 lately=@7 new=2@2 unset=3@3",
    );
    assert.equal((await store.trim(0n, 20n)).removed, 1);
    assert.equal(await values(store, "#", { deletions: true }), "lately=@7 new=2@2 unset=3@3");
    assert.equal(store.next(), 8);
    assert.equal(store.floor(), 1);
  });

  Deno.test(`${name}: a named value is removed only while it carries the offset named`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.latest("state");
    await submit(opened.provider, [set(store, message("a", "1"))]);
    await submit(opened.provider, [set(store, message("b", "2"))]);
    await submit(opened.provider, [set(store, message("a", "3"))]);
    const removed = await store.removeMany([
      { topic: "a", offset: 1 },
      { topic: "b", offset: 2 },
      { topic: "c", offset: 1 },
    ]);
    assert.deepEqual(removed, { removed: 1, freed: 4 });
    assert.equal(await values(store, "#"), "a=3@3");
    assert.equal(store.next(), 4);
  });

  Deno.test(`${name}: D17 an empty retained message takes the value out and leaves nothing`, async () => {
    await using opened = await subject.open();
    const store = opened.provider.latest(RETAINED);
    const put = (topic: string, payload: string) =>
      submit(opened.provider, [retained(store, message(topic, payload))]);
    assert.deepEqual(await put("a", ""), [0]);
    assert.deepEqual(await put("a", "1"), [1]);
    assert.deepEqual(await put("a", "2"), [2]);
    assert.deepEqual(await put("b", "3"), [3]);
    assert.deepEqual(await put("a", ""), [0]);
    assert.equal(await store.get("a"), undefined);
    assert.equal(await values(store, "#", { deletions: true }), "b=3@3");
    assert.deepEqual(await put("a", "4"), [4]);
    await opened.restart();
    assert.equal(await values(opened.provider.latest(RETAINED), "#"), "a=4@4 b=3@3");
    assert.equal(opened.provider.latest(RETAINED).next(), 5);
  });
}
