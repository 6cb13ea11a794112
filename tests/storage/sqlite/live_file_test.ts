import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { type StorageFailure, type StoreSpec } from "../../../src/storage/contract.ts";
import { appendRow, inTempDir, message, publish, withProvider } from "./support/provider.ts";

const SPECS: StoreSpec[] = [{ channel: "readings", kind: "append" }];

async function sqlite3(...args: string[]): Promise<string> {
  const output = await new Deno.Command("sqlite3", { args }).output();
  assert.equal(new TextDecoder().decode(output.stderr), "");
  return new TextDecoder().decode(output.stdout).trim();
}

Deno.test("S149 sqlite3 reads the running file, what is not checkpointed included", () =>
  inTempDir((file, dir) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const store = provider.append("readings");
      for (let i = 1; i <= 3; i++) {
        await publish(provider, appendRow(store, message("plant/t", `p${i}`)));
        const rows = await sqlite3(
          "-readonly",
          file,
          "SELECT group_concat(offset || ':' || CAST(payload AS TEXT), ' ') FROM records; PRAGMA user_version",
        );
        const stored = Array.from({ length: i }, (_, j) => `${j + 1}:p${j + 1}`).join(" ");
        assert.equal(rows, `${stored}\n20`);
      }
      await sqlite3(file, `VACUUM INTO '${dir}/copy.db'`);
      assert.equal(await sqlite3(`${dir}/copy.db`, "SELECT next FROM channels"), "4");
      // The reader's going did not take the broker's locks with it.
      assert.equal(await publish(provider, appendRow(store, message("t", "p4"))), undefined);
    })
  ));

Deno.test("S81 S158 a program that holds the write lock for a moment delays a publish and fails none", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const other = new DatabaseSync(file);
      other.exec("BEGIN IMMEDIATE");
      const outcome = publish(provider, appendRow(provider.append("readings"), message("t", "x")));
      await new Promise((resolve) => setTimeout(resolve, 200));
      assert.equal(provider.append("readings").next(), 1);
      other.exec("COMMIT");
      other.close();
      assert.equal(await outcome, undefined);
    })
  ));

Deno.test("X36 S119 a writer that dies fails what it was given and what waits, and says so once", () =>
  inTempDir(async (file) => {
    const workers: Worker[] = [];
    await withProvider(file, SPECS, async ({ provider, fatal }) => {
      const store = provider.append("readings");
      assert.equal(await publish(provider, appendRow(store, message("t", "kept"))), undefined);
      workers.find((worker) => worker !== undefined)!.postMessage({ ask: "nonsense" });
      const outcomes: (StorageFailure | undefined)[] = await Promise.all([
        publish(provider, appendRow(store, message("t", "lost"))),
        new Promise<StorageFailure | undefined>((resolve) =>
          setTimeout(
            () => publish(provider, appendRow(store, message("t", "late"))).then(resolve),
            50,
          )
        ),
      ]);
      assert.deepEqual(outcomes.map((failure) => failure?.kind), ["failed", "failed"]);
      assert.equal(fatal.length, 1);
      assert.match(fatal[0].message, /plant\.db: a worker thread ended: .*nonsense/);
      assert.equal(store.next(), 2);
      await assert.rejects(store.savePosition(
        { reader: "bridge:b", offset: 1, expiry: 0, lastSeen: 0n },
        "connected",
      ));
    }, {
      spawn: (name) => {
        const worker = new Worker(new URL("./support/worker_entry.ts", import.meta.url), {
          type: "module",
          name,
        });
        workers.push(worker);
        return worker;
      },
    });
    await withProvider(file, SPECS, ({ provider }) => {
      assert.equal(provider.append("readings").next(), 2);
      return Promise.resolve();
    });
  }));

Deno.test("DESIGN 2 S182 the log stays within its bound under load while consumers read", () =>
  inTempDir((file) =>
    withProvider(file, SPECS, async ({ provider }) => {
      const store = provider.append("readings");
      const payload = new Uint8Array(20_000);
      let peak = 0;
      let written = 0;
      let done = false;
      await publish(provider, appendRow(store, message("t", payload)));
      const reader = (async () => {
        while (!done) await store.readFrom(Math.max(1, store.next() - 40), 40, 1e6);
      })();
      // 300 MiB through a log that is bounded at 64, and what arrives during a pass on top.
      while (written < 300 * 1024 * 1024) {
        const outcomes = await Promise.all(
          Array.from({ length: 64 }, () =>
            publish(provider, appendRow(store, message("t", payload)))),
        );
        assert.ok(outcomes.every((failure) =>
          failure === undefined
        ));
        written += 64 * payload.length;
        peak = Math.max(peak, Deno.statSync(file + "-wal").size);
      }
      done = true;
      await reader;
      assert.ok(peak < 160 * 1024 * 1024, `the log grew to ${peak} bytes`);
      assert.ok(Deno.statSync(file).size > 200 * 1024 * 1024);
    })
  ));

Deno.test("S197 with acknowledge synced nothing is settled before the flush that covers its commit has ended", () =>
  inTempDir(async (file) => {
    const flushes: { end(): void; fail(error: Error): void }[] = [];
    await withProvider(file, SPECS, async ({ provider, log }) => {
      const store = provider.append("readings");
      let settled = 0;
      const count = () =>
        publish(provider, appendRow(store, message("t", "x"))).then((failure) => {
          settled++;
          return failure?.kind;
        });
      const first = count();
      while (flushes.length === 0) await new Promise((resolve) => setTimeout(resolve, 1));
      const second = count();
      // Committed meanwhile, and visible: only the answers wait.
      while (store.next() < 3) await new Promise((resolve) => setTimeout(resolve, 1));
      assert.equal(settled, 0);
      flushes[0].end();
      assert.equal(await first, undefined);
      while (flushes.length === 1) await new Promise((resolve) => setTimeout(resolve, 1));
      assert.equal(settled, 1);
      flushes[1].fail(new Error("Input/output error"));
      assert.equal(await second, "failed");
      assert.equal(provider.errors, 1);
      assert.equal(log.lines.filter((line) => line.level === "error").length, 1);
      // From then on the log is copied into the file before anything is answered.
      assert.equal(await count(), undefined);
      assert.equal(flushes.length, 2);
      const third = count();
      while (flushes.length === 2) await new Promise((resolve) => setTimeout(resolve, 1));
      flushes[2].end();
      assert.equal(await third, undefined);
    }, {
      acknowledge: "synced",
      flushIntervalMs: 3_600_000,
      openLog: () => ({
        syncData: () => new Promise((end, fail) => flushes.push({ end, fail })),
        close() {},
      }),
    });
  }));
