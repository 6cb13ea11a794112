import assert from "node:assert/strict";
import { DatabaseSync } from "node:sqlite";
import { readArguments } from "../../src/cli/arguments.ts";
import { checkStorage } from "../../src/cli/check_storage.ts";
import { snapshotsToSqlite } from "../../src/storage/migrate/snapshots_to_sqlite.ts";
import { Dice } from "../storage/conformance/random_steps.ts";
import {
  drawState,
  inDirectory,
  RecordedReport,
  STAMP,
  writeSnapshots,
} from "../storage/migrate/support.ts";

async function run(path: string) {
  const outcome = { stdout: "", stderr: "" };
  const code = await checkStorage(path, {
    stdout: (text) => outcome.stdout += text,
    stderr: (text) => outcome.stderr += text,
  }, false);
  return { code, ...outcome };
}

Deno.test("--check-storage takes one path", () => {
  assert.deepEqual(readArguments(["--check-storage", "/a.db"]), {
    kind: "check-storage",
    path: "/a.db",
  });
  const refused = readArguments(["--check-storage", "/a.db", "/b.db"]);
  assert.ok("refusal" in refused);
  assert.equal(refused.refusal, "--check-storage takes nothing more; remove /b.db");
});

Deno.test("--check-storage says ok with 0, every finding with 1, and notes beside them", () =>
  inDirectory(async (path) => {
    const state = drawState(new Dice(1), 2);
    const channels = state.channels.filter(({ name }) => name === "events");
    const [snapshots, file] = [`${path}/snapshots`, `${path}/a.db`];
    await writeSnapshots(snapshots, { channels, sessions: [], groups: [] });
    await snapshotsToSqlite(snapshots, file, STAMP, new RecordedReport());
    const { length } = channels[0].records;
    const size = `1 channel, ${length} ${length === 1 ? "entry" : "entries"}, 0 sessions`;
    for (const path of [snapshots, file]) {
      assert.deepEqual(await run(path), { code: 0, stdout: `${path}: ok, ${size}\n`, stderr: "" });
    }
    Deno.writeTextFileSync(`${snapshots}/x.tmp`, "");
    assert.deepEqual(await run(snapshots), {
      code: 0,
      stdout: `${snapshots}: ok, ${size}\n`,
      stderr: `note: ${snapshots}/x.tmp was never finished; the next start removes it\n`,
    });
    const database = new DatabaseSync(file);
    database.exec("UPDATE channels SET bytes = -1, name = 'a\nb'; DELETE FROM positions");
    database.exec("UPDATE records SET channel = 'a\nb'");
    database.close();
    const found = await run(file);
    assert.equal(found.code, 1);
    assert.match(
      found.stdout,
      /^channel a\\nb counts its bytes wrongly: -1, not \d+\n\S+: 1 finding, /,
    );
    assert.equal(found.stderr, "");
    const gone = await run(`${path}/gone`);
    assert.deepEqual([gone.code, gone.stdout], [1, ""]);
    assert.match(gone.stderr, /^saguin: \S+\/gone cannot be checked: No such file.*\n$/);
    assert.deepEqual(await run("/dev/zero"), {
      code: 1,
      stdout: "",
      stderr:
        "saguin: /dev/zero cannot be checked: it is neither a database file nor a directory\n",
    });
  }));
