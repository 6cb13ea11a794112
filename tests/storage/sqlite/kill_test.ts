import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { appendRow, inTempDir, message, publish, withProvider } from "./support/provider.ts";

const CHILD = new URL("./support/loaded_child.ts", import.meta.url).pathname;
const ROUNDS = 5;

/** Runs the loaded child for a while, kills it with SIGKILL, and answers what it acknowledged. */
async function runAndKill(file: string, acknowledge: string, ms: number): Promise<string[]> {
  const child = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "--no-check",
      "--allow-read",
      "--allow-write",
      "--allow-env",
      CHILD,
      file,
      acknowledge,
    ],
    stdout: "piped",
  }).spawn();
  let printed = "";
  let killAt: ReturnType<typeof setTimeout> | undefined;
  const decoder = new TextDecoder();
  for await (const bytes of child.stdout) {
    printed += decoder.decode(bytes, { stream: true });
    // The time runs from the first acknowledgement, however long the start took.
    if (killAt === undefined) killAt = setTimeout(() => child.kill("SIGKILL"), ms);
  }
  const { signal } = await child.status;
  assert.equal(signal, "SIGKILL");
  // A line the kill cut off was not read whole by anybody.
  return printed.split("\n").slice(0, -1);
}

for (const acknowledge of ["committed", "synced"]) {
  Deno.test(`X1 X2 X3 X4 X5 kill -9 under load keeps what was acknowledged (${acknowledge})`, () =>
    inTempDir(async (file) => {
      const acknowledged = new Map<number, string>();
      for (let round = 0; round < ROUNDS; round++) {
        const lines = await runAndKill(file, acknowledge, 30 + 40 * round);
        assert.ok(lines.length > 0);
        for (const line of lines) {
          const [offset, , name] = line.split(" ");
          assert.equal(acknowledged.get(Number(offset)), undefined, `offset ${offset} twice`);
          acknowledged.set(Number(offset), name);
        }
        const database = new DatabaseSync(file, { readOnly: true });
        const rows = database.prepare(
          "SELECT offset, CAST(payload AS TEXT) AS name FROM records ORDER BY offset",
        ).all() as { offset: number; name: string }[];
        const channels = database.prepare(
          "SELECT name, next, floor, bytes FROM channels ORDER BY name",
        ).all() as { next: number; floor: number; bytes: number }[];
        const [value] = database.prepare("SELECT CAST(payload AS TEXT) AS name FROM latest_values")
          .all();
        database.close();
        const stored = new Map(rows.map((row) => [row.offset, row.name]));
        for (const [offset, name] of acknowledged) assert.equal(stored.get(offset), name);
        assert.deepEqual(rows.map((row) => row.offset), rows.map((_, i) => i + 1), "no hole");
        assert.equal(new Set(stored.values()).size, rows.length, "no publish twice");
        assert.equal(channels[0].next, rows.length + 1);
        assert.equal(channels[0].floor, 1);
        const size = rows.reduce((sum, row) => sum + 37 + row.name.length, 0);
        assert.equal(channels[0].bytes, size);
        // Both rows of an entry or neither: the value is that of the last record.
        assert.equal(value.name, rows.at(-1)!.name);
        assert.equal(channels[1].next, rows.length + 1);
      }
      await withProvider(file, [{ channel: "readings", kind: "append" }], async ({ provider }) => {
        const store = provider.append("readings");
        const next = store.next();
        const row = appendRow(store, message("t", "after"));
        assert.equal(await publish(provider, row), undefined);
        assert.equal(row.offset, next);
      });
    }));
}
