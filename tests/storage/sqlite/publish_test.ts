import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import type { Hold, PublishRow, StorageFailure, StoreSpec } from "../../../src/storage/contract.ts";
import type { PublishCommit } from "../../../src/config/configuration.ts";
import { appendRow, inTempDir, message, publish, withProvider } from "./support/provider.ts";

const SPECS: StoreSpec[] = [
  { channel: "readings", kind: "append" },
  { channel: "alarms", kind: "append" },
  { channel: "state", kind: "latest" },
  { channel: "jobs", kind: "queue" },
];

function hold(packetId: number): Hold {
  return {
    clientId: "c",
    packetId,
    heldAt: 1_700_000_000_000_000_001n,
    message: message("held", "h", { clientId: "c", qos: 2 }),
  };
}

function kinds(outcomes: readonly (StorageFailure | undefined)[]): string {
  return outcomes.map((failure) => failure?.kind ?? "stored").join(" ");
}

Deno.test("S123 S124 offsets rise in the order of submission, per channel, over several groups", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const rows: PublishRow[] = [];
      const outcomes: Promise<unknown>[] = [];
      for (let i = 0; i < 700; i++) {
        const row = appendRow(
          provider.append(i % 3 === 0 ? "alarms" : "readings"),
          message("t", `${i}`),
        );
        rows.push(row);
        outcomes.push(publish(provider, row));
      }
      await Promise.all(outcomes);
      const expected = { alarms: 1, readings: 1 };
      for (const row of rows) {
        const { channel } = (row as { store: { channel: "alarms" | "readings" } }).store;
        assert.equal(row.offset, expected[channel]++);
      }
      assert.equal(provider.statistics().commits, 3);
      const answer = await provider.append("readings").readFrom(1, 1000, 1e6);
      assert.ok(!answer.belowFloor);
      const payloads = answer.records.map(({ message }) =>
        new TextDecoder().decode(message.payload)
      );
      const sent = Array.from({ length: 700 }, (_, i) => `${i}`).filter((_, i) => i % 3 !== 0);
      assert.deepEqual(payloads, sent);
    })
  ));

Deno.test("S125 what SQLite does not take fails alone: its neighbours of the same group are stored", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const store = provider.append("readings");
      const held: PublishRow = { kind: "hold", store, hold: hold(7), offset: 0 };
      assert.equal(await publish(provider, held), undefined);
      const before = appendRow(store, message("t", "before"));
      const beside = appendRow(store, message("t", "beside"));
      const after = appendRow(store, message("t", "after"));
      const outcomes = await Promise.all([
        publish(provider, before),
        publish(provider, beside, { kind: "hold", store, hold: hold(7), offset: 0 }),
        publish(provider, after),
      ]);
      assert.equal(kinds(outcomes), "stored failed stored");
      assert.match(outcomes[1]!.message, /plant\.db/);
      assert.deepEqual([before.offset, beside.offset, after.offset], [1, 0, 2]);
      assert.equal(store.next(), 3);
    })
  ));

Deno.test("S16 S126 a group that finds no room takes no offset, and one that fits then takes the next", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const store = provider.append("readings");
      const large = () => appendRow(store, message("t", new Uint8Array(3000)));
      let stored = 0;
      for (;;) {
        const failure = await publish(provider, large());
        if (failure !== undefined) {
          assert.equal(failure.kind, "full");
          break;
        }
        stored++;
      }
      assert.ok(stored > 5);
      assert.equal(store.next(), stored + 1);
      assert.equal(
        kinds(await Promise.all([1, 2, 3].map(() => publish(provider, large())))),
        "full full full",
      );
      // What is small still finds its place, at the offset the refused ones gave back.
      const small = appendRow(store, message("t", "x"));
      assert.equal(await publish(provider, small), undefined);
      assert.equal(small.offset, stored + 1);
      assert.equal((await store.trim(0n, 10_000)).removed > 0, true);
      const again = large();
      assert.equal(await publish(provider, again), undefined);
      assert.equal(again.offset, stored + 2);
    }, { maxBytes: 60 * 4096, reserveBytes: 10 * 4096 })
  ));

Deno.test("S186 S187 a relief write that grows the file does not lend its room to publishes", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const store = provider.append("readings");
      const jobs = provider.queue("jobs");
      jobs.setMaxAttempts(1);
      for (let i = 0; i < 4; i++) {
        const job: PublishRow = {
          kind: "enqueue",
          store: jobs,
          message: message("t", new Uint8Array(9000)),
          offset: 0,
        };
        assert.equal(await publish(provider, job), undefined);
      }
      const fill = () => publish(provider, appendRow(store, message("t", new Uint8Array(3900))));
      while (await fill() === undefined);
      const offer = (await jobs.offer(0))!;
      await jobs.lease(offer, 1n, 100);
      // The reserve takes the letter, which is larger than the job that makes room for it.
      const letter = message("t/__dlq", new Uint8Array(18_000));
      await jobs.release(offer, { spend: false, at: 1n, gapFrom: 0 });
      const moved = await jobs.deadLetter(offer.offset, offer, letter, provider.append("alarms"));
      assert.equal(moved?.offset, 1);
      assert.equal(provider.append("alarms").next(), 2);
      assert.equal((await fill())?.kind, "full");
    }, { maxBytes: 80 * 4096, reserveBytes: 12 * 4096 })
  ));

Deno.test("S28 S31 counters come back after trimming everything, and no offset is used again", () =>
  inTempDir(async (file) => {
    await withProvider(file, SPECS, async ({ provider }) => {
      const store = provider.append("readings");
      await Promise.all(
        [1, 2, 3].map(() => publish(provider, appendRow(store, message("t", "x")))),
      );
      assert.equal((await store.trim(0n, 0)).removed, 3);
      assert.deepEqual([store.next(), store.floor(), store.bytes()], [4, 4, 0]);
    });
    await withProvider(file, SPECS, async ({ provider }) => {
      const store = provider.append("readings");
      assert.deepEqual([store.next(), store.floor(), store.bytes()], [4, 4, 0]);
      const row = appendRow(store, message("t", "y"));
      assert.equal(await publish(provider, row), undefined);
      assert.equal(row.offset, 4);
    });
  }));

Deno.test("S30 S102 a channel that is no longer configured keeps counters and records", () =>
  inTempDir(async (file) => {
    await withProvider(file, SPECS, async ({ provider }) => {
      await publish(provider, appendRow(provider.append("readings"), message("t", "x")));
    });
    await withProvider(file, [{ channel: "other", kind: "append" }], () => Promise.resolve());
    await withProvider(file, SPECS, ({ provider }) => {
      assert.equal(provider.append("readings").next(), 2);
      return Promise.resolve();
    });
  }));

Deno.test("S144 S176 depth and bytes of a queue are summed at open", () =>
  inTempDir(async (file) => {
    let bytes = 0;
    await withProvider(file, SPECS, async ({ provider }) => {
      const jobs = provider.queue("jobs");
      const job = () =>
        publish(provider, {
          kind: "enqueue",
          store: jobs,
          message: message("t\u{e9}", "x", { headers: [["n", "\u{e9}"]] }),
          offset: 0,
        });
      await Promise.all([job(), job(), job()]);
      assert.equal(await jobs.resolve((await jobs.offer(0))!), true);
      bytes = jobs.bytes();
      assert.equal(bytes, 2 * (1 + 3 + 36 + 1 + 2));
    });
    await withProvider(file, SPECS, ({ provider }) => {
      assert.deepEqual([provider.queue("jobs").depth(), provider.queue("jobs").bytes()], [
        2,
        bytes,
      ]);
      return Promise.resolve();
    });
  }));

Deno.test("S45 an offset past 2^53-1 is refused, never rounded", () =>
  inTempDir(async (file) => {
    await withProvider(file, SPECS, () => Promise.resolve());
    const database = new DatabaseSync(file);
    database.exec("UPDATE channels SET next = 9007199254740993 WHERE name = 'readings'");
    database.close();
    await assert.rejects(withProvider(file, SPECS, () => Promise.resolve()), /9007199254740993/);
  }));

Deno.test("S44 S94 S95 times, headers and properties are stored as an operator reads them", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const row = appendRow(
        provider.append("readings"),
        message("t", "x", {
          timestamp: 0n,
          headers: [["k", "1"], ["k", "2"], ["__proto__", "p"]],
          properties: {
            contentType: "text",
            correlationData: new Uint8Array([255, 0]),
            payloadFormat: 1,
          },
        }),
      );
      await publish(provider, row, appendRow(provider.append("readings"), message("t", "y")));
      const database = new DatabaseSync(file, { readOnly: true });
      const rows = database.prepare("SELECT timestamp = 0 AS unset, headers, props FROM records")
        .all();
      database.close();
      assert.deepEqual(rows.map((stored) => ({ ...stored })), [
        {
          unset: 1,
          headers: '[["k","1"],["k","2"],["__proto__","p"]]',
          props: '{"contentType":"text","payloadFormat":1,"correlationData":"/wA="}',
        },
        { unset: 0, headers: null, props: null },
      ]);
    })
  ));

Deno.test("05 9 publish transactions are counted by what closed them, with the entries they stored", () => {
  const counted = (publishCommit: PublishCommit, publishes: number) =>
    inTempDir((file) =>
      withProvider(file, SPECS, async ({ provider }) => {
        const store = provider.append("readings");
        const each = () => publish(provider, appendRow(store, message("t", "x")));
        await Promise.all(Array.from({ length: publishes }, each));
        await store.savePosition(
          { reader: "bridge:up", offset: 1, expiry: 0, lastSeen: 0n },
          "connected",
        );
        const { publishCommits, publishRecords, publishMost } = provider.statistics().file!;
        result = { ...publishCommits, stored: publishRecords, most: publishMost };
      }, { publishCommit })
    );
  let result: Record<string, number> = {};
  const none = { records: 0, interval: 0, commit: 0, unbatched: 0 };
  return (async () => {
    await counted({ kind: "collecting" }, 300);
    assert.deepEqual(result, { ...none, records: 1, commit: 1, stored: 300, most: 256 });
    await counted({ kind: "each" }, 3);
    assert.deepEqual(result, { ...none, unbatched: 3, stored: 3, most: 0 });
    await counted({ kind: "interval", intervalMs: 20, maxRecords: 4 }, 6);
    assert.deepEqual(result, { ...none, records: 1, interval: 1, stored: 6, most: 4 });
  })();
});

Deno.test("05 9 what a bound or SQLite turned away is no stored entry, and a failed read is an error", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const store = provider.append("readings");
      const alarms = provider.append("alarms");
      const held: PublishRow = { kind: "hold", store: alarms, hold: hold(7), offset: 0 };
      await publish(provider, held);
      store.setMaxBytes(20);
      const outcomes = await Promise.all([
        publish(provider, appendRow(alarms, message("t", "x"))),
        publish(provider, appendRow(store, message("t", "y".repeat(100)))),
        publish(provider, { ...held, hold: hold(7) }),
      ]);
      assert.equal(kinds(outcomes), "stored full failed");
      assert.equal(provider.statistics().file!.publishRecords, 2);
      const { errors } = provider.statistics();
      const database = new DatabaseSync(file);
      database.prepare("DROP TABLE queue_items").run();
      database.close();
      await assert.rejects(provider.queue("jobs").worst(1));
      assert.equal(provider.statistics().errors, errors + 1);
    })
  ));
