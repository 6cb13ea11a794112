import assert from "node:assert/strict";
import {
  BrokerProcess,
  configurationText,
  type Place,
  runToEnd,
  temporaryPlace,
} from "../support/broker_process.ts";

const CHANNELS = "readings:\n  type: append";

/** What a directory holds, names only, in order. */
function contents(directory: string): string[] {
  return [...Deno.readDirSync(directory)].map(({ name }) => name).sort();
}

/** A configuration on disk in `place`, started until it gives up. */
async function refusedStart(place: Place, text: string) {
  const file = place.directory + "/saguin.yaml";
  Deno.writeTextFileSync(file, text);
  const before = contents(place.directory);
  const outcome = await runToEnd(["--config", file]);
  return { ...outcome, file, before, after: contents(place.directory) };
}

/** One line, naming what and where; non-zero; the directory as it was. */
function assertRefused(outcome: Awaited<ReturnType<typeof refusedStart>>, ...named: string[]) {
  assert.notEqual(outcome.code, 0, "the exit code of a refused start");
  assert.equal(outcome.signal, null);
  for (const name of named) {
    assert.ok(outcome.stderr.includes(name), `${name} is named in: ${outcome.stderr}`);
  }
  assert.ok(!outcome.stderr.includes("    at "), `no stack trace in: ${outcome.stderr}`);
  assert.deepEqual(outcome.after, outcome.before, "nothing is created");
}

Deno.test("a refused start: the file is not YAML", async () => {
  const outcome = await refusedStart(temporaryPlace(), "broker: [\n");
  assertRefused(outcome, outcome.file, "configuration is invalid:");
});

Deno.test("a refused start: an unknown key, with file, line and key", async () => {
  const place = temporaryPlace();
  const text = configurationText(place, { channels: CHANNELS + "\n  colour: red" });
  const outcome = await refusedStart(place, text);
  const line = text.split("\n").findIndex((each) => each.includes("colour")) + 1;
  assertRefused(outcome, outcome.file, `${line}:`, "channels.readings.colour");
});

Deno.test("a refused start: the configuration is not there", async () => {
  const missing = temporaryPlace().directory + "/nowhere.yaml";
  const outcome = await runToEnd(["--config", missing]);
  assert.notEqual(outcome.code, 0);
  assert.ok(outcome.stderr.includes(missing), outcome.stderr);
});

Deno.test("a refused start: the port is in use, and no database is created", async () => {
  const place = temporaryPlace();
  using _taken = Deno.listen({ hostname: "127.0.0.1", port: place.port });
  const outcome = await refusedStart(place, configurationText(place, { channels: CHANNELS }));
  assertRefused(outcome, `127.0.0.1:${place.port}`, "broker.mqtt.listen.tcp");
});

Deno.test("S89 a refused start: the database is of another user_version", async () => {
  const place = temporaryPlace();
  const made = await new Deno.Command("sqlite3", {
    args: [place.database, "CREATE TABLE records(x); PRAGMA user_version = 19;"],
  }).output();
  assert.equal(made.code, 0);
  const bytes = Deno.readFileSync(place.database);
  const outcome = await refusedStart(place, configurationText(place, { channels: CHANNELS }));
  assertRefused(outcome, place.database, "version 19", "version 20");
  assert.deepEqual(Deno.readFileSync(place.database), bytes, "the file is as it was");
});

Deno.test("a refused start: the directory of the database is missing", async () => {
  const place = temporaryPlace();
  const database = place.directory + "/missing/broker.db";
  const text = configurationText({ ...place, database }, { channels: CHANNELS });
  assertRefused(await refusedStart(place, text), database);
});

Deno.test("a refused start: no permission to write where the database goes", async () => {
  // Root writes anywhere, so the obstacle is one that stops root too: a file for a directory.
  const place = temporaryPlace();
  Deno.writeTextFileSync(place.directory + "/plain", "");
  const database = place.directory + "/plain/broker.db";
  const text = configurationText({ ...place, database }, { channels: CHANNELS });
  assertRefused(await refusedStart(place, text), database);
});

Deno.test("S153 a second broker on one file is refused, naming the provider and the lock", async () => {
  await using first = await BrokerProcess.start((place) =>
    configurationText(place, { channels: CHANNELS })
  );
  const place = temporaryPlace();
  const text = configurationText({ ...place, database: first.database }, { channels: CHANNELS });
  const outcome = await refusedStart(place, text);
  assertRefused(outcome, '"store"', first.database + ".lock");
  assert.equal((await first.stop()).code, 0, "the first broker was not disturbed");
});

Deno.test("a refused start: files where the runtime lets no program go, said without its advice", async () => {
  for (const closed of ["/proc/saguin/broker.db", "/sys/saguin.db", "/dev/saguin.db"]) {
    const place = temporaryPlace();
    const text = configurationText({ ...place, database: closed }, { channels: CHANNELS });
    const outcome = await refusedStart(place, text);
    assertRefused(outcome, closed, "files under /proc, /sys and /dev are closed to this program");
    assert.ok(!outcome.stderr.includes("--allow"), outcome.stderr);
  }
});

Deno.test("02a 12.1 a refused start: the pid file cannot be written, and the database is closed again", async () => {
  const place = temporaryPlace();
  const missing = `${place.directory}/missing/saguin.pid`;
  const text = configurationText(place, { channels: CHANNELS, broker: `pid_file: ${missing}` });
  const { code, stderr, after } = await refusedStart(place, text);
  assert.equal(code, 1);
  assert.equal(
    stderr,
    `saguin: broker.pid_file ${missing} cannot be written: No such file or directory\n`,
  );
  assert.ok(after.includes("broker.db") && !after.includes("broker.db-wal"), after.join(" "));
});
