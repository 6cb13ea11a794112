/** `!include` under channels and providers (02a 14, 02b 2). */
import assert from "node:assert/strict";
import { accepted, channels, FILE, findings, LEAST, load } from "./support.ts";

const NORTH = "/etc/saguin/parts/north.yaml";
const SOUTH = "/etc/saguin/parts/south.yaml";

function report(loading: ReturnType<typeof load>): string[] {
  assert.ok("findings" in loading);
  return loading.findings.trimEnd().split("\n").slice(1);
}

Deno.test("channels come from included files and from groups in place, mixed", () => {
  const configuration = accepted(load(
    channels("- !include parts/north.yaml", "- mid: {type: latest}", "  top: {type: append}"),
    { [NORTH]: "low:\n  type: append\n  storage: ram\n" },
  ));
  const places = configuration.channels.map(({ name, storage, place }) => [
    name,
    storage,
    place.file,
    `${place.line}:${place.column}`,
  ]);
  assert.deepEqual(places, [
    ["low", "ram", NORTH, "1:1"],
    ["mid", "disk", FILE, "12:5"],
    ["top", "disk", FILE, "13:5"],
  ]);
});

Deno.test("the path starts from the including file, or is absolute", () => {
  const others = { [SOUTH]: "a: {type: append}\n", "/elsewhere.yaml": "b: {type: append}\n" };
  const configuration = accepted(
    load(channels("- !include parts/south.yaml", "- !include /elsewhere.yaml"), others),
  );
  assert.deepEqual(configuration.channels.map(({ name }) => name), ["a", "b"]);
});

Deno.test("providers come from included files too, and a channel may name one from any file", () => {
  const text = LEAST.replace(/ {6}disk:[^]*/, "") + "      - !include parts/north.yaml\n" +
    "      - ram: {type: memory, snapshot_dir: none}\n" +
    "channels:\n  - !include parts/south.yaml\n";
  const configuration = accepted(load(text, {
    [NORTH]: "disk: {type: sqlite, file_path: /data/n.db}\n",
    [SOUTH]: "a: {type: append, storage: ram}\nb: {type: append, storage: disk}\n",
  }));
  assert.deepEqual([...configuration.storage.providers.keys()], ["disk", "ram"]);
  assert.deepEqual(configuration.channels.map(({ storage }) => storage), ["ram", "disk"]);
});

Deno.test("a finding in an included file names that file and its line", () => {
  const found = report(load(
    channels("- !include parts/north.yaml", "- b: {type: apend}"),
    { [NORTH]: "a:\n  type: append\n  filterr: x\n" },
  ));
  assert.deepEqual(found, [
    `${FILE}:`,
    '  - 12:15 channels.b.type "apend" is not a channel type; write append, latest or queue',
    `${NORTH}:`,
    "  - 3:3 channels.a.filterr is not a key here; did you mean filter?",
  ]);
});

Deno.test("a name in two files is refused, naming both", () => {
  const found = report(load(
    channels("- !include parts/north.yaml", "- !include parts/south.yaml"),
    { [NORTH]: "a: {type: append}\n", [SOUTH]: "\na: {type: append}\n" },
  ));
  assert.deepEqual(found, [
    `${SOUTH}:`,
    `  - 2:1 channels.a is written in two places, the other is ${NORTH}:1; rename or remove one of the two`,
  ]);
});

Deno.test("02a 1.4 a filter in two files is refused, naming both channels and the expansion", () => {
  const found = report(load(
    channels("- !include parts/north.yaml", "- !include parts/south.yaml"),
    {
      [NORTH]: 'a: {type: append, filter: "x/{1,2}"}\n',
      [SOUTH]: "b: {type: append, filter: x/2}\n",
    },
  ));
  assert.deepEqual(found, [
    `${SOUTH}:`,
    `  - 1:27 channels.b.filter "x/2" claims "x/2" for channel "b", and so does channel "a" at ${NORTH}:1; change one of the two filters`,
  ]);
});

Deno.test("one place under two providers is refused, naming both providers and both files", () => {
  const text = LEAST.replace(/ {6}disk:[^]*/, "") + "      - !include parts/north.yaml\n" +
    "      - !include parts/south.yaml\n";
  const found = report(load(text, {
    [NORTH]: "disk: {type: sqlite, file_path: /d/x}\n",
    [SOUTH]: "other: {type: sqlite, file_path: /d/./y/../x}\n",
  }));
  assert.deepEqual(found, [
    `${SOUTH}:`,
    '  - 1:34 broker.storage.providers.other.file_path "/d/./y/../x" is the same place as ' +
    `file_path of provider "disk" at ${NORTH}:1; give each provider its own`,
  ]);
});

Deno.test("an include inside an include is refused from both directions", () => {
  const says = "includes from inside an include; an included file holds names and their keys only";
  assert.deepEqual(
    report(load(channels("- !include parts/north.yaml"), { [NORTH]: "- !include south.yaml\n" })),
    [`${NORTH}:`, `  - 1:12 channels ${says}`],
  );
  assert.deepEqual(
    report(load(channels("- !include parts/north.yaml"), { [NORTH]: "a: !include south.yaml\n" })),
    [`${NORTH}:`, `  - 1:13 channels.a "!include south.yaml" ${says}`],
  );
});

Deno.test("an include anywhere else is refused", () => {
  assert.deepEqual(findings(load(`${LEAST}  limits: !include limits.yaml\n`)), [
    '10:20 broker.limits "!include limits.yaml" cannot be included; only items of a list under channels or broker.storage.providers can',
  ]);
  assert.deepEqual(findings(load(`${LEAST}channels: !include c.yaml\n`)), [
    '10:20 channels "!include c.yaml" stands alone; write it as an item of a list, after a dash',
  ]);
});

Deno.test("a pattern, a missing file and a file that holds no names are refused", () => {
  assert.deepEqual(findings(load(channels("- !include parts/*.yaml", "- !include gone.yaml"))), [
    '11:14 channels "!include parts/*.yaml" is a pattern; name each file on a line of its own',
    '12:14 channels "!include gone.yaml" cannot be read: No such file; the path starts from the including file',
  ]);
  assert.deepEqual(
    report(load(channels("- !include parts/north.yaml"), { [NORTH]: "words\n" })),
    [
      `${NORTH}:`,
      "  - 1:1 holds no mapping; write channel names and their keys, without a heading",
    ],
  );
  assert.deepEqual(
    report(load(channels("- !include parts/north.yaml"), {
      [NORTH]: "channels:\n  a: {type: append}\n",
    })),
    [
      `${NORTH}:`,
      "  - 1:1 channels.channels.type is missing; write append, latest or queue",
      "  - 2:3 channels.channels.a is not a key here; the keys are type, filter, storage, start, " +
      "retention_period, retention_bytes, max_bytes, deletion_retention_period, visibility_timeout, " +
      "job_expires_after, retry, dlq_retention_period or dlq_retention_bytes",
    ],
  );
});

Deno.test("02a 1.4 the order of groups and of channels decides nothing", () => {
  const parts = ["a: {type: append}", "b: {type: latest}", "c: {type: queue}"];
  const names = (lines: readonly string[]) =>
    accepted(load(channels(...lines.map((line) => `- ${line}`))))
      .channels.map(({ name, filter }) => [name, filter]);
  assert.deepEqual(names(parts), names(parts.toReversed()));
});
