/**
 * A built file where it is brought to: SAGUIN_BIN names it, or a script of support/ that runs it as
 * somebody else, or on another processor. SAGUIN_MACHINE names the processor.
 */
import assert from "node:assert/strict";
import { BROADCAST_LOG } from "../../../src/storage/contract.ts";
import { openFile } from "../../../src/storage/snapshot/file_header.ts";
import { MAGIC } from "../../../src/storage/snapshot/format.ts";
import { VERSION } from "../../../src/version.ts";
import { CHANNELS, checkSessions, live } from "../../crash/household.ts";
import { rowsOf } from "../../storage/migrate/support.ts";
import {
  BrokerProcess,
  configurationText,
  type Outcome,
  runToEnd,
  temporaryPlace,
} from "../../support/broker_process.ts";
import { patient } from "../../support/wait.ts";

const MACHINE = Deno.env.get("SAGUIN_MACHINE") ?? Deno.build.arch;
/** The first of all starts unpacks. */
const UNPACK_MS = patient(60_000);
/** Tables of what a channel holds, which is what a migration moves. */
const MOVED = ["records", "latest_values", "queue_items", "positions"];

/** The rows of a database that a migration moves: not the log of what sessions are owed. */
function moved(path: string): Record<string, unknown[]> {
  const rows = rowsOf(path);
  const found: Record<string, unknown[]> = {};
  for (const table of MOVED) {
    found[table] = rows[table].filter((row) =>
      (row as { channel: string }).channel !== BROADCAST_LOG
    );
    assert.ok(found[table].length > 0, table);
  }
  return found;
}

/** The revisions that snapshots say they were written by (S49). */
function writersOf(directory: string): Set<string> {
  const files = [...Deno.readDirSync(directory)].filter(({ isFile }) => isFile)
    .map(({ name }) => Deno.readFileSync(`${directory}/${name}`))
    .filter((bytes) => MAGIC.every((byte, i) => bytes[i] === byte));
  return new Set(files.map((bytes) => openFile(bytes, undefined).header.writer));
}

async function good(args: readonly string[], timeoutMs?: number): Promise<Outcome> {
  const outcome = await runToEnd(args, timeoutMs);
  assert.equal(outcome.code, 0, outcome.stderr);
  return outcome;
}

Deno.test("a built file runs, stores, survives kill -9 and migrates a backup both ways", async () => {
  const place = temporaryPlace();
  // Whoever the file is run as has nothing here but this directory.
  Deno.chmodSync(place.directory, 0o777);
  const pidFile = `${place.directory}/pid`;
  const path = `${place.directory}/saguin.yaml`;
  try {
    const version = (await good(["--version"], UNPACK_MS)).stdout;
    const form =
      /^saguin (\S+) \(([0-9a-f]{12}(?:\+changes)?), (portable|compiled), Deno \S+, V8 \S+, (\w+)-unknown-linux-gnu\)\n$/;
    assert.match(version, form);
    const [, says, revision, , machine] = form.exec(version)!;
    assert.deepEqual([says, machine], [VERSION, MACHINE]);

    const text = () =>
      configurationText(place, {
        channels: CHANNELS,
        // Under an emulator minutes lie between a hold and its release.
        broker: `pid_file: ${pidFile}\nqos2: {expires_after: 1h}`,
      });
    Deno.writeTextFileSync(path, text());
    const checked = await good(["--check-config", path]);
    assert.match(checked.stdout, /: ok\nchannel "events" \(append\)\n/);

    {
      await using broker = await BrokerProcess.start(text, place);
      await live(broker.port);
      assert.equal(Number(Deno.readTextFileSync(pidFile)), broker.pid);
      await broker.kill();
      await broker.startAgain();
      await checkSessions(broker.port);
      assert.deepEqual(await broker.stop(), { code: 0, signal: null });
      // After a clean close the main file alone is a complete database (S148).
      const at = (name: string) => `${place.directory}/${name}`;
      Deno.copyFileSync(place.database, at("backup.db"));
      Deno.chmodSync(at("backup.db"), 0o666);
      await good(["--sqlite-to-snapshots", at("backup.db"), at("snapshots")]);
      assert.deepEqual(writersOf(at("snapshots")), new Set([revision]));
      await good(["--snapshots-to-sqlite", at("snapshots"), at("returned.db")]);
      assert.deepEqual(moved(at("returned.db")), moved(at("backup.db")));
    }
  } finally {
    await Deno.remove(place.directory, { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }
});
