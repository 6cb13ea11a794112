/** What a start says of its providers before anything is stored. */
import assert from "node:assert/strict";
import { makeProviders } from "../../src/cli/providers.ts";
import { HeapTimers } from "../../src/platform/timers.ts";
import { ManualTime, RecordingLog } from "../broker/rig.ts";
import { accepted, load } from "../config/support.ts";

/** A configuration whose default provider is the first of `providers`, one flow mapping a line. */
function said(providers: readonly string[], more = "") {
  const log = new RecordingLog();
  const clock = new ManualTime();
  const text = `broker:
  id: b
  storage:
    default: ${providers[0].split(":")[0]}
    default_retention_period: none
    default_retention_bytes: none
    providers:
${providers.map((line) => `      ${line}\n`).join("")}${more}`;
  const made = makeProviders(accepted(load(text)), {
    clock,
    timers: new HeapTimers(clock, (error) => {
      throw error;
    }),
    log,
    revision: "abc",
    spawn: () => assert.fail("a worker is started before anything is opened"),
    onFatal: (error) => assert.fail(error),
  });
  return { lines: log.lines, made: [...made.keys()] };
}

const NOTHING = "nothing outlives this process: every provider in use is memory without a snapshot";
const DISK = "disk: {type: sqlite, file_path: /data/b.db}";
const LOST = "ram: {type: memory, snapshot_dir: none}";
const KEPT = "kept: {type: memory, snapshot_dir: /data/snapshots}";

Deno.test("S3 a configuration that keeps nothing anywhere is warned of, in one line", () => {
  const only = (providers: readonly string[], more = "") =>
    said(providers, more).lines.filter(({ msg }) => msg === NOTHING);
  assert.equal(only([LOST]).length, 1);
  assert.equal(only([LOST])[0].level, "warn");
  assert.equal(only([LOST, DISK]).length, 1, "a provider that keeps nothing does not count");
  assert.equal(only([LOST, DISK], "channels:\n  a: {type: append, storage: disk}\n").length, 0);
  assert.equal(only([KEPT]).length, 0);
  assert.equal(only([DISK]).length, 0);
});

Deno.test("S4 a provider that nothing names is not made, and is mentioned once", () => {
  const { lines, made } = said([KEPT, DISK, LOST]);
  assert.deepEqual(made, ["kept"]);
  assert.deepEqual(
    lines.filter(({ msg }) => msg === "a storage provider is configured and keeps nothing")
      .map(({ fields }) => fields.provider),
    ["disk", "ram"],
  );
  const used = said([KEPT, DISK, LOST], "channels:\n  a: {type: latest, storage: disk}\n");
  assert.deepEqual(used.made, ["kept", "disk"]);
});

Deno.test("02b 3.3 the bounds of memory providers are stated as one sum", () => {
  const sum = (providers: readonly string[], more: string) =>
    said(providers, more).lines.filter(({ msg }) => msg.includes("together"))
      .map(({ fields }) => fields);
  const bounded = (name: string) => `${name}: {type: memory, snapshot_dir: none, max_bytes: 64MiB}`;
  const channels = "channels:\n  a: {type: append, storage: y}\n  b: {type: append, storage: z}\n";
  assert.deepEqual(
    sum([bounded("x"), bounded("y"), "z: {type: memory, snapshot_dir: none}"], channels),
    [{ max_bytes: 128 * 1024 * 1024, providers: 3, without_bound: 1 }],
  );
  assert.deepEqual(sum([bounded("x"), DISK.replace("}", ", max_bytes: 64MiB}")], ""), [
    { max_bytes: 64 * 1024 * 1024, providers: 1, without_bound: 0 },
  ]);
  assert.deepEqual(sum([KEPT], ""), []);
});
